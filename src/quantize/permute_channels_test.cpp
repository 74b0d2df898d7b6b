// SPDX-License-Identifier: Apache-2.0
// Channels that change places: networks compute what they did (in double precision sums up to the
// order of float additions), keep more, and what cannot follow stays where it is.
#include "quantize/permute_channels.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "kernels/interpreter.h"
#include "onnx/importer.h"
#include "quantize/channel_spaces.h"

namespace camshaft::quantize {
namespace {

// Builds a network node by node, with random weights whose channels differ in size, so that places
// matter.
class Net {
 public:
  explicit Net(uint32_t seed) : random_(seed) {
    model_.set_ir_version(8);
    auto* opset = model_.add_opset_import();
    opset->set_domain("");
    opset->set_version(13);
    graph().set_name("g");
    describe(*graph().add_input(), "x", {2, 3, 8, 8});
  }

  std::string node(const char* op, std::vector<std::string> inputs) {
    ::onnx::NodeProto* made = graph().add_node();
    made->set_op_type(op);
    made->set_name("n" + std::to_string(graph().node_size()));
    for (const std::string& input : inputs) made->add_input(input);
    made->add_output(made->name() + "_y");
    return made->output(0);
  }
  Net& ints(const char* name, const std::vector<int64_t>& values) {
    auto* entry = last().add_attribute();
    entry->set_name(name);
    entry->set_type(::onnx::AttributeProto::INTS);
    for (const int64_t value : values) entry->add_ints(value);
    return *this;
  }
  Net& integer(const char* name, int64_t value) {
    auto* entry = last().add_attribute();
    entry->set_name(name);
    entry->set_type(::onnx::AttributeProto::INT);
    entry->set_i(value);
    return *this;
  }

