// SPDX-License-Identifier: Apache-2.0
// Operators that the importer takes apart (Einsum, Attention, RotaryEmbedding, ReduceLogSumExp):
// random ones, as imported and as optimized, with known and with symbolic extents, against the
// reference kernel of the operator itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "kernels/interpreter.h"
#include "onnx/importer.h"
#include "onnx/testing.h"
#include "passes/pipeline.h"

namespace camshaft {
namespace {

using namespace onnx_import::testing;  // NOLINT: the model writer
using ir::DataType;
using kernels::Value;

struct Operand {
  ir::Extents extents;
  DataType type = DataType::kFloat;
  std::vector<double> values;
  std::vector<const char*> symbols;  // null: a number
};

template <class T>
Value as_type(const Operand& operand) {
  std::vector<std::byte> bytes(operand.values.size() * sizeof(T));
  for (size_t k = 0; k < operand.values.size(); ++k) {
    const T element = static_cast<T>(operand.values[k]);
    std::memcpy(&bytes[k * sizeof(T)], &element, sizeof(T));
  }
  return kernels::make_value(operand.type, operand.extents, std::move(bytes)).value();
}

Value value_of(const Operand& operand) {
  switch (operand.type) {
    case DataType::kInt64:
      return as_type<int64_t>(operand);
    case DataType::kBool:
      return as_type<uint8_t>(operand);
    case DataType::kDouble:
      return as_type<double>(operand);
    default:
      return as_type<float>(operand);
  }
}

int onnx_type(DataType type) {
  return type == DataType::kInt64    ? kInt64
         : type == DataType::kBool   ? kBool
         : type == DataType::kDouble ? kDouble
                                     : kFloat;
}

// One node: attributes as the model and as the reference kernel want them.
struct Case {
  std::string op;
  int64_t opset = 17;
  std::vector<std::optional<Operand>> operands;
  size_t outputs = 1;
  std::vector<Attribute> wire;
  std::vector<ir::GenericAttribute> attributes;
  double tolerance = 1e-4;

