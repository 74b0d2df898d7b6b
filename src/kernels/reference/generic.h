// SPDX-License-Identifier: Apache-2.0
// What the kernels of Generic operators share: typed access to ONNX attributes, and outputs whose
// extents they decide.
#pragma once

#include <string>

#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {

using Outputs = std::vector<DynamicOutput>;

// ONNX's TensorProto.DataType number; kUndefined for types this product does not have (float8,
// strings …).
DataType from_onnx_type(int64_t number);

// Kernels append their outputs, whatever the caller's vector holds before.
template <Status (*kernel)(const KernelArgs&, Outputs&)>
Status appending(const KernelArgs& args, Outputs& outputs) {
  outputs.clear();
  CAMSHAFT_TRY(kernel(args, outputs));
  for (const DynamicOutput& output : outputs)
    if (output.type == DataType::kUndefined)
      return make_error(ErrorCode::kUnsupported, "an output type that is not supported");
  return ok_status();
}

// One call: inputs and attributes of the layer.
class Call {
 public:
  explicit Call(const KernelArgs& args) : args_(args), attrs_(args.layer->as<ir::GenericAttrs>()) {}

  const KernelArgs& args() const { return args_; }
  int64_t opset() const { return attrs_.opset; }
  const std::string& op_type() const { return attrs_.op_type; }

  TensorView in(size_t k) const { return input(args_, k); }
  bool has_input(size_t k) const { return in(k).present(); }
  Extents extents(size_t k) const { return extents_of(in(k)); }
  std::vector<double> doubles(size_t k) const { return load<double>(in(k)); }
  Ints ints(size_t k) const { return load<int64_t>(in(k)); }
  // The first element of input k, or the fallback where it is absent or empty.
  double scalar(size_t k, double fallback) const;
  int64_t integer_scalar(size_t k, int64_t fallback) const;

  bool has(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  Ints list(std::string_view name) const;
  Ints list_or(std::string_view name, size_t count, int64_t fallback) const;
  std::vector<double> reals(std::string_view name) const;

  bool wants(size_t k) const { return output(args_, k).present(); }
  // The first `count` inputs are present, of rank ≥ the given one.
  Status require(size_t count) const;
  Status require_rank(size_t k, int rank) const;

 private:
  const ir::GenericAttribute* find(std::string_view name) const;
  const KernelArgs& args_;
  const ir::GenericAttrs& attrs_;
};

// An output of converted values; T is double, float or int64_t.
template <class T>
DynamicOutput produce(DataType type, const Extents& extents, std::span<const T> values) {
  DynamicOutput out;
  out.type = type;
  out.extents = extents;
  out.bytes.resize(ir::bytes_for(type, count_of(extents)));
  store<T>(make_view(out.bytes.data(), type, Format::kLinear, extents), values);
  return out;
}
template <class T>
DynamicOutput produce(DataType type, const Extents& extents, const std::vector<T>& values) {
  return produce<T>(type, extents, std::span<const T>(values));
}

// A row-major tensor of doubles, for kernels written over whole tensors.
struct Dense {
  Extents extents;
  std::vector<double> values;
};
inline Dense dense(const TensorView& view) {
  return {extents_of(view), load<double>(view)};
}

// Extents as [outer, count, inner] around dimension `axis`.
struct Lines {
  int64_t outer, count, inner;
};
inline Lines lines_of(std::span<const int64_t> extents, int64_t axis) {
  return {count_of(extents.first(axis)), extents[axis], count_of(extents.subspan(axis + 1))};
}

}  // namespace camshaft::kernels::reference
