// SPDX-License-Identifier: Apache-2.0
#include "quantize/sparsify.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/extents.h"
#include "onnx/importer.h"
#include "quantize/input_moments.h"
#include "quantize/onnx_file.h"
#include "quantize/permute_channels.h"
#include "quantize/placement.h"
#include "quantize/reconstruct.h"
#include "quantize/tensor_error.h"

namespace camshaft::quantize {
namespace {

using Bytes = std::vector<std::byte>;

Status invalid(std::string text) {
  return Status(ErrorCode::kInvalidArgument, std::move(text));
}

// Weights to be pruned, of one layer or of several that share them.
struct Target {
  std::string constant;  // tensor
  std::string input;     // the layer's data input
  ir::DataType type = ir::DataType::kUndefined;
  ir::ChannelAxis axis;
  Bytes original, pruned;
  size_t layer = 0;  // its place in the report
  bool stays_dense = false;
};

double magnitude(ir::DataType type, const Bytes& bytes) {
  double sum = 0;
  if (type == ir::DataType::kInt8) {
    for (const std::byte value : bytes) sum += std::abs(static_cast<int8_t>(value));
    return sum;
  }
  if (type != ir::DataType::kFloat) return 0;
  const float* values = reinterpret_cast<const float*>(bytes.data());
  for (size_t k = 0; k < bytes.size() / sizeof(float); ++k) sum += std::fabs(values[k]);
  return sum;
}

class Sparsifier {
 public:
  Sparsifier(const std::filesystem::path& file, std::span<const Sample> samples,
             const SparsifyOptions& options)
      : file_(file), samples_(samples), options_(options) {}

  Result<SparsifyResult> run() {
    const bool needs_samples = options_.rule == ir::KeepRule::kActivation || options_.reconstruct ||
                               options_.keep_snr >= 0;
    if (needs_samples && samples_.empty()) return invalid("this needs samples of real data");
    const bool measures = options_.rule == ir::KeepRule::kActivation || options_.reconstruct;
    CAMSHAFT_TRY(find_targets());
    if (measures) CAMSHAFT_TRY(measure_inputs());
    if (options_.permute) {
      CAMSHAFT_TRY(permute());
      CAMSHAFT_TRY(find_targets());
      if (measures) CAMSHAFT_TRY(measure_inputs());
    }
    prune();
    if (!samples_.empty()) CAMSHAFT_TRY(measure_errors());
    return write();
  }

 private:
  Result<std::unique_ptr<ir::Graph>> import() const {
    if (permuted_.empty()) return import_original();
    CAMSHAFT_ASSIGN(auto imported, onnx_import::import_bytes(std::as_bytes(std::span(permuted_))));
    return std::move(imported.graph);
  }
  Result<std::unique_ptr<ir::Graph>> import_original() const {
    CAMSHAFT_ASSIGN(auto imported, onnx_import::import_file(file_));
    return std::move(imported.graph);
  }

  Status permute() {
    InputNorms norms;
    for (size_t k = 0; k < moments_.size(); ++k) {
      const ir::ChannelAxis& axis = targets_[k].axis;
      std::vector<float> values = moments_[k].norms();
      if (static_cast<int64_t>(values.size()) == axis.channels)
        norms.emplace(targets_[k].constant, std::move(values));
    }
    CAMSHAFT_ASSIGN(OnnxFile file, OnnxFile::read(file_));
    CAMSHAFT_ASSIGN(permuted_, file.finish());
    CAMSHAFT_ASSIGN(result_.permutation,
                    permute_channels(permuted_, norms, [this](int done, int total) {
                      return report("Permuting channels", done, total);
                    }));
    return ok_status();
  }

  bool is_wanted(const ir::Layer& layer, std::string& reason) const {
    const auto matches = [&layer](const std::string& pattern) {
      return matches_layer(pattern, layer);
    };
    const bool only =
        options_.only.empty() || std::any_of(options_.only.begin(), options_.only.end(), matches);
    const bool excluded = std::any_of(options_.exclude.begin(), options_.exclude.end(), matches);
    if (!only || excluded) reason = excluded ? "excluded" : "not chosen";
    return only && !excluded;
  }

