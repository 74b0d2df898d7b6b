// SPDX-License-Identifier: Apache-2.0
// LRN, LpNormalization, MeanVarianceNormalization, BatchNormalization (training), the two losses.
#include <algorithm>
#include <limits>

#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

Status lrn(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require_rank(0, 2));
  const Extents extents = call.extents(0);
  const int64_t size = call.integer("size", 1);
  if (size < 1) return make_error(ErrorCode::kInvalidArgument, "LRN over {} channels", size);
  const double alpha = call.real("alpha", 1e-4) / static_cast<double>(size),
               beta = call.real("beta", 0.75), bias = call.real("bias", 1);
  const std::vector<double> x = call.doubles(0);
  std::vector<double> y(x.size());
  const Lines lines = lines_of(extents, 1);
  for (int64_t k = 0; k < static_cast<int64_t>(x.size()); ++k) {
    const int64_t c = k / lines.inner % lines.count, start = k - c * lines.inner;
    double sum = 0;
    for (int64_t other = std::max<int64_t>(0, c - (size - 1) / 2);
         other <= std::min(lines.count - 1, c + size / 2); ++other)
      sum += x[start + other * lines.inner] * x[start + other * lines.inner];
    y[k] = x[k] / std::pow(bias + alpha * sum, beta);
  }
  outputs.push_back(produce(call.in(0).type, extents, y));
  return ok_status();
}

Status lp_normalization(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require_rank(0, 1));
  CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(call.integer("axis", -1), call.in(0).rank));
  const int64_t p = call.integer("p", 2);
  if (p != 1 && p != 2)
    return make_error(ErrorCode::kInvalidArgument, "LpNormalization with p = {}", p);
  std::vector<double> x = call.doubles(0);
  const Lines lines = lines_of(call.extents(0), axis);
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      double* first = x.data() + o * lines.count * lines.inner + i;
      double norm = 0;
      for (int64_t k = 0; k < lines.count; ++k)
        norm += p == 1 ? std::abs(first[k * lines.inner])
                       : first[k * lines.inner] * first[k * lines.inner];
      if (p == 2) norm = std::sqrt(norm);
      for (int64_t k = 0; k < lines.count; ++k)
        first[k * lines.inner] = norm == 0 ? 0 : first[k * lines.inner] / norm;
    }
  }
  outputs.push_back(produce(call.in(0).type, call.extents(0), x));
  return ok_status();
}

// Number of the group each element belongs to, when the dimensions in `axes` are averaged over.
Result<Ints> group_numbers(const Extents& extents, const Ints& axes) {
  Ints strides(extents.size(), 0), groups;
  std::vector<bool> averaged(extents.size(), false);
  for (int64_t axis : axes) {
    CAMSHAFT_ASSIGN(const int64_t d, normalize_axis(axis, static_cast<int64_t>(extents.size())));
    averaged[d] = true;
  }
  int64_t stride = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    if (averaged[d]) continue;
    strides[d] = stride;
    stride *= extents[d];
  }
  for_each_index(extents,
                 [&](const Extents& index) { groups.push_back(offset_of(index, strides)); });
  return groups;
}

struct GroupMoments {
  std::vector<double> mean, variance;
};
GroupMoments moments_of(const std::vector<double>& x, const Ints& groups) {
  const int64_t count = groups.empty() ? 0 : *std::max_element(groups.begin(), groups.end()) + 1;
  GroupMoments m{std::vector<double>(count), std::vector<double>(count)};
  const double share = count == 0 ? 1 : static_cast<double>(x.size()) / static_cast<double>(count);
  for (size_t k = 0; k < x.size(); ++k) m.mean[groups[k]] += x[k] / share;
  for (size_t k = 0; k < x.size(); ++k)
    m.variance[groups[k]] += (x[k] - m.mean[groups[k]]) * (x[k] - m.mean[groups[k]]) / share;
  return m;
}

Status mean_variance_normalization(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  const Ints axes = call.has("axes") ? call.list("axes") : Ints{0, 2, 3};
  CAMSHAFT_ASSIGN(const Ints groups, group_numbers(call.extents(0), axes));
  std::vector<double> x = call.doubles(0);
  const GroupMoments m = moments_of(x, groups);
  for (size_t k = 0; k < x.size(); ++k)
    x[k] = (x[k] - m.mean[groups[k]]) / (std::sqrt(m.variance[groups[k]]) + 1e-9);
  outputs.push_back(produce(call.in(0).type, call.extents(0), x));
  return ok_status();
}

