// SPDX-License-Identifier: Apache-2.0
// Where Q/DQ pairs go, what they make of the numbers, and how graphs with them become float again.
#include "quantize/placement.h"

#include <cmath>
#include <random>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "ir/extents.h"
#include "quantize/calibrate.h"
#include "quantize/insert.h"
#include "quantize/simulate.h"
#include "quantize/tensor_error.h"

namespace camshaft::quantize {
namespace {

constexpr const char* kWindow =
    "{kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}";

std::unique_ptr<ir::Graph> parse(const std::string& body) {
  std::string text = "graph \"g\" {\n" + body + "\n}";
  for (size_t at = text.find("WINDOW"); at != std::string::npos; at = text.find("WINDOW"))
    text.replace(at, 6, kWindow);
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(*graph) : nullptr;
}

// "layer.input<-tensor" or, with another's scale, "layer.input<-tensor@other".
std::string uses(const Placement& placement) {
  std::vector<std::string> list;
  for (const ActivationUse& use : placement.activations)
    list.push_back(fmt::format("{}.{}<-{}{}", use.layer->name, use.input, use.tensor->name,
                               use.scale_of == use.tensor ? "" : "@" + use.scale_of->name));
  return fmt::format("{}", fmt::join(list, " "));
}

std::string place(const std::string& body, const PlacementOptions& options = {}) {
  return uses(find_placement(*parse(body), options));
}

// A residual block whose branch has a BatchNormalization and an activation.
constexpr const char* kResidual = R"ir(
  input x: float[1, 4, 3, 3]
  constant w: float[4, 4, 1, 1] = random(1)
  constant s: float[4] = random(2)
  a: float[1, 4, 3, 3] = Convolution(x, w) WINDOW
  b: float[1, 4, 3, 3] = Scale(a, s, s)
  y: float[1, 4, 3, 3] = ElementWise(ADD) {op=add}
  z: float[1, 4, 3, 3] = Activation(y) {op=relu}
  output z)ir";

std::string residual(const std::string& operands) {
  std::string text = kResidual;
  return text.replace(text.find("ADD"), 3, operands);
}

TEST(Placement, TakesTheSkipBranchOfAnAdd) {
  EXPECT_EQ(place(residual("b, x")), "a.0<-x y.1<-x");
  EXPECT_EQ(place(residual("x, b")), "a.0<-x y.0<-x");
}

TEST(Placement, OfTwoConvolutionsTheLaterOneAdds) {
  EXPECT_EQ(place(R"ir(
  input x: float[1, 4, 3, 3]
  constant w: float[4, 4, 1, 1] = random(1)
  a: float[1, 4, 3, 3] = Convolution(x, w) WINDOW
  b: float[1, 4, 3, 3] = Convolution(x, w) WINDOW
  y: float[1, 4, 3, 3] = ElementWise(b, a) {op=add}
  output y)ir"),
            "a.0<-x b.0<-x y.1<-a");
}

TEST(Placement, LeavesAddsThatNoConvolutionCanTake) {
  // The branch has another reader, so it must be written anyway; a broadcast; a bias.
  EXPECT_EQ(place(R"ir(
  input x: float[1, 4, 3, 3]
  input v: float[1, 4, 1, 1]
  constant w: float[4, 4, 1, 1] = random(1)
  constant c: float[4, 1, 1] = random(2)
  a: float[1, 4, 3, 3] = Convolution(x, w) WINDOW
  y: float[1, 4, 3, 3] = ElementWise(a, x) {op=add}
  p: float[1, 4, 3, 3] = ElementWise(y, v) {op=add}
  q: float[1, 4, 3, 3] = ElementWise(p, c) {op=add}
  output a
  output q)ir"),
            "a.0<-x");
}

constexpr const char* kConcat = R"ir(
  input x: float[1, 4, 8, 8]
  constant w: float[4, 4, 1, 1] = random(1)
  constant v: float[4, 8, 1, 1] = random(2)
  a: float[1, 4, 8, 8] = Convolution(x, w) WINDOW
  m: float[1, 4, 8, 8] = Pooling(a) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  c: float[1, 8, 8, 8] = Concatenation(a, m) {axis=1}
  y: float[1, 4, 8, 8] = Convolution(c, v) WINDOW
  output y)ir";