  void set(const std::string& name, int64_t value) {
    wire.push_back(integer(name, value));
    attributes.push_back({name, {value}, {}, ""});
  }
  void set(const std::string& name, float value) {
    wire.push_back(real(name, value));
    attributes.push_back({name, {}, {value}, ""});
  }
  void set(const std::string& name, const std::string& value) {
    wire.push_back(text(name, value));
    attributes.push_back({name, {}, {}, value});
  }
};

std::string model_of(const Case& c) {
  TestGraph graph;
  std::vector<std::string> inputs, outputs;
  for (size_t k = 0; k < c.operands.size(); ++k) {
    inputs.push_back(c.operands[k] ? "x" + std::to_string(k) : "");
    if (!c.operands[k]) continue;
    std::vector<Extent> shape;
    for (size_t d = 0; d < c.operands[k]->extents.size(); ++d)
      if (d < c.operands[k]->symbols.size() && c.operands[k]->symbols[d])
        shape.emplace_back(c.operands[k]->symbols[d]);
      else
        shape.emplace_back(static_cast<int>(c.operands[k]->extents[d]));
    graph.input(inputs[k], onnx_type(c.operands[k]->type), shape);
  }
  for (size_t k = 0; k < c.outputs; ++k) outputs.push_back("y" + std::to_string(k));
  graph.node(c.op, inputs, outputs, c.wire, "node");
  for (const std::string& output : outputs) graph.output(output);
  return model(graph, c.opset);
}

Result<std::vector<Value>> expected_of(const Case& c, ir::Attrs attrs) {
  ir::Layer layer;
  layer.name = "reference";
  if (std::holds_alternative<ir::ReduceAttrs>(attrs)) layer.kind = ir::LayerKind::kReduce;
  layer.attrs = std::move(attrs);
  layer.outputs.resize(c.outputs);
  ir::Graph graph("reference");
  for (ir::Tensor*& output : layer.outputs) output = graph.add_tensor("y", DataType::kFloat, {});
  std::vector<Value> values;
  std::vector<const Value*> inputs;
  for (const auto& operand : c.operands) values.push_back(operand ? value_of(*operand) : Value());
  for (size_t k = 0; k < values.size(); ++k) inputs.push_back(c.operands[k] ? &values[k] : nullptr);
  return kernels::evaluate_layer(layer, inputs);
}

void expect_close(const Result<std::vector<Value>>& found, const std::vector<Value>& wanted,
                  double tolerance) {
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found.value().size(), wanted.size());
  for (size_t k = 0; k < wanted.size(); ++k) {
    ASSERT_EQ(found.value()[k].extents, wanted[k].extents) << "output " << k;
    const std::vector<double> a = found.value()[k].to_doubles(), b = wanted[k].to_doubles();
    double largest = 1;
    for (const double value : b)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    for (size_t n = 0; n < a.size(); ++n) {
      if (a[n] == b[n] || (std::isnan(a[n]) && std::isnan(b[n]))) continue;
      ASSERT_NEAR(a[n], b[n], tolerance * largest) << "output " << k << " element " << n;
    }
  }
}

void check_against(const Case& c, ir::Attrs attrs) {
  const auto wanted = expected_of(c, std::move(attrs));
  ASSERT_TRUE(wanted.ok()) << wanted.status().message();
  const std::string bytes = model_of(c);
  std::vector<Value> inputs;
  for (const auto& operand : c.operands)
    if (operand) inputs.push_back(value_of(*operand));
  for (const bool optimizes : {false, true}) {
    SCOPED_TRACE(optimizes ? "optimized" : "as imported");
    auto imported = onnx_import::import_bytes(as_bytes(bytes));
    ASSERT_TRUE(imported.ok()) << imported.status().message();
    ir::Graph& graph = *imported.value().graph;
    for (const auto& layer : graph.layers())
      ASSERT_FALSE(layer->kind == ir::LayerKind::kGeneric ||
                   (layer->kind == ir::LayerKind::kReduce &&
                    layer->as<ir::ReduceAttrs>().op == ir::ReduceOp::kLogSumExp))
          << "not taken apart";
    passes::PassRecord record;
    if (optimizes) {
      const Status status = passes::optimize(graph, record);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    ASSERT_TRUE(ir::verify(graph).ok()) << ir::verify(graph).message();
    expect_close(kernels::evaluate(graph, inputs), wanted.value(), c.tolerance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

void check(const Case& c) {
  check_against(c, ir::GenericAttrs{c.op, c.opset, c.attributes});
}

using Random = std::mt19937;

int64_t below(Random& random, int64_t count) {
  return static_cast<int64_t>(random() % static_cast<uint32_t>(count));
}

void fill(Operand& operand, Random& random, int64_t scale = 100) {
  operand.values.resize(static_cast<size_t>(ir::element_count(operand.extents)));
  for (double& value : operand.values)
    value = static_cast<double>(below(random, 2 * scale + 1) - scale) /
            (ir::is_floating(operand.type) ? 100.0 : 20.0);
  if (operand.type == DataType::kInt64)
    for (double& value : operand.values) value = std::trunc(value);
}

// --- Einsum

constexpr const char* kSymbols[] = {"A", "B", "C", "D", "E", "F"};

// Labels a … f, some twice in an operand, an ellipsis now and then; extents of 1 that broadcast.
Case random_einsum(uint32_t seed) {
  Random random(seed);
  Case c;
  c.op = "Einsum";
  const bool symbolic = below(random, 3) == 0, hidden = below(random, 4) == 0;
  const DataType type = below(random, 6) == 0   ? DataType::kInt64
                        : below(random, 6) == 0 ? DataType::kDouble
                                                : DataType::kFloat;
  int64_t extents[6];
  for (int64_t& extent : extents) extent = 1 + below(random, 5);
  const int64_t hidden_extent = 2 + below(random, 2);
  const auto count = static_cast<size_t>(1 + below(random, 4));
  std::string equation, used;
  for (size_t k = 0; k < count; ++k) {
    Operand operand;
    operand.type = type;
    const auto rank = static_cast<size_t>(below(random, hidden ? 3 : 5));
    const size_t dots = hidden && below(random, 3) > 0 ? static_cast<size_t>(below(random, 2)) : 9;
    if (k > 0) equation += ',';
    for (size_t d = 0; d <= rank; ++d) {
      if (d == std::min(dots, rank) && dots != 9) {
        equation += "...";
        operand.extents.push_back(below(random, 3) == 0 ? 1 : hidden_extent);
        operand.symbols.push_back(nullptr);
      }
      if (d == rank) break;
      const int64_t label = below(random, 6);
      equation += static_cast<char>('a' + label);
      used += static_cast<char>('a' + label);
      operand.extents.push_back(extents[label]);
      operand.symbols.push_back(symbolic ? kSymbols[label] : nullptr);
      if (!symbolic && below(random, 12) == 0) operand.extents.back() = 1;
    }
    fill(operand, random);
    c.operands.push_back(operand);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::shuffle(used.begin(), used.end(), random);
  if (below(random, 8) > 0) {
    equation += "->";
    if (equation.find("...") != std::string::npos) equation += "...";
    equation += used.substr(0, static_cast<size_t>(below(random, 4)));
  }
  c.set("equation", equation);
  return c;
}

TEST(Decomposed, RandomEinsums) {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const Case c = random_einsum(seed);
    std::string what = "seed " + std::to_string(seed) + " " + c.attributes[0].text;
    for (const auto& operand : c.operands)
      what += " " + ::testing::PrintToString(
                        std::vector<int64_t>(operand->extents.begin(), operand->extents.end()));
    SCOPED_TRACE(what);
    check(c);
    if (HasFatalFailure()) return;
  }
}

Case einsum(const std::string& equation, const std::vector<ir::Extents>& shapes) {
  Random random(7);
  Case c;
  c.op = "Einsum";
  c.set("equation", equation);
  for (const ir::Extents& shape : shapes) {
    Operand operand;
    operand.extents = shape;
    fill(operand, random);
    c.operands.push_back(operand);
  }
  return c;
}

// ReduceLogSumExp: rows of large numbers, of infinities, with a NaN; extents known and symbolic.
TEST(Decomposed, LogSumExp) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Random random(11);
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{2}, {0}, {1}, {0, 2}, {0, 1, 2}})
    for (const bool keeps : {false, true})
      for (const bool symbolic : {false, true}) {
        Case c;
        c.op = "ReduceLogSumExp";
        c.wire = {ints("axes", axes), integer("keepdims", keeps)};
        c.tolerance = 1e-6;
        Operand x;
        x.extents = {3, 4, 5};
        if (symbolic) x.symbols = {"A", nullptr, "B"};
        fill(x, random, 1000);
        for (size_t k = 0; k < 5; ++k) x.values[k] = -kInfinity;
        x.values[7] = kInfinity;
        x.values[12] = std::numeric_limits<double>::quiet_NaN();
        for (size_t k = 20; k < 40; ++k) x.values[k] += k % 2 ? 3e4 : -3e4;
        c.operands = {x};
        ir::ReduceAttrs attrs;
        attrs.op = ir::ReduceOp::kLogSumExp;
        attrs.axes.assign(axes.begin(), axes.end());
        attrs.keep_dims = keeps;
        SCOPED_TRACE(::testing::PrintToString(axes) + (keeps ? " kept" : ""));
        check_against(c, attrs);
        if (HasFatalFailure()) return;
      }
}

// What real networks write.
TEST(Decomposed, KnownEinsums) {
  struct Known {
    const char* equation;
    std::vector<ir::Extents> shapes;
  };
  for (const Known& known :
       std::initializer_list<Known>{{"bhid,bhjd->bhij", {{2, 3, 5, 8}, {2, 3, 7, 8}}},
                                    {"bhij,bhjd->bhid", {{2, 3, 5, 7}, {2, 3, 7, 8}}},
                                    {"bihd,bjhd->bhij", {{2, 5, 3, 8}, {2, 7, 3, 8}}},
                                    {"bhwc,hkc->bhwk", {{3, 20, 18, 8}, {20, 20, 8}}},
                                    {"bhwc,wkc->bhwk", {{3, 20, 18, 8}, {18, 18, 8}}},
                                    {"i,j->ij", {{5}, {7}}},
                                    {"...ij,...jk->...ik", {{2, 1, 4, 5}, {3, 5, 6}}},
                                    {"bmchw,bnmc->bmhwn", {{2, 3, 4, 5, 6}, {2, 7, 3, 4}}},
                                    {"bkchw,bnck->bkhwn", {{2, 3, 4, 5, 6}, {2, 7, 4, 3}}},
                                    {"ij,jk,kl->il", {{3, 4}, {4, 5}, {5, 6}}},
                                    {"ii->i", {{6, 6}}},
                                    {"bii,bi->b", {{3, 6, 6}, {3, 6}}},
                                    {"nchw,nc->nhw", {{2, 3, 4, 5}, {2, 3}}},
                                    {"ij,ij->", {{3, 4}, {3, 4}}},
                                    {"blh,bh->bl", {{2, 5, 6}, {2, 6}}},
                                    {"btnh,bsnh->bnts", {{2, 5, 3, 4}, {2, 6, 3, 4}}}}) {
    SCOPED_TRACE(known.equation);
    check(einsum(known.equation, known.shapes));
  }
}

TEST(Decomposed, EinsumIsOneProduct) {
  const auto kinds = [](const Case& c) {
    auto imported = onnx_import::import_bytes(as_bytes(model_of(c)));
    passes::PassRecord record;
    EXPECT_TRUE(passes::optimize(*imported.value().graph, record).ok());
    std::string text;
    for (const auto& layer : imported.value().graph->layers())
      text += (text.empty() ? "" : " ") + std::string(ir::kind_name(layer->kind));
    return text;
  };
  EXPECT_EQ(kinds(einsum("bhid,bhjd->bhij", {{2, 3, 5, 8}, {2, 3, 7, 8}})), "MatrixMultiply");
  EXPECT_EQ(kinds(einsum("bhwc,hkc->bhwk", {{3, 20, 18, 8}, {20, 20, 8}})), "MatrixMultiply");
  EXPECT_EQ(kinds(einsum("...ij,jk->...ik", {{2, 4, 5}, {5, 6}})), "MatrixMultiply");
}

// A label whose extents nobody has proved equal: one product all the same, also where one is 1.
TEST(Decomposed, EinsumOfLabelsWithTwoNames) {
  for (const auto& [left, right] : {std::pair<int64_t, int64_t>{7, 7}, {1, 7}, {7, 1}}) {
    SCOPED_TRACE(std::to_string(left) + " and " + std::to_string(right));
    Case c = einsum("bhij,bhjd->bhid", {{2, 3, 5, left}, {2, 3, right, 8}});
    c.operands[0]->symbols = {"b", nullptr, nullptr, "l"};
    c.operands[1]->symbols = {"b", nullptr, "r", nullptr};
    check(c);
    auto imported = onnx_import::import_bytes(as_bytes(model_of(c)));
    ASSERT_TRUE(imported.ok());
    int products = 0;
    for (const auto& layer : imported.value().graph->layers()) {
      products += layer->kind == ir::LayerKind::kMatrixMultiply;
      EXPECT_NE(layer->kind, ir::LayerKind::kReduce);
    }
    EXPECT_EQ(products, 1);
  }
}

TEST(Decomposed, EinsumTellsWhatDoesNotFit) {
  const auto message = [](const Case& c) {
    return onnx_import::import_bytes(as_bytes(model_of(c))).status().message();
  };
  EXPECT_NE(message(einsum("ij,jk->ik", {{3, 4}, {5, 6}})).find("label j has extents 4 and 5"),
            std::string::npos);
  EXPECT_NE(message(einsum("ij->ik", {{3, 4}})).find("label k"), std::string::npos);
  EXPECT_NE(message(einsum("ijk->i", {{3, 4}})).find("term \"ijk\" for rank 2"), std::string::npos);
  EXPECT_NE(message(einsum("ij,j->i", {{3, 4}})).find("for 1 inputs"), std::string::npos);
}

// --- Attention

Operand floats_of(const ir::Extents& extents, Random& random) {
  Operand operand;
  operand.extents = extents;
  fill(operand, random);
  return operand;
}

Case random_attention(uint32_t seed) {
  Random random(seed);
  Case c;
  c.op = "Attention";
  c.opset = 24;
  c.outputs = 4;
  const int64_t batch = 1 + below(random, 2), kv_heads = 1 + below(random, 3),
                heads = kv_heads * (1 + below(random, 3)), queries = 1 + below(random, 5),
                new_keys = 1 + below(random, 6), depth = 2 + 2 * below(random, 3),
                v_depth = 1 + below(random, 5);
  const bool packed = below(random, 2), has_past = below(random, 3) == 0,
             symbolic = below(random, 3) == 0;
  const int64_t past = has_past ? 1 + below(random, 4) : 0, keys = past + new_keys;
  const auto add = [&](int64_t h, int64_t steps, int64_t d, const char* symbol) {
    Operand operand =
        packed ? floats_of({batch, steps, h * d}, random) : floats_of({batch, h, steps, d}, random);
    operand.symbols.assign(operand.extents.size(), nullptr);
    if (symbolic) operand.symbols[0] = "batch", operand.symbols[packed ? 1 : 2] = symbol;
    c.operands.push_back(operand);
  };
  add(heads, queries, depth, "queries");
  add(kv_heads, new_keys, depth, "keys");
  add(kv_heads, new_keys, v_depth, "keys");
  c.operands.resize(7);
  if (packed) c.set("q_num_heads", heads), c.set("kv_num_heads", kv_heads);
  if (const int64_t kind = below(random, 4); kind > 0) {
    ir::Extents shape = {batch, heads, queries, keys};
    if (below(random, 3) == 0) shape[0] = 1;
    if (below(random, 3) == 0) shape[1] = 1;
    if (below(random, 4) == 0 && !symbolic) shape[3] = 1 + below(random, keys);
    while (shape.size() > 2 && shape[0] == 1) shape.erase(0);
    Operand mask = floats_of(shape, random);
    if (kind == 1) mask.type = DataType::kBool;
    for (double& value : mask.values) {
      if (kind == 1) value = below(random, 3) > 0;
      if (kind == 2 && below(random, 3) == 0) value = -INFINITY;
    }
    c.operands[3] = mask;
  }
  if (has_past) {
    c.operands[4] = floats_of({batch, kv_heads, past, depth}, random);
    c.operands[5] = floats_of({batch, kv_heads, past, v_depth}, random);
    if (symbolic)
      for (const size_t k : {4, 5}) c.operands[k]->symbols = {"batch", nullptr, "past", nullptr};
  }
  if (below(random, 5) == 0 && !has_past) {
    Operand counts;
    counts.type = DataType::kInt64;
    counts.extents = {batch};
    for (int64_t b = 0; b < batch; ++b)
      counts.values.push_back(static_cast<double>(1 + below(random, keys)));
    c.operands[6] = counts;
  }
  if (below(random, 2)) c.set("is_causal", int64_t{1});
  if (below(random, 3) == 0) c.set("scale", 0.7f);
  if (below(random, 3) == 0) c.set("softcap", 1.5f);
  c.set("qk_matmul_output_mode", below(random, 4));
  return c;
}

TEST(Decomposed, RandomAttentions) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    check(random_attention(seed));
    if (HasFatalFailure()) return;
  }
}

