// SPDX-License-Identifier: Apache-2.0
#include "trace/clock.h"

#include <algorithm>

namespace camshaft::trace {

Clock::Clock(const Trace& trace, bool rounded)
    : rounded_(rounded && !trace.integral_times), integral_(trace.integral_times) {
  origin_ns_ = std::numeric_limits<int64_t>::max();
  if (trace.events.size() > 0) origin_ns_ = trace.events.start_ns.front();
  if (trace.memory.size() > 0) origin_ns_ = std::min(origin_ns_, trace.memory.time_ns.front());
  if (origin_ns_ == std::numeric_limits<int64_t>::max()) origin_ns_ = 0;
}

// The double nearest to the decimal text: 64-bit mantissas leave one rounding.
double Clock::microseconds(int64_t ns) {
  return static_cast<double>(static_cast<long double>(ns) / 1000.0L);
}

Value Clock::value(double us) const {
  if (integral_ && us == std::floor(us) && std::abs(us) < 9e15) return static_cast<int64_t>(us);
  return us;
}

Value Clock::point(Ticks time) const {
  if (rounded_) return value(time);
  const int64_t ns = origin_ns_ + static_cast<int64_t>(time);
  if (integral_ && ns % 1000 == 0) return ns / 1000;
  return microseconds(ns);
}

}  // namespace camshaft::trace
