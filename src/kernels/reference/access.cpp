// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/access.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace camshaft::kernels::reference {

float half_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x47800000u) return sign | 0x7c00;  // ≥ 65536: infinity
  if (magnitude < 0x38800000u) {                       // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

int64_t lowest(DataType type) {
  switch (type) {
    case DataType::kInt4:
      return -8;
    case DataType::kInt8:
      return -128;
    case DataType::kInt16:
      return -32768;
    case DataType::kInt32:
      return std::numeric_limits<int32_t>::min();
    case DataType::kInt64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}

int64_t highest(DataType type) {
  switch (type) {
    case DataType::kBool:
      return 1;
    case DataType::kInt4:
      return 7;
    case DataType::kUInt4:
      return 15;
    case DataType::kInt8:
      return 127;
    case DataType::kUInt8:
      return 255;
    case DataType::kInt16:
      return 32767;
    case DataType::kUInt16:
      return 65535;
    case DataType::kInt32:
      return std::numeric_limits<int32_t>::max();
    case DataType::kUInt32:
      return std::numeric_limits<uint32_t>::max();
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

Extents extents_of(const TensorView& view) {
  return Extents(view.extents, view.extents + std::max(view.rank, 0));
}

int64_t count_of(std::span<const int64_t> extents) {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return count;
}

Status check_extents(std::span<const int64_t> extents) {
  constexpr int64_t kMost = int64_t{1} << 31;
  int64_t count = 1;
  for (const int64_t extent : extents) {
    if (extent < 0 || extent > kMost)
      return make_error(ErrorCode::kInvalidArgument, "an extent of {}", extent);
    count *= extent;
    if (count > kMost)
      return make_error(ErrorCode::kInvalidArgument, "a tensor of more than {} elements", kMost);
  }
  return ok_status();
}

Ints dense_strides(std::span<const int64_t> extents) {
  Ints strides(extents.size());
  int64_t stride = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= extents[d];
  }
  return strides;
}

namespace {

// How one element of each type is read and written; Wide is the type it converts through.
template <class T>
struct Plain {
  static T get(const void* data, int64_t k) { return static_cast<const T*>(data)[k]; }
  static void set(void* data, int64_t k, T value) { static_cast<T*>(data)[k] = value; }
};
struct HalfType {
  static float get(const void* data, int64_t k) {
    return half_to_float(static_cast<const uint16_t*>(data)[k]);
  }
  static void set(void* data, int64_t k, float value) {
    static_cast<uint16_t*>(data)[k] = float_to_half(value);
  }
};
struct BFloat16Type {
  static float get(const void* data, int64_t k) {
    return bfloat16_to_float(static_cast<const uint16_t*>(data)[k]);
  }
  static void set(void* data, int64_t k, float value) {
    static_cast<uint16_t*>(data)[k] = float_to_bfloat16(value);
  }
};
struct BoolType {
  static uint8_t get(const void* data, int64_t k) {
    return static_cast<const uint8_t*>(data)[k] != 0;
  }
  static void set(void* data, int64_t k, uint8_t value) {
    static_cast<uint8_t*>(data)[k] = value != 0;
  }
};
template <bool kSigned>
struct Int4Type {
  static int8_t get(const void* data, int64_t k) {
    const uint8_t nibble = (static_cast<const uint8_t*>(data)[k / 2] >> (4 * (k % 2))) & 15;
    return static_cast<int8_t>(kSigned && nibble > 7 ? nibble - 16 : nibble);
  }
  static void set(void* data, int64_t k, int8_t value) {
    uint8_t& byte = static_cast<uint8_t*>(data)[k / 2];
    const int shift = static_cast<int>(4 * (k % 2));
    byte = static_cast<uint8_t>((byte & ~(15 << shift)) | ((value & 15) << shift));
  }
};

// Calls body(Accessor) for the type; one switch for the whole folder.
template <class Body>
void with_type(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat:
      return body(Plain<float>());
    case DataType::kDouble:
      return body(Plain<double>());
    case DataType::kHalf:
      return body(HalfType());
    case DataType::kBFloat16:
      return body(BFloat16Type());
    case DataType::kInt8:
      return body(Plain<int8_t>());
    case DataType::kUInt8:
      return body(Plain<uint8_t>());
    case DataType::kInt16:
      return body(Plain<int16_t>());
    case DataType::kUInt16:
      return body(Plain<uint16_t>());
    case DataType::kInt32:
      return body(Plain<int32_t>());
    case DataType::kUInt32:
      return body(Plain<uint32_t>());
    case DataType::kInt64:
      return body(Plain<int64_t>());
    case DataType::kUInt64:
      return body(Plain<uint64_t>());
    case DataType::kBool:
      return body(BoolType());
    case DataType::kInt4:
      return body(Int4Type<true>());
    case DataType::kUInt4:
      return body(Int4Type<false>());
    case DataType::kUndefined:
      return;
  }
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(value)) return 0;
    const double rounded = std::nearbyint(static_cast<double>(value));
    constexpr double low = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double high = static_cast<double>(std::numeric_limits<To>::max());
    if (rounded <= low) return std::numeric_limits<To>::min();
    if (rounded >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(rounded);
  } else {
    return static_cast<To>(value);
  }
}

// Calls body(dense position, element offset, count, stride) for every innermost row.
template <class Body>
void for_each_row(const TensorView& view, const Body& body) {
  if (view.rank <= 0) {
    if (view.rank == 0) body(int64_t{0}, int64_t{0}, int64_t{1}, int64_t{1});
    return;
  }
  int64_t position = 0;
  const int64_t row = view.extents[view.rank - 1], stride = view.strides[view.rank - 1];
  if (row == 0) return;
  for_each_index(std::span(view.extents, view.rank - 1), [&](const Extents& index) {
    body(position, offset_of(index, std::span(view.strides, index.size())), row, stride);
    position += row;
  });
}

}  // namespace

template <class T>
std::vector<T> load(const TensorView& view) {
  std::vector<T> values(view.present() ? view.elements() : 0);
  with_type(view.type, [&](auto accessor) {
    for_each_row(view, [&](int64_t position, int64_t offset, int64_t count, int64_t stride) {
      for (int64_t k = 0; k < count; ++k) {
        const auto value = accessor.get(view.data, offset + k * stride);
        if constexpr (std::is_integral_v<T> && std::is_floating_point_v<decltype(value)>)
          values[position + k] = convert<T>(std::trunc(value));
        else
          values[position + k] = static_cast<T>(value);
      }
    });
  });
  return values;
}

template <class T>
void store(const TensorView& view, std::span<const T> values) {
  with_type(view.type, [&](auto accessor) {
    using Element = decltype(accessor.get(nullptr, 0));
    for_each_row(view, [&](int64_t position, int64_t offset, int64_t count, int64_t stride) {
      for (int64_t k = 0; k < count; ++k) {
        const T value = values[position + k];
        if constexpr (std::is_same_v<decltype(accessor), BoolType>)
          accessor.set(view.data, offset + k * stride, value != 0);
        else
          accessor.set(view.data, offset + k * stride, convert<Element>(value));
      }
    });
  });
}

template std::vector<float> load<float>(const TensorView&);
template std::vector<double> load<double>(const TensorView&);
template std::vector<int64_t> load<int64_t>(const TensorView&);
template void store<float>(const TensorView&, std::span<const float>);
template void store<double>(const TensorView&, std::span<const double>);
template void store<int64_t>(const TensorView&, std::span<const int64_t>);

TensorView broadcast_to(const TensorView& view, std::span<const int64_t> extents) {
  TensorView wide = view;
  const int rank = static_cast<int>(extents.size());
  const int missing = rank - view.rank;
  for (int d = rank - 1; d >= 0; --d) {
    const bool given = d >= missing && view.extents[d - missing] != 1;
    wide.strides[d] = given ? view.strides[d - missing] : 0;
    wide.extents[d] = extents[d];
  }
  wide.rank = rank;
  return wide;
}

Result<Extents> broadcast_extents(std::span<const TensorView> views) {
  int rank = 0;
  for (const TensorView& view : views) rank = std::max(rank, view.rank);
  Extents extents(static_cast<size_t>(rank), 1);
  for (const TensorView& view : views) {
    for (int d = 0; d < view.rank; ++d) {
      int64_t& extent = extents[rank - view.rank + d];
      if (view.extents[d] == 1 || view.extents[d] == extent) continue;
      if (extent != 1)
        return make_error(ErrorCode::kInvalidArgument, "extents {} and {} do not broadcast", extent,
                          view.extents[d]);
      extent = view.extents[d];
    }
  }
  return extents;
}

namespace {

template <class T>
void copy_rows(const void* source, std::span<const int64_t> source_strides, void* target,
               std::span<const int64_t> target_strides, std::span<const int64_t> extents) {
  const auto* from = static_cast<const T*>(source);
  auto* to = static_cast<T*>(target);
  if (extents.empty()) {
    *to = *from;
    return;
  }
  const size_t last = extents.size() - 1;
  const int64_t row = extents[last], from_stride = source_strides[last],
                to_stride = target_strides[last];
  if (row == 0) return;
  for_each_index(extents.first(last), [&](const Extents& index) {
    const T* a = from + offset_of(index, source_strides.first(last));
    T* b = to + offset_of(index, target_strides.first(last));
    if (from_stride == 1 && to_stride == 1)
      std::memcpy(b, a, row * sizeof(T));
    else
      for (int64_t k = 0; k < row; ++k) b[k * to_stride] = a[k * from_stride];
  });
}

}  // namespace

void copy_elements(const void* source, std::span<const int64_t> source_strides, void* target,
                   std::span<const int64_t> target_strides, std::span<const int64_t> extents,
                   size_t bytes) {
  switch (bytes) {
    case 1:
      return copy_rows<uint8_t>(source, source_strides, target, target_strides, extents);
    case 2:
      return copy_rows<uint16_t>(source, source_strides, target, target_strides, extents);
    case 4:
      return copy_rows<uint32_t>(source, source_strides, target, target_strides, extents);
    case 8:
      return copy_rows<uint64_t>(source, source_strides, target, target_strides, extents);
  }
}

void copy_view(const TensorView& source, const TensorView& target) {
  const size_t rank = target.rank;
  copy_elements(source.data, std::span(source.strides, rank), target.data,
                std::span(target.strides, rank), std::span(target.extents, rank),
                ir::bits_of(target.type) / 8);
}

Result<int64_t> normalize_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return make_error(ErrorCode::kInvalidArgument, "axis {} is out of range for rank {}", axis,
                      rank);
  return axis < 0 ? axis + rank : axis;
}

