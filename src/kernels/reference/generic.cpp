// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/generic.h"

#include "ir/generic_attributes.h"

#include <algorithm>

namespace camshaft::kernels::reference {

DataType from_onnx_type(int64_t number) {
  switch (number) {
    case 1:
      return DataType::kFloat;
    case 2:
      return DataType::kUInt8;
    case 3:
      return DataType::kInt8;
    case 4:
      return DataType::kUInt16;
    case 5:
      return DataType::kInt16;
    case 6:
      return DataType::kInt32;
    case 7:
      return DataType::kInt64;
    case 9:
      return DataType::kBool;
    case 10:
      return DataType::kHalf;
    case 11:
      return DataType::kDouble;
    case 12:
      return DataType::kUInt32;
    case 13:
      return DataType::kUInt64;
    case 16:
      return DataType::kBFloat16;
    case 21:
      return DataType::kUInt4;
    case 22:
      return DataType::kInt4;
    default:
      return DataType::kUndefined;
  }
}

const ir::GenericAttribute* Call::find(std::string_view name) const {
  return ir::find_attribute(attrs_, name);
}

double Call::scalar(size_t k, double fallback) const {
  const std::vector<double> values = doubles(k);
  return values.empty() ? fallback : values[0];
}

int64_t Call::integer_scalar(size_t k, int64_t fallback) const {
  const Ints values = ints(k);
  return values.empty() ? fallback : values[0];
}

int64_t Call::integer(std::string_view name, int64_t fallback) const {
  return ir::integer_attribute(attrs_, name, fallback);
}

double Call::real(std::string_view name, double fallback) const {
  return ir::real_attribute(attrs_, name, fallback);
}

std::string Call::text(std::string_view name, std::string_view fallback) const {
  const auto* attribute = find(name);
  return attribute && !attribute->text.empty() ? attribute->text : std::string(fallback);
}

Ints Call::list(std::string_view name) const {
  return ir::integers_attribute(attrs_, name);
}

Ints Call::list_or(std::string_view name, size_t count, int64_t fallback) const {
  const Ints given = list(name);
  return given.size() == count ? given : Ints(count, fallback);
}

std::vector<double> Call::reals(std::string_view name) const {
  const auto* attribute = find(name);
  return attribute ? std::vector<double>(attribute->floats.begin(), attribute->floats.end())
                   : std::vector<double>{};
}

Status Call::require(size_t count) const {
  for (size_t k = 0; k < count; ++k)
    if (!has_input(k))
      return make_error(ErrorCode::kInvalidModel, "{} needs input {}", op_type(), k);
  return ok_status();
}

Status Call::require_rank(size_t k, int rank) const {
  if (in(k).rank >= rank) return ok_status();
  return make_error(ErrorCode::kInvalidArgument,
                    "input {} of {} has rank {}, at least {} is needed", k, op_type(), in(k).rank,
                    rank);
}

}  // namespace camshaft::kernels::reference
