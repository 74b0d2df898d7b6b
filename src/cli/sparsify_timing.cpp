// SPDX-License-Identifier: Apache-2.0
#include "cli/sparsify_timing.h"

#include <algorithm>

#include "camshaft/builder.h"
#include "camshaft/inspector.h"
#include "cli/inference_loop.h"

namespace camshaft::cli {
namespace {

std::vector<OptimizationProfile> profile_of(const Model& model,
                                            std::span<const quantize::Sample> samples) {
  OptimizationProfile profile;
  if (samples.empty()) return {};
  for (const TensorInfo& input : model.inputs()) {
    const auto value = samples[0].find(input.name);
    if (value == samples[0].end() || std::ranges::none_of(input.dims, [](auto d) { return d < 0; }))
      continue;
    const Dims dims(value->second.extents.begin(), value->second.extents.end());
    profile.push_back({input.name, dims, dims, dims});
  }
  if (profile.empty()) return {};
  return {profile};
}

const LayerInfo* find_layer(const std::vector<LayerInfo>& layers, const std::string& name) {
  const auto comes_from = [&name](const LayerInfo& layer) {
    return layer.sparsity.weights > 0 &&
           std::ranges::find(layer.source_nodes, name) != layer.source_nodes.end();
  };
  const auto found = std::ranges::find_if(layers, comes_from);
  return found == layers.end() ? nullptr : &*found;
}

}  // namespace

Result<std::map<std::string, LayerSpeed>> time_layers(const std::string& onnx,
                                                      const std::filesystem::path& folder,
                                                      const std::vector<std::string>& layers,
                                                      std::span<const quantize::Sample> samples,
                                                      int threads, Messages& messages) {
  const std::span bytes(reinterpret_cast<const std::byte*>(onnx.data()), onnx.size());
  CAMSHAFT_ASSIGN(Model model, Model::from_memory(bytes, folder));
  BuildOptions options;
  options.profiles = profile_of(model, samples);
  options.threads = threads;
  options.sparsity = Sparsity::kEnable;
  options.progress = [&messages](const char* phase, int done, int total) {
    messages.progress().update(phase, done, total);
    return !interrupted();
  };
  Result<Engine> engine = build(std::move(model), options);
  messages.progress().clear();
  CAMSHAFT_TRY(engine.status());
  const Inspector inspector(*engine);
  std::map<std::string, LayerSpeed> speeds;
  std::vector<int> listed;
  for (const std::string& name : layers) {
    const LayerInfo* layer = find_layer(inspector.layers(), name);
    if (!layer) continue;
    const bool is_repeated = std::ranges::find(listed, layer->index) != listed.end();
    listed.push_back(layer->index);
    speeds[name] = {layer->sparsity.dense_time_us, layer->sparsity.sparse_time_us, is_repeated};
  }
  return speeds;
}

}  // namespace camshaft::cli
