// SPDX-License-Identifier: Apache-2.0
// WeightedSumFusion: a sum (or mean) of elementwise products becomes a matrix product where neither
// factor, or only one, has all dimensions: pooling by weights, bilinear forms, products of all
// pairs. Their elementwise product, which is larger than any of them, is not stored. Another order
// of sums.
#include <span>
#include <utility>

#include "ir/extents.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr int64_t kFewestColumns = 8, kFewestProducts = 256;  // else elements go faster

// One of the factors, with as many dimensions as their product.
struct Factor {
  Tensor* tensor;
  Shape shape;
};

// Sum over [first, end) of a * b, which both have these dimensions.
struct WeightedSum {
  Layer *mul, *reduce;
  Shape shape;  // of a * b
  size_t first, end;
  Factor a, b;

  bool has(const Factor& x, size_t d) const { return shape[d] != Dim(1) && x.shape[d] == shape[d]; }
  bool lacks(const Factor& x, size_t d) const { return shape[d] != Dim(1) && x.shape[d] == Dim(1); }
};

std::optional<WeightedSum> find_sum(Layer* reduce) {
  if (reduce->kind != LayerKind::kReduce || input_at(*reduce, 1)) return std::nullopt;
  const auto& r = reduce->as<ReduceAttrs>();
  Tensor* product = reduce->inputs[0];
  Layer* mul = producer_of_kind(product, LayerKind::kElementWise);
  if ((r.op != ReduceOp::kSum && r.op != ReduceOp::kMean) || r.axes.empty() || !mul ||
      mul->as<PointOpAttrs>().op != PointOp::kMul || only_reader(product) != reduce ||
      product->type != DataType::kFloat || mul->inputs[0] == mul->inputs[1])
    return std::nullopt;
  for (const Tensor* tensor :
       {mul->inputs[0], mul->inputs[1], product, static_cast<Tensor*>(reduce->outputs[0])})
    if (!tensor->has_rank) return std::nullopt;
  if (r.axes.back() - r.axes.front() + 1 != static_cast<int64_t>(r.axes.size()))
    return std::nullopt;
  const size_t rank = product->shape.size();
  WeightedSum sum{mul,
                  reduce,
                  product->shape,
                  static_cast<size_t>(r.axes.front()),
                  static_cast<size_t>(r.axes.back()) + 1,
                  {mul->inputs[0], padded(mul->inputs[0]->shape, rank)},
                  {mul->inputs[1], padded(mul->inputs[1]->shape, rank)}};
  for (size_t d = sum.first; d < sum.end; ++d)
    if (sum.a.shape[d] != sum.b.shape[d]) return std::nullopt;
  return sum;
}

// The sum as left [batch, rows, K] times right [batch, K, columns], or its transpose.
struct Form {
  const Factor *left, *right;
  size_t batch;  // leading dimensions, in `order`
  Dim rows, inner, columns;
  bool transpose_right;
  Ints order;  // of the dimensions before those that are summed over: empty: as they are
};

Dim product_of(SymbolTable& symbols, const Shape& shape, size_t first, size_t end) {
  Dim all(1);
  for (size_t d = first; d < end; ++d) all = symbols.mul(all, shape[d]);
  return all;
}

// What lies in front of dimension `end` as batches, but for rows where only `w` has the last of it.
Form form_before(const WeightedSum& s, SymbolTable& symbols, const Factor& w, const Factor& x,
                 size_t end, Dim columns, bool transpose_right) {
  const bool has_rows = end > 0 && s.has(w, end - 1) && s.lacks(x, end - 1);
  return Form{&w,
              &x,
              has_rows ? end - 1 : end,
              has_rows ? s.shape[end - 1] : Dim(1),
              product_of(symbols, s.shape, s.first, s.end),
              columns,
              transpose_right,
              {}};
}

// With columns behind the dimensions that are summed over: weights have none of them.
std::optional<Form> form_of_columns(const WeightedSum& s, SymbolTable& symbols) {
  const Factor *w = &s.a, *x = &s.b;
  const auto all = [&](const Factor& f, bool present) {
    for (size_t d = s.end; d < s.shape.size(); ++d)
      if (s.shape[d] != Dim(1) && (present ? !s.has(f, d) : !s.lacks(f, d))) return false;
    return true;
  };
  if (!all(*w, false)) std::swap(w, x);
  if (!all(*w, false) || !all(*x, true)) return std::nullopt;
  const Dim columns = product_of(symbols, s.shape, s.end, s.shape.size());
  return form_before(s, symbols, *w, *x, s.first, columns, false);
}

