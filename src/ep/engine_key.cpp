// SPDX-License-Identifier: Apache-2.0
#include "ep/engine_key.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/cpu.h"
#include "camshaft/version.h"

namespace camshaft::ep {
namespace {

// 128 bits of a multiplicative hash over 16 bytes at a time: weights are large. Not for
// adversaries: who can write models here can write engines.
class Hash {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    step(size, 0x51ed270b7f4a7c15u);
    for (; size >= 16; bytes += 16, size -= 16) step(load(bytes, 8), load(bytes + 8, 8));
    if (size > 0)
      step(load(bytes, std::min<size_t>(size, 8)), size > 8 ? load(bytes + 8, size - 8) : 0);
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(int64_t number) { step(static_cast<uint64_t>(number), 0x2545f4914f6cdd1du); }
  template <class T>
  void add(std::span<const T> values) {
    add(values.data(), values.size_bytes());
  }

  std::string text() const { return fmt::format("{:016x}{:016x}", a_, b_); }

 private:
  static uint64_t load(const unsigned char* bytes, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, size);
    return word;
  }
  static uint64_t mix(uint64_t x, uint64_t y) {
    const unsigned __int128 product = static_cast<unsigned __int128>(x) * y;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  void step(uint64_t x, uint64_t y) {
    // Odd factors: no word can make a state forget what came before in both halves.
    a_ = mix(a_ ^ x, 0x9e3779b97f4a7c15u) + y * 0xd6e8feb86659fd93u;
    b_ = mix(b_ ^ y, 0xa0761d6478bd642fu) + x * 0xe7037ed1a0b428dbu;
  }

  uint64_t a_ = 0x243f6a8885a308d3u, b_ = 0x13198a2e03707344u;
};

void add(Hash& hash, const onnx_import::GraphDef& graph);

void add(Hash& hash, const onnx_import::TensorDef& tensor) {
  hash.add(tensor.name);
  hash.add(tensor.data_type);
  hash.add(std::span<const int64_t>(tensor.extents));
  hash.add(tensor.raw);
}

void add(Hash& hash, const onnx_import::AttributeDef& attribute) {
  hash.add(attribute.name);
  hash.add(static_cast<int64_t>(attribute.type));
  hash.add(&attribute.f, sizeof attribute.f);
  hash.add(attribute.i);
  hash.add(attribute.text);
  hash.add(attribute.floats);
  hash.add(attribute.ints);
  for (std::string_view text : attribute.texts) hash.add(text);
  if (attribute.tensor) add(hash, *attribute.tensor);
  if (attribute.graph) add(hash, *attribute.graph);
}

void add(Hash& hash, const onnx_import::ValueDef& value) {
  hash.add(value.name);
  hash.add(value.data_type);
  hash.add(value.has_shape ? 1 : 0);
  for (const onnx_import::DimDef& dim : value.shape) {
    hash.add(dim.extent.value_or(-1));
    hash.add(dim.param);
  }
}

void add(Hash& hash, const onnx_import::GraphDef& graph) {
  for (const onnx_import::NodeDef& node : graph.nodes) {
    hash.add(node.name);
    hash.add(node.op_type);
    hash.add(node.domain);
    for (const std::string& input : node.inputs) hash.add(input);
    hash.add(-1);
    for (const std::string& output : node.outputs) hash.add(output);
    hash.add(-2);
    for (const onnx_import::AttributeDef& attribute : node.attributes) add(hash, attribute);
  }
  for (const onnx_import::ValueDef& input : graph.inputs) add(hash, input);
  hash.add(-3);
  for (const onnx_import::ValueDef& output : graph.outputs) add(hash, output);
  for (const onnx_import::TensorDef& tensor : graph.initializers) add(hash, tensor);
}

}  // namespace

std::string engine_key(const onnx_import::Model& model, const std::string& facts) {
  Hash hash;
  hash.add(CAMSHAFT_VERSION);
  hash.add(cpu_fingerprint());
  hash.add(isa_name(active_isa()));
  hash.add(facts);
  hash.add(model.ir_version);
  for (const onnx_import::OpsetDef& opset : model.opsets) {
    hash.add(opset.domain);
    hash.add(opset.version);
  }
  add(hash, *model.graph);
  return "ep" + hash.text();
}

}  // namespace camshaft::ep
