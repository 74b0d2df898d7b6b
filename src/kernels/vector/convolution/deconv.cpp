// SPDX-License-Identifier: Apache-2.0
// Transposed convolution, channel last: the output pixels of one phase (row and column modulo the
// stride) are a plain convolution of the input with every stride-th tap of the flipped filter,
// stored stride pixels apart. One conv_gemm per phase. Where it takes no more steps (few channels,
// or kernels of a multiple of the stride), all column phases are one convolution whose output
// channels are (column phase, channel): in dense outputs they lie side by side. Of bytes: every
// phase has its own bias, which takes up what the zero point adds through its taps.
#include <type_traits>

#include "kernels/simd/tiles.h"
#include "kernels/vector/convolution/deconv_phases.h"
#include "kernels/vector/gemm/gemm_fold.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::deconv {
namespace {

bool shape_of(const Problem& problem, ConvShape& shape) {
  return deconv_shape(problem.layer->as<ir::ConvolutionAttrs>(), problem.inputs[0].extents,
                      problem.inputs[1].extents, problem.outputs[0].extents, shape);
}

using Form = DeconvForm;

// A layer is packed in its best form, and one phase at a time for outputs that are no dense tensor
// and operands that columns do not step through.
const ir::ConvolutionAttrs& attrs_of(const Problem& problem) {
  return problem.layer->as<ir::ConvolutionAttrs>();
}

constexpr int kMostFolds = kLanes < 16 ? kLanes : 16;

// What the form that is not the best one folds: no tactic is chosen for it.
int other_fold(const Form& form, Numeric numeric) {
  if (numeric == Numeric::kByte) return 1;
  for (int fold = kMostFolds; fold > 1; fold /= 2)
    if (folding_helps(phase_pair(form, 0).shape, fold)) return fold;
  return 1;
}

struct Width {
  int vecs, fold;
  Width(const Form& form, int most_vecs, int fold)
      : vecs(tile_vecs(phase_pair(form, 0).shape, most_vecs, fold)), fold(fold) {}
};

template <int kVecs, int kFold, Numeric kNumeric>
std::string refusal(const Problem& problem) {
  ConvShape s;
  if (std::string reason = refuse_conv(problem, kNumeric, shape_of(problem, s)); !reason.empty())
    return reason;
  if (kNumeric == Numeric::kByte && (s.kh < s.sh || s.kw < s.sw)) return "outputs without taps";
  if (std::string reason = refuse_phases(s); !reason.empty()) return reason;
  const ConvShape phase = phase_pair(best_form(attrs_of(problem), s), 0).shape;
  if (kFold == 1 && kVecs > 1 && phase.group_oc() <= (kVecs - 1) * kLanes)
    return "fewer output channels than the tile has";
  if (kFold > 1 && !folding_helps(phase, kFold)) return "folding K saves no lanes";
  return {};
}

template <int kVecs, int kFold, Numeric kNumeric>
double cost_us(const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 1e12;
  const Form form = best_form(attrs_of(problem), s);
  double us = 0;
  for (int64_t index = 0; index < form.count(); ++index) {
    const ConvShape c = phase_pair(form, index).shape;
    us += conv_tiles_us(c, kNumeric, c.batch * c.oh, c.ow, kVecs, kFold);
    us += static_cast<double>(s.batch * s.ih * s.iw * s.ic * element_bytes(kNumeric)) / 40e3;
  }
  return 0.2 + us / problem.threads;
}

// The channels of the epilogue's vectors: joined columns repeat those of the layer.
ChannelLayout channels_of(const Problem& problem, const Form& form) {
  ChannelLayout layout = conv_channels(problem, phase_pair(form, 0).shape);
  layout.period = form.s.oc;
  return layout;
}

// A packed form: the head (the bias; of bytes: the epilogue), then every phase (of bytes: its bias;
// its filter).
size_t head_bytes(const Problem& problem, const Form& form, Numeric numeric) {
  return numeric == Numeric::kFloat
             ? static_cast<size_t>(packed_bias_lanes(phase_pair(form, 0).shape) * kLaneBytes)
             : packed_epilogue_bytes(problem, attrs_of(problem).epilogue, kFirstConvOperand,
                                     channels_of(problem, form));
}

int64_t phase_bias_lanes(const ConvShape& phase, Numeric numeric) {
  return numeric == Numeric::kByte ? packed_bias_lanes(phase) : 0;
}

int64_t phase_bytes(const ConvShape& phase, Numeric numeric, int fold) {
  return (phase_bias_lanes(phase, numeric) + packed_filter_lanes(phase, numeric, fold)) *
         kLaneBytes;
}

int64_t phases_bytes(const Form& form, Numeric numeric, int fold) {
  int64_t bytes = 0;
  for (int64_t index = 0; index < form.count(); ++index)
    bytes += phase_bytes(phase_pair(form, index).shape, numeric, fold);
  return bytes;
}

// The best form, then, if that is another one, single phases.
template <int kVecs, int kFold, Numeric kNumeric>
size_t packed_bytes(const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 0;
  const Form best = best_form(attrs_of(problem), s), single{s};
  size_t bytes = head_bytes(problem, best, kNumeric) +
                 static_cast<size_t>(phases_bytes(best, kNumeric, kFold));
  if (best.joins_columns)
    bytes += head_bytes(problem, single, kNumeric) +
             static_cast<size_t>(phases_bytes(single, kNumeric, other_fold(single, kNumeric)));
  return bytes;
}

// Weights lie as [group][c][n][kh][kw].
template <class T>
Filter<T> whole_filter(const ConvShape& s, const T* weights) {
  const int64_t taps = s.kh * s.kw, c_stride = s.group_oc() * taps;
  return {weights, s.group_ic() * c_stride, taps, c_stride, s.kw, 1};
}

// The weights as [c][column phase][n][kh][joined tap], seen as those of `pair`; `joined` holds
// joined_weights() zeros before.
template <class T>
Filter<T> joined_filter(const Form& form, const PhasePair& pair, const T* weights, T* joined) {
  const ConvShape& s = form.s;
  const auto [crop, first, taps] = form.joined;
  for (int64_t c = 0; c < s.ic; ++c)
    for (int64_t phase = 0; phase < s.sw; ++phase)
      for (int64_t row = 0; row < s.oc * s.kh; ++row)
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t column = phase + crop - s.sw * (first + tap);
          if (column >= 0 && column < s.kw)
            joined[((c * s.sw + phase) * s.oc * s.kh + row) * taps + tap] =
                weights[(c * s.oc * s.kh + row) * s.kw + column];
        }
  const int64_t last_h = pair.h.first_tap + (pair.h.taps - 1) * s.sh;
  return {joined + last_h * taps, 0, s.kh * taps, s.sw * s.oc * s.kh * taps, -s.sh * taps, 1};
}

