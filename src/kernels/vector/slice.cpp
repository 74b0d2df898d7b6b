// SPDX-License-Identifier: Apache-2.0
// Slice, Concatenation, Pad, Expand, Tile and Fill: strided copies of whole views or of the boxes
// they consist of.
#include "kernels/vector/copy.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::LayerKind;

bool has_whole_bytes(const ProblemTensor& t) {
  return t.type != DataType::kInt4 && t.type != DataType::kUInt4;
}

std::string refuse_common(const Problem& p) {
  if (!has_whole_bytes(p.outputs[0])) return "4-bit elements";
  if (p.outputs[0].extents.size() > ir::kMaxRank) return "rank too high";
  return "";
}

// The box of `view` that starts at `first` along `axis`, `count` long.
TensorView box(const TensorView& view, int axis, int64_t first, int64_t count) {
  TensorView part = view;
  part.data = view.as<char>() + first * view.strides[axis] * bytes_of(view.type);
  part.extents[axis] = count;
  return part;
}

// --- Slice
std::string refuse_slice(const Problem& p) {
  if (p.inputs.size() > 1) return "the range is known only when running";
  return refuse_common(p);
}

void run_slice(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const auto& attrs = *std::get_if<ir::SliceAttrs>(&args.layer->attrs);
  if (count_of(y) == 0) return;
  TensorView from = x;
  int64_t offset = 0;
  for (int d = 0; d < x.rank; ++d) {
    const int64_t step = attrs.step.empty() ? 1 : attrs.step[static_cast<size_t>(d)];
    offset += attrs.start[static_cast<size_t>(d)].extent() * x.strides[d];
    from.strides[d] = x.strides[d] * step;
    from.extents[d] = y.extents[d];
  }
  from.data = x.as<char>() + offset * bytes_of(x.type);
  copy_view(from, y, args.pool);
}

// --- Concatenation
std::string refuse_concat(const Problem& p) {
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (p.inputs[k].present && p.inputs[k].type != p.outputs[0].type) return "types differ";
  return refuse_common(p);
}

void run_concat(const KernelArgs& args) {
  const TensorView& y = args.outputs[0];
  const int axis = static_cast<int>(std::get_if<ir::AxisAttrs>(&args.layer->attrs)->axis);
  int64_t first = 0;
  for (size_t k = 0; k < args.inputs.size(); ++k) {
    const TensorView& x = args.inputs[k];
    if (!x.present()) continue;
    if (count_of(x) > 0) copy_view(x, box(y, axis, first, x.extents[axis]), args.pool);
    first += x.extents[axis];
  }
}

template <class T>
bool bytes_as(double number, uint64_t& bytes) {
  const T value = static_cast<T>(number);
  return __builtin_memcpy(&bytes, &value, sizeof value), true;
}

// The bytes of a number as an element of that type; false: not a number of that type, or of 16-bit
// floats, and not 0.
bool element_of(double number, DataType type, uint64_t& bytes) {
  bytes = 0;
  if (number == 0) return true;
  if (type == DataType::kFloat) return bytes_as<float>(number, bytes);
  if (type == DataType::kDouble) return bytes_as<double>(number, bytes);
  if (number != __builtin_floor(number)) return false;
  const auto fits = [number](double low, double high) { return number >= low && number <= high; };
  switch (type) {
    case DataType::kBool:
      return bytes_as<uint8_t>(1, bytes);
    case DataType::kUInt8:
      return fits(0, 255) && bytes_as<uint8_t>(number, bytes);
    case DataType::kInt8:
      return fits(-128, 127) && bytes_as<int8_t>(number, bytes);
    case DataType::kInt32:
      return fits(INT32_MIN, INT32_MAX) && bytes_as<int32_t>(number, bytes);
    case DataType::kInt64:  // beyond, doubles are not every integer
      return fits(-0x1p53, 0x1p53) && bytes_as<int64_t>(number, bytes);
    default:
      return false;
  }
}

// --- Pad
std::string refuse_pad(const Problem& p) {
  if (p.inputs.size() > 1) return "the amounts are known only when running";
  const auto& attrs = *std::get_if<ir::PadAttrs>(&p.layer->attrs);
  if (attrs.mode == ir::PadMode::kWrap) return "wrapping around";
  uint64_t bytes;
  if (attrs.mode == ir::PadMode::kConstant &&
      !element_of(static_cast<double>(attrs.value), p.outputs[0].type, bytes))
    return "a constant of another type than float, double, bool and whole numbers";
  for (size_t d = 0; d < attrs.pre.size(); ++d) {
    if (attrs.mode == ir::PadMode::kConstant) break;
    if (attrs.pre[d] < 0 || attrs.post[d] < 0) return "crops";
    // One reflection reaches no further than the other edge.
    const int64_t most = attrs.pre[d] > attrs.post[d] ? attrs.pre[d] : attrs.post[d];
    if (attrs.mode == ir::PadMode::kReflect && most >= p.inputs[0].extents[d])
      return "reflects more than once";
  }
  return refuse_common(p);
}

