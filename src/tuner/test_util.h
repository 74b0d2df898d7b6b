// SPDX-License-Identifier: Apache-2.0
// For tests: graphs from text, engines built in memory, outputs compared with the interpreter's.
#pragma once

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "ir/graph.h"
#include "runtime/context.h"
#include "tuner/builder.h"

namespace camshaft::tuner {

#define ASSERT_STATUS_OK(expression)                        \
  do {                                                      \
    const ::camshaft::Status test_status = (expression);    \
    ASSERT_TRUE(test_status.ok()) << test_status.message(); \
  } while (false)

struct TestTensor {
  ir::Extents extents;
  std::vector<std::byte> bytes;

  std::span<const float> floats() const {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }
};

inline TestTensor random_tensor(const ir::Extents& extents, uint32_t seed, float low = -1,
                                float high = 1) {
  TestTensor tensor{extents, {}};
  std::vector<float> values(ir::element_count(extents));
  std::mt19937 generator(seed);
  for (float& value : values) value = std::uniform_real_distribution<float>(low, high)(generator);
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

template <class T>
TestTensor tensor_of(const ir::Extents& extents, const std::vector<T>& values) {
  TestTensor tensor{extents, std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

inline std::unique_ptr<ir::Graph> graph_of(std::string_view text) {
  Result<std::unique_ptr<ir::Graph>> graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(graph).value() : nullptr;
}

inline std::shared_ptr<const engine::Engine> engine_of(std::unique_ptr<ir::Graph> graph,
                                                       const BuildOptions& options = {}) {
  Result<GrowingBytes> bytes = build(std::move(graph), options);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  if (!bytes.ok()) return nullptr;
  Result<std::shared_ptr<const engine::Engine>> engine =
      engine::Engine::load(std::move(bytes).value());
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? *engine : nullptr;
}

// Runs `context` on the inputs; gives the outputs.
inline Status run(runtime::Context& context, const std::vector<TestTensor>& inputs,
                  std::vector<TestTensor>& outputs) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    CAMSHAFT_TRY(context.set_input_extents(static_cast<int>(k), inputs[k].extents));
    CAMSHAFT_TRY(
        context.set_input(static_cast<int>(k), inputs[k].bytes.data(), inputs[k].bytes.size()));
  }
  CAMSHAFT_TRY(context.execute());
  outputs.clear();
  for (size_t k = 0; k < context.engine().plan().outputs.size(); ++k) {
    CAMSHAFT_ASSIGN(const ir::Extents extents, context.output_extents(static_cast<int>(k)));
    const auto& tensor = context.engine().plan().tensors[context.engine().plan().outputs[k]];
    const auto* data = static_cast<const std::byte*>(context.output_data(static_cast<int>(k)));
    outputs.push_back(
        {extents, {data, data + ir::bytes_for(tensor.type, ir::element_count(extents))}});
  }
  return ok_status();
}

}  // namespace camshaft::tuner
