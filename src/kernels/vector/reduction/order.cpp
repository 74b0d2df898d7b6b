// SPDX-License-Identifier: Apache-2.0
// ArgMinMax and TopK. Elements become integers in the same order (NaN above all numbers, -0 equal
// to 0; all bits flipped where the smallest are wanted), so that comparing them is one instruction.
// TopK keeps the few elements that beat the worst of the best k so far.
#include <algorithm>

#include "kernels/vector/counts.h"
#include "kernels/vector/nest.h"
#include "kernels/vector/prepare.h"
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
  const auto& attrs = attrs_of(*args.layer);
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
  const int64_t room = k + (k > 64 ? k : 64);
  return room < count ? room : count;
}

// Of a few: each that beats the worst goes to its place among them. Sorting 64 elements for the
// best 4 takes four times as long. Short lines are over before looking ahead pays.
constexpr int64_t kFew = 16, kShortLine = 128;

template <class T>
void best_few(const T* x, int64_t step, int64_t count, int64_t k, KeyOf<T> flip,
              Entry<KeyOf<T>>* kept) {
  using Key = KeyOf<T>;
  if constexpr (sizeof(Key) == 4) {
    if (k == 1) {  // key and place as one number: no branch to guess, 30 → 10 ns for 16 elements
      int64_t best = INT64_MIN;
      for (int64_t n = 0; n < count; ++n) {
        const int64_t key = static_cast<Key>(key_of(x[n * step]) ^ flip);
        const int64_t ranked = key * (int64_t{1} << 32) + (INT32_MAX - n);
        best = ranked > best ? ranked : best;
      }
      const int64_t place = INT32_MAX - (best & UINT32_MAX);
      kept[0] = {static_cast<Key>(best >> 32), static_cast<int32_t>(place)};
      return;
    }
  }
  int64_t used = 0;
  for (int64_t n = 0; n < count; ++n) {
    const Key key = static_cast<Key>(key_of(x[n * step]) ^ flip);
    if (used == k && key <= kept[k - 1].key) continue;
    int64_t at = used < k ? used++ : k - 1;
    for (; at > 0 && kept[at - 1].key < key; --at) kept[at] = kept[at - 1];
    kept[at] = {key, static_cast<int32_t>(n)};
  }
}

// The best k so far, at the front of `kept`.
template <class T>
struct Best {
  using Key = KeyOf<T>;
  Entry<Key>* kept;
  int64_t k, room;
  Key flip;
  int64_t used = 0;
  bool is_cut = false;  // k are there: what does not beat the worst is not looked at
  Key worst = 0;
  T limit = 0;  // the element of that key

  void add(const T* x, int64_t step, int64_t n) {
    const Key key = static_cast<Key>(key_of(x[n * step]) ^ flip);
    if (is_cut && key <= worst) return;
    if (k <= kFew) return insert(x, step, {key, static_cast<int32_t>(n)});
    if (used == room) {
      std::nth_element(kept, kept + k - 1, kept + used);
      used = k;
      cut(x, step);
      if (key <= worst) return;
    }
    kept[used++] = {key, static_cast<int32_t>(n)};
  }

  void insert(const T* x, int64_t step, Entry<Key> entry) {
    int64_t at = used < k ? used++ : k - 1;
    for (; at > 0 && kept[at - 1].key < entry.key; --at) kept[at] = kept[at - 1];
    kept[at] = entry;
    if (used == k) cut(x, step);
  }

  void cut(const T* x, int64_t step) {
    is_cut = true, worst = kept[k - 1].key, limit = x[kept[k - 1].index * step];
  }

  void finish() {
    if (k <= kFew) return;
    if (used > k) std::nth_element(kept, kept + k - 1, kept + used);
    std::sort(kept, kept + k);
  }
};

// Which of kStep elements may stand in front of `limit`: a NaN of either may. True: some may.
constexpr int64_t kStep = 64;
template <class T>
bool find_better(const T* x, T limit, bool largest, uint8_t* hits) {
  if (largest)
    for (int64_t n = 0; n < kStep; ++n) hits[n] = !(x[n] <= limit);
  else
    for (int64_t n = 0; n < kStep; ++n) hits[n] = !(x[n] >= limit);
  uint8_t any = 0;
  for (int64_t n = 0; n < kStep; ++n) any |= hits[n];
  return any != 0;
}

