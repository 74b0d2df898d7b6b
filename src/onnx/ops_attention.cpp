// SPDX-License-Identifier: Apache-2.0
// Attention as the layer of that name, or, where the model wants to see its scores, taken apart
// into products, softmax and pointwise layers; heads that share keys and values (GQA) are then rows
// of one product instead of copies of the keys. RotaryEmbedding is always taken apart: there are
// kernels and fusions for its parts. One file: all spellings end in the same few functions.
#include <cmath>
#include <limits>

#include "onnx/ops_attention.h"

namespace camshaft::onnx_import {

Result<Tensor*> split_heads(Node& node, Tensor* x, int64_t heads) {
  ir::SymbolTable& symbols = node.symbols();
  return node.reshape(
      "heads", x, {x->shape[0], x->shape[1], Dim(heads), symbols.floor_div(x->shape[2], heads)});
}

Result<Tensor*> by_heads(Node& node, Tensor* x, int64_t heads) {
  if (x->shape.size() == 4) return x;
  CAMSHAFT_ASSIGN(Tensor* const split, split_heads(node, x, heads));
  return node.transpose("by_heads", split, {0, 2, 1, 3});
}

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// 0, 1 … extent - 1 as floats; the extent is that of dimension `axis` of x.
Result<Tensor*> count_along(Node& node, Tensor* x, size_t axis) {
  const Dim extent = x->shape[axis];
  if (extent.is_known()) {
    std::vector<float> values;
    for (int64_t k = 0; k < extent.extent(); ++k) values.push_back(static_cast<float>(k));
    const int64_t extents[] = {extent.extent()};
    return node.float_constant("positions", extents, values);
  }
  const auto first = static_cast<int64_t>(axis);
  CAMSHAFT_ASSIGN(Tensor* const size,
                  node.add("extent", LayerKind::kShapeOf, ir::ShapeOfAttrs{first, first + 1}, {x}));
  CAMSHAFT_ASSIGN(Tensor* const limit, node.reshape("limit", size, {}));
  CAMSHAFT_ASSIGN(Tensor* const numbers,
                  node.add("numbers", LayerKind::kRange, ir::NoAttrs{},
                           {node.scalar_like("zero", DataType::kInt64, 0), limit,
                            node.scalar_like("one", DataType::kInt64, 1)}));
  return node.cast("positions", numbers, DataType::kFloat);
}

// The extent of dimension `axis` of x as a float.
Result<Tensor*> extent_of(Node& node, Tensor* x, size_t axis) {
  if (x->shape[axis].is_known())
    return node.scalar_like("extent", DataType::kFloat,
                            static_cast<double>(x->shape[axis].extent()));
  const auto first = static_cast<int64_t>(axis);
  CAMSHAFT_ASSIGN(Tensor* const size,
                  node.add("extent", LayerKind::kShapeOf, ir::ShapeOfAttrs{first, first + 1}, {x}));
  return node.cast("extent", size, DataType::kFloat);
}

Result<Tensor*> select(Node& node, std::string_view step, Tensor* condition, Tensor* yes,
                       Tensor* no) {
  return node.add(step, LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                  {condition, yes, no});
}

class Attention {
 public:
  explicit Attention(Node& node) : node_(node) {}

  Status run() {
    if (!node_.wants(3)) return run_whole();
    CAMSHAFT_TRY(read());
    CAMSHAFT_TRY(make_bias());
    CAMSHAFT_ASSIGN(Tensor * scores, product("scores", q_, k_, true));
    if (mode_ == 0) node_.give(3, scores);
    CAMSHAFT_ASSIGN(scores, capped(scores));
    if (mode_ == 1) node_.give(3, scores);
    if (bias_) {
      CAMSHAFT_ASSIGN(scores, node_.binary("masked", PointOp::kAdd, scores, bias_));
    }
    if (mode_ == 2) node_.give(3, scores);
    CAMSHAFT_ASSIGN(Tensor* const weights,
                    node_.add("softmax", LayerKind::kSoftMax, ir::SoftMaxAttrs{3, 3}, {scores}));
    if (mode_ == 3 && node_.wants(3)) {
      CAMSHAFT_ASSIGN(Tensor* const shown, zero_where_hidden(weights));
      node_.give(3, shown);
    }
    CAMSHAFT_ASSIGN(Tensor * y, product("mixed", weights, v_, false));
    CAMSHAFT_ASSIGN(y, zero_where_hidden(y));
    if (node_.input(0)->shape.size() == 3) {
      CAMSHAFT_ASSIGN(y, node_.transpose("by_steps", y, {0, 2, 1, 3}));
      CAMSHAFT_ASSIGN(y, node_.reshape("joined", y,
                                       {y->shape[0], y->shape[1],
                                        node_.symbols().mul(y->shape[2], y->shape[3])}));
    }
    node_.give(0, y);
    return ok_status();
  }