// With sums over the last dimensions: of all pairs of what only one and only the other has.
std::optional<Form> form_of_pairs(const WeightedSum& s, SymbolTable& symbols) {
  if (s.first == 0) return std::nullopt;
  const size_t last = s.first - 1;
  const Factor *w = &s.a, *x = &s.b;
  if (s.lacks(*x, last)) std::swap(w, x);
  if (s.has(*x, last) && s.lacks(*w, last))
    return form_before(s, symbols, *w, *x, last, s.shape[last], true);
  size_t row = s.first, column = s.first;
  for (size_t d = 0; d < s.first; ++d) {
    if (s.has(*w, d) && s.lacks(*x, d)) row = d;
    if (s.has(*x, d) && s.lacks(*w, d)) column = d;
  }
  if (row == s.first || column == s.first) return std::nullopt;
  Form form{w,
            x,
            s.first - 2,
            s.shape[row],
            product_of(symbols, s.shape, s.first, s.end),
            s.shape[column],
            true,
            {}};
  for (size_t d = 0; d < s.first; ++d)
    if (d != row && d != column) form.order.push_back(static_cast<int64_t>(d));
  form.order.push_back(static_cast<int64_t>(row));
  form.order.push_back(static_cast<int64_t>(column));
  return form;
}

bool is_worth(const WeightedSum& s, const Form& form) {
  if (!form.inner.is_known() || form.inner.extent() < 2 || !form.columns.is_known() ||
      form.columns.extent() < kFewestColumns)
    return false;
  const int64_t rows = form.rows.is_known() ? form.rows.extent() : 1;
  if (rows * form.inner.extent() * form.columns.extent() < kFewestProducts) return false;
  if (form.order.empty()) return true;
  // What is transposed is copied.
  const Shape& y = s.reduce->outputs[0]->shape;
  if (!all_known(s.shape) || !all_known(s.a.shape) || !all_known(s.b.shape) || !all_known(y))
    return false;
  const auto count = [](const Shape& shape) { return element_count(extents_of(shape)); };
  return 2 * (count(s.a.shape) + count(s.b.shape) + count(y)) <= count(s.shape);
}

// The factor as [batch, lines, K], or [batch, K, lines] of columns that lie behind.
Tensor* operand(Rewriter& rewriter, const WeightedSum& s, const Form& form, const Factor& factor,
                Dim lines, bool inner_last, bool lines_second_last) {
  Tensor* x = factor.tensor;
  Shape shape = factor.shape;
  if (!form.order.empty()) {
    Ints order = form.order;
    if (lines_second_last) std::swap(order[order.size() - 1], order[order.size() - 2]);
    for (size_t d = s.first; d < shape.size(); ++d) order.push_back(static_cast<int64_t>(d));
    x = rewriter.reshaped_before(s.reduce, x->name + " (all dimensions)", x, shape, *s.mul);
    Shape turned;
    for (const int64_t d : order) turned.push_back(shape[static_cast<size_t>(d)]);
    ShuffleAttrs attrs;
    attrs.first_transpose = order;
    Tensor* y = rewriter.add_tensor(x->name + " (turned)", x->type, turned);
    rewriter.insert_before(s.reduce, LayerKind::kShuffle, x->name + " (turned)", attrs, {x}, {y},
                           {s.mul});
    x = y;
    shape = turned;
  }
  shape.resize(form.batch);
  shape.push_back(inner_last ? lines : form.inner);
  shape.push_back(inner_last ? form.inner : lines);
  return rewriter.reshaped_before(s.reduce, x->name + " (matrices)", x, shape, *s.mul);
}

void fuse(Rewriter& rewriter, const WeightedSum& s, const Form& form) {
  Tensor* y = s.reduce->outputs[0];
  rewriter.running(*s.reduce);
  rewriter.fused(*s.mul, *s.reduce);
  Tensor* left = operand(rewriter, s, form, *form.left, form.rows, true, false);
  Tensor* right = operand(rewriter, s, form, *form.right, form.columns, form.transpose_right, true);
  MatrixMultiplyAttrs attrs;
  attrs.transpose_b = form.transpose_right;
  if (s.reduce->as<ReduceAttrs>().op == ReduceOp::kMean)
    attrs.alpha = 1 / static_cast<float>(form.inner.extent());
  Shape made_shape;
  for (size_t d = 0; d < form.batch; ++d)
    made_shape.push_back(s.shape[form.order.empty() ? d : static_cast<size_t>(form.order[d])]);
  made_shape.push_back(form.rows);
  made_shape.push_back(form.columns);
  const std::string name = s.mul->name + " + " + s.reduce->name;
  Tensor* made = rewriter.add_tensor(y->name + " (matrices)", y->type, made_shape);
  Layer* product = rewriter.insert_before(s.reduce, LayerKind::kMatrixMultiply, name, attrs,
                                          {left, right}, {made}, {s.mul, s.reduce});
  ShuffleAttrs back = reshape_to(y->shape);
  back.first_transpose = inverse(form.order);
  Layer* group[] = {s.mul, s.reduce};
  rewriter.replace(group, LayerKind::kShuffle, back, {made}, y->name + " (sums)");
  rewriter.rename(product, name);
}

}  // namespace

int weighted_sum_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "WeightedSumFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    const std::optional<WeightedSum> sum = find_sum(graph.layers()[k].get());
    if (!sum) continue;
    const std::optional<Form> form = all_ones(std::span<const Dim>(sum->shape).subspan(sum->end))
                                         ? form_of_pairs(*sum, rewriter.symbols())
                                         : form_of_columns(*sum, rewriter.symbols());
    if (form && is_worth(*sum, *form)) fuse(rewriter, *sum, *form);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
