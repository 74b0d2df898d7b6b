// SPDX-License-Identifier: Apache-2.0
// Slice, Concatenation, Pad, Expand, Tile and Fill: strided copies of whole views or of the boxes
// they consist of.
#include "kernels/index_error.h"
#include "kernels/vector/movement/copy.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::slice {
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

// A part of a view: its data are `offset` elements behind those of the view.
struct Box {
  TensorView view;
  int64_t offset = 0;

  // What starts at `first` along `axis`, `count` long.
  Box part(int axis, int64_t first, int64_t count) const {
    Box box{view, offset + first * view.strides[axis]};
    box.view.extents[axis] = count;
    return box;
  }
  // The same `count` times: at `first`, `first + step` …
  Box run(int axis, int64_t first, int64_t step, int64_t count) const {
    Box box = part(axis, first, count);
    box.view.strides[axis] *= step;
    return box;
  }
};

// A copy from a part of an input or of the output, or of one value, to a part of the output.
struct Move {
  enum Source { kInput, kOutput, kValue };
  CopyPlan plan;
  Source source;
  size_t input = 0;
  int64_t from_bytes = 0, to_bytes = 0;
};

struct Moves {
  Move* list;
  int count = 0;
  uint64_t value = 0;
};

void run(Moves& moves, const KernelCall& call) {
  char* y = call.output<char>(0);
  for (const Move* move = moves.list; move != moves.list + moves.count; ++move) {
    const char* from = move->source == Move::kInput    ? call.input<const char>(move->input)
                       : move->source == Move::kOutput ? y
                                                       : reinterpret_cast<char*>(&moves.value);
    // A loop's state that grows lies there already (runtime/appending.cpp).
    if (from + move->from_bytes != y + move->to_bytes)
      run_copy(move->plan, from + move->from_bytes, y + move->to_bytes, call.pool);
  }
}

Moves& keep_moves(int64_t most, PreparedKernel& kernel) {
  return keep_state<run>(kernel, Moves{keep_array<Move>(kernel, most)});
}

void add_copy(const Box& from, const Box& to, Move::Source source, size_t input, Moves& moves) {
  if (count_of(to.view) == 0) return;
  Nest nest = make_nest(to.view);
  add_tensor(nest, from.view);
  const int64_t bytes = bytes_of(to.view.type);
  moves.list[moves.count++] = {plan_copy(nest, bytes), source, input, from.offset * bytes,
                               to.offset * bytes};
}

void add_fill(const Box& to, Moves& moves) {
  Box value;
  value.view.rank = 0;
  add_copy(value, to, Move::kValue, 0, moves);
}

int64_t at_least_zero(int64_t count) {
  return count > 0 ? count : 0;
}

// --- Slice
std::string refuse_slice(const Problem& p) {
  if (p.inputs.size() > 1) return "the range is known only when running";
  return refuse_common(p);
}

void prepare_slice(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const auto& attrs = *std::get_if<ir::SliceAttrs>(&args.layer->attrs);
  Box from{x};
  for (int d = 0; d < x.rank; ++d) {
    const int64_t step = attrs.step.empty() ? 1 : attrs.step[static_cast<size_t>(d)];
    from = from.run(d, attrs.start[static_cast<size_t>(d)].extent(), step, y.extents[d]);
  }
  add_copy(from, {y}, Move::kInput, 0, keep_moves(1, kernel));
}

// --- Concatenation
std::string refuse_concat(const Problem& p) {
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (p.inputs[k].present && p.inputs[k].type != p.outputs[0].type) return "types differ";
  return refuse_common(p);
}