 private:
  Status read() {
    const int64_t heads = node_.integer("q_num_heads", 0),
                  kv_heads = node_.integer("kv_num_heads", 0);
    CAMSHAFT_ASSIGN(q_, by_heads(node_, node_.input(0), heads));
    CAMSHAFT_ASSIGN(k_, by_heads(node_, node_.input(1), kv_heads));
    CAMSHAFT_ASSIGN(v_, by_heads(node_, node_.input(2), kv_heads));
    for (Tensor** cached : {&k_, &v_})
      if (Tensor* past = node_.input(cached == &k_ ? 4 : 5)) {
        CAMSHAFT_ASSIGN(*cached, node_.add("present", LayerKind::kConcatenation, ir::AxisAttrs{2},
                                           {past, *cached}));
      }
    node_.give(1, k_);
    node_.give(2, v_);
    type_ = q_->type;
    CAMSHAFT_ASSIGN(k_, node_.cast("key", k_, type_));
    CAMSHAFT_ASSIGN(v_, node_.cast("value", v_, type_));
    mode_ = node_.integer("qk_matmul_output_mode", 0);
    softcap_ = node_.real("softcap", 0);
    const auto depth = static_cast<double>(q_->shape[3].extent());
    scale_ = node_.real("scale", static_cast<float>(1 / std::sqrt(depth)));
    return ok_status();
  }

  // --- one layer

  // An input as it lies: [B, T, H*D], or with heads before the steps; with `past` always that way.
  Result<Tensor*> heads_of(size_t k, int64_t heads, bool& steps_first) {
    Tensor* x = node_.input(k);
    Tensor* const past = k == 0 ? nullptr : node_.input(k + 3);
    const bool is_seen = past || (k > 0 && node_.wants(k));
    steps_first = x->shape.size() == 3 && !is_seen;
    if (steps_first) return node_.cast("heads", x, type_);
    CAMSHAFT_ASSIGN(x, by_heads(node_, x, heads));
    if (past) {
      CAMSHAFT_ASSIGN(x,
                      node_.add("present", LayerKind::kConcatenation, ir::AxisAttrs{2}, {past, x}));
    }
    if (k > 0) node_.give(k, x);
    return node_.cast("heads", x, type_);
  }

  Status run_whole() {
    node_.ignore({"qk_matmul_output_mode"});  // of the scores nobody reads
    const int64_t heads = node_.integer("q_num_heads", 0),
                  kv_heads = node_.integer("kv_num_heads", 0);
    type_ = node_.input(0)->type;
    ir::AttentionAttrs attrs;
    attrs.heads = heads;
    attrs.kv_heads = kv_heads;
    CAMSHAFT_ASSIGN(q_, heads_of(0, heads, attrs.q_steps_first));
    CAMSHAFT_ASSIGN(k_, heads_of(1, kv_heads, attrs.k_steps_first));
    CAMSHAFT_ASSIGN(v_, heads_of(2, kv_heads, attrs.v_steps_first));
    attrs.y_steps_first = node_.input(0)->shape.size() == 3;
    const Shape& q = q_->shape;
    const int64_t depth = q.size() == 4 ? q[3].extent() : q[2].extent() / heads;
    attrs.scale =
        node_.real("scale", static_cast<float>(1 / std::sqrt(static_cast<double>(depth))));
    attrs.left_window = node_.integer("left_window_size", -1);
    attrs.right_window = node_.integer("right_window_size", -1);
    if (node_.flag("is_causal", false)) attrs.right_window = 0;
    if (const Tensor* past = node_.input(4); past && !(past->shape[2] == Dim(0)))
      attrs.first_query = {past->shape[2]};
    // By causality alone every query sees the first key.
    attrs.nan_is_zero = node_.has(3) || node_.has(6) || attrs.left_window >= 0 ||
                        node_.integer("right_window_size", -1) >= 0;
    std::vector<Tensor*> inputs = {q_, k_, v_};
    if (node_.has(3) || node_.has(6)) inputs.push_back(node_.has(6) ? node_.input(6) : nullptr);
    CAMSHAFT_TRY(set_epilogue(attrs.epilogue, inputs));
    CAMSHAFT_ASSIGN(Tensor* const y, node_.add("heads_mixed", LayerKind::kAttention,
                                               std::move(attrs), std::move(inputs)));
    node_.give(0, y);
    return ok_status();
  }

