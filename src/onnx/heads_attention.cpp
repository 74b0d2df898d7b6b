// SPDX-License-Identifier: Apache-2.0
#include "onnx/heads_attention.h"

#include <cmath>

namespace camshaft::onnx_import {

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

Result<Tensor*> biased(Node& node, Tensor* x, Tensor* bias, int64_t first) {
  CAMSHAFT_ASSIGN(Tensor* const part, part_of(node, "bias", bias, first, x->shape[2].extent()));
  return node.binary("biased", PointOp::kAdd, x, part);
}

Result<Tensor*> for_all_rows(Node& node, Tensor* added, Dim rows) {
  if (!added->has_rank || added->shape.empty()) return unsupported("a bias of unknown rank");
  const Dim given = added->shape.back();
  if (given == rows || given == Dim(1)) return added;
  ir::FillAttrs fill;
  fill.type = added->type;
  fill.shape = added->shape;
  fill.shape.back() = node.symbols().sub(rows, given);
  CAMSHAFT_ASSIGN(Tensor* const rest, node.add("unseen", LayerKind::kFill, std::move(fill), {}));
  return node.add("whole_bias", LayerKind::kConcatenation,
                  ir::AxisAttrs{static_cast<int64_t>(added->shape.size()) - 1}, {added, rest});
}

HeadsAttention::HeadsAttention(Node& node) : node_(node), heads_(node.integer("num_heads", 0)) {
  attrs_.heads = attrs_.kv_heads = heads_;
  attrs_.q_steps_first = attrs_.y_steps_first = true;
}

Status HeadsAttention::check() const {
  if (heads_ < 1) return invalid("num_heads is {}", heads_);
  if (node_.flag("do_rotary", false)) return unsupported("do_rotary");
  return ok_status();
}

Status HeadsAttention::check_rows(const Tensor* x, const char* what) const {
  if (!x->has_rank || x->shape.size() != 3) return unsupported("{} that is not of rank 3", what);
  if (!x->shape[2].is_known() || x->shape[2].extent() % heads_ != 0)
    return unsupported("{} whose width is no multiple of {} heads", what, heads_);
  return ok_status();
}

// Keys or values: rows, or heads, behind what a cache holds of them.
Result<Tensor*> HeadsAttention::with_past(Tensor* x, Tensor* past, bool is_wanted,
                                          bool& steps_first) {
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
Result<Tensor*> HeadsAttention::unpacked(Tensor* past, int64_t index) {
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

Result<Tensor*> HeadsAttention::packed(Tensor* k, Tensor* v) {
  std::vector<Tensor*> parts;
  for (Tensor* x : {k, v}) {
    Shape shape = {Dim(1)};
    for (const Dim extent : x->shape) shape.push_back(extent);
    CAMSHAFT_ASSIGN(Tensor* const part, node_.reshape("present", x, shape));
    parts.push_back(part);
  }
  return node_.add("present", LayerKind::kConcatenation, ir::AxisAttrs{0}, std::move(parts));
}

Status HeadsAttention::run_packed(Tensor* q, Tensor* k, Tensor* v, Tensor* past, size_t mask,
                                  size_t bias) {
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

Status HeadsAttention::run_apart(Tensor* q, Tensor* k, Tensor* v, Tensor* past_k, Tensor* past_v,
                                 size_t mask, size_t bias) {
  gives_scores_ = node_.wants(3);
  CAMSHAFT_ASSIGN(k, with_past(k, past_k, node_.wants(1), attrs_.k_steps_first));
  CAMSHAFT_ASSIGN(v, with_past(v, past_v, node_.wants(2), attrs_.v_steps_first));
  if (!attrs_.k_steps_first) node_.give(1, k);
  if (!attrs_.v_steps_first) node_.give(2, v);
  return run(q, k, v, past_k, mask, bias);
}

Status HeadsAttention::run_on_buffers(Tensor* q, Tensor* k, Tensor* v, Tensor* lengths, size_t mask,
                                      size_t bias) {
  lengths_ = lengths;
  buffer_rows_ = k->shape[2];
  return run(q, k, v, nullptr, mask, bias);
}

Status HeadsAttention::run(Tensor* q, Tensor* k, Tensor* v, const Tensor* past_k, size_t mask,
                           size_t bias) {
  const auto depth = static_cast<double>(q->shape[2].extent() / heads_);
  attrs_.scale = node_.real("scale", 0);
  if (attrs_.scale == 0) attrs_.scale = static_cast<float>(1 / std::sqrt(depth));
  if (node_.flag("unidirectional", false)) {
    attrs_.right_window = 0;
    if (past_k) attrs_.first_query = {past_k->shape[2]};
  }
  inputs_ = {q, k, v, nullptr};
  CAMSHAFT_TRY(take_mask(node_.input(mask)));
  if (Tensor* const added = node_.input(bias)) CAMSHAFT_TRY(add_operand(added));
  if (lengths_) inputs_[3] = lengths_;
  if (gives_scores_) CAMSHAFT_TRY(give_scores());
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

// Lengths [B], or where keys are seen: [B, T] or [B, S, T].
Status HeadsAttention::take_mask(Tensor* mask) {
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
  return add_operand(added);
}

// What SoftMax would read.
Status HeadsAttention::give_scores() {
  if (inputs_[3] || node_.flag("unidirectional", false))
    return unsupported("scores of keys that are not all seen as an output");
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = true;
  attrs.alpha = attrs_.scale;
  CAMSHAFT_ASSIGN(Tensor* const q, by_heads(node_, inputs_[0], heads_));
  CAMSHAFT_ASSIGN(Tensor* const k, by_heads(node_, inputs_[1], heads_));
  CAMSHAFT_ASSIGN(Tensor * scores,
                  node_.add("scores", LayerKind::kMatrixMultiply, std::move(attrs), {q, k}));
  for (size_t n = 4; n < inputs_.size(); ++n) {
    CAMSHAFT_ASSIGN(scores, node_.binary("scores", PointOp::kAdd, scores, inputs_[n]));
  }
  node_.give(3, scores);
  return ok_status();
}

Status HeadsAttention::add_operand(Tensor* x) {
  if (buffer_rows_) {
    CAMSHAFT_ASSIGN(x, for_all_rows(node_, x, *buffer_rows_));
  }
  inputs_.push_back(x);
  ++operands_;
  return ok_status();
}

}  // namespace camshaft::onnx_import