int64_t joined_weights(const Form& form) {
  const ConvShape& s = form.s;
  return s.ic * s.sw * s.oc * s.kh * form.joined.taps;
}

// The bias as often as the form repeats the channels, or null.
template <class T>
T* repeated_bias(const Problem& problem, const ConvShape& phase, int64_t channels) {
  if (!has_bias(problem)) return nullptr;
  const T* bias = constant_values<T>(problem.inputs[2]);
  T* repeated = new T[static_cast<size_t>(phase.oc)];
  for (int64_t k = 0; k < phase.oc; ++k) repeated[k] = bias[k % channels];
  return repeated;
}

// Gives the end of what it has packed.
template <Numeric kNumeric>
std::byte* pack_form(const Problem& problem, const Form& form, const Width& width, std::byte* to) {
  using T = std::conditional_t<kNumeric == Numeric::kByte, int8_t, float>;
  using BiasType = std::conditional_t<kNumeric == Numeric::kByte, int32_t, float>;
  const ConvShape& s = form.s;
  const ConvShape first = phase_pair(form, 0).shape;
  const BiasType* bias = repeated_bias<BiasType>(problem, first, s.oc);
  if constexpr (kNumeric == Numeric::kFloat)
    pack_bias(first, bias, reinterpret_cast<float*>(to));
  else
    pack_epilogue(problem, attrs_of(problem).epilogue, kFirstConvOperand,
                  channels_of(problem, form), to);
  to += head_bytes(problem, form, kNumeric);
  const T* weights = constant_values<T>(problem.inputs[1]);
  T* joined = form.joins_columns ? new T[static_cast<size_t>(joined_weights(form))]() : nullptr;
  for (int64_t index = 0; index < form.count(); ++index) {
    const PhasePair pair = phase_pair(form, index);
    const Filter<T> filter = joined ? joined_filter(form, pair, weights, joined)
                                    : phase_filter(s, pair, whole_filter(s, weights));
    if constexpr (kNumeric == Numeric::kByte)
      pack_byte_bias(pair.shape, bias, filter, attrs_of(problem).zero_point, 0,
                     reinterpret_cast<int32_t*>(to));
    if (pair.shape.kh > 0)
      pack_filter(pair.shape, filter, width.vecs, width.fold,
                  to + phase_bias_lanes(pair.shape, kNumeric) * kLaneBytes);
    to += phase_bytes(pair.shape, kNumeric, width.fold);
  }
  delete[] joined;
  delete[] bias;
  return to;
}