  // The soft cap and the mask.
  Status set_epilogue(ir::Program& program, std::vector<Tensor*>& inputs) {
    program.num_inputs = node_.has(3) ? 2 : 1;
    int score = 0;
    const auto by = [&](PointOp op, int value, double number) {
      const int constant =
          ir::append(program, PointOp::kConst, -1, -1, -1, static_cast<float>(number));
      return ir::append(program, op, value, constant);
    };
    if (const float cap = node_.real("softcap", 0); cap > 0)
      score =
          by(PointOp::kMul, ir::append(program, PointOp::kTanh, by(PointOp::kDiv, 0, cap)), cap);
    if (node_.has(3)) {
      CAMSHAFT_ASSIGN(Tensor* const mask, whole_mask(node_.input(3)));
      inputs.push_back(mask);
      if (mask->type == DataType::kBool) {
        const int hidden =
            ir::append(program, PointOp::kConst, -1, -1, -1, static_cast<float>(kHidden));
        ir::append(program, PointOp::kSelect, 1, score, hidden);
      } else {
        ir::append(program, PointOp::kAdd, score, 1);
      }
    }
    if (program.code.empty()) program.num_inputs = 0;
    return ok_status();
  }

  Dim key_count() const { return k_->shape[k_->shape.size() == 3 ? 1 : 2]; }

  // A mask of truth values or of the scores' type that names all keys.
  Result<Tensor*> whole_mask(Tensor* mask) {
    const Dim keys = key_count(), given = mask->shape.back();
    if (given != keys && given != Dim(1)) return mask_bias(mask);
    if (mask->type == DataType::kBool) return mask;
    return node_.cast("mask", mask, type_);
  }

  // --- several layers

  // a [B, H, T, K] times b [B, KV, …]: the H / KV heads that read the same b become rows.
  Result<Tensor*> product(std::string_view step, Tensor* a, Tensor* b, bool with_keys) {
    ir::MatrixMultiplyAttrs attrs;
    attrs.transpose_b = with_keys;
    if (with_keys) attrs.alpha = scale_;
    const Dim kv_heads = b->shape[1], rows = a->shape[2];
    if (a->shape[1] == kv_heads)
      return node_.add(step, LayerKind::kMatrixMultiply, std::move(attrs), {a, b});
    const int64_t group = a->shape[1].extent() / kv_heads.extent();
    CAMSHAFT_ASSIGN(
        Tensor* const grouped,
        node_.reshape("grouped", a,
                      {a->shape[0], kv_heads, node_.symbols().mul(rows, group), a->shape[3]}));
    CAMSHAFT_ASSIGN(Tensor* const y,
                    node_.add(step, LayerKind::kMatrixMultiply, std::move(attrs), {grouped, b}));
    return node_.reshape("ungrouped", y, {a->shape[0], a->shape[1], rows, y->shape[3]});
  }

  Result<Tensor*> capped(Tensor* scores) {
    if (!(softcap_ > 0)) return scores;
    const double cap = softcap_;
    CAMSHAFT_ASSIGN(Tensor* const small,
                    node_.binary("capped", PointOp::kDiv, scores, number("cap", cap)));
    CAMSHAFT_ASSIGN(Tensor* const bent, node_.add("capped", LayerKind::kActivation,
                                                  ir::PointOpAttrs{PointOp::kTanh}, {small}));
    return node_.binary("capped", PointOp::kMul, bent, number("cap", cap));
  }

  Tensor* number(std::string_view step, double value) {
    return node_.scalar_like(step, type_, value);
  }

  // --- what is added to the scores: the mask, and -∞ where a query must not see a key

