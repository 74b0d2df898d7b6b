// SPDX-License-Identifier: Apache-2.0
// Resize of any dimensions by tables of taps: nearest, linear, cubic, antialiased, in any order of
// dimensions (images whose channels come last in the row-major format, too). One dimension is
// resized behind all others that are: for every output row, the input rows it is made of are added
// up in a line that stays in cache, then the line's elements. These are vectors of what lies behind
// the dimension, or, where that is little, of as many rows as a vector has lanes, whose lines are
// turned (512 to 205 pixels, antialiased: a third of the time that gathers take); the last rows
// gather them. Sums are floats.
#include "kernels/nest.h"
#include "kernels/resize_axis.h"
#include "kernels/vector/movement/transpose_tile.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/sampling/pixels.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::resample {
namespace {

// Output k of a dimension: `count` inputs from first[k] on times weights[k * count …]. No table:
// the dimension stays as it is.
struct AxisTaps {
  int64_t count = 1;
  int32_t* first = nullptr;
  float* weights = nullptr;
};

struct Axis {
  int64_t in = 1, out = 1, x_stride = 0, y_stride = 0;
  AxisTaps taps;
};

struct Resample {
  Axis outer[ir::kMaxRank];
  int num_outer = 0;
  Axis inner;                                   // the dimension that is resized last
  int64_t run = 1;                              // elements side by side behind it
  int64_t rows = 1, chunks = 1, most_taps = 1;  // of `inner`; input rows of an output row
  bool adds_rows = false, gathers = false, has_line = false;
  // What lanes of an output row gather: where from, and per tap their weights.
  int64_t lanes = 0;
  int32_t* lane_first = nullptr;
  float* lane_weights = nullptr;
  int64_t line_floats = 0;
  bool in_bands = false;  // kLanes rows at once: their lines, these turned, results, these turned
  int64_t element = 4;    // bytes
  double predicted_us = 0;