  std::string constant(const std::vector<int64_t>& dims, float low = -1, float high = 1) {
    auto* tensor = graph().add_initializer();
    tensor->set_name("c" + std::to_string(graph().initializer_size()));
    tensor->set_data_type(::onnx::TensorProto::FLOAT);
    int64_t count = 1, inner = 1;
    for (const int64_t dim : dims) tensor->add_dims(dim), count *= dim;
    for (size_t d = 2; d < dims.size(); ++d) inner *= dims[d];
    const int64_t channels = dims.size() > 1 ? dims[1] : 1;
    std::vector<float> scales;
    for (int64_t c = 0; c < channels; ++c) scales.push_back(dims.size() > 1 ? uniform(0.1F, 1) : 1);
    std::string raw;
    for (int64_t k = 0; k < count; ++k) {
      const float value = uniform(low, high) * scales[static_cast<size_t>(k / inner % channels)];
      raw.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    tensor->set_raw_data(raw);
    return tensor->name();
  }

  std::string conv(const std::string& x, int64_t in, int64_t out, int64_t kernel = 1,
                   int64_t groups = 1) {
    const std::string w = constant({out, in / groups, kernel, kernel}), b = constant({out});
    const std::string y = node("Conv", {x, w, b});
    ints("pads", std::vector<int64_t>(4, kernel / 2)).integer("group", groups);
    return y;
  }
  std::string norm(const std::string& x, int64_t channels) {
    return node("BatchNormalization", {x, constant({channels}), constant({channels}),
                                       constant({channels}), constant({channels}, 0.5F, 2)});
  }

  std::string finish(const std::string& y, const std::vector<int64_t>& dims) {
    describe(*graph().add_output(), y, dims);
    return model_.SerializeAsString();
  }
  ::onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  float uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  uint32_t next() { return random_(); }

 private:
  ::onnx::NodeProto& last() { return *graph().mutable_node(graph().node_size() - 1); }
  static void describe(::onnx::ValueInfoProto& info, const std::string& name,
                       const std::vector<int64_t>& dims) {
    info.set_name(name);
    auto* type = info.mutable_type()->mutable_tensor_type();
    type->set_elem_type(::onnx::TensorProto::FLOAT);
    for (const int64_t dim : dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
  }

  ::onnx::ModelProto model_;
  std::mt19937 random_;
};

std::vector<double> outputs_of(const std::string& onnx) {
  auto imported = onnx_import::import_bytes(std::as_bytes(std::span(onnx)));
  EXPECT_TRUE(imported.ok()) << imported.status().message();
  if (!imported.ok()) return {};
  std::mt19937 random(7);
  std::vector<float> x(2 * 3 * 8 * 8);
  for (float& value : x) value = std::uniform_real_distribution<float>(-1, 1)(random);
  const auto bytes = std::as_bytes(std::span(x));
  const auto value =
      kernels::make_value(ir::DataType::kFloat, {2, 3, 8, 8}, {bytes.begin(), bytes.end()});
  const auto outputs = kernels::evaluate(*imported->graph, std::span(&*value, 1));
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? (*outputs)[0].to_doubles() : std::vector<double>();
}

Permutation check(const std::string& onnx) {
  std::string permuted = onnx;
  const auto result = permute_channels(permuted, {}, nullptr);
  EXPECT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(permuted.size(), onnx.size());
  const std::vector<double> before = outputs_of(onnx), after = outputs_of(permuted);
  EXPECT_EQ(before.size(), after.size());
  double largest = 1e-6, worst = 0;
  for (size_t k = 0; k < before.size(); ++k) {
    largest = std::max(largest, std::fabs(before[k]));
    worst = std::max(worst, std::fabs(before[k] - after[k]));
  }
  EXPECT_LT(worst, 1e-4 * largest);
  EXPECT_GE(result->kept_after, result->kept_before);
  return *result;
}

TEST(PermuteChannels, ChainOfConvolutions) {
  Net net(1);
  const std::string a = net.node("Relu", {net.norm(net.conv("x", 3, 16), 16)});
  const std::string b = net.node("Relu", {net.conv(a, 16, 24, 3)});
  const Permutation result = check(net.finish(net.conv(b, 24, 5), {2, 5, 8, 8}));
  EXPECT_EQ(result.spaces, 2);
  EXPECT_EQ(result.permuted, 2);
  EXPECT_EQ(result.pinned, 0);
  EXPECT_GT(result.kept_after, result.kept_before + 0.01);
}

TEST(PermuteChannels, ResidualsAndDepthwiseLayersShareASpace) {
  Net net(2);
  const std::string a = net.conv("x", 3, 16);
  const std::string wide = net.node("Relu", {net.conv(a, 16, 32)});
  const std::string deep = net.node("Clip", {net.norm(net.conv(wide, 32, 32, 3, 32), 32)});
  const std::string sum = net.node("Add", {a, net.conv(deep, 32, 16)});
  const Permutation result = check(net.finish(net.conv(sum, 16, 6), {2, 6, 8, 8}));
  EXPECT_EQ(result.spaces, 2);
  EXPECT_EQ(result.pinned, 0);
  EXPECT_EQ(result.permuted, 2);
}

TEST(PermuteChannels, SqueezeAndExcite) {
  Net net(3);
  const std::string a = net.conv("x", 3, 16);
  const std::string gate = net.node(
      "Sigmoid",
      {net.conv(net.node("Relu", {net.conv(net.node("GlobalAveragePool", {a}), 16, 8)}), 8, 16)});
  const std::string scaled = net.node("Mul", {gate, a});
  const Permutation result = check(net.finish(net.conv(scaled, 16, 6), {2, 6, 8, 8}));
  EXPECT_EQ(result.spaces, 2);
  EXPECT_EQ(result.permuted, 2);
}

TEST(PermuteChannels, JoinedImagesAndClassifier) {
  Net net(4);
  const std::string a = net.conv("x", 3, 10), b = net.conv("x", 3, 14);
  const std::string joined = net.node("Concat", {a, b});
  net.integer("axis", 1);
  const std::string c = net.conv(net.norm(joined, 24), 24, 20, 3);
  const std::string flat = net.node("Flatten", {net.node("GlobalAveragePool", {c})});
  const std::string hidden = net.node("Gemm", {flat, net.constant({12, 20}), net.constant({12})});
  net.integer("transB", 1);
  const std::string y = net.node("MatMul", {net.node("Relu", {hidden}), net.constant({12, 7})});
  const Permutation result = check(net.finish(y, {2, 7}));
  EXPECT_EQ(result.spaces, 4);
  EXPECT_EQ(result.pinned, 0);
  EXPECT_GE(result.permuted, 3);
}

TEST(PermuteChannels, WhatCannotFollowStays) {
  {
    Net net(5);  // a shuffle of channels knows their places
    const std::string a = net.conv("x", 3, 16);
    const std::string moved = net.node("DepthToSpace", {a});
    net.integer("blocksize", 2);
    EXPECT_EQ(check(net.finish(net.conv(moved, 4, 6), {2, 6, 16, 16})).permuted, 0);
  }
  {
    Net net(6);  // outputs of the network
    const std::string a = net.conv("x", 3, 16);
    net.conv(a, 16, 8);
    EXPECT_EQ(check(net.finish(a, {2, 16, 8, 8})).permuted, 0);
  }
  {
    Net net(7);  // weights of two layers
    const std::string w = net.constant({16, 16, 1, 1});
    const std::string a = net.conv("x", 3, 16);
    const std::string b = net.node("Conv", {net.node("Conv", {a, w}), w});
    const Permutation result = check(net.finish(net.conv(b, 16, 4), {2, 4, 8, 8}));
    EXPECT_EQ(result.permuted, 0);
    EXPECT_EQ(result.pinned, result.spaces);
  }
  {
    Net net(8);  // four groups
    const std::string a = net.conv("x", 3, 16);
    const std::string b = net.conv(a, 16, 16, 3, 4);
    EXPECT_EQ(check(net.finish(net.conv(b, 16, 4), {2, 4, 8, 8})).permuted, 0);
  }
}

// Any order of layers of one width.
TEST(PermuteChannels, RandomNetworksComputeTheSame) {
  for (uint32_t seed = 100; seed < 160; ++seed) {
    SCOPED_TRACE(seed);
    Net net(seed);
    std::vector<std::string> values = {net.conv("x", 3, 12), net.conv("x", 3, 12)};
    for (int step = 0; step < 12; ++step) {
      const std::string x = values[net.next() % values.size()];
      const std::string other = values[net.next() % values.size()];
      switch (net.next() % 9) {
        case 0:
          values.push_back(net.conv(x, 12, 12, 3));
          break;
        case 1:
          values.push_back(net.conv(x, 12, 12, 3, 12));
          break;
        case 2:
          values.push_back(net.norm(x, 12));
          break;
        case 3:
          values.push_back(net.node("Add", {x, other}));
          break;
        case 4:
          values.push_back(net.node("Mul", {x, net.constant({12, 1, 1})}));
          break;
        case 5:
          values.push_back(net.node("Mul", {x, net.node("GlobalAveragePool", {other})}));
          break;
        case 6:
          values.push_back(net.node("PRelu", {x, net.constant({12, 1, 1})}));
          break;
        case 7: {
          const std::string joined = net.node("Concat", {x, other});
          net.integer("axis", 1);
          values.push_back(net.conv(net.node("Tanh", {joined}), 24, 12));
          break;
        }
        default:
          values.push_back(net.conv(x, 12, 12, 1, net.next() % 2 == 0 ? 1 : 3));
          break;
      }
    }
    check(net.finish(net.node("Tanh", {net.conv(values.back(), 12, 6)}), {2, 6, 8, 8}));
  }
}

}  // namespace
}  // namespace camshaft::quantize