  Status make_bias() {
    CAMSHAFT_ASSIGN(Tensor* const visible, find_visible());
    if (Tensor* const mask = node_.input(3)) {
      CAMSHAFT_ASSIGN(bias_, mask_bias(mask));
    }
    if (visible) {
      Tensor* const shown = bias_ ? bias_ : number("visible", 0);
      CAMSHAFT_ASSIGN(bias_, select(node_, "bias", visible, shown, number("hidden", kHidden)));
    }
    // By causality alone every query sees the first key.
    const bool may_hide_all = node_.has(3) || node_.has(6) ||
                              node_.integer("left_window_size", -1) >= 0 ||
                              node_.integer("right_window_size", -1) >= 0;
    if (!bias_ || !may_hide_all) return ok_status();
    ir::ReduceAttrs attrs;
    attrs.op = ir::ReduceOp::kMax;
    attrs.axes = {static_cast<int64_t>(bias_->shape.size()) - 1};
    CAMSHAFT_ASSIGN(Tensor* const best,
                    node_.add("best", LayerKind::kReduce, std::move(attrs), {bias_}));
    CAMSHAFT_ASSIGN(sees_any_,
                    node_.binary("sees_any", PointOp::kGreater, best, number("hidden", kHidden)));
    return ok_status();
  }

  // The softmax of nothing is not a number: such a query gives 0.
  Result<Tensor*> zero_where_hidden(Tensor* y) {
    return sees_any_ ? select(node_, "seen", sees_any_, y, number("nothing", 0)) : y;
  }

  Result<Tensor*> mask_bias(Tensor* mask) {
    if (mask->type == DataType::kBool) {
      CAMSHAFT_ASSIGN(mask,
                      select(node_, "mask", mask, number("visible", 0), number("hidden", kHidden)));
    }
    CAMSHAFT_ASSIGN(mask, node_.cast("mask", mask, type_));
    const Dim keys = key_count(), given = mask->shape.back();
    if (given == keys || given == Dim(1)) return mask;
    // A short mask hides the keys it does not name.
    Shape missing = mask->shape;
    missing.back() = node_.symbols().sub(keys, given);
    ir::FillAttrs fill;
    fill.type = type_;
    fill.value = kHidden;
    fill.shape = missing;
    CAMSHAFT_ASSIGN(Tensor* const rest, node_.add("rest", LayerKind::kFill, std::move(fill), {}));
    return node_.add("longer_mask", LayerKind::kConcatenation,
                     ir::AxisAttrs{static_cast<int64_t>(mask->shape.size()) - 1}, {mask, rest});
  }

  Status also(Tensor*& condition, std::string_view step, PointOp op, Tensor* a, Tensor* b) {
    CAMSHAFT_ASSIGN(Tensor* const more, node_.binary(step, op, a, b));
    if (condition) {
      CAMSHAFT_ASSIGN(condition, node_.binary("visible", PointOp::kAnd, condition, more));
    } else {
      condition = more;
    }
    return ok_status();
  }

  // Which keys a query sees by causality, windows and padding: null, all.
  Result<Tensor*> find_visible() {
    const bool causal = node_.flag("is_causal", false);
    const int64_t left = node_.integer("left_window_size", -1),
                  right = node_.integer("right_window_size", -1);
    Tensor* condition = nullptr;
    if (!causal && left < 0 && right < 0 && !node_.has(6)) return condition;
    CAMSHAFT_ASSIGN(Tensor* const key, count_along(node_, k_, 2));
    Tensor* counts = nullptr;  // keys of each item that are no padding
    if (node_.has(6)) {
      CAMSHAFT_ASSIGN(counts, node_.cast("counts", node_.input(6), DataType::kFloat));
      CAMSHAFT_ASSIGN(counts, node_.reshape("counts", counts, {counts->shape[0], 1, 1, 1}));
      CAMSHAFT_TRY(also(condition, "no_padding", PointOp::kLess, key, counts));
    }
    if (!causal && left < 0 && right < 0) return condition;
    CAMSHAFT_ASSIGN(Tensor * position, count_along(node_, q_, 2));
    CAMSHAFT_ASSIGN(position, node_.reshape("queries", position, {q_->shape[2], 1}));
    const Tensor* past = node_.input(4);
    if (past && !(past->shape[2] == Dim(0))) {
      CAMSHAFT_ASSIGN(Tensor* const before, extent_of(node_, node_.input(4), 2));
      CAMSHAFT_ASSIGN(position, node_.binary("position", PointOp::kAdd, position, before));
    } else if (counts) {
      CAMSHAFT_ASSIGN(Tensor* const queries, extent_of(node_, q_, 2));
      CAMSHAFT_ASSIGN(Tensor* const before, node_.binary("before", PointOp::kSub, counts, queries));
      CAMSHAFT_ASSIGN(position, node_.binary("position", PointOp::kAdd, position, before));
    }
    const auto moved = [&](std::string_view step, int64_t by) {
      return node_.binary(step, PointOp::kAdd, position,
                          node_.scalar_like(step, DataType::kFloat, static_cast<double>(by)));
    };
    if (causal) CAMSHAFT_TRY(also(condition, "causal", PointOp::kLessOrEqual, key, position));
    if (left >= 0) {
      CAMSHAFT_ASSIGN(Tensor* const first, moved("first", -left));
      CAMSHAFT_TRY(also(condition, "window", PointOp::kGreaterOrEqual, key, first));
    }
    if (right >= 0) {
      CAMSHAFT_ASSIGN(Tensor* const last, moved("last", right));
      CAMSHAFT_TRY(also(condition, "window", PointOp::kLessOrEqual, key, last));
    }
    return condition;
  }