  int64_t turned_floats() const { return inner.in * run * kLanes; }
  int64_t result_floats() const { return round_up(lanes, kLanes) * kLanes; }
  int64_t floats() const {
    return in_bands ? kLanes * line_floats + turned_floats() + 2 * result_floats() : line_floats;
  }
  size_t worker_bytes() const {
    return static_cast<size_t>(round_up(floats() * 4 + most_taps * 12, 64));
  }
};

// The input rows of an output row, as offsets of elements.
struct Rows {
  int64_t count = 1, y = 0;
  int64_t* offsets;
  float* weights;
  // What was copied last: from this row and output on, and to where.
  const std::byte *last = nullptr, *made = nullptr;
  int64_t last_first = 0;
};

void add_taps(const Axis& axis, int64_t k, Rows& rows) {
  if (axis.taps.first == nullptr) {
    for (int64_t r = 0; r < rows.count; ++r) rows.offsets[r] += k * axis.x_stride;
    return;
  }
  const float* weights = axis.taps.weights + k * axis.taps.count;
  for (int64_t t = axis.taps.count; t-- > 0;)
    for (int64_t r = 0; r < rows.count; ++r) {
      rows.offsets[t * rows.count + r] = rows.offsets[r] + (axis.taps.first[k] + t) * axis.x_stride;
      rows.weights[t * rows.count + r] = rows.weights[r] * weights[t];
    }
  rows.count *= axis.taps.count;
}

void find_rows(const Resample& s, int64_t row, Rows& rows) {
  rows.count = 1, rows.y = 0;
  rows.offsets[0] = 0, rows.weights[0] = 1;
  for (int d = s.num_outer - 1; d >= 0; --d) {
    const Axis& axis = s.outer[d];
    const int64_t k = row % axis.out;
    row /= axis.out;
    rows.y += k * axis.y_stride;
    add_taps(axis, k, rows);
  }
}

// kVecs vectors: to = Σ weights[t] * at(t).
template <int kVecs, class Out, class At>
CAMSHAFT_INLINE void weigh_vectors(int64_t taps, const float* weights, const At& at, int64_t rest,
                                   Out* to) {
  F32 sum[kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) sum[v] = zero();
  for (int64_t t = 0; t < taps; ++t) {
    const auto* from = at(t);
    const F32 weight = set1(weights[t]);
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v)
      sum[v] = fma(fetch(from + v * kLanes, rest - v * kLanes), weight, sum[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) put(to + v * kLanes, sum[v], rest - v * kLanes);
}

// `count` elements.
template <class Out, class At>
CAMSHAFT_INLINE void weigh(int64_t taps, const float* weights, const At& at, int64_t count,
                           Out* to) {
  int64_t k = 0;
  for (; k + 4 * kLanes <= count; k += 4 * kLanes)
    weigh_vectors<4>(
        taps, weights, [&](int64_t t) { return at(t) + k; }, 4 * kLanes, to + k);
  for (; k < count; k += kLanes)
    weigh_vectors<1>(
        taps, weights, [&](int64_t t) { return at(t) + k; }, count - k, to + k);
}

// The line of an output row: its input rows, dense.
template <class T>
void fill_line(const Resample& s, const T* x, const Rows& rows, float* line) {
  const bool is_dense = s.inner.x_stride == s.run;
  const int64_t parts = is_dense ? 1 : s.inner.in, count = is_dense ? s.inner.in * s.run : s.run;
  for (int64_t part = 0; part < parts; ++part, x += s.inner.x_stride, line += s.run)
    weigh(
        rows.count, rows.weights, [&](int64_t t) { return x + rows.offsets[t]; }, count, line);
}

template <class T, class Out>
void weigh_pixels(const Resample& s, const T* x, int64_t pixel, int64_t first, int64_t last,
                  Out* y) {
  const AxisTaps& taps = s.inner.taps;
  for (int64_t k = first; k < last; ++k) {
    const T* from = x + taps.first[k] * pixel;
    weigh(
        taps.count, taps.weights + k * taps.count, [&](int64_t t) { return from + t * pixel; },
        s.run, y + k * s.inner.y_stride);
  }
}

template <class Out>
void weigh_lanes(const Resample& s, const float* x, Out* y) {
  const int64_t padded = round_up(s.lanes, kLanes);
  for (int64_t lane = 0; lane < s.lanes; lane += kLanes) {
    const I32 first = iload(s.lane_first + lane);
    F32 sum = zero();
    for (int64_t t = 0; t < s.inner.taps.count; ++t)
      sum = fma(load_at(x + t * s.run, first), load(s.lane_weights + t * padded + lane), sum);
    put(y + lane, sum, s.lanes - lane);
  }
}

CAMSHAFT_INLINE const float* in_place(const float* x) {
  return x;
}
template <class T>
CAMSHAFT_INLINE const float* in_place(const T*) {  // other types are read by way of the line
  return nullptr;
}

template <class T>
void run_row(const Resample& s, const KernelCall& call, Rows& rows, float* line, int64_t first,
             int64_t last) {
  const T* x = call.input<const T>(0);
  T* y = call.output<T>(0) + rows.y;
  if (s.has_line)
    fill_line(s, x, rows, line);
  else
    x += rows.offsets[0];
  if (s.gathers)
    weigh_lanes(s, s.has_line ? line : in_place(x), y);
  else if (s.has_line)
    weigh_pixels(s, line, s.run, first, last, y);
  else
    weigh_pixels(s, x, s.inner.x_stride, first, last, y);
}

// The turned lines, a row in every lane, to turned results.
void weigh_turned(const Resample& s, const float* turned, float* results) {
  const AxisTaps& taps = s.inner.taps;
  const int64_t step = s.run * kLanes;
  for (int64_t k = 0; k < s.inner.out; ++k) {
    const float *from = turned + taps.first[k] * step, *weights = taps.weights + k * taps.count;
    for (int64_t c = 0; c < s.run; ++c, from += kLanes, results += kLanes) {
      F32 sum = zero();
      for (int64_t t = 0; t < taps.count; ++t)
        sum = fma(load(from + t * step), set1(weights[t]), sum);
      store(results, sum);
    }
  }
}

// kLanes rows from `row` on.
template <class T>
void run_band(const Resample& s, const KernelCall& call, int64_t row, Rows& rows, float* lines) {
  float *turned = lines + kLanes * s.line_floats, *sums = turned + s.turned_floats(),
        *results = sums + s.result_floats();
  int64_t y[kLanes];
  for (int64_t r = 0; r < kLanes; ++r) {
    find_rows(s, row + r, rows);
    y[r] = rows.y;
    fill_line(s, call.input<const T>(0), rows, lines + r * s.line_floats);
  }
  transpose_block(lines, s.line_floats, turned, kLanes, kLanes, s.inner.in * s.run);
  weigh_turned(s, turned, sums);
  const int64_t padded = round_up(s.lanes, kLanes);
  transpose_block(sums, kLanes, results, padded, s.lanes, kLanes);
  for (int64_t r = 0; r < kLanes; ++r)
    for (int64_t lane = 0; lane < s.lanes; lane += kLanes)
      put(call.output<T>(0) + y[r] + lane, load(results + r * padded + lane), s.lanes - lane);
}

// Nearest: `kBytes` bytes (0: any number) as they are. An output row that has been made just before
// is copied whole.
template <int64_t kBytes>
void copy_row(const Resample& s, const KernelCall& call, Rows& rows, float*, int64_t first,
              int64_t last) {
  const int64_t bytes = kBytes > 0 ? kBytes : s.run * s.element,
                x_step = s.inner.x_stride * s.element, y_step = s.inner.y_stride * s.element;
  const std::byte* x = call.input<const std::byte>(0) + rows.offsets[0] * s.element;
  std::byte* y = call.output<std::byte>(0) + rows.y * s.element + first * y_step;
  if (rows.last == x && rows.last_first == first && y_step == bytes) {
    __builtin_memcpy(y, rows.made, static_cast<size_t>((last - first) * bytes));
    return;
  }
  rows.last = x, rows.last_first = first, rows.made = y;
  const int32_t* from = s.inner.taps.first;
  for (int64_t k = first; k < last; ++k, y += y_step)
    __builtin_memcpy(y, x + from[k] * x_step, static_cast<size_t>(bytes));
}

// kRunBand null: rows one by one.
template <auto kRunRow, auto kRunBand>
void run(Resample& s, const KernelCall& call) {
  split(call.pool, s.rows * s.chunks, s.predicted_us, [&](int worker, int64_t begin, int64_t end) {
    std::byte* memory = call.workspace + static_cast<size_t>(worker) * s.worker_bytes();
    float* line = reinterpret_cast<float*>(memory);
    int64_t* offsets = reinterpret_cast<int64_t*>(line + s.floats());
    Rows rows{.offsets = offsets, .weights = reinterpret_cast<float*>(offsets + s.most_taps)};
    int64_t unit = begin;
    if constexpr (kRunBand != nullptr)
      for (; s.in_bands && unit + kLanes <= end; unit += kLanes)
        kRunBand(s, call, unit, rows, line);
    for (; unit < end; ++unit) {
      const int64_t chunk = unit % s.chunks;
      find_rows(s, unit / s.chunks, rows);
      kRunRow(s, call, rows, line, s.inner.out * chunk / s.chunks,
              s.inner.out * (chunk + 1) / s.chunks);
    }
  });
}

// --- preparing

bool is_identity(const AxisTaps& taps, int64_t in, int64_t out) {
  if (in != out || taps.count != 1) return false;
  for (int64_t k = 0; k < out; ++k)
    if (taps.first[k] != k || taps.weights[k] != 1) return false;
  return true;
}

Axis make_axis(const KernelArgs& args, int d, PreparedKernel& kernel) {
  const auto& attrs = args.layer->as<ir::ResizeAttrs>();
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Axis axis{x.extents[d], y.extents[d], x.strides[d], y.strides[d], {}};
  const ResizeAxis how = resize_axis(attrs, d, axis.in, axis.out);
  AxisTaps taps{.count = count_taps(attrs, how)};
  taps.first = keep_array<int32_t>(kernel, axis.out);
  taps.weights = keep_array<float>(kernel, axis.out * taps.count);
  fill_taps(attrs, how, taps.count, taps.first, taps.weights);
  if (!is_identity(taps, axis.in, axis.out)) axis.taps = taps;
  return axis;
}

// The inner dimension always has a table.
void keep_identity(Axis& axis, PreparedKernel& kernel) {
  if (axis.taps.first != nullptr) return;
  axis.taps.first = keep_array<int32_t>(kernel, axis.out);
  axis.taps.weights = keep_array<float>(kernel, axis.out);
  for (int64_t k = 0; k < axis.out; ++k)
    axis.taps.first[k] = static_cast<int32_t>(k), axis.taps.weights[k] = 1;
}

// Dimensions in the order they have in memory; the last that is resized is the inner one.
void order_axes(const KernelArgs& args, PreparedKernel& kernel, Resample& s) {
  const TensorView& x = args.inputs[0];
  const bool channels_last = x.format == Format::kChannelLast && x.rank >= 3;
  Axis axes[ir::kMaxRank];
  int inner = x.rank - 1;
  for (int k = 0; k < x.rank; ++k)
    axes[k] = make_axis(args, !channels_last || k == 0 ? k : k + 1 < x.rank ? k + 1 : 1, kernel);
  while (inner > 0 && axes[inner].taps.first == nullptr) --inner;
  if (axes[inner].taps.first == nullptr) inner = x.rank - 1;
  int last = x.rank - 1;
  for (; last > inner; --last) {
    const Axis& axis = axes[last];
    if (axis.out != 1 && (axis.x_stride != s.run || axis.y_stride != s.run)) break;
    s.run *= axis.out;
  }
  for (int k = 0; k <= last; ++k)
    if (k != inner) s.outer[s.num_outer++] = axes[k];
  s.inner = axes[inner];
  keep_identity(s.inner, kernel);
}

void keep_lanes(Resample& s, PreparedKernel& kernel) {
  const AxisTaps& taps = s.inner.taps;
  s.lanes = s.inner.out * s.run;
  const int64_t padded = round_up(s.lanes, kLanes);
  s.lane_first = keep_array<int32_t>(kernel, padded);
  s.lane_weights = keep_array<float>(kernel, padded * taps.count);
  for (int64_t lane = 0; lane < s.lanes; ++lane) {
    const int64_t k = lane / s.run;
    s.lane_first[lane] = static_cast<int32_t>(taps.first[k] * s.run + lane % s.run);
    for (int64_t t = 0; t < taps.count; ++t)
      s.lane_weights[t * padded + lane] = taps.weights[k * taps.count + t];
  }
}

constexpr int64_t kMostBandElements = 8192;  // of a row: a band of them stays in L2

// Vectors of less than half their lanes are worse than gathers.
void choose_way(const KernelArgs& args, bool copies, PreparedKernel& kernel, Resample& s) {
  for (int d = 0; d < s.num_outer; ++d) {
    const Axis& axis = s.outer[d];
    s.rows *= axis.out;
    s.most_taps *= axis.taps.count;
    s.adds_rows = s.adds_rows || axis.taps.count > 1;
  }
  if (copies) return;
  s.gathers = s.run < kLanes / 2 && s.inner.y_stride == s.run;
  const bool in_place =
      !s.gathers || (args.inputs[0].type == DataType::kFloat && s.inner.x_stride == s.run);
  s.in_bands = s.gathers && s.rows >= kLanes && s.inner.in * s.run <= kMostBandElements;
  s.has_line = s.adds_rows || !in_place || s.in_bands;
  if (s.has_line) s.line_floats = round_up(s.inner.in * s.run + kLanes, 16);
  if (s.gathers) keep_lanes(s, kernel);
}

double row_us(const Resample& s) {
  const double in = static_cast<double>(s.has_line ? ceil_div(s.inner.in * s.run, kLanes) : 0),
               out = static_cast<double>(s.gathers ? ceil_div(s.inner.out * s.run, kLanes)
                                                   : s.inner.out * ceil_div(s.run, kLanes)),
               taps = static_cast<double>(s.inner.taps.count);
  return (in * static_cast<double>(s.most_taps + 1) +
          out * (2 + taps * (s.gathers && !s.in_bands ? 10 : 1))) /
         3000;
}

template <class T>
void keep_weighing(const Resample& s, PreparedKernel& kernel) {
  keep_state<run<run_row<T>, run_band<T>>>(kernel, s);
}

void keep_copying(const Resample& s, PreparedKernel& kernel) {
#define CAMSHAFT_COPY(bytes)                              \
  case bytes:                                             \
    keep_state<run<copy_row<bytes>, nullptr>>(kernel, s); \
    break;
  switch (s.run * s.element) {
    CAMSHAFT_COPY(1)
    CAMSHAFT_COPY(2)
    CAMSHAFT_COPY(3)
    CAMSHAFT_COPY(4)
    CAMSHAFT_COPY(6)
    CAMSHAFT_COPY(8)
    CAMSHAFT_COPY(12)
    CAMSHAFT_COPY(16)
    CAMSHAFT_COPY(64)
    CAMSHAFT_COPY(128)
    default:
      keep_state<run<copy_row<0>, nullptr>>(kernel, s);
  }
#undef CAMSHAFT_COPY
}

void keep_way(const Resample& s, DataType type, PreparedKernel& kernel) {
  switch (type) {
    case DataType::kUInt8:
      return keep_weighing<uint8_t>(s, kernel);
    case DataType::kInt8:
      return keep_weighing<int8_t>(s, kernel);
    case DataType::kBFloat16:
      return keep_weighing<Bf16>(s, kernel);
    case DataType::kHalf:
      return keep_weighing<Half>(s, kernel);
    default:
      return keep_weighing<float>(s, kernel);
  }
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const DataType type = args.inputs[0].type;
  const bool copies = args.layer->as<ir::ResizeAttrs>().mode == ir::ResizeMode::kNearest;
  const int threads = threads_of(args);
  Resample s;
  s.element = bytes_of(type);
  order_axes(args, kernel, s);
  choose_way(args, copies, kernel, s);
  if (!s.has_line && !s.gathers && s.rows < 4 * threads)
    s.chunks = smaller(s.inner.out, ceil_div(4 * threads, s.rows));
  s.predicted_us = static_cast<double>(s.rows) * row_us(s);
  kernel.workspace_bytes = static_cast<size_t>(threads) * s.worker_bytes();
  if (copies)
    keep_copying(s, kernel);
  else
    keep_way(s, type, kernel);
}

// --- the table

bool is_copied(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kBool ||
         ir::is_16_bit_float(type) || (ir::is_integer(type) && ir::bits_of(type) % 8 == 0);
}

std::string refusal(const Problem& p) {
  const auto& attrs = p.layer->as<ir::ResizeAttrs>();
  const DataType type = p.inputs[0].type;
  const bool is_weighed = type == DataType::kFloat || type == DataType::kUInt8 ||
                          type == DataType::kInt8 || ir::is_16_bit_float(type);
  if (!(attrs.mode == ir::ResizeMode::kNearest ? is_copied(type) : is_weighed))
    return "neither a float nor 8-bit";
  if (p.outputs[0].type != type) return "another output type";
  if (attrs.sizes.empty() && attrs.scales.empty()) return "sizes are known only at run time";
  if (attrs.transform == ir::CoordinateTransform::kTfCropAndResize) return "crops";
  if (p.inputs[0].extents.size() != p.outputs[0].extents.size() || p.inputs[0].extents.empty() ||
      count_of(p.inputs[0]) == 0 || count_of(p.inputs[0]) > INT32_MAX / 2)
    return "no elements, or offsets of more than 32 bits";
  return {};
}

// As a ranking: two reads of every input and output, more for taps that are gathered.
double cost_us(const Problem& p) {
  const auto& attrs = p.layer->as<ir::ResizeAttrs>();
  const double factor = attrs.mode == ir::ResizeMode::kNearest  ? 2
                        : attrs.mode == ir::ResizeMode::kLinear ? 3
                                                                : 5;
  return traffic_us(p) * factor / p.threads;
}

constexpr Tactic kTactics[] = {{.name = "resample",
                                .kind = ir::LayerKind::kResize,
                                .isa = kIsa,
                                .formats = FormatRule::kSame,
                                .version = 1,
                                .refusal = refusal,
                                .cost_us = cost_us,
                                .packed_inputs = no_packed_inputs,
                                .packed_bytes = no_packed_bytes,
                                .pack = pack_nothing,
                                .prepare = prepare}};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::resample
