// SPDX-License-Identifier: Apache-2.0
// Attention and MultiHeadAttention of domain com.microsoft, as the layer Attention: projections,
// the masks they know and the cache become what that reads.
#include <cmath>

#include "onnx/ops_attention.h"
#include "onnx/ops_quantized.h"

namespace camshaft::onnx_import {
namespace {

// Elements [first, first + size) of the last dimension.
Result<Tensor*> part_of(Node& node, std::string_view step, Tensor* x, int64_t first, int64_t size) {
  ir::SliceAttrs attrs;
  attrs.size = x->shape;
  attrs.size.back() = size;
  attrs.start = Shape(x->shape.size(), Dim(0));
  attrs.start.back() = first;
  attrs.step = ir::Ints(x->shape.size(), 1);
  return node.add(step, LayerKind::kSlice, std::move(attrs), {x});
}

class HeadsAttention {
 public:
  explicit HeadsAttention(Node& node) : node_(node), heads_(node.integer("num_heads", 0)) {
    attrs_.heads = attrs_.kv_heads = heads_;
    attrs_.q_steps_first = attrs_.y_steps_first = true;
  }

  Status check() const {
    if (heads_ < 1) return invalid("num_heads is {}", heads_);
    if (node_.flag("do_rotary", false)) return unsupported("do_rotary");
    return ok_status();
  }

  // Rows of `heads` heads: the width is known and can be divided.
  Status check_rows(const Tensor* x, const char* what) const {
    if (!x->has_rank || x->shape.size() != 3) return unsupported("{} that is not of rank 3", what);
    if (!x->shape[2].is_known() || x->shape[2].extent() % heads_ != 0)
      return unsupported("{} whose width is no multiple of {} heads", what, heads_);
    return ok_status();
  }

  // Keys or values: rows, or heads, behind what a cache holds of them.
  Result<Tensor*> with_past(Tensor* x, Tensor* past, bool is_wanted, bool& steps_first) {
    steps_first = x->shape.size() == 3 && !past && !is_wanted;
    if (steps_first) return x;
    CAMSHAFT_ASSIGN(x, by_heads(node_, x, heads_));
    if (past) {
      if (!past->has_rank || past->shape.size() != 4)
        return unsupported("a cache that is not of rank 4");
      CAMSHAFT_ASSIGN(x,
                      node_.add("present", LayerKind::kConcatenation, ir::AxisAttrs{2}, {past, x}));
    }
    return x;
  }

  // [2, B, H, T, D], as Attention has them: keys, then values.
  Result<Tensor*> unpacked(Tensor* past, int64_t index) {
    if (!past->has_rank || past->shape.size() != 5) return unsupported("a past not of rank 5");
    ir::SliceAttrs attrs;
    attrs.size = past->shape;
    attrs.size[0] = 1;
    attrs.start = Shape(5, Dim(0));
    attrs.start[0] = index;
    attrs.step = ir::Ints(5, 1);
    CAMSHAFT_ASSIGN(Tensor* const part,
                    node_.add("past", LayerKind::kSlice, std::move(attrs), {past}));
    return node_.reshape("past", part, Shape(past->shape.begin() + 1, past->shape.end()));
  }
  Result<Tensor*> packed(Tensor* k, Tensor* v) {
    std::vector<Tensor*> parts;
    for (Tensor* x : {k, v}) {
      Shape shape = {Dim(1)};
      for (const Dim extent : x->shape) shape.push_back(extent);
      CAMSHAFT_ASSIGN(Tensor* const part, node_.reshape("present", x, shape));
      parts.push_back(part);
    }
    return node_.add("present", LayerKind::kConcatenation, ir::AxisAttrs{0}, std::move(parts));
  }

  // The past in one tensor, or none; the present in output 1.
  Status run_packed(Tensor* q, Tensor* k, Tensor* v, Tensor* past, size_t mask, size_t bias) {
    Tensor *past_k = nullptr, *past_v = nullptr;
    if (past) {
      CAMSHAFT_ASSIGN(past_k, unpacked(past, 0));
      CAMSHAFT_ASSIGN(past_v, unpacked(past, 1));
    }
    const bool is_wanted = node_.wants(1);
    CAMSHAFT_ASSIGN(k, with_past(k, past_k, is_wanted, attrs_.k_steps_first));
    CAMSHAFT_ASSIGN(v, with_past(v, past_v, is_wanted, attrs_.v_steps_first));
    if (is_wanted) {
      CAMSHAFT_ASSIGN(Tensor* const present, packed(k, v));
      node_.give(1, present);
    }
    return run(q, k, v, past_k, mask, bias);
  }

