// SPDX-License-Identifier: Apache-2.0
// Einsum, taken apart: diagonals, sums over labels that only one operand has, then products of two
// operands at a time, matrix products where something is summed over. What is left is one transpose
// and one reshape. Types that are no factors of a matrix product stay with the Generic operator.
#include <algorithm>
#include <numeric>

#include "ir/einsum.h"
#include "ir/infer.h"
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

// An operand or a product: no label twice, no dimension known to be 1.
struct Factor {
  Tensor* tensor = nullptr;
  std::string labels;

  bool has(char label) const { return labels.find(label) != std::string::npos; }
  Dim extent(char label) const { return tensor->shape[labels.find(label)]; }
};

// Of two factors' labels: what each is to their product.
struct Roles {
  std::string batch, summed, left, right;  // left and right: of one factor alone
};

constexpr double kGuessedExtent = 32;
// Fewer rows than this do not fill a tile: labels in front of the batch become rows, too.
constexpr int64_t kEnoughRows = 16;

bool may_multiply(DataType type) {
  return ir::is_floating(type) || type == DataType::kInt32 || type == DataType::kInt64 ||
         type == DataType::kUInt32 || type == DataType::kUInt64;
}

std::string without(const std::string& labels, const std::string& others) {
  std::string kept;
  for (const char label : labels)
    if (others.find(label) == std::string::npos) kept += label;
  return kept;
}

std::string within(const std::string& labels, const std::string& others) {
  return without(labels, without(labels, others));
}

class Einsum {
 public:
  Einsum(Node& node, const ir::EinsumTerms& terms) : node_(node), result_(terms.result) {
    for (size_t k = 0; k < terms.operands.size(); ++k)
      factors_.push_back({node.input(k), terms.operands[k]});
  }

  // False: more labels than a tensor has dimensions.
  bool fits() const {
    std::string all;
    for (const Factor& f : factors_) all += without(f.labels, all);
    std::sort(all.begin(), all.end());
    return std::unique(all.begin(), all.end()) - all.begin() <=
           static_cast<std::ptrdiff_t>(ir::kMaxRank);
  }

  Status check_extents() const {
    std::vector<std::pair<char, int64_t>> known;
    for (const Factor& f : factors_)
      for (size_t d = 0; d < f.labels.size(); ++d) {
        const Dim dim = f.tensor->shape[d];
        if (!dim.is_known() || dim.extent() == 1) continue;
        for (const auto& [label, extent] : known)
          if (label == f.labels[d] && extent != dim.extent())
            return invalid("label {} has extents {} and {}", label, extent, dim.extent());
        known.emplace_back(f.labels[d], dim.extent());
      }
    return ok_status();
  }

  Status run() {
    for (Factor& f : factors_) {
      CAMSHAFT_TRY(drop_ones(f));
      CAMSHAFT_TRY(take_diagonals(f));
    }
    for (size_t k = 0; k < factors_.size(); ++k)
      CAMSHAFT_TRY(sum(factors_[k], without(factors_[k].labels, needed(k, k))));
    while (factors_.size() > 1) {
      const auto [a, b] = cheapest_pair();
      CAMSHAFT_ASSIGN(Factor made, product(factors_[a], factors_[b], needed(a, b)));
      factors_.erase(factors_.begin() + static_cast<std::ptrdiff_t>(b));
      factors_[a] = std::move(made);
    }
    return finish();
  }

 private:
  // --- one factor

  // The dimensions in this order (labels of the factor), then reshaped.
  Result<Tensor*> arranged(const Factor& f, const std::string& order, const Shape& shape) {
    ir::ShuffleAttrs attrs = transposition(f, order);
    attrs.has_reshape = !(shape == ordered_shape(f, order));
    if (attrs.has_reshape) attrs.reshape = shape;
    if (attrs.first_transpose.empty() && !attrs.has_reshape) return f.tensor;
    return node_.add("arranged", LayerKind::kShuffle, std::move(attrs), {f.tensor});
  }

  static ir::ShuffleAttrs transposition(const Factor& f, const std::string& order) {
    ir::ShuffleAttrs attrs;
    if (order == f.labels) return attrs;
    for (const char label : order)
      attrs.first_transpose.push_back(static_cast<int64_t>(f.labels.find(label)));
    return attrs;
  }

  static Shape ordered_shape(const Factor& f, const std::string& order) {
    Shape shape;
    for (const char label : order) shape.push_back(f.extent(label));
    return shape;
  }