void prepare_concat(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const Box y{args.outputs[0]};
  const int axis = static_cast<int>(std::get_if<ir::AxisAttrs>(&args.layer->attrs)->axis);
  Moves& moves = keep_moves(static_cast<int64_t>(args.inputs.size()), kernel);
  int64_t first = 0;
  for (size_t k = 0; k < args.inputs.size(); ++k) {
    const TensorView& x = args.inputs[k];
    if (!x.present()) continue;
    add_copy({x}, y.part(axis, first, x.extents[axis]), Move::kInput, k, moves);
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
  uint64_t bytes;
  if (attrs.mode == ir::PadMode::kConstant &&
      !element_of(static_cast<double>(attrs.value), p.outputs[0].type, bytes))
    return "a constant of another type than float, double, bool and whole numbers";
  for (size_t d = 0; d < attrs.pre.size(); ++d) {
    if (attrs.mode == ir::PadMode::kConstant) break;
    if (attrs.pre[d] < 0 || attrs.post[d] < 0) return "crops";
    // One reflection reaches no further than the other edge, one turn no further than all.
    const int64_t most = attrs.pre[d] > attrs.post[d] ? attrs.pre[d] : attrs.post[d],
                  extent = p.inputs[0].extents[d];
    if (attrs.mode == ir::PadMode::kReflect && most >= extent) return "reflects more than once";
    if (attrs.mode == ir::PadMode::kWrap && most > extent) return "wraps around more than once";
  }
  return refuse_common(p);
}

// Both sides of dimension d get copies of what is inside: the other way round, the edge, or what
// stands at the other end.
void add_sides(const Box& inner, int d, int64_t pre, int64_t post, ir::PadMode mode, Moves& moves) {
  struct Run {
    int64_t before, after, step;  // where the sides begin to read
  };
  const int64_t count = inner.view.extents[d], last = count - 1;
  const Run run = mode == ir::PadMode::kReflect ? Run{pre, last - 1, -1}
                  : mode == ir::PadMode::kWrap  ? Run{count - pre, 0, 1}
                                                : Run{0, last, 0};
  if (pre > 0)
    add_copy(inner.run(d, run.before, run.step, pre), inner.part(d, -pre, pre), Move::kOutput, 0,
             moves);
  if (post > 0)
    add_copy(inner.run(d, run.after, run.step, post), inner.part(d, count, post), Move::kOutput, 0,
             moves);
}

struct Amounts {
  int64_t pre[ir::kMaxRank] = {}, post[ir::kMaxRank] = {};
};

// Fills what lies around the copied box, dimension by dimension: the box grows until it is the
// whole output.
void plan_pads(const TensorView& x, const TensorView& y, ir::PadMode mode, const Amounts& amounts,
               Moves& moves) {
  int64_t pre[ir::kMaxRank], post[ir::kMaxRank];
  Box from{x}, inner{y};
  for (int d = 0; d < y.rank; ++d) {
    pre[d] = amounts.pre[d];
    post[d] = amounts.post[d];
    const int64_t crop = pre[d] < 0 ? -pre[d] : 0,
                  count = x.extents[d] - crop - (post[d] < 0 ? -post[d] : 0);
    if (pre[d] < 0) pre[d] = 0;
    if (post[d] < 0) post[d] = 0;
    from = from.part(d, crop, at_least_zero(count));
    inner = inner.part(d, pre[d], at_least_zero(count));
  }
  if (count_of(inner.view) == 0) return add_fill({y}, moves);
  add_copy(from, inner, Move::kInput, 0, moves);
  for (int d = 0; d < y.rank; ++d) {
    if (mode == ir::PadMode::kConstant) {
      add_fill(inner.part(d, -pre[d], pre[d]), moves);
      add_fill(inner.part(d, inner.view.extents[d], post[d]), moves);
    } else {
      add_sides(inner, d, pre[d], post[d], mode, moves);
    }
    inner = inner.part(d, -pre[d], y.extents[d]);
  }
}

void prepare_pad(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const auto& attrs = *std::get_if<ir::PadAttrs>(&args.layer->attrs);
  Moves& moves = keep_moves(1 + 2 * y.rank, kernel);
  element_of(static_cast<double>(attrs.value), y.type, moves.value);
  Amounts amounts;
  for (size_t d = 0; d < attrs.pre.size(); ++d) {
    amounts.pre[d] = attrs.pre[d];
    amounts.post[d] = attrs.post[d];
  }
  plan_pads(x, y, attrs.mode, amounts, moves);
}

// --- Pad whose amounts are computed: planned again when they change
std::string refuse_late_pad(const Problem& p) {
  if (p.inputs.size() < 2) return "the amounts are constants";
  if (std::get_if<ir::PadAttrs>(&p.layer->attrs)->mode != ir::PadMode::kConstant)
    return "the amounts are known only when running, and no constant is added";
  if (p.inputs[1].type != DataType::kInt64) return "the amounts are not int64";
  if (p.inputs.size() > 3 && p.inputs[3].present && p.inputs[3].type != DataType::kInt64)
    return "the axes are not int64";
  if (p.inputs.size() > 2 && p.inputs[2].present && p.inputs[2].type != p.outputs[0].type)
    return "the constant has another type";
  return refuse_common(p);
}

struct LatePad {
  TensorView x, y, pads, value, axes;
  Moves moves;
  Amounts amounts;
  bool is_planned;
};

int64_t element(const TensorView& list, const void* data, int64_t k) {
  return static_cast<const int64_t*>(data)[k * list.strides[0]];
}

// False: they do not give y.
bool read_amounts(const LatePad& s, const KernelCall& call, Amounts& amounts) {
  const int64_t count = s.pads.extents[0] / 2;
  if (s.pads.extents[0] != 2 * count ||
      count != (s.axes.present() ? s.axes.extents[0] : int64_t{s.x.rank}))
    return false;
  for (int64_t k = 0; k < count; ++k) {
    int64_t d = s.axes.present() ? element(s.axes, call.inputs[3], k) : k;
    if (d < 0) d += s.x.rank;
    if (d < 0 || d >= s.x.rank) return false;
    amounts.pre[d] = element(s.pads, call.inputs[1], k);
    amounts.post[d] = element(s.pads, call.inputs[1], k + count);
  }
  for (int d = 0; d < s.x.rank; ++d)
    if (s.y.extents[d] != s.x.extents[d] + amounts.pre[d] + amounts.post[d]) return false;
  return true;
}

Status run_late_pad(LatePad& s, const KernelCall& call) {
  Amounts amounts;
  if (!read_amounts(s, call, amounts)) {
    TensorView pads = s.pads, axes = s.axes;
    pads.data = const_cast<void*>(call.inputs[1]);
    if (axes.present()) axes.data = const_cast<void*>(call.inputs[3]);
    return pads_error(s.x, s.y, pads, axes);
  }
  if (!s.is_planned || __builtin_memcmp(&s.amounts, &amounts, sizeof amounts) != 0) {
    s.moves.count = 0;
    plan_pads(s.x, s.y, ir::PadMode::kConstant, amounts, s.moves);
    s.amounts = amounts;
    s.is_planned = true;
  }
  if (s.value.present())
    __builtin_memcpy(&s.moves.value, call.inputs[2], static_cast<size_t>(bytes_of(s.y.type)));
  run(s.moves, call);
  return Status();
}

void prepare_late_pad(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const auto given = [&](size_t k) {
    return k < args.inputs.size() ? args.inputs[k] : TensorView();
  };
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Moves moves{keep_array<Move>(kernel, 1 + 2 * y.rank)};
  keep_checked_state<run_late_pad>(
      kernel, LatePad{x, y, args.inputs[1], given(2), given(3), moves, Amounts(), false});
}

// --- Expand, Tile, Fill
void prepare_expand(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  add_copy({args.inputs[0]}, {args.outputs[0]}, Move::kInput, 0, keep_moves(1, kernel));
}

std::string refuse_tile(const Problem& p) {
  if (p.inputs[0].extents.size() > ir::kMaxRank / 2) return "rank above 4";
  if (p.inputs[0].extents.size() != p.outputs[0].extents.size()) return "ranks differ";
  return refuse_common(p);
}

void prepare_tile(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Nest nest;
  nest.rank = 2 * x.rank;
  nest.tensors = 2;
  for (int d = 0; d < x.rank; ++d) {
    nest.extents[2 * d] = y.extents[d] / x.extents[d], nest.extents[2 * d + 1] = x.extents[d];
    nest.strides[0][2 * d] = y.strides[d] * x.extents[d], nest.strides[0][2 * d + 1] = y.strides[d];
    nest.strides[1][2 * d] = 0, nest.strides[1][2 * d + 1] = x.strides[d];
  }
  Moves& moves = keep_moves(1, kernel);
  moves.list[moves.count++] = {plan_copy(nest, bytes_of(y.type)), Move::kInput};
}

std::string refuse_fill(const Problem& p) {
  const auto& attrs = *std::get_if<ir::FillAttrs>(&p.layer->attrs);
  uint64_t bytes;
  if (!element_of(attrs.value, attrs.type, bytes))
    return "a value of another type than float, double, bool and whole numbers";
  return refuse_common(p);
}

void prepare_fill(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const auto& attrs = *std::get_if<ir::FillAttrs>(&args.layer->attrs);
  Moves& moves = keep_moves(1, kernel);
  element_of(attrs.value, attrs.type, moves.value);
  add_fill({args.outputs[0]}, moves);
}

#define CAMSHAFT_MOVE(name, kind, formats, refusal, prepare)                  \
  {                                                                           \
    name, LayerKind::kind, kIsa, FormatRule::formats, 1, refusal, traffic_us, \
        CAMSHAFT_NOTHING_PACKED, prepare                                      \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_MOVE("slice_copy", kSlice, kAny, refuse_slice, prepare_slice),
    CAMSHAFT_MOVE("concat_copy", kConcatenation, kAny, refuse_concat, prepare_concat),
    CAMSHAFT_MOVE("pad_copy", kPad, kAny, refuse_pad, prepare_pad),
    CAMSHAFT_MOVE("pad_copy_late", kPad, kAny, refuse_late_pad, prepare_late_pad),
    CAMSHAFT_MOVE("expand_copy", kExpand, kSame, refuse_common, prepare_expand),
    CAMSHAFT_MOVE("tile_copy", kTile, kSame, refuse_tile, prepare_tile),
    CAMSHAFT_MOVE("fill", kFill, kSame, refuse_fill, prepare_fill),
};
#undef CAMSHAFT_MOVE

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::slice