void evaluate_program(const ir::Program& program, std::span<const float* const> inputs,
                      int64_t count, float* result) {
  constexpr int64_t kBlock = 256;
  std::vector<float> values(program.code.size() * kBlock);
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t block = std::min(kBlock, count - first);
    const auto value = [&](int16_t number) -> const float* {
      if (number < 0) return nullptr;
      return number < program.num_inputs ? inputs[number] + first
                                         : values.data() + (number - program.num_inputs) * kBlock;
    };
    for (size_t step = 0; step < program.code.size(); ++step) {
      const ir::Instruction& code = program.code[step];
      const float *a = value(code.a), *b = value(code.b), *c = value(code.c);
      float* out = values.data() + step * kBlock;
      for (int64_t k = 0; k < block; ++k)
        out[k] = static_cast<float>(ir::evaluate_point_op(code.op, a ? a[k] : 0, b ? b[k] : 0,
                                                          c ? c[k] : 0, code.x, code.y));
    }
    std::memcpy(result + first, value(static_cast<int16_t>(program.result())),
                block * sizeof(float));
  }
}

Status apply_epilogue(const ir::Program& program, std::vector<double>& values,
                      std::span<const int64_t> extents, std::span<const TensorView> extra) {
  if (program.empty()) return ok_status();
  if (program.num_inputs != static_cast<int>(extra.size()) + 1)
    return make_error(ErrorCode::kInternal, "the epilogue has {} inputs, the layer gives {}",
                      program.num_inputs, extra.size() + 1);
  std::vector<std::vector<float>> inputs;
  inputs.emplace_back(values.begin(), values.end());
  for (const TensorView& view : extra) inputs.push_back(load<float>(broadcast_to(view, extents)));
  std::vector<const float*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<float> result(values.size());
  evaluate_program(program, pointers, static_cast<int64_t>(values.size()), result.data());
  values.assign(result.begin(), result.end());
  return ok_status();
}