TEST(Placement, ConcatInputsGetTheScaleOfItsOutput) {
  EXPECT_EQ(place(kConcat), "a.0<-x c.0<-a@c c.1<-m@c y.0<-c");
}

TEST(Placement, ConcatThatIsAnOutputStaysFloat) {
  EXPECT_EQ(place(std::string(kConcat) + "\n  output c"), "a.0<-x y.0<-c");
}

// Codes pass whatever only moves elements: a Q before it may stand behind it.
TEST(Placement, MovementsLinkTheirTensors) {
  const auto graph = parse(R"ir(
  input x: float[1, 4, 8, 8]
  constant w: float[4, 4, 1, 1] = random(1)
  constant i: int64[4] = random(2)
  a: float[1, 4, 8, 8] = Convolution(x, w) WINDOW
  b: float[1, 4, 8, 8] = Gather(a, i) {axis=1}
  c: float[1, 4, 10, 8] = Pad(b) {pre=[0, 0, 1, 0], post=[0, 0, 1, 0]}
  d: float[1, 4, 10, 16] = Tile(c) {shape=[1, 1, 1, 2], is_static=true}
  e: float[1, 4, 8, 16] = Slice(d) {start=[0, 0, 2, 0], size=[1, 4, 8, 16], step=[1, 1, 1, 1]}
  y: float[1, 4, 8, 16] = Convolution(e, w) WINDOW
  output y)ir");
  std::string links;
  for (const auto& link : find_placement(*graph, {}).links)
    links += link.from->name + "-" + link.to->name + " ";
  EXPECT_EQ(links, "a-b b-c c-d d-e ");
}

TEST(Placement, WeightsPerOutputChannel) {
  const auto graph = parse(R"ir(
  input x: float[1, 4, 3, 3]
  input m: float[2, 4]
  constant w: float[6, 4, 1, 1] = random(1)
  constant d: float[4, 6, 1, 1] = random(2)
  constant f: float[4, 5] = random(3)
  constant t: float[5, 4] = random(4)
  a: float[1, 6, 3, 3] = Convolution(x, w) WINDOW
  b: float[1, 6, 3, 3] = Deconvolution(x, d) WINDOW
  p: float[2, 5] = MatrixMultiply(m, f)
  q: float[2, 5] = MatrixMultiply(m, t) {transpose_b=true}
  r: float[2, 2] = MatrixMultiply(p, q) {transpose_b=true}
  output a
  output b
  output r)ir");
  Placement placement = find_placement(*graph, {});
  std::vector<int64_t> axes;
  for (const WeightUse& use : placement.weights) axes.push_back(use.axis);
  EXPECT_EQ(axes, (std::vector<int64_t>{0, 1, 1, 0}));
  EXPECT_EQ(uses(placement), "a.0<-x b.0<-x p.0<-m q.0<-m");
  ASSERT_EQ(placement.skipped.size(), 1u);
  EXPECT_EQ(placement.skipped[0].reason, "a product of two activations");
  PlacementOptions options;
  options.matmul_of_activations = true;
  options.per_channel = false;
  placement = find_placement(*graph, options);
  EXPECT_EQ(uses(placement), "a.0<-x b.0<-x p.0<-m q.0<-m r.0<-p r.1<-q");
  EXPECT_EQ(placement.weights[0].axis, -1);
}

TEST(Placement, LookUpsStayFloat) {
  const auto graph = parse(R"ir(
  input i: int32[2, 3, 1]
  constant n: int32[4] = [0, 1, 2, 3]
  constant w: float[4, 5] = fill(0.5)
  constant v: float[5, 2] = fill(0.5)
  e: bool[2, 3, 4] = ElementWise(i, n) {op=equal}
  h: float[2, 3, 4] = Cast(e) {to=float}
  r: float[2, 3, 5] = MatrixMultiply(h, w)
  y: float[2, 3, 2] = MatrixMultiply(r, v)
  output y)ir");
  const Placement placement = find_placement(*graph, {});
  EXPECT_EQ(uses(placement), "y.0<-r");
  ASSERT_EQ(placement.skipped.size(), 1u);
  EXPECT_EQ(placement.skipped[0].reason, "its input is one-hot: a look-up");
}

