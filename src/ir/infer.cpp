// SPDX-License-Identifier: Apache-2.0
// Shape inference: what all families share; kind_traits.cpp says which function infers a kind.
#include "ir/infer.h"

#include <algorithm>
#include <cmath>

#include "ir/infer_internal.h"
#include "ir/kind_traits.h"

namespace camshaft::ir {

// --- Inference

Shape Inference::unknown_shape(size_t rank) {
  Shape shape;
  for (size_t d = 0; d < rank; ++d) shape.push_back(unknown());
  return shape;
}

Status Inference::unranked(DataType type, size_t k) {
  outputs[k].type = type;
  outputs[k].has_rank = false;
  outputs[k].shape.clear();
  return ok_status();
}

Status Inference::give(DataType type, const Shape& shape, size_t k) {
  outputs[k].type = type;
  outputs[k].has_rank = true;
  outputs[k].shape = shape;
  return ok_status();
}

Status Inference::require(size_t count) const {
  for (size_t k = 0; k < count; ++k)
    if (!has(k)) return invalid("input {} is missing", k);
  return ok_status();
}

std::optional<int64_t> Inference::number(size_t k) const {
  const std::optional<Ints> list = numbers(k);
  return list && list->size() == 1 ? std::optional((*list)[0]) : std::nullopt;
}

std::optional<Ints> Inference::numbers(size_t k) const {
  if (!has(k) || !in(k).value) return std::nullopt;
  Ints list;
  for (Dim dim : *in(k).value) {
    if (!symbols.is_number(dim)) return std::nullopt;
    list.push_back(symbols.number(dim));
  }
  return list;
}

// --- shared arithmetic

std::string to_string(const Shape& shape, const SymbolTable& symbols) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += (d ? "," : "") + symbols.to_string(shape[d]);
  return text + "]";
}

int64_t wrap_axis(int64_t axis, size_t rank) {
  const int64_t count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count) return -1;
  return axis < 0 ? axis + count : axis;
}

Dim elements(std::span<const Dim> shape, SymbolTable& symbols) {
  Dim count = 1;
  for (Dim extent : shape) count = symbols.mul(count, extent);
  return count;
}

std::optional<int64_t> known_elements(const Shape& shape, const SymbolTable& symbols) {
  int64_t count = 1;
  for (Dim extent : shape)
    if (!symbols.is_number(extent) || __builtin_mul_overflow(count, symbols.number(extent), &count))
      return std::nullopt;
  return count;
}

std::optional<Extents> known_extents(const Shape& shape, const SymbolTable& symbols) {
  Extents extents;
  for (Dim extent : shape) {
    if (!symbols.is_number(extent)) return std::nullopt;
    extents.push_back(symbols.number(extent));
  }
  return extents;
}

bool compatible(Dim a, Dim b, const SymbolTable& symbols) {
  return !symbols.is_number(a) || !symbols.is_number(b) || symbols.number(a) == symbols.number(b);
}

bool merge_shapes(const Shape& a, const Shape& b, Inference& f, Shape& merged) {
  if (a.size() != b.size()) return false;
  merged.clear();
  for (size_t d = 0; d < a.size(); ++d) merged.push_back(a[d] == b[d] ? a[d] : f.unknown());
  return true;
}

Ints dense_strides(std::span<const int64_t> extents) {
  Ints strides(extents.size());
  int64_t stride = 1;
  for (size_t d = extents.size(); d-- > 0; stride *= extents[d]) strides[d] = stride;
  return strides;
}

std::vector<Dim> gather_values(const std::vector<Dim>& value, std::span<const int64_t> extents,
                               std::span<const int64_t> strides, int64_t offset) {
  std::vector<Dim> result;
  const int64_t count = element_count(extents);
  for (int64_t k = 0; k < count; ++k) {
    int64_t position = offset, rest = k;
    for (size_t d = extents.size(); d-- > 0; rest /= extents[d])
      position += rest % extents[d] * strides[d];
    result.push_back(value[position]);
  }
  return result;
}

