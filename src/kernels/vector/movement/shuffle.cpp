// SPDX-License-Identifier: Apache-2.0
// Shuffle (transpose, reshape, transpose), Reformat, DepthToSpace and SpaceToDepth, each as one
// strided copy: dimensions are split until source and target have the same ones.
#include "kernels/vector/movement/copy.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace camshaft::kernels::CAMSHAFT_TARGET::shuffle {
namespace {

// Outermost first.
struct Dims {
  int count = 0;
  int64_t extents[ir::kMaxRank];
  int64_t strides[ir::kMaxRank];

  void reverse() {
    std::reverse(extents, extents + count);
    std::reverse(strides, strides + count);
  }
  int64_t elements() const {
    return std::accumulate(extents, extents + count, int64_t{1}, std::multiplies<>());
  }
};

// One after the other, from number `first` on.
class Walk {
 public:
  Walk(const Dims& dims, int64_t first) : dims_(dims) {
    for (int d = dims.count - 1; d >= 0; --d) {
      index_[d] = first % dims.extents[d], first /= dims.extents[d];
      offset += index_[d] * dims.strides[d];
    }
  }

  void advance() {
    for (int d = dims_.count - 1; d >= 0; --d) {
      offset += dims_.strides[d];
      if (++index_[d] < dims_.extents[d]) return;
      offset -= dims_.extents[d] * dims_.strides[d];
      index_[d] = 0;
    }
  }

  int64_t offset = 0;

 private:
  const Dims& dims_;
  int64_t index_[ir::kMaxRank] = {};
};

// What two views of the same elements in row-major order have in common.
class CommonDims {
 public:
  CommonDims(const Dims& to, const Dims& from) : to_(to), from_(from) { nest.tensors = 2; }

  // Dimensions from the innermost on, with boundaries wherever either has one, up to one that does
  // not split evenly ([4, 6] as [6, 4]).
  void take_inner() { take(false); }

  // The same from the outermost on.
  void take_outer() {
    to_.reverse(), from_.reverse();
    take(true);
    to_.reverse(), from_.reverse();
  }

  bool is_all() const { return to_.count == 0 && from_.count == 0; }
  const Dims& to() const { return to_; }
  const Dims& from() const { return from_; }

  Nest nest;  // in any order: collapse() sorts it

 private:
  // From the last on. What is taken of a dimension steps over what is left of it, if it is outer;
  // else the other way round.
  void take(bool outer) {
    while (to_.count > 0 && from_.count > 0) {
      const int last_to = to_.count - 1, last_from = from_.count - 1;
      int64_t &to = to_.extents[last_to], &from = from_.extents[last_from];
      int64_t &to_stride = to_.strides[last_to], &from_stride = from_.strides[last_from];
      const int64_t step = smaller(to, from);
      if (!splits(step, to, from)) return;
      to /= step, from /= step;
      append(step, outer ? to_stride * to : to_stride, outer ? from_stride * from : from_stride);
      if (!outer) to_stride *= step, from_stride *= step;
      drop_units();
    }
  }

  bool splits(int64_t step, int64_t to, int64_t from) const {
    return step >= 1 && to % step == 0 && from % step == 0 &&
           nest.rank <= static_cast<int>(ir::kMaxRank);
  }

  void append(int64_t extent, int64_t to, int64_t from) {
    if (extent == 1) return;
    nest.extents[nest.rank] = extent;
    nest.strides[0][nest.rank] = to;
    nest.strides[1][nest.rank] = from;
    ++nest.rank;
  }

  void drop_units() {
    for (Dims* dims : {&to_, &from_})
      while (dims->count > 0 && dims->extents[dims->count - 1] == 1) --dims->count;
  }

  Dims to_, from_;  // what is left
};

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

// Shapes that share some dimensions at most: a copy of these for each element of the others, both
// of which go in row-major order.
struct UnalignedCopy {
  CopyPlan each;
  Dims to, from;
  int64_t count;
  double predicted_us;
};

void copy_unaligned(UnalignedCopy& copy, const KernelCall& call) {
  const int64_t bytes = copy.each.element_bytes;
  const char* x = call.input<const char>(0);
  char* y = call.output<char>(0);
  split(call.pool, copy.count, copy.predicted_us, [&](int, int64_t first, int64_t last) {
    Walk to(copy.to, first), from(copy.from, first);
    for (; first < last; ++first, to.advance(), from.advance()) {
      const char* source = x + from.offset * bytes;
      char* target = y + to.offset * bytes;
      if (copy.each.elements == 1)
        __builtin_memcpy(target, source, static_cast<size_t>(bytes));
      else
        run_copy(copy.each, source, target, nullptr);
    }
  });
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
  CommonDims common(to, from);
  common.take_inner();
  if (common.is_all()) return keep_copy(common.nest, args, kernel);
  common.take_outer();
  const CopyPlan each = plan_copy(common.nest, bytes_of(y.type));
  constexpr double kStepUs = 0.005, kRunUs = 0.03;
  const int64_t count = common.to().elements();
  const double us = each.elements == 1 ? kStepUs : each.predicted_us + kRunUs;
  keep_state<copy_unaligned>(kernel, UnalignedCopy{each, common.to(), common.from(), count,
                                                   static_cast<double>(count) * us});
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
