// SPDX-License-Identifier: Apache-2.0
// The classification extension.
#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "serve/core.h"
#include "serve/data_types.h"

namespace camshaft::serve {
namespace {

template <class T>
double element(const std::byte* data, size_t k) {
  T value;
  std::memcpy(&value, data + k * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

using ElementReader = double (*)(const std::byte*, size_t);

ElementReader reader_of(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return element<float>;
    case DataType::kDouble:
      return element<double>;
    case DataType::kInt8:
      return element<int8_t>;
    case DataType::kUInt8:
      return element<uint8_t>;
    case DataType::kInt32:
      return element<int32_t>;
    case DataType::kInt64:
      return element<int64_t>;
    default:
      return nullptr;
  }
}

}  // namespace

std::optional<Error> classify(const Model& model, const Tensor& output, int64_t count,
                              Classes& classes) {
  const ElementReader read = reader_of(output.type);
  const auto invalid = [&](std::string_view why) {
    return Error{Failure::kInvalid,
                 fmt::format("output '{}' has no classes: {}", output.name, why)};
  };
  if (read == nullptr) return invalid(fmt::format("it is {}", protocol_name(output.type)));
  const int64_t rows = model.is_batched() ? output.dims[0] : 1;
  const int64_t all = rows > 0 ? element_count(output.dims) / rows : 0;
  if (all < 1) return invalid("it is empty");
  count = std::min(count, all);
  const std::vector<std::string>& labels = model.labels(output.name);
  std::vector<size_t> order(static_cast<size_t>(all));
  std::vector<double> values(order.size());
  for (int64_t row = 0; row < rows; ++row) {
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t k = 0; k < order.size(); ++k)
      values[k] = read(output.bytes.data(), static_cast<size_t>(row * all) + k);
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](size_t a, size_t b) {
      const bool a_less = !(values[a] >= values[b]), b_less = !(values[b] >= values[a]);
      return a_less == b_less ? a < b : b_less;  // NaN comes last
    });
    for (int64_t k = 0; k < count; ++k) {
      const size_t index = order[static_cast<size_t>(k)];
      std::string text = fmt::format("{:f}:{}", values[index], index);
      if (index < labels.size()) text += ":" + labels[index];
      classes.texts.push_back(std::move(text));
    }
  }
  if (model.is_batched()) classes.dims.push_back(rows);
  classes.dims.push_back(count);
  return std::nullopt;
}

}  // namespace camshaft::serve
