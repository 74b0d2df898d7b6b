// SPDX-License-Identifier: Apache-2.0
#include "serve/request_queue.h"

#include <algorithm>

namespace camshaft::serve {
namespace {

constexpr int kMostSkipped = 64;  // requests of other shapes that are looked past

double us_of(Clock::time_point time) {
  return us_between(Clock::time_point(), time);
}

}  // namespace

bool have_same_shapes(const Request& a, const Request& b) {
  for (size_t k = 0; k < a.inputs.size(); ++k) {
    const Dims& x = a.inputs[k].dims;
    const Dims& y = b.inputs[k].dims;
    if (x.size() != y.size() ||
        !std::equal(x.begin() + (x.empty() ? 0 : 1), x.end(), y.begin() + (y.empty() ? 0 : 1)))
      return false;
  }
  return true;
}

size_t RequestQueue::size_at(uint64_t priority) const {
  const auto level = levels_.find(priority);
  return level == levels_.end() ? 0 : level->second.size();
}

void RequestQueue::push(RequestPtr request) {
  arrivals_.came(us_of(request->arrived), request->rows);
  if (request->deadline != Clock::time_point::max()) ++with_deadline_;
  levels_[request->priority].push_back(std::move(request));
  ++size_;
}

template <class Visit>
bool RequestQueue::walk(bool is_batched, int64_t limit, const Visit& visit) const {
  const Request* first = nullptr;
  int64_t rows = 0;
  size_t taken = 0;
  int skipped = 0;
  for (const auto& [priority, level] : levels_) {
    for (size_t k = 0; k < level.size(); ++k) {
      const Request& request = *level[k];
      const bool fits = first == nullptr || (is_batched && rows + request.rows <= limit &&
                                             have_same_shapes(*first, request));
      if (!fits) {
        if (!is_batched || rows >= limit || ++skipped > kMostSkipped) return false;
        continue;
      }
      if (first == nullptr) first = &request;
      rows += request.rows;
      ++taken;
      visit(priority, k, rows, request);
    }
  }
  return taken == size_;
}

WaitingRows RequestQueue::view(bool is_batched, int64_t limit, Clock::time_point now) const {
  WaitingRows waiting;
  waiting.is_all =
      walk(is_batched, limit, [&](uint64_t, size_t, int64_t rows, const Request& request) {
        if (waiting.rows_up_to.empty()) waiting.oldest_us = us_between(request.arrived, now);
        waiting.rows_up_to.push_back(rows);
      });
  waiting.newest_us = arrivals_.since_newest_us(us_of(now));
  waiting.rows_per_us = arrivals_.rows_per_us(us_of(now));
  return waiting;
}

std::vector<RequestPtr> RequestQueue::take(bool is_batched, int64_t limit, size_t count) {
  std::vector<std::pair<uint64_t, size_t>> places;
  walk(is_batched, limit, [&](uint64_t priority, size_t k, int64_t, const Request&) {
    if (places.size() < count) places.emplace_back(priority, k);
  });
  std::vector<RequestPtr> taken;
  taken.reserve(places.size());
  for (const auto& [priority, k] : places) taken.push_back(std::move(levels_[priority][k]));
  for (auto level = levels_.begin(); level != levels_.end();) {
    std::erase(level->second, nullptr);
    level = level->second.empty() ? levels_.erase(level) : std::next(level);
  }
  size_ -= taken.size();
  for (const RequestPtr& request : taken)
    if (request->deadline != Clock::time_point::max()) --with_deadline_;
  return taken;
}

std::vector<RequestPtr> RequestQueue::take_expired(Clock::time_point now) {
  std::vector<RequestPtr> expired;
  if (with_deadline_ == 0) return expired;
  for (auto& [priority, level] : levels_)
    std::erase_if(level, [&](const RequestPtr& request) {
      if (request->deadline > now) return false;
      expired.push_back(request);
      return true;
    });
  std::erase_if(levels_, [](const auto& level) { return level.second.empty(); });
  size_ -= expired.size();
  with_deadline_ -= expired.size();
  return expired;
}

std::vector<RequestPtr> RequestQueue::take_all() {
  std::vector<RequestPtr> all;
  for (auto& [priority, level] : levels_) all.insert(all.end(), level.begin(), level.end());
  levels_.clear();
  size_ = with_deadline_ = 0;
  return all;
}

}  // namespace camshaft::serve
