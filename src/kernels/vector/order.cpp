// SPDX-License-Identifier: Apache-2.0
// ArgMinMax and TopK. Elements become integers in the same order (NaN above all numbers, -0 equal
// to 0; all bits flipped where the smallest are wanted), so that comparing them is one instruction.
// TopK keeps the few elements that beat the worst of the best k so far.
#include <algorithm>

#include "kernels/vector/nest.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

const ir::TopKAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::TopKAttrs>(&layer.attrs);
}

std::string refusal(const Problem& p) {
  switch (p.inputs[0].type) {
    case DataType::kFloat:
    case DataType::kDouble:
    case DataType::kInt64:
    case DataType::kInt32:
    case DataType::kUInt8:
    case DataType::kInt8:
      break;
    default:
      return "elements of another type than float, double, int64, int32 and 8-bit integers";
  }
  const ir::Extents& x = p.inputs[0].extents;
  const auto axis = static_cast<size_t>(attrs_of(*p.layer).axis);
  if (axis >= x.size()) return "no such axis";
  return x[axis] < 1 || x[axis] > INT32_MAX ? "lines of no or too many elements" : "";
}

// --- keys

CAMSHAFT_INLINE int32_t key_of(float value) {
  int32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  const int32_t ordered = bits ^ ((bits >> 31) & INT32_MAX);
  const int32_t number = bits == INT32_MIN ? 0 : ordered;
  return (bits & INT32_MAX) > 0x7f800000 ? INT32_MAX : number;
}
CAMSHAFT_INLINE int64_t key_of(double value) {
  int64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  const int64_t ordered = bits ^ ((bits >> 63) & INT64_MAX);
  const int64_t number = bits == INT64_MIN ? 0 : ordered;
  return (bits & INT64_MAX) > 0x7ff0000000000000 ? INT64_MAX : number;
}
CAMSHAFT_INLINE int64_t key_of(int64_t value) {
  return value;
}
CAMSHAFT_INLINE int32_t key_of(int32_t value) {
  return value;
}
CAMSHAFT_INLINE int32_t key_of(uint8_t value) {
  return value;
}
CAMSHAFT_INLINE int32_t key_of(int8_t value) {
  return value;
}

template <class T>
using KeyOf = decltype(key_of(T()));

template <class Body>
void with_value(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat:
      return body(float());
    case DataType::kDouble:
      return body(double());
    case DataType::kInt64:
      return body(int64_t());
    case DataType::kInt32:
      return body(int32_t());
    case DataType::kUInt8:
      return body(uint8_t());
    default:
      return body(int8_t());
  }
}

// --- ArgMinMax

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

void run_arg(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const auto& attrs = attrs_of(*args.layer);
  const int axis = static_cast<int>(attrs.axis);
  const TensorView y = with_axis(args.outputs[0], axis, x.rank);
  if (count_of(y) == 0) return;
  const int64_t count = x.extents[axis], step = x.strides[axis];
  Nest nest = make_nest(y);
  add_tensor(nest, x);
  nest.extents[axis] = 1;
  collapse(nest);
  const bool one_by_one = nest.cols() < 8 || step == 1;
  const double us = static_cast<double>(count_of(x)) * 0.0003;
  with_value(x.type, [&](auto value) {
    using T = decltype(value);
    const auto flip = static_cast<KeyOf<T>>(attrs.largest ? 0 : -1);
    for_tiles(nest, args.pool, us, [&](const int64_t* offsets, int64_t rows, int64_t cols) {
      for (int64_t row = 0; row < rows; ++row) {
        int64_t* to = y.as<int64_t>() + offsets[0] + row * nest.row_stride(0);
        const T* from = x.as<const T>() + offsets[1] + row * nest.row_stride(1);
        const int64_t to_step = nest.col_stride(0), from_step = nest.col_stride(1);
        for (int64_t col = 0; col < cols && one_by_one; ++col)
          to[col * to_step] =
              best_of_line(from + col * from_step, step, count, flip, attrs.select_last_index);
        for (int64_t col = 0; col < cols && !one_by_one; col += kBlock)
          best_of_block(from + col * from_step, step, from_step, count,
                        cols - col < kBlock ? cols - col : kBlock, flip, attrs.select_last_index,
                        to + col * to_step, to_step);
      }
    });
  });
}

// --- TopK

template <class Key>
struct Entry {
  Key key;
  int32_t index;
};
template <class Key>
bool operator<(const Entry<Key>& a, const Entry<Key>& b) {  // a stands in front of b
  return a.key != b.key ? a.key > b.key : a.index < b.index;
}

// Room for the best k and for what beats the worst of them until the next cut.
int64_t capacity(int64_t k, int64_t count) {
  const int64_t room = k + (k > 512 ? k : 512);
  return room < count ? room : count;
}

// Of a few: each that beats the worst goes to its place among them. Sorting 64 elements for the
// best 4 takes four times as long.
constexpr int64_t kFew = 16, kShortLine = 1024;

template <class T>
void best_few(const T* x, int64_t step, int64_t count, int64_t k, KeyOf<T> flip,
              Entry<KeyOf<T>>* kept) {
  using Key = KeyOf<T>;
  int64_t used = 0;
  for (int64_t n = 0; n < count; ++n) {
    const Key key = static_cast<Key>(key_of(x[n * step]) ^ flip);
    if (used == k && key <= kept[k - 1].key) continue;
    int64_t at = used < k ? used++ : k - 1;
    for (; at > 0 && kept[at - 1].key < key; --at) kept[at] = kept[at - 1];
    kept[at] = {key, static_cast<int32_t>(n)};
  }
}

