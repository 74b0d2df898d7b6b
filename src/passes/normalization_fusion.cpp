// SPDX-License-Identifier: Apache-2.0
// NormalizationFusion: layer, RMS and instance normalization written out (means, differences,
// squares, roots, factors in any spelling) become one Normalization. Found from the mean of
// squares, recognized by values. Over other axes than the last (channels first) it stands between
// transposes, which cost nothing where its neighbours are channel last. Tolerance: statistics in
// fp32.
#include <algorithm>
#include <cmath>

#include "passes/formula.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// The axes of a mean whose result broadcasts to what it reads; empty: it is none.
Ints mean_axes(const Layer& layer) {
  const Tensor* x = layer.inputs.empty() ? nullptr : layer.inputs[0];
  if (!x || x->type != DataType::kFloat || !x->has_rank) return {};
  if (layer.kind == LayerKind::kPooling) {
    const auto& a = layer.as<PoolingAttrs>();
    Ints axes;
    if (!a.global || a.type != PoolingType::kAverage || !a.epilogue.empty()) return {};
    for (size_t k = 2; k < x->shape.size(); ++k) axes.push_back(static_cast<int64_t>(k));
    return axes;
  }
  if (layer.kind != LayerKind::kReduce || input_at(layer, 1)) return {};
  const auto& a = layer.as<ReduceAttrs>();
  const bool broadcasts = a.keep_dims || a.axes.size() == x->shape.size();
  return a.op == ReduceOp::kMean && broadcasts ? a.axes : Ints();
}

bool is_mean(const Layer& layer) {
  return !mean_axes(layer).empty();
}

// The statistics a normalization is made of.
struct Statistics {
  Tensor* x = nullptr;
  Tensor* mean = nullptr;    // null: RMS
  Tensor* spread = nullptr;  // mean of (x - mean)², or of x²
  bool raw_moment =
      false;  // spread is the mean of x² although there is a mean: variance = spread - mean²
  Ints axes;
};

std::optional<Statistics> statistics_of(const Layer& spread) {
  Tensor* squares = spread.inputs[0];
  Statistics found;
  found.spread = spread.outputs[0];
  found.axes = mean_axes(spread);
  if (!squares->producer || !is_pointwise(*squares->producer)) return std::nullopt;
  // With a mean over the same axes among what the squares are made of: a variance.
  for (Layer* layer : layers_between(squares, {}))
    for (Tensor* input : layer->inputs) {
      const Layer* mean = input->producer;
      if (!mean || mean_axes(*mean) != found.axes) continue;
      Tensor* x = mean->inputs[0];
      const std::optional<Expression> e = gather(squares, {x, input});
      if (!e || !equals(*e, {{x, -3, 3}, {input, -1, 1}},
                        [](const auto& v) { return (v[0] - v[1]) * (v[0] - v[1]); }))
        continue;
      found.x = x;
      found.mean = input;
      return found;
    }
  // x² of what the last pointwise layer reads.
  for (Tensor* x : squares->producer->inputs) {
    const std::optional<Expression> e = gather(squares, {x});
    if (!e || !equals(*e, {{x, -3, 3}}, [](const auto& v) { return v[0] * v[0]; })) continue;
    found.x = x;
    // A mean of the same x makes it E[x²] - m², if the result reads that mean too.
    for (const Layer* reader : x->consumers)
      if (mean_axes(*reader) == found.axes)
        found.mean = reader->outputs[0], found.raw_moment = true;
    return found;
  }
  return std::nullopt;
}

struct Match {
  Tensor *scale = nullptr, *bias = nullptr;
  float epsilon = 0;
};