TEST(Placement, ObeysKeepFloatAndOnly) {
  PlacementOptions options;
  options.keep_float = {"a"};
  EXPECT_EQ(place(residual("b, x"), options), "");
  options.keep_float = {"y*"};
  EXPECT_EQ(place(residual("b, x"), options), "a.0<-x");
  options = {};
  options.only = {"*a"};
  EXPECT_EQ(place(residual("b, x"), options), "a.0<-x");
  const std::vector<std::string> patterns = {"a", "nobody"};
  EXPECT_EQ(*unmatched_pattern(patterns, *parse(residual("b, x"))), "nobody");
}

TEST(Scales, LinkedTensorsShareTheLargest) {
  const auto graph = parse(kConcat);
  const Placement placement = find_placement(*graph, {});
  // x, then a and m into the concatenation, then its output.
  EXPECT_EQ(assign_scales(placement, {{"x", 1.0f}, {"c", 0.5f}}),
            (std::vector<float>{1, 0.5f, 0.5f, 0.5f}));
  std::vector<std::string> missing;
  EXPECT_EQ(assign_scales(placement, {{"x", 1.0f}}, &missing), (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(missing, std::vector<std::string>{"c"});
}

TEST(Scales, LinksThatWouldCostTwoBitsAreNotTaken) {
  const std::string body = R"ir(
  input x: float[1, 4, 8, 8]
  constant w: float[4, 4, 1, 1] = random(1)
  m: float[1, 4, 8, 8] = Pooling(x) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  y: float[1, 4, 8, 8] = Convolution(m, w) WINDOW
  z: float[1, 4, 8, 8] = Convolution(x, w) WINDOW
  output y
  output z)ir";
  const auto graph = parse(body);
  const Placement placement = find_placement(*graph, {});
  ASSERT_EQ(uses(placement), "y.0<-m z.0<-x");
  EXPECT_EQ(assign_scales(placement, {{"x", 1.0f}, {"m", 0.3f}}), (std::vector<float>{1, 1}));
  EXPECT_EQ(assign_scales(placement, {{"x", 1.0f}, {"m", 0.2f}}), (std::vector<float>{0.2f, 1}));
  // With zero points: the range that holds both, [-10, 245] and [-155, 100].
  const auto grids =
      assign_grids(placement, {{"x", 1.0f}, {"m", 1.0f}}, {{"x", -10.0f}, {"m", -155.0f}});
  ASSERT_EQ(grids.size(), 2u);
  for (const ActivationGrid& grid : grids) {
    EXPECT_FLOAT_EQ(grid.scale, 400.0f / 255);
    EXPECT_EQ(grid.zero_point, 99);
    EXPECT_TRUE(grid.is_unsigned);
  }
  EXPECT_EQ(unsigned_grid(0, 0.1f).zero_point, 0);
  EXPECT_EQ(unsigned_grid(-25.5f, 0.1f).zero_point, 255);
}

TEST(Scales, WeightsRoundHalfToEvenPerChannel) {
  const auto graph = parse(R"ir(
  input x: float[1, 2, 1, 1]
  constant w: float[3, 2, 1, 1] = [127, 2.5, -1, 0.5, 0, 0]
  y: float[1, 3, 1, 1] = Convolution(x, w) WINDOW
  output y)ir");
  auto weights = quantize_weights(find_placement(*graph, {}).weights[0]);
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(weights->scales, (std::vector<float>{1, 1.0f / 127, 1}));
  EXPECT_EQ(weights->codes, (std::vector<int8_t>{127, 2, -127, 64, 0, 0}));
  EXPECT_EQ(weights->dequantized()[2], -1);
}

std::vector<Sample> samples_of(const ir::Graph& graph, int count) {
  std::mt19937 random(1);
  std::vector<Sample> samples(static_cast<size_t>(count));
  for (Sample& sample : samples)
    for (const ir::Tensor* input : graph.inputs()) {
      const ir::Extents extents = ir::extents_of(input->shape);
      std::vector<float> values(static_cast<size_t>(ir::element_count(extents)));
      for (float& value : values) value = std::normal_distribution<float>(0, 1)(random);
      const auto bytes = std::as_bytes(std::span(values));
      sample[input->name] =
          *kernels::make_value(ir::DataType::kFloat, extents, {bytes.begin(), bytes.end()});
    }
  return samples;
}

std::vector<float> evaluate(const ir::Graph& graph, const Sample& sample) {
  std::vector<kernels::Value> inputs;
  for (const ir::Tensor* input : graph.inputs()) inputs.push_back(sample.at(input->name));
  auto outputs = kernels::evaluate(graph, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  const auto values = (*outputs)[0].as<float>();
  return {values.begin(), values.end()};
}

Scales calibrated(const std::string& body, std::span<const Sample> samples) {
  auto graph = parse(body);
  std::vector<std::string> tensors;
  for (const ir::Tensor* tensor : tensors_to_calibrate(find_placement(*graph, {})))
    tensors.push_back(tensor->name);
  CalibrationOptions options;
  options.threads = 1;
  options.calibrator.method = Method::kMinMax;
  auto calibration = calibrate(std::move(graph), tensors, samples, options);
  EXPECT_TRUE(calibration.ok()) << calibration.status().message();
  return calibration->scales;
}

TEST(Calibrate, SeesTheValuesOfAllSamples) {
  const std::string body = residual("b, x");
  const auto graph = parse(body);
  const std::vector<Sample> samples = samples_of(*graph, 3);
  float largest = 0;
  for (const Sample& sample : samples)
    for (const float value : sample.at("x").as<float>())
      largest = std::max(largest, std::abs(value));
  EXPECT_EQ(calibrated(body, samples), (Scales{{"x", largest / 127}}));
}

TEST(Insert, GivesAGraphThatIsValidAndNearlyTheSame) {
  for (const std::string& body : {residual("b, x"), std::string(kConcat)}) {
    const auto graph = parse(body), exact = parse(body), simulated = parse(body);
    const std::vector<Sample> samples = samples_of(*graph, 1);
    const Scales scales = calibrated(body, samples);
    for (ir::Graph* g : {graph.get(), simulated.get()}) {
      const Placement placement = find_placement(*g, {});
      auto left = insert_quantization(*g, placement, assign_scales(placement, scales));
      ASSERT_TRUE(left.ok()) << left.status().message();
      EXPECT_TRUE(left->empty());
      const Status valid = ir::verify(*g);
      EXPECT_TRUE(valid.ok()) << valid.message();
    }
    EXPECT_TRUE(has_quantization(*graph));
    const std::vector<float> reference = evaluate(*exact, samples[0]);
    const std::vector<float> rounded = evaluate(*graph, samples[0]);
    TensorError error;
    error.add(rounded, reference);
    EXPECT_GT(error.signal_to_noise(), 25) << body;
    EXPECT_LT(error.signal_to_noise(), 80) << "nothing was rounded";
    // The simulation in float is the same arithmetic.
    auto simulation = simulate_quantization(*simulated, {});
    ASSERT_TRUE(simulation.ok()) << simulation.status().message();
    EXPECT_FALSE(has_quantization(*simulated));
    EXPECT_TRUE(ir::verify(*simulated).ok());
    EXPECT_EQ(evaluate(*simulated, samples[0]), rounded);
  }
}

TEST(Insert, LeavesLayersWithoutScalesInFloat) {
  const auto graph = parse(kConcat);
  const Placement placement = find_placement(*graph, {});
  auto left = insert_quantization(*graph, placement, assign_scales(placement, {{"x", 0.1f}}));
  ASSERT_TRUE(left.ok());
  EXPECT_EQ(*left, (std::vector<std::string>{"c", "y"}));
  EXPECT_TRUE(ir::verify(*graph).ok());
}

TEST(Simulate, KeepsNamedLayersInFloat) {
  const std::string body = residual("b, x");
  const auto exact = parse(body);
  const std::vector<Sample> samples = samples_of(*exact, 1);
  const auto quantized = [&](const std::set<std::string>& keep_float) {
    auto graph = parse(body);
    const Placement placement = find_placement(*graph, {});
    EXPECT_TRUE(insert_quantization(*graph, placement, {0.5f, 0.5f}).ok());
    auto simulation = simulate_quantization(*graph, keep_float);
    EXPECT_TRUE(simulation.ok()) << simulation.status().message();
    EXPECT_EQ(simulation->quantized_layers, (std::vector<std::string>{"a", "y"}));
    return evaluate(*graph, samples[0]);
  };
  const std::vector<float> all = quantized({}), one = quantized({"a"}), none = quantized({"*"});
  EXPECT_NE(all, one);
  EXPECT_NE(one, none);
  // The weights stay what int8 made of them: there is no float original in the graph.
  TensorError error;
  error.add(none, evaluate(*exact, samples[0]));
  EXPECT_GT(error.signal_to_noise(), 30);
}

// Of codes that are an input, or what an operator of codes made: there are no floats to round.
TEST(Simulate, LeavesOutputsOfGivenCodes) {
  const auto graph = parse(R"ir(
    input x: uint8[2, 3]
    constant s: float[] = [0.5]
    constant z: uint8[] = [3]
    t: uint8[3, 2] = Shuffle(x) {first_transpose=[1, 0]}
    y: float[3, 2] = Dequantize(t, s, z)
    output y
  )ir");
  ASSERT_TRUE(simulate_quantization(*graph, {}).ok());
  const Status valid = ir::verify(*graph);
  EXPECT_TRUE(valid.ok()) << valid.message();
  EXPECT_EQ(graph->outputs()[0]->producer->kind, ir::LayerKind::kDequantize);
}

TEST(Simulate, KeepInFloatTouchesOnlyTheLayersNamed) {
  const auto graph = parse(kConcat);
  const Placement placement = find_placement(*graph, {});
  ASSERT_TRUE(insert_quantization(*graph, placement, {0.5f, 0.5f, 0.5f, 0.5f}).ok());
  ASSERT_TRUE(keep_in_float(*graph, {"y"}).ok());
  const Status valid = ir::verify(*graph);
  ASSERT_TRUE(valid.ok()) << valid.message();
  int quantize = 0, dequantize = 0;
  for (const auto& layer : graph->layers()) {
    quantize += layer->kind == ir::LayerKind::kQuantize;
    dequantize += layer->kind == ir::LayerKind::kDequantize;
    if (layer->name == "y") {
      EXPECT_EQ(layer->inputs[0]->name, "c");
      EXPECT_TRUE(layer->inputs[1]->is_constant());
    }
  }
  EXPECT_EQ(quantize, 3);    // x, a, m
  EXPECT_EQ(dequantize, 4);  // and the weights of a
}

TEST(Simulate, ZeroPointsAndChannels) {
  const std::string body = R"ir(
  input x: float[1, 3, 2, 2]
  constant s: float[3] = [0.1, 0.02, 0.5]
  constant z: uint8[3] = [10, 128, 0]
  q: uint8[1, 3, 2, 2] = Quantize(x, s, z) {axis=1, type=uint8}
  d: float[1, 3, 2, 2] = Dequantize(q, s, z) {axis=1, type=uint8}
  y: float[1, 3, 2, 2] = Activation(d) {op=relu}
  output y)ir";
  const auto graph = parse(body), simulated = parse(body);
  const std::vector<Sample> samples = samples_of(*graph, 1);
  ASSERT_TRUE(simulate_quantization(*simulated, {}).ok());
  TensorError error;
  error.add(evaluate(*simulated, samples[0]), evaluate(*graph, samples[0]));
  EXPECT_LT(error.max_absolute(), 1e-6);
}

TEST(Measure, FindsTheLayerThatLosesMost) {
  // The second convolution's channels differ by a factor of 1000 and share one scale.
  const std::string body = R"ir(
  input x: float[1, 2, 4, 4]
  constant w: float[2, 2, 1, 1] = [1, 0.1, 0.1, 1]
  constant g: float[2] = [1000, 1]
  constant n: float[2] = [0, 0]
  constant v: float[1, 2, 1, 1] = [0.001, 1]
  a: float[1, 2, 4, 4] = Convolution(x, w) WINDOW
  s: float[1, 2, 4, 4] = Scale(a, g, n)
  y: float[1, 1, 4, 4] = Convolution(s, v) WINDOW
  output y)ir";
  auto graph = parse(body);
  const std::vector<Sample> samples = samples_of(*graph, 2);
  const Scales scales = calibrated(body, samples);
  const Placement placement = find_placement(*graph, {});
  SamplerOptions options;
  options.threads = 1;
  const std::vector<ActivationGrid> assigned = assign_grids(placement, scales, {});
  auto noise = measure_layers(std::move(graph), placement, assigned, samples, options);
  ASSERT_TRUE(noise.ok()) << noise.status().message();
  EXPECT_GT((*noise)[0].signal_to_noise, 30);
  EXPECT_LT((*noise)[1].signal_to_noise, 10);
}