template <int kVecs, int kFold, Numeric kNumeric>
void pack(const Problem& problem, std::byte* packed) {
  ConvShape s;
  if (!shape_of(problem, s)) return;
  const Form best = best_form(attrs_of(problem), s);
  packed = pack_form<kNumeric>(problem, best, Width(best, kVecs, kFold), packed);
  if (!best.joins_columns) return;
  const Form single{s};
  pack_form<kNumeric>(problem, single, Width(single, kVecs, other_fold(single, kNumeric)), packed);
}

// Of one channel, joined columns are what follows along the row.
TileSource line_source(const TensorView& operand, const TensorView& output) {
  TileSource source = conv_source(operand, output);
  if (output.extents[1] == 1) source.channel = source.pixel;
  return source;
}

// Joined columns are channels that follow each other, in the output and in every operand.
bool is_joined(const ConvShape& s, const TileFinish& finish) {
  if (finish.out.pixel != s.oc * finish.out.channel()) return false;
  for (int k = 0; k < finish.num_operands; ++k) {
    if (finish.packed && finish.codes.operands[k] > 0) continue;
    if (finish.operands[k].pixel != s.oc * finish.operands[k].channel) return false;
  }
  return true;
}

// The layer as it will run, `run.shape` being that of the layer.
struct DeconvRun {
  ConvRun run;
  Form form;
  int64_t first_phase = 0;  // offset in bytes from run.weights
};

template <int kVecs, int kFold, Numeric kNumeric>
bool describe(const KernelArgs& args, DeconvRun& layer) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  ConvRun& run = layer.run;
  const auto& attrs = args.layer->as<ir::ConvolutionAttrs>();
  if (!deconv_shape(attrs, extents(args.inputs[0]), extents(args.inputs[1]),
                    extents(args.outputs[0]), run.shape))
    return false;
  run.tile.numeric = kNumeric;
  const std::byte* packed = args.packed;
  set_conv_tensors(args, kNumeric == Numeric::kByte ? packed : nullptr, run, line_source);
  if (kNumeric == Numeric::kByte) run.x.padding = static_cast<uint8_t>(attrs.zero_point);
  layer.form = best_form(attrs, run.shape);
  int fold = kFold;
  const auto head = [&](const Form& form) {
    return kNumeric == Numeric::kByte ? run.finish.packed_bytes()
                                      : packed_bias_lanes(phase_pair(form, 0).shape) * kLaneBytes;
  };
  if (layer.form.joins_columns && !is_joined(run.shape, run.finish)) {
    if (packed) packed += head(layer.form) + phases_bytes(layer.form, kNumeric, kFold);
    layer.form.joins_columns = false;
    fold = other_fold(layer.form, kNumeric);
    if (kNumeric == Numeric::kByte) set_packed(packed, run.finish);
  }
  const Width width(layer.form, kVecs, fold);
  run.tile.max_vecs = width.vecs;
  run.tile.fold = width.fold;
  run.weights.bias = packed;
  run.weights.panels = packed;
  layer.first_phase = head(layer.form);
  return true;
}

// `layer` restricted to one phase, packed `phase` bytes from the beginning.
ConvRun packed_phase(const DeconvRun& layer, const PhasePair& pair, int64_t phase) {
  ConvRun run = phase_run(layer.run, pair);
  if (run.tile.numeric == Numeric::kByte) run.weights.bias += phase;
  run.weights.panels += phase + phase_bias_lanes(pair.shape, run.tile.numeric) * kLaneBytes;
  return run;
}