// Whether `y` is (x - mean) / sqrt(variance + epsilon) * scale + bias.
std::optional<Match> match_result(Tensor* y, const Statistics& s) {
  std::vector<Tensor*> stops = {s.x, s.spread};
  if (s.mean) stops.push_back(s.mean);
  const std::optional<Expression> e = gather(y, stops);
  if (!e || std::find(e->inputs.begin(), e->inputs.end(), s.spread) == e->inputs.end())
    return std::nullopt;
  std::vector<Tensor*> constants, numbers;
  for (Tensor* input : e->inputs) {
    if (std::find(stops.begin(), stops.end(), input) != stops.end()) continue;
    if (scalar_value(input)) {
      numbers.push_back(input);
      continue;
    }
    if (!is_float_constant(input) || constants.size() == 2) return std::nullopt;
    constants.push_back(input);
  }
  // The roles of up to two constants: {scale, bias}, either may be absent.
  std::vector<std::pair<Tensor*, Tensor*>> roles;
  if (constants.empty()) roles = {{nullptr, nullptr}};
  if (constants.size() == 1) roles = {{constants[0], nullptr}, {nullptr, constants[0]}};
  if (constants.size() == 2) roles = {{constants[0], constants[1]}, {constants[1], constants[0]}};
  for (const auto& role : roles) {
    // No structured binding: lambdas may not capture those before C++20 as clang 16 has it.
    Tensor *const scale = role.first, *const bias = role.second;
    // Variables in the order x, mean, variance, scale, bias. With raw moments the spread is sampled
    // large enough to stay above mean².
    const auto value_at = [&](double x, double spread) {
      std::vector<double> inputs;
      for (Tensor* input : e->inputs)
        inputs.push_back(input == s.x        ? x
                         : input == s.spread ? spread
                         : input == scale    ? 1
                                             : scalar_value(input).value_or(0));
      return evaluate(e->program, inputs);
    };
    const double at_zero_spread = value_at(1, 0);  // 1 / sqrt(epsilon)
    if (!(at_zero_spread > 0)) continue;
    const double epsilon = 1 / (at_zero_spread * at_zero_spread);
    std::vector<Variable> order = {{s.x, -3, 3}, {s.spread, 1.5, 4}};
    order.push_back({s.mean, -1, 1});
    order.push_back({scale, -2, 2});
    order.push_back({bias, -2, 2});
    for (Tensor* number : numbers)
      order.push_back({number, *scalar_value(number), *scalar_value(number)});
    const auto formula = [&](const std::vector<double>& v) {
      const double mean = s.mean ? v[2] : 0;
      const double variance = s.raw_moment ? v[1] - mean * mean : v[1];
      return (v[0] - mean) / std::sqrt(variance + epsilon) * (scale ? v[3] : 1) + (bias ? v[4] : 0);
    };
    if (!equals(*e, order, formula)) continue;
    // No least variance but epsilon's: what a clamp there would do, a small one shows.
    order[1] = {s.spread, 1e-6, 1e-3};
    if (equals(*e, order, formula)) return Match{scale, bias, static_cast<float>(epsilon)};
  }
  return std::nullopt;
}

// The elements of `constant` for every index of the normalized axes; empty: it varies along others.
std::vector<float> values_over(const Tensor* constant, const Shape& x, const Ints& axes) {
  const size_t missing = x.size() - constant->shape.size();
  int64_t count = 1;
  for (int64_t axis : axes) {
    if (!x[axis].is_known()) return {};
    count *= x[axis].extent();
  }
  for (size_t k = missing; k < x.size(); ++k)
    if (constant->shape[k - missing] != Dim(1) &&
        std::find(axes.begin(), axes.end(), static_cast<int64_t>(k)) == axes.end())
      return {};
  std::vector<float> values;
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n, at = 0, stride = 1;
    for (size_t k = axes.size(); k-- > 0;) {
      const int64_t extent = x[axes[k]].extent(), index = rest % extent;
      rest /= extent;
      const auto place = static_cast<size_t>(axes[k]);
      if (place < missing || constant->shape[place - missing] == Dim(1)) continue;
      at += index * stride;
      stride *= extent;
    }
    values.push_back(constant->values<float>()[at]);
  }
  return values;
}

bool covers(const Tensor* constant, const Shape& x, const Ints& axes) {
  return !constant ||
         (constant->shape.size() <= x.size() && !values_over(constant, x, axes).empty());
}

bool is_per_channel(const Tensor* constant, const Shape& x) {
  return !constant || (x[1].is_known() && !values_along(constant, x, 1, x[1].extent()).empty());
}

// Kind and axis for the axes (as the last ones) and the shapes of scale and bias; empty: they vary
// along other axes.
std::optional<NormalizationAttrs> attributes(const Statistics& s, const Match& match) {
  const Shape& x = s.x->shape;
  NormalizationAttrs attrs;
  attrs.axis = static_cast<int64_t>(x.size() - s.axes.size());
  attrs.epsilon = match.epsilon;
  attrs.kind = s.mean ? NormKind::kLayer : NormKind::kRms;
  if (s.mean && attrs.axis == 2 && s.axes.front() == 2 && is_per_channel(match.scale, x) &&
      is_per_channel(match.bias, x) && x.size() > 3) {
    attrs.kind = NormKind::kInstance;
    return attrs;
  }
  if (!covers(match.scale, x, s.axes) || !covers(match.bias, x, s.axes)) return std::nullopt;
  return attrs;
}

