// SPDX-License-Identifier: Apache-2.0
// GroupQueryAttention of domain com.microsoft: rotary embedding, keys and values behind those of
// earlier steps (AppendRows), the layer Attention with lengths. The past may be as long as what is
// in it, so that the present is longer; or a buffer with room for the new rows (its caller gives
// past and present the same memory). Items of a batch may have lengths of their own.
#include <cmath>

#include "ir/append_rows.h"
#include "onnx/heads_attention.h"
#include "onnx/ops_contrib.h"

namespace camshaft::onnx_import {
namespace {

// Inputs: query (or queries, keys and values together), key, value, past key and value, lengths
// less one, total length, caches of cosines and sines, positions, bias.
class GroupedQueries {
 public:
  explicit GroupedQueries(Node& node) : node_(node) {}

  Status run() {
    CAMSHAFT_TRY(read());
    CAMSHAFT_TRY(find_lengths());
    if (node_.flag("do_rotary", false)) CAMSHAFT_TRY(rotate_heads());
    CAMSHAFT_ASSIGN(k_, present(k_, 3, 1));
    CAMSHAFT_ASSIGN(v_, present(v_, 4, 2));
    return attend();
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
    if (!node_.has(5) || !node_.has(6)) return unsupported("no lengths");
    if (node_.has(3) != node_.has(4)) return invalid("past keys without values");
    for (const size_t k : {3, 4})
      if (node_.has(k) && (!node_.input(k)->has_rank || node_.input(k)->shape.size() != 4))
        return unsupported("a cache that is not of rank 4");
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

  // Keys of each item, new ones included, and where the new ones begin. All new tokens count, those
  // behind the end of a short item of a prompt, too: no earlier token sees them.
  Status find_lengths() {
    CAMSHAFT_ASSIGN(Tensor * last, node_.cast("last", node_.input(5), DataType::kInt64));
    CAMSHAFT_ASSIGN(last, node_.reshape("last", last, {q_->shape[0]}));
    CAMSHAFT_ASSIGN(Tensor* const given,
                    node_.binary("given_lengths", PointOp::kAdd, last,
                                 node_.scalar_like("one", DataType::kInt64, 1)));
    Tensor* fresh = nullptr;
    if (q_->shape[1].is_known()) {
      fresh = node_.scalar_like("new_tokens", DataType::kInt64,
                                static_cast<double>(q_->shape[1].extent()));
    } else {
      CAMSHAFT_ASSIGN(fresh,
                      node_.add("new_tokens", LayerKind::kShapeOf, ir::ShapeOfAttrs{1, 2}, {q_}));
    }
    CAMSHAFT_ASSIGN(lengths_, node_.binary("lengths", PointOp::kMax, given, fresh));
    CAMSHAFT_ASSIGN(first_, node_.binary("first", PointOp::kSub, lengths_, fresh));
    return ok_status();
  }

  Status rotate_heads() {
    if (!node_.has(7) || !node_.has(8)) return invalid("do_rotary without cosines and sines");
    CAMSHAFT_ASSIGN(const size_t cache_rank, node_.rank(7));
    if (cache_rank != 2) return invalid("a cache of cosines of rank {}", cache_rank);
    Tensor* positions = node_.input(9);
    if (!positions) {
      CAMSHAFT_ASSIGN(Tensor* const first,
                      node_.reshape("first_positions", first_, {q_->shape[0], Dim(1)}));
      CAMSHAFT_ASSIGN(positions, positions_from(node_, first, q_, 1));
    }
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

  // Keys or values by heads, behind those of the past.
  Result<Tensor*> present(Tensor* x, size_t past, size_t output) {
    CAMSHAFT_ASSIGN(x, by_heads(node_, x, kv_heads_));
    if (Tensor* const before = node_.input(past)) {
      CAMSHAFT_ASSIGN(x, node_.add("present", LayerKind::kGeneric, ir::append_attributes(2),
                                   {before, x, first_, node_.input(6)}));
    }
    node_.give(output, x);
    return node_.cast("heads", x, q_->type);
  }

  Status attend() {
    ir::AttentionAttrs attrs;
    attrs.heads = heads_;
    attrs.q_steps_first = attrs.y_steps_first = true;
    const float scale = node_.real("scale", 0);
    attrs.scale =
        scale != 0 ? scale : static_cast<float>(1 / std::sqrt(static_cast<double>(depth_)));
    attrs.right_window = 0;
    if (const int64_t window = node_.integer("local_window_size", -1); window > 0)
      attrs.left_window = window - 1;
    std::vector<Tensor*> inputs = {q_, k_, v_, lengths_};
    ir::Program& program = attrs.epilogue;
    int score = 0;
    program.num_inputs = node_.has(10) ? 2 : 1;
    if (const float cap = node_.real("softcap", 0); cap != 0) {
      const auto by = [&](PointOp op, int value) {
        return ir::append(program, op, value,
                          ir::append(program, PointOp::kConst, -1, -1, -1, cap));
      };
      score = by(PointOp::kMul, ir::append(program, PointOp::kTanh, by(PointOp::kDiv, 0)));
    }
    if (node_.has(10)) {
      CAMSHAFT_ASSIGN(Tensor * bias, node_.cast("bias", node_.input(10), q_->type));
      CAMSHAFT_ASSIGN(bias, for_all_rows(node_, bias, k_->shape[2]));
      inputs.push_back(bias);
      ir::append(program, PointOp::kAdd, score, 1);
    }
    if (program.code.empty()) program.num_inputs = 0;
    CAMSHAFT_ASSIGN(Tensor* const y, node_.add("heads_mixed", LayerKind::kAttention,
                                               std::move(attrs), std::move(inputs)));
    node_.give(0, y);
    return ok_status();
  }

  Node& node_;
  int64_t heads_ = 0, kv_heads_ = 0, depth_ = 0;
  Tensor *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;
  Tensor *lengths_ = nullptr, *first_ = nullptr;
};

}  // namespace

Status import_grouped_queries(Node& node) {
  node.ignore({"do_rotary", "rotary_interleaved"});
  return GroupedQueries(node).run();
}

}  // namespace camshaft::onnx_import
