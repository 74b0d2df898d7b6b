// SPDX-License-Identifier: Apache-2.0
#include "quantize/calibrate.h"

#include <algorithm>

#include "quantize/placement.h"

namespace camshaft::quantize {
namespace {

Status report(const CalibrationOptions& options, const char* phase, size_t done, size_t total) {
  if (options.progress && !options.progress(phase, static_cast<int>(done), static_cast<int>(total)))
    return make_error(ErrorCode::kCancelled, "the calibration was cancelled");
  return ok_status();
}

}  // namespace

Result<Calibration> calibrate(std::unique_ptr<ir::Graph> graph,
                              const std::vector<std::string>& tensors,
                              std::span<const Sample> samples, const CalibrationOptions& options) {
  if (samples.empty())
    return make_error(ErrorCode::kInvalidArgument, "calibration needs at least one sample");
  CAMSHAFT_ASSIGN(const auto sampler, Sampler::create(std::move(graph), tensors, samples, options));
  std::vector<Histogram> histograms(tensors.size());
  for (size_t k = 0; k < samples.size(); ++k) {
    CAMSHAFT_TRY(report(options, "Calibrating", k, samples.size()));
    CAMSHAFT_TRY(sampler->run(
        samples[k], [&](size_t tensor, const ir::Extents&, std::span<const float> values) {
          histograms[tensor].add(values);
          return ok_status();
        }));
  }
  Calibration result;
  for (size_t k = 0; k < tensors.size(); ++k) {
    CAMSHAFT_TRY(report(options, "Choosing scales", k, tensors.size()));
    const Histogram& histogram = histograms[k];
    if (histogram.not_finite() > 0) result.not_finite.push_back(tensors[k]);
    if (histogram.count() == 0) continue;
    const double threshold = find_threshold(histogram, options.calibrator);
    const double low = std::clamp<double>(histogram.minimum(), -threshold, 0);
    const double high = std::clamp<double>(histogram.maximum(), 0, threshold);
    const auto scale =
        static_cast<float>(options.is_asymmetric ? (high - low) / 255 : threshold / kLargestCode);
    if (scale > 1e-30F) {
      result.scales[tensors[k]] = scale;
      if (options.is_asymmetric) result.lows[tensors[k]] = static_cast<float>(low);
    } else {
      result.warnings.push_back(
          fmt::format("tensor {} was zero in every sample: it stays float", tensors[k]));
    }
  }
  CAMSHAFT_TRY(report(options, "Choosing scales", tensors.size(), tensors.size()));
  return result;
}

std::vector<std::string> float_activations(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const auto& tensor : graph.tensors())
    if (tensor->type == ir::DataType::kFloat && !is_constant_expression(tensor.get()))
      names.push_back(tensor->name);
  return names;
}

}  // namespace camshaft::quantize
