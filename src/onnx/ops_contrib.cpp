// SPDX-License-Identifier: Apache-2.0
// The operators of domain com.microsoft that exporters of transformers write, as the layers and
// standard operators they are made of, so that these fuse as elsewhere.
#include "onnx/ops_contrib.h"

#include "onnx/ops_quantized.h"

namespace camshaft::onnx_import {

Result<std::vector<Tensor*>> apply(Node& node, std::string_view op_type, int64_t opset,
                                   std::vector<AttributeDef> attributes,
                                   std::vector<Tensor*> inputs, size_t outputs,
                                   std::string_view step) {
  NodeDef def;
  def.name = fmt::format("{}/{}", node.name(), step);
  def.op_type = op_type;
  def.attributes = std::move(attributes);
  for (size_t k = 0; k < outputs; ++k) def.outputs.push_back(fmt::format("{}_{}", def.name, k));
  Node standard(node.scope(), def, def.name, opset, std::move(inputs));
  CAMSHAFT_TRY(find_operator(op_type)->import(standard));
  CAMSHAFT_TRY(standard.attribute_status());
  std::vector<Tensor*> results;
  for (const std::string& name : def.outputs) {
    CAMSHAFT_ASSIGN(Tensor* const result, node.scope().find(name));
    results.push_back(result);
  }
  return results;
}

AttributeDef number(std::string name, int64_t value) {
  AttributeDef attribute;
  attribute.name = std::move(name);
  attribute.type = AttributeType::kInt;
  attribute.i = value;
  return attribute;
}
namespace {

Status refuse_outputs(Node& node, size_t first, size_t last) {
  for (size_t k = first; k <= last; ++k)
    if (node.wants(k)) return unsupported("output {} exists only in training", k);
  return ok_status();
}

// --- activations

// x, or x + bias.
Result<Tensor*> with_bias(Node& node, Tensor* x, Tensor* bias) {
  return bias ? node.binary("biased", PointOp::kAdd, x, bias) : Result<Tensor*>(x);
}

template <PointOp op>
Status import_biased_gelu(Node& node) {  // Gelu, BiasGelu, FastGelu
  CAMSHAFT_TRY(node.require(1, 2));
  CAMSHAFT_ASSIGN(Tensor* const x, with_bias(node, node.input(0), node.input(1)));
  return node.emit(LayerKind::kActivation, ir::PointOpAttrs{op}, {x});
}

Status import_quick_gelu(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  Tensor* const x = node.input(0);
  CAMSHAFT_ASSIGN(Tensor* const steep,
                  node.binary("steep", PointOp::kMul, x,
                              node.scalar_like("alpha", x->type,
                                               static_cast<double>(node.real("alpha", 1.702f)))));
  CAMSHAFT_ASSIGN(Tensor* const gate, node.add("gate", LayerKind::kActivation,
                                               ir::PointOpAttrs{PointOp::kSigmoid}, {steep}));
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kMul}, {x, gate});
}

// --- norms

Status normalize(Node& node, ir::NormKind kind, float epsilon, int64_t axis, Tensor* x,
                 Tensor* scale, Tensor* bias) {
  ir::NormalizationAttrs attrs;
  attrs.kind = kind;
  attrs.axis = axis;
  attrs.epsilon = epsilon;
  std::vector<Tensor*> inputs = {x, scale};
  if (bias) inputs.push_back(bias);
  return node.emit_to(0, LayerKind::kNormalization, std::move(attrs), std::move(inputs));
}

// Also in the standard domain, where ONNX Runtime's exporters write it.
Status import_simplified_norm(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  CAMSHAFT_TRY(refuse_outputs(node, 1, 2));
  node.ignore({"stash_type"});
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(node.integer("axis", -1), rank));
  return normalize(node, ir::NormKind::kRms, node.real("epsilon", 1e-5f), axis, node.input(0),
                   node.input(1), nullptr);
}

// Inputs: x, skip, gamma, beta (of the layer norm), bias; output 3 is the sum that is normalized.
template <ir::NormKind kind>
Status import_skip_norm(Node& node) {
  constexpr bool kHasBeta = kind == ir::NormKind::kLayer;
  CAMSHAFT_TRY(node.require(3, kHasBeta ? 5 : 4));
  CAMSHAFT_TRY(refuse_outputs(node, 1, 2));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (rank < 2) return invalid("the input has rank {}", rank);
  CAMSHAFT_ASSIGN(Tensor * sum, node.binary("sum", PointOp::kAdd, node.input(0), node.input(1)));
  CAMSHAFT_ASSIGN(sum, with_bias(node, sum, node.input(kHasBeta ? 4 : 3)));
  node.give(3, sum);
  return normalize(node, kind, node.real("epsilon", kHasBeta ? 1e-12f : 1e-5f),
                   static_cast<int64_t>(rank) - 1, sum, node.input(2),
                   kHasBeta ? node.input(3) : nullptr);
}

