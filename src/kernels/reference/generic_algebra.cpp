// SPDX-License-Identifier: Apache-2.0
// Einsum, Det, Trilu, EyeLike, CumProd, BitCast, TensorScatter, ReverseSequence.
#include <algorithm>
#include <cstring>
#include <map>

#include "ir/einsum.h"
#include "kernels/index_error.h"
#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

// --- Einsum

struct EinsumPlan {
  std::string labels;  // those of the output first
  size_t out_rank = 0;
  Ints extents;               // per label
  std::vector<Ints> strides;  // per operand and label; 0 where it does not occur or is broadcast
};

Result<EinsumPlan> plan_einsum(const Call& call) {
  std::vector<size_t> ranks;
  for (const TensorView& view : call.args().inputs) ranks.push_back(static_cast<size_t>(view.rank));
  CAMSHAFT_ASSIGN(const ir::EinsumTerms terms, ir::parse_einsum(call.text("equation", ""), ranks));
  EinsumPlan plan;
  std::map<char, int64_t> extents;
  for (size_t k = 0; k < ranks.size(); ++k)
    for (size_t d = 0; d < ranks[k]; ++d) {
      const char label = terms.operands[k][d];
      int64_t& extent = extents.emplace(label, 1).first->second;
      const int64_t given = call.in(k).extents[d];
      if (given != 1 && extent != 1 && given != extent)
        return make_error(ErrorCode::kInvalidArgument, "Einsum label {} has extents {} and {}",
                          label, extent, given);
      if (given != 1) extent = given;
    }
  plan.labels = terms.result;
  plan.out_rank = terms.result.size();
  for (const auto& [label, extent] : extents)
    if (plan.labels.find(label) == std::string::npos) plan.labels += label;
  for (const char label : plan.labels) plan.extents.push_back(extents[label]);
  for (size_t k = 0; k < ranks.size(); ++k) {
    const Ints dense = dense_strides(call.extents(k));
    Ints strides(plan.labels.size(), 0);
    for (size_t d = 0; d < ranks[k]; ++d)
      if (call.in(k).extents[d] != 1) strides[plan.labels.find(terms.operands[k][d])] += dense[d];
    plan.strides.push_back(strides);
  }
  return plan;
}

template <class T>
std::vector<T> run_einsum(const Call& call, const EinsumPlan& plan) {
  std::vector<std::vector<T>> operands;
  for (const TensorView& view : call.args().inputs) operands.push_back(load<T>(view));
  const int64_t out_count = count_of(std::span(plan.extents).first(plan.out_rank));
  const int64_t sum_count = count_of(std::span(plan.extents).subspan(plan.out_rank));
  std::vector<T> result(out_count);
  Ints index(plan.labels.size(), 0), positions(operands.size(), 0);
  for (int64_t k = 0; k < out_count; ++k) {
    T sum = 0;
    for (int64_t s = 0; s < sum_count; ++s) {
      T product = 1;
      for (size_t p = 0; p < operands.size(); ++p) product *= operands[p][positions[p]];
      sum += product;
      for (size_t d = index.size();
           d-- > 0;) {  // the next combination of labels, over the whole list
        const bool carry = ++index[d] == plan.extents[d];
        for (size_t p = 0; p < operands.size(); ++p)
          positions[p] += carry ? (1 - plan.extents[d]) * plan.strides[p][d] : plan.strides[p][d];
        if (!carry) break;
        index[d] = 0;
      }
    }
    result[k] = sum;
  }
  return result;
}

Status einsum(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  CAMSHAFT_ASSIGN(const EinsumPlan plan, plan_einsum(call));
  const Extents extents(plan.extents.begin(),
                        plan.extents.begin() + static_cast<int64_t>(plan.out_rank));
  CAMSHAFT_TRY(check_extents(extents));
  const DataType type = call.in(0).type;
  if (ir::is_integer(type))
    outputs.push_back(produce(type, extents, run_einsum<int64_t>(call, plan)));
  else
    outputs.push_back(produce(type, extents, run_einsum<double>(call, plan)));
  return ok_status();
}

