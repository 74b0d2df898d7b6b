// SPDX-License-Identifier: Apache-2.0
// DecoderMaskedMultiHeadAttention of domain com.microsoft: one new token of each sequence. Its keys
// and values go into buffers that hold those of earlier ones (AppendRows); of beam search, the past
// of a beam lies where `cache_indirection` says.
#include "ir/append_rows.h"
#include "onnx/heads_attention.h"
#include "onnx/ops_contrib.h"

namespace camshaft::onnx_import {
namespace {

// Inputs: query (or queries, keys and values together), key, value, mask_index, attention_bias,
// past_key, past_value, past_sequence_length, beam_width, cache_indirection, bias. Keys and values
// of an encoder come by heads and without a past. Outputs: y, present keys and values, scores.
class DecoderStep {
 public:
  explicit DecoderStep(Node& node) : node_(node), attention_(node) {}

  Status run() {
    node_.ignore({"output_qk"});  // output 3 is there or is not
    CAMSHAFT_TRY(read());
    return node_.has(5) ? behind_past() : over_encoder();
  }

 private:
  Status read() {
    CAMSHAFT_TRY(node_.require(1, 11));
    CAMSHAFT_TRY(attention_.check());
    if (node_.has(1) != node_.has(2)) return invalid("keys without values");
    if (node_.has(5) != node_.has(6)) return invalid("past keys without values");
    q_ = node_.input(0);
    k_ = node_.input(1);
    v_ = node_.input(2);
    CAMSHAFT_TRY(attention_.check_rows(q_, "a query"));
    return k_ ? ok_status() : take_apart();
  }

  // Values are as wide as keys: the operator cannot say otherwise.
  Status take_apart() {
    Tensor* const all = q_;
    const int64_t width = all->shape[2].extent() / 3;
    if (width * 3 != all->shape[2].extent()) return invalid("queries, keys and values together");
    CAMSHAFT_ASSIGN(q_, part_of(node_, "q", all, 0, width));
    CAMSHAFT_ASSIGN(k_, part_of(node_, "k", all, width, width));
    CAMSHAFT_ASSIGN(v_, part_of(node_, "v", all, 2 * width, width));
    return attention_.check_rows(q_, "a query");
  }

  Status over_encoder() {
    for (const Tensor* x : {k_, v_})
      if (!x->has_rank || x->shape.size() != 4)
        return unsupported("keys without a past that are not of rank 4");
    if (Tensor* const bias = node_.input(10)) {
      CAMSHAFT_ASSIGN(q_, biased(node_, q_, bias, 0));
    }
    return attention_.run_apart(q_, k_, v_, nullptr, nullptr, 3, 4);
  }

  Status behind_past() {
    CAMSHAFT_TRY(attention_.check_rows(k_, "a key"));
    CAMSHAFT_TRY(attention_.check_rows(v_, "a value"));
    for (const size_t n : {5, 6})
      if (!node_.input(n)->has_rank || node_.input(n)->shape.size() != 4)
        return unsupported("a cache that is not of rank 4");
    if (Tensor* const bias = node_.input(10)) {
      CAMSHAFT_ASSIGN(q_, biased(node_, q_, bias, 0));
      const int64_t width = q_->shape[2].extent();
      CAMSHAFT_ASSIGN(k_, biased(node_, k_, bias, width));
      CAMSHAFT_ASSIGN(v_, biased(node_, v_, bias, 2 * width));
    }
    if (!node_.flag("past_present_share_buffer", false)) {
      if (node_.has(9)) return unsupported("beams without buffers");
      return attention_.run_apart(q_, k_, v_, node_.input(5), node_.input(6), 3, 4);
    }
    return on_buffers();
  }