// --- embeddings

Result<Tensor*> rows_at(Node& node, std::string_view step, Tensor* table, Tensor* indices) {
  return node.add(step, LayerKind::kGather, ir::GatherAttrs(), {table, indices});
}

// Lines of the table of positions, for positions 0, 1 …
Result<Tensor*> first_rows(Node& node, Tensor* table, Dim count) {
  ir::SliceAttrs attrs;
  attrs.start = {0, 0};
  attrs.size = {count, table->shape[1]};
  attrs.step = {1, 1};
  return node.add("positions", LayerKind::kSlice, std::move(attrs), {table});
}

// How many elements of every row are not masked.
Status give_mask_index(Node& node, Tensor* ids, Tensor* mask) {
  if (!node.wants(1)) return ok_status();
  if (!mask) {
    ir::FillAttrs fill;
    fill.type = DataType::kInt32;
    fill.shape = {ids->shape[0]};
    return node.emit_to(1, LayerKind::kFill, std::move(fill), {});
  }
  ir::ReduceAttrs attrs;
  attrs.axes = {1};
  attrs.keep_dims = false;
  return node.emit_to(1, LayerKind::kReduce, std::move(attrs), {mask});
}

struct Embedding {
  Tensor *ids, *segments;
  Tensor *words, *positions, *segment_rows, *gamma, *beta;  // of floats
  Tensor *mask, *position_ids;
};

Status embed(Node& node, const Embedding& e) {
  node.ignore({"mask_index_type"});
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (rank != 2 || !e.positions->has_rank || e.positions->shape.size() != 2)
    return invalid("ids or positions are not of rank 2");
  CAMSHAFT_ASSIGN(Tensor * sum, rows_at(node, "words", e.words, e.ids));
  CAMSHAFT_ASSIGN(Tensor* const positions,
                  e.position_ids ? rows_at(node, "positions", e.positions, e.position_ids)
                                 : first_rows(node, e.positions, e.ids->shape[1]));
  CAMSHAFT_ASSIGN(sum, node.binary("sum", PointOp::kAdd, sum, positions));
  if (e.segments && e.segment_rows) {
    CAMSHAFT_ASSIGN(Tensor* const segments, rows_at(node, "segments", e.segment_rows, e.segments));
    CAMSHAFT_ASSIGN(sum, node.binary("sum", PointOp::kAdd, sum, segments));
  }
  node.give(2, sum);
  CAMSHAFT_TRY(give_mask_index(node, e.ids, e.mask));
  return normalize(node, ir::NormKind::kLayer, node.real("epsilon", 1e-12f), 2, sum, e.gamma,
                   e.beta);
}

// Inputs: ids, segments, tables of words, positions and segments, gamma, beta, mask, position ids.
Status import_embed_layer_norm(Node& node) {
  CAMSHAFT_TRY(node.require(1, 9));
  for (size_t k : {2, 3, 5, 6})
    if (!node.has(k)) return invalid("input {} is missing", k);
  return embed(node, {node.input(0), node.input(1), node.input(2), node.input(3), node.input(4),
                      node.input(5), node.input(6), node.input(7), node.input(8)});
}

// What quantize_dynamic makes of it: inputs 2 to 6 as codes, then the mask, their scales and their
// zero points.
Status import_quantized_embed_layer_norm(Node& node) {
  CAMSHAFT_TRY(node.require(1, 18));
  Tensor* tables[5] = {};
  for (size_t k = 0; k < 5; ++k) {
    const size_t codes = 2 + k, scale = 8 + k, zero = 13 + k;
    if (!node.has(codes) && k == 2) continue;  // no segments
    if (!node.has(codes) || !node.has(scale))
      return invalid("input {} or its scale is missing", codes);
    CAMSHAFT_ASSIGN(tables[k], dequantize(node, fmt::format("table {}", k), node.input(codes),
                                          node.input(scale), node.input(zero), 1));
  }
  return embed(node, {node.input(0), node.input(1), tables[0], tables[1], tables[2], tables[3],
                      tables[4], node.input(7), nullptr});
}

