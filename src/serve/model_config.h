// SPDX-License-Identifier: Apache-2.0
// A model's configuration: Triton's config.pbtxt, or what the network itself says where there is
// none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "camshaft/types.h"
#include "model_config.pb.h"

namespace camshaft::serve {

using inference::ModelConfig;

struct GivenConfig {
  ModelConfig config;
  bool is_given = false;           // false: there is no file
  std::vector<std::string> notes;  // what it says that has no effect here
};

// FOLDER/config.pbtxt; its absence is no error.
Result<GivenConfig> read_config(const std::filesystem::path& folder);
Result<GivenConfig> parse_config_text(const std::string& text);
Result<GivenConfig> parse_config_json(const std::string& text);

// What a configuration is completed from and held to.
struct NetworkFacts {
  std::vector<TensorInfo> inputs, outputs;
  int64_t batch_bound = 0;  // of an engine: the largest first extent it was built for; 0: a network
  std::string platform;     // "camshaft_onnx"
};

// Fills in inputs, outputs, batch size and instances. kUnsupported and kInvalidArgument say which
// field is wrong.
Status complete_config(GivenConfig& given, const std::string& model_name,
                       const NetworkFacts& network, int64_t default_max_batch);

// The shapes to build for: batches from 1 to max_batch_size, tuned at both ends; other open extents
// as the parameters min_shapes, opt_shapes and max_shapes say.
Result<std::vector<OptimizationProfile>> build_profiles(const ModelConfig& config,
                                                        const std::vector<TensorInfo>& inputs);

// "" where the parameter is not given.
std::string parameter(const ModelConfig& config, const std::string& name);
// The fallback where it is not given; an error where it is not a number of at least 0.
Result<double> number_parameter(const ModelConfig& config, const std::string& name,
                                double fallback);

}  // namespace camshaft::serve