// Calls body(position) for every byte that is 1.
template <class Body>
void for_hits(const uint8_t* hits, const Body& body) {
  for (int64_t n = 0; n < kStep; n += 8) {
    uint64_t word;
    __builtin_memcpy(&word, hits + n, 8);
    for (; word != 0; word &= word - 1) body(n + __builtin_ctzll(word) / 8);
  }
}

// The best k of a line, in order, at the front of `kept`.
template <class T>
void best_k(const T* x, int64_t step, int64_t count, int64_t k, KeyOf<T> flip,
            Entry<KeyOf<T>>* kept) {
  Best<T> best{kept, k, capacity(k, count), flip};
  int64_t first = 0;
  while (first < count) {
    if (!best.is_cut || first + kStep > count) {
      best.add(x, step, first++);
      continue;
    }
    T block[kStep];
    const T* from = x + first;
    if (step != 1) {
      for (int64_t n = 0; n < kStep; ++n) block[n] = x[(first + n) * step];
      from = block;
    }
    uint8_t hits[kStep];
    if (find_better(from, best.limit, flip == 0, hits))
      for_hits(hits, [&](int64_t n) { best.add(x, step, first + n); });
    first += kStep;
  }
  best.finish();
}

std::string refuse_top_k(const Problem& p) {
  if (std::string reason = refusal(p); !reason.empty()) return reason;
  const auto axis = static_cast<size_t>(attrs_of(*p.layer).axis);
  for (size_t k = 0; k < p.outputs.size(); ++k)
    if (p.outputs[k].present && p.outputs[k].extents[axis] > p.inputs[0].extents[axis])
      return "more than there are";
  return "";
}

// Of all elements; of as many as are kept each takes its steps of sorting (64 of 64: 16 ns).
double order_us(int64_t elements, int64_t k, int64_t count) {
  double steps = 0;
  for (int64_t n = 1; n < k; n *= 2) ++steps;
  const double kept = static_cast<double>(k) / static_cast<double>(at_least_one(count));
  return static_cast<double>(elements) * (0.0008 + 0.0026 * kept * steps);
}

double top_k_us(const Problem& p) {
  const auto axis = static_cast<size_t>(attrs_of(*p.layer).axis);
  const ProblemTensor& any = p.outputs[0].present ? p.outputs[0] : p.outputs[1];
  return 0.5 + order_us(count_of(p.inputs[0]), any.extents[axis], p.inputs[0].extents[axis]);
}

const TensorView& any_output(const KernelArgs& args) {
  return args.outputs[0].present() ? args.outputs[0] : args.outputs[1];
}

struct TopK {
  Nest nest;  // of lines: an output, the input, values, indices
  int64_t k, count, lines;
  int64_t x_step, value_step, index_step;  // along a line
  int64_t entries;                         // of a worker
  bool has_values, has_indices, largest;
  bool last;  // of equal elements the last one comes first
  double predicted_us;
};

// `offsets`: of the line in the tensors of the nest.
template <class T>
void top_of_line(const TopK& s, const KernelCall& call, const int64_t* offsets,
                 Entry<KeyOf<T>>* kept) {
  const auto flip = static_cast<KeyOf<T>>(s.largest ? 0 : -1);
  const T* line = call.input<const T>(0) + offsets[1];
  const int64_t end = s.count - 1;  // the line backwards, if the last is to come first
  const auto order = s.k <= kFew && s.count <= kShortLine ? best_few<T> : best_k<T>;
  order(s.last ? line + end * s.x_step : line, s.last ? -s.x_step : s.x_step, s.count, s.k, flip,
        kept);
  for (int64_t n = 0; n < s.k && s.last; ++n)
    kept[n].index = static_cast<int32_t>(end - kept[n].index);
  for (int64_t n = 0; n < s.k && s.has_values; ++n)
    call.output<T>(0)[offsets[2] + n * s.value_step] = line[kept[n].index * s.x_step];
  for (int64_t n = 0; n < s.k && s.has_indices; ++n)
    call.output<int64_t>(1)[offsets[3] + n * s.index_step] = kept[n].index;
}

