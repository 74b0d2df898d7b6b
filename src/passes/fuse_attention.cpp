// SPDX-License-Identifier: Apache-2.0
// AttentionFusion: softmax(epilogue(scale q · kᵀ)) · v, where nobody else reads the scores, becomes
// Attention, which does not keep them in memory:
//   s = MatrixMultiply(q, k) {transpose_b, alpha, epilogue}; w = SoftMax(s); y = MatrixMultiply(w,
//   v)
// Between them may stand a pointwise layer (masks), a reshape of the batch dimensions before or
// behind it that the second product undoes, and weights that are no numbers set to zero. Sums of
// exponentials are added in another order: a few ulp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/expression.h"
#include "passes/formula.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr size_t kMostOperands = 8;  // of the kernels

// A reshape that leaves the last dimension alone.
bool keeps_rows(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kShuffle || input_at(*layer, 1)) return false;
  const auto& a = layer->as<ShuffleAttrs>();
  const Tensor *x = layer->inputs[0], *y = layer->outputs[0];
  return a.has_reshape && a.first_transpose.empty() && a.second_transpose.empty() && x->has_rank &&
         y->has_rank && !x->shape.empty() && !y->shape.empty() &&
         x->shape.back() == y->shape.back();
}

// w where it is a number, else 0.
bool zeroes_nan(const Layer& layer) {
  if (!is_pointwise(layer)) return false;
  const Expression e = expression_of(layer);
  if (e.inputs.size() != 1 || e.program.num_inputs != 1) return false;
  for (const double w : {0.0, 0.25, 1.0})
    if (evaluate(e.program, {w}) != w) return false;
  return evaluate(e.program, {std::numeric_limits<double>::quiet_NaN()}) == 0;
}

// But for the number of keys, which may have two names (of the cache and of the mask): the second
// product holds them to the rows of the values.
bool same_scores(const Tensor* a, const Tensor* b) {
  return a->has_rank && b->has_rank && a->shape.size() == b->shape.size() && !a->shape.empty() &&
         std::equal(a->shape.begin(), a->shape.end() - 1, b->shape.begin());
}

struct Parts {
  Layer* scores = nullptr;     // the first product
  Layer* pointwise = nullptr;  // behind it, or null
  Layer* ungroup = nullptr;    // the reshape between these two, or null
  Layer* softmax = nullptr;
  Layer* values = nullptr;  // the second product
  bool nan_is_zero = false;
  std::vector<Layer*> group;

  const Tensor* score() const { return scores->outputs[0]; }
  // As the pointwise layer reads it.
  const Tensor* seen() const { return ungroup ? ungroup->outputs[0] : score(); }
  bool is_ungrouped(const Tensor* operand) const {
    return ungroup && std::count(pointwise->inputs.begin(), pointwise->inputs.end(), operand) > 0;
  }
};

bool is_plain_product(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kMatrixMultiply) return false;
  for (const Tensor* t : {layer->inputs[0], layer->inputs[1], layer->outputs[0]})
    if (t->type != DataType::kFloat || !t->has_rank) return false;
  return !layer->as<MatrixMultiplyAttrs>().transpose_a;
}

// The first product above `x`, with what lies between.
bool find_scores(Tensor* x, Parts& parts) {
  const auto enter = [&](Layer* layer) {
    parts.group.push_back(layer);
    return layer->inputs[0];
  };
  if (Layer* layer = x->producer; keeps_rows(layer) && only_reader(x)) x = enter(layer);
  Layer* layer = x->producer;
  if (layer && only_reader(x) && is_pointwise(*layer) &&
      layer->kind != LayerKind::kMatrixMultiply) {
    parts.pointwise = layer;
    parts.group.push_back(layer);
    for (Tensor* input : layer->inputs) {
      if (!same_scores(input, x)) continue;
      Layer* before = input->producer;
      const bool is_reshaped =
          keeps_rows(before) && only_reader(input) && is_plain_product(before->inputs[0]->producer);
      if (!is_reshaped && !is_plain_product(before)) continue;
      if (is_reshaped) parts.ungroup = before;
      x = is_reshaped ? enter(before) : input;
      break;
    }
  }
  parts.scores = x->producer;
  parts.group.push_back(parts.scores);
  return is_plain_product(parts.scores) && only_reader(x);
}

// The second product below the weights.
bool find_values(Parts& parts) {
  Tensor* weights = parts.softmax->outputs[0];
  Layer* reader = only_reader(weights);
  for (int step = 0; reader && step < 3; ++step) {
    if (is_plain_product(reader)) break;
    if (zeroes_nan(*reader))
      parts.nan_is_zero = true;
    else if (!keeps_rows(reader))
      return false;
    parts.group.push_back(reader);
    weights = reader->outputs[0];
    reader = only_reader(weights);
  }
  if (!is_plain_product(reader)) return false;
  const auto& a = reader->as<MatrixMultiplyAttrs>();
  parts.values = reader;
  return reader->inputs[0] == weights && reader->inputs[1] != weights && !a.transpose_b &&
         a.alpha == 1 && a.epilogue.empty() && !input_at(*reader, 2) &&
         same_scores(weights, parts.score());
}