// Fills what lies around the copied box, dimension by dimension: the box grows until it is the
// whole output.
void run_pad(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const auto& attrs = *std::get_if<ir::PadAttrs>(&args.layer->attrs);
  if (count_of(y) == 0) return;
  int64_t pre[ir::kMaxRank], post[ir::kMaxRank];
  TensorView from = x, inner = y;
  for (int d = 0; d < y.rank; ++d) {
    pre[d] = attrs.pre.empty() ? 0 : attrs.pre[static_cast<size_t>(d)];
    post[d] = attrs.post.empty() ? 0 : attrs.post[static_cast<size_t>(d)];
    const int64_t crop = pre[d] < 0 ? -pre[d] : 0,
                  count = x.extents[d] - crop - (post[d] < 0 ? -post[d] : 0);
    if (pre[d] < 0) pre[d] = 0;
    if (post[d] < 0) post[d] = 0;
    from = box(from, d, crop, count > 0 ? count : 0);
    inner = box(inner, d, pre[d], count > 0 ? count : 0);
  }
  const bool is_empty = count_of(inner) == 0;
  if (is_empty || attrs.mode == ir::PadMode::kConstant) {
    uint64_t value = 0;
    element_of(static_cast<double>(attrs.value), y.type, value);
    if (is_empty) return fill_view(y, &value, args.pool);
    copy_view(from, inner, args.pool);
    TensorView grown = inner;
    for (int d = 0; d < y.rank; ++d) {
      TensorView side = grown;
      side.data = grown.as<char>() - pre[d] * y.strides[d] * bytes_of(y.type);
      side.extents[d] = pre[d];
      if (pre[d] > 0) fill_view(side, &value, args.pool);
      TensorView other = box(grown, d, grown.extents[d], post[d]);
      if (post[d] > 0) fill_view(other, &value, args.pool);
      grown.data = side.data;
      grown.extents[d] = y.extents[d];
    }
    return;
  }
  copy_view(from, inner, args.pool);
  TensorView grown = inner;
  for (int d = 0; d < y.rank; ++d) {
    const bool reflects = attrs.mode == ir::PadMode::kReflect;
    const int64_t count = grown.extents[d];
    for (int64_t k = 1; k <= pre[d]; ++k)
      copy_view(box(grown, d, reflects ? k : 0, 1), box(grown, d, -k, 1), args.pool);
    for (int64_t k = 1; k <= post[d]; ++k)
      copy_view(box(grown, d, reflects ? count - 1 - k : count - 1, 1),
                box(grown, d, count - 1 + k, 1), args.pool);
    grown = box(grown, d, -pre[d], y.extents[d]);
  }
}

// --- Expand, Tile, Fill
void run_expand(const KernelArgs& args) {
  copy_view(args.inputs[0], args.outputs[0], args.pool);
}

std::string refuse_tile(const Problem& p) {
  if (p.inputs[0].extents.size() > ir::kMaxRank / 2) return "rank above 4";
  if (p.inputs[0].extents.size() != p.outputs[0].extents.size()) return "ranks differ";
  return refuse_common(p);
}

void run_tile(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  if (count_of(y) == 0) return;
  Nest nest;
  nest.rank = 2 * x.rank;
  nest.tensors = 2;
  for (int d = 0; d < x.rank; ++d) {
    nest.extents[2 * d] = y.extents[d] / x.extents[d], nest.extents[2 * d + 1] = x.extents[d];
    nest.strides[0][2 * d] = y.strides[d] * x.extents[d], nest.strides[0][2 * d + 1] = y.strides[d];
    nest.strides[1][2 * d] = 0, nest.strides[1][2 * d + 1] = x.strides[d];
  }
  copy_nest(nest, x.data, y.data, bytes_of(y.type), args.pool);
}

std::string refuse_fill(const Problem& p) {
  const auto& attrs = *std::get_if<ir::FillAttrs>(&p.layer->attrs);
  uint64_t bytes;
  if (!element_of(attrs.value, attrs.type, bytes))
    return "a value of another type than float, double, bool and whole numbers";
  return refuse_common(p);
}

void run_fill(const KernelArgs& args) {
  const auto& attrs = *std::get_if<ir::FillAttrs>(&args.layer->attrs);
  uint64_t value = 0;
  element_of(attrs.value, attrs.type, value);
  if (count_of(args.outputs[0]) > 0) fill_view(args.outputs[0], &value, args.pool);
}

#define CAMSHAFT_MOVE(name, kind, formats, refusal, run)                      \
  {                                                                           \
    name, LayerKind::kind, kIsa, FormatRule::formats, 1, refusal, traffic_us, \
        CAMSHAFT_NOTHING_PACKED, run                                          \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_MOVE("slice_copy", kSlice, kAny, refuse_slice, run_slice),
    CAMSHAFT_MOVE("concat_copy", kConcatenation, kAny, refuse_concat, run_concat),
    CAMSHAFT_MOVE("pad_copy", kPad, kAny, refuse_pad, run_pad),
    CAMSHAFT_MOVE("expand_copy", kExpand, kSame, refuse_common, run_expand),
    CAMSHAFT_MOVE("tile_copy", kTile, kSame, refuse_tile, run_tile),
    CAMSHAFT_MOVE("fill", kFill, kSame, refuse_fill, run_fill),
};

}  // namespace

std::span<const Tactic> slice_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
