// SPDX-License-Identifier: Apache-2.0
#include "camshaft/types.h"

#include <algorithm>

#include <fmt/format.h>

#include "api/impl.h"

namespace camshaft {

static_assert(static_cast<int>(DataType::kFloat) == static_cast<int>(ir::DataType::kFloat));
static_assert(static_cast<int>(DataType::kBool) == static_cast<int>(ir::DataType::kBool));
static_assert(static_cast<int>(DataType::kUInt4) == static_cast<int>(ir::DataType::kUInt4));
static_assert(static_cast<int>(Verbosity::kDetailed) ==
              static_cast<int>(engine::Verbosity::kDetailed));

std::string_view type_name(DataType type) {
  return ir::type_name(api::to_internal(type));
}

size_t byte_size(DataType type, int64_t elements) {
  return ir::bytes_for(api::to_internal(type), elements);
}

int64_t element_count(const Dims& dims) {
  int64_t count = 1;
  for (int64_t extent : dims) {
    if (extent < 0) return -1;
    count *= extent;
  }
  return count;
}

std::string to_string(const Dims& dims) {
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x"));
}

bool TensorInfo::is_dynamic() const {
  return !has_rank ||
         std::any_of(dims.begin(), dims.end(), [](int64_t extent) { return extent < 0; });
}

}  // namespace camshaft