std::optional<Parts> parts_of(Layer* softmax) {
  const auto& a = softmax->as<SoftMaxAttrs>();
  const Tensor* x = softmax->inputs[0];
  if (a.log || a.hard || a.axis != a.last_axis || !x->has_rank || x->type != DataType::kFloat ||
      a.axis + 1 != static_cast<int64_t>(x->shape.size()))
    return std::nullopt;
  Parts parts;
  parts.softmax = softmax;
  parts.group.push_back(softmax);
  if (!find_scores(softmax->inputs[0], parts) || !find_values(parts)) return std::nullopt;
  parts.group.push_back(parts.values);
  return parts;
}

// What becomes of a score, with the score first (null).
Expression epilogue_of(const Parts& parts) {
  const Layer& product = *parts.scores;
  Tensor* score = product.outputs[0];
  Expression e{product.as<MatrixMultiplyAttrs>().epilogue, {nullptr}};
  for (size_t k = 3; k < product.inputs.size(); ++k) e.inputs.push_back(product.inputs[k]);
  e.program.num_inputs = static_cast<int>(e.inputs.size());
  if (Tensor* bias = input_at(product, 2)) {
    Expression sum{Program(), {nullptr, bias}};
    sum.program.num_inputs = 2;
    append(sum.program, PointOp::kAdd, 0, 1);
    if (e.program.empty()) append(e.program, PointOp::kIdentity, 0);
    e.inputs[0] = score;
    e = substitute(e, score, sum);
  }
  if (parts.pointwise) e = substitute(expression_of(*parts.pointwise), parts.seen(), e);
  return e.program.empty() ? e : tidy(std::move(e), 1);
}

// --- shapes: rank 3 stays, rank 4 stays, of rank 5 (heads in groups) the heads become one
// dimension

class Shapes {
 public:
  Shapes(Rewriter& rewriter, const Parts& parts)
      : rewriter_(rewriter), parts_(parts), rank_(parts.score()->shape.size()) {}

  std::string refusal(const Expression& epilogue) const {
    if (rank_ < 3 || rank_ > 5) return "the scores have " + std::to_string(rank_) + " dimensions";
    const Shape &s = parts_.score()->shape, &q = query()->shape, &k = key()->shape,
                &v = value()->shape;
    if (q.size() != rank_ || k.size() != rank_ || v.size() != rank_)
      return "queries, keys and values have unequal ranks";
    if (k[rank_ - 2] != v[rank_ - 2]) return "keys and values have unequal numbers";
    for (size_t d = 0; d + 2 < rank_; ++d) {
      if (q[d] != s[d]) return "keys are a larger batch than queries";
      if (k[d] != v[d] || (k[d] != q[d] && k[d] != Dim(1)))
        return "keys and values are different batches";
    }
    if (rank_ == 5 && k[2] != Dim(1)) return "keys of five dimensions";
    if (rank_ >= 4 && k[1] == Dim(1) && q[1] != Dim(1) && !q[1].is_known())
      return "the number of heads is not known";
    if (rank_ == 5 && (k[1] != q[1] || !q[2].is_known())) return "groups of heads are not known";
    if (parts_.ungroup && (rank_ != 5 || parts_.seen()->shape != joined(s)))
      return "the scores are reshaped otherwise than groups of heads are";
    for (size_t n = 1; n < epilogue.inputs.size(); ++n) {
      const Tensor* operand = epilogue.inputs[n];
      if (operand->type != DataType::kFloat && operand->type != DataType::kBool)
        return "operand " + operand->name + " is neither float nor bool";
      if (parts_.is_ungrouped(operand)) continue;
      if (operand->shape.size() > rank_ || !joined(operand->shape))
        return "operand " + operand->name + " differs within groups of heads";
    }
    return "";
  }

  Tensor* query() const { return parts_.scores->inputs[0]; }
  Tensor* key() const { return parts_.scores->inputs[1]; }
  Tensor* value() const { return parts_.values->inputs[1]; }

  // The tensor with dimensions 1 and 2 of five as one; of keys and values dimension 2 is 1.
  Tensor* take(Tensor* x) {
    if (rank_ != 5 || parts_.is_ungrouped(x)) return x;
    const Shape shape = *joined(x->shape);
    if (Tensor* source = before_shuffle(x, shape)) return source;
    ShuffleAttrs attrs;
    attrs.has_reshape = true;
    attrs.reshape = shape;
    return shuffled(x, attrs, shape);
  }

  bool joins() const { return rank_ == 5; }

 private:
  std::optional<Shape> joined(Shape shape) const {
    if (rank_ != 5) return shape;
    while (shape.size() < 5) shape.insert(0, 1);
    const Shape& s = parts_.score()->shape;
    const bool has_heads = shape[1] == s[1], has_groups = shape[2] == s[2];
    const bool is_key = shape == key()->shape || shape == value()->shape;
    const bool is_one = shape[1] == Dim(1) && shape[2] == Dim(1);
    if (!is_key && !is_one && !(has_heads && has_groups)) return std::nullopt;
    return Shape{shape[0], parts_.score()->graph->symbols().mul(shape[1], shape[2]), shape[3],
                 shape[4]};
  }