// The best of lines side by side: all of them at once, element after element.
template <class T>
void top_of_lines(const TopK& s, const KernelCall& call, const int64_t* offsets, int64_t lines) {
  using Key = KeyOf<T>;
  constexpr int64_t kBlock = 256;
  const auto flip = static_cast<Key>(s.largest ? 0 : -1);
  const int64_t value_line = s.nest.col_stride(2), index_line = s.nest.col_stride(3);
  for (int64_t first = 0; first < lines; first += kBlock) {
    const int64_t count = smaller(kBlock, lines - first);
    const T* x = call.input<const T>(0) + offsets[1] + first;
    Key best[kBlock];
    int32_t places[kBlock];
    for (int64_t k = 0; k < s.count; ++k) {
      const int64_t place = s.last ? s.count - 1 - k : k;
      const T* from = x + place * s.x_step;
      for (int64_t n = 0; n < count; ++n) {
        const Key key = static_cast<Key>(key_of(from[n]) ^ flip);
        const bool better = k == 0 || key > best[n];
        best[n] = better ? key : best[n];
        places[n] = better ? static_cast<int32_t>(place) : places[n];
      }
    }
    for (int64_t n = 0; n < count && s.has_values; ++n)
      call.output<T>(0)[offsets[2] + (first + n) * value_line] = x[places[n] * s.x_step + n];
    for (int64_t n = 0; n < count && s.has_indices; ++n)
      call.output<int64_t>(1)[offsets[3] + (first + n) * index_line] = places[n];
  }
}

template <class T>
void run_top_k(TopK& s, const KernelCall& call) {
  const Nest& nest = s.nest;
  split(call.pool, s.lines, s.predicted_us, [&](int worker, int64_t first, int64_t last) {
    auto* kept = reinterpret_cast<Entry<KeyOf<T>>*>(call.workspace) + worker * s.entries;
    const int64_t cols = nest.cols();
    for (int64_t n = first, end; n < last; n = end) {
      const int64_t row = n / cols;
      end = smaller(last, (row + 1) * cols);
      for_rows(nest, row, row + 1, [&](const int64_t* offsets, int64_t) {
        if (s.k == 1 && nest.col_stride(1) == 1 && end - n >= kLanes) {
          int64_t at[4];
          for (int t = 0; t < 4; ++t) at[t] = offsets[t] + (n - row * cols) * nest.col_stride(t);
          return top_of_lines<T>(s, call, at, end - n);
        }
        for (int64_t col = n - row * cols; col < end - row * cols; ++col) {
          int64_t at[4];
          for (int t = 0; t < 4; ++t) at[t] = offsets[t] + col * nest.col_stride(t);
          top_of_line<T>(s, call, at, kept);
        }
      });
    }
  });
}

void prepare_top_k(const KernelArgs& args, PreparedKernel& kernel) {
  kernel.run = run_nothing;
  const TensorView &x = args.inputs[0], &any = any_output(args);
  const auto& attrs = attrs_of(*args.layer);
  const auto axis = attrs.axis;
  const int64_t k = any.extents[axis], count = x.extents[axis];
  if (count_of(any) == 0 || k > count) return;
  const bool has_values = args.outputs[0].present(),
             has_indices = args.outputs.size() > 1 && args.outputs[1].present();
  const TensorView &values = has_values ? args.outputs[0] : any,
                   &indices = has_indices ? args.outputs[1] : any;
  Nest nest = make_nest(any);
  add_tensor(nest, x);
  add_tensor(nest, values);
  add_tensor(nest, indices);
  nest.extents[axis] = 1;
  collapse(nest);
  const TopK state{nest,
                   k,
                   count,
                   count_of(any) / k,
                   x.strides[axis],
                   values.strides[axis],
                   indices.strides[axis],
                   capacity(k, count),
                   has_values,
                   has_indices,
                   attrs.largest,
                   attrs.select_last_index,
                   order_us(count_of(x), k, count)};
  with_value(x.type, [&](auto value) { keep_state<run_top_k<decltype(value)>>(kernel, state); });
  kernel.workspace_bytes =
      static_cast<size_t>(state.entries * threads_of(args)) * sizeof(Entry<int64_t>);
}

constexpr Tactic kTactics[] = {
    {"arg_min_max", ir::LayerKind::kArgMinMax, kIsa, FormatRule::kAny, 1, refusal, arg_us,
     CAMSHAFT_NOTHING_PACKED, prepare_arg},
    {"top_k", ir::LayerKind::kTopK, kIsa, FormatRule::kAny, 3, refuse_top_k, top_k_us,
     CAMSHAFT_NOTHING_PACKED, prepare_top_k},
};

}  // namespace

std::span<const Tactic> order_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
