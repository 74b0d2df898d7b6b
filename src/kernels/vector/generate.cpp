// SPDX-License-Identifier: Apache-2.0
// Layers whose elements follow from their positions: Range, Trilu, OneHot.
#include "kernels/vector/copy.h"
#include "kernels/vector/copy_bytes.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/indices.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
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

// Floats are counted in double.
template <class T, class Wide>
void count_from(const KernelArgs& args) {
  const TensorView& y = args.outputs[0];
  const Wide start = static_cast<Wide>(*args.inputs[0].as<const T>()),
             delta = static_cast<Wide>(*args.inputs[2].as<const T>());
  T* to = y.as<T>();
  const int64_t step = y.strides[0];
  split(args.pool, count_of(y), static_cast<double>(count_of(y)) / 2000,
        [&](int, int64_t first, int64_t last) {
          for (int64_t k = first; k < last; ++k)
            to[k * step] = static_cast<T>(start + static_cast<Wide>(k) * delta);
        });
}

void run_range(const KernelArgs& args) {
  switch (args.outputs[0].type) {
    case DataType::kInt64:
      return count_from<uint64_t, uint64_t>(args);
    case DataType::kInt32:
      return count_from<uint32_t, uint32_t>(args);
    case DataType::kFloat:
      return count_from<float, double>(args);
    default:
      return count_from<double, double>(args);
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

void run_trilu(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const bool upper = generic_integer(*args.layer, "upper", 1) != 0;
  const int64_t diagonal =
      args.inputs.size() > 1 && args.inputs[1].present() ? scalar_of(args.inputs[1]) : 0;
  const int64_t rows = y.extents[y.rank - 2], cols = y.extents[y.rank - 1],
                lines = count_of(y) / (cols > 0 ? cols : 1);
  if (count_of(y) == 0) return;
  const auto inside = [cols](int64_t col) { return col < 0 ? 0 : col > cols ? cols : col; };
  with_element(bytes_of(y.type), [&](auto type) {
    using T = decltype(type);
    split(args.pool, lines, static_cast<double>(count_of(y)) / 3000,
          [&](int, int64_t begin, int64_t end) {
            for (int64_t line = begin; line < end; ++line) {
              int64_t rest = line, from = 0, to = 0;
              for (int d = y.rank - 2; d >= 0; --d) {
                const int64_t index = rest % y.extents[d];
                rest /= y.extents[d];
                from += index * x.strides[d], to += index * y.strides[d];
              }
              // Columns on the diagonal of this row and beyond: kept above, zero below.
              const int64_t row = line % rows;
              const int64_t edge = inside(row +
                                          (diagonal > cols    ? cols
                                           : diagonal < -rows ? -rows
                                                              : diagonal) +
                                          (upper ? 0 : 1));
              copy_part(x.as<const T>() + from, x.strides[x.rank - 1], y.as<T>() + to,
                        y.strides[y.rank - 1], cols, upper ? edge : 0, upper ? cols : edge);
            }
          });
  });
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

void run_one_hot(const KernelArgs& args) {
  const TensorView &indices = args.inputs[0], &values = args.inputs[2], &y = args.outputs[0];
  int64_t axis = generic_integer(*args.layer, "axis", -1);
  if (axis < 0) axis += y.rank;
  if (count_of(y) == 0) return;
  fill_view(y, values.data, args.pool);
  const int64_t depth = y.extents[axis], step = y.strides[axis];
  TensorView lines = y;
  lines.rank = y.rank - 1;
  for (int d = static_cast<int>(axis); d < lines.rank; ++d)
    lines.extents[d] = y.extents[d + 1], lines.strides[d] = y.strides[d + 1];
  Nest nest = make_nest(lines);
  add_tensor(nest, indices);
  collapse(nest);
  with_element(bytes_of(y.type), [&](auto type) {
    using T = decltype(type);
    const T on = values.as<const T>()[values.strides[0]];
    with_index(indices.type, [&](auto index_type) {
      using Index = decltype(index_type);
      for_tiles(nest, args.pool, static_cast<double>(count_of(indices)) / 500,
                [&](const int64_t* offsets, int64_t rows, int64_t cols) {
                  for (int64_t row = 0; row < rows; ++row)
                    for (int64_t col = 0; col < cols; ++col) {
                      int64_t index = static_cast<int64_t>(
                          indices.as<const Index>()[offsets[1] + row * nest.row_stride(1) +
                                                    col * nest.col_stride(1)]);
                      index += index < 0 ? depth : 0;
                      if (index >= 0 && index < depth)
                        y.as<T>()[offsets[0] + row * nest.row_stride(0) + col * nest.col_stride(0) +
                                  index * step] = on;
                    }
                });
    });
  });
}

#define CAMSHAFT_GENERATE(name, kind, formats, refusal, run)                      \
  {                                                                               \
    name, ir::LayerKind::kind, kIsa, FormatRule::formats, 1, refusal, traffic_us, \
        CAMSHAFT_NOTHING_PACKED, run                                              \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_GENERATE("range", kRange, kLinear, refuse_range, run_range),
    CAMSHAFT_GENERATE("trilu", kGeneric, kAny, refuse_trilu, run_trilu),
    CAMSHAFT_GENERATE("one_hot", kGeneric, kAny, refuse_one_hot, run_one_hot),
};

}  // namespace

std::span<const Tactic> generate_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