  // Keys in output 1, values in output 2.
  Status run_apart(Tensor* q, Tensor* k, Tensor* v, Tensor* past_k, Tensor* past_v, size_t mask,
                   size_t bias) {
    CAMSHAFT_ASSIGN(k, with_past(k, past_k, node_.wants(1), attrs_.k_steps_first));
    CAMSHAFT_ASSIGN(v, with_past(v, past_v, node_.wants(2), attrs_.v_steps_first));
    if (!attrs_.k_steps_first) node_.give(1, k);
    if (!attrs_.v_steps_first) node_.give(2, v);
    return run(q, k, v, past_k, mask, bias);
  }

 private:
  Status run(Tensor* q, Tensor* k, Tensor* v, const Tensor* past_k, size_t mask, size_t bias) {
    const double depth = static_cast<double>(q->shape[2].extent() / heads_);
    attrs_.scale = node_.real("scale", 0);
    if (attrs_.scale == 0) attrs_.scale = static_cast<float>(1 / std::sqrt(depth));
    if (node_.flag("unidirectional", false)) {
      attrs_.right_window = 0;
      if (past_k) attrs_.first_query = {past_k->shape[2]};
    }
    inputs_ = {q, k, v, nullptr};
    CAMSHAFT_TRY(take_mask(node_.input(mask)));
    if (Tensor* const added = node_.input(bias)) add_operand(added);
    if (inputs_.size() == 4 && !inputs_[3]) inputs_.pop_back();
    attrs_.epilogue.num_inputs = operands_ + 1;
    int sum = 0;
    for (int n = 1; n <= operands_; ++n) sum = ir::append(attrs_.epilogue, PointOp::kAdd, sum, n);
    if (operands_ == 0) attrs_.epilogue = {};
    CAMSHAFT_ASSIGN(Tensor* const y, node_.add("heads_mixed", LayerKind::kAttention,
                                               std::move(attrs_), std::move(inputs_)));
    node_.give(0, y);
    return ok_status();
  }

  void add_operand(Tensor* x) {
    inputs_.push_back(x);
    ++operands_;
  }

  // Lengths [B], or where keys are seen: [B, T] or [B, S, T].
  Status take_mask(Tensor* mask) {
    if (!mask) return ok_status();
    if (!mask->has_rank) return unsupported("a mask of unknown rank");
    const Shape& s = mask->shape;
    const Shape& q = inputs_[0]->shape;
    if (s.size() == 1) {
      if (s[0] != q[0]) return unsupported("a mask of starts and ends");
      inputs_[3] = mask;
      return ok_status();
    }
    if (s.size() != 2 && s.size() != 3) return unsupported("a mask of rank {}", s.size());
    CAMSHAFT_ASSIGN(Tensor* const seen, node_.cast("seen", mask, DataType::kBool));
    const float filter = node_.real("mask_filter_value", -10000.0f);
    CAMSHAFT_ASSIGN(Tensor * added,
                    node_.add("mask", LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                              {seen, node_.scalar_like("visible", inputs_[0]->type, 0),
                               node_.scalar_like("hidden", inputs_[0]->type, filter)}));
    CAMSHAFT_ASSIGN(
        added, node_.reshape("mask", added,
                             s.size() == 2 ? Shape{s[0], 1, 1, s[1]} : Shape{s[0], 1, s[1], s[2]}));
    add_operand(added);
    return ok_status();
  }

