// SPDX-License-Identifier: Apache-2.0
#include "ir/kind_traits.h"

#include <string>

#include <gtest/gtest.h>

namespace camshaft::ir {
namespace {

Layer layer_of(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = parse_graph(
      "graph \"g\" {\n  input x: float[1, 4, 8, 8]\n  input i: int64[3]\n  " + text + "\n}");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  Layer layer;
  if (!graph.ok()) return layer;
  const Layer& made = *(*graph)->layers().back();
  layer.kind = made.kind;
  layer.attrs = made.attrs;
  layer.inputs = made.inputs;
  layer.outputs = made.outputs;
  return layer;
}

TEST(KindTraits, RowsSayWhatTheAttributesHave) {
  for (size_t k = 0; k < kLayerKinds; ++k) {
    const auto kind = static_cast<LayerKind>(k);
    const KindTraits& traits = traits_of(kind);
    Layer layer;
    layer.kind = kind;
    layer.attrs = default_attrs(kind);
    const bool has_program = std::visit(
        [](const auto& a) {
          return requires {
            a.epilogue;
          };
        },
        layer.attrs);
    EXPECT_EQ(has_program, traits.epilogue.on != EpilogueOn::kNothing) << kind_name(kind);
    EXPECT_EQ(has_program, traits.epilogue.first_operand > 0) << kind_name(kind);
    EXPECT_EQ(epilogue_of(layer) != nullptr, traits.epilogue.on == EpilogueOn::kResult)
        << kind_name(kind);
    EXPECT_LE(traits.arity.required_inputs, traits.arity.most_inputs) << kind_name(kind);
    EXPECT_LE(traits.arity.least_outputs, traits.arity.most_outputs) << kind_name(kind);
    if (traits.images == Images::kByAxis) {
      EXPECT_TRUE(std::holds_alternative<AxisAttrs>(layer.attrs)) << kind_name(kind);
    }
  }
}

TEST(KindTraits, MovementDependsOnAttributesOfSome) {
  constexpr const char* kWindow =
      "{type=TYPE, kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], "
      "post_padding=[0, 0]}";
  const auto pooling = [&](const std::string& type) {
    std::string window = kWindow;
    window.replace(window.find("TYPE"), 4, type);
    return layer_of("y: float[1, 4, 4, 4] = Pooling(x) " + window);
  };
  EXPECT_TRUE(moves_elements(pooling("max")));
  EXPECT_FALSE(moves_elements(pooling("average")));
  EXPECT_TRUE(may_leave_out(LayerKind::kPooling));
  EXPECT_FALSE(moves_elements(pooling("max, epilogue=<1: v1 = relu v0>")));
  const auto resize = [&](const std::string& mode) {
    return layer_of("y: float[1, 4, 16, 16] = Resize(x) {mode=" + mode + ", sizes=[1, 4, 16, 16]}");
  };
  EXPECT_TRUE(moves_elements(resize("nearest")));
  EXPECT_FALSE(moves_elements(resize("linear")));
  EXPECT_TRUE(moves_elements(
      layer_of("y: float[1, 4, 10, 8] = Pad(x) {pre=[0, 0, 1, 0], post=[0, 0, 1, 0]}")));
  EXPECT_FALSE(may_leave_out(LayerKind::kPad));
  EXPECT_TRUE(moves_elements(layer_of("y: float[1, 3, 8, 8] = Gather(x, i) {axis=1}")));
  EXPECT_TRUE(may_leave_out(LayerKind::kGather));
  EXPECT_FALSE(moves_elements(layer_of("y: float[1, 4, 8, 8] = Activation(x) {op=relu}")));
}

}  // namespace
}  // namespace camshaft::ir
