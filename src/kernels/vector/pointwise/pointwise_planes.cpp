// SPDX-License-Identifier: Apache-2.0
// Images become codes: a PointWise that quantizes a float tensor of few channels reads its planes
// and writes the pixels' codes side by side, in one pass. The program is affine, its constants
// scalars or one per channel (mean and deviation).
#include <cstring>

#include "kernels/nest.h"
#include "kernels/packed/packed_records.h"
#include "kernels/simd/shuffles.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/affine_step.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::pointwise_planes {
namespace {

constexpr int kMaxChannels = kMaxPlaneChannels, kMaxInputs = 8;

const ir::Program& program_of(const ir::Layer& layer) {
  return std::get_if<ir::PointWiseAttrs>(&layer.attrs)->program;
}

// --- the program of each channel

// Whether a constant has one value per channel of a tensor like y.
bool is_per_channel(const ProblemTensor& t, const ProblemTensor& y) {
  const size_t missing = y.extents.size() - t.extents.size();
  return t.extents.size() <= y.extents.size() && missing <= 1 && count_of(t) == y.extents[1] &&
         t.extents[1 - missing] == y.extents[1];
}

bool find_channel(const Problem& p, int64_t channel, int image, Affine& affine) {
  const ir::Program& program = program_of(*p.layer);
  AffineInput inputs[kMaxInputs];
  for (int k = 0; k < program.num_inputs; ++k) {
    const ProblemTensor& t = p.inputs[static_cast<size_t>(k)];
    inputs[k].kind = k == image ? AffineInput::kVector : AffineInput::kConstant;
    if (k != image)
      inputs[k].constant =
          reinterpret_cast<const float*>(t.constant->view.data())[count_of(t) == 1 ? 0 : channel];
  }
  return find_affine(program.code.data(), static_cast<int>(program.code.size()), program.num_inputs,
                     inputs, DataType::kUInt8, affine);
}

// What is wrong, or null.
const char* find_channels(const Problem& p, PlaneChannels& channels) {
  const ProblemTensor& y = p.outputs[0];
  if (y.type != DataType::kUInt8) return "the output is not uint8";
  if (y.extents.size() < 3 || y.extents[1] < 2 || y.extents[1] > kMaxChannels)
    return "not 2 to 4 channels";
  const int inputs = program_of(*p.layer).num_inputs;
  if (inputs > kMaxInputs) return "too many inputs";
  for (int k = 0; k < inputs; ++k) {
    const ProblemTensor& t = p.inputs[static_cast<size_t>(k)];
    if (t.type != DataType::kFloat) return "an operand that is not float";
    const bool is_constant = t.constant != nullptr && (count_of(t) == 1 || is_per_channel(t, y));
    if (is_constant) continue;
    if (channels.image >= 0 || t.constant != nullptr || t.extents != y.extents)
      return "an operand that is not a constant per channel";
    channels.image = k;
  }
  // The number of channels may be dynamic: then they are all alike.
  for (int64_t c = 0; c < kMaxChannels; ++c)
    if (!find_channel(p, c < y.extents[1] ? c : y.extents[1] - 1, channels.image,
                      channels.affine[c]) ||
        (channels.affine[c].divisor != 0) != (channels.affine[0].divisor != 0))
      return "the program is not affine";
  return channels.image < 0 ? "no operand but constants" : nullptr;
}

std::string refusal(const Problem& p) {
  PlaneChannels channels;
  const char* reason = find_channels(p, channels);
  return reason == nullptr ? "" : reason;
}

size_t packed_bytes(const Problem&) {
  return record_bytes<PlaneChannels>();
}

void pack(const Problem& p, std::byte* packed) {
  PlaneChannels channels;
  find_channels(p, channels);
  store_record(channels, packed);
}

// --- pixels

// The codes of kLanes pixels, a dword each. NaN, the least integer so far, becomes 0.
template <int kChannels, Form kForm, class Load>
CAMSHAFT_INLINE I32 pixels_of(const Factors* f, const Load& load_plane) {
  const auto code = [&](int c) {
    return positive(to_int(combine<kForm, false>(f[c], load_plane(c), zero())) + f[c].after);
  };
  I32 pixels = code(0) + shift_left<8>(code(1));
  if constexpr (kChannels > 2) pixels = pixels + shift_left<16>(code(2));
  if constexpr (kChannels > 3) pixels = pixels + shift_left<24>(code(3));
  return pixels;
}

template <int kChannels, Form kForm>
void quantize_pixels(const Factors* factors, const float* x, int64_t plane, uint8_t* y,
                     int64_t count) {
  Factors f[kChannels];
  for (int c = 0; c < kChannels; ++c) f[c] = factors[c];
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes)
    store_pixels<kChannels>(y + k * kChannels, pixels_of<kChannels, kForm>(f, [&](int c) {
                              return load(x + c * plane + k);
                            }));
  if (k == count) return;
  const M32 rest = first_n(static_cast<int>(count - k));
  uint8_t bytes[kLanes * kChannels];
  store_pixels<kChannels>(
      bytes, pixels_of<kChannels, kForm>(f, [&](int c) { return load(x + c * plane + k, rest); }));
  std::memcpy(y + k * kChannels, bytes, static_cast<size_t>((count - k) * kChannels));
}