  Node& node_;
  Tensor *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *bias_ = nullptr, *sees_any_ = nullptr;
  DataType type_ = DataType::kFloat;
  int64_t mode_ = 0;
  float scale_ = 1, softcap_ = 0;
};

bool is_number(Dim dim, int64_t at_least = 1) {
  return dim.is_known() && dim.extent() >= at_least;
}

// Ranks, heads and the depth are known.
bool can_take_apart(Node& node) {
  for (const size_t k : {0, 1, 2, 3, 4, 5, 6})
    if (const Tensor* tensor = node.input(k); tensor && !tensor->has_rank) return false;
  for (const size_t k : {4, 5})
    if (node.has(k) && node.input(k)->shape.size() != 4) return false;
  const size_t rank = node.input(0)->shape.size();
  for (const size_t k : {1, 2})
    if (node.input(k)->shape.size() != rank) return false;
  if (node.has(3) && (node.input(3)->shape.empty() || node.input(3)->shape.size() > 4))
    return false;
  if (!ir::is_floating(node.input(0)->type) || node.has(4) != node.has(5)) return false;
  const int64_t heads = node.integer("q_num_heads", 0), kv_heads = node.integer("kv_num_heads", 0);
  const Shape& q = node.input(0)->shape;
  if (rank == 3)
    return heads > 0 && kv_heads > 0 && heads % kv_heads == 0 && is_number(q[2], heads) &&
           q[2].extent() % heads == 0;
  if (rank != 4 || !is_number(q[3])) return false;
  const Shape& k = node.input(1)->shape;
  return k[1] == q[1] || (is_number(q[1]) && is_number(k[1]) && q[1].extent() % k[1].extent() == 0);
}

Status import_attention(Node& node) {
  CAMSHAFT_TRY(node.require(3, 7));
  node.ignore({"softmax_precision"});  // softmax is computed in float
  return can_take_apart(node) ? Attention(node).run() : import_generic(node);
}

// --- RotaryEmbedding

class Rotation {
 public:
  Rotation(Node& node, int64_t rotated) : node_(node), half_(rotated / 2) {}

  // x [B, T, H, D], or with heads first [B, H, T, D].
  Result<Tensor*> run(Tensor* x, bool heads_first) {
    const bool interleaved = node_.flag("interleaved", false);
    const int64_t depth = x->shape[3].extent();
    CAMSHAFT_ASSIGN(Tensor* const cosine, factors(1, heads_first));
    CAMSHAFT_ASSIGN(Tensor* const sine, factors(2, heads_first));
    CAMSHAFT_ASSIGN(Tensor* const a, part(x, 0, interleaved ? 2 : 1));
    CAMSHAFT_ASSIGN(Tensor* const b, part(x, interleaved ? 1 : half_, interleaved ? 2 : 1));
    CAMSHAFT_ASSIGN(Tensor * real, turned(PointOp::kSub, a, cosine, b, sine));
    CAMSHAFT_ASSIGN(Tensor * imaginary, turned(PointOp::kAdd, a, sine, b, cosine));
    std::vector<Tensor*> parts;
    if (interleaved) {
      CAMSHAFT_ASSIGN(Tensor* const pairs, interleave(real, imaginary));
      parts = {pairs};
    } else {
      parts = {real, imaginary};
    }
    if (depth > 2 * half_) {
      CAMSHAFT_ASSIGN(Tensor* const rest, part(x, 2 * half_, 1, depth - 2 * half_));
      parts.push_back(rest);
    }
    if (parts.size() == 1) return parts[0];
    return node_.add("joined", LayerKind::kConcatenation, ir::AxisAttrs{3}, std::move(parts));
  }

