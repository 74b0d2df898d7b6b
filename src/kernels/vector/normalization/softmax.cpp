// SPDX-License-Identifier: Apache-2.0
// SoftMax and LogSoftMax over one dimension. Rows: the dimension is contiguous, a row at a time.
// Short rows: turned, then a row per lane. Columns: another dimension is contiguous, a
// vector of its elements at a time. Sums are of float vectors; the largest element is subtracted
// first, so nothing overflows.
#include "kernels/simd/bytes.h"
#include "kernels/vector/math.h"
#include "kernels/vector/normalization/short_lines.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::softmax {
namespace {

// The normalized dimension and the others, those of extent 1 left out, in the order of their output
// strides, smallest first.
struct Layout {
  int64_t length = 1, x_step = 1, y_step = 1;
  int others = 0;
  int64_t extents[ir::kMaxRank] = {1}, x_strides[ir::kMaxRank] = {}, y_strides[ir::kMaxRank] = {};
  bool one_dimension = true;  // false: several dimensions are normalized together

  int64_t rows() const {
    int64_t count = 1;
    for (int d = 0; d < others; ++d) count *= extents[d];
    return count;
  }
};

void insert_sorted(Layout& layout, int64_t extent, int64_t x_stride, int64_t y_stride) {
  int place = layout.others++;
  for (; place > 0 && layout.y_strides[place - 1] > y_stride; --place) {
    layout.extents[place] = layout.extents[place - 1];
    layout.x_strides[place] = layout.x_strides[place - 1];
    layout.y_strides[place] = layout.y_strides[place - 1];
  }
  layout.extents[place] = extent;
  layout.x_strides[place] = x_stride;
  layout.y_strides[place] = y_stride;
}

Layout layout_of(const ir::SoftMaxAttrs& attrs, const TensorView& x, const TensorView& y) {
  Layout layout;
  for (int d = 0; d < y.rank; ++d) {
    if (y.extents[d] == 1) continue;
    if (d < attrs.axis || d > attrs.last_axis) {
      insert_sorted(layout, y.extents[d], x.strides[d], y.strides[d]);
      continue;
    }
    layout.one_dimension = layout.length == 1;
    layout.length = y.extents[d];
    layout.x_step = x.strides[d];
    layout.y_step = y.strides[d];
  }
  return layout;
}

// Offset of row `row` when rows are counted over dimensions [first, others).
int64_t offset_of(const Layout& layout, const int64_t* strides, int64_t row, int first) {
  int64_t offset = 0;
  for (int d = first; d < layout.others; ++d) {
    offset += row % layout.extents[d] * strides[d];
    row /= layout.extents[d];
  }
  return offset;
}

CAMSHAFT_INLINE F32 lowest() {
  return set1(-__builtin_inff());
}

// e^x for x ≤ 0, ≤ 1 ulp of normal results; 0 below -87.7, where 2^n has no exponent left. NaN
// stays. The polynomial of exp() by pairs: what waits for what is half of its time (8 cycles a
// vector instead of 12 on Zen 3).
CAMSHAFT_INLINE F32 power_below_one(F32 x) {
  const F32 biased = set1(12582912.0f + 127);  // as in logistic_divisor()
  const F32 above = max(set1(-88.0f), x);
  const F32 shifted = fma(above, set1(kLog2E), biased), n = shifted - biased;
  const F32 power = bits_as_float(shift_left<23>(bits_as_int(shifted)));
  const F32 r = fnma(n, set1(kLn2Low), fnma(n, set1(kLn2High), above)), square = r * r;
  constexpr const float(&c)[5] = kExpCoefficients;
  const F32 low = fma(r, set1(c[1]), set1(c[0])), high = fma(r, set1(c[3]), set1(c[2]));
  const F32 slope = fma(fma(square, set1(c[4]), high), square, low);
  return fma(fma(slope, square, r), power, power);
}

// Four at a time: one chain of maxima waits for each of them.
CAMSHAFT_INLINE F32 largest_of(const float* x, int64_t whole) {
  F32 a = lowest(), b = a, c = a, d = a;
  int64_t k = 0;
  for (; k + 4 * kLanes <= whole; k += 4 * kLanes) {
    a = max(load(x + k), a);
    b = max(load(x + k + kLanes), b);
    c = max(load(x + k + 2 * kLanes), c);
    d = max(load(x + k + 3 * kLanes), d);
  }
  for (; k < whole; k += kLanes) a = max(load(x + k), a);
  return max(max(a, b), max(c, d));
}

float largest_of_row(const float* x, int64_t length) {
  const int64_t whole = length / kLanes * kLanes;
  F32 largest = largest_of(x, whole);
  if (whole < length) {
    const M32 tail = first_n(static_cast<int>(length - whole));
    largest = max(select(tail, load(x + whole, tail), lowest()), largest);
  }
  return reduce_max(largest);
}

// y = e^(x - largest), or x - largest where logarithms are wanted; gives the sum of the powers.
template <bool kLog, bool kFetch>
float powers_of_row(const float* x, float* y, int64_t length, float largest, const float* next) {
  const int64_t whole = length / kLanes * kLanes;
  const F32 shift = set1(largest);
  F32 sum = zero();
  // One at a time: beside the constants no registers are left for a second.
  for (int64_t k = 0; k < whole; k += kLanes) {
    if constexpr (kFetch) __builtin_prefetch(next + k);
    const F32 value = load(x + k) - shift, e = power_below_one(value);
    sum = sum + e;
    store(y + k, kLog ? value : e);
  }
  if (whole < length) {
    const int rest = static_cast<int>(length - whole);
    const M32 tail = first_n(rest);
    const F32 value = load(x + whole, tail) - shift, e = power_below_one(value);
    sum = sum + select(tail, e, zero());
    store_first(y + whole, kLog ? value : e, rest);
  }
  return reduce_add(sum);
}

template <bool kLog>
void finish_row(float* y, int64_t length, float total) {
  const int64_t whole = length / kLanes * kLanes;
  const F32 factor = kLog ? log(set1(total)) : set1(1 / total);
  for (int64_t k = 0; k < whole; k += kLanes)
    store(y + k, kLog ? load(y + k) - factor : load(y + k) * factor);
  if (whole < length) {
    const int rest = static_cast<int>(length - whole);
    const F32 value = load(y + whole, first_n(rest));
    store_first(y + whole, kLog ? value - factor : value * factor, rest);
  }
}

// A row waits for its maximum and its sum: what else is to do then is another row's (rows of 49 and
// 128 elements 1.2 times as fast, Zen 3).
constexpr int64_t kRowsTogether = 4, kMostTogether = 1024;  // of that many elements each
// Beyond L2 the next rows are fetched while these are raised: 1.3 times as fast from memory, 0.8 to
// 1 from caches (Zen 3).
constexpr int64_t kFarElements = 512 * 1024, kLeastFetched = 128;  // the latter of a row

template <bool kLog, bool kFetch>
void long_rows(const float* x, int64_t x_row, float* y, int64_t y_row, int64_t length,
               int64_t count) {
  float largest[kRowsTogether], total[kRowsTogether];
  for (int64_t r = 0; r < count; ++r) largest[r] = largest_of_row(x + r * x_row, length);
  for (int64_t r = 0; r < count; ++r)
    total[r] = powers_of_row<kLog, kFetch>(x + r * x_row, y + r * y_row, length, largest[r],
                                           x + (count + r) * x_row);
  for (int64_t r = 0; r < count; ++r) finish_row<kLog>(y + r * y_row, length, total[r]);
}

// `length` vectors `x_step` apart: element k of every lane. Each exponential is computed once and
// waits in y.
template <bool kLog, class Load, class Store>
CAMSHAFT_INLINE void one_vector(const float* x, int64_t x_step, float* y, int64_t y_step,
                                int64_t length, const Load& load_at, const Store& store_at) {
  F32 largest = lowest();
  for (int64_t k = 0; k < length; ++k) largest = max(load_at(x + k * x_step), largest);
  F32 sum = zero();
  for (int64_t k = 0; k < length; ++k) {
    const F32 value = load_at(x + k * x_step) - largest, e = power_below_one(value);
    sum = sum + e;
    store_at(y + k * y_step, kLog ? value : e);
  }
  const F32 factor = kLog ? log(sum) : set1(1) / sum;
  for (int64_t k = 0; k < length; ++k) {
    const F32 value = load_at(y + k * y_step);
    store_at(y + k * y_step, kLog ? value - factor : value * factor);
  }
}

// All lanes: stores under a mask take many times as long on AVX2.
template <bool kLog>
CAMSHAFT_INLINE void whole_vector(const float* x, int64_t x_step, float* y, int64_t y_step,
                                  int64_t length) {
  one_vector<kLog>(
      x, x_step, y, y_step, length, [](const float* p) { return load(p); },
      [](float* p, F32 value) { store(p, value); });
}

constexpr int64_t kShort = 24;  // rows up to here go a row per lane
template <bool kLog>
void rows_range(const Layout& layout, const float* x, float* y, int64_t begin, int64_t end) {
  const int64_t length = layout.length;
  const int64_t run = layout.extents[0];  // rows that lie evenly apart
  const int64_t x_row = layout.x_strides[0], y_row = layout.y_strides[0];
  const bool several = layout.others > 0, is_short = several && length <= kShort;
  const bool is_far = several && length >= kLeastFetched && layout.rows() * length > kFarElements;
  const int64_t together = is_short ? kTurnedLines : length <= kMostTogether ? kRowsTogether : 1;
  for (int64_t row = begin; row < end;) {
    const float* from = x + offset_of(layout, layout.x_strides, row, 0);
    float* to = y + offset_of(layout, layout.y_strides, row, 0);
    const int64_t left = smaller(run - row % run, end - row), count = smaller(left, together);
    if (is_short)
      for_lines_in_lanes<kShort>(from, x_row, to, y_row, length, count, [&](float* rows) {
        whole_vector<kLog>(rows, kTurnedLines, rows, kTurnedLines, length);
      });
    else if (is_far)
      long_rows<kLog, true>(from, x_row, to, y_row, length, count);
    else
      long_rows<kLog, false>(from, x_row, to, y_row, length, count);
    row += count;
  }
}

// Dimension 0 of the others is contiguous: vectors of it.
template <bool kLog>
void columns_range(const Layout& layout, const float* x, float* y, int64_t begin, int64_t end) {
  const int64_t vectors = (layout.extents[0] + kLanes - 1) / kLanes;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t column = unit % vectors * kLanes, row = unit / vectors;
    const float* from = x + offset_of(layout, layout.x_strides, row, 1) + column;
    float* to = y + offset_of(layout, layout.y_strides, row, 1) + column;
    if (column + kLanes <= layout.extents[0]) {
      whole_vector<kLog>(from, layout.x_step, to, layout.y_step, layout.length);
      continue;
    }
    const int count = static_cast<int>(layout.extents[0] - column);
    const M32 mask = first_n(count);
    one_vector<kLog>(
        from, layout.x_step, to, layout.y_step, layout.length,
        [mask](const float* p) { return load(p, mask); },
        [count](float* p, F32 value) { store_first(p, value, count); });
  }
}