Status run_unpacked(const KernelArgs& args, Status (*kernel)(const KernelArgs&)) {
  const auto is_int4 = [](const TensorView& view) {
    return view.present() && (view.type == DataType::kInt4 || view.type == DataType::kUInt4);
  };
  if (std::none_of(args.inputs.begin(), args.inputs.end(), is_int4) &&
      std::none_of(args.outputs.begin(), args.outputs.end(), is_int4))
    return kernel(args);
  std::vector<std::vector<int8_t>> buffers;
  const auto unpack = [&](const TensorView& view, bool read) {
    if (!is_int4(view)) return view;
    const DataType wide = view.type == DataType::kInt4 ? DataType::kInt8 : DataType::kUInt8;
    buffers.emplace_back(view.elements() + 1);
    const TensorView bytes =
        make_view(buffers.back().data(), wide, Format::kLinear, extents_of(view));
    if (read) store(bytes, load<int64_t>(view));
    return bytes;
  };
  std::vector<TensorView> inputs, outputs;
  for (const TensorView& view : args.inputs) inputs.push_back(unpack(view, true));
  for (const TensorView& view : args.outputs) outputs.push_back(unpack(view, false));
  KernelArgs wide = args;
  wide.inputs = inputs;
  wide.outputs = outputs;
  CAMSHAFT_TRY(kernel(wide));
  for (size_t k = 0; k < outputs.size(); ++k)
    if (is_int4(args.outputs[k])) store(args.outputs[k], load<int64_t>(outputs[k]));
  return ok_status();
}

}  // namespace camshaft::kernels::reference