// --- Det: elimination with row exchanges

double determinant(std::vector<double> a, int64_t n) {
  double result = 1;
  for (int64_t col = 0; col < n; ++col) {
    int64_t pivot = col;
    for (int64_t row = col + 1; row < n; ++row)
      if (std::abs(a[row * n + col]) > std::abs(a[pivot * n + col])) pivot = row;
    if (a[pivot * n + col] == 0) return 0;
    if (pivot != col) {
      std::swap_ranges(a.data() + pivot * n, a.data() + pivot * n + n, a.data() + col * n);
      result = -result;
    }
    result *= a[col * n + col];
    for (int64_t row = col + 1; row < n; ++row) {
      const double factor = a[row * n + col] / a[col * n + col];
      for (int64_t k = col; k < n; ++k) a[row * n + k] -= factor * a[col * n + k];
    }
  }
  return result;
}

Status det(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require_rank(0, 2));
  Extents extents = call.extents(0);
  const int64_t n = extents.back();
  if (extents[extents.size() - 2] != n)
    return make_error(ErrorCode::kInvalidArgument,
                      "the determinant of a matrix that is not square");
  extents.resize(extents.size() - 2);
  const std::vector<double> x = call.doubles(0);
  std::vector<double> result;
  for (int64_t k = 0; k < count_of(extents); ++k)
    result.push_back(determinant({x.begin() + k * n * n, x.begin() + (k + 1) * n * n}, n));
  outputs.push_back(produce(call.in(0).type, extents, result));
  return ok_status();
}

// --- matrices by position

// Bytes of the input with those elements zeroed for which drop(index) holds.
template <class Drop>
DynamicOutput zero_where(const TensorView& x, const Drop& drop) {
  const size_t bytes = ir::bits_of(x.type) / 8;
  DynamicOutput out{extents_of(x), x.type, std::vector<std::byte>(x.elements() * bytes)};
  copy_view(x, make_view(out.bytes.data(), x.type, Format::kLinear, out.extents));
  size_t k = 0;
  for_each_index(out.extents, [&](const Extents& index) {
    if (drop(index)) std::memset(out.bytes.data() + k * bytes, 0, bytes);
    ++k;
  });
  return out;
}

Status trilu(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require_rank(0, 2));
  const bool upper = call.integer("upper", 1) != 0;
  const int64_t diagonal = call.integer_scalar(1, 0);
  outputs.push_back(zero_where(call.in(0), [&](const Extents& index) {
    const int64_t distance = index[index.size() - 1] - index[index.size() - 2];
    return upper ? distance < diagonal : distance > diagonal;
  }));
  return ok_status();
}

Status eye_like(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require_rank(0, 2));
  const Extents extents = call.extents(0);
  const int64_t diagonal = call.integer("k", 0);
  std::vector<double> values(static_cast<size_t>(extents[0] * extents[1]));
  const bool is_met = diagonal > -extents[0] && diagonal < extents[1];
  for (int64_t row = 0; is_met && row < extents[0]; ++row)
    if (const int64_t col = row + diagonal; col >= 0 && col < extents[1])
      values[static_cast<size_t>(row * extents[1] + col)] = 1;
  const DataType type =
      call.has("dtype") ? from_onnx_type(call.integer("dtype", 1)) : call.in(0).type;
  outputs.push_back(produce(type, extents, values));
  return ok_status();
}

Status cumulative_product(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(call.integer_scalar(1, 0), call.in(0).rank));
  const bool exclusive = call.integer("exclusive", 0) != 0,
             reverse = call.integer("reverse", 0) != 0;
  std::vector<double> values = call.doubles(0);
  const Lines lines = lines_of(call.extents(0), axis);
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      double product = 1;
      for (int64_t k = 0; k < lines.count; ++k) {
        double& value =
            values[(o * lines.count + (reverse ? lines.count - 1 - k : k)) * lines.inner + i];
        const double before = product;
        product *= value;
        value = exclusive ? before : product;
      }
    }
  }
  outputs.push_back(produce(call.in(0).type, call.extents(0), values));
  return ok_status();
}

