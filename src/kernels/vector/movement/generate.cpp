// SPDX-License-Identifier: Apache-2.0
// Layers whose elements follow from their positions: Range, Trilu, OneHot.
#include "kernels/vector/generic.h"
#include "kernels/vector/movement/copy.h"
#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/movement/indices.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::generate {
namespace {

// --- Range

bool is_counted(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kFloat ||
         type == DataType::kDouble;
}

std::string refuse_range(const Problem& p) {
  if (!is_counted(p.outputs[0].type)) return "neither int64, int32, float nor double";
  for (size_t k = 0; k < 3; ++k)
    if (p.inputs.size() < 3 || count_of(p.inputs[k]) != 1 || p.inputs[k].type != p.outputs[0].type)
      return "not three scalars of one type";
  return "";
}

struct Range {
  int64_t count, step;  // of the output
};

// Floats are counted in double.
template <class T, class Wide>
void count_from(Range& range, const KernelCall& call) {
  const Wide start = static_cast<Wide>(*call.input<const T>(0)),
             delta = static_cast<Wide>(*call.input<const T>(2));
  T* to = call.output<T>(0);
  const int64_t step = range.step;
  split(call.pool, range.count, static_cast<double>(range.count) / 2000,
        [=](int, int64_t first, int64_t last) {
          for (int64_t k = first; k < last; ++k)
            to[k * step] = static_cast<T>(start + static_cast<Wide>(k) * delta);
        });
}

void prepare_range(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& y = args.outputs[0];
  const Range range{count_of(y), y.strides[0]};
  switch (y.type) {
    case DataType::kInt64:
      keep_state<count_from<uint64_t, uint64_t>>(kernel, range);
      break;
    case DataType::kInt32:
      keep_state<count_from<uint32_t, uint32_t>>(kernel, range);
      break;
    case DataType::kFloat:
      keep_state<count_from<float, double>>(kernel, range);
      break;
    default:
      keep_state<count_from<double, double>>(kernel, range);
  }
}

// --- Trilu

std::string refuse_trilu(const Problem& p) {
  if (!is_operator(p, "Trilu")) return "another operator";
  if (p.inputs[0].extents.size() < 2) return "not a matrix";
  if (p.inputs.size() > 1 && p.inputs[1].present && !is_whole_scalar(p.inputs[1]))
    return "a diagonal that is no integer";
  if (p.inputs[0].type == DataType::kInt4 || p.inputs[0].type == DataType::kUInt4)
    return "4-bit elements";
  return "";
}

template <class T>
void copy_part(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t cols,
               int64_t first, int64_t last) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if (from_step == 1 && to_step == 1) {
    std::memset(to, 0, static_cast<size_t>(first * kSize));
    copy_bytes(reinterpret_cast<const char*>(from + first), reinterpret_cast<char*>(to + first),
               last > first ? (last - first) * kSize : 0);
    std::memset(to + last, 0, static_cast<size_t>((cols - last) * kSize));
    return;
  }
  for (int64_t col = 0; col < cols; ++col)
    to[col * to_step] = col >= first && col < last ? from[col * from_step] : T(0);
}

struct Trilu {
  TensorView x, y, diagonal;
  bool upper;
  int64_t rows, cols, lines;
  double predicted_us;

  // Columns on the diagonal of a row and beyond: kept above, zero below.
  int64_t edge(int64_t row, int64_t at) const {
    const int64_t col = row + (at > cols ? cols : at < -rows ? -rows : at) + (upper ? 0 : 1);
    return col < 0 ? 0 : col > cols ? cols : col;
  }
};

template <class T>
void run_trilu(Trilu& s, const KernelCall& call) {
  const TensorView &x = s.x, &y = s.y;
  if (s.diagonal.present()) s.diagonal.data = call.inputs[1];
  const int64_t diagonal = s.diagonal.present() ? scalar_of(s.diagonal) : 0;
  split(call.pool, s.lines, s.predicted_us, [&](int, int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      int64_t rest = line, from = 0, to = 0;
      for (int d = y.rank - 2; d >= 0; --d) {
        const int64_t index = rest % y.extents[d];
        rest /= y.extents[d];
        from += index * x.strides[d], to += index * y.strides[d];
      }
      const int64_t edge = s.edge(line % s.rows, diagonal);
      copy_part(call.input<const T>(0) + from, x.strides[x.rank - 1], call.output<T>(0) + to,
                y.strides[y.rank - 1], s.cols, s.upper ? edge : 0, s.upper ? s.cols : edge);
    }
  });
}

