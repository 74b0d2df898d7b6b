// SPDX-License-Identifier: Apache-2.0
// Reduce, SoftMax, Normalization, CumSum: sums in double (or wrap-around int64 for integers).
#include <algorithm>
#include <limits>

#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

using ir::ReduceOp;

// Extents as [outer, count, inner] around the dimensions [axis, last_axis].
struct Lines {
  int64_t outer, count, inner;
};
Lines lines_of(std::span<const int64_t> extents, int64_t axis, int64_t last_axis) {
  return {count_of(extents.first(axis)), count_of(extents.subspan(axis, last_axis - axis + 1)),
          count_of(extents.subspan(last_axis + 1))};
}

// The number of the output element each input element goes to.
std::vector<int64_t> reduction_targets(std::span<const int64_t> extents,
                                       const std::vector<bool>& reduced) {
  Ints strides(extents.size(), 0);
  int64_t stride = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    if (reduced[d]) continue;
    strides[d] = stride;
    stride *= extents[d];
  }
  std::vector<int64_t> targets;
  targets.reserve(count_of(extents));
  for_each_index(extents,
                 [&](const Extents& index) { targets.push_back(offset_of(index, strides)); });
  return targets;
}

int64_t identity_of(ReduceOp op, DataType type) {
  if (op == ReduceOp::kMax) return type == DataType::kUInt64 ? 0 : lowest(type);
  if (op == ReduceOp::kMin) return type == DataType::kUInt64 ? -1 : highest(type);
  return op == ReduceOp::kProd ? 1 : 0;
}

Ints reduce_integers(ReduceOp op, DataType type, const Ints& x, const Ints& targets,
                     int64_t count) {
  const bool is_unsigned = type == DataType::kUInt64;
  const auto less = [&](int64_t a, int64_t b) {
    return is_unsigned ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
  };
  std::vector<uint64_t> sums(count, static_cast<uint64_t>(identity_of(op, type)));
  for (size_t k = 0; k < x.size(); ++k) {
    uint64_t& sum = sums[targets[k]];
    const uint64_t value = static_cast<uint64_t>(x[k]);
    switch (op) {
      case ReduceOp::kMax:
        if (less(static_cast<int64_t>(sum), x[k])) sum = value;
        break;
      case ReduceOp::kMin:
        if (less(x[k], static_cast<int64_t>(sum))) sum = value;
        break;
      case ReduceOp::kProd:
        sum *= value;
        break;
      case ReduceOp::kL1:
        sum += x[k] < 0 && !is_unsigned ? -value : value;
        break;
      case ReduceOp::kSumSquare:
        sum += value * value;
        break;
      default:
        sum += value;
        break;
    }
  }
  const int64_t share =
      count == 0 ? 1 : std::max<int64_t>(static_cast<int64_t>(x.size()) / count, 1);
  Ints result(sums.begin(), sums.end());
  if (op == ReduceOp::kMean)
    for (int64_t& value : result) value /= share;
  return result;
}

std::vector<double> reduce_doubles(ReduceOp op, const std::vector<double>& x, const Ints& targets,
                                   int64_t count) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double identity = op == ReduceOp::kMax || op == ReduceOp::kLogSumExp ? -kInfinity
                          : op == ReduceOp::kMin                             ? kInfinity
                          : op == ReduceOp::kProd                            ? 1
                                                                             : 0;
  std::vector<double> sums(count, identity);
  for (size_t k = 0; k < x.size(); ++k) {
    double& sum = sums[targets[k]];
    switch (op) {
      case ReduceOp::kMax:
      case ReduceOp::kLogSumExp:
        if (x[k] > sum || std::isnan(x[k])) sum = x[k];
        break;
      case ReduceOp::kMin:
        if (x[k] < sum || std::isnan(x[k])) sum = x[k];
        break;
      case ReduceOp::kProd:
        sum *= x[k];
        break;
      case ReduceOp::kL1:
        sum += std::abs(x[k]);
        break;
      case ReduceOp::kL2:
      case ReduceOp::kSumSquare:
        sum += x[k] * x[k];
        break;
      default:
        sum += x[k];
        break;
    }
  }
  const double share = count == 0 ? 0 : static_cast<double>(x.size()) / static_cast<double>(count);
  if (op == ReduceOp::kMean)
    for (double& value : sums) value /= share;
  if (op == ReduceOp::kL2)
    for (double& value : sums) value = std::sqrt(value);
  if (op == ReduceOp::kLogSum)
    for (double& value : sums) value = std::log(value);
  if (op == ReduceOp::kLogSumExp) {  // relative to the maximum, so that nothing overflows
    std::vector<double> exponentials(count, 0.0);
    for (size_t k = 0; k < x.size(); ++k) {
      const double maximum = sums[targets[k]];
      exponentials[targets[k]] += std::isinf(maximum) ? std::exp(x[k]) : std::exp(x[k] - maximum);
    }
    for (int64_t k = 0; k < count; ++k)
      sums[k] = (std::isinf(sums[k]) ? 0 : sums[k]) + std::log(exponentials[k]);
  }
  return sums;
}

