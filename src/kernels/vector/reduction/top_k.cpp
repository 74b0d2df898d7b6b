// SPDX-License-Identifier: Apache-2.0
// TopK keeps the few elements that beat the worst of the best k so far.
#include <algorithm>

#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/reduction/order_keys.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::top_k {
namespace {

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

// Key and place as one number: what is larger stands in front, places by comparing and choosing
// alone. A branch per element is a guess: 44 → 16 ns for the best 2 of 8.
template <int kBest, class T>
void best_ranked(const T* x, int64_t step, int64_t count, int64_t k, KeyOf<T> flip,
                 Entry<KeyOf<T>>* kept) {
  using Key = KeyOf<T>;
  int64_t best[kBest];
  for (int64_t& rank : best) rank = INT64_MIN;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t key = static_cast<Key>(key_of(x[n * step]) ^ flip);
    int64_t rank = key * (int64_t{1} << 32) + (INT32_MAX - n);
#pragma GCC unroll 8
    for (int place = 0; place < kBest; ++place) {
      const int64_t front = rank > best[place] ? rank : best[place];
      rank = rank > best[place] ? best[place] : rank;
      best[place] = front;
    }
  }
  for (int64_t n = 0; n < k; ++n)
    kept[n] = {static_cast<Key>(best[n] >> 32),
               static_cast<int32_t>(INT32_MAX - (best[n] & UINT32_MAX))};
}