struct PhaseKernel {
  ConvKernel conv;
  PhaseOffsets offsets;
};
struct DeconvKernel {
  PhaseKernel* phases;
  int64_t count;
};

void run_phases(DeconvKernel& kernel, const KernelCall& call) {
  for (int64_t k = 0; k < kernel.count; ++k) {
    PhaseKernel& phase = kernel.phases[k];
    set_addresses(call, phase.conv);
    shift_addresses(phase.offsets, phase.conv.run.finish);
    run_conv(phase.conv.run, call.workspace, call.pool);
  }
}

// `index`: of the phase; `at`: the bytes of those before it.
PhaseKernel make_phase(const DeconvRun& layer, int64_t index, int64_t at, const KernelArgs& args) {
  const ConvRun run = packed_phase(layer, phase_pair(layer.form, index), at);
  return {conv_kernel(args, run), phase_offsets(layer.run.finish, run.finish)};
}

template <int kVecs, int kFold, Numeric kNumeric>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  DeconvRun layer;
  if (!has_output(args, kernel) || !describe<kVecs, kFold, kNumeric>(args, layer)) return;
  const int64_t most = layer.form.count();
  std::byte* memory = kernel.allocate(static_cast<size_t>(most) * sizeof(PhaseKernel));
  DeconvKernel& state =
      keep_state<run_phases>(kernel, DeconvKernel{reinterpret_cast<PhaseKernel*>(memory), 0});
  int64_t at = layer.first_phase;
  for (int64_t index = 0; index < most; ++index) {
    const ConvShape shape = phase_pair(layer.form, index).shape;
    if (shape.oh > 0 && shape.ow > 0) {
      PhaseKernel& phase =
          *new (state.phases + state.count++) PhaseKernel(make_phase(layer, index, at, args));
      const size_t bytes = plan_conv(phase.conv.run, threads_of(args));
      kernel.workspace_bytes = bytes > kernel.workspace_bytes ? bytes : kernel.workspace_bytes;
      keep_tables(phase.conv.run, kernel);
    }
    at += phase_bytes(shape, kNumeric, layer.run.tile.fold);
  }
}

template <int kVecs, int kFold = 1, Numeric kNumeric = Numeric::kFloat>
constexpr Tactic row(const char* name) {
  return {
      .name = name,
      .kind = ir::LayerKind::kDeconvolution,
      .isa = kIsa,
      .formats = FormatRule::kChannelLast,
      .version = 6,
      .refusal = refusal<kVecs, kFold, kNumeric>,
      .cost_us = cost_us<kVecs, kFold, kNumeric>,
      .packed_inputs = kNumeric == Numeric::kFloat ? packed_conv_inputs : packed_byte_conv_inputs,
      .packed_bytes = packed_bytes<kVecs, kFold, kNumeric>,
      .pack = pack<kVecs, kFold, kNumeric>,
      .prepare = prepare<kVecs, kFold, kNumeric>};
}

#define CAMSHAFT_DECONV_ROW(vecs, tile) row<vecs>("deconv_gemm_nhwc_f32_" tile),
#define CAMSHAFT_BYTE_DECONV_ROW(vecs, tile) \
  row<vecs, 1, Numeric::kByte>("deconv_gemm_nhwc_u8i8_" tile),

#define CAMSHAFT_DECONV_FOLD_ROW(fold) row<1, fold>("deconv_fold" #fold "_nhwc_f32"),

constexpr Tactic kTactics[] = {
    CAMSHAFT_GEMM_TILES(CAMSHAFT_DECONV_ROW) CAMSHAFT_BYTE_TILES(CAMSHAFT_BYTE_DECONV_ROW)
        row<kMaxFoldVecs, 2>("deconv_fold2_nhwc_f32"),
    row<kMaxFoldVecs, 4>("deconv_fold4_nhwc_f32"), CAMSHAFT_LANE_FOLDS(CAMSHAFT_DECONV_FOLD_ROW)};
#undef CAMSHAFT_DECONV_ROW
#undef CAMSHAFT_BYTE_DECONV_ROW
#undef CAMSHAFT_DECONV_FOLD_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::deconv
