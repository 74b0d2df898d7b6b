// SPDX-License-Identifier: Apache-2.0
// Attention: per query the scores of all keys, their softmax, the mean of the values, in double.
#include <algorithm>
#include <limits>

#include "kernels/attention_shape.h"
#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

// A tensor as [batch, heads, steps, depth], in row-major order.
std::vector<double> load_heads(const TensorView& x, const HeadStrides& strides, int64_t batch,
                               int64_t heads, int64_t steps, int64_t depth) {
  TensorView view = x;
  view.rank = 4;
  const int64_t extents[] = {batch, heads, steps, depth},
                wanted[] = {strides.batch, strides.head, strides.step, strides.element};
  for (int d = 0; d < 4; ++d) view.extents[d] = extents[d], view.strides[d] = wanted[d];
  return load<double>(view);
}

class Attention {
 public:
  Attention(const KernelArgs& args, const AttentionShape& shape)
      : args_(args), attrs_(args.layer->as<ir::AttentionAttrs>()), shape_(shape) {}

  Status run() {
    const TensorView lengths = input(args_, kAttentionLengths);
    windows_ = key_windows(attrs_, shape_, lengths.present());
    for (int64_t b = 0; b < shape_.batch; ++b)
      lengths_.push_back(lengths.present() ? length_of(lengths.data, lengths.type,
                                                       lengths.strides[0], b, shape_.keys)
                                           : shape_.keys);
    const auto load_input = [&](size_t k, const HeadStrides& strides, int64_t heads, int64_t steps,
                                int64_t depth, int64_t zero_point) {
      std::vector<double> values =
          load_heads(args_.inputs[k], strides, shape_.batch, heads, steps, depth);
      for (double& value : values) value -= static_cast<double>(zero_point);
      return values;
    };
    q_ = load_input(0, shape_.q, shape_.heads, shape_.queries, shape_.depth, attrs_.q_zero_point);
    k_ = load_input(1, shape_.k, shape_.kv_heads, shape_.keys, shape_.depth, attrs_.k_zero_point);
    v_ = load_input(2, shape_.v, shape_.kv_heads, shape_.keys, shape_.value_depth,
                    attrs_.v_zero_point);
    const TensorView scores = scores_view(shape_);
    for (size_t k = kFirstAttentionOperand; k < args_.inputs.size(); ++k)
      operands_.push_back(broadcast_to(args_.inputs[k], extents_of(scores)));
    y_.assign(
        static_cast<size_t>(shape_.batch * shape_.heads * shape_.queries * shape_.value_depth), 0);
    std::vector<Status> results(static_cast<size_t>(shape_.batch * shape_.heads * shape_.queries));
    parallel(args_, static_cast<int64_t>(results.size()),
             [&](int64_t row) { results[static_cast<size_t>(row)] = run_row(row); });
    for (Status& status : results) CAMSHAFT_TRY(std::move(status));
    TensorView y = args_.outputs[0];
    y.rank = 4;
    const int64_t extents[] = {shape_.batch, shape_.heads, shape_.queries, shape_.value_depth},
                  strides[] = {shape_.y.batch, shape_.y.head, shape_.y.step, shape_.y.element};
    for (int d = 0; d < 4; ++d) y.extents[d] = extents[d], y.strides[d] = strides[d];
    store(y, y_);
    return ok_status();
  }

