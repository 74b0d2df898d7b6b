// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <regex>

#include "ir/graph.h"

namespace camshaft::ir {
namespace {

std::unique_ptr<Graph> parse(std::string_view text) {
  Result<std::unique_ptr<Graph>> graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(graph).value() : nullptr;
}

// Everything the text form can say, as the printer writes it.
constexpr std::string_view kEverything = R"(graph "every \"thing\"" {
  symbols batch, "odd name"
  input x: float[batch, 3, 8, 8]
  input "serving:0": int64["odd name"] value [batch, -1, (batch*2)]
  input c: bool[]
  input u: float[*]
  constant w: float[2, 3, 1, 1] = [1, -2.5, 1e-07, inf, 0, 3]
  constant big: float[33] = hex "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000003f"
  constant flag: bool[2] = [0, 1]
  constant q: int4[3] = hex "2103"
  y: float[batch, 2, 8, 8] range [0, 6] = Convolution "conv + relu"(x, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], epilogue=<1: v1 = clip v0 0 6>} from "n/1", "n 2"
  p: float[batch, 2, 4, 4], _ = Pooling(y) {type=average, kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], count_includes_padding=true}
  s: float[batch, 2, floor_div((batch + 1), 2), 4] = Resize(p, _, _, u) {mode=linear, scales=[1, 1, 0.5, 1]}
  t: float[?3t] = Generic(s) {op_type="Frobnicate", opset=9, attributes=[("axis", [1, -2], [0.5], "nearest")]}
  r: float[?3t] = If(c, t) graph "then" {
    input a: float[?3t]
    b: float[?3t] = Activation(a) {op=relu}
    output b
  } graph "else" {
    input a: float[?3t]
    b: float[?3t] = Unary(a) {op=neg}
    output b
  }
  output r, "serving:0", big, flag, q
}
)";

TEST(Text, PrintingWhatWasParsedGivesTheSameText) {
  std::unique_ptr<Graph> graph = parse(kEverything);
  ASSERT_TRUE(graph);
  // Runtime symbols are numbered by the table, which need not be as in the text above.
  const std::string once = to_text(*graph);
  EXPECT_EQ(std::regex_replace(once, std::regex("\\?[0-9]+t"), "?3t"), kEverything);
  std::unique_ptr<Graph> again = parse(once);
  ASSERT_TRUE(again);
  EXPECT_EQ(to_text(*again), once);
  const Status status = verify(*again);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Text, ConstantsForTests) {
  std::unique_ptr<Graph> graph = parse(R"(graph "c" {
    # comments and line breaks do not matter
    constant a: float[4] = random(1)  constant b: float[4] = random(1)
    constant c: int8[100] = random(2, -3, 3)
    constant d: float[2, 2] = fill(0.5)
    e: float[4] = ElementWise(a, b) {op=add}
    output e, c, d
  })");
  ASSERT_TRUE(graph);
  const Layer& layer = *graph->layers()[0];
  const auto a = layer.inputs[0]->values<float>(), b = layer.inputs[1]->values<float>();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
  EXPECT_NE(a[0], a[1]);
  for (int8_t value : graph->outputs()[1]->values<int8_t>()) EXPECT_LE(std::abs(value), 3);
  for (float value : graph->outputs()[2]->values<float>()) EXPECT_EQ(value, 0.5f);
}

struct BadText {
  const char* text;
  const char* message;  // part of it
};

TEST(Text, ErrorsNameLineAndReason) {
  for (const BadText& bad : std::initializer_list<BadText>{
           {"grph", "expected 'graph'"},
           {"graph \"g\" {\n x: float[1] = Activation(y) {op=relu} }",
            "line 2: tensor 'y' is not defined"},
           {"graph \"g\" { input x: flot[1] }", "unknown element type"},
           {"graph \"g\" { input x: float[1] x: float[1] = Unary(x) }", "defined twice"},
           {"graph \"g\" { input x: float[1] y: float[1] = Unary(x) {opp=relu} }",
            "unknown attribute 'opp'"},
           {"graph \"g\" { input x: float[1] y: float[1] = Unary(x) {op=reluu} }",
            "unknown value 'reluu'"},
           {"graph \"g\" { input x: float[1] y: float[1] = Unry(x) }", "unknown layer kind"},
           {"graph \"g\" { constant x: float[2] = [1] }", "expected 2 elements"},
           {"graph \"g\" { constant x: float[2] = [1, 2, 3] }", "more elements"},
           {"graph \"g\" { constant x: float[2] = hex \"00\" }", "expected 8 bytes"},
           {"graph \"g\" { constant x: float[n] = fill(1) }", "are numbers"},
           {"graph \"g\" { input x: float[1,1,1,1,1,1,1,1,1] }", "more dimensions"},
           {"graph \"g\" { input x: float[frob(1, 2)] }", "unknown function"},
           {"graph \"g\" { input x: float[1", "expected ']'"},
           {"graph \"g\" { } x", "expected the end"}}) {
    Result<std::unique_ptr<Graph>> graph = parse_graph(bad.text);
    ASSERT_FALSE(graph.ok()) << bad.text;
    EXPECT_NE(graph.status().message().find(bad.message), std::string::npos)
        << graph.status().message();
  }
}

