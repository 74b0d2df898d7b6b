// SPDX-License-Identifier: Apache-2.0
// What the dense convolution tactics share around conv_gemm: packing, refusals, tensors.
#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_fold.h"
#include "kernels/vector/program/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

bool taps_join(const ConvShape& s, Numeric numeric, int fold) {
  return fold == 1 && s.group_ic() % elements_per_step(numeric) == 0;
}

ConvRuns conv_runs(const ConvShape& s, Numeric numeric, int fold) {
  const bool whole_rows = s.dw == 1 && s.groups == 1;
  const int64_t runs = whole_rows ? 1 : s.kw, elements = whole_rows ? s.kw * s.ic : s.group_ic();
  const int64_t per_step = elements_per_step(numeric),
                length = (elements + per_step - 1) / per_step;
  return {runs, elements, length, folded_rows(length, fold)};
}

Spans conv_spans(const ConvShape& s, Numeric numeric, int fold) {
  const ConvRuns runs = conv_runs(s, numeric, fold);
  if (taps_join(s, numeric, fold))
    return {s.kh, s.kw * (s.group_ic() / elements_per_step(numeric))};
  return {s.kh, runs.runs * runs.rows};
}

Panels conv_panels(const ConvShape& s, Numeric numeric, int max_vecs, int fold) {
  const Spans spans = conv_spans(s, numeric, fold);
  return numeric == Numeric::kByte
             ? byte_panels(s.group_oc(), spans, max_vecs)
             : Panels(s.group_oc(), spans.count * spans.steps, max_vecs, fold);
}

namespace {

int64_t lanes_for(int64_t channels, int64_t unit) {
  return (channels + unit - 1) / unit * unit;
}

}  // namespace

bool folding_helps(const ConvShape& s, int fold) {
  const int64_t unit = kLanes / fold, n = s.group_oc();
  const int64_t most = (fold > 4 ? 1 : 2 * kMaxFoldVecs) * unit;
  return lanes_for(n, unit) < lanes_for(n, 2 * unit) && n <= most &&
         conv_runs(s, Numeric::kFloat, fold).length >= fold;
}

int tile_vecs(const ConvShape& s, int most, int fold) {
  if (fold == 1) return most;
  const int64_t unit = kLanes / fold, wanted = (s.group_oc() + unit - 1) / unit,
                limit = fold > 4 ? 1 : kMaxFoldVecs;
  return static_cast<int>(wanted < limit ? wanted : limit);
}

double conv_tiles_us(const ConvShape& s, Numeric numeric, int64_t rows, int64_t strip, int max_vecs,
                     int fold) {
  const int vecs = tile_vecs(s, max_vecs, fold);
  const Panels panels = conv_panels(s, numeric, vecs, fold);
  const int64_t lanes = panels.total_vecs() * kLanes;
  double us = tile_cost_us(numeric, rows, strip, lanes, panels.k, vecs);
  if (fold > 1)  // the lanes of a column are added, results stored one row at a time
    us += static_cast<double>(rows * strip) * (6 + 3 * static_cast<double>(lanes / kLanes)) / 4000;
  return us * static_cast<double>(s.groups);
}

int64_t group_bias_lanes(const ConvShape& s) {
  return Panels(s.group_oc(), 0, 1).padded_n();
}

int64_t packed_bias_lanes(const ConvShape& s) {
  return s.groups * group_bias_lanes(s);
}

int64_t packed_filter_lanes(const ConvShape& s, Numeric numeric, int fold) {
  return s.groups * conv_panels(s, numeric, 1, fold).lanes();
}

void pack_bias(const ConvShape& s, const float* bias, float* packed) {
  const int64_t n = s.group_oc(), padded = group_bias_lanes(s);
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t c = 0; c < padded; ++c)
      packed[group * padded + c] = bias && c < n ? bias[group * n + c] : 0;
}

