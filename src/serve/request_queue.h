// SPDX-License-Identifier: Apache-2.0
// The requests that wait for a model, by priority and in the order they came. Not thread safe: the
// model locks.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "batching/arrivals.h"
#include "batching/batch_policy.h"
#include "serve/request.h"

namespace camshaft::serve {

using batching::WaitingRows;

// Whether two requests can be in one batch: all extents but the first are the same.
bool have_same_shapes(const Request& a, const Request& b);

class RequestQueue {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t size_at(uint64_t priority) const;

  void push(RequestPtr request);

  // What the next batch of at most `limit` rows could take; not batched: the first one only.
  WaitingRows view(bool is_batched, int64_t limit, Clock::time_point now) const;
  // The first `count` requests of that view.
  std::vector<RequestPtr> take(bool is_batched, int64_t limit, size_t count);
  // Removes those whose deadline has passed.
  std::vector<RequestPtr> take_expired(Clock::time_point now);
  std::vector<RequestPtr> take_all();

 private:
  // Calls visit(level, index in it) for every request the next batch could take, in order.
  template <class Visit>
  bool walk(bool is_batched, int64_t limit, const Visit& visit) const;

  std::map<uint64_t, std::deque<RequestPtr>> levels_;
  size_t size_ = 0;
  size_t with_deadline_ = 0;

  batching::Arrivals arrivals_;
};

}  // namespace camshaft::serve