  Tensor* shuffled(Tensor* x, ShuffleAttrs attrs, const Shape& shape) {
    Tensor* y = rewriter_.graph().add_tensor(x->name + " (heads)", x->type, shape);
    rewriter_.insert_before(parts_.values, LayerKind::kShuffle, x->name + " (heads)",
                            std::move(attrs), {x}, {y}, {parts_.values});
    return y;
  }

  // Where a reshape and transpose made x, one that leaves out the dimension of groups.
  Tensor* before_shuffle(Tensor* x, const Shape& wanted) {
    const Layer* shuffle = producer_of_kind(x, LayerKind::kShuffle);
    if (!shuffle || input_at(*shuffle, 1)) return nullptr;
    const auto& a = shuffle->as<ShuffleAttrs>();
    Tensor* source = shuffle->inputs[0];
    if (!a.has_reshape || !a.first_transpose.empty()) return nullptr;
    if (a.second_transpose.empty()) return same(source, wanted) ? source : nullptr;
    if (x->shape.size() != 5 || x->shape[2] != Dim(1)) return nullptr;
    const int64_t dropped = a.second_transpose[2];
    ShuffleAttrs attrs;
    attrs.has_reshape = true;
    for (size_t d = 0; d < a.reshape.size(); ++d)
      if (static_cast<int64_t>(d) != dropped) attrs.reshape.push_back(a.reshape[d]);
    for (size_t d = 0; d < a.second_transpose.size(); ++d)
      if (d != 2)
        attrs.second_transpose.push_back(a.second_transpose[d] -
                                         (a.second_transpose[d] > dropped ? 1 : 0));
    return shuffled(source, attrs, wanted);
  }

  static bool same(const Tensor* x, const Shape& shape) { return x->has_rank && x->shape == shape; }

  Rewriter& rewriter_;
  const Parts& parts_;
  size_t rank_;
};

std::string refusal(const Parts& parts, const Shapes& shapes, const Expression& epilogue) {
  if (!parts.scores->as<MatrixMultiplyAttrs>().transpose_b) return "keys lie transposed";
  if (parts.pointwise && !same_scores(parts.pointwise->outputs[0], parts.seen()))
    return "the scores are broadcast";
  if (epilogue.inputs.size() > kMostOperands + 1 || !within_limits(epilogue))
    return "the program on scores is too long";
  return shapes.refusal(epilogue);
}

void fuse(Rewriter& rewriter, Parts& parts) {
  Layer* softmax = parts.softmax;
  rewriter.running(*softmax);
  Shapes shapes(rewriter, parts);
  const Expression epilogue = epilogue_of(parts);
  if (const std::string reason = refusal(parts, shapes, epilogue); !reason.empty())
    return rewriter.declined(*softmax, "not fused with " + parts.scores->name + " and " +
                                           parts.values->name + ": " + reason);
  AttentionAttrs attrs;
  attrs.scale = parts.scores->as<MatrixMultiplyAttrs>().alpha;
  attrs.nan_is_zero = parts.nan_is_zero;
  if (!epilogue.program.empty()) attrs.epilogue = epilogue.program;
  std::vector<Tensor*> inputs = {shapes.take(shapes.query()), shapes.take(shapes.key()),
                                 shapes.take(shapes.value())};
  if (epilogue.inputs.size() > 1) inputs.push_back(nullptr);
  for (size_t k = 1; k < epilogue.inputs.size(); ++k)
    inputs.push_back(shapes.take(epilogue.inputs[k]));
  sort_by_position(parts.group);
  const std::string name = "{Attention[" + parts.scores->name + "..." + parts.values->name + "]}";
  rewriter.applied(*softmax, "Fusing " + parts.scores->name + ", " + softmax->name + " and " +
                                 parts.values->name + " into attention");
  if (!shapes.joins()) {
    rewriter.replace(parts.group, LayerKind::kAttention, attrs, inputs, name);
    return;
  }
  Tensor* output = parts.values->outputs[0];
  const Shape& y = output->shape;
  Tensor* joined = rewriter.graph().add_tensor(
      output->name + " (heads)", output->type,
      Shape{y[0], rewriter.graph().symbols().mul(y[1], y[2]), y[3], y[4]});
  rewriter.insert_before(parts.values, LayerKind::kAttention, name, attrs, inputs, {joined},
                         std::vector<const Layer*>(parts.group.begin(), parts.group.end()));
  ShuffleAttrs ungroup;
  ungroup.has_reshape = true;
  ungroup.reshape = y;
  rewriter.replace(parts.group, LayerKind::kShuffle, ungroup, {joined}, output->name + " (groups)");
}

}  // namespace

int fuse_attention(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "AttentionFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kSoftMax) continue;
    std::optional<Parts> parts = parts_of(layer);
    if (!parts) continue;
    const int before = rewriter.edits();
    fuse(rewriter, *parts);
    if (rewriter.edits() > before) k = 0;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