namespace {

int32_t filter_sum(const ConvShape& s, const Filter<int8_t>& f, int64_t group, int64_t n) {
  const int8_t* filter = f.data + group * f.group + n * f.n;
  int32_t sum = 0;
  for (int64_t c = 0; c < s.group_ic(); ++c)
    for (int64_t kh = 0; kh < s.kh; ++kh)
      for (int64_t kw = 0; kw < s.kw; ++kw) sum += filter[c * f.c + kh * f.h + kw * f.w];
  return sum;
}

}  // namespace

void pack_byte_bias(const ConvShape& s, const int32_t* bias, const Filter<int8_t>& filter,
                    int64_t zero_point, int64_t filter_zero_point, int32_t* packed) {
  const int64_t n = s.group_oc(), padded = group_bias_lanes(s);
  const auto zeros = static_cast<uint32_t>(s.group_ic() * s.kh * s.kw * filter_zero_point);
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t c = 0; c < padded; ++c) {
      uint32_t value = 0;  // wraps, as the accumulators do
      if (c < n) {
        value = bias ? static_cast<uint32_t>(bias[group * n + c]) : 0;
        value -= static_cast<uint32_t>(zero_point) *
                 (static_cast<uint32_t>(filter_sum(s, filter, group, c)) - zeros);
      }
      packed[group * padded + c] = static_cast<int32_t>(value);
    }
}

namespace {

// One packed row: elements [k, k + count) of a run, for `cols` columns of `fold` lanes; the other
// elements are 0. `per_lane`: elements side by side in a lane.
template <class T>
struct PackedRow {
  const ConvShape& s;
  const Filter<T>& f;
  int64_t fold, width, cols, per_lane;

  void fill(const T* filter, int64_t first_tap, int64_t k, int64_t count, T* to) const {
    for (int64_t e = 0; e < width * per_lane; ++e) to[e] = 0;
    for (int64_t col = 0; col < cols; ++col)
      for (int64_t step = 0; step < count; ++step) {
        const int64_t kw = first_tap + (k + step) / s.group_ic(), c = (k + step) % s.group_ic();
        to[col * fold * per_lane + step] = filter[col * f.n + c * f.c + kw * f.w];
      }
  }
};

// Reads every filter once, in its order; a packed row is written whole. Taps are whole steps.
template <class T>
void pack_unfolded(const PackedRow<T>& row, const T* from, T* to) {
  const ConvShape& s = row.s;
  const Filter<T>& f = row.f;
  const int64_t ic = s.group_ic(), per_lane = row.per_lane;
  for (int64_t c = 0; c < ic; ++c)
    for (int64_t kh = 0; kh < s.kh; ++kh)
      for (int64_t kw = 0; kw < s.kw; ++kw) {
        const T* filter = from + c * f.c + kh * f.h + kw * f.w;
        const int64_t step = ((kh * s.kw + kw) * ic + c) / per_lane;
        T* lane = to + step * row.width * per_lane + c % per_lane;
        for (int64_t col = 0; col < row.cols; ++col) lane[col * per_lane] = filter[col * f.n];
        for (int64_t col = row.cols; col < row.width; ++col) lane[col * per_lane] = 0;
      }
}

// Where a panel is packed: its place, or memory from which its steps are sorted into its place.
struct NaturalPanel {
  std::byte* place;
  std::byte* rows;
  Spans spans;
  int64_t width, x_maximum;

  NaturalPanel(std::byte* to, const Spans& spans_, int64_t width_, int64_t x_maximum_,
               Numeric numeric)
      : place(to), rows(to), spans(spans_), width(width_), x_maximum(x_maximum_) {
    if (kChainsSteps && numeric == Numeric::kByte)
      rows = new std::byte[static_cast<size_t>(spans.count * spans.steps * width * kLaneBytes)];
  }
  NaturalPanel(const NaturalPanel&) = delete;
  ~NaturalPanel() {
    if (rows == place) return;
    pack_byte_steps(rows, spans, width, x_maximum, place);
    delete[] rows;
  }
};

}  // namespace