// --- rows of a table of codes

class QuantizedRows {
 public:
  explicit QuantizedRows(Node& node) : node_(node) {}

  Status run() {
    CAMSHAFT_TRY(read());
    CAMSHAFT_ASSIGN(Tensor * codes, numbers_at("codes", codes_, width_));
    CAMSHAFT_ASSIGN(codes, in_blocks(codes, width_ / block_, block_));
    CAMSHAFT_ASSIGN(Tensor * zero, zeros());
    CAMSHAFT_ASSIGN(codes, node_.binary("centered", PointOp::kSub, codes, zero));
    CAMSHAFT_ASSIGN(Tensor * scales, rows_at(node_, "scales", node_.input(2), node_.input(1)));
    CAMSHAFT_ASSIGN(scales, in_blocks(scales, width_ / block_, 1));
    CAMSHAFT_ASSIGN(codes, node_.binary("values", PointOp::kMul, codes, scales));
    Shape shape = node_.input(1)->shape;
    shape.push_back(width_);
    CAMSHAFT_ASSIGN(codes, node_.reshape("rows", codes, shape));
    node_.give(0, codes);
    return ok_status();
  }

 private:
  Status read() {
    CAMSHAFT_TRY(node_.require(3, 4));
    bits_ = node_.integer("bits", 4);
    block_ = node_.integer("block_size", 128);
    const Tensor* data = node_.input(0);
    CAMSHAFT_ASSIGN(const size_t rank, node_.rank(0));
    CAMSHAFT_TRY(node_.rank(1).status());
    CAMSHAFT_TRY(node_.rank(2).status());
    CAMSHAFT_ASSIGN(const int64_t gather, node_.axis(node_.integer("gather_axis", 0), rank));
    CAMSHAFT_ASSIGN(const int64_t quantize, node_.axis(node_.integer("quantize_axis", 1), rank));
    if (rank != 2 || gather != 0 || quantize != 1)
      return unsupported("data of rank {}, rows along axis {}, blocks along axis {}", rank, gather,
                         quantize);
    if (!data->is_constant() || (node_.has(3) && !node_.input(3)->is_constant()))
      return unsupported("codes that are no constants");
    if (node_.input(2)->type != DataType::kFloat) return unsupported("scales that are not float");
    if (bits_ != 4 && bits_ != 8) return unsupported("codes of {} bits", bits_);
    is_packed_ = data->type == DataType::kUInt8;
    if (!is_packed_ && data->type != DataType::kInt4 && data->type != DataType::kUInt4)
      return unsupported("codes of this type");
    if (!is_packed_ && bits_ != 4) return invalid("4-bit codes of {} bits", bits_);
    is_signed_ = data->type == DataType::kInt4;
    width_ = data->shape[1].extent() * (is_packed_ ? 8 / bits_ : 1);
    if (block_ < 1 || width_ % block_ != 0 || width_ % 2 != 0)
      return unsupported("rows of {} codes in blocks of {}", width_, block_);
    codes_ = as_bytes("table", data, width_);
    return ok_status();
  }

  // Rows of `count` codes as rows of bytes; signed ones get 8 more.
  Tensor* as_bytes(std::string_view step, const Tensor* data, int64_t count) {
    std::vector<std::byte> bytes(data->constant->view.begin(), data->constant->view.end());
    if (is_signed_)
      for (std::byte& byte : bytes) byte ^= std::byte{0x88};
    const int64_t extents[] = {data->shape[0].extent(), count * bits_ / 8};
    return node_.constant(step, DataType::kUInt8, extents, std::move(bytes));
  }

  // [..., count] → [..., blocks, count / blocks]
  Result<Tensor*> in_blocks(Tensor* x, int64_t blocks, int64_t size) {
    Shape shape = node_.input(1)->shape;
    shape.push_back(blocks);
    shape.push_back(size);
    return node_.reshape("blocks", x, shape);
  }