void prepare_trilu(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int64_t cols = y.extents[y.rank - 1];
  const Trilu state{x,
                    y,
                    args.inputs.size() > 1 ? args.inputs[1] : TensorView(),
                    generic_integer(*args.layer, "upper", 1) != 0,
                    y.extents[y.rank - 2],
                    cols,
                    count_of(y) / cols,
                    static_cast<double>(count_of(y)) / 3000};
  with_element(bytes_of(y.type),
               [&](auto type) { keep_state<run_trilu<decltype(type)>>(kernel, state); });
}

// --- OneHot

std::string refuse_one_hot(const Problem& p) {
  if (!is_operator(p, "OneHot")) return "another operator";
  const DataType type = p.inputs[0].type;
  if (type != DataType::kInt64 && type != DataType::kInt32)
    return "indices are neither int64 nor int32";
  if (p.inputs[1].constant == nullptr) return "the depth is known only when running";
  const auto rank = static_cast<int64_t>(p.outputs[0].extents.size()),
             axis = generic_integer(*p.layer, "axis", -1);
  if (axis < -rank || axis >= rank || count_of(p.inputs[2]) != 2)
    return "axis or values do not fit";
  if (p.outputs[0].type == DataType::kInt4 || p.outputs[0].type == DataType::kUInt4)
    return "4-bit elements";
  return "";
}

struct OneHot {
  CopyPlan fill;         // of the value off
  Nest nest;             // y without the axis, the indices
  int64_t depth, step;   // of the axis
  int64_t value_stride;  // between off and on
  double predicted_us;
};

template <class T, class Index>
void run_one_hot(OneHot& s, const KernelCall& call) {
  const Nest& nest = s.nest;
  const T* values = call.input<const T>(2);
  const Index* indices = call.input<const Index>(0);
  T* y = call.output<T>(0);
  run_copy(s.fill, values, y, call.pool);
  const T on = values[s.value_stride];
  const auto body = [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t col = 0; col < cols; ++col) {
        int64_t index = static_cast<int64_t>(
            indices[offsets[1] + row * nest.row_stride(1) + col * nest.col_stride(1)]);
        index += index < 0 ? s.depth : 0;
        if (index >= 0 && index < s.depth)
          y[offsets[0] + row * nest.row_stride(0) + col * nest.col_stride(0) + index * s.step] = on;
      }
  };
  for_tiles(nest, call.pool, s.predicted_us, body);
}

void prepare_one_hot(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &indices = args.inputs[0], &y = args.outputs[0];
  int64_t axis = generic_integer(*args.layer, "axis", -1);
  if (axis < 0) axis += y.rank;
  TensorView lines = y, off;
  off.rank = 0;
  lines.rank = y.rank - 1;
  for (int d = static_cast<int>(axis); d < lines.rank; ++d)
    lines.extents[d] = y.extents[d + 1], lines.strides[d] = y.strides[d + 1];
  Nest fill = make_nest(y), nest = make_nest(lines);
  add_tensor(fill, off);
  add_tensor(nest, indices);
  collapse(nest);
  const OneHot state{plan_copy(fill, bytes_of(y.type)),
                     nest,
                     y.extents[axis],
                     y.strides[axis],
                     args.inputs[2].strides[0],
                     static_cast<double>(count_of(indices)) / 500};
  with_element(bytes_of(y.type), [&](auto type) {
    with_index(indices.type, [&](auto index) {
      keep_state<run_one_hot<decltype(type), decltype(index)>>(kernel, state);
    });
  });
}

#define CAMSHAFT_GENERATE(name, kind, formats, refusal, prepare)                  \
  {                                                                               \
    name, ir::LayerKind::kind, kIsa, FormatRule::formats, 1, refusal, traffic_us, \
        CAMSHAFT_NOTHING_PACKED, prepare                                          \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_GENERATE("range", kRange, kLinear, refuse_range, prepare_range),
    CAMSHAFT_GENERATE("trilu", kGeneric, kAny, refuse_trilu, prepare_trilu),
    CAMSHAFT_GENERATE("one_hot", kGeneric, kAny, refuse_one_hot, prepare_one_hot),
};
#undef CAMSHAFT_GENERATE

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::generate