template <class T>
void pack_filter(const ConvShape& s, const Filter<T>& f, int max_vecs, int fold, std::byte* packed,
                 int64_t x_maximum) {
  constexpr Numeric kNumeric = sizeof(T) == 1   ? Numeric::kByte
                               : sizeof(T) == 2 ? Numeric::kBf16
                                                : Numeric::kFloat;
  constexpr int64_t kPerLane = elements_per_step(kNumeric);
  const ConvRuns runs = conv_runs(s, kNumeric, fold);
  const Spans spans = conv_spans(s, kNumeric, fold);
  const Panels panels = conv_panels(s, kNumeric, max_vecs, fold);
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const PackedRow<T> row{
          s, f, fold, panels.vecs_of(panel) * kLanes, panels.cols_of(panel), kPerLane};
      const T* from = f.data + group * f.group + panels.first_col(panel) * f.n;
      std::byte* place = packed + (group * panels.lanes() + panels.offset(panel)) * kLaneBytes;
      const NaturalPanel natural(place, spans, row.width, x_maximum, kNumeric);
      T* to = reinterpret_cast<T*>(natural.rows);
      if (taps_join(s, kNumeric, fold)) {
        pack_unfolded(row, from, to);
        continue;
      }
      for (int64_t kh = 0; kh < s.kh; ++kh)
        for (int64_t run = 0; run < runs.runs; ++run)
          for (int64_t step = 0; step < runs.length; to += row.width * kPerLane) {
            const int64_t steps = step + fold <= runs.length ? fold : 1;
            const int64_t left = runs.elements - step * kPerLane;
            row.fill(from + kh * f.h, run, step * kPerLane,
                     left < steps * kPerLane ? left : steps * kPerLane, to);
            step += steps;
          }
    }
}

template void pack_filter(const ConvShape&, const Filter<float>&, int, int, std::byte*, int64_t);
template void pack_filter(const ConvShape&, const Filter<int8_t>&, int, int, std::byte*, int64_t);
template void pack_filter(const ConvShape&, const Filter<uint16_t>&, int, int, std::byte*, int64_t);

void count_filter_products(const ConvShape& s, int max_vecs, const std::byte* packed,
                           ProductShares& shares) {
  const Spans spans = conv_spans(s, Numeric::kByte, 1);
  const Panels panels = conv_panels(s, Numeric::kByte, max_vecs, 1);
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t panel = 0; panel < panels.count(); ++panel)
      count_products(packed + (group * panels.lanes() + panels.offset(panel)) * kLaneBytes, spans,
                     panels.vecs_of(panel) * kLanes, shares);
}

namespace {

bool is_float_or_bf16(DataType type) {
  return type == DataType::kFloat || type == DataType::kBFloat16;
}

const char* refuse_types(const Problem& problem, Numeric numeric) {
  const DataType x = problem.inputs[0].type, w = problem.inputs[1].type,
                 y = problem.outputs[0].type;
  const bool is_float = numeric == Numeric::kFloat;
  if (numeric == Numeric::kBf16) {
    if (!is_float_or_bf16(x) || !is_float_or_bf16(y)) return "neither float nor bfloat16";
    return w == DataType::kFloat ? nullptr : "weights are not float";
  }
  if (is_float && (x != DataType::kFloat || y != DataType::kFloat)) return "not float";
  if (is_float && w != DataType::kFloat) return "weights are not float";
  if (!is_float && x != DataType::kUInt8) return "the input is not uint8";
  if (!is_float && w != DataType::kInt8 && w != DataType::kUInt8) return "weights are not 8-bit";
  if (!is_float && y == DataType::kInt32)
    return problem.layer->as<ir::ConvolutionAttrs>().epilogue.empty() ? nullptr
                                                                      : "int32 with an epilogue";
  if (!is_float && y != DataType::kFloat && y != DataType::kUInt8)
    return "the output is neither uint8 nor float nor int32";
  return nullptr;
}

}  // namespace