template <class T>
void best_few(const T* x, int64_t step, int64_t count, int64_t k, KeyOf<T> flip,
              Entry<KeyOf<T>>* kept) {
  using Key = KeyOf<T>;
  if constexpr (sizeof(Key) == 4) {
    if (k == 1) return best_ranked<1>(x, step, count, k, flip, kept);
    if (k == 2) return best_ranked<2>(x, step, count, k, flip, kept);
    if (k <= 4) return best_ranked<4>(x, step, count, k, flip, kept);
    if (k <= 8) return best_ranked<8>(x, step, count, k, flip, kept);
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

// Whether one of kStep elements may stand in front of `limit`: a NaN of either may. Most blocks
// have none, and flags as wide as elements tell it sooner than bytes (5 of 8,192 4.3 → 3.6 us, Zen
// 3).
constexpr int64_t kStep = 64;
template <class T>
bool has_better(const T* x, T limit, bool largest) {
  KeyOf<T> any = 0;
  if (largest)
    for (int64_t n = 0; n < kStep; ++n) any |= !(x[n] <= limit);
  else
    for (int64_t n = 0; n < kStep; ++n) any |= !(x[n] >= limit);
  return any != 0;
}

// Which ones.
template <class T>
void find_better(const T* x, T limit, bool largest, uint8_t* hits) {
  if (largest)
    for (int64_t n = 0; n < kStep; ++n) hits[n] = !(x[n] <= limit);
  else
    for (int64_t n = 0; n < kStep; ++n) hits[n] = !(x[n] >= limit);
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
    if (has_better(from, best.limit, flip == 0)) {
      uint8_t hits[kStep];
      find_better(from, best.limit, flip == 0, hits);
      for_hits(hits, [&](int64_t n) { best.add(x, step, first + n); });
    }
    first += kStep;
  }
  best.finish();
}

// Short lines of which many are kept: an element's place is how many stand in front of it, counted
// for eight at a time. Sorting guesses a branch per comparison (96 of 96 on Zen 3: 3.7 us, counted
// 0.9).
constexpr int64_t kMostCounted = 512;
constexpr int kTogether = 8;

// Comparisons of each of `count` elements that are sorted.
int64_t sorting_steps(int64_t count) {
  int64_t steps = 0;
  for (int64_t n = 1; n < count; n *= 2) ++steps;
  return steps;
}

bool counts_places(int64_t k, int64_t count) {
  if (k <= kFew || count > kMostCounted) return false;
  return count * count / kTogether < 12 * k * sorting_steps(k) + 6 * count;  // cycles
}

// Adds to `places`, of elements [first, first + kTogether), how many of the elements [from, to)
// stand in front: those before them where keys are equal.
template <bool kBefore>
CAMSHAFT_INLINE void count_places(const int32_t* keys, int64_t first, int64_t from, int64_t to,
                                  int32_t* places) {
  int32_t own[kTogether], in_front[kTogether] = {};
  for (int n = 0; n < kTogether; ++n) own[n] = keys[first + n];
  for (int64_t other = from; other < to; ++other)
    for (int n = 0; n < kTogether; ++n)
      in_front[n] += kBefore ? keys[other] >= own[n] : keys[other] > own[n];
  for (int n = 0; n < kTogether; ++n) places[n] += in_front[n];
}

template <class T>
void best_counted(const T* x, int64_t step, int64_t count, int64_t k, KeyOf<T> flip,
                  Entry<KeyOf<T>>* kept) {
  int32_t keys[kMostCounted + kTogether];
  for (int64_t n = 0; n < count; ++n) keys[n] = static_cast<int32_t>(key_of(x[n * step]) ^ flip);
  for (int64_t n = count; n < round_up(count, kTogether); ++n) keys[n] = INT32_MIN;
  for (int64_t first = 0; first < count; first += kTogether) {
    int32_t places[kTogether] = {};
    count_places<true>(keys, first, 0, first, places);
    count_places<false>(keys, first, first, count, places);
    for (int n = 1; n < kTogether; ++n)
      for (int before = 0; before < n; ++before)
        places[n] += keys[first + before] == keys[first + n];
    for (int n = 0; n < kTogether && first + n < count; ++n)
      if (places[n] < k) kept[places[n]] = {keys[first + n], static_cast<int32_t>(first + n)};
  }
}

std::string refuse_top_k(const Problem& p) {
  if (std::string reason = refuse_order(p); !reason.empty()) return reason;
  const auto axis = static_cast<size_t>(order_attrs(*p.layer).axis);
  for (size_t k = 0; k < p.outputs.size(); ++k)
    if (p.outputs[k].present && p.outputs[k].extents[axis] > p.inputs[0].extents[axis])
      return "more than there are";
  return "";
}

// Of all elements; of as many as are kept each takes its steps of sorting (64 of 64: 16 ns).
double order_us(int64_t elements, int64_t k, int64_t count) {
  const auto steps = static_cast<double>(sorting_steps(k));
  const double kept = static_cast<double>(k) / static_cast<double>(at_least_one(count));
  return static_cast<double>(elements) * (0.0008 + 0.0026 * kept * steps);
}

double top_k_us(const Problem& p) {
  const auto axis = static_cast<size_t>(order_attrs(*p.layer).axis);
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
  bool last;    // of equal elements the last one comes first
  bool counts;  // places, where keys have 4 bytes
  double predicted_us;
};

// `offsets`: of the line in the tensors of the nest.
template <class T>
void top_of_line(const TopK& s, const KernelCall& call, const int64_t* offsets,
                 Entry<KeyOf<T>>* kept) {
  const auto flip = static_cast<KeyOf<T>>(s.largest ? 0 : -1);
  const T* line = call.input<const T>(0) + offsets[1];
  const int64_t end = s.count - 1;  // the line backwards, if the last is to come first
  auto order = s.k <= kFew && s.count <= kShortLine ? best_few<T> : best_k<T>;
  if constexpr (sizeof(KeyOf<T>) == sizeof(int32_t))
    if (s.counts) order = best_counted<T>;
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
  const auto& attrs = order_attrs(*args.layer);
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
                   counts_places(k, count),
                   order_us(count_of(x), k, count)};
  with_value(x.type, [&](auto value) { keep_state<run_top_k<decltype(value)>>(kernel, state); });
  kernel.workspace_bytes =
      static_cast<size_t>(state.entries * threads_of(args)) * sizeof(Entry<int64_t>);
}

constexpr Tactic kTactics[] = {
    {"top_k", ir::LayerKind::kTopK, kIsa, FormatRule::kAny, 4, refuse_top_k, top_k_us,
     CAMSHAFT_NOTHING_PACKED, prepare_top_k},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::top_k