Status reduce(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::ReduceAttrs>();
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  std::vector<bool> reduced(x.rank, false);
  const bool at_run_time = attrs.axes.empty() && args.inputs.size() > 1 && args.inputs[1].present();
  const Ints axes = at_run_time ? load_ints(args.inputs[1]) : attrs.axes;
  if (at_run_time && axes.empty() && !attrs.empty_is_none) reduced.assign(x.rank, true);
  for (int64_t axis : axes) {
    CAMSHAFT_ASSIGN(const int64_t d, normalize_axis(axis, x.rank));
    reduced[d] = true;
  }
  const Extents extents = extents_of(x);
  const Ints targets = reduction_targets(extents, reduced);
  int64_t count = 1;
  for (int d = 0; d < x.rank; ++d)
    if (!reduced[d]) count *= extents[d];
  if (count != y.elements())
    return make_error(ErrorCode::kInternal, "a reduction gives {} elements, not {}", count,
                      y.elements());
  const bool whole = ir::is_integer(x.type) || x.type == DataType::kBool;
  const bool by_integers = whole && attrs.op != ReduceOp::kL2 && attrs.op != ReduceOp::kLogSum &&
                           attrs.op != ReduceOp::kLogSumExp;
  if (by_integers) {
    store(y, reduce_integers(attrs.op, x.type, load<int64_t>(x), targets, count));
    return ok_status();
  }
  const std::vector<double> result = reduce_doubles(attrs.op, load<double>(x), targets, count);
  if (whole)
    store(y, Ints(result.begin(), result.end()));  // integers are cut off
  else
    store(y, result);
  return ok_status();
}

// `first` is the line's first element, `step` the distance to the next.
void softmax_line(double* first, int64_t count, int64_t step, bool log) {
  double maximum = first[0], sum = 0;
  for (int64_t k = 1; k < count; ++k) maximum = std::max(maximum, first[k * step]);
  for (int64_t k = 0; k < count; ++k) sum += std::exp(first[k * step] - maximum);
  for (int64_t k = 0; k < count; ++k) {
    double& value = first[k * step];
    value = log ? value - maximum - std::log(sum) : std::exp(value - maximum) / sum;
  }
}

void hardmax_line(double* first, int64_t count, int64_t step) {
  int64_t best = 0;
  for (int64_t k = 1; k < count; ++k)
    if (first[k * step] > first[best * step]) best = k;
  for (int64_t k = 0; k < count; ++k) first[k * step] = k == best;
}

Status softmax(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::SoftMaxAttrs>();
  const TensorView& x = args.inputs[0];
  std::vector<double> values = load<double>(x);
  if (values.empty()) return ok_status();
  if (x.rank > 0 && (attrs.axis < 0 || attrs.last_axis < attrs.axis || attrs.last_axis >= x.rank))
    return make_error(ErrorCode::kInvalidArgument, "softmax over [{}, {}] of rank {}", attrs.axis,
                      attrs.last_axis, x.rank);
  const Extents extents = extents_of(x);
  const Lines lines = x.rank == 0 ? Lines{1, 1, 1} : lines_of(extents, attrs.axis, attrs.last_axis);
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      double* first = values.data() + o * lines.count * lines.inner + i;
      if (attrs.hard)
        hardmax_line(first, lines.count, lines.inner);
      else
        softmax_line(first, lines.count, lines.inner, attrs.log);
    }
  }
  store(args.outputs[0], values);
  return ok_status();
}

// Normalizes groups of `size` consecutive elements in place; keeps their means and inverse standard
// deviations.
struct Moments {
  std::vector<double> mean, inverse_deviation;
};
Moments normalize_groups(std::vector<double>& values, int64_t size, double epsilon, bool center) {
  Moments moments;
  const int64_t groups = size == 0 ? 0 : static_cast<int64_t>(values.size()) / size;
  for (int64_t g = 0; g < groups; ++g) {
    double* group = values.data() + g * size;
    double mean = 0, square = 0;
    if (center) {
      for (int64_t k = 0; k < size; ++k) mean += group[k];
      mean /= static_cast<double>(size);
    }
    for (int64_t k = 0; k < size; ++k) square += (group[k] - mean) * (group[k] - mean);
    const double inverse = 1 / std::sqrt(square / static_cast<double>(size) + epsilon);
    for (int64_t k = 0; k < size; ++k) group[k] = (group[k] - mean) * inverse;
    moments.mean.push_back(mean);
    moments.inverse_deviation.push_back(inverse);
  }
  return moments;
}