  Dim extent_of(const Factor& f, const std::string& labels) {
    Dim product = 1;
    for (const char label : labels) product = node_.symbols().mul(product, f.extent(label));
    return product;
  }

  Status drop_ones(Factor& f) {
    Shape shape;
    std::string labels;
    for (size_t d = 0; d < f.labels.size(); ++d) {
      if (f.tensor->shape[d] == Dim(1)) continue;
      shape.push_back(f.tensor->shape[d]);
      labels += f.labels[d];
    }
    if (labels == f.labels) return ok_status();
    CAMSHAFT_ASSIGN(f.tensor, node_.reshape("squeezed", f.tensor, shape));
    f.labels = labels;
    return ok_status();
  }

  Result<Tensor*> slice(Tensor* x, size_t axis, Dim size) {
    ir::SliceAttrs attrs;
    for (size_t d = 0; d < x->shape.size(); ++d) {
      attrs.start.push_back(0);
      attrs.size.push_back(d == axis ? size : x->shape[d]);
      attrs.step.push_back(1);
    }
    return node_.add("part", LayerKind::kSlice, std::move(attrs), {x});
  }

  // [..., n, n] → [..., n]: n more elements behind the n·n make rows of n + 1, whose first column
  // is the diagonal. That works for any n.
  Status take_diagonals(Factor& f) {
    for (size_t d = 0; d < f.labels.size(); ++d) {
      const size_t other = f.labels.find(f.labels[d], d + 1);
      if (other == std::string::npos) continue;
      ir::ShuffleAttrs order;
      std::string labels;
      Shape rest;
      for (size_t k = 0; k < f.labels.size(); ++k) {
        if (k == d || k == other) continue;
        order.first_transpose.push_back(static_cast<int64_t>(k));
        labels += f.labels[k];
        rest.push_back(f.tensor->shape[k]);
      }
      order.first_transpose.push_back(static_cast<int64_t>(d));
      order.first_transpose.push_back(static_cast<int64_t>(other));
      const Dim n = f.tensor->shape[d];
      const auto followed_by = [&rest](std::initializer_list<Dim> last) {
        Shape shape = rest;
        for (const Dim dim : last) shape.push_back(dim);
        return shape;
      };
      const size_t axis = rest.size();
      order.has_reshape = true;
      order.reshape = followed_by({node_.symbols().mul(n, f.tensor->shape[other])});
      CAMSHAFT_ASSIGN(Tensor* const flat,
                      node_.add("rows", LayerKind::kShuffle, std::move(order), {f.tensor}));
      CAMSHAFT_ASSIGN(Tensor* const more, slice(flat, axis, n));
      CAMSHAFT_ASSIGN(Tensor* const longer,
                      node_.add("longer", LayerKind::kConcatenation,
                                ir::AxisAttrs{static_cast<int64_t>(axis)}, {flat, more}));
      CAMSHAFT_ASSIGN(
          Tensor* const rows,
          node_.reshape("longer_rows", longer, followed_by({n, node_.symbols().add(n, 1)})));
      CAMSHAFT_ASSIGN(Tensor* const column, slice(rows, axis + 1, 1));
      CAMSHAFT_ASSIGN(f.tensor, node_.reshape("diagonal", column, followed_by({n})));
      f.labels = labels + f.labels[d];
      return take_diagonals(f);
    }
    return ok_status();
  }

  Status sum(Factor& f, const std::string& labels) {
    if (labels.empty()) return ok_status();
    ir::ReduceAttrs attrs;
    attrs.op = ir::ReduceOp::kSum;
    attrs.keep_dims = false;
    for (size_t d = 0; d < f.labels.size(); ++d)
      if (labels.find(f.labels[d]) != std::string::npos)
        attrs.axes.push_back(static_cast<int64_t>(d));
    CAMSHAFT_ASSIGN(f.tensor, node_.add("sum", LayerKind::kReduce, std::move(attrs), {f.tensor}));
    f.labels = without(f.labels, labels);
    return ok_status();
  }

  // --- two factors

  // The labels the result and the factors other than these two have.
  std::string needed(size_t a, size_t b) const {
    std::string labels = result_;
    for (size_t k = 0; k < factors_.size(); ++k)
      if (k != a && k != b) labels += without(factors_[k].labels, labels);
    return labels;
  }