// Pixels that are parts of larger ones go through a buffer.
template <int kChannels, Form kForm>
void quantize_run(const Factors* factors, const float* x, int64_t plane, uint8_t* y, int64_t step,
                  int64_t count) {
  if (step == kChannels) return quantize_pixels<kChannels, kForm>(factors, x, plane, y, count);
  constexpr int64_t kChunk = 256;
  uint8_t chunk[kChunk * kChannels];
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t pixels = count - first < kChunk ? count - first : kChunk;
    quantize_pixels<kChannels, kForm>(factors, x + first, plane, chunk, pixels);
    for (int64_t k = 0; k < pixels; ++k)
      std::memcpy(y + (first + k) * step, chunk + k * kChannels, kChannels);
  }
}

TensorView one_channel(const TensorView& view) {
  TensorView plane = view;
  plane.extents[1] = 1;
  return plane;
}

template <int kChannels>
struct Planes {
  Factors factors[kChannels];
  size_t image;   // the input that is one
  int64_t plane;  // between its channels
  Nest nest;      // of pixels: the image, the output
  double predicted_us;
};

template <int kChannels, Form kForm>
void run(Planes<kChannels>& p, const KernelCall& call) {
  const Nest& nest = p.nest;
  const float* x = call.input<const float>(p.image);
  uint8_t* y = call.output<uint8_t>(0);
  for_tiles(nest, call.pool, p.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              for (int64_t row = 0; row < rows; ++row)
                quantize_run<kChannels, kForm>(p.factors, x + offsets[0] + row * nest.row_stride(0),
                                               p.plane, y + offsets[1] + row * nest.row_stride(1),
                                               nest.col_stride(1), cols);
            });
}

template <int kChannels>
void prepare_channels(const KernelArgs& args, const PlaneChannels& channels,
                      PreparedKernel& kernel) {
  const TensorView &x = args.inputs[static_cast<size_t>(channels.image)], &y = args.outputs[0];
  Planes<kChannels> p;
  for (int c = 0; c < kChannels; ++c) p.factors[c] = splat(channels.affine[c]);
  p.image = static_cast<size_t>(channels.image);
  p.plane = x.strides[1];
  p.nest = make_nest(one_channel(x));
  add_tensor(p.nest, one_channel(y));
  collapse(p.nest);
  p.predicted_us = static_cast<double>(count_of(y)) / kLanes / 1500;
  if (channels.affine[0].divisor != 0)
    keep_state<run<kChannels, Form::kDivide>>(kernel, p);
  else
    keep_state<run<kChannels, Form::kOne>>(kernel, p);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  PlaneChannels channels;
  read_record(args.packed, channels);
  const int64_t count = args.outputs[0].extents[1];
  (count == 2   ? prepare_channels<2>
   : count == 3 ? prepare_channels<3>
                : prepare_channels<4>)(args, channels, kernel);
}

constexpr Tactic kTactics[] = {
    {"pointwise_planes_u8", ir::LayerKind::kPointWise, kIsa, FormatRule::kLinearToChannelLast, 2,
     refusal, traffic_us, no_packed_inputs, packed_bytes, pack, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::pointwise_planes