  Status on_buffers() {
    if (node_.wants(3)) return unsupported("scores over buffers as an output");
    if (!node_.has(7)) return invalid("no past_sequence_length");
    CAMSHAFT_ASSIGN(past_, node_.cast("past", node_.input(7), DataType::kInt64));
    CAMSHAFT_ASSIGN(past_, node_.reshape("past", past_, {Dim(1)}));
    CAMSHAFT_ASSIGN(k_, appended(k_, 5, 1));
    CAMSHAFT_ASSIGN(v_, appended(v_, 6, 2));
    if (node_.has(9)) {
      CAMSHAFT_ASSIGN(Tensor* const rows, rows_of_beams());
      CAMSHAFT_ASSIGN(k_, of_beams(k_, rows));
      CAMSHAFT_ASSIGN(v_, of_beams(v_, rows));
    }
    CAMSHAFT_ASSIGN(Tensor* const length,
                    node_.binary("length", PointOp::kAdd, past_,
                                 node_.scalar_like("one", DataType::kInt64, 1)));
    CAMSHAFT_ASSIGN(Tensor* const lengths,
                    node_.add("lengths", LayerKind::kExpand,
                              ir::ShapeAttrs{true, Shape{q_->shape[0]}}, {length}));
    return attention_.run_on_buffers(q_, k_, v_, lengths, 3, 4);
  }

  Result<Tensor*> appended(Tensor* fresh, size_t past, size_t output) {
    CAMSHAFT_ASSIGN(fresh, by_heads(node_, fresh, attention_.heads()));
    CAMSHAFT_ASSIGN(Tensor* const whole,
                    node_.add("present", LayerKind::kGeneric, ir::append_attributes(2),
                              {node_.input(past), fresh, past_}));
    node_.give(output, whole);
    return whole;
  }

  // [B * beams, 1, T, 1]: the row of the buffers that holds step t of a beam. Only of the past:
  // cache_indirection says nothing of later steps.
  Result<Tensor*> rows_of_beams() {
    Tensor* from = node_.input(9);
    if (!from->has_rank || from->shape.size() != 3) return unsupported("cache_indirection");
    const Shape shape = from->shape;
    if (shape[2] != k_->shape[2]) return unsupported("beams of another length than the buffers");
    CAMSHAFT_ASSIGN(from, node_.cast("from", from, DataType::kInt64));
    CAMSHAFT_ASSIGN(Tensor * own, positions_from(node_, nullptr, q_, 0));
    CAMSHAFT_ASSIGN(own, node_.reshape("own", own, {shape[0], shape[1], Dim(1)}));
    ir::SliceAttrs first;
    first.size = {shape[0], Dim(1), Dim(1)};
    first.start = Shape(3, Dim(0));
    first.step = ir::Ints(3, 1);
    CAMSHAFT_ASSIGN(Tensor* const firsts, node_.add("firsts", LayerKind::kSlice, first, {own}));
    CAMSHAFT_ASSIGN(from, node_.binary("rows", PointOp::kAdd, from, firsts));
    CAMSHAFT_ASSIGN(Tensor* const steps, positions_from(node_, nullptr, k_, 2));
    CAMSHAFT_ASSIGN(Tensor* const is_past, node_.binary("is_past", PointOp::kLess, steps, past_));
    CAMSHAFT_ASSIGN(from, node_.add("rows", LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                                    {is_past, from, own}));
    return node_.reshape("rows", from, {q_->shape[0], Dim(1), shape[2], Dim(1)});
  }

  Result<Tensor*> of_beams(Tensor* x, Tensor* rows) {
    CAMSHAFT_ASSIGN(rows,
                    node_.add("rows", LayerKind::kExpand, ir::ShapeAttrs{true, x->shape}, {rows}));
    ir::GatherAttrs attrs;
    attrs.mode = ir::GatherMode::kElements;
    attrs.axis = 0;
    return node_.add("of_beams", LayerKind::kGather, attrs, {x, rows});
  }

  Node& node_;
  HeadsAttention attention_;
  Tensor *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *past_ = nullptr;
};

}  // namespace

Status import_decoder_attention(Node& node) {
  return DecoderStep(node).run();
}

}  // namespace camshaft::onnx_import
