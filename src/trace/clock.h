// SPDX-License-Identifier: Apache-2.0
// The time unit of the analysis. Ticks are doubles that hold exact nanoseconds since the trace
// began; only in the original's mode, on files with fractional times, they are its own rounded
// microseconds.
#pragma once

#include <cmath>
#include <cstdint>

#include "trace/answers.h"
#include "trace/trace.h"

namespace camshaft::trace {

using Ticks = double;

class Clock {
 public:
  Clock() = default;
  // `rounded`: what a program sees that keeps microseconds in doubles.
  Clock(const Trace& trace, bool rounded);

  Ticks start(int64_t ns) const {
    return rounded_ ? microseconds(ns) : static_cast<double>(ns - origin_ns_);
  }
  Ticks duration(int64_t ns) const { return rounded_ ? microseconds(ns) : static_cast<double>(ns); }
  int64_t nanoseconds(Ticks time) const {
    return rounded_ ? std::llround(time * 1000) : origin_ns_ + static_cast<int64_t>(time);
  }

  // A length in microseconds as the answers give it: whole when the file is.
  Value length(Ticks ticks) const { return value(to_us(ticks)); }
  // A sum of lengths: a whole zero where there was nothing to add up, as Python has it.
  Value sum(Ticks ticks) const { return ticks == 0 ? Value(int64_t{0}) : length(ticks); }
  double to_us(Ticks ticks) const { return rounded_ ? ticks : ticks / 1000; }
  // A point in time, in the file's own microseconds.
  Value point(Ticks time) const;
  Ticks from_us(double us) const { return rounded_ ? us : us * 1000; }
  Ticks point_from_us(int64_t us) const { return start(us * 1000); }
  bool integral() const { return integral_; }
  int64_t origin_ns() const { return origin_ns_; }

 private:
  static double microseconds(int64_t ns);
  Value value(double us) const;

  int64_t origin_ns_ = 0;
  bool rounded_ = false;
  bool integral_ = true;
};

// The end of an event less its start, in the clock's own arithmetic.
inline Ticks event_length(const Trace& trace, const Clock& clock, uint32_t event) {
  const Ticks start = clock.start(trace.events.start_ns[event]);
  return start + clock.duration(trace.events.duration_ns[event]) - start;
}

}  // namespace camshaft::trace