// x, scale, bias, mean, variance → y, running mean, running variance.
Status batch_normalization(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(5));
  CAMSHAFT_TRY(call.require_rank(0, 2));
  const Extents extents = call.extents(0);
  std::vector<double> x = call.doubles(0);
  const std::vector<double> scale = call.doubles(1), bias = call.doubles(2), mean = call.doubles(3),
                            variance = call.doubles(4);
  for (const auto* vector : {&scale, &bias, &mean, &variance})
    if (static_cast<int64_t>(vector->size()) != extents[1])
      return make_error(ErrorCode::kInvalidArgument,
                        "BatchNormalization: {} values for {} channels", vector->size(),
                        extents[1]);
  const double epsilon = call.real("epsilon", 1e-5), momentum = call.real("momentum", 0.9);
  Ints axes;
  for (int64_t d = 0; d < static_cast<int64_t>(extents.size()); ++d)
    if (d != 1) axes.push_back(d);
  CAMSHAFT_ASSIGN(const Ints channels, group_numbers(extents, axes));
  const bool training = call.integer("training_mode", 0) != 0;
  const GroupMoments used = training ? moments_of(x, channels) : GroupMoments{mean, variance};
  for (size_t k = 0; k < x.size(); ++k) {
    const int64_t c = channels[k];
    x[k] = (x[k] - used.mean[c]) / std::sqrt(used.variance[c] + epsilon) * scale[c] + bias[c];
  }
  outputs.push_back(produce(call.in(0).type, extents, x));
  if (!training) return ok_status();
  std::vector<double> running_mean, running_variance;
  for (int64_t c = 0; c < extents[1]; ++c) {
    running_mean.push_back(mean[c] * momentum + used.mean[c] * (1 - momentum));
    running_variance.push_back(variance[c] * momentum + used.variance[c] * (1 - momentum));
  }
  outputs.push_back(produce(call.in(3).type, {extents[1]}, running_mean));
  outputs.push_back(produce(call.in(4).type, {extents[1]}, running_variance));
  return ok_status();
}

// Loss of log probabilities [N, C, D…] for labels [N, D…].
Status negative_log_likelihood(const Call& call, const Dense& x, size_t labels_input,
                               size_t weights_input, Outputs& outputs) {
  if (x.extents.size() < 2)
    return make_error(ErrorCode::kInvalidArgument, "{} of rank {}", call.op_type(),
                      x.extents.size());
  const Ints labels = call.ints(labels_input);
  const std::vector<double> weights = call.doubles(weights_input);
  const Lines lines = lines_of(x.extents, 1);
  const bool ignores = call.has("ignore_index");
  const int64_t ignored = call.integer("ignore_index", 0);
  if (static_cast<int64_t>(labels.size()) != lines.outer * lines.inner ||
      (!weights.empty() && static_cast<int64_t>(weights.size()) != lines.count))
    return make_error(ErrorCode::kInvalidArgument, "{}: {} labels, {} weights", call.op_type(),
                      labels.size(), weights.size());
  std::vector<double> loss(labels.size());
  double total = 0, weight_sum = 0;
  for (size_t k = 0; k < labels.size(); ++k) {
    if (ignores && labels[k] == ignored) continue;
    if (labels[k] < 0 || labels[k] >= lines.count)
      return make_error(ErrorCode::kInvalidArgument, "{}: label {} of {} classes", call.op_type(),
                        labels[k], lines.count);
    const int64_t n = static_cast<int64_t>(k) / lines.inner,
                  i = static_cast<int64_t>(k) % lines.inner;
    const double weight = weights.empty() ? 1 : weights[labels[k]];
    loss[k] = -weight * x.values[(n * lines.count + labels[k]) * lines.inner + i];
    total += loss[k];
    weight_sum += weight;
  }
  const std::string reduction = call.text("reduction", "mean");
  const DataType type = call.in(0).type;
  if (reduction == "none")
    outputs.push_back(produce(type, call.extents(labels_input), loss));
  else
    outputs.push_back(
        produce(type, {}, std::vector<double>{reduction == "sum" ? total : total / weight_sum}));
  return ok_status();
}

Status nll_loss(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  return negative_log_likelihood(call, dense(call.in(0)), 1, 2, outputs);
}

// scores, labels, weights → loss, log probabilities.
Status softmax_cross_entropy(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_TRY(call.require_rank(0, 2));
  Dense x = dense(call.in(0));
  const Lines lines = lines_of(x.extents, 1);
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      double* first = x.values.data() + o * lines.count * lines.inner + i;
      double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t c = 0; c < lines.count; ++c) maximum = std::max(maximum, first[c * lines.inner]);
      for (int64_t c = 0; c < lines.count; ++c) sum += std::exp(first[c * lines.inner] - maximum);
      for (int64_t c = 0; c < lines.count; ++c) first[c * lines.inner] -= maximum + std::log(sum);
    }
  }
  CAMSHAFT_TRY(negative_log_likelihood(call, x, 1, 2, outputs));
  outputs.push_back(produce(call.in(0).type, x.extents, x.values));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_norm_operators() {
  static constexpr GenericRow kRows[] = {
      {"LRN", {nullptr, appending<lrn>}},
      {"LpNormalization", {nullptr, appending<lp_normalization>}},
      {"MeanVarianceNormalization", {nullptr, appending<mean_variance_normalization>}},
      {"BatchNormalization", {nullptr, appending<batch_normalization>}},
      {"NegativeLogLikelihoodLoss", {nullptr, appending<nll_loss>}},
      {"SoftmaxCrossEntropyLoss", {nullptr, appending<softmax_cross_entropy>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