// --- RotaryEmbedding

Case random_rotation(uint32_t seed) {
  Random random(seed);
  Case c;
  c.op = "RotaryEmbedding";
  c.opset = 23;
  const int64_t batch = 1 + below(random, 2), heads = 1 + below(random, 3),
                steps = 1 + below(random, 4), depth = 4 + 2 * below(random, 4);
  const bool packed = below(random, 2), by_position = below(random, 2);
  const int64_t rotated = below(random, 2) ? depth : 2 + 2 * below(random, depth / 2 - 1);
  c.operands.push_back(packed ? floats_of({batch, steps, heads * depth}, random)
                              : floats_of({batch, heads, steps, depth}, random));
  for (int k = 0; k < 2; ++k)
    c.operands.push_back(by_position ? floats_of({9, rotated / 2}, random)
                                     : floats_of({batch, steps, rotated / 2}, random));
  if (by_position) {
    Operand positions;
    positions.type = DataType::kInt64;
    positions.extents = {batch, steps};
    for (int64_t k = 0; k < batch * steps; ++k)
      positions.values.push_back(static_cast<double>(below(random, 9)));
    c.operands.push_back(positions);
  }
  if (packed) c.set("num_heads", heads);
  if (below(random, 2)) c.set("interleaved", int64_t{1});
  if (rotated != depth) c.set("rotary_embedding_dim", rotated);
  return c;
}

TEST(Decomposed, RandomRotations) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    check(random_rotation(seed));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace camshaft