static Result<Dim> broadcast(Dim a, Dim b, SymbolTable& symbols) {
  if (a == b || b == Dim(1)) return a;
  if (a == Dim(1)) return b;
  if (a.is_known() && b.is_known())
    return invalid("extents {} and {} do not broadcast", a.extent(), b.extent());
  if (a.is_known() || b.is_known())
    return a.is_known() ? a : b;  // the symbol is that number or 1: checked when running
  // Of a network's own extents none is 0, as a rule; those that only running tells may well be.
  const bool late = symbols.depends_on_runtime(a) || symbols.depends_on_runtime(b);
  return late ? symbols.broadcast(a, b) : symbols.max(a, b);
}

Result<Shape> broadcast_shapes(const Shape& a, const Shape& b, SymbolTable& symbols) {
  const size_t rank = std::max(a.size(), b.size());
  Shape result;
  for (size_t d = 0; d < rank; ++d) {
    const Dim left = d + a.size() < rank ? Dim(1) : a[d + a.size() - rank];
    const Dim right = d + b.size() < rank ? Dim(1) : b[d + b.size() - rank];
    Result<Dim> extent = broadcast(left, right, symbols);
    if (!extent.ok())
      return invalid("shapes {} and {} do not broadcast", to_string(a, symbols),
                     to_string(b, symbols));
    result.push_back(*extent);
  }
  return result;
}

Window resolve_window(PaddingMode mode, int64_t input, int64_t kernel, int64_t stride,
                      int64_t dilation, int64_t pre, int64_t post) {
  const int64_t extent = (kernel - 1) * dilation + 1;
  const auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); };
  if (mode == PaddingMode::kSameUpper || mode == PaddingMode::kSameLower) {
    const int64_t output = floor_div(input + stride - 1, stride);
    const int64_t total = std::max<int64_t>((output - 1) * stride + extent - input, 0);
    const int64_t less = total / 2, more = total - less;
    return mode == PaddingMode::kSameUpper ? Window{less, more, output}
                                           : Window{more, less, output};
  }
  const int64_t room = input + pre + post - extent;
  if (mode == PaddingMode::kExplicit) return {pre, post, floor_div(room, stride) + 1};
  // Rounding up never adds a window that would begin in the padding behind the input.
  const int64_t rounded = floor_div(room + stride - 1, stride) + 1;
  return {pre, post, std::min(rounded, floor_div(input + pre + stride - 1, stride))};
}

Dim window_output(PaddingMode mode, Dim input, int64_t kernel, int64_t stride, int64_t dilation,
                  int64_t pre, int64_t post, SymbolTable& symbols) {
  if (symbols.is_number(input))
    return symbols.constant(
        resolve_window(mode, symbols.number(input), kernel, stride, dilation, pre, post).output);
  if (mode == PaddingMode::kSameUpper || mode == PaddingMode::kSameLower)
    return symbols.ceil_div(input, stride);
  const Dim room = symbols.add(input, symbols.constant(pre + post - (kernel - 1) * dilation - 1));
  if (mode == PaddingMode::kExplicit) return symbols.add(symbols.floor_div(room, stride), 1);
  const Dim rounded = symbols.add(symbols.ceil_div(room, stride), 1);
  return symbols.min(rounded, symbols.ceil_div(symbols.add(input, symbols.constant(pre)), stride));
}

// --- dispatch

namespace {

// Refuses extents that are negative or that no machine can hold, before anybody multiplies them.
Status check_output(const InferOutput& output, const SymbolTable& symbols) {
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  int64_t count = 1;
  for (Dim extent : output.shape) {
    if (!extent.is_known() && extent.symbol_id() >= symbols.size())
      return invalid("an output extent is out of range");
    if (!symbols.is_number(extent)) continue;
    const int64_t number = symbols.number(extent);
    if (number < 0)
      return invalid("the output would have shape {}", to_string(output.shape, symbols));
    if (number > kMaxExtent ||
        __builtin_mul_overflow(count, std::max<int64_t>(number, 1), &count) || count > kMaxElements)
      return invalid("the output shape {} is too large", to_string(output.shape, symbols));
  }
  return ok_status();
}

size_t output_count(const Layer& layer) {
  return std::max<size_t>(layer.outputs.size(), 1);
}

}  // namespace