TEST(Measure, FindsWhatRoundedWeightsTakeFromTheMean) {
  const auto graph_of = [] {
    return parse(R"ir(
  input x: float[1, 2, 4, 4]
  constant w: float[2, 2, 1, 1] = [1, 0.1, 0.3, 1]
  y: float[1, 2, 4, 4] = Convolution(x, w) WINDOW
  output y)ir");
  };
  const auto shift_for = [&](float even, float odd) {
    std::vector<Sample> samples(2);
    for (size_t n = 0; n < 2; ++n) {
      std::vector<float> x(32);
      for (size_t k = 0; k < x.size(); ++k) x[k] = k % 2 == 0 ? even : odd;
      const auto bytes = std::as_bytes(std::span(x));
      samples[n]["x"] =
          kernels::make_value(ir::DataType::kFloat, {1, 2, 4, 4}, {bytes.begin(), bytes.end()})
              .value();
    }
    auto graph = graph_of();
    const Placement placement = find_placement(*graph, {});
    SamplerOptions options;
    options.threads = 1;
    // So coarse that only weights may count.
    auto losses =
        measure_layers(std::move(graph), placement, {ActivationGrid{0.7F}}, samples, options);
    EXPECT_TRUE(losses.ok()) << losses.status().message();
    return (*losses)[0].shift;
  };
  const float in_1 = 0.1F - 13.0F / 127, in_0 = 0.3F - 38.0F / 127;  // lost of the small weights
  const std::vector<float> steady = shift_for(2, 2);
  ASSERT_EQ(steady.size(), 2U);
  EXPECT_NEAR(steady[0], 2 * in_1, 1e-6);
  EXPECT_NEAR(steady[1], 2 * in_0, 1e-6);
  // A mean of nearly nothing among large values is chance.
  EXPECT_LT(std::abs(shift_for(2.1F, -2)[0]), std::abs(0.05F * in_1) / 10);
}

TEST(TensorError, Measures) {
  TensorError error;
  error.add(std::vector<float>{3, 4.02f, 0}, std::vector<float>{3, 4, 0});
  EXPECT_EQ(error.elements(), 3);
  EXPECT_NEAR(error.max_absolute(), 0.02, 1e-6);
  EXPECT_NEAR(error.max_relative(), 0.005, 1e-6);
  EXPECT_NEAR(error.signal_to_noise(), 10 * std::log10(25 / 0.0004), 1e-3);
  EXPECT_GT(error.cosine(), 0.9999);
  EXPECT_EQ(error.histogram()[0], 2);
  EXPECT_EQ(error.histogram()[5], 1);  // 0.02 of 4: below 1e-2 of the range
  TensorError none;
  none.add(std::vector<float>{1}, std::vector<float>{1});
  EXPECT_EQ(none.signal_to_noise(), INFINITY);
  none.add(std::vector<float>{NAN}, std::vector<float>{1});
  EXPECT_EQ(none.max_absolute(), INFINITY);
}

}  // namespace
}  // namespace camshaft::quantize