// Nothing is contiguous: of a part of a larger tensor whose innermost dimension is 1, in this run.
template <bool kLog>
void strided_range(const Layout& layout, const float* x, float* y, int64_t begin, int64_t end) {
  const M32 one = first_n(1);
  for (int64_t row = begin; row < end; ++row)
    one_vector<kLog>(
        x + offset_of(layout, layout.x_strides, row, 0), layout.x_step,
        y + offset_of(layout, layout.y_strides, row, 0), layout.y_step, layout.length,
        [one](const float* p) { return load(p, one); },
        [](float* p, F32 value) { store_first(p, value, 1); });
}

bool are_rows(const Layout& layout) {
  return layout.length == 1 || (layout.x_step == 1 && layout.y_step == 1);
}
bool are_columns(const Layout& layout) {
  return layout.others > 0 && layout.x_strides[0] == 1 && layout.y_strides[0] == 1;
}

constexpr int64_t kForkElements = 8192;  // an exponential takes about a nanosecond

struct SoftMax {
  Layout layout;
  void (*range)(const Layout&, const float* x, float* y, int64_t begin, int64_t end);
  int64_t units;
  bool forks;
};

void run(SoftMax& s, const KernelCall& call) {
  const float* x = call.input<const float>(0);
  float* y = call.output<float>(0);
  if (!s.forks || call.pool == nullptr) return s.range(s.layout, x, y, 0, s.units);
  call.pool->parallel_ranges(s.units, [&s, x, y](int, int64_t begin, int64_t end) {
    s.range(s.layout, x, y, begin, end);
  });
}