  Node& node_;
  int64_t heads_;
  ir::AttentionAttrs attrs_;
  std::vector<Tensor*> inputs_;
  int operands_ = 0;
};

// Inputs: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value.
Status import_multi_head_attention(Node& node) {
  CAMSHAFT_TRY(node.require(3, 8));
  HeadsAttention attention(node);
  CAMSHAFT_TRY(attention.check());
  if (node.wants(3)) return unsupported("the scores as an output");
  Tensor *q = node.input(0), *k = node.input(1), *v = node.input(2);
  CAMSHAFT_TRY(attention.check_rows(q, "a query"));
  const bool are_heads = k->has_rank && k->shape.size() == 4 && v->has_rank && v->shape.size() == 4;
  if (!are_heads) {
    CAMSHAFT_TRY(attention.check_rows(k, "a key"));
    CAMSHAFT_TRY(attention.check_rows(v, "a value"));
  }
  if (Tensor* const bias = node.input(3)) {
    const int64_t width = q->shape[2].extent();
    int64_t first = 0;
    for (Tensor** x : {&q, &k, &v}) {
      const int64_t size = x == &v && !are_heads ? v->shape[2].extent() : width;
      if (x == &q || !are_heads) {
        CAMSHAFT_ASSIGN(Tensor* const part, part_of(node, "bias", bias, first, size));
        CAMSHAFT_ASSIGN(*x, node.binary("biased", PointOp::kAdd, *x, part));
      }
      first += size;
    }
  }
  return attention.run_apart(q, k, v, node.input(6), node.input(7), 4, 5);
}

// Queries, keys and values side by side, `whole` columns; which inputs are mask_index, past and
// attention_bias.
Status attend(Node& node, Tensor* all, int64_t whole, size_t mask, size_t past, size_t bias) {
  HeadsAttention attention(node);
  CAMSHAFT_TRY(attention.check());
  if (node.flag("past_present_share_buffer", false))
    return unsupported("a past that shares the memory of the present");
  ir::Ints sizes = node.integers("qkv_hidden_sizes");
  if (sizes.empty()) sizes = {whole / 3, whole / 3, whole / 3};
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != whole)
    return invalid("qkv_hidden_sizes do not make {} columns", whole);
  Tensor* parts[3];
  int64_t first = 0;
  for (size_t n = 0; n < 3; first += sizes[n++]) {
    CAMSHAFT_ASSIGN(parts[n], part_of(node, "part", all, first, sizes[n]));
    CAMSHAFT_TRY(attention.check_rows(parts[n], "a projection"));
  }
  return attention.run_packed(parts[0], parts[1], parts[2], node.input(past), mask, bias);
}

Result<int64_t> columns_of(const Tensor* weights) {
  if (!weights->has_rank || weights->shape.size() != 2 || !weights->shape[1].is_known())
    return unsupported("weights of unknown shape");
  return weights->shape[1].extent();
}

// Inputs: input, weights, bias, mask_index, past, attention_bias.
Status import_packed_attention(Node& node) {
  CAMSHAFT_TRY(node.require(2, 6));
  node.ignore({"rotary_embedding_dim"});
  CAMSHAFT_ASSIGN(const int64_t columns, columns_of(node.input(1)));
  std::vector<Tensor*> inputs = {node.input(0), node.input(1)};
  if (node.has(2)) inputs.push_back(node.input(2));
  CAMSHAFT_ASSIGN(Tensor* const all, node.add("projected", LayerKind::kMatrixMultiply,
                                              ir::MatrixMultiplyAttrs{}, std::move(inputs)));
  return attend(node, all, columns, 3, 4, 5);
}

// What quantize_dynamic makes of it. Inputs: input and weights as codes, bias, their scales,
// mask_index, their zero points, past.
Status import_quantized_attention(Node& node) {
  CAMSHAFT_TRY(node.require(5, 9));
  node.ignore({"rotary_embedding_dim"});
  CAMSHAFT_ASSIGN(const int64_t columns, columns_of(node.input(1)));
  CAMSHAFT_ASSIGN(Tensor* const all,
                  code_product(node, {node.input(0), node.input(1), node.input(3), node.input(4),
                                      node.input(6), node.input(7), node.input(2)}));
  constexpr size_t kNone = 9;
  return attend(node, all, columns, 5, 8, kNone);
}

}  // namespace

std::span<const OperatorRow> microsoft_attention_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Attention", import_packed_attention},
      {"MultiHeadAttention", import_multi_head_attention},
      {"QAttention", import_quantized_attention},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