 private:
  // A cache as [B, T, 1, r/2], or with heads first [B, 1, T, r/2].
  Result<Tensor*> factors(size_t k, bool heads_first) {
    Tensor* cache = node_.input(k);
    if (node_.has(3)) {
      CAMSHAFT_ASSIGN(cache, node_.add("lines", LayerKind::kGather, ir::GatherAttrs(),
                                       {cache, node_.input(3)}));
    }
    const Shape& s = cache->shape;
    return node_.reshape("factors", cache,
                         heads_first ? Shape{s[0], 1, s[1], s[2]} : Shape{s[0], s[1], 1, s[2]});
  }

  Result<Tensor*> part(Tensor* x, int64_t first, int64_t step, int64_t size = 0) {
    ir::SliceAttrs attrs;
    attrs.start = {0, 0, 0, first};
    attrs.size = {x->shape[0], x->shape[1], x->shape[2], size > 0 ? size : half_};
    attrs.step = {1, 1, 1, step};
    return node_.add("part", LayerKind::kSlice, std::move(attrs), {x});
  }

  Result<Tensor*> turned(PointOp op, Tensor* a, Tensor* fa, Tensor* b, Tensor* fb) {
    CAMSHAFT_ASSIGN(Tensor* const first, node_.binary("turned", PointOp::kMul, a, fa));
    CAMSHAFT_ASSIGN(Tensor* const second, node_.binary("turned", PointOp::kMul, b, fb));
    return node_.binary("turned", op, first, second);
  }

  Result<Tensor*> interleave(Tensor* a, Tensor* b) {
    const Shape& s = a->shape;
    const Shape column{s[0], s[1], s[2], s[3], 1}, whole{s[0], s[1], s[2], Dim(2 * half_)};
    CAMSHAFT_ASSIGN(Tensor* const left, node_.reshape("column", a, column));
    CAMSHAFT_ASSIGN(Tensor* const right, node_.reshape("column", b, column));
    CAMSHAFT_ASSIGN(Tensor* const pairs,
                    node_.add("pairs", LayerKind::kConcatenation, ir::AxisAttrs{4}, {left, right}));
    return node_.reshape("interleaved", pairs, whole);
  }

  Node& node_;
  int64_t half_;
};

Status import_rotary_embedding(Node& node) {
  CAMSHAFT_TRY(node.require(3, 4));
  Tensor* x = node.input(0);
  const size_t cache_rank = node.has(3) ? 2 : 3;
  for (const size_t k : {0, 1, 2, 3})
    if (node.has(k) && !node.input(k)->has_rank) return import_generic(node);
  const int64_t heads = node.integer("num_heads", 0),
                stated = node.integer("rotary_embedding_dim", 0);
  const size_t rank = x->shape.size();
  const bool heads_first = rank == 4;
  const Dim width = x->shape.empty() ? Dim(0) : x->shape.back();
  if (!ir::is_floating(x->type) || (rank != 3 && rank != 4) || !is_number(width) ||
      node.input(1)->shape.size() != cache_rank || node.input(2)->shape.size() != cache_rank ||
      (rank == 3 && (heads < 1 || width.extent() % heads != 0)) ||
      (node.has(3) && node.input(3)->shape.size() != 2))
    return import_generic(node);
  const int64_t depth = rank == 3 ? width.extent() / heads : width.extent(),
                rotated = stated == 0 ? depth : stated;
  const Dim half = node.input(1)->shape.back();
  if (rotated < 2 || rotated > depth || (half.is_known() && half.extent() != rotated / 2))
    return invalid("caches do not fit {} rotated elements", rotated);
  if (rank == 3) {
    CAMSHAFT_ASSIGN(x, split_heads(node, x, heads));
  }
  CAMSHAFT_ASSIGN(Tensor * y, Rotation(node, rotated).run(x, heads_first));
  if (rank == 3) {
    CAMSHAFT_ASSIGN(y, node.reshape("joined", y, node.input(0)->shape));
  }
  node.give(0, y);
  return ok_status();
}

}  // namespace

std::span<const OperatorRow> attention_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Attention", import_attention},
      {"TensorScatter", import_tensor_scatter},
      {"RotaryEmbedding", import_rotary_embedding},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
