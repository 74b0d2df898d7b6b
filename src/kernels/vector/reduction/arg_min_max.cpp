// SPDX-License-Identifier: Apache-2.0
// ArgMinMax: the first (or last) of the largest or smallest elements of every line.
#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/reduction/order_keys.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::arg_min_max {
namespace {

constexpr int64_t kBlock = 64;

// `flip`: all bits, or none.
template <class T>
int64_t best_of_line(const T* x, int64_t step, int64_t count, KeyOf<T> flip, bool last) {
  using Key = KeyOf<T>;
  Key best = static_cast<Key>(key_of(x[0]) ^ flip);
  if (step == 1) {
    for (int64_t k = 1; k < count; ++k) {
      const Key key = static_cast<Key>(key_of(x[k]) ^ flip);
      best = best < key ? key : best;
    }
  } else {
    for (int64_t k = 1; k < count; ++k) {
      const Key key = static_cast<Key>(key_of(x[k * step]) ^ flip);
      best = best < key ? key : best;
    }
  }
  const auto is_best = [&](int64_t k) { return (key_of(x[k * step]) ^ flip) == best; };
  int64_t at = last ? count - 1 : 0;
  while (!is_best(at)) at += last ? -1 : 1;
  return at;
}

template <class T>
void best_of_block(const T* x, int64_t step, int64_t lines_step, int64_t count, int64_t lines,
                   KeyOf<T> flip, bool last, int64_t* y, int64_t y_step) {
  using Key = KeyOf<T>;
  Key best[kBlock];
  Key at[kBlock] = {};  // as wide as keys, so that both fill the same lanes
  for (int64_t c = 0; c < lines; ++c) best[c] = static_cast<Key>(key_of(x[c * lines_step]) ^ flip);
  for (int64_t k = 1; k < count; ++k) {
    const T* row = x + k * step;
    const Key now = static_cast<Key>(k);
    for (int64_t c = 0; c < lines; ++c) {
      const Key key = static_cast<Key>(key_of(row[c * lines_step]) ^ flip);
      const bool better = last ? key >= best[c] : key > best[c];
      best[c] = better ? key : best[c];
      at[c] = better ? now : at[c];
    }
  }
  for (int64_t c = 0; c < lines; ++c) y[c * y_step] = static_cast<int64_t>(at[c]);
}

double arg_us(const Problem& p) {
  return 0.2 + 0.0003 * static_cast<double>(count_of(p.inputs[0]));
}

// The output with the axis of the input, of extent 1.
TensorView with_axis(const TensorView& y, int axis, int rank) {
  if (y.rank == rank) return y;
  TensorView view = y;
  view.rank = rank;
  for (int d = rank - 1; d > axis; --d)
    view.extents[d] = y.extents[d - 1], view.strides[d] = y.strides[d - 1];
  view.extents[axis] = 1, view.strides[axis] = 0;
  return view;
}

struct ArgBest {
  Nest nest;            // of lines: the output, the input
  int64_t count, step;  // elements of a line
  bool one_by_one, largest, last;
  double predicted_us;
};

template <class T>
void run_arg(ArgBest& s, const KernelCall& call) {
  const Nest& nest = s.nest;
  const T* x = call.input<const T>(0);
  int64_t* y = call.output<int64_t>(0);
  const auto flip = static_cast<KeyOf<T>>(s.largest ? 0 : -1);
  const auto body = [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    const int64_t to_step = nest.col_stride(0), from_step = nest.col_stride(1);
    for (int64_t row = 0; row < rows; ++row) {
      int64_t* to = y + offsets[0] + row * nest.row_stride(0);
      const T* from = x + offsets[1] + row * nest.row_stride(1);
      for (int64_t col = 0; col < cols && s.one_by_one; ++col)
        to[col * to_step] = best_of_line(from + col * from_step, s.step, s.count, flip, s.last);
      for (int64_t col = 0; col < cols && !s.one_by_one; col += kBlock)
        best_of_block(from + col * from_step, s.step, from_step, s.count,
                      cols - col < kBlock ? cols - col : kBlock, flip, s.last, to + col * to_step,
                      to_step);
    }
  };
  for_tiles(nest, call.pool, s.predicted_us, body);
}

void prepare_arg(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& x = args.inputs[0];
  const auto& attrs = order_attrs(*args.layer);
  const int axis = static_cast<int>(attrs.axis);
  Nest nest = make_nest(with_axis(args.outputs[0], axis, x.rank));
  add_tensor(nest, x);
  nest.extents[axis] = 1;
  collapse(nest);
  const int64_t step = x.strides[axis];
  const ArgBest state{nest,
                      x.extents[axis],
                      step,
                      nest.cols() < 8 || step == 1,
                      attrs.largest,
                      attrs.select_last_index,
                      static_cast<double>(count_of(x)) * 0.0003};
  with_value(x.type, [&](auto value) { keep_state<run_arg<decltype(value)>>(kernel, state); });
}

constexpr Tactic kTactics[] = {
    {"arg_min_max", ir::LayerKind::kArgMinMax, kIsa, FormatRule::kAny, 1, refuse_order, arg_us,
     CAMSHAFT_NOTHING_PACKED, prepare_arg},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::arg_min_max
