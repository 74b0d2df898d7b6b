// SPDX-License-Identifier: Apache-2.0
#include "tuner/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/extents.h"
#include "ir/infer.h"
#include "kernels/prepared.h"
#include "runtime/buffer.h"

namespace camshaft::tuner {
namespace {

using kernels::Problem;
using kernels::TensorView;

constexpr int64_t kPixels = 14;  // of the image's sides: some tiles, whole and cut
constexpr int kSamples = 512;    // outputs compared

// F(4,3) rounds 0.3 to 1 times what direct convolution of 64 to 512 channels does (ResNet-50, DPT),
// more of few.
constexpr double kMostTimesDirect = 16;
constexpr double kAlwaysGood = 2e-6;  // of the largest output: no more than direct sums of 1000s do

// Winograd's transforms of floats; those of bytes are exact.
bool transforms_sums(const kernels::Tactic& tactic) {
  const std::string_view name = tactic.name;
  return name.starts_with("conv_winograd_") && name.ends_with("_f32");
}

// The convolution alone, of one small image: no epilogue, no bias.
struct Probe {
  ir::Layer layer;
  Problem problem;
  std::vector<float> x;
  runtime::Buffer y, packed;

  bool make(const Problem& full, const kernels::Tactic& tactic) {
    if (full.inputs.size() < 2 || !full.inputs[1].constant || full.inputs[0].extents.size() != 4)
      return false;
    layer.kind = full.layer->kind;
    layer.attrs = full.layer->as<ir::ConvolutionAttrs>();
    layer.as<ir::ConvolutionAttrs>().epilogue = {};
    problem.layer = &layer;
    problem.threads = 1;
    problem.inputs.assign(full.inputs.begin(), full.inputs.begin() + 2);
    problem.outputs = full.outputs;
    problem.inputs[0].dense = problem.outputs[0].dense = true;
    ir::Extents& extents = problem.inputs[0].extents;
    extents[0] = 1;
    for (size_t d = 2; d < 4; ++d)
      extents[d] = std::min(extents[d], kPixels * layer.as<ir::ConvolutionAttrs>().dilation[d - 2]);
    ir::SymbolTable symbols;
    std::vector<ir::InferInput> inputs(2);
    for (size_t k = 0; k < 2; ++k) {
      inputs[k].present = true;
      inputs[k].type = problem.inputs[k].type;
      inputs[k].shape.assign(problem.inputs[k].extents.begin(), problem.inputs[k].extents.end());
    }
    const auto outputs = ir::infer(layer, inputs, symbols);
    if (!outputs.ok()) return false;
    problem.outputs[0].extents = ir::extents_of(outputs.value()[0].shape);
    return tactic.refusal(problem).empty();
  }

  TensorView view(const kernels::ProblemTensor& tensor, void* data) const {
    return kernels::make_view(data, tensor.type, tensor.format, tensor.extents);
  }

