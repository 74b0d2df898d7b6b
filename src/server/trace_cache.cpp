// SPDX-License-Identifier: Apache-2.0
#include "server/trace_cache.h"

#include "server/trace_stream.h"

namespace camshaft::server {
namespace {

constexpr size_t kKept = 16;  // files, on disk where they are large

BodyPtr pack(const Answer& answer) {
  const bool is_packed = answer.trace_file.size() > 3 &&
                         answer.trace_file.substr(answer.trace_file.size() - 3) == ".gz";
  if (is_packed && !answer.counters && answer.left_out.empty()) {
    auto file = Body::of_file(answer.trace_file);
    return file.ok() ? *file : nullptr;
  }
  auto body = std::make_shared<Body>();
  const Status done = stream_trace(answer.trace_file, answer.counters, answer.left_out,
                                   [&](std::string_view piece) { return body->append(piece); });
  return done.ok() ? body : nullptr;
}

bool same_owner(const std::weak_ptr<const void>& a, const std::shared_ptr<const void>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

void TraceCache::get(const Answer& answer, Done done) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    forget_old();
    for (const auto& known : entries_)
      if (same_owner(known->of, answer.profile)) entry = known;
    if (entry != nullptr && !entry->is_ready) {
      entry->waiting.push_back(std::move(done));
      return;
    }
    if (entry != nullptr) {
      done(entry->body);
      return;
    }
    entry = std::make_shared<Entry>();
    entry->of = answer.profile;
    entries_.push_front(entry);
  }
  const BodyPtr body = pack(answer);
  std::vector<Done> waiting;
  {
    const std::lock_guard lock(mutex_);
    entry->body = body;
    entry->is_ready = true;
    waiting.swap(entry->waiting);
    if (body == nullptr) entries_.remove(entry);  // the next one tries again
  }
  done(body);
  for (const Done& next : waiting) next(body);
}

void TraceCache::forget_old() {
  size_t kept = 0;
  std::erase_if(entries_, [&](const std::shared_ptr<Entry>& entry) {
    return entry->is_ready && (entry->of.expired() || ++kept >= kKept);
  });
}

}  // namespace camshaft::server
