// SPDX-License-Identifier: Apache-2.0
#include "cli/bindings.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "cli/conversion.h"
#include "cli/options.h"

namespace camshaft::cli {
namespace {

uint16_t float_to_half(float value) {
  // For |value| ≤ 1 only: rounding is to nearest, subnormals included.
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::abs(value);
  if (magnitude < std::ldexp(1.0F, -14))
    return sign | static_cast<uint16_t>(std::lrint(std::ldexp(magnitude, 24)));
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude) + 0x1000;
  return sign | static_cast<uint16_t>((bits >> 13) - (112 << 10));
}

template <class T, class Draw>
void fill(HostTensor& tensor, const Draw& draw) {
  auto* values = reinterpret_cast<T*>(tensor.bytes.data());
  for (size_t k = 0; k < tensor.bytes.size() / sizeof(T); ++k) values[k] = static_cast<T>(draw());
}

Status wrong_size(const TensorInfo& info, const Dims& dims, size_t given) {
  return make_error(ErrorCode::kInvalidArgument,
                    "input '{}' of shape {} ({}) needs {} bytes, {} are given", info.name,
                    to_string(dims), type_name(info.type),
                    byte_size(info.type, element_count(dims)), given);
}

Result<HostTensor> make_tensor(const TensorInfo& info, const Dims& dims, HostTensor* given) {
  if (element_count(dims) < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "input '{}' has dynamic shape {}: give --shapes={}:…", info.name,
                      to_string(dims), info.name);
  }
  HostTensor tensor{info.name, info.type, true, dims, {}};
  const size_t bytes = byte_size(info.type, element_count(dims));
  if (given == nullptr) {
    tensor.bytes.resize(bytes);
    fill_random(tensor, false);
    return tensor;
  }
  if (given->has_shape)
    CAMSHAFT_TRY(convert(*given, info.type, fmt::format("input '{}'", info.name)));
  if (given->bytes.size() != bytes) return wrong_size(info, dims, given->bytes.size());
  tensor.bytes = std::move(given->bytes);
  tensor.note = std::move(given->note);
  return tensor;
}

// The first range that does not hold the shape of its input; null: all do.
const ShapeRange* first_outside(const OptimizationProfile& profile, const NamedShapes& shapes) {
  for (const ShapeRange& range : profile) {
    const Dims* const dims = find_shape(shapes, range.input);
    if (dims == nullptr || dims->size() != range.min.size()) continue;  // others refuse the rank
    for (size_t k = 0; k < dims->size(); ++k)
      if ((*dims)[k] < range.min[k] || (*dims)[k] > range.max[k]) return &range;
  }
  return nullptr;
}

}  // namespace

void fill_random(HostTensor& tensor, bool small_integers) {
  std::mt19937 engine;  // default seed: the same values in every run
  auto unit = [&] { return static_cast<double>(engine()) / 4294967295.0 * 2 - 1; };
  auto integer = [&] { return static_cast<int64_t>(engine() % 256) - 128; };
  auto bit = [&] { return engine() & 1; };
  auto wide = [&] { return small_integers ? static_cast<int64_t>(bit()) : integer(); };
  auto positive = [&] { return small_integers ? bit() : engine() & 127; };
  switch (tensor.type) {
    case DataType::kFloat:
      return fill<float>(tensor, unit);
    case DataType::kDouble:
      return fill<double>(tensor, unit);
    case DataType::kHalf:
      return fill<uint16_t>(tensor, [&] { return float_to_half(static_cast<float>(unit())); });
    case DataType::kBFloat16:
      return fill<uint16_t>(
          tensor, [&] { return std::bit_cast<uint32_t>(static_cast<float>(unit())) >> 16; });
    case DataType::kInt16:
      return fill<int16_t>(tensor, wide);
    case DataType::kInt32:
      return fill<int32_t>(tensor, wide);
    case DataType::kInt64:
      return fill<int64_t>(tensor, wide);
    case DataType::kUInt16:
      return fill<uint16_t>(tensor, positive);
    case DataType::kUInt32:
      return fill<uint32_t>(tensor, positive);
    case DataType::kUInt64:
      return fill<uint64_t>(tensor, positive);
    case DataType::kBool:
      return fill<uint8_t>(tensor, bit);
    default:
      return fill<uint8_t>(tensor, [&] { return engine() & 255; });
  }
}

