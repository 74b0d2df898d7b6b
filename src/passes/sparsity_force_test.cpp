// SPDX-License-Identifier: Apache-2.0
#include "passes/sparsity_force.h"

#include <gtest/gtest.h>

#include "ir/extents.h"
#include "ir/sparsity.h"

namespace camshaft::passes {
namespace {

using namespace ir;

const Layer* layer_named(const Graph& graph, std::string_view name) {
  for (const auto& layer : graph.layers())
    if (layer->name == name) return layer.get();
  return nullptr;
}

bool is_sparse(const Graph& graph, std::string_view name) {
  const ProductWeights weights = find_product_weights(*layer_named(graph, name));
  if (!weights.constant) return false;
  return count_sparsity(weights.constant->type, weights.constant->constant->view,
                        channel_axis(extents_of(weights.constant->shape), weights.axis))
      ->is_2_4();
}

std::string reason(const std::vector<RewriteRecord>& records, std::string_view layer) {
  for (const RewriteRecord& record : records)
    if (record.layers[0] == layer && record.action == Action::kDecline) return record.text;
  return {};
}

constexpr const char* kWindow =
    "kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]";

TEST(SparsityForce, KeepsTheFirstTwoOfFourInputChannels) {
  const auto graph = std::move(ir::parse_graph(fmt::format(R"ir(graph "g" {{
    input x: float[1, 4, 2, 2]
    constant w: float[2, 4, 1, 1] = [1, 2, 3, 4, 5, 6, 7, 8]
    y: float[1, 2, 2, 2] = Convolution(x, w) {{{}}}
    output y
  }})ir",
                                                           kWindow)))
                         .value();
  std::vector<RewriteRecord> records;
  const ForcedSparsity forced = sparsity_force(*graph, &records);
  EXPECT_EQ(forced.pruned, 4);
  EXPECT_EQ(forced.weights, 8);
  ASSERT_EQ(forced.layers.size(), 1u);
  EXPECT_EQ(forced.layers[0].name, "y");
  const auto values = layer_named(*graph, "y")->inputs[1]->values<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{1, 2, 0, 0, 5, 6, 0, 0}));
}

TEST(SparsityForce, CodesBecomeTheirZeroPoint) {
  LowBits weights;
  weights.columns = 3;
  weights.depth = 70;
  weights.block = 32;
  weights.zero = DataType::kUInt8;
  const RecordLayout layout(weights);
  std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
  RecordWriter writer(layout, bytes.data());
  const auto code_of = [](int64_t column, int64_t k) {
    return static_cast<int>((k * 7 + column * 5 + k / 16) % 16);
  };
  for (int64_t column = 0; column < layout.columns; ++column)
    for (int64_t b = 0; b < layout.blocks(); ++b) {
      writer.set_block(column, b, 0.5F, static_cast<float>(3 + b));
      for (int64_t k = 0; k < layout.count_of(b); ++k)
        writer.set_code(column, b, k, code_of(column, b * 32 + k));
    }
  prune_2_4(weights, bytes);
  const RecordReader records(layout, bytes.data());
  for (int64_t column = 0; column < layout.columns; ++column)
    for (int64_t k = 0; k < layout.depth; ++k)
      EXPECT_EQ(records.code(column, k / 32, k % 32),
                k % 4 < 2 ? code_of(column, k) : static_cast<int>(3 + k / 32));
  const auto count = sparsity_of(*make_constant(bytes), weights);
  ASSERT_TRUE(count);
  EXPECT_TRUE(count->is_2_4());
  EXPECT_EQ(count->weights, 210);
}

TEST(SparsityForce, CodesOfALayer) {
  const auto graph = std::move(ir::parse_graph(R"ir(graph "g" {
    input x: float[3, 64]
    constant w: uint8[192] = random(1)
    constant v: uint8[192] = random(2)
    y: float[3, 8] = LowBitMultiply(x, w) {columns=8, depth=64, bits=2, block=64}
    z: float[3, 8] = LowBitMultiply(x, v) {columns=8, depth=64, bits=2, block=64, zero=float}
    output y, z
  })ir"))
                         .value();
  std::vector<RewriteRecord> records;
  const ForcedSparsity forced = sparsity_force(*graph, &records);
  ASSERT_EQ(forced.layers.size(), 1u);
  EXPECT_EQ(forced.weights, 512);
  EXPECT_EQ(reason(records, "z"), "not made 2:4: its zero points are no codes");
}

TEST(SparsityForce, GoesThroughQuantizationAndTransposes) {
  const auto graph = std::move(ir::parse_graph(R"ir(graph "g" {
    input x: float[3, 8]
    constant w: float[5, 8] = random(1)
    constant s: float[] = [0.5]
    q: int8[5, 8] = Quantize(w, s)
    d: float[5, 8] = Dequantize(q, s)
    t: float[8, 5] = Shuffle(d) {first_transpose=[1, 0]}
    y: float[3, 5] = MatrixMultiply(x, t)
    constant v: float[8, 5] = random(2)
    z: float[3, 5] = MatrixMultiply(x, v)
    constant u: float[5, 8] = random(3)
    a: float[3, 5] = MatrixMultiply(x, u) {transpose_b=true}
    output y, z, a
  })ir"))
                         .value();
  EXPECT_EQ(sparsity_force(*graph, nullptr).pruned, 60);
  for (const char* name : {"y", "z", "a"}) EXPECT_TRUE(is_sparse(*graph, name)) << name;
}