Result<std::vector<InferOutput>> infer(const Layer& layer, std::span<const InferInput> inputs,
                                       SymbolTable& symbols) {
  std::vector<InferOutput> outputs(std::max<size_t>(output_count(layer), 8));
  Inference inference{layer, inputs, symbols, outputs};
  Status status = traits_of(layer.kind).infer(inference);
  for (size_t k = 0; status.ok() && k < outputs.size(); ++k) {
    status = check_output(outputs[k], symbols);
    if (outputs[k].value && outputs[k].value->size() > static_cast<size_t>(kMaxValues))
      outputs[k].value.reset();
  }
  if (!status.ok())
    return status.with_context(fmt::format("{} {}", kind_name(layer.kind), layer.name));
  if (!layer.outputs.empty()) outputs.resize(layer.outputs.size());
  return outputs;
}

namespace {

template <class T>
void read_integers(const Tensor& tensor, SymbolTable& symbols, std::vector<Dim>& value) {
  for (T element : tensor.values<T>())
    value.push_back(symbols.constant(static_cast<int64_t>(element)));
}

// Floats count as values while they are whole numbers: shape arithmetic that goes through float is
// still followed.
template <class T>
bool read_floats(const Tensor& tensor, SymbolTable& symbols, std::vector<Dim>& value) {
  for (T element : tensor.values<T>()) {
    if (!(std::abs(element) < 1e9) || element != std::floor(element)) return false;
    value.push_back(symbols.constant(static_cast<int64_t>(element)));
  }
  return true;
}

std::optional<std::vector<Dim>> constant_value(const Tensor& tensor, SymbolTable& symbols) {
  const std::optional<int64_t> count = known_elements(tensor.shape, symbols);
  if (!count || *count > kMaxValues) return std::nullopt;
  std::vector<Dim> value;
  switch (tensor.type) {
    case DataType::kInt64:
      read_integers<int64_t>(tensor, symbols, value);
      break;
    case DataType::kInt32:
      read_integers<int32_t>(tensor, symbols, value);
      break;
    case DataType::kInt16:
      read_integers<int16_t>(tensor, symbols, value);
      break;
    case DataType::kUInt8:
      read_integers<uint8_t>(tensor, symbols, value);
      break;
    case DataType::kInt8:
      read_integers<int8_t>(tensor, symbols, value);
      break;
    case DataType::kBool:
      read_integers<uint8_t>(tensor, symbols, value);
      break;
    case DataType::kFloat:
      if (!read_floats<float>(tensor, symbols, value)) return std::nullopt;
      break;
    case DataType::kDouble:
      if (!read_floats<double>(tensor, symbols, value)) return std::nullopt;
      break;
    default:
      return std::nullopt;
  }
  return value;
}

}  // namespace

InferInput infer_input(const Tensor* tensor, SymbolTable& symbols) {
  InferInput input;
  if (tensor == nullptr) return input;
  input.present = true;
  input.type = tensor->type;
  input.has_rank = tensor->has_rank;
  input.shape = tensor->shape;
  input.value =
      tensor->is_constant() ? constant_value(*tensor, symbols) : tensor->facts.shape_value;
  if (tensor->is_constant() && tensor->type == DataType::kFloat)
    input.float_value = tensor->values<float>().data();
  if (tensor->is_constant() && tensor->type == DataType::kDouble)
    input.double_value = tensor->values<double>().data();
  return input;
}

Status infer_layer(Graph& graph, Layer& layer) {
  std::vector<InferInput> inputs;
  for (const Tensor* tensor : layer.inputs) inputs.push_back(infer_input(tensor, graph.symbols()));
  Result<std::vector<InferOutput>> outputs = infer(layer, inputs, graph.symbols());
  if (!outputs.ok()) return outputs.status();
  for (size_t k = 0; k < layer.outputs.size(); ++k) {
    Tensor* tensor = layer.outputs[k];
    if (tensor == nullptr) continue;
    InferOutput& output = (*outputs)[k];
    tensor->type = output.type;
    tensor->has_rank = output.has_rank;
    tensor->shape = output.shape;
    tensor->facts.shape_value = std::move(output.value);
  }
  infer_ranges(layer);
  return ok_status();
}

}  // namespace camshaft::ir