// Scale and bias as the kernels want them: [C], or the normalized extents.
Tensor* shaped(Rewriter& rewriter, Tensor* constant, const Statistics& s,
               const NormalizationAttrs& attrs) {
  if (!constant) return nullptr;
  const Shape& x = s.x->shape;
  if (attrs.kind == NormKind::kInstance) {
    const std::vector<float> values = values_along(constant, x, 1, x[1].extent());
    const int64_t count[] = {x[1].extent()};
    return rewriter.add_float_constant(constant->name + " (per channel)", count, values);
  }
  Extents extents;
  for (int64_t axis : s.axes) extents.push_back(x[axis].extent());
  return rewriter.add_float_constant(constant->name + " (shaped)", extents,
                                     values_over(constant, x, s.axes));
}

// The other axes, then the normalized ones.
Ints order_of(const Statistics& s) {
  Ints order;
  for (int64_t k = 0; k < static_cast<int64_t>(s.x->shape.size()); ++k)
    if (std::find(s.axes.begin(), s.axes.end(), k) == s.axes.end()) order.push_back(k);
  order.insert(order.end(), s.axes.begin(), s.axes.end());
  return order;
}

// Transpose, normalize, transpose back, in the place of `group`.
void replace_transposed(Rewriter& rewriter, std::span<Layer* const> group, const Statistics& s,
                        const NormalizationAttrs& attrs, std::vector<Tensor*> inputs,
                        const std::string& name) {
  Layer* last = group.back();
  ShuffleAttrs there, back;
  there.first_transpose = order_of(s);
  back.first_transpose = inverse(there.first_transpose);
  Shape shape;
  for (const int64_t axis : there.first_transpose) shape.push_back(s.x->shape[axis]);
  Tensor* moved = rewriter.add_tensor(s.x->name + " (normalized axes last)", s.x->type, shape);
  Tensor* made =
      rewriter.add_tensor(last->outputs[0]->name + " (normalized axes last)", s.x->type, shape);
  rewriter.insert_before(last, LayerKind::kShuffle, name + " (there)", there, {s.x}, {moved},
                         {last});
  inputs[0] = moved;
  rewriter.insert_before(last, LayerKind::kNormalization, name, attrs, inputs, {made},
                         {group.begin(), group.end()});
  rewriter.replace(group, LayerKind::kShuffle, back, {made}, name + " (back)");
}

bool fuse(Rewriter& rewriter, const Statistics& s, Layer* last) {
  Tensor* y = last->outputs[0];
  if (!same_shape(y, s.x)) return false;
  const std::optional<Match> match = match_result(y, s);
  if (!match) return false;
  rewriter.running(*last);
  const std::optional<NormalizationAttrs> attrs = attributes(s, *match);
  if (!attrs) {
    rewriter.declined(
        *last,
        {Reason::kShape, "a normalization, but its factors vary along other axes than it is over"});
    return false;
  }
  Tensor* scale = shaped(rewriter, match->scale, s, *attrs);
  Tensor* bias = shaped(rewriter, match->bias, s, *attrs);
  // All layers between x and y: they go if nobody else reads them.
  std::vector<Layer*> group = layers_between(s.spread->producer->inputs[0], {s.x});
  if (s.mean) group.push_back(s.mean->producer);
  group.push_back(s.spread->producer);
  for (Layer* layer : layers_between(y, {s.x, s.spread}))
    if (std::find(group.begin(), group.end(), layer) == group.end()) group.push_back(layer);
  sort_by_position(group);  // `last` is the last
  rewriter.applied(Action::kFuse, *last,
                   "Fusing " + std::to_string(group.size()) + " layers from " +
                       group.front()->name + " to " + last->name);
  std::vector<Tensor*> inputs = {s.x, scale, bias};
  while (!inputs.back()) inputs.pop_back();
  const std::string name = "{Norm[" + group.front()->name + "..." + last->name + "]}";
  if (is_identity_order(order_of(s)))
    rewriter.replace(group, LayerKind::kNormalization, *attrs, inputs, name);
  else
    replace_transposed(rewriter, group, s, *attrs, inputs, name);
  return true;
}

}  // namespace

int normalization_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "NormalizationFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* spread = graph.layers()[k].get();
    if (!is_mean(*spread)) continue;
    const std::optional<Statistics> statistics = statistics_of(*spread);
    if (!statistics) continue;
    // The farthest layer that still is the normalization: with scale and bias if they are there.
    const size_t horizon = std::min(graph.layers().size(), k + 24);
    for (size_t last = horizon; last-- > k + 1;) {
      Layer* candidate = graph.layers()[last].get();
      if (!is_pointwise(*candidate) || !fuse(rewriter, *statistics, candidate)) continue;
      k = 0;  // earlier layers are gone
      break;
    }
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