TEST(SparsityForce, SaysWhatItLeavesAlone) {
  const auto graph = std::move(ir::parse_graph(fmt::format(R"ir(graph "g" {{
    input x: float[1, 4, 2, 2]
    input m: float[4, 4]
    input i: int64[2]
    constant w: float[4, 4] = random(1)
    y: float[4, 4] = MatrixMultiply(m, w)
    e: float[2, 4] = Gather(w, i) {{axis=0}}
    constant v: float[4, 1, 1, 1] = random(2)
    dw: float[1, 4, 2, 2] = Convolution(x, v) {{{0}, groups=4}}
    p: float[4, 4] = MatrixMultiply(m, m)
    constant n: float[1, 4, 1, 1] = [1, 2, nan, 4]
    c: float[1, 1, 2, 2] = Convolution(x, n) {{{0}}}
    output y, e, dw, p, c
  }})ir",
                                                           kWindow)))
                         .value();
  std::vector<RewriteRecord> records;
  EXPECT_EQ(sparsity_force(*graph, &records).layers.size(), 0u);
  EXPECT_EQ(reason(records, "y"), "not made 2:4: its weights are shared with e");
  EXPECT_EQ(reason(records, "dw"), "not made 2:4: 1 input channel per filter");
  EXPECT_EQ(reason(records, "p"), "not made 2:4: its weights are not constant");
  EXPECT_EQ(reason(records, "c"),
            "not made 2:4: weight 2 is NaN or infinite: a zero would hide it");
}

// Channels beyond the last whole four count as zeros: of one or two both stay, of three two.
TEST(SparsityForce, ChannelsThatAreNoMultipleOfFour) {
  for (const auto& [channels, kept] : {std::pair{5, 3}, {6, 4}, {7, 4}, {9, 5}}) {
    const auto graph = std::move(ir::parse_graph(fmt::format(R"ir(graph "g" {{
      input x: float[2, {0}]
      constant w: float[{0}, 3] = random(1)
      y: float[2, 3] = MatrixMultiply(x, w)
      output y
    }})ir",
                                                             channels)))
                           .value();
    const ForcedSparsity forced = sparsity_force(*graph, nullptr);
    EXPECT_EQ(forced.weights - forced.pruned, 3 * kept) << channels;
    EXPECT_TRUE(is_sparse(*graph, "y")) << channels;
  }
}

// Filters of zeros are left as they are, and count as sparse.
TEST(SparsityForce, FiltersOfZeros) {
  const auto graph = std::move(ir::parse_graph(fmt::format(R"ir(graph "g" {{
    input x: float[1, 4, 2, 2]
    constant w: float[2, 4, 1, 1] = [0, 0, 0, 0, 0, 0, 0, 0]
    y: float[1, 2, 2, 2] = Convolution(x, w) {{{}}}
    output y
  }})ir",
                                                           kWindow)))
                         .value();
  EXPECT_EQ(sparsity_force(*graph, nullptr).pruned, 0);
  EXPECT_TRUE(is_sparse(*graph, "y"));
}

TEST(SparsityForce, InfinitiesOfEveryFloatType) {
  for (const auto& [type, values] : {std::pair{"float", "[1, 2, 3, inf]"},
                                     {"half", "hex \"003c00400042007c\""},
                                     {"bfloat16", "hex \"803f00404040807f\""}}) {
    auto parsed = ir::parse_graph(fmt::format(R"ir(graph "g" {{
      input x: {0}[2, 4]
      constant w: {0}[4, 1] = {1}
      y: {0}[2, 1] = MatrixMultiply(x, w)
      output y
    }})ir",
                                              type, values));
    ASSERT_TRUE(parsed.ok()) << type << parsed.status().message();
    std::vector<RewriteRecord> records;
    EXPECT_EQ(sparsity_force(**parsed, &records).layers.size(), 0u) << type;
    EXPECT_EQ(reason(records, "y"),
              "not made 2:4: weight 3 is NaN or infinite: a zero would hide it")
        << type;
  }
}

// Weights of two layers that read them alike are pruned once.
TEST(SparsityForce, TiedWeights) {
  const auto graph = std::move(ir::parse_graph(R"ir(graph "g" {
    input m: float[3, 4]
    constant w: float[4, 4] = random(1)
    y: float[3, 4] = MatrixMultiply(m, w)
    z: float[3, 4] = MatrixMultiply(y, w)
    output z
  })ir"))
                         .value();
  const ForcedSparsity forced = sparsity_force(*graph, nullptr);
  EXPECT_EQ(forced.layers.size(), 2u);
  EXPECT_EQ(forced.weights, 16);
  EXPECT_TRUE(is_sparse(*graph, "y"));
  EXPECT_TRUE(is_sparse(*graph, "z"));
}

}  // namespace
}  // namespace camshaft::passes
