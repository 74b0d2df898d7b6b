// SPDX-License-Identifier: Apache-2.0
// Graphs that the interpreter and engines are both tested with.
#pragma once

#include <string_view>

namespace camshaft::kernels {

// Adds a captured step in every round, and stacks the sums.
inline constexpr std::string_view kSumLoop = R"(graph "g" {
    input trips: int64[]
    input go: bool[]
    input start: float[]
    input step: float[]
    sum: float[], seen: float[?0run] = Loop(trips, go, start, step) {scan_output_axes=[0]} graph "body" {
      input k: int64[]
      input on: bool[]
      input value: float[]
      input delta: float[]
      on_out: bool[] = Unary(on) {op=identity}
      next: float[] = ElementWise(value, delta) {op=add}
      copy: float[] = Unary(next) {op=identity}
      output on_out
      output next
      output copy
    }
    output sum
    output seen
  })";

}  // namespace camshaft::kernels
