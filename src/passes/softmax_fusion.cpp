// SPDX-License-Identifier: Apache-2.0
// SoftMaxFusion: exp(x - max(x)) / sum(…), with or without the maximum, becomes SoftMax; x - max(x)
// - log(sum(…)) and the logarithm of a SoftMax become its log form. Tolerance of a few ulp.
#include <algorithm>
#include <cmath>

#include "passes/formula.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_reduce(const Layer* layer, ReduceOp op) {
  if (!layer || layer->kind != LayerKind::kReduce || input_at(*layer, 1) ||
      layer->inputs[0]->type != DataType::kFloat)
    return false;
  const auto& a = layer->as<ReduceAttrs>();
  return a.op == op && a.keep_dims && !a.axes.empty() && layer->inputs[0]->has_rank &&
         a.axes.back() - a.axes.front() + 1 == static_cast<int64_t>(a.axes.size());
}

struct SoftmaxParts {
  Tensor* x = nullptr;
  Tensor* maximum = nullptr;  // may be absent
  Tensor* exponentials = nullptr;
  Tensor* sum = nullptr;
  Ints axes;
};

std::optional<SoftmaxParts> softmax_parts(const Layer& sum) {
  SoftmaxParts parts;
  parts.sum = sum.outputs[0];
  parts.exponentials = sum.inputs[0];
  parts.axes = sum.as<ReduceAttrs>().axes;
  if (!parts.exponentials->producer || !is_pointwise(*parts.exponentials->producer))
    return std::nullopt;
  for (Layer* layer : layers_between(parts.exponentials, {}))
    for (Tensor* input : layer->inputs) {
      const Layer* maximum = input->producer;
      if (!is_reduce(maximum, ReduceOp::kMax) || maximum->as<ReduceAttrs>().axes != parts.axes)
        continue;
      Tensor* x = maximum->inputs[0];
      const std::optional<Expression> e = gather(parts.exponentials, {x, input});
      if (!e || !equals(*e, {{x, -3, 3}, {input, -3, 3}},
                        [](const auto& v) { return std::exp(v[0] - v[1]); }))
        continue;
      parts.x = x;
      parts.maximum = input;
      return parts;
    }
  for (Tensor* x : parts.exponentials->producer->inputs) {
    const std::optional<Expression> e = gather(parts.exponentials, {x});
    if (!e || !equals(*e, {{x, -3, 3}}, [](const auto& v) { return std::exp(v[0]); })) continue;
    parts.x = x;
    return parts;
  }
  return std::nullopt;
}

bool is_softmax(Tensor* y, const SoftmaxParts& p) {
  const std::optional<Expression> e = gather(y, {p.exponentials, p.sum});
  return e && equals(*e, {{p.exponentials, 0.01, 2}, {p.sum, 1, 9}},
                     [](const auto& v) { return v[0] / v[1]; });
}

bool is_log_softmax(Tensor* y, const SoftmaxParts& p) {
  std::vector<Tensor*> stops = {p.x, p.sum};
  if (p.maximum) stops.push_back(p.maximum);
  const std::optional<Expression> e = gather(y, stops);
  return e && equals(*e, {{p.x, -3, 3}, {p.sum, 1, 9}, {p.maximum, -3, 3}},
                     [&](const auto& v) { return v[0] - (p.maximum ? v[2] : 0) - std::log(v[1]); });
}

bool fuse(Rewriter& rewriter, const SoftmaxParts& p, Layer* last) {
  Tensor* y = last->outputs[0];
  if (!same_shape(y, p.x)) return false;
  const bool plain = is_softmax(y, p);
  if (!plain && !is_log_softmax(y, p)) return false;
  rewriter.running(*last);
  SoftMaxAttrs attrs;
  attrs.axis = p.axes.front();
  attrs.last_axis = p.axes.back();
  attrs.log = !plain;
  std::vector<Layer*> group = layers_between(p.exponentials, {p.x});
  if (p.maximum) group.insert(group.begin(), p.maximum->producer);
  group.push_back(p.sum->producer);
  for (Layer* layer : layers_between(y, {p.x, p.exponentials, p.sum}))
    if (std::find(group.begin(), group.end(), layer) == group.end()) group.push_back(layer);
  sort_by_position(group);  // `last` is the last
  rewriter.applied(Action::kFuse, *last,
                   "Fusing " + std::to_string(group.size()) + " layers from " +
                       group.front()->name + " to " + last->name);
  rewriter.replace(group, LayerKind::kSoftMax, attrs, {p.x},
                   "{SoftMax[" + group.front()->name + "..." + last->name + "]}");
  return true;
}

bool fuse_log(Rewriter& rewriter, Layer* softmax) {
  Layer* log = only_reader(softmax->outputs[0]);
  const bool is_log =
      log && log->kind == LayerKind::kUnary && log->as<PointOpAttrs>().op == PointOp::kLog;
  if (!is_log || softmax->as<SoftMaxAttrs>().log || softmax->as<SoftMaxAttrs>().hard) return false;
  rewriter.running(*softmax);
  rewriter.fused(*softmax, *log);
  rewriter.attrs<SoftMaxAttrs>(softmax).log = true;
  rewriter.absorb(softmax, log);
  return true;
}

}  // namespace

int softmax_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SoftMaxFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* sum = graph.layers()[k].get();
    if (sum->kind == LayerKind::kSoftMax) fuse_log(rewriter, sum);
    if (!is_reduce(sum, ReduceOp::kSum)) continue;
    const std::optional<SoftmaxParts> parts = softmax_parts(*sum);
    if (!parts) continue;
    const size_t horizon = std::min(graph.layers().size(), k + 12);
    for (size_t last = k + 1; last < horizon; ++last) {
      Layer* candidate = graph.layers()[last].get();
      if (!is_pointwise(*candidate) || !fuse(rewriter, *parts, candidate)) continue;
      k = 0;
      break;
    }
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
