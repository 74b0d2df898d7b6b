// SPDX-License-Identifier: Apache-2.0
// Element types, memory formats and symbolic shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/inline_vector.h"
#include "base/status.h"

namespace camshaft::ir {

inline constexpr size_t kMaxRank = 8;
inline constexpr int64_t kMaxExtent = 0x7fffffff;  // of one dimension; what exceeds it is refused

enum class DataType : uint8_t {
  kUndefined,
  kFloat,
  kHalf,
  kBFloat16,
  kDouble,
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kBool,  // one byte, 0 or 1
  kInt4,  // two per byte, low nibble first
  kUInt4,
};

std::string_view type_name(DataType type);  // "float", "int8" …: the words of the text form
Result<DataType> parse_type(std::string_view name);
size_t bits_of(DataType type);
size_t bytes_for(DataType type, int64_t elements);  // rounds int4 up to whole bytes
bool is_floating(DataType type);
bool is_integer(DataType type);       // signed or unsigned, not bool
bool is_quantized(DataType type);     // int8 or uint8
bool is_16_bit_float(DataType type);  // bfloat16 or half

// Memory format of a tensor. Dimensions are always written in ONNX order; the format says how they
// lie in memory.
enum class Format : uint8_t {
  kLinear,       // row major
  kChannelLast,  // N, spatial…, C (rank ≥ 3): TensorRT's "Channel major"
};
std::string_view format_name(Format format);  // "linear", "channel_last"
// TensorRT's words: "Row major linear FP32", "Channel major Int8 format" …
std::string format_description(Format format, DataType type);

// One extent: a number, or a symbol of the graph's SymbolTable.
class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(int64_t extent) : code_(extent) {}  // NOLINT: implicit on purpose; extent ≥ 0
  static constexpr Dim symbol(int id) {
    Dim dim;
    dim.code_ = -1 - int64_t{id};
    return dim;
  }
  constexpr bool is_known() const { return code_ >= 0; }
  constexpr int64_t extent() const { return code_; }                        // only if is_known()
  constexpr int symbol_id() const { return static_cast<int>(-1 - code_); }  // only if !is_known()
  friend constexpr bool operator==(Dim, Dim) = default;
  friend constexpr auto operator<=>(Dim, Dim) = default;

 private:
  int64_t code_ = 0;
};

using Shape = InlineVector<Dim, kMaxRank>;
using Extents = InlineVector<int64_t, kMaxRank>;
using Ints = std::vector<int64_t>;

// How a symbol gets its value. Values of shape arithmetic may be negative while being computed (a
// slice start, say), so a symbol may stand for any integer; only an extent must end up ≥ 0.
enum class SymbolOp : uint8_t {
  kInput,     // bound from the shape of a network input
  kRuntime,   // known only when the layer that makes it has run (NonZero, If with unequal branches
              // …)
  kConstant,  // a negative number (Dim itself holds only numbers ≥ 0)
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kCeilDiv,
  kMod,
  kMin,
  kMax,
  kBroadcast,  // b where a is 1, else a: of extents that are equal, or 1 on one side
};
inline constexpr int kSymbolOpCount = static_cast<int>(SymbolOp::kBroadcast) + 1;

struct Symbol {
  SymbolOp op = SymbolOp::kInput;
  Dim a, b;              // operands of the arithmetic
  int64_t constant = 0;  // of kConstant
  std::string name;      // of kInput and kRuntime: "batch_size", "d0" …
};

// Hash-consed integer expressions over symbols: equal expressions are the same Dim, so comparing
// Dims proves equality.
class SymbolTable {
 public:
  Dim input(const std::string& name);    // the same Dim for the same name
  Dim runtime(const std::string& name);  // always a new one
  Dim constant(int64_t value);           // a plain number if ≥ 0
  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim floor_div(Dim a, Dim b);  // simplifies when b divides a as a product: (H*W*64)/(W*64) = H
  Dim ceil_div(Dim a, Dim b);
  Dim mod(Dim a, Dim b);
  Dim min(Dim a, Dim b);
  Dim max(Dim a, Dim b);
  Dim broadcast(Dim a, Dim b);

  bool is_number(Dim dim) const;           // known, or a kConstant
  int64_t number(Dim dim) const;           // only if is_number()
  bool depends_on_runtime(Dim dim) const;  // contains a kRuntime symbol
  const Symbol& symbol(int id) const { return symbols_[id]; }
  int size() const { return static_cast<int>(symbols_.size()); }

  // The value of `dim` when symbol k has the value bindings[k]; kInput and kRuntime must be bound.
  int64_t evaluate(Dim dim, std::span<const int64_t> bindings) const;
  // Evaluates every symbol whose operands are bound, in table order; `bound` says which are
  // (updated).
  void evaluate_all(std::vector<int64_t>& bindings, std::vector<bool>& bound) const;
  std::string to_string(Dim dim) const;  // "batch*4", "((d0 + 1)/2)", "-3"

  // Proven bounds of `dim`, INT64_MIN/INT64_MAX where there are none: extents of inputs and layers
  // are in [0, kMaxExtent].
  struct Bounds {
    int64_t low, high;
  };
  Bounds bounds(Dim dim) const;

  // Appends a symbol of earlier ones as it is: also reads back a stored table, in the order it was
  // written.
  Dim append(Symbol symbol);

  // What all graphs of a network share also numbers their layers (Layer::lineage).
  int next_layer_number() { return layers_++; }

 private:
  int layers_ = 0;
  Dim intern(SymbolOp op, Dim a, Dim b, int64_t constant, const std::string& name);
  struct Traits {
    Bounds bounds;
    bool runtime;  // contains a kRuntime symbol
    bool opaque;   // a sum or product too big to be taken apart again
  };
  Traits traits_of(const Symbol& symbol) const;
  std::vector<Symbol> symbols_;
  std::vector<Traits> traits_;  // of each symbol
  std::map<std::tuple<SymbolOp, Dim, Dim, int64_t, std::string>, int> index_;
  int indexed_ = 0;  // so many symbols are in `index_`
  friend struct Polynomial;
};

int64_t element_count(std::span<const int64_t> extents);

}  // namespace camshaft::ir
