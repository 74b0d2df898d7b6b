// SPDX-License-Identifier: Apache-2.0
#include "cli/conversion.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/reference/access.h"

namespace camshaft::cli {
namespace {

namespace reference = kernels::reference;

bool is_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBFloat16 ||
         type == DataType::kDouble;
}

bool is_integer(DataType type) {
  return type >= DataType::kInt8 && type <= DataType::kUInt64;
}

// The first element that `wanted` cannot hold; null: all fit.
const int64_t* first_beyond(const std::vector<int64_t>& values, DataType from, DataType wanted) {
  const auto type = static_cast<ir::DataType>(wanted);
  const bool wide = from == DataType::kUInt64 || wanted == DataType::kUInt64;  // bits are kept
  for (const int64_t& value : values)
    if ((wide && value < 0) || value < reference::lowest(type) || value > reference::highest(type))
      return &value;
  return nullptr;
}

kernels::TensorView view_of(std::vector<std::byte>& bytes, DataType type, const Dims& dims) {
  return kernels::make_view(bytes.data(), static_cast<ir::DataType>(type), ir::Format::kLinear,
                            dims);
}

Status refused(const HostTensor& tensor, DataType wanted, const std::string& what) {
  const char* hint = "";
  if (is_float(wanted) && is_integer(tensor.type))
    hint = ": scale the numbers as the network was trained and store them as float32";
  return make_error(ErrorCode::kInvalidArgument, "{} wants {}, the given values are {}{}", what,
                    type_name(wanted), type_name(tensor.type), hint);
}

}  // namespace

Status convert(HostTensor& tensor, DataType wanted, const std::string& what) {
  if (tensor.type == wanted) return ok_status();
  const bool floats = is_float(tensor.type) && is_float(wanted);
  if (!floats && !(is_integer(tensor.type) && is_integer(wanted)))
    return refused(tensor, wanted, what);
  if (tensor.dims.size() > ir::kMaxRank)
    return make_error(ErrorCode::kInvalidArgument, "{}: {} dimensions", what, tensor.dims.size());
  std::vector<std::byte> bytes(byte_size(wanted, element_count(tensor.dims)));
  const kernels::TensorView source = view_of(tensor.bytes, tensor.type, tensor.dims);
  const kernels::TensorView target = view_of(bytes, wanted, tensor.dims);
  if (floats) {
    reference::store<double>(target, reference::load<double>(source));
  } else {
    const std::vector<int64_t> values = reference::load<int64_t>(source);
    if (const int64_t* value = first_beyond(values, tensor.type, wanted))
      return make_error(ErrorCode::kInvalidArgument, "{} wants {}, which cannot hold {}", what,
                        type_name(wanted), *value);
    reference::store<int64_t>(target, values);
  }
  tensor.bytes = std::move(bytes);
  tensor.note +=
      fmt::format("{}{}: {} values were converted to {}", tensor.note.empty() ? "" : "; ", what,
                  type_name(tensor.type), type_name(wanted));
  tensor.type = wanted;
  return ok_status();
}

}  // namespace camshaft::cli