 private:
  Status run_row(int64_t row) {
    const int64_t query = row % shape_.queries, head = row / shape_.queries % shape_.heads,
                  b = row / shape_.queries / shape_.heads;
    const int64_t kv = b * shape_.kv_heads + head / shape_.group();
    const double* q = q_.data() + row * shape_.depth;
    const double* keys = k_.data() + kv * shape_.keys * shape_.depth;
    std::vector<double> scores(static_cast<size_t>(shape_.keys));
    for (int64_t j = 0; j < shape_.keys; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < shape_.depth; ++d) sum += q[d] * keys[j * shape_.depth + d];
      scores[static_cast<size_t>(j)] = attrs_.scale * sum;
    }
    CAMSHAFT_TRY(apply_epilogue(b, head, query, scores));
    const KeyRange seen = windows_.seen_by(query, lengths_[static_cast<size_t>(b)]);
    double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = seen.first; j < seen.last; ++j) maximum = std::max(maximum, scores[j]);
    double* y = y_.data() + row * shape_.value_depth;
    const double* values = v_.data() + kv * shape_.keys * shape_.value_depth;
    if (attrs_.of_codes()) return mean_of_codes(scores, maximum, values, y);
    for (int64_t j = seen.first; j < seen.last; ++j) {
      const double weight = std::exp(scores[j] - maximum);
      sum += weight;
      for (int64_t d = 0; d < shape_.value_depth; ++d)
        y[d] += weight * values[j * shape_.value_depth + d];
    }
    const bool is_number = sum > 0;
    for (int64_t d = 0; d < shape_.value_depth; ++d)
      y[d] = is_number || !(attrs_.nan_is_zero || shape_.keys == 0) ? y[d] / sum : 0;
    return ok_status();
  }

  // Weights are rounded to codes once they are normalized.
  Status mean_of_codes(std::vector<double>& weights, double maximum, const double* values,
                       double* y) const {
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - maximum);
    for (double& weight : weights) weight /= sum;
    const int64_t keys[] = {1, 1, 1, shape_.keys}, results[] = {1, 1, 1, shape_.value_depth};
    CAMSHAFT_TRY(reference::apply_epilogue(attrs_.weight_codes, weights, keys, {}));
    std::vector<std::byte> codes(weights.size());
    const TensorView stored = make_view(codes.data(), attrs_.weights, Format::kLinear, keys);
    store<double>(stored, weights);
    weights = load<double>(stored);
    std::vector<double> sums(static_cast<size_t>(shape_.value_depth));
    for (int64_t j = 0; j < shape_.keys; ++j)
      for (int64_t d = 0; d < shape_.value_depth; ++d)
        sums[d] += (weights[j] - static_cast<double>(attrs_.weights_zero_point)) *
                   values[j * shape_.value_depth + d];
    CAMSHAFT_TRY(reference::apply_epilogue(attrs_.result, sums, results, {}));
    std::copy(sums.begin(), sums.end(), y);
    return ok_status();
  }

  Status apply_epilogue(int64_t b, int64_t head, int64_t query, std::vector<double>& scores) const {
    std::vector<TensorView> rows = operands_;
    for (TensorView& view : rows) {
      const int64_t offset = b * view.strides[0] + head * view.strides[1] + query * view.strides[2];
      view.data = view.as<std::byte>() + offset * static_cast<int64_t>(ir::bits_of(view.type) / 8);
      view.extents[0] = view.extents[1] = view.extents[2] = 1;
    }
    const int64_t extents[] = {1, 1, 1, shape_.keys};
    return reference::apply_epilogue(attrs_.epilogue, scores, extents, rows);
  }

  const KernelArgs& args_;
  const ir::AttentionAttrs& attrs_;
  const AttentionShape& shape_;
  KeyWindows windows_;
  std::vector<int64_t> lengths_;
  std::vector<TensorView> operands_;
  std::vector<double> q_, k_, v_, y_;
};

Status attention(const KernelArgs& args) {
  AttentionShape shape;
  if (!attention_shape(args.layer->as<ir::AttentionAttrs>(), args.inputs, args.outputs[0], shape))
    return make_error(ErrorCode::kInvalidArgument, "queries, keys and values do not match");
  if (args.outputs[0].elements() == 0) return ok_status();
  return Attention(args, shape).run();
}

}  // namespace

std::span<const KindRow> attention_kinds() {
  static constexpr KindRow kRows[] = {{ir::LayerKind::kAttention, {attention, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
