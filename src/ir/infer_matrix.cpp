// SPDX-License-Identifier: Apache-2.0
// Shapes of matrix products, reductions, softmax, normalization and selection along an axis.
#include <algorithm>

#include "ir/expert_weights.h"
#include "ir/infer_internal.h"

namespace camshaft::ir {

Result<DataType> product_type(DataType x, DataType weights, DataType wanted) {
  const bool quantized = is_quantized(x) && is_quantized(weights);
  if (x != weights && !quantized)
    return invalid("the factors have different types: {} and {}", type_name(x), type_name(weights));
  if (!quantized && wanted != DataType::kUndefined && wanted != x)
    return invalid("factors of type {} do not give {}", type_name(x), type_name(wanted));
  if (wanted != DataType::kUndefined) return wanted;
  return quantized ? DataType::kFloat : x;
}

Status infer_matrix_multiply(Inference& f) {
  CAMSHAFT_TRY(f.require(2));
  const auto& attrs = f.layer.as<MatrixMultiplyAttrs>();
  CAMSHAFT_ASSIGN(const DataType type, product_type(f.in(0).type, f.in(1).type, attrs.type));
  if (!f.ranked(0) || !f.ranked(1)) return f.unranked(type);
  Shape a = f.shape(0), b = f.shape(1);
  if (a.empty() || b.empty()) return invalid("a factor is a scalar");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(0, 1);
  if (column) b.push_back(1);
  if (attrs.transpose_a) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (attrs.transpose_b) std::swap(b[b.size() - 1], b[b.size() - 2]);
  const Dim m = a[a.size() - 2], n = b[b.size() - 1];
  if (!compatible(a[a.size() - 1], b[b.size() - 2], f.symbols))
    return invalid("factors {} and {} do not match", to_string(f.shape(0), f.symbols),
                   to_string(f.shape(1), f.symbols));
  const Shape batch_a(a.begin(), a.end() - 2), batch_b(b.begin(), b.end() - 2);
  CAMSHAFT_ASSIGN(Shape shape, broadcast_shapes(batch_a, batch_b, f.symbols));
  if (!row) shape.push_back(m);
  if (!column) shape.push_back(n);
  if (f.ranked(2)) {
    CAMSHAFT_ASSIGN(const Shape with_bias, broadcast_shapes(shape, f.shape(2), f.symbols));
    if (with_bias.size() != shape.size())
      return invalid("bias {} has too many dimensions", to_string(f.shape(2), f.symbols));
    for (size_t d = 0; d < shape.size(); ++d)
      if (!compatible(with_bias[d], shape[d], f.symbols))
        return invalid("bias {} does not broadcast to {}", to_string(f.shape(2), f.symbols),
                       to_string(shape, f.symbols));
  }
  return f.give(type, shape);
}

// Rows [..., depth], records, bias → [..., columns].
Status infer_low_bits(Inference& f) {
  CAMSHAFT_TRY(f.require(2));
  const auto& weights = f.layer.as<LowBitMultiplyAttrs>();
  if (!RecordLayout::is_valid(weights))
    return invalid("{} x {} weights of {} bits in blocks of {}", weights.columns, weights.depth,
                   weights.bits, weights.block);
  if (f.in(0).type != DataType::kFloat)
    return invalid("the rows are {}, not float", type_name(f.in(0).type));
  if (!f.ranked(0)) return f.unranked(DataType::kFloat);
  Shape shape = f.shape(0);
  if (shape.empty() || !compatible(shape.back(), weights.depth, f.symbols))
    return invalid("rows {} do not match weights of depth {}", to_string(shape, f.symbols),
                   weights.depth);
  shape.back() = weights.columns;
  if (f.ranked(2)) {
    CAMSHAFT_ASSIGN(const Shape with_bias, broadcast_shapes(shape, f.shape(2), f.symbols));
    if (with_bias.size() != shape.size() || with_bias.back() != shape.back())
      return invalid("bias {} does not broadcast to {}", to_string(f.shape(2), f.symbols),
                     to_string(shape, f.symbols));
  }
  return f.give(DataType::kFloat, shape);
}

namespace {

// Leading extents of both are the same.
Status match_rows(Inference& f, size_t k, const char* what) {
  const Shape &rows = f.shape(kExpertRows), &of = f.shape(k);
  bool same = rows.size() == of.size() && !of.empty();
  for (size_t d = 0; same && d + 1 < rows.size(); ++d) same = compatible(rows[d], of[d], f.symbols);
  return same ? ok_status()
              : invalid("{} {} do not match rows {}", what, to_string(of, f.symbols),
                        to_string(rows, f.symbols));
}

Status match_extents(Inference& f, size_t k, const Extents& wanted, const char* what) {
  if (!f.ranked(k)) return ok_status();
  const Shape& shape = f.shape(k);
  bool same = shape.size() == wanted.size();
  for (size_t d = 0; same && d < wanted.size(); ++d)
    same = compatible(shape[d], wanted[d], f.symbols);
  return same ? ok_status()
              : invalid("{} {} instead of [{}]", what, to_string(shape, f.symbols),
                        fmt::join(wanted, ","));
}

}  // namespace

// Rows [..., width], chosen experts and shares [..., k], weights and biases → [..., width].
Status infer_experts(Inference& f) {
  CAMSHAFT_TRY(f.require(5));
  const auto& a = f.layer.as<ExpertsAttrs>();
  if (!is_valid(a))
    return invalid("{} experts of {} and {} columns, {} and {} bits", a.experts, a.width, a.hidden,
                   a.up_bits, a.down_bits);
  if (f.in(kExpertRows).type != DataType::kFloat || f.in(kExpertShares).type != DataType::kFloat)
    return invalid("rows or shares of experts are not float");
  if (f.in(kExpertsChosen).type != DataType::kInt64)
    return invalid("the chosen experts are {}, not int64", type_name(f.in(kExpertsChosen).type));
  CAMSHAFT_TRY(match_extents(f, kUpWeights, up_product(a).extents(a.experts), "up weights"));
  CAMSHAFT_TRY(match_extents(f, kDownWeights, down_product(a).extents(a.experts), "down weights"));
  CAMSHAFT_TRY(match_extents(f, kUpBias, {a.experts, up_product(a).columns}, "up bias"));
  CAMSHAFT_TRY(match_extents(f, kDownBias, {a.experts, a.width}, "down bias"));
  if (!f.ranked(kExpertRows)) return f.unranked(DataType::kFloat);
  const Shape& rows = f.shape(kExpertRows);
  if (rows.empty() || !compatible(rows.back(), a.width, f.symbols))
    return invalid("rows {} do not match experts of width {}", to_string(rows, f.symbols), a.width);
  for (const size_t k : {size_t{kExpertsChosen}, size_t{kExpertShares}})
    if (f.ranked(k)) CAMSHAFT_TRY(match_rows(f, k, k == kExpertsChosen ? "choices" : "shares"));
  if (f.ranked(kExpertsChosen) && f.ranked(kExpertShares) &&
      !compatible(f.shape(kExpertsChosen).back(), f.shape(kExpertShares).back(), f.symbols))
    return invalid("{} choices and {} shares of a row",
                   to_string({f.shape(kExpertsChosen).back()}, f.symbols),
                   to_string({f.shape(kExpertShares).back()}, f.symbols));
  Shape shape = rows;
  shape.back() = a.width;
  return f.give(DataType::kFloat, shape);
}

namespace {

std::optional<Dim> reduce_values(ReduceOp op, const std::vector<Dim>& value, SymbolTable& symbols) {
  if (value.empty())
    return op == ReduceOp::kProd  ? std::optional<Dim>(1)
           : op == ReduceOp::kSum ? std::optional<Dim>(0)
                                  : std::nullopt;
  Dim result = value[0];
  for (size_t k = 1; k < value.size(); ++k) switch (op) {
      case ReduceOp::kSum:
        result = symbols.add(result, value[k]);
        break;
      case ReduceOp::kProd:
        result = symbols.mul(result, value[k]);
        break;
      case ReduceOp::kMax:
        result = symbols.max(result, value[k]);
        break;
      case ReduceOp::kMin:
        result = symbols.min(result, value[k]);
        break;
      default:
        return std::nullopt;
    }
  const bool exact =
      op == ReduceOp::kSum || op == ReduceOp::kProd || op == ReduceOp::kMax || op == ReduceOp::kMin;
  return exact ? std::optional(result) : std::nullopt;
}

}  // namespace

Status infer_reduce(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<ReduceAttrs>();
  const DataType type = f.in(0).type;
  if (!f.ranked(0)) return f.unranked(type);
  const size_t rank = f.rank(0);
  Ints axes = a.axes;
  if (axes.empty() && f.has(1)) {
    const std::optional<Ints> given = f.numbers(1);
    if (!given) return a.keep_dims ? f.give(type, f.unknown_shape(rank)) : f.unranked(type);
    axes = *given;
    if (axes.empty() && !a.empty_is_none)
      for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  }
  std::vector<bool> reduced(rank);
  for (int64_t axis : axes) {
    const int64_t d = wrap_axis(axis, rank);
    if (d < 0) return invalid("axis {} of {}", axis, to_string(f.shape(0), f.symbols));
    reduced[d] = true;
  }
  Shape shape;
  for (size_t d = 0; d < rank; ++d)
    if (!reduced[d] || a.keep_dims) shape.push_back(reduced[d] ? Dim(1) : f.shape(0)[d]);
  if (f.in(0).value && std::find(reduced.begin(), reduced.end(), false) == reduced.end() &&
      !reduced.empty())
    if (const std::optional<Dim> value = reduce_values(a.op, *f.in(0).value, f.symbols))
      f.out().value = {*value};
  if (f.in(0).value && axes.empty()) {  // every element by itself: some operators change it
    std::vector<Dim> values;
    for (const Dim value : *f.in(0).value)
      if (const std::optional<Dim> alone = reduce_values(a.op, {value}, f.symbols))
        values.push_back(*alone);
    if (values.size() == f.in(0).value->size()) f.out().value = std::move(values);
  }
  return f.give(type, shape);
}

Status infer_softmax(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<SoftMaxAttrs>();
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  const int64_t rank = static_cast<int64_t>(f.rank(0));
  if (rank > 0 && (a.axis < 0 || a.axis > a.last_axis || a.last_axis >= rank))
    return invalid("axes [{}, {}] of {}", a.axis, a.last_axis, to_string(f.shape(0), f.symbols));
  return f.give(f.in(0).type, f.shape(0));
}

Status infer_normalization(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<NormalizationAttrs>();
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  const Shape& x = f.shape(0);
  const bool per_channel = a.kind == NormKind::kInstance || a.kind == NormKind::kGroup;
  if (!per_channel && (a.axis < 0 || a.axis >= static_cast<int64_t>(x.size())))
    return invalid("axis {} of {}", a.axis, to_string(x, f.symbols));
  if (per_channel && x.size() < 2)
    return invalid("input {} has no channels", to_string(x, f.symbols));
  if (a.kind == NormKind::kGroup &&
      (a.groups < 1 || (x[1].is_known() && x[1].extent() % a.groups != 0)))
    return invalid("{} channels cannot be divided into {} groups", f.symbols.to_string(x[1]),
                   a.groups);
  for (size_t k = 1; k < 3 && per_channel; ++k)
    if (f.ranked(k) && (f.rank(k) != 1 || !compatible(f.shape(k)[0], x[1], f.symbols)))
      return invalid("input {} with shape {} for {} channels", k, to_string(f.shape(k), f.symbols),
                     f.symbols.to_string(x[1]));
  for (size_t k = 1; k < 3 && !per_channel; ++k) {
    if (!f.ranked(k)) continue;
    CAMSHAFT_ASSIGN(const Shape shape, broadcast_shapes(x, f.shape(k), f.symbols));
    if (shape.size() != x.size()) return invalid("input {} has too many dimensions", k);
  }
  return f.give(f.in(0).type, x);
}

Status infer_topk(Inference& f) {
  CAMSHAFT_TRY(f.require(2));
  const auto& a = f.layer.as<TopKAttrs>();
  if (!f.ranked(0)) {
    CAMSHAFT_TRY(f.unranked(DataType::kInt64, 1));
    return f.unranked(f.in(0).type);
  }
  if (a.axis < 0 || a.axis >= static_cast<int64_t>(f.rank(0)))
    return invalid("axis {} of {}", a.axis, to_string(f.shape(0), f.symbols));
  Shape shape = f.shape(0);
  const bool known = f.in(1).value && f.in(1).value->size() == 1;
  const Dim k = known ? (*f.in(1).value)[0] : f.unknown();
  if (f.is_number(k) && f.is_number(shape[a.axis]) &&
      f.symbols.number(k) > f.symbols.number(shape[a.axis]))
    return invalid("k = {} is larger than axis {} of {}", f.symbols.number(k), a.axis,
                   to_string(shape, f.symbols));
  shape[a.axis] = k;
  CAMSHAFT_TRY(f.give(DataType::kInt64, shape, 1));
  return f.give(f.in(0).type, shape);
}

Status infer_arg_min_max(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<TopKAttrs>();
  if (!f.ranked(0)) return f.unranked(DataType::kInt64);
  Shape shape = f.shape(0);
  if (a.axis < 0 || a.axis >= static_cast<int64_t>(shape.size()))
    return invalid("axis {} of {}", a.axis, to_string(shape, f.symbols));
  if (a.keep_dims)
    shape[a.axis] = 1;
  else
    shape.erase(a.axis);
  return f.give(DataType::kInt64, shape);
}

Status infer_cumsum(Inference& f) {
  CAMSHAFT_TRY(f.require(2));
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  if (const std::optional<int64_t> axis = f.number(1); axis && wrap_axis(*axis, f.rank(0)) < 0)
    return invalid("axis {} of {}", *axis, to_string(f.shape(0), f.symbols));
  return f.give(f.in(0).type, f.shape(0));
}

}  // namespace camshaft::ir