  // The `count` codes of the gathered rows as floats.
  Result<Tensor*> numbers_at(std::string_view step, Tensor* table, int64_t count) {
    CAMSHAFT_ASSIGN(Tensor * bytes, rows_at(node_, step, table, node_.input(1)));
    CAMSHAFT_ASSIGN(bytes, node_.cast("numbers", bytes, DataType::kFloat));
    if (bits_ == 8) return bytes;
    const auto times = [&](Tensor* x, double factor) {
      return node_.binary("halves", PointOp::kMul, x,
                          node_.scalar_like("factor", DataType::kFloat, factor));
    };
    CAMSHAFT_ASSIGN(Tensor * high, times(bytes, 1.0 / 16));
    CAMSHAFT_ASSIGN(high, node_.unary("high", PointOp::kFloor, high));
    CAMSHAFT_ASSIGN(Tensor * low, times(high, 16));
    CAMSHAFT_ASSIGN(low, node_.binary("low", PointOp::kSub, bytes, low));
    CAMSHAFT_ASSIGN(low, in_blocks(low, count / 2, 1));
    CAMSHAFT_ASSIGN(high, in_blocks(high, count / 2, 1));
    const auto axis = static_cast<int64_t>(low->shape.size()) - 1;
    return node_.add("pairs", LayerKind::kConcatenation, ir::AxisAttrs{axis}, {low, high});
  }

  Result<Tensor*> zeros() {
    const int64_t blocks = width_ / block_;
    const Tensor* given = node_.input(3);
    if (!given) {
      const int64_t centre = is_packed_ || is_signed_ ? int64_t{1} << (bits_ - 1) : 0;
      return node_.scalar_like("centre", DataType::kFloat, static_cast<double>(centre));
    }
    if (blocks * bits_ % 8 != 0) return unsupported("an odd number of zero points in a row");
    CAMSHAFT_ASSIGN(Tensor* const numbers,
                    numbers_at("zeros", as_bytes("zero_points", given, blocks), blocks));
    return in_blocks(numbers, blocks, 1);
  }

  Node& node_;
  int64_t bits_ = 4, block_ = 128, width_ = 0;
  bool is_packed_ = false, is_signed_ = false;
  Tensor* codes_ = nullptr;
};

Status import_gather_quantized(Node& node) {
  return QuantizedRows(node).run();
}

}  // namespace

// --- rotary embedding

Result<Tensor*> positions_from(Node& node, Tensor* first, Tensor* x, size_t axis) {
  const Dim steps = x->shape[axis];
  Tensor* numbers = nullptr;
  if (steps.is_known()) {
    std::vector<int64_t> values;
    for (int64_t k = 0; k < steps.extent(); ++k) values.push_back(k);
    const int64_t extents[] = {1, steps.extent()};
    numbers = node.int_constant("steps", extents, values);
  } else {
    const auto at = static_cast<int64_t>(axis);
    CAMSHAFT_ASSIGN(Tensor* const size,
                    node.add("extent", LayerKind::kShapeOf, ir::ShapeOfAttrs{at, at + 1}, {x}));
    CAMSHAFT_ASSIGN(Tensor* const limit, node.reshape("limit", size, {}));
    CAMSHAFT_ASSIGN(numbers, node.add("steps", LayerKind::kRange, ir::NoAttrs{},
                                      {node.scalar_like("zero", DataType::kInt64, 0), limit,
                                       node.scalar_like("one", DataType::kInt64, 1)}));
    CAMSHAFT_ASSIGN(numbers, node.reshape("steps", numbers, Shape{Dim(1), steps}));
  }
  return first ? node.binary("positions", PointOp::kAdd, numbers, first) : Result<Tensor*>(numbers);
}

Result<Tensor*> rotate(Node& node, Tensor* x, const Rotary& r, std::string_view step) {
  std::vector<AttributeDef> attributes = {number("interleaved", r.interleaved ? 1 : 0),
                                          number("num_heads", r.heads),
                                          number("rotary_embedding_dim", r.rotated)};
  CAMSHAFT_ASSIGN(const std::vector<Tensor*> results,
                  apply(node, "RotaryEmbedding", 23, std::move(attributes),
                        {x, r.cosine, r.sine, r.positions}, 1, step));
  return results[0];
}