  // The two whose product adds least to what there is.
  std::pair<size_t, size_t> cheapest_pair() const {
    const auto size = [this](const std::string& labels) {
      double elements = 1;
      for (const char label : labels)
        for (const Factor& f : factors_)
          if (f.has(label)) {
            elements *= f.extent(label).is_known() ? static_cast<double>(f.extent(label).extent())
                                                   : kGuessedExtent;
            break;
          }
      return elements;
    };
    std::pair<size_t, size_t> best{0, 1};
    double least = 0;
    for (size_t b = 1; b < factors_.size(); ++b)
      for (size_t a = 0; a < b; ++a) {
        const std::string &la = factors_[a].labels, &lb = factors_[b].labels;
        const std::string made = within(la + without(lb, la), needed(a, b));
        const double added = size(made) - size(la) - size(lb);
        if ((a == 0 && b == 1) || added < least) least = added, best = {a, b};
      }
    return best;
  }

  static Roles roles_of(const Factor& a, const Factor& b, const std::string& needed) {
    const std::string shared = within(a.labels, b.labels);
    return {within(shared, needed), without(shared, needed), without(a.labels, b.labels),
            without(b.labels, a.labels)};
  }

  Result<Factor> product(Factor a, Factor b, const std::string& needed) {
    Roles roles = roles_of(a, b, needed);
    const auto differs = [&](char label) { return !(a.extent(label) == b.extent(label)); };
    if (roles.summed.empty() || (roles.left.empty() && roles.right.empty()))
      return elementwise(a, b, roles);
    // An extent of the two may turn out to be 1, which a matrix product does not broadcast.
    for (const char label : roles.summed) {
      if (!differs(label)) continue;
      CAMSHAFT_ASSIGN(const Shape both,
                      ir::broadcast_shapes({a.extent(label)}, {b.extent(label)}, node_.symbols()));
      CAMSHAFT_TRY(widen(a, label, both[0]));
      CAMSHAFT_TRY(widen(b, label, both[0]));
    }
    // A row times a matrix rather than a matrix times a column; else as the result has them.
    const auto last_of = [this](const std::string& labels) {
      size_t last = 0;
      for (const char label : labels)
        if (const size_t at = result_.find(label); at != std::string::npos)
          last = std::max(last, at + 1);
      return last;
    };
    const bool exchanged =
        roles.right.empty() || (!roles.left.empty() && last_of(roles.left) > last_of(roles.right));
    if (exchanged) {
      std::swap(a, b);
      roles = roles_of(a, b, needed);
    }
    return matrix_product(a, b, roles);
  }

  // Repeats what is 1 along the label as often as `extent` says.
  Status widen(Factor& f, char label, Dim extent) {
    if (f.extent(label) == extent) return ok_status();
    Shape shape = f.tensor->shape;
    shape[f.labels.find(label)] = extent;
    CAMSHAFT_ASSIGN(f.tensor, node_.add("widened", LayerKind::kExpand, ir::ShapeAttrs{true, shape},
                                        {f.tensor}));
    return ok_status();
  }

  Result<Factor> elementwise(const Factor& a, const Factor& b, const Roles& roles) {
    std::string order = within(result_, a.labels + b.labels);
    order += without(roles.batch + roles.left + roles.right, order);
    order += without(roles.summed, order);
    // One factor's own order where that suits: nothing moves then.
    for (const Factor* f : {&a, &b})
      if (without(order, f->labels).empty() &&
          without(f->labels, roles.summed) == without(order, roles.summed))
        order = f->labels;
    Tensor* sides[2];
    for (size_t k = 0; k < 2; ++k) {
      const Factor& f = k == 0 ? a : b;
      Shape shape;
      for (const char label : order) shape.push_back(f.has(label) ? f.extent(label) : Dim(1));
      CAMSHAFT_ASSIGN(sides[k], arranged(f, within(order, f.labels), shape));
    }
    CAMSHAFT_ASSIGN(Tensor* const y, node_.binary("product", PointOp::kMul, sides[0], sides[1]));
    Factor made{y, order};
    CAMSHAFT_TRY(sum(made, roles.summed));
    return made;
  }

  // Labels of `a` that stand in front of its last batch label may stay there: the other factor is
  // repeated along them.
  static std::string leading_labels(const Factor& a, const Roles& roles) {
    const std::string kept = without(a.labels, roles.summed);
    size_t end = 0;
    for (const char label : roles.batch) end = std::max(end, kept.find(label) + 1);
    const std::string leading = kept.substr(0, end), rows = kept.substr(end);
    if (leading.size() == roles.batch.size() || rows.empty()) return {};
    int64_t count = 1;
    for (const char label : rows)
      count *= a.extent(label).is_known() ? std::min<int64_t>(a.extent(label).extent(), kEnoughRows)
                                          : kEnoughRows;
    return count >= kEnoughRows ? leading : std::string();
  }