  Status find_targets() {
    CAMSHAFT_ASSIGN(const auto graph, import());
    result_.layers.clear();
    targets_.clear();
    moments_.clear();
    std::map<std::string, size_t> known;
    for (const auto& layer : graph->layers()) {
      if (layer->kind != ir::LayerKind::kConvolution &&
          layer->kind != ir::LayerKind::kMatrixMultiply)
        continue;
      SparsifiedLayer report;
      report.name = layer->name;
      const ir::ProductWeights weights = ir::find_product_weights(*layer);
      if (is_wanted(*layer, report.dense_reason))
        report.dense_reason = ir::refuse_pruning(weights).text;
      if (weights.constant) {
        report.extents = ir::extents_of(weights.constant->shape);
        report.weights = ir::element_count(report.extents);
      }
      const bool is_target = report.dense_reason.empty();
      result_.layers.push_back(std::move(report));
      if (!is_target || !known.emplace(weights.constant->name, targets_.size()).second) continue;
      const auto view = weights.constant->constant->view;
      targets_.push_back(
          {.constant = weights.constant->name,
           .input = layer->inputs[0]->name,
           .type = weights.constant->type,
           .axis = ir::channel_axis(ir::extents_of(weights.constant->shape), weights.axis),
           .original = Bytes(view.begin(), view.end()),
           .pruned = {},
           .layer = result_.layers.size() - 1});
    }
    if (targets_.empty()) return invalid("there is nothing to prune in " + file_.string());
    return ok_status();
  }

  // Second moments of every target's input.
  Status measure_inputs() {
    CAMSHAFT_ASSIGN(auto graph, import());
    std::vector<std::string> tensors;
    for (const Target& target : targets_) tensors.push_back(target.input);
    std::vector<bool> channel_first;
    for (const Target& target : targets_)
      channel_first.push_back(result_.layers[target.layer].extents.size() > 2);
    CAMSHAFT_ASSIGN(const auto sampler,
                    Sampler::create(std::move(graph), tensors, samples_, options_));
    moments_.resize(targets_.size());
    int done = 0;
    for (const Sample& sample : samples_) {
      if (!report("Measuring activations", done++, static_cast<int>(samples_.size())))
        return Status(ErrorCode::kCancelled, "cancelled");
      CAMSHAFT_TRY(sampler->run(
          sample, [&](size_t k, const ir::Extents& extents, std::span<const float> values) {
            return add_moments(k, channel_first[k], extents, values);
          }));
    }
    return ok_status();
  }

  Status add_moments(size_t k, bool channel_first, const ir::Extents& extents,
                     std::span<const float> values) {
    const size_t axis = channel_first ? 1 : extents.size() - 1;
    const ir::ChannelAxis view = ir::channel_axis({extents.begin(), extents.end()}, axis);
    const int64_t per_filter = targets_[k].axis.channels;
    if (view.channels % per_filter != 0)
      return make_error(ErrorCode::kUnsupported,
                        "layer {}: its input has {} channels, its filters {}",
                        result_.layers[targets_[k].layer].name, view.channels, per_filter);
    if (moments_[k].empty()) moments_[k] = InputMoments(view.channels, view.channels / per_filter);
    moments_[k].add(values, view.outer, view.inner);
    return ok_status();
  }

  void prune() {
    for (size_t k = 0; k < targets_.size(); ++k) {
      Target& target = targets_[k];
      SparsifiedLayer& layer = result_.layers[target.layer];
      target.pruned = target.original;
      const std::vector<float> norms =
          options_.rule == ir::KeepRule::kActivation ? moments_[k].norms() : std::vector<float>();
      layer.pruned = ir::prune_2_4(target.type, target.pruned, target.axis, options_.rule, norms);
      const double all = magnitude(target.type, target.original);
      if (all > 0) layer.kept_magnitude = magnitude(target.type, target.pruned) / all;
      if (options_.reconstruct)
        reconstruct(target.type, target.original, target.pruned, target.axis, moments_[k]);
      (void)report("Pruning", static_cast<int>(k), static_cast<int>(targets_.size()));
    }
  }

  bool report(const char* phase, int done, int total) const {
    return !options_.progress || options_.progress(phase, done, total);
  }

  // All network outputs of all samples, with the weights of `pruned` targets replaced.
  Result<std::vector<std::vector<float>>> outputs_with(const std::vector<bool>& pruned) const {
    CAMSHAFT_ASSIGN(auto graph, import());
    for (const auto& tensor : graph->tensors())
      for (size_t k = 0; k < targets_.size(); ++k)
        if (pruned[k] && tensor->name == targets_[k].constant && tensor->is_constant())
          tensor->constant = ir::make_constant(targets_[k].pruned);
    return outputs_of(std::move(graph));
  }

