// SPDX-License-Identifier: Apache-2.0
// The operators of domain com.microsoft that exporters of transformers write, as the layers and
// standard operators they are made of, so that these fuse as elsewhere.
#include "onnx/ops_contrib.h"

namespace camshaft::onnx_import {
namespace {

// The results of a standard operator of that opset; null inputs are absent.
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
AttributeDef real(std::string name, float value) {
  AttributeDef attribute;
  attribute.name = std::move(name);
  attribute.type = AttributeType::kFloat;
  attribute.f = value;
  return attribute;
}

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
Status import_gelu(Node& node) {  // Gelu, BiasGelu, FastGelu
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

// Inputs: ids, segments, tables of words, positions and segments, gamma, beta, mask, position ids.
Status import_embed_layer_norm(Node& node) {
  CAMSHAFT_TRY(node.require(1, 9));
  node.ignore({"mask_index_type"});
  for (size_t k : {2, 3, 5, 6})
    if (!node.has(k)) return invalid("input {} is missing", k);
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  CAMSHAFT_ASSIGN(const size_t positions_rank, node.rank(3));
  if (rank != 2 || positions_rank != 2) return invalid("ids or positions are not of rank 2");
  Tensor* const ids = node.input(0);
  CAMSHAFT_ASSIGN(Tensor * sum, rows_at(node, "words", node.input(2), ids));
  CAMSHAFT_ASSIGN(Tensor* const positions,
                  node.has(8) ? rows_at(node, "positions", node.input(3), node.input(8))
                              : first_rows(node, node.input(3), ids->shape[1]));
  CAMSHAFT_ASSIGN(sum, node.binary("sum", PointOp::kAdd, sum, positions));
  if (node.has(1) && node.has(4)) {
    CAMSHAFT_ASSIGN(Tensor* const segments,
                    rows_at(node, "segments", node.input(4), node.input(1)));
    CAMSHAFT_ASSIGN(sum, node.binary("sum", PointOp::kAdd, sum, segments));
  }
  node.give(2, sum);
  CAMSHAFT_TRY(give_mask_index(node, ids, node.input(7)));
  return normalize(node, ir::NormKind::kLayer, node.real("epsilon", 1e-12f), 2, sum, node.input(5),
                   node.input(6));
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

// --- rotary embedding

// first, first + 1 … for `steps` positions, [1, steps].
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

struct Rotary {
  Tensor *cosine, *sine, *positions;
  int64_t heads, rotated;
  bool interleaved;
};

Result<Tensor*> rotate(Node& node, Tensor* x, const Rotary& r, std::string_view step) {
  std::vector<AttributeDef> attributes = {number("interleaved", r.interleaved ? 1 : 0),
                                          number("num_heads", r.heads),
                                          number("rotary_embedding_dim", r.rotated)};
  CAMSHAFT_ASSIGN(const std::vector<Tensor*> results,
                  apply(node, "RotaryEmbedding", 23, std::move(attributes),
                        {x, r.cosine, r.sine, r.positions}, 1, step));
  return results[0];
}

// Inputs: x [B, T, H * D] or [B, H, T, D], positions [B, T] or the first of them, caches.
Status import_rotary_embedding(Node& node) {
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

// --- grouped queries

// Inputs: query (or queries, keys and values together), key, value, past key and value, lengths,
// total length, caches of cosines and sines, positions, bias. All items of a batch have the same
// length; what follows an item's last token is not read by the others.
class GroupedQueries {
 public:
  explicit GroupedQueries(Node& node) : node_(node) {}

  Status run() {
    CAMSHAFT_TRY(read());
    CAMSHAFT_TRY(check_lengths());
    if (node_.flag("do_rotary", false)) CAMSHAFT_TRY(rotate_heads());
    std::vector<AttributeDef> attributes = {number("is_causal", 1), number("q_num_heads", heads_),
                                            number("kv_num_heads", kv_heads_)};
    if (const float scale = node_.real("scale", 0); scale != 0)
      attributes.push_back(real("scale", scale));
    if (const float cap = node_.real("softcap", 0); cap != 0)
      attributes.push_back(real("softcap", cap));
    if (const int64_t window = node_.integer("local_window_size", -1); window > 0)
      attributes.push_back(number("left_window_size", window - 1));
    CAMSHAFT_ASSIGN(
        const std::vector<Tensor*> results,
        apply(node_, "Attention", 24, std::move(attributes),
              {q_, k_, v_, node_.input(10), node_.input(3), node_.input(4)}, 3, "attention"));
    for (size_t k = 0; k < 3; ++k) node_.give(k, results[k]);
    return ok_status();
  }

 private:
  Status read() {
    CAMSHAFT_TRY(node_.require(1, 11));
    heads_ = node_.integer("num_heads", 0);
    kv_heads_ = node_.integer("kv_num_heads", 0);
    if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0)
      return invalid("{} heads for {} of keys", heads_, kv_heads_);
    if (node_.integer("smooth_softmax", 0) > 0) return unsupported("smooth_softmax");
    if (node_.integer("qk_output", 0) != 0) return unsupported("qk_output");
    if (node_.text("k_quant_type", "NONE") != "NONE" ||
        node_.text("v_quant_type", "NONE") != "NONE")
      return unsupported("quantized caches");
    node_.ignore({"kv_cache_bit_width"});
    CAMSHAFT_ASSIGN(const size_t rank, node_.rank(0));
    if (rank != 3 || !node_.input(0)->shape[2].is_known())
      return unsupported("queries of rank {} or of unknown width", rank);
    if (!node_.has(3) || !node_.has(4)) return unsupported("no past keys and values");
    if (node_.has(1) != node_.has(2)) return invalid("keys without values");
    const int64_t width = node_.input(0)->shape[2].extent();
    const bool packed = !node_.has(1);
    depth_ = width / (packed ? heads_ + 2 * kv_heads_ : heads_);
    if (!packed) {
      q_ = node_.input(0);
      k_ = node_.input(1);
      v_ = node_.input(2);
      return ok_status();
    }
    const int64_t kv = kv_heads_ * depth_;
    CAMSHAFT_ASSIGN(q_, columns("q", 0, heads_ * depth_));
    CAMSHAFT_ASSIGN(k_, columns("k", heads_ * depth_, kv));
    CAMSHAFT_ASSIGN(v_, columns("v", heads_ * depth_ + kv, kv));
    return ok_status();
  }

  Result<Tensor*> columns(std::string_view step, int64_t first, int64_t count) {
    Tensor* const x = node_.input(0);
    ir::SliceAttrs attrs;
    attrs.start = {0, 0, first};
    attrs.size = {x->shape[0], x->shape[1], count};
    attrs.step = {1, 1, 1};
    return node_.add(step, LayerKind::kSlice, std::move(attrs), {x});
  }

  Result<Tensor*> one(const char* op, std::vector<AttributeDef> attributes,
                      std::vector<Tensor*> inputs, std::string_view step) {
    CAMSHAFT_ASSIGN(const std::vector<Tensor*> results,
                    apply(node_, op, 13, std::move(attributes), std::move(inputs), 1, step));
    return results[0];
  }
  Result<Tensor*> length(const char* step, Tensor* x, int64_t axis) {
    return node_.add(step, LayerKind::kShapeOf, ir::ShapeOfAttrs{axis, axis + 1}, {x});
  }

  // Lengths that the past and the new tokens do not make (a past longer than what is in it, items
  // of their own lengths while decoding) would give wrong numbers. They are refused while running:
  // by a look-up beyond a table of one zero, which is added to the queries.
  Status check_lengths() {
    if (!node_.has(5) || !node_.has(6)) return ok_status();
    const std::vector<AttributeDef> to_int64 = {number("to", 7)};
    CAMSHAFT_ASSIGN(Tensor* const total, one("Cast", to_int64, {node_.input(6)}, "total"));
    CAMSHAFT_ASSIGN(Tensor* const lengths, one("Cast", to_int64, {node_.input(5)}, "lengths"));
    CAMSHAFT_ASSIGN(Tensor* const last,
                    one("ReduceMin", {number("keepdims", 0)}, {lengths}, "shortest"));
    CAMSHAFT_ASSIGN(Tensor* const past, length("past_tokens", node_.input(3), 2));
    CAMSHAFT_ASSIGN(Tensor* const steps, length("new_tokens", q_, 1));
    CAMSHAFT_ASSIGN(Tensor* const made, one("Add", {}, {past, steps}, "tokens"));
    CAMSHAFT_ASSIGN(Tensor* const longer, one("Sub", {}, {total, made}, "longer"));
    CAMSHAFT_ASSIGN(Tensor* const shorter, one("Sub", {}, {made, last}, "shorter"));
    Tensor* const one_token = node_.scalar_like("one_token", DataType::kInt64, 1);
    CAMSHAFT_ASSIGN(Tensor* const behind, one("Sub", {}, {shorter, one_token}, "behind"));
    CAMSHAFT_ASSIGN(Tensor* const ragged, one("Mul", {}, {behind, past}, "ragged"));
    CAMSHAFT_ASSIGN(Tensor* const longer2, one("Mul", {}, {longer, longer}, "longer_squared"));
    CAMSHAFT_ASSIGN(Tensor* const ragged2, one("Mul", {}, {ragged, ragged}, "ragged_squared"));
    CAMSHAFT_ASSIGN(Tensor* const wrong, one("Add", {}, {longer2, ragged2}, "wrong_lengths"));
    // 0 or at least 2: a table of one value needs no look-up.
    CAMSHAFT_ASSIGN(Tensor* const twice, one("Add", {}, {wrong, wrong}, "beyond_the_table"));
    const int64_t extents[] = {2};
    const float values[] = {0, 1};
    Tensor* const table = node_.float_constant("no_error", extents, values);
    CAMSHAFT_ASSIGN(Tensor * zero, one("Gather", {}, {table, twice},
                                       "lengths are those of the past and the new tokens"));
    if (q_->type != DataType::kFloat) {
      const int64_t type = q_->type == DataType::kHalf ? 10 : 16;
      CAMSHAFT_ASSIGN(zero, one("Cast", {number("to", type)}, {zero}, "no_error_in_16_bits"));
    }
    CAMSHAFT_ASSIGN(q_, one("Add", {}, {q_, zero}, "checked_queries"));
    return ok_status();
  }

  // Tokens follow those of the past.
  Result<Tensor*> positions() {
    if (node_.has(9)) return node_.input(9);
    CAMSHAFT_ASSIGN(Tensor * past, node_.add("past_length", LayerKind::kShapeOf,
                                             ir::ShapeOfAttrs{2, 3}, {node_.input(3)}));
    return positions_from(node_, past, q_, 1);
  }

  Status rotate_heads() {
    if (!node_.has(7) || !node_.has(8)) return invalid("do_rotary without cosines and sines");
    CAMSHAFT_ASSIGN(const size_t cache_rank, node_.rank(7));
    if (cache_rank != 2) return invalid("a cache of cosines of rank {}", cache_rank);
    CAMSHAFT_ASSIGN(Tensor* const positions, this->positions());
    Rotary r{node_.input(7),
             node_.input(8),
             positions,
             heads_,
             0,
             node_.flag("rotary_interleaved", false)};
    const Dim half = r.cosine->shape[1];
    r.rotated = half.is_known() ? 2 * half.extent() : 0;
    CAMSHAFT_ASSIGN(q_, rotate(node_, q_, r, "rotated_q"));
    r.heads = kv_heads_;
    CAMSHAFT_ASSIGN(k_, rotate(node_, k_, r, "rotated_k"));
    return ok_status();
  }

  Node& node_;
  int64_t heads_ = 0, kv_heads_ = 0, depth_ = 0;
  Tensor *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;
};

Status import_grouped_queries(Node& node) {
  node.ignore({"do_rotary", "rotary_interleaved"});
  return GroupedQueries(node).run();
}

constexpr OperatorRow kOperators[] = {
    {"Gelu", import_gelu<PointOp::kGelu>},
    {"BiasGelu", import_gelu<PointOp::kGelu>},
    {"FastGelu", import_gelu<PointOp::kGeluTanh>},
    {"QuickGelu", import_quick_gelu},
    {"SimplifiedLayerNormalization", import_simplified_norm},
    {"SkipLayerNormalization", import_skip_norm<ir::NormKind::kLayer>},
    {"SkipSimplifiedLayerNormalization", import_skip_norm<ir::NormKind::kRms>},
    {"EmbedLayerNormalization", import_embed_layer_norm},
    {"GatherBlockQuantized", import_gather_quantized},
    {"RotaryEmbedding", import_rotary_embedding},
    {"GroupQueryAttention", import_grouped_queries},
};

// What ONNX Runtime's tools write into the standard domain.
constexpr OperatorRow kStandardOperators[] = {
    {"SimplifiedLayerNormalization", import_simplified_norm},
};

}  // namespace

std::span<const OperatorRow> contrib_operators() {
  return kOperators;
}
std::span<const OperatorRow> misplaced_operators() {
  return kStandardOperators;
}

}  // namespace camshaft::onnx_import
