// SPDX-License-Identifier: Apache-2.0
// ReverseSequence: the first steps of each item backwards, the rest as they are. Rows of a step are
// copied as bytes.
#include "kernels/index_error.h"
#include "kernels/nest.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::reverse_sequence {
namespace {

std::string refusal(const Problem& p) {
  if (!is_operator(p, "ReverseSequence")) return "another operator";
  const ProblemTensor &x = p.inputs[0], &lengths = p.inputs[1], &y = p.outputs[0];
  const int64_t batch = generic_integer(*p.layer, "batch_axis", 1),
                time = generic_integer(*p.layer, "time_axis", 0);
  if (batch < 0 || time < 0 || batch + time != 1) return "axes other than 0 and 1";
  if (y.type != x.type || lengths.type != DataType::kInt64) return "types of tensors";
  if (x.type == DataType::kInt4 || x.type == DataType::kUInt4) return "4-bit elements";
  if (x.extents.size() < 2 || y.extents != x.extents ||
      lengths.extents != ir::Extents{x.extents[static_cast<size_t>(batch)]})
    return "the lengths do not fit";
  return x.dense && y.dense ? "" : "parts of larger tensors";
}

double cost_us(const Problem& p) {
  return traffic_us(p) / p.threads;
}

struct Reversal {
  TensorView lengths;
  int64_t items, steps, row_bytes;
  int64_t item_bytes, step_bytes;  // from one to the next
  double predicted_us;
};

Status run(Reversal& s, const KernelCall& call) {
  s.lengths.data = call.inputs[1];
  CAMSHAFT_TRY(lengths_error(s.lengths, s.steps));
  const auto* lengths = call.input<const int64_t>(1);
  const char* x = call.input<const char>(0);
  char* y = call.output<char>(0);
  split(call.pool, s.items * s.steps, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) {
      const int64_t item = k / s.steps, step = k % s.steps,
                    length = lengths[item * s.lengths.strides[0]],
                    from = step < length ? length - 1 - step : step;
      copy_bytes(x + item * s.item_bytes + from * s.step_bytes,
                 y + item * s.item_bytes + step * s.step_bytes, s.row_bytes);
    }
  });
  return Status();
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& x = args.inputs[0];
  const int64_t time = generic_integer(*args.layer, "time_axis", 0), bytes = bytes_of(x.type),
                row = count_of(x) / (x.extents[0] * x.extents[1]) * bytes;
  const int64_t outer = x.extents[1] * row;  // from one of the first axis to the next
  keep_checked_state<run>(kernel, Reversal{args.inputs[1], x.extents[1 - time], x.extents[time],
                                           row, time == 0 ? row : outer, time == 0 ? outer : row,
                                           static_cast<double>(count_of(x) * bytes) / kBytesPerUs});
}

constexpr Tactic kTactics[] = {
    {"reverse_sequence", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::reverse_sequence
