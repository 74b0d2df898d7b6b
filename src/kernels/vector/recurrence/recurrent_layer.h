// SPDX-License-Identifier: Apache-2.0
// What the kernels of recurrences share: inputs and outputs in either layout, lengths of batch
// items, the functions of gates.
#pragma once

#include <cstring>
#include <string>

#include "kernels/kernel.h"
#include "kernels/prepared.h"
#include "kernels/vector/recurrence/gates.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

enum RecurrenceInput {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes,
  kWScale,  // of weights as codes
  kWZero,
  kRScale,
  kRZero,
};

inline bool has(const Problem& p, RecurrenceInput input) {
  return p.inputs.size() > input && p.inputs[input].present;
}
inline bool has(const KernelArgs& args, RecurrenceInput input) {
  return args.inputs.size() > input && args.inputs[input].present();
}

inline bool is_float_constant(const ProblemTensor& tensor) {
  return tensor.constant && tensor.type == DataType::kFloat;
}

// Whatever the weights are.
inline std::string refuse_recurrence(const Problem& p) {
  const auto& attrs = p.layer->as<ir::RnnAttrs>();
  if (p.inputs[kX].type != DataType::kFloat) return "not float";
  if (has(p, kB) && !is_float_constant(p.inputs[kB])) return "the bias is not a float constant";
  if (has(p, kPeepholes) && p.inputs[kPeepholes].type != DataType::kFloat)
    return "peepholes that are not float";
  GateFunctions functions;
  const int64_t directions = p.inputs[kW].extents[0];
  if (directions > 2 || !read_gate_functions(attrs, directions, functions).ok())
    return "activations that are none";
  return {};
}

// Whether the steps of both directions run side by side, a thread each, instead of one direction
// after the other with all threads: those save time by sharing out each step's product (`macs`),
// and pay for it with a fork and a join (1.5 us) in every step, from `worth` on.
static inline bool run_side_by_side(int64_t directions, int64_t macs, int64_t worth, int threads) {
  if (directions != 2 || threads == 1) return false;
  const double alone_us = static_cast<double>(macs) / 30e3;
  const double shared_us = macs < worth ? alone_us : alone_us / threads + 1.5;
  return alone_us <= 2 * shared_us;
}

struct RecurrentLayer {
  KeptViews views;
  KernelArgs args;  // those of the call
  const ir::RnnAttrs& attrs;
  int64_t steps, batch, directions, inputs, hidden;
  bool side_by_side = false;  // run_side_by_side()
  GateFunctions functions;

  RecurrentLayer(const KernelArgs& a, const KeptViews& kept)
      : views(kept), args(a), attrs(a.layer->as<ir::RnnAttrs>()) {
    const TensorView& x = args.inputs[kX];
    steps = x.extents[time_axis()];
    batch = x.extents[1 - time_axis()];
    directions = args.inputs[kW].extents[0];
    inputs = x.extents[2];
    hidden = args.inputs[kR].extents[2];
    static_cast<void>(read_gate_functions(attrs, directions, functions));
  }

  Gates gates_at(int64_t d) const { return gates_of_direction(attrs, functions, d); }
  const float* peepholes_at(int64_t d) const {
    if (!has(args, kPeepholes)) return nullptr;
    const TensorView& peepholes = args.inputs[kPeepholes];
    return peepholes.as<const float>() + d * peepholes.strides[0];
  }

  int time_axis() const { return attrs.batch_first ? 1 : 0; }
  bool is_reverse(int64_t direction) const {
    return attrs.direction == ir::RnnDirection::kReverse || direction == 1;
  }

  int64_t length(int64_t b) const {
    if (!has(args, kLengths)) return steps;
    const TensorView& lengths = args.inputs[kLengths];
    return lengths.as<int32_t>()[b * lengths.strides[0]];
  }
  Status check_lengths() const {
    for (int64_t b = 0; b < batch; ++b)
      if (length(b) < 0 || length(b) > steps)
        return make_error(ErrorCode::kInvalidArgument, "sequence length {} of {} steps", length(b),
                          steps);
    return ok_status();
  }

  const float* input_row(int64_t t, int64_t b) const {
    const TensorView& x = args.inputs[kX];
    return x.as<float>() + t * x.strides[time_axis()] + b * x.strides[1 - time_axis()];
  }
  // The row of direction d, item b in a state tensor: [directions][batch][hidden], or batch first.
  float* state_row(const TensorView& view, int64_t d, int64_t b) const {
    const int64_t axis = attrs.batch_first ? 1 : 0;
    return view.as<float>() + d * view.strides[axis] + b * view.strides[1 - axis];
  }
  // The row of step t, item b of Y: [steps][directions][batch][hidden], or
  // [batch][steps][directions][hidden].
  float* output_row(const TensorView& y, int64_t t, int64_t d, int64_t b) const {
    if (attrs.batch_first)
      return y.as<float>() + b * y.strides[0] + t * y.strides[1] + d * y.strides[2];
    return y.as<float>() + t * y.strides[0] + d * y.strides[1] + b * y.strides[2];
  }
  size_t row_bytes() const { return static_cast<size_t>(hidden) * sizeof(float); }
  void copy_state(float* state, RecurrenceInput input, int64_t d) const {
    for (int64_t b = 0; b < batch; ++b)
      if (has(args, input))
        std::memcpy(state + b * hidden, state_row(args.inputs[input], d, b), row_bytes());
      else
        std::memset(state + b * hidden, 0, row_bytes());
  }
  void give_state(const float* state, size_t output, int64_t d) const {
    if (args.outputs.size() <= output || !args.outputs[output].present()) return;
    for (int64_t b = 0; b < batch; ++b)
      std::memcpy(state_row(args.outputs[output], d, b), state + b * hidden, row_bytes());
  }
};

// All directions of `job`: begin(d), then run_steps(d). Side by side each has memory of its own,
// which its copy of the job finds in begin().
template <class Job>
void run_directions(Job& job) {
  if (!job.side_by_side) {
    for (int64_t d = 0; d < job.directions; ++d) {
      job.begin(d);
      job.run_steps(d);
    }
    return;
  }
  ThreadPool* const pool = job.args.pool;
  Job ways[] = {job, job};
  for (int64_t d = 0; d < 2; ++d) {
    ways[d].begin(d);
    ways[d].args.pool = &ThreadPool::serial();
  }
  pool->parallel_tasks(2, [&ways](int64_t d) { ways[d].run_steps(d); });
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
