// SPDX-License-Identifier: Apache-2.0
// CumSum along any axis: along contiguous lines one after the other, else many lines side by side.
// Sums of floats are kept in double, as the reference does.
#include "kernels/nest.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::cumsum {
namespace {

// Lines side by side: long rows are read one after the other, their sums stay in L1 (64 lines: 1.8
// times as long).
constexpr int64_t kBlock = 1024;

int64_t axis_of(const void* data, DataType type) {
  return type == DataType::kInt64 ? *static_cast<const int64_t*>(data)
                                  : *static_cast<const int32_t*>(data);
}

std::string refusal(const Problem& p) {
  const ProblemTensor &x = p.inputs[0], &axis = p.inputs[1];
  const auto rank = static_cast<int64_t>(x.extents.size());
  if (axis.constant == nullptr || count_of(axis) != 1 ||
      (axis.type != DataType::kInt64 && axis.type != DataType::kInt32))
    return "the axis is known only when running";
  const int64_t given = axis_of(axis.constant->view.data(), axis.type);
  if (given < -rank || given >= rank) return "the axis is out of range";
  if (x.type != DataType::kFloat && x.type != DataType::kDouble && x.type != DataType::kInt64 &&
      x.type != DataType::kInt32)
    return "neither float, double, int64 nor int32";
  return "";
}

double cost_us(const Problem& p) {
  return 0.2 + 0.001 * static_cast<double>(count_of(p.inputs[0]));
}

// Of each line: its elements, steps between them, the offset of the first.
struct Line {
  int64_t count, y, x, first_y, first_x;
  bool exclusive;
};

template <class T, class Sum>
void scan_line(const Line& line, T* y, const T* x) {
  Sum sum = 0;
  for (int64_t k = 0; k < line.count; ++k) {
    const Sum before = sum;
    sum += static_cast<Sum>(x[k * line.x]);
    y[k * line.y] = static_cast<T>(line.exclusive ? before : sum);
  }
}

// One element of each line. kDense: lines lie side by side in x, too.
template <class T, class Sum, bool kDense>
CAMSHAFT_INLINE void scan_row(bool exclusive, Sum* sums, T* y, const T* x, int64_t x_step,
                              int64_t lines) {
  const auto step = [&](int64_t c) {
    const Sum before = sums[c], sum = before + static_cast<Sum>(x[kDense ? c : c * x_step]);
    sums[c] = sum;
    return exclusive ? before : sum;
  };
#pragma GCC ivdep  // y may be x, element for element
  for (int64_t c = 0; c < lines; ++c) y[c] = static_cast<T>(step(c));
}

template <class T, class Sum>
void scan_block(const Line& line, T* y, const T* x, int64_t x_step, int64_t lines) {
  Sum sums[kBlock];
  for (int64_t c = 0; c < lines; ++c) sums[c] = 0;
  for (int64_t k = 0; k < line.count; ++k) {
    T* to = y + k * line.y;
    const T* from = x + k * line.x;
    if (x_step == 1)
      scan_row<T, Sum, true>(line.exclusive, sums, to, from, 1, lines);
    else
      scan_row<T, Sum, false>(line.exclusive, sums, to, from, x_step, lines);
  }
}

// The axis is a constant, but its value is seen only when running.
struct CumSum {
  TensorView x, y;
  bool reverse, exclusive;
  DataType axis_type;
  double predicted_us;
  int64_t axis;  // of line and nest; below 0: none yet
  Line line;
  Nest nest;
};

void plan_axis(CumSum& s, int64_t axis) {
  const int64_t count = s.x.extents[axis], last = s.reverse ? count - 1 : 0,
                sign = s.reverse ? -1 : 1;
  const int64_t x_step = s.x.strides[axis], y_step = s.y.strides[axis];
  s.axis = axis;
  s.line = {count, sign * y_step, sign * x_step, last * y_step, last * x_step, s.exclusive};
  s.nest = make_nest(s.y);
  add_tensor(s.nest, s.x);
  s.nest.extents[axis] = 1;
  collapse(s.nest);
}

template <class T, class Sum>
void run(CumSum& s, const KernelCall& call) {
  int64_t axis = axis_of(call.inputs[1], s.axis_type);
  if (axis < 0) axis += s.x.rank;
  if (axis != s.axis) plan_axis(s, axis);
  const Line& line = s.line;
  const Nest& nest = s.nest;
  T* y = call.output<T>(0) + line.first_y;
  const T* x = call.input<const T>(0) + line.first_x;
  const bool one_by_one = nest.col_stride(0) != 1 || nest.cols() < 4;
  const auto body = [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    for (int64_t row = 0; row < rows; ++row) {
      T* to = y + offsets[0] + row * nest.row_stride(0);
      const T* from = x + offsets[1] + row * nest.row_stride(1);
      if (one_by_one) {
        for (int64_t col = 0; col < cols; ++col)
          scan_line<T, Sum>(line, to + col * nest.col_stride(0), from + col * nest.col_stride(1));
        continue;
      }
      for (int64_t col = 0; col < cols; col += kBlock)
        scan_block<T, Sum>(line, to + col, from + col * nest.col_stride(1), nest.col_stride(1),
                           cols - col < kBlock ? cols - col : kBlock);
    }
  };
  for_tiles(nest, call.pool, s.predicted_us, body);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const auto& attrs = *std::get_if<ir::CumSumAttrs>(&args.layer->attrs);
  const CumSum state{x,
                     y,
                     attrs.reverse,
                     attrs.exclusive,
                     args.inputs[1].type,
                     static_cast<double>(count_of(y)) * 0.001,
                     -1,
                     {},
                     {}};
  switch (x.type) {
    case DataType::kFloat:
      keep_state<run<float, double>>(kernel, state);
      break;
    case DataType::kDouble:
      keep_state<run<double, double>>(kernel, state);
      break;
    case DataType::kInt64:
      keep_state<run<uint64_t, uint64_t>>(kernel, state);
      break;
    default:
      keep_state<run<uint32_t, uint32_t>>(kernel, state);
  }
}

constexpr Tactic kTactics[] = {
    {"cumsum", ir::LayerKind::kCumSum, kIsa, FormatRule::kAny, 2, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::cumsum