TEST(Verify, NamesTheFirstViolation) {
  for (const BadText& bad : std::initializer_list<BadText>{
           {"input x: float[1] y: float[1] = ElementWise(x, _) {op=add}",
            "required input 1 is missing"},
           {"input x: float[1] y: float[1] = ElementWise(x, x) {op=relu}", "relu has 1 operands"},
           {"input x: float[1] input z: int32[1] y: float[1] = ElementWise(x, z) {op=add}",
            "unequal type"},
           {"input x: float[1] y: bool[1] = ElementWise(x, x) {op=add}", "result of type bool"},
           {"input x: float[1] y: float[1] = PointWise(x, x) {program=<1: v1 = relu v0>}",
            "for a program of 1"},
           {"input x: float[1] y: float[1] = Shuffle(x) {first_transpose=[1]}", "permutation"},
           {"input x: float[1] y: float[1] = Shuffle(x) {first_transpose=[1, 0]}",
            "rank of the input"},
           {"input x: float[1] y: float[1] = SoftMax(x) {axis=1}", "out of range"},
           {"input x: float[1, 2] y: float[1] = Reduce(x) {axes=[1, 0]}", "not sorted"},
           {"input x: float[1, 2] y: float[1] = Slice(x) {start=[0], size=[1], step=[1]}",
            "rank of the input"},
           {"input x: float[1] y: undefined[1] = Unary(x)", "has no type"},
           {"input c: bool[] y: float[1] = If(c)", "0 bodies instead of 2"},
           {"input x: float[1, 1, 4] constant w: float[1, 1, 3] = fill(1) y: float[1, 1, 2] = "
            "Convolution(x, w) {kernel=[2], stride=[1], "
            "dilation=[1], pre_padding=[0], post_padding=[0]}",
            "weights and kernel"},
           {"input x: float[1, 1, 4] constant w: float[1, 1, 2] = fill(1) y: float[1, 1, 3] = "
            "Convolution(x, w, _, x) {kernel=[2], "
            "stride=[1], dilation=[1], pre_padding=[0], post_padding=[0]}",
            "1 epilogue inputs for a program of 0"},
           {"input x: float[1, 1, 4] y: float[1, 1, 1] = Pooling(x, x) {global=true}",
            "1 epilogue inputs for a program of 0"},
           {"input x: float[1, 1, 4] y: float[1, 1, 1] = Pooling(x) {global=true, epilogue=<2: v2 "
            "= sub v0 v1>}",
            "0 epilogue inputs for a program of 2"},
           {"input x: float[1, 1, 4] input r: float[1, 1, 1, 1] y: float[1, 1, 1] = Pooling(x, r) "
            "{global=true, epilogue=<2: v2 = sub v0 v1>}",
            "higher rank than the output"},
           {"input x: uint8[1, 1, 4] y: uint8[1, 1, 1] = Pooling(x) {global=true, epilogue=<1: v1 "
            "= relu v0>}",
            "an epilogue of codes"}}) {
    std::unique_ptr<Graph> graph = parse("graph \"g\" {" + std::string(bad.text) + "}");
    ASSERT_TRUE(graph) << bad.text;
    const Status status = verify(*graph);
    ASSERT_FALSE(status.ok()) << bad.text;
    EXPECT_NE(status.message().find(bad.message), std::string::npos) << status.message();
  }
}

TEST(Verify, SeesBrokenLinksAndOrder) {
  const char* text = R"(graph "g" {
    input x: float[1]
    a: float[1] = Unary(x) {op=neg}
    b: float[1] = Unary(a) {op=neg}
    output b
  })";
  std::unique_ptr<Graph> order = parse(text);
  order->move_before(order->layers()[1].get(), order->layers()[0].get());
  EXPECT_NE(verify(*order).message().find("not available yet"), std::string::npos);
  std::unique_ptr<Graph> links = parse(text);
  links->layers()[1]->inputs[0]->consumers.clear();
  EXPECT_NE(verify(*links).message().find("consumers"), std::string::npos);
  std::unique_ptr<Graph> producer = parse(text);
  producer->layers()[0]->outputs[0]->producer = producer->layers()[1].get();
  EXPECT_FALSE(verify(*producer).ok());
}

}  // namespace
}  // namespace camshaft::ir