template <bool kLog>
void prepare_kind(const Layout& layout, int64_t count, PreparedKernel& kernel) {
  const bool forks = count >= kForkElements;
  if (are_rows(layout)) {
    keep_state<run>(kernel, SoftMax{layout, rows_range<kLog>, layout.rows(), forks});
  } else if (are_columns(layout)) {
    const int64_t vectors = (layout.extents[0] + kLanes - 1) / kLanes,
                  units = layout.rows() / layout.extents[0] * vectors;
    keep_state<run>(kernel, SoftMax{layout, columns_range<kLog>, units, forks});
  } else {
    keep_state<run>(kernel, SoftMax{layout, strided_range<kLog>, layout.rows(), forks});
  }
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const auto& attrs = args.layer->as<ir::SoftMaxAttrs>();
  const Layout layout = layout_of(attrs, args.inputs[0], args.outputs[0]);
  (attrs.log ? prepare_kind<true> : prepare_kind<false>)(layout, count_of(args.outputs[0]), kernel);
}

std::string refusal(const Problem& p) {
  const auto& attrs = p.layer->as<ir::SoftMaxAttrs>();
  if (!all_float(p)) return "not float";
  if (attrs.hard) return "hardmax";
  const TensorView y =
      make_view(nullptr, DataType::kFloat, p.outputs[0].format, p.outputs[0].extents);
  const TensorView x =
      make_view(nullptr, DataType::kFloat, p.inputs[0].format, p.inputs[0].extents);
  const Layout layout = layout_of(attrs, x, y);
  if (!layout.one_dimension) return "normalizes several dimensions together";
  if (!are_rows(layout) && !are_columns(layout)) return "nothing is contiguous";
  return {};
}

double cost_us(const Problem& p) {
  return traffic_us(p) + static_cast<double>(count_of(p.outputs[0])) / 1500 / p.threads;
}

constexpr Tactic kTactics[] = {
    {"softmax_f32", ir::LayerKind::kSoftMax, kIsa, FormatRule::kSame, 3, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::softmax
