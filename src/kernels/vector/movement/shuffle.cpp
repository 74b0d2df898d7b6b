// SPDX-License-Identifier: Apache-2.0
// Shuffle (transpose, reshape, transpose), Reformat, DepthToSpace and SpaceToDepth, each as one
// strided copy: dimensions are split until source and target have the same ones.
#include "kernels/vector/movement/copy.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::shuffle {
namespace {

struct Dims {
  int count = 0;
  int64_t extents[ir::kMaxRank];
  int64_t strides[ir::kMaxRank];
};

// `dims`, outer first, as the target of the same elements in row-major order needs them: with
// boundaries wherever either has one. False: a dimension would not split evenly ([4, 6] as [6, 4]).
bool split_together(const Dims& a, const Dims& b, Nest& nest) {
  nest.rank = 0;
  nest.tensors = 2;
  int ia = a.count - 1, ib = b.count - 1;
  int64_t left_a = 1, left_b = 1, stride_a = 0,
          stride_b = 0;  // what is left of the dimension being split
  // From the innermost dimension outwards; the nest is made in reverse, collapse() sorts it anyway.
  for (;;) {
    while (left_a == 1 && ia >= 0) left_a = a.extents[ia], stride_a = a.strides[ia], --ia;
    while (left_b == 1 && ib >= 0) left_b = b.extents[ib], stride_b = b.strides[ib], --ib;
    if (left_a == 1 && left_b == 1) return true;
    const int64_t step = left_a < left_b ? left_a : left_b;
    if (step < 1 || left_a % step != 0 || left_b % step != 0 ||
        nest.rank > static_cast<int>(ir::kMaxRank))
      return false;
    nest.extents[nest.rank] = step;
    nest.strides[0][nest.rank] = stride_a;
    nest.strides[1][nest.rank] = stride_b;
    ++nest.rank;
    left_a /= step, stride_a *= step;
    left_b /= step, stride_b *= step;
  }
}

Dims transposed(const TensorView& view, const ir::Ints& permutation) {
  Dims dims;
  dims.count = view.rank;
  for (int d = 0; d < view.rank; ++d) {
    const int from =
        permutation.empty() ? d : static_cast<int>(permutation[static_cast<size_t>(d)]);
    dims.extents[d] = view.extents[from], dims.strides[d] = view.strides[from];
  }
  return dims;
}

// The target before the second transpose: its dimension permutation[d] is the output's d.
Dims before_transpose(const TensorView& view, const ir::Ints& permutation) {
  Dims dims;
  dims.count = view.rank;
  for (int d = 0; d < view.rank; ++d) {
    const int to = permutation.empty() ? d : static_cast<int>(permutation[static_cast<size_t>(d)]);
    dims.extents[to] = view.extents[d], dims.strides[to] = view.strides[d];
  }
  return dims;
}

// Both in row-major order, element by element: for shapes without common dimensions.
struct UnalignedCopy {
  Dims to, from;
  int64_t count, bytes;  // elements, of each
};
void copy_unaligned(UnalignedCopy& copy, const KernelCall& call) {
  const Dims &to = copy.to, &from = copy.from;
  const int64_t bytes = copy.bytes;
  const char* x = call.input<const char>(0);
  char* y = call.output<char>(0);
  int64_t to_index[ir::kMaxRank] = {}, from_index[ir::kMaxRank] = {}, to_offset = 0,
          from_offset = 0;
  const auto advance = [](const Dims& dims, int64_t* index, int64_t& offset) {
    for (int d = dims.count - 1; d >= 0; --d) {
      offset += dims.strides[d];
      if (++index[d] < dims.extents[d]) return;
      offset -= dims.extents[d] * dims.strides[d];
      index[d] = 0;
    }
  };
  for (int64_t k = 0; k < copy.count; ++k) {
    __builtin_memcpy(y + to_offset * bytes, x + from_offset * bytes, static_cast<size_t>(bytes));
    advance(to, to_index, to_offset);
    advance(from, from_index, from_offset);
  }
}

std::string refusal(const Problem& p) {
  if (p.inputs[0].type != p.outputs[0].type) return "types differ";
  if (p.inputs[0].type == DataType::kInt4 || p.inputs[0].type == DataType::kUInt4)
    return "4-bit elements";
  return "";
}

double cost_us(const Problem& p) {
  return 1.5 * traffic_us(p);
}

void run(CopyPlan& plan, const KernelCall& call) {
  run_copy(plan, call.inputs[0], call.outputs[0], call.pool);
}

void keep_copy(const Nest& nest, const KernelArgs& args, PreparedKernel& kernel) {
  keep_state<run>(kernel, plan_copy(nest, bytes_of(args.outputs[0].type)));
}

void keep_copy(const TensorView& from, const TensorView& to, const KernelArgs& args,
               PreparedKernel& kernel) {
  Nest nest = make_nest(to);
  add_tensor(nest, from);
  keep_copy(nest, args, kernel);
}

void prepare_shuffle(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const auto& attrs = *std::get_if<ir::ShuffleAttrs>(&args.layer->attrs);
  const Dims to = before_transpose(y, attrs.second_transpose),
             from = transposed(x, attrs.first_transpose);
  Nest nest;
  if (split_together(to, from, nest)) return keep_copy(nest, args, kernel);
  keep_state<copy_unaligned>(kernel, UnalignedCopy{to, from, count_of(y), bytes_of(y.type)});
}

void prepare_reformat(const KernelArgs& args, PreparedKernel& kernel) {
  keep_copy(args.inputs[0], args.outputs[0], args, kernel);
}

// [N, C, H, W] with H and W split: [N, C, H / b, b, W / b, b].
TensorView split_space(const TensorView& view, int64_t block) {
  TensorView six = view;
  six.rank = 6;
  six.extents[2] = view.extents[2] / block, six.strides[2] = view.strides[2] * block;
  six.extents[3] = block, six.strides[3] = view.strides[2];
  six.extents[4] = view.extents[3] / block, six.strides[4] = view.strides[3] * block;
  six.extents[5] = block, six.strides[5] = view.strides[3];
  return six;
}

// [N, C, H, W] with C split, in the same order.
TensorView split_depth(const TensorView& view, int64_t block, bool column_row_depth) {
  TensorView six = view;
  six.rank = 6;
  const int64_t channel = view.strides[1], depth = view.extents[1] / (block * block);
  const int64_t column = column_row_depth ? channel : channel * depth;
  six.extents[1] = depth, six.strides[1] = column_row_depth ? channel * block * block : channel;
  six.extents[3] = block, six.strides[3] = column * block;
  six.extents[4] = view.extents[3], six.strides[4] = view.strides[3];
  six.extents[5] = block, six.strides[5] = column;
  return six;
}

std::string refuse_blocks(const Problem& p) {
  if (p.inputs[0].extents.size() != 4) return "not of rank 4";
  return refusal(p);
}

void prepare_depth_to_space(const KernelArgs& args, PreparedKernel& kernel) {
  const auto& attrs = *std::get_if<ir::DepthSpaceAttrs>(&args.layer->attrs);
  keep_copy(split_depth(args.inputs[0], attrs.block, attrs.column_row_depth),
            split_space(args.outputs[0], attrs.block), args, kernel);
}

void prepare_space_to_depth(const KernelArgs& args, PreparedKernel& kernel) {
  const auto& attrs = *std::get_if<ir::DepthSpaceAttrs>(&args.layer->attrs);
  keep_copy(split_space(args.inputs[0], attrs.block),
            split_depth(args.outputs[0], attrs.block, attrs.column_row_depth), args, kernel);
}

#define CAMSHAFT_SHUFFLE(tactic, layer, refuses, prepares)                                   \
  {                                                                                          \
    .name = tactic, .kind = ir::LayerKind::layer, .isa = kIsa, .formats = FormatRule::kAny,  \
    .version = 2, .refusal = refuses, .cost_us = cost_us, .packed_inputs = no_packed_inputs, \
    .packed_bytes = no_packed_bytes, .pack = pack_nothing, .prepare = prepares               \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_SHUFFLE("shuffle_copy", kShuffle, refusal, prepare_shuffle),
    CAMSHAFT_SHUFFLE("reformat_copy", kReformat, refusal, prepare_reformat),
    CAMSHAFT_SHUFFLE("depth_to_space_copy", kDepthToSpace, refuse_blocks, prepare_depth_to_space),
    CAMSHAFT_SHUFFLE("space_to_depth_copy", kSpaceToDepth, refuse_blocks, prepare_space_to_depth),
};
#undef CAMSHAFT_SHUFFLE

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::shuffle
