// SPDX-License-Identifier: Apache-2.0
// Comparisons and the bisection on a network with one layer that int8 ruins.
#include "quantize/verify.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace camshaft::quantize {
namespace {

// Three quantized convolutions; the scale before "bad" lets almost everything saturate.
constexpr const char* kNetwork = R"ir(graph "g" {
  input x: float[1, 2, 4, 4]
  constant wa: float[2, 2, 1, 1] = [1, 0.5, -0.5, 1]
  constant wb: float[2, 2, 1, 1] = [1, 0.25, -0.75, 1]
  constant wc: float[2, 2, 1, 1] = [0.5, 0.5, -0.25, 1]
  constant fine: float[] = [0.03]
  constant poor: float[] = [0.002]
  xq: int8[1, 2, 4, 4] = Quantize(x, fine)
  xd: float[1, 2, 4, 4] = Dequantize(xq, fine)
  good: float[1, 2, 4, 4] = Convolution(xd, wa) WINDOW
  gq: int8[1, 2, 4, 4] = Quantize(good, poor)
  gd: float[1, 2, 4, 4] = Dequantize(gq, poor)
  bad: float[1, 2, 4, 4] = Convolution(gd, wb) WINDOW
  bq: int8[1, 2, 4, 4] = Quantize(bad, fine)
  bd: float[1, 2, 4, 4] = Dequantize(bq, fine)
  last: float[1, 2, 4, 4] = Convolution(bd, wc) WINDOW
  output last
})ir";

GraphSource network() {
  std::string text = kNetwork;
  const std::string window =
      "{kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}";
  for (size_t at = text.find("WINDOW"); at != std::string::npos; at = text.find("WINDOW"))
    text.replace(at, 6, window);
  return [text] { return ir::parse_graph(text); };
}

// Two convolutions of codes.
GraphSource network_of_codes() {
  return [] {
    return ir::parse_graph(R"ir(graph "g" {
  input x: float[1, 2, 4, 4]
  constant v: int8[2, 2, 1, 1] = [100, 50, -50, 100]
  constant s: float[] = [0.03]
  constant z: int8[] = [0]
  xq: int8[1, 2, 4, 4] = Quantize(x, s, z) {type=int8}
  xd: float[1, 2, 4, 4] = Dequantize(xq, s, z) {type=int8}
  w: float[2, 2, 1, 1] = Dequantize(v, s, z) {type=int8}
  a: float[1, 2, 4, 4] = Convolution(xd, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  aq: int8[1, 2, 4, 4] = Quantize(a, s, z) {type=int8}
  ad: float[1, 2, 4, 4] = Dequantize(aq, s, z) {type=int8}
  last: float[1, 2, 4, 4] = Convolution(ad, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  output last
})ir");
  };
}

std::vector<Sample> samples() {
  std::mt19937 random(1);
  std::vector<Sample> list(2);
  for (Sample& sample : list) {
    std::vector<float> values(32);
    for (float& value : values) value = std::normal_distribution<float>(0, 1)(random);
    const auto bytes = std::as_bytes(std::span(values));
    sample["x"] =
        *kernels::make_value(ir::DataType::kFloat, {1, 2, 4, 4}, {bytes.begin(), bytes.end()});
  }
  return list;
}

SamplerOptions one_thread() {
  SamplerOptions options;
  options.threads = 1;
  return options;
}

TEST(Verify, QuantizationErrorsOfEveryTensor) {
  auto reports = compare_quantized(network(), {}, samples(), one_thread());
  ASSERT_TRUE(reports.ok()) << reports.status().message();
  ASSERT_EQ(reports->size(), 3u);
  EXPECT_EQ((*reports)[0].tensor, "good");
  EXPECT_GT((*reports)[0].error.signal_to_noise(), 25);
  EXPECT_LT((*reports)[1].error.signal_to_noise(), 5);
  EXPECT_TRUE((*reports)[2].is_output);
  EXPECT_EQ((*reports)[2].error.elements(), 64);
}

TEST(Verify, AGivenReferenceIsUsed) {
  // The network against itself, Q/DQ and all: what quantization does is not seen as an error there.
  const GraphSource other = [] {
    return ir::parse_graph(R"ir(graph "g" {
  input x: float[1, 2, 4, 4]
  last: float[1, 2, 4, 4] = Activation(x) {op=relu}
  output last
})ir");
  };
  auto reports = compare_quantized(network(), other, samples(), one_thread());
  ASSERT_TRUE(reports.ok()) << reports.status().message();
  ASSERT_EQ(reports->size(), 1u);
  EXPECT_EQ((*reports)[0].tensor, "last");
  EXPECT_LT((*reports)[0].error.cosine(), 0.9);
}