  TensorView run(const kernels::Tactic& tactic) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    x.resize(ir::element_count(problem.inputs[0].extents));
    for (float& value : x) value = normal(generator);
    std::byte* weights = packed.reserve(tactic.packed_bytes(problem));
    tactic.pack(problem, weights);
    const TensorView inputs[] = {view(problem.inputs[0], x.data()),
                                 view(problem.inputs[1], nullptr)};
    const TensorView outputs[] = {
        view(problem.outputs[0],
             y.reserve(sizeof(float) * ir::element_count(problem.outputs[0].extents)))};
    kernels::KernelArgs args;
    args.layer = &layer;
    args.inputs = inputs;
    args.outputs = outputs;
    args.packed = weights;
    args.pool = &ThreadPool::serial();
    static_cast<void>(kernels::run_once(tactic, args));
    return outputs[0];
  }
};

float at(const TensorView& view, int64_t n, int64_t c, int64_t h, int64_t w) {
  return view.as<float>()[n * view.strides[0] + c * view.strides[1] + h * view.strides[2] +
                          w * view.strides[3]];
}

// One output, exactly and in floats.
struct Sums {
  double exact = 0;
  float direct = 0;
};

Sums sums_of(const Probe& probe, const TensorView& x, int64_t oc, int64_t oh, int64_t ow) {
  const auto& attrs = probe.layer.as<ir::ConvolutionAttrs>();
  const ir::Extents& w = probe.problem.inputs[1].extents;
  const auto* weights =
      reinterpret_cast<const float*>(probe.problem.inputs[1].constant->view.data());
  const ir::Window rows =
      ir::resolve_window(attrs.padding_mode, x.extents[2], w[2], attrs.stride[0], attrs.dilation[0],
                         attrs.pre_padding[0], attrs.post_padding[0]);
  const ir::Window columns =
      ir::resolve_window(attrs.padding_mode, x.extents[3], w[3], attrs.stride[1], attrs.dilation[1],
                         attrs.pre_padding[1], attrs.post_padding[1]);
  const int64_t group = oc / (w[0] / attrs.groups);
  Sums sums;
  for (int64_t c = 0; c < w[1]; ++c)
    for (int64_t i = 0; i < w[2]; ++i)
      for (int64_t j = 0; j < w[3]; ++j) {
        const int64_t h = oh * attrs.stride[0] + i * attrs.dilation[0] - rows.pre_padding;
        const int64_t v = ow * attrs.stride[1] + j * attrs.dilation[1] - columns.pre_padding;
        if (h < 0 || v < 0 || h >= x.extents[2] || v >= x.extents[3]) continue;
        const float factor = weights[((oc * w[1] + c) * w[2] + i) * w[3] + j];
        const float value = at(x, 0, group * w[1] + c, h, v);
        sums.exact += static_cast<double>(factor) * value;
        sums.direct = std::fma(factor, value, sums.direct);
      }
  return sums;
}

}  // namespace

std::optional<Rounding> measure_rounding(const Problem& problem, const kernels::Tactic& tactic) {
  Probe probe;
  if (!transforms_sums(tactic) || !probe.make(problem, tactic)) return {};
  const TensorView y = probe.run(tactic);
  if (y.elements() == 0) return {};
  const TensorView x = probe.view(probe.problem.inputs[0], probe.x.data());
  std::mt19937_64 generator(2);
  Rounding rounding;
  double largest = 0;
  for (int k = 0; k < kSamples; ++k) {
    const auto pick = [&](int d) {
      return static_cast<int64_t>(generator() % static_cast<uint64_t>(y.extents[d]));
    };
    const int64_t oc = pick(1), oh = pick(2), ow = pick(3);
    const Sums sums = sums_of(probe, x, oc, oh, ow);
    const double error = std::fabs(at(y, 0, oc, oh, ow) - sums.exact);
    rounding.error = std::max(rounding.error, std::isfinite(error) ? error : HUGE_VAL);
    rounding.direct = std::max(rounding.direct, std::fabs(sums.direct - sums.exact));
    largest = std::max(largest, std::fabs(sums.exact));
  }
  if (largest == 0) return {};
  rounding.error /= largest;
  // One rounding of the largest output is the least anything may be held to.
  rounding.direct = std::max(rounding.direct / largest, 6e-8);
  return rounding;
}

std::string to_string(const Rounding& rounding) {
  return fmt::format("error {:.1e} of the largest output, {:.1f} x direct convolution's",
                     rounding.error, rounding.ratio());
}

std::string refusal_of(const Rounding& rounding) {
  if (rounding.error <= kAlwaysGood || rounding.ratio() <= kMostTimesDirect) return {};
  return "rounds too much with these weights: " + to_string(rounding);
}

const std::optional<Rounding>& Roundings::of(const Problem& problem,
                                             const kernels::Tactic& tactic) {
  static const std::optional<Rounding> kNone;
  if (!transforms_sums(tactic) || problem.inputs.size() < 2 || !problem.inputs[1].constant)
    return kNone;
  const auto key = std::pair<const void*, const kernels::Tactic*>(
      problem.inputs[1].constant->view.data(), &tactic);
  const auto [entry, is_new] = known_.try_emplace(key);
  if (is_new) entry->second = measure_rounding(problem, tactic);
  return entry->second;
}

}  // namespace camshaft::tuner