int fitting_profile(const Engine& engine, const NamedShapes& shapes) {
  const std::vector<OptimizationProfile>& profiles = engine.profiles();
  if (profiles.empty()) return 0;
  const auto fits = [&](const OptimizationProfile& profile) {
    return first_outside(profile, shapes) == nullptr;
  };
  const auto found = std::find_if(profiles.begin(), profiles.end(), fits);
  return found == profiles.end() ? -1 : static_cast<int>(found - profiles.begin());
}

Status check_profile(const Engine& engine, int profile, const NamedShapes& shapes,
                     const std::string& option) {
  const std::vector<OptimizationProfile>& profiles = engine.profiles();
  if (static_cast<size_t>(profile) >= profiles.size()) return ok_status();  // create() says so
  const ShapeRange* outside = first_outside(profiles[static_cast<size_t>(profile)], shapes);
  if (outside == nullptr) return ok_status();
  std::string hint;
  if (const int other = fitting_profile(engine, shapes); other >= 0)
    hint = fmt::format("; profile {} takes it: {}{}", other, option, other);
  else if (profiles.size() > 1)
    hint = "; no other profile takes it";
  return make_error(ErrorCode::kInvalidArgument,
                    "input '{}': shape {} is outside optimization profile {} ({} to {}){}",
                    outside->input, to_string(*find_shape(shapes, outside->input)), profile,
                    to_string(outside->min), to_string(outside->max), hint);
}

NamedShapes InputSet::shapes() const {
  NamedShapes shapes;
  for (const HostTensor& tensor : tensors_) shapes.emplace_back(tensor.name, tensor.dims);
  return shapes;
}

Result<InputSet> InputSet::create(const Context& context, const NamedShapes& shapes,
                                  NamedTensors given) {
  const std::vector<TensorInfo>& inputs = context.engine().inputs();
  CAMSHAFT_TRY(check_all_used(shapes, inputs, "--shapes"));
  NamedShapes given_names;
  for (const auto& [name, tensor] : given) given_names.emplace_back(name, Dims{});
  CAMSHAFT_TRY(check_all_used(given_names, inputs, "inputs"));
  InputSet set;
  for (const TensorInfo& info : inputs) {
    auto found = given.find(info.name);
    HostTensor* values = found == given.end() ? nullptr : &found->second;
    CAMSHAFT_ASSIGN(Dims dims, context.input_shape(info.name));
    if (const Dims* wanted = find_shape(shapes, info.name)) {
      dims = *wanted;
    } else if (values != nullptr && values->has_shape) {
      dims = values->dims;
    }
    CAMSHAFT_ASSIGN(HostTensor tensor, make_tensor(info, dims, values));
    if (!tensor.note.empty()) set.notes_.push_back(tensor.note);
    set.tensors_.push_back(std::move(tensor));
    set.random_.push_back(values == nullptr);
  }
  return set;
}

Status InputSet::bind(Context& context) const {
  for (const HostTensor& tensor : tensors_) {
    CAMSHAFT_TRY(context.set_shape(tensor.name, tensor.dims));
    CAMSHAFT_TRY(context.set_input(tensor.name, tensor.bytes.data(), tensor.bytes.size()));
  }
  return ok_status();
}

Status InputSet::try_run(Context& context, std::string& note) {
  CAMSHAFT_TRY(bind(context));
  Status status = context.run();
  if (status.ok()) return status;
  bool has_random_integers = false;
  for (size_t k = 0; k < tensors_.size(); ++k) {
    const DataType type = tensors_[k].type;
    const bool wide_integer =
        type == DataType::kInt32 || type == DataType::kInt64 || type == DataType::kInt16;
    if (!random_[k] || !wide_integer) continue;
    has_random_integers = true;
    fill_random(tensors_[k], true);
  }
  if (!has_random_integers || !context.run().ok()) return status;
  note = fmt::format(
      "random integers do not suit this network ({}): using zeros and ones; give real inputs for "
      "meaningful times",
      status.message());
  return ok_status();
}

}  // namespace camshaft::cli