TEST(Verify, EngineAgreesWithTheInterpreter) {
  EngineOptions options;
  options.threads = 1;
  options.optimization_level = 0;
  const GraphSource plain = [] {
    return ir::parse_graph(R"ir(graph "g" {
  input x: float[1, 2, 4, 4]
  constant w: float[2, 2] = random(3)
  a: float[1, 2, 4, 4] = SoftMax(x) {axis=1, last_axis=1}
  b: float[1, 2, 4, 4] = Activation(a) {op=exp}
  output b
})ir");
  };
  for (const bool quantized : {false, true}) {
    const GraphSource source = quantized ? network_of_codes() : plain;
    auto report = compare_engine(source, samples(), options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    ASSERT_FALSE(report->tensors.empty());
    EXPECT_TRUE(report->tensors.back().is_output);
    for (const TensorReport& tensor : report->tensors)
      EXPECT_GT(tensor.error.signal_to_noise(), 40);
    for (const tuner::LayerCheck& layer : report->layers)
      EXPECT_TRUE(layer.is_within(1e-5)) << text_of(layer);
    if (!quantized) continue;
    std::vector<std::string> types;
    for (const tuner::LayerCheck& layer : report->layers) {
      types.emplace_back(ir::type_name(layer.type));
      EXPECT_EQ(layer.elements, 64) << layer.layer;
    }
    EXPECT_EQ(types, (std::vector<std::string>{"uint8", "uint8", "float"}));
  }
}

TEST(Verify, CodesFromOutsideStayCodes) {
  const GraphSource source = [] {
    return ir::parse_graph(R"ir(graph "g" {
  input x: float[1, 2, 4, 4]
  input c: int8[1, 2, 4, 4]
  constant s: float[] = [0.03]
  constant z: int8[] = [0]
  constant v: int8[2, 2, 1, 1] = [100, 50, -50, 100]
  xq: int8[1, 2, 4, 4] = Quantize(x, s, z) {type=int8}
  xd: float[1, 2, 4, 4] = Dequantize(xq, s, z) {type=int8}
  w: float[2, 2, 1, 1] = Dequantize(v, s, z) {type=int8}
  a: float[1, 2, 4, 4] = Convolution(xd, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  cd: float[1, 2, 4, 4] = Dequantize(c, s, z) {type=int8}
  last: float[1, 2, 4, 4] = ElementWise(a, cd) {op=add}
  output last
})ir");
  };
  std::vector<Sample> given = samples();
  for (Sample& sample : given)
    sample["c"] = *kernels::make_value(ir::DataType::kInt8, {1, 2, 4, 4},
                                       std::vector<std::byte>(32, std::byte{7}));
  EngineOptions options;
  options.threads = 1;
  options.optimization_level = 0;
  auto report = compare_engine(source, given, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const TensorReport& tensor : report->tensors) EXPECT_GT(tensor.error.signal_to_noise(), 40);
  auto errors = compare_quantized(source, {}, given, one_thread());
  ASSERT_TRUE(errors.ok()) << errors.status().message();
  EXPECT_GT(errors->back().error.signal_to_noise(), 25);
}

TEST(Bisect, FindsTheLayerToKeep) {
  Bound bound;
  bound.min_cosine = 0.999;
  auto result = bisect_precision(network(), {}, samples(), bound, one_thread());
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(result->holds);
  EXPECT_EQ(result->keep_float, std::vector<std::string>{"bad"});
  ASSERT_EQ(result->layers.size(), 3u);
  EXPECT_EQ(result->layers[0].name, "bad");
  EXPECT_LT(result->before[0].error.cosine(), 0.999);
  EXPECT_GE(result->after[0].error.cosine(), 0.999);
}

TEST(Bisect, NothingToDoAndNothingThatHelps) {
  Bound loose;
  loose.min_cosine = 0.1;
  auto result = bisect_precision(network(), {}, samples(), loose, one_thread());
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->holds && result->keep_float.empty());
  EXPECT_EQ(result->evaluations, 1);
  // Against another network not even float helps.
  const GraphSource other = [] {
    return ir::parse_graph(R"ir(graph "g" {
  input x: float[1, 2, 4, 4]
  last: float[1, 2, 4, 4] = Activation(x) {op=relu}
  output last
})ir");
  };
  Bound tight;
  tight.max_error = 1e-3;
  result = bisect_precision(network(), other, samples(), tight, one_thread());
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_FALSE(result->holds);
  EXPECT_EQ(result->keep_float.size(), 3u);
}

}  // namespace
}  // namespace camshaft::quantize