namespace {

// Inputs: x [B, T, H * D] or [B, H, T, D], positions [B, T] or the first of them, caches.
Status import_cached_rotation(Node& node) {
  CAMSHAFT_TRY(node.require(4, 4));
  node.ignore({"scale"});
  if (node.flag("is_packed_batching", false)) return unsupported("is_packed_batching");
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  CAMSHAFT_ASSIGN(const size_t positions_rank, node.rank(1));
  CAMSHAFT_ASSIGN(const size_t cache_rank, node.rank(2));
  if ((rank != 3 && rank != 4) || cache_rank != 2 || positions_rank > 2)
    return invalid("x of rank {}, positions of rank {}, caches of rank {}", rank, positions_rank,
                   cache_rank);
  Tensor* const x = node.input(0);
  Rotary r{node.input(2),
           node.input(3),
           node.input(1),
           node.integer("num_heads", 0),
           node.integer("rotary_embedding_dim", 0),
           node.flag("interleaved", false)};
  const Dim half = r.cosine->shape[1];
  if (rank == 3 && r.heads == 0) {  // the caches are as wide as half a head
    if (!half.is_known() || !x->shape[2].is_known() || half.extent() == 0)
      return unsupported("a number of heads only running can tell");
    r.heads = x->shape[2].extent() / (2 * half.extent());
  }
  if (positions_rank < 2) {
    CAMSHAFT_ASSIGN(r.positions, positions_from(node, r.positions, x, rank == 3 ? 1 : 2));
  }
  CAMSHAFT_ASSIGN(Tensor* const y, rotate(node, x, r, "rotated"));
  node.give(0, y);
  return ok_status();
}

// --- distances

Result<Tensor*> sums_of_squares(Node& node, std::string_view step, Tensor* x) {
  ir::ReduceAttrs attrs;
  attrs.op = ir::ReduceOp::kSumSquare;
  attrs.axes = {1};
  return node.add(step, LayerKind::kReduce, attrs, {x});
}

// CDist: |a - b|² = |a|² + |b|² - 2ab of all pairs of rows, as ONNX Runtime computes it.
Status import_distances(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  const std::string metric = node.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") return unsupported("metric \"{}\"", metric);
  Tensor *const a = node.input(0), *const b = node.input(1);
  for (size_t k = 0; k < 2; ++k) {
    CAMSHAFT_ASSIGN(const size_t rank, node.rank(k));
    if (rank != 2) return invalid("rows of rank {}", rank);
  }
  CAMSHAFT_ASSIGN(Tensor* const rows, sums_of_squares(node, "rows", a));
  CAMSHAFT_ASSIGN(Tensor * columns, sums_of_squares(node, "columns", b));
  CAMSHAFT_ASSIGN(columns, node.transpose("columns_t", columns, {1, 0}));
  ir::MatrixMultiplyAttrs product;
  product.transpose_b = true;
  product.alpha = -2;
  CAMSHAFT_ASSIGN(Tensor * sum, node.add("products", LayerKind::kMatrixMultiply, product, {a, b}));
  CAMSHAFT_ASSIGN(sum, node.binary("and_rows", PointOp::kAdd, sum, rows));
  CAMSHAFT_ASSIGN(sum, node.binary("and_columns", PointOp::kAdd, sum, columns));
  if (metric == "sqeuclidean")
    return node.emit(LayerKind::kActivation, ir::PointOpAttrs{PointOp::kRelu}, {sum});
  CAMSHAFT_ASSIGN(
      sum, node.add("squares", LayerKind::kActivation, ir::PointOpAttrs{PointOp::kRelu}, {sum}));
  return node.emit(LayerKind::kUnary, ir::PointOpAttrs{PointOp::kSqrt}, {sum});
}

// What ONNX Runtime's tools write into the standard domain.
constexpr OperatorRow kStandardOperators[] = {
    {"SimplifiedLayerNormalization", import_simplified_norm},
};

}  // namespace

std::span<const OperatorRow> contrib_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Gelu", import_biased_gelu<PointOp::kGelu>},
      {"BiasGelu", import_biased_gelu<PointOp::kGelu>},
      {"FastGelu", import_biased_gelu<PointOp::kGeluTanh>},
      {"QuickGelu", import_quick_gelu},
      {"SimplifiedLayerNormalization", import_simplified_norm},
      {"SkipLayerNormalization", import_skip_norm<ir::NormKind::kLayer>},
      {"SkipSimplifiedLayerNormalization", import_skip_norm<ir::NormKind::kRms>},
      {"EmbedLayerNormalization", import_embed_layer_norm},
      {"QEmbedLayerNormalization", import_quantized_embed_layer_norm},
      {"GatherBlockQuantized", import_gather_quantized},
      {"RotaryEmbedding", import_cached_rotation},
      {"GroupQueryAttention", import_grouped_queries},
      {"CDist", import_distances},
  };
  return kOperators;
}
std::span<const OperatorRow> misplaced_operators() {
  return kStandardOperators;
}

}  // namespace camshaft::onnx_import