// One number per element of x: per channel (or per group) for instance and group normalization,
// else numpy broadcasting.
Result<std::vector<double>> affine(const TensorView& view, const TensorView& x,
                                   const ir::NormalizationAttrs& attrs) {
  const Extents extents = extents_of(x);
  if (attrs.kind == ir::NormKind::kLayer || attrs.kind == ir::NormKind::kRms) {
    const TensorView views[] = {view, x};
    CAMSHAFT_ASSIGN(const Extents common, broadcast_extents(views));
    if (!(common == extents))
      return make_error(ErrorCode::kInvalidArgument, "scale or bias is larger than the input");
    return load<double>(broadcast_to(view, extents));
  }
  const std::vector<double> per_channel = load<double>(view);
  const int64_t channels = extents[1], given = static_cast<int64_t>(per_channel.size());
  if (given == 0 || channels % given)
    return make_error(ErrorCode::kInvalidArgument, "{} scales for {} channels", given, channels);
  const int64_t inner = count_of(std::span<const int64_t>(extents).subspan(2));
  std::vector<double> result(x.elements());
  for (size_t k = 0; k < result.size(); ++k)
    result[k] = per_channel[static_cast<int64_t>(k) / inner % channels / (channels / given)];
  return result;
}

Status normalization(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::NormalizationAttrs>();
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const Extents extents = extents_of(x);
  int64_t axis = attrs.axis, groups_per_item = 1;
  if (attrs.kind == ir::NormKind::kInstance || attrs.kind == ir::NormKind::kGroup) {
    if (x.rank < 2)
      return make_error(ErrorCode::kInvalidArgument,
                        "normalization over channels of a tensor of rank {}", x.rank);
    axis = 1;
    groups_per_item = attrs.kind == ir::NormKind::kInstance ? extents[1] : attrs.groups;
    if (groups_per_item < 1 || extents[1] % groups_per_item)
      return make_error(ErrorCode::kInvalidArgument, "{} channels do not divide into {} groups",
                        extents[1], attrs.groups);
  }
  std::vector<double> values = load<double>(x);
  const int64_t size = count_of(std::span<const int64_t>(extents).subspan(axis)) / groups_per_item;
  const Moments moments =
      normalize_groups(values, size, attrs.epsilon, attrs.kind != ir::NormKind::kRms);
  if (const TensorView scale = input(args, 1); scale.present()) {
    CAMSHAFT_ASSIGN(const std::vector<double> factors, affine(scale, x, attrs));
    for (size_t k = 0; k < values.size(); ++k) values[k] *= factors[k];
  }
  if (const TensorView bias = input(args, 2); bias.present()) {
    CAMSHAFT_ASSIGN(const std::vector<double> shifts, affine(bias, x, attrs));
    for (size_t k = 0; k < values.size(); ++k) values[k] += shifts[k];
  }
  CAMSHAFT_TRY(apply_epilogue(attrs.epilogue, values, extents,
                              args.inputs.subspan(std::min<size_t>(3, args.inputs.size()))));
  store(y, values);
  if (const TensorView mean = output(args, 1); mean.present()) store(mean, moments.mean);
  if (const TensorView inverse = output(args, 2); inverse.present())
    store(inverse, moments.inverse_deviation);
  return ok_status();
}

template <class T>
void accumulate(std::vector<T>& values, const Lines& lines, const ir::CumSumAttrs& attrs) {
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      T sum = 0;
      for (int64_t k = 0; k < lines.count; ++k) {
        const int64_t position = attrs.reverse ? lines.count - 1 - k : k;
        T& value = values[(o * lines.count + position) * lines.inner + i];
        const T before = sum;
        sum += value;
        value = attrs.exclusive ? before : sum;
      }
    }
  }
}

Status cumulative_sum(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::CumSumAttrs>();
  const TensorView& x = args.inputs[0];
  const Ints axes = load_ints(args.inputs[1]);
  if (axes.size() != 1) return make_error(ErrorCode::kInvalidArgument, "CumSum takes one axis");
  CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(axes[0], x.rank));
  const Lines lines = lines_of(extents_of(x), axis, axis);
  if (ir::is_integer(x.type)) {
    const Ints values = load<int64_t>(x);
    std::vector<uint64_t> sums(values.begin(), values.end());
    accumulate(sums, lines, attrs);
    store(args.outputs[0], Ints(sums.begin(), sums.end()));
  } else {
    std::vector<double> values = load<double>(x);
    accumulate(values, lines, attrs);
    store(args.outputs[0], values);
  }
  return ok_status();
}

}  // namespace

std::span<const KindRow> reduce_kinds() {
  static constexpr KindRow kRows[] = {
      {ir::LayerKind::kReduce, {reduce, nullptr}},
      {ir::LayerKind::kSoftMax, {softmax, nullptr}},
      {ir::LayerKind::kNormalization, {normalization, nullptr}},
      {ir::LayerKind::kCumSum, {cumulative_sum, nullptr}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