Status bit_cast(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  const TensorView x = call.in(0);
  const DataType type = from_onnx_type(call.integer("to", 0));
  if (type == DataType::kUndefined || ir::bits_of(type) != ir::bits_of(x.type) ||
      ir::bits_of(type) < 8)
    return make_error(ErrorCode::kInvalidArgument, "BitCast between types of different width");
  outputs.push_back(zero_where(x, [](const Extents&) { return false; }));
  outputs.back().type = type;
  return ok_status();
}

Status tensor_scatter(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  const TensorView past = call.in(0), update = call.in(1);
  CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(call.integer("axis", -2), past.rank));
  const bool circular = call.text("mode", "linear") == "circular";
  Ints first = call.ints(2);
  if (first.empty()) first.assign(past.extents[0], 0);
  if (update.rank != past.rank || axis == 0 ||
      static_cast<int64_t>(first.size()) != past.extents[0])
    return make_error(ErrorCode::kInvalidArgument,
                      "TensorScatter: update or indices do not fit the cache");
  for (int d = 0; d < past.rank; ++d)
    if (update.extents[d] > past.extents[d] || (d != axis && update.extents[d] != past.extents[d]))
      return make_error(ErrorCode::kInvalidArgument, "TensorScatter: extent {} into {}",
                        update.extents[d], past.extents[d]);
  std::vector<double> values = load<double>(past);
  const std::vector<double> updates = load<double>(update);
  const Ints strides = dense_strides(extents_of(past));
  const int64_t length = past.extents[axis];
  Status failed;
  size_t k = 0;
  for_each_index(extents_of(update), [&](const Extents& index) {
    Extents target = index;
    target[axis] += first[index[0]];
    if (circular) target[axis] = ((target[axis] % length) + length) % length;
    for (size_t d = 0; d < target.size(); ++d)
      if (target[d] < 0 || target[d] >= past.extents[d])
        failed = make_error(ErrorCode::kInvalidArgument, "TensorScatter: position {} of {}",
                            target[d], past.extents[d]);
    if (failed.ok()) values[offset_of(target, strides)] = updates[k];
    ++k;
  });
  CAMSHAFT_TRY(failed);
  outputs.push_back(produce(past.type, extents_of(past), values));
  return ok_status();
}

Status reverse_sequence(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_TRY(call.require_rank(0, 2));
  const int64_t batch_axis = call.integer("batch_axis", 1),
                time_axis = call.integer("time_axis", 0);
  const Ints lengths = call.ints(1);
  const std::vector<double> x = call.doubles(0);
  const Extents extents = call.extents(0);
  if (batch_axis < 0 || time_axis < 0 || batch_axis + time_axis != 1 ||
      static_cast<int64_t>(lengths.size()) != extents[batch_axis])
    return make_error(ErrorCode::kInvalidArgument, "ReverseSequence: axes or lengths do not fit");
  CAMSHAFT_TRY(lengths_error(call.in(1), extents[time_axis]));
  const Ints strides = dense_strides(extents);
  std::vector<double> y;
  for_each_index(extents, [&](const Extents& index) {
    Extents source = index;
    const int64_t length = lengths[index[batch_axis]];
    if (index[time_axis] < length) source[time_axis] = length - 1 - index[time_axis];
    y.push_back(x[offset_of(source, strides)]);
  });
  outputs.push_back(produce(call.in(0).type, extents, y));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_algebra_operators() {
  static constexpr GenericRow kRows[] = {
      {"Einsum", {nullptr, appending<einsum>}},
      {"Det", {nullptr, appending<det>}},
      {"Trilu", {nullptr, appending<trilu>}},
      {"EyeLike", {nullptr, appending<eye_like>}},
      {"CumProd", {nullptr, appending<cumulative_product>}},
      {"BitCast", {nullptr, appending<bit_cast>}},
      {"TensorScatter", {nullptr, appending<tensor_scatter>}},
      {"ReverseSequence", {nullptr, appending<reverse_sequence>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