std::string refuse_conv(const Problem& problem, Numeric numeric, bool has_shape, bool packs_early,
                        bool any_zero_point) {
  const bool of_bytes = is_quantized(numeric);
  if (const char* reason = refuse_types(problem, numeric)) return reason;
  if (of_bytes && !any_zero_point && !has_symmetric_weights(problem))
    return "the weights are not symmetric int8";
  if (packs_early && !problem.inputs[1].constant) return "weights are not constant";
  if (packs_early && has_bias(problem) &&
      (!problem.inputs[2].constant ||
       problem.inputs[2].type != (of_bytes ? DataType::kInt32 : DataType::kFloat)))
    return of_bytes ? "the bias is not an int32 constant" : "the bias is not a float constant";
  if (!has_shape) return "not 1-D or 2-D";
  if (problem.inputs.size() > kFirstConvOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(problem.layer->as<ir::ConvolutionAttrs>().epilogue))
    return "the epilogue is too long";
  return refuse_operands(problem, kFirstConvOperand,
                         of_bytes                    ? DataType::kUInt8
                         : numeric == Numeric::kBf16 ? DataType::kBFloat16
                                                     : DataType::kFloat);
}

uint32_t packed_conv_inputs(const Problem& problem) {
  return has_bias(problem) ? 6u : 2u;
}

uint32_t packed_byte_conv_inputs(const Problem& problem) {
  return packed_conv_inputs(problem) |
         packed_operands(problem, kFirstConvOperand, conv_channel_back(problem));
}

ChannelLayout conv_channels(const Problem& problem, const ConvShape& s) {
  return {s.groups, s.group_oc(), group_bias_lanes(s), conv_channel_back(problem),
          problem.outputs[0].extents[1]};
}

ConvKernel conv_kernel(const KernelArgs& args, const ConvRun& run) {
  return {run, run.finish.packed ? run.finish.packed - args.packed : 0,
          run.weights.bias - args.packed, run.weights.panels - args.packed};
}

void set_addresses(const KernelCall& call, ConvKernel& kernel) {
  ConvRun& run = kernel.run;
  run.x.data = call.input<const std::byte>(0);
  run.weights.bias = call.packed + kernel.bias_at;
  run.weights.panels = call.packed + kernel.weights_at;
  set_addresses(call, kFirstConvOperand, run.finish);
  if (run.finish.packed) run.finish.packed = call.packed + kernel.epilogue_at;
}

namespace {

void run_kernel(ConvKernel& kernel, const KernelCall& call) {
  set_addresses(call, kernel);
  run_conv(kernel.run, call.workspace, call.pool);
}

}  // namespace

void prepare_conv(const KernelArgs& args, const ConvRun& run, PreparedKernel& kernel) {
  ConvKernel& state = keep_state<run_kernel>(kernel, conv_kernel(args, run));
  kernel.workspace_bytes = plan_conv(state.run, threads_of(args));
  keep_tables(state.run, kernel);
}

void set_conv_tensors(const KernelArgs& args, const std::byte* packed, ConvRun& run,
                      TileSource (*source)(const TensorView&, const TensorView&)) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int last = x.rank - 1;
  run.x.type = x.type;
  const int64_t size = run.x_element();
  run.x.data = x.as<const std::byte>();
  run.x.image = x.strides[0] * size;
  run.x.channel = x.extents[1] == 1 ? size : x.strides[1] * size;
  run.x.pixel = x.strides[last] * size;
  run.x.row = x.rank == 4 ? x.strides[2] * size : x.extents[last] * run.x.pixel;
  set_epilogue(args.layer->as<ir::ConvolutionAttrs>().epilogue, args.inputs, kFirstConvOperand, y,
               source, packed, run.finish);
  TileOutput& out = run.finish.out;
  const int64_t out_size = out.channel();
  out.data = y.as<std::byte>();
  out.image = y.strides[0] * out_size;
  out.pixel = y.strides[last] * out_size;
  out.row = y.rank == 4 ? y.strides[2] * out_size : y.extents[last] * out.pixel;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