  Result<std::vector<std::vector<float>>> outputs_of(std::unique_ptr<ir::Graph> graph) const {
    std::vector<std::string> names;
    for (const ir::Tensor* output : graph->outputs())
      if (output->type == ir::DataType::kFloat) names.push_back(output->name);
    if (names.empty()) return invalid("the network has no float output to compare");
    SamplerOptions quiet = options_;
    quiet.progress = nullptr;
    CAMSHAFT_ASSIGN(const auto sampler, Sampler::create(std::move(graph), names, samples_, quiet));
    std::vector<std::vector<float>> outputs;
    for (const Sample& sample : samples_)
      CAMSHAFT_TRY(
          sampler->run(sample, [&](size_t, const ir::Extents&, std::span<const float> values) {
            outputs.emplace_back(values.begin(), values.end());
            return ok_status();
          }));
    return outputs;
  }

  Result<double> snr_with(const std::vector<bool>& pruned) const {
    CAMSHAFT_ASSIGN(const auto outputs, outputs_with(pruned));
    TensorError error;
    for (size_t k = 0; k < outputs.size(); ++k) error.add(outputs[k], reference_[k]);
    return std::min(error.signal_to_noise(), 999.0);
  }

  Status measure_errors() {
    CAMSHAFT_ASSIGN(auto original, import_original());
    CAMSHAFT_ASSIGN(reference_, outputs_of(std::move(original)));
    std::vector<bool> pruned(targets_.size(), false);
    for (size_t k = 0; k < targets_.size(); ++k) {
      if (!report("Pruning each layer alone", static_cast<int>(k),
                  static_cast<int>(targets_.size())))
        return Status(ErrorCode::kCancelled, "cancelled");
      pruned[k] = true;
      CAMSHAFT_ASSIGN(result_.layers[targets_[k].layer].alone_snr, snr_with(pruned));
      pruned[k] = false;
    }
    if (options_.keep_snr >= 0) CAMSHAFT_TRY(keep_costly_layers());
    for (size_t k = 0; k < targets_.size(); ++k) pruned[k] = !targets_[k].stays_dense;
    CAMSHAFT_ASSIGN(result_.snr, snr_with(pruned));
    return ok_status();
  }

  // The layers that cost least are pruned, as many as leave the outputs the bound.
  Status keep_costly_layers() {
    std::vector<size_t> order(targets_.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return *result_.layers[targets_[a].layer].alone_snr >
             *result_.layers[targets_[b].layer].alone_snr;
    });
    const auto holds = [&](size_t count) -> Result<bool> {
      std::vector<bool> pruned(targets_.size(), false);
      for (size_t k = 0; k < count; ++k) pruned[order[k]] = true;
      CAMSHAFT_ASSIGN(const double snr, snr_with(pruned));
      return snr >= options_.keep_snr;
    };
    size_t most = 0;
    for (size_t low = 1, high = order.size(); low <= high;) {
      const size_t middle = (low + high) / 2;
      CAMSHAFT_ASSIGN(const bool ok, holds(middle));
      if (ok) most = middle;
      if (ok)
        low = middle + 1;
      else
        high = middle - 1;
    }
    for (size_t k = most; k < order.size(); ++k) {
      targets_[order[k]].stays_dense = true;
      SparsifiedLayer& layer = result_.layers[targets_[order[k]].layer];
      layer.dense_reason = "costs too much accuracy";
      layer.pruned = 0;
    }
    return ok_status();
  }

  Result<SparsifyResult> write() {
    CAMSHAFT_ASSIGN(OnnxFile file,
                    permuted_.empty() ? OnnxFile::read(file_) : OnnxFile::parse(permuted_));
    for (const Target& target : targets_)
      if (!target.stays_dense) CAMSHAFT_TRY(file.set_values(target.constant, target.pruned));
    CAMSHAFT_ASSIGN(result_.onnx, file.finish());
    return std::move(result_);
  }

  std::filesystem::path file_;
  std::string permuted_;  // the network as it is pruned; "": as in the file
  std::span<const Sample> samples_;
  const SparsifyOptions& options_;
  std::vector<Target> targets_;
  std::vector<InputMoments> moments_;
  std::vector<std::vector<float>> reference_;
  SparsifyResult result_;
};

}  // namespace

Result<SparsifyResult> sparsify_file(const std::filesystem::path& file,
                                     std::span<const Sample> samples,
                                     const SparsifyOptions& options) {
  return Sparsifier(file, samples, options).run();
}

}  // namespace camshaft::quantize