// The best k of a line, in order, at the front of `kept`.
template <class T>
void best_k(const T* x, int64_t step, int64_t count, int64_t k, KeyOf<T> flip,
            Entry<KeyOf<T>>* kept) {
  using Key = KeyOf<T>;
  constexpr int64_t kStep = 32;
  const int64_t room = capacity(k, count);
  int64_t used = 0;
  Key worst = 0;
  bool is_cut = false;
  Key keys[kStep];
  for (int64_t first = 0; first < count; first += kStep) {
    const int64_t length = count - first < kStep ? count - first : kStep;
    const T* from = x + first * step;
    for (int64_t n = 0; n < length; ++n) keys[n] = static_cast<Key>(key_of(from[n * step]) ^ flip);
    if (is_cut) {
      int any = 0;
      for (int64_t n = 0; n < length; ++n) any |= keys[n] > worst;
      if (any == 0) continue;
    }
    for (int64_t n = 0; n < length; ++n) {
      if (is_cut && keys[n] <= worst) continue;
      if (used == room) {
        std::nth_element(kept, kept + k - 1, kept + used);
        worst = kept[k - 1].key, used = k, is_cut = true;
        if (keys[n] <= worst) continue;
      }
      kept[used++] = {keys[n], static_cast<int32_t>(first + n)};
    }
  }
  if (used > k) std::nth_element(kept, kept + k - 1, kept + used);
  std::sort(kept, kept + k);
}

std::string refuse_top_k(const Problem& p) {
  if (std::string reason = refusal(p); !reason.empty()) return reason;
  const auto axis = static_cast<size_t>(attrs_of(*p.layer).axis);
  for (size_t k = 0; k < p.outputs.size(); ++k)
    if (p.outputs[k].present && p.outputs[k].extents[axis] > p.inputs[0].extents[axis])
      return "more than there are";
  return "";
}

double top_k_us(const Problem& p) {
  return 0.5 + 0.0008 * static_cast<double>(count_of(p.inputs[0]));
}

const TensorView& any_output(const KernelArgs& args) {
  return args.outputs[0].present() ? args.outputs[0] : args.outputs[1];
}

int64_t worker_entries(const KernelArgs& args) {
  const auto axis = attrs_of(*args.layer).axis;
  return capacity(any_output(args).extents[axis], args.inputs[0].extents[axis]);
}

size_t workspace_bytes(const KernelArgs& args) {
  return static_cast<size_t>(worker_entries(args) * threads_of(args)) * sizeof(Entry<int64_t>);
}

void run_top_k(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &any = any_output(args);
  const auto& attrs = attrs_of(*args.layer);
  const auto axis = attrs.axis;
  const int64_t k = any.extents[axis], count = x.extents[axis];
  if (count_of(any) == 0 || k > count) return;
  const TensorView absent;
  const TensorView &values = args.outputs[0],
                   &indices = args.outputs.size() > 1 ? args.outputs[1] : absent;
  Nest nest = make_nest(any);
  add_tensor(nest, x);
  add_tensor(nest, values.present() ? values : any);
  add_tensor(nest, indices.present() ? indices : any);
  nest.extents[axis] = 1;
  collapse(nest);
  const int64_t lines = count_of(any) / k, entries = worker_entries(args);
  const double us = static_cast<double>(count_of(x)) * 0.0008;
  with_value(x.type, [&](auto value) {
    using T = decltype(value);
    using Kept = Entry<KeyOf<T>>;
    const auto flip = static_cast<KeyOf<T>>(attrs.largest ? 0 : -1);
    const auto put_line = [&](Kept* kept, int64_t from, int64_t value_at, int64_t index_at) {
      const T* line = x.as<const T>() + from;
      (k <= kFew && count <= kShortLine ? best_few<T> : best_k<T>)(line, x.strides[axis], count, k,
                                                                   flip, kept);
      for (int64_t n = 0; n < k && values.present(); ++n)
        values.as<T>()[value_at + n * values.strides[axis]] = line[kept[n].index * x.strides[axis]];
      for (int64_t n = 0; n < k && indices.present(); ++n)
        indices.as<int64_t>()[index_at + n * indices.strides[axis]] = kept[n].index;
    };
    split(args.pool, lines, us, [&](int worker, int64_t first, int64_t last) {
      auto* kept = reinterpret_cast<Kept*>(args.workspace) + worker * entries;
      const int64_t cols = nest.cols();
      for (int64_t n = first; n < last; ++n)
        for_rows(nest, n / cols, n / cols + 1, [&](const int64_t* offsets, int64_t) {
          const int64_t col = n % cols;
          put_line(kept, offsets[1] + col * nest.col_stride(1),
                   offsets[2] + col * nest.col_stride(2), offsets[3] + col * nest.col_stride(3));
        });
    });
  });
}

constexpr Tactic kTactics[] = {
    {"arg_min_max", ir::LayerKind::kArgMinMax, kIsa, FormatRule::kAny, 1, refusal, arg_us,
     CAMSHAFT_NOTHING_PACKED, run_arg},
    {"top_k", ir::LayerKind::kTopK, kIsa, FormatRule::kAny, 1, refuse_top_k, top_k_us,
     no_packed_inputs, no_packed_bytes, pack_nothing, workspace_bytes, run_top_k},
};

}  // namespace

std::span<const Tactic> order_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
