// SPDX-License-Identifier: Apache-2.0
// LabelEncoder and OneHotEncoder of ai.onnx.ml, of numbers.
#include <cmath>
#include <map>

#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

// NaN is a key like any other, equal to itself.
struct KeyOrder {
  bool operator()(double a, double b) const {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return a < b;
  }
};

// Inputs: x, keys [n], values [n], the value of what is no key. T: of values.
template <class T>
Status encode(const Call& call, Outputs& outputs) {
  const std::vector<double> keys = call.doubles(1), x = call.doubles(0);
  const std::vector<T> values = load<T>(call.in(2)), fallback = load<T>(call.in(3));
  if (keys.size() != values.size() || fallback.size() != 1)
    return make_error(ErrorCode::kInvalidArgument, "LabelEncoder: {} keys, {} values", keys.size(),
                      values.size());
  std::map<double, T, KeyOrder> table;
  for (size_t k = 0; k < keys.size(); ++k) table.emplace(keys[k], values[k]);
  std::vector<T> y;
  y.reserve(x.size());
  for (double key : x) {
    const auto found = table.find(key);
    y.push_back(found == table.end() ? fallback[0] : found->second);
  }
  outputs.push_back(produce(call.in(2).type, call.extents(0), y));
  return ok_status();
}

Status label_encoder(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(4));
  return ir::is_floating(call.in(2).type) ? encode<double>(call, outputs)
                                          : encode<int64_t>(call, outputs);
}

Status one_hot_encoder(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  const Ints categories = call.list("cats_int64s"), x = call.ints(0);
  Extents extents = call.extents(0);
  if (extents.size() >= ir::kMaxRank || categories.empty())
    return make_error(ErrorCode::kInvalidArgument, "OneHotEncoder of rank {} and {} categories",
                      extents.size(), categories.size());
  extents.push_back(static_cast<int64_t>(categories.size()));
  CAMSHAFT_TRY(check_extents(extents));
  const bool may_be_unknown = call.integer("zeros", 1) != 0;
  std::vector<double> y(x.size() * categories.size());
  for (size_t k = 0; k < x.size(); ++k) {
    const auto found = std::find(categories.begin(), categories.end(), x[k]);
    if (found != categories.end())
      y[k * categories.size() + (found - categories.begin())] = 1;
    else if (!may_be_unknown)
      return make_error(ErrorCode::kInvalidArgument, "OneHotEncoder: {} is no category", x[k]);
  }
  outputs.push_back(produce(DataType::kFloat, extents, y));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_encoders_operators() {
  static constexpr GenericRow kRows[] = {
      {"LabelEncoder", {nullptr, appending<label_encoder>}},
      {"OneHotEncoder", {nullptr, appending<one_hot_encoder>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