  // A side of a matrix product: [batch, outer, inner] where `inner` may be the rows or the columns.
  struct Side {
    Tensor* tensor = nullptr;
    bool transposed = false;
  };
  // `own`: the rows of the left factor, the columns of the right one; `own_last`: where they stand
  // without transposition.
  Result<Side> side(const Factor& f, const std::string& batch, const std::string& own,
                    const std::string& summed, bool own_last) {
    const std::string present = within(batch, f.labels);
    const std::string straight = present + (own_last ? summed + own : own + summed),
                      swapped = present + (own_last ? own + summed : summed + own);
    Side made;
    // Where something must move, whole rows of what is contiguous now.
    const bool ends_with_own = own.find(f.labels.back()) != std::string::npos;
    made.transposed = f.labels == swapped || (f.labels != straight && ends_with_own != own_last);
    const bool own_stands_last = own_last != made.transposed;
    Shape shape;
    for (const char label : batch) shape.push_back(f.has(label) ? f.extent(label) : Dim(1));
    while (!shape.empty() && shape[0] == Dim(1)) shape.erase(0);
    const Dim own_extent = extent_of(f, own), summed_extent = extent_of(f, summed);
    shape.push_back(own_stands_last ? summed_extent : own_extent);
    shape.push_back(own_stands_last ? own_extent : summed_extent);
    CAMSHAFT_ASSIGN(made.tensor, arranged(f, made.transposed ? swapped : straight, shape));
    return made;
  }

  Result<Factor> matrix_product(const Factor& a, const Factor& b, const Roles& roles) {
    std::string batch = leading_labels(a, roles);
    if (batch.empty()) {
      batch = within(result_, roles.batch);
      batch += without(roles.batch, batch);
    }
    // Summed labels in the order of the factor that is no constant.
    const std::string summed = within((a.tensor->is_constant() ? b : a).labels, roles.summed);
    // Rows of several dimensions may stay so where nothing has to move.
    if (batch.empty() && a.labels == roles.left + summed && roles.left.size() > 1)
      batch = roles.left.substr(0, roles.left.size() - 1);
    const std::string rows = without(roles.left, batch), columns = roles.right;
    CAMSHAFT_ASSIGN(const Side left, side(a, batch, rows, summed, false));
    CAMSHAFT_ASSIGN(const Side right, side(b, batch, columns, summed, true));
    ir::MatrixMultiplyAttrs attrs;
    attrs.transpose_a = left.transposed;
    attrs.transpose_b = right.transposed;
    CAMSHAFT_ASSIGN(Tensor * y, node_.add("product", LayerKind::kMatrixMultiply, std::move(attrs),
                                          {left.tensor, right.tensor}));
    Shape shape(y->shape.begin(), y->shape.end() - 2);
    for (const char label : rows) shape.push_back(a.extent(label));
    for (const char label : columns) shape.push_back(b.extent(label));
    if (!(shape == y->shape)) {
      CAMSHAFT_ASSIGN(y, node_.reshape("dimensions", y, shape));
    }
    return Factor{y, batch + rows + columns};
  }

  // --- the result

  Status finish() {
    const Factor& f = factors_[0];
    const std::string order = within(result_, f.labels);
    ir::ShuffleAttrs attrs = transposition(f, order);
    attrs.has_reshape = true;
    for (const char label : result_)
      attrs.reshape.push_back(f.has(label) ? f.extent(label) : Dim(1));
    return node_.emit(LayerKind::kShuffle, std::move(attrs), {f.tensor});
  }

  Node& node_;
  std::string result_;
  std::vector<Factor> factors_;
};

Status import_einsum(Node& node) {
  CAMSHAFT_TRY(node.require(std::max<size_t>(node.input_count(), 1)));
  const DataType type = node.input(0)->type;
  std::vector<size_t> ranks;
  for (const Tensor* tensor : node.inputs()) {
    if (!tensor->has_rank || tensor->type != type || !may_multiply(type))
      return import_generic(node);
    ranks.push_back(tensor->shape.size());
  }
  CAMSHAFT_ASSIGN(const ir::EinsumTerms terms, ir::parse_einsum(node.text("equation", ""), ranks));
  Einsum einsum(node, terms);
  CAMSHAFT_TRY(einsum.check_extents());
  return einsum.fits() ? einsum.run() : import_generic(node);
}

}  // namespace

std::span<const OperatorRow> einsum_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Einsum", import_einsum},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
