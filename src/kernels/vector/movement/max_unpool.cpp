// SPDX-License-Identifier: Apache-2.0
// MaxUnpool: elements go where the indices of a max pooling say, all else is 0. An index counts in
// the extents that the window gives; where more are asked for, these lie at the origin.
#include "kernels/index_error.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::max_unpool {
namespace {

// The extent that the window gives along spatial dimension d.
int64_t window_extent(const ir::Layer& layer, int64_t in, size_t d, size_t spatial) {
  return (in - 1) * generic_integer(layer, "strides", 1, d) - generic_integer(layer, "pads", 0, d) -
         generic_integer(layer, "pads", 0, d + spatial) +
         generic_integer(layer, "kernel_shape", 1, d);
}

std::string refusal(const Problem& p) {
  if (!is_operator(p, "MaxUnpool")) return "another operator";
  const ProblemTensor &x = p.inputs[0], &indices = p.inputs[1], &y = p.outputs[0];
  if (y.type != x.type || indices.type != DataType::kInt64) return "types of tensors";
  if (x.type == DataType::kInt4 || x.type == DataType::kUInt4) return "4-bit elements";
  if (x.extents != indices.extents || y.extents.size() != x.extents.size() || x.extents.size() < 3)
    return "the indices do not fit";
  const size_t spatial = x.extents.size() - 2;
  for (size_t d = 0; d < x.extents.size(); ++d)
    if (y.extents[d] !=
        (d < 2 ? x.extents[d] : window_extent(*p.layer, x.extents[d], d - 2, spatial)))
      return "other extents than the window gives";
  return x.dense && indices.dense && y.dense ? "" : "parts of larger tensors";
}

struct Unpool {
  TensorView indices;
  int64_t count, places, bytes;
};

Status run(Unpool& s, const KernelCall& call) {
  std::memset(call.outputs[0], 0, static_cast<size_t>(s.places * s.bytes));
  const int64_t* indices = call.input<const int64_t>(1);
  bool all_inside = true;
  with_element(s.bytes, [&](auto element) {
    using T = decltype(element);
    const T* x = call.input<const T>(0);
    T* y = call.output<T>(0);
    for (int64_t k = 0; k < s.count; ++k) {
      const bool inside = static_cast<uint64_t>(indices[k]) < static_cast<uint64_t>(s.places);
      all_inside &= inside;
      if (inside) y[indices[k]] = x[k];
    }
  });
  if (all_inside) return Status();
  s.indices.data = call.inputs[1];
  return places_error(s.indices, s.places);
}

double cost_us(const Problem& p) {
  return traffic_us(p);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& x = args.inputs[0];
  keep_checked_state<run>(
      kernel, Unpool{args.inputs[1], count_of(x), count_of(args.outputs[0]), bytes_of(x.type)});
}

constexpr Tactic kTactics[] = {
    {"max_unpool", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::max_unpool
