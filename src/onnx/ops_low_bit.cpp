// SPDX-License-Identifier: Apache-2.0
// Products with weights of few bits (domain com.microsoft).
#include <algorithm>
#include <cstring>

#include "ir/extents.h"
#include "ir/weight_records.h"
#include "onnx/ops_contrib.h"

namespace camshaft::onnx_import {
namespace {

// Number k of a row of numbers of `bits` bits, low bits first.
int unpack(std::span<const uint8_t> bytes, int64_t first_byte, int64_t k, int64_t bits) {
  const int64_t bit = k * bits;
  return bytes[first_byte + bit / 8] >> (bit % 8) & ((1 << bits) - 1);
}

// Codes [N, blocks, bytes], scales and zero points [N, blocks]; integer zero points have as many
// bits as codes, every row of them begins a byte.
struct BitWeights {
  ir::LowBits kind;
  const Tensor *codes, *scales, *zeros;

  ir::RecordLayout layout() const { return ir::RecordLayout(kind); }
  int64_t zero_bytes() const { return (layout().blocks() * kind.bits + 7) / 8; }
  bool has_real_zeros() const { return zeros && computes_in_float(zeros->type); }

  float zero(int64_t row, int64_t b) const {
    if (!zeros) return static_cast<float>(1 << (kind.bits - 1));
    const std::byte* bytes = zeros->constant->view.data();
    if (has_real_zeros())
      return static_cast<float>(read_element(zeros->type, bytes, row * layout().blocks() + b));
    return static_cast<float>(unpack(zeros->values<uint8_t>(), row * zero_bytes(), b, kind.bits));
  }
};

Status check_weights(const BitWeights& w) {
  const ir::LowBits& a = w.kind;
  if (a.bits != 2 && a.bits != 4 && a.bits != 8) return unsupported("weights of {} bits", a.bits);
  if (!ir::RecordLayout::is_valid(a) || a.block < 16)
    return invalid("N {}, K {}, block_size {}", a.columns, a.depth, a.block);
  if (!w.codes->is_constant() || !w.scales->is_constant() || (w.zeros && !w.zeros->is_constant()))
    return unsupported("weights that are no constants");
  if (w.codes->type != DataType::kUInt8 || !computes_in_float(w.scales->type) ||
      (w.zeros && w.zeros->type != DataType::kUInt8 && !computes_in_float(w.zeros->type)))
    return unsupported("weights of these types");
  const int64_t blocks = a.columns * w.layout().blocks();
  const auto has = [](const Tensor* t, int64_t bytes) {
    return static_cast<int64_t>(t->constant->view.size()) == bytes;
  };
  const auto of_reals = [&](const Tensor* t) {
    return static_cast<int64_t>(ir::bytes_for(t->type, blocks));
  };
  const bool fits =
      has(w.codes, blocks * (a.block * a.bits / 8)) && has(w.scales, of_reals(w.scales)) &&
      (!w.zeros ||
       has(w.zeros, w.has_real_zeros() ? of_reals(w.zeros) : a.columns * w.zero_bytes()));
  return fits ? ok_status()
              : invalid("the packed weights do not have the extents N, K and block_size say");
}

std::vector<std::byte> records_of(const BitWeights& w) {
  const ir::RecordLayout layout = w.layout();
  std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
  ir::RecordWriter records(layout, bytes.data());
  const auto codes_bytes = static_cast<size_t>(layout.record() - ir::RecordLayout::kHeader);
  for (int64_t row = 0; row < layout.columns; ++row)
    for (int64_t b = 0; b < layout.blocks(); ++b) {
      const int64_t at = row * layout.blocks() + b;
      const double scale = read_element(w.scales->type, w.scales->constant->view.data(), at);
      records.set_block(row, b, static_cast<float>(scale), w.zero(row, b));
      std::memcpy(bytes.data() + layout.at(row, b) + ir::RecordLayout::kHeader,
                  w.codes->constant->view.data() + static_cast<size_t>(at) * codes_bytes,
                  codes_bytes);
    }
  return bytes;
}

// Which elements of a row are of group 0, which of group 1 …; empty: the first `block` are, then
// the next. GPTQ sorts them by their weight in the calibration ("act-order").
Result<Ints> members_of_groups(const Tensor* groups, const ir::LowBits& kind) {
  if (!groups->is_constant() || groups->type != DataType::kInt32)
    return unsupported("g_idx that is no constant of type int32");
  const auto group = groups->values<int32_t>();
  const int64_t blocks = ir::RecordLayout(kind).blocks();
  if (static_cast<int64_t>(group.size()) < kind.depth)
    return invalid("g_idx has {} elements, K is {}", group.size(), kind.depth);
  std::vector<Ints> members(static_cast<size_t>(blocks));
  for (int64_t k = 0; k < kind.depth; ++k) {
    if (group[k] < 0 || group[k] >= blocks) return invalid("g_idx: group {}", group[k]);
    members[group[k]].push_back(k);
  }
  Ints order;
  for (int64_t b = 0; b < blocks; ++b) {
    if (static_cast<int64_t>(members[b].size()) !=
        std::min(kind.block, kind.depth - b * kind.block))
      return unsupported("g_idx: group {} has {} weights of a row", b, members[b].size());
    order.insert(order.end(), members[b].begin(), members[b].end());
  }
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  return order;
}

// Rows of codes in that order.
std::vector<std::byte> sorted_codes(const BitWeights& w, const Ints& order) {
  const auto codes = w.codes->values<uint8_t>();
  const auto row_bytes = static_cast<int64_t>(codes.size()) / w.kind.columns;
  std::vector<std::byte> sorted(codes.size());
  for (int64_t row = 0; row < w.kind.columns; ++row)
    for (size_t k = 0; k < order.size(); ++k) {
      const int64_t bit = static_cast<int64_t>(k) * w.kind.bits;
      sorted[row * row_bytes + bit / 8] |=
          static_cast<std::byte>(unpack(codes, row * row_bytes, order[k], w.kind.bits) << bit % 8);
    }
  return sorted;
}

// The weights and, by a Gather, the rows' elements by their groups.
Status sort_by_group(Node& node, const Ints& order, BitWeights& w, Tensor*& rows) {
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (rank < 1) return invalid("a is a scalar");
  const ir::Extents extents = ir::extents_of(w.codes->shape);
  w.codes = node.constant("sorted_codes", DataType::kUInt8, extents, sorted_codes(w, order));
  w.kind.codes_rows = false;  // a block's elements would share a step
  ir::GatherAttrs attrs;
  attrs.axis = static_cast<int64_t>(rank) - 1;
  const int64_t count[] = {w.kind.depth};
  CAMSHAFT_ASSIGN(rows, node.add("sorted_rows", LayerKind::kGather, attrs,
                                 {rows, node.int_constant("order", count, order)}));
  return ok_status();
}

// Output 0: the product of rows, weights and perhaps a bias. Of rows of 16 bits it is one of
// floats.
Status emit_of_floats(Node& node, LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs) {
  const DataType type = inputs[0]->type;
  for (size_t k : {size_t{0}, size_t{2}})
    if (type != DataType::kFloat && k < inputs.size() && inputs[k]->type != DataType::kFloat) {
      CAMSHAFT_ASSIGN(inputs[k], node.cast(k == 0 ? "rows" : "bias", inputs[k], DataType::kFloat));
    }
  return node.emit_as(type, "product", kind, std::move(attrs), std::move(inputs));
}

// Inputs: a, packed b [N, blocks, bytes], scales, zero points, group index, bias.
Status import_matmul_bits(Node& node) {
  CAMSHAFT_TRY(node.require(3, 6));
  BitWeights w{{}, node.input(1), node.input(2), node.input(3)};
  w.kind.columns = node.integer("N", 0);
  w.kind.depth = node.integer("K", 0);
  w.kind.bits = node.integer("bits", 4);
  w.kind.block = node.integer("block_size", 32);
  w.kind.codes_rows = node.integer("accuracy_level", 0) >= 4;
  if (w.zeros) w.kind.zero = computes_in_float(w.zeros->type) ? DataType::kFloat : DataType::kUInt8;
  CAMSHAFT_TRY(check_weights(w));
  Tensor* rows = node.input(0);
  if (node.has(4)) {
    CAMSHAFT_ASSIGN(const Ints order, members_of_groups(node.input(4), w.kind));
    if (!order.empty()) CAMSHAFT_TRY(sort_by_group(node, order, w, rows));
  }
  const ir::RecordLayout layout = w.layout();
  const int64_t extents[] = {layout.columns, layout.blocks(), layout.record()};
  std::vector<Tensor*> inputs = {
      rows, node.constant("records", DataType::kUInt8, extents, records_of(w))};
  if (node.has(5)) inputs.push_back(node.input(5));
  return emit_of_floats(node, LayerKind::kLowBitMultiply, w.kind, std::move(inputs));
}

// The values of 4-bit codes in units of their block's largest magnitude, as bitsandbytes defines
// them: floats of one sign, two exponent and one mantissa bit, and the quantiles of a normal
// distribution (QLoRA, appendix E).
constexpr float kFloat4[] = {0, 0.0052083333f,  2.f / 3,  1,  1.f / 3,  0.5f,  1.f / 6,  0.25f,
                             0, -0.0052083333f, -2.f / 3, -1, -1.f / 3, -0.5f, -1.f / 6, -0.25f};
constexpr float kNormalFloat4[] = {-1.0f,          -0.6961928010f, -0.5250730515f, -0.3949174881f,
                                   -0.2844413817f, -0.1847734302f, -0.0910500363f, 0.0f,
                                   0.0795802996f,  0.1609302014f,  0.2461123019f,  0.3379152417f,
                                   0.4407098293f,  0.5626170040f,  0.7229568362f,  1.0f};

// Inputs: a [..., K], the codes of b [N, K] in a row, the first of two in the high half of a byte,
// the magnitudes of its blocks, which go on across rows. Codes of unequal steps have no kernel:
// the weights become floats.
Status import_matmul_bnb4(Node& node) {
  CAMSHAFT_TRY(node.require(3, 3));
  node.ignore({"training_mode", "transB"});
  const int64_t depth = node.integer("K", 0), columns = node.integer("N", 0),
                block = node.integer("block_size", 0), type = node.integer("quant_type", 1);
  const Tensor *codes = node.input(1), *magnitudes = node.input(2);
  if (type != 0 && type != 1) return unsupported("quant_type {}", type);
  if (!codes->is_constant() || !magnitudes->is_constant())
    return unsupported("weights that are no constants");
  if (codes->type != DataType::kUInt8 || !computes_in_float(magnitudes->type))
    return unsupported("weights of these types");
  if (depth < 1 || columns < 1 || block < 1 || depth > ir::kMaxExtent / columns)
    return invalid("N {}, K {}, block_size {}", columns, depth, block);
  const int64_t count = columns * depth;
  const auto bytes = codes->values<uint8_t>();
  if (static_cast<int64_t>(bytes.size()) != (count + 1) / 2 ||
      magnitudes->constant->view.size() != ir::bytes_for(magnitudes->type, (count - 1) / block + 1))
    return invalid("the packed weights do not have the extents N, K and block_size say");
  const float* table = type == 0 ? kFloat4 : kNormalFloat4;
  std::vector<float> weights(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k)
    weights[k] = table[bytes[k / 2] >> (k % 2 == 0 ? 4 : 0) & 15] *
                 static_cast<float>(
                     read_element(magnitudes->type, magnitudes->constant->view.data(), k / block));
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = true;
  const int64_t extents[] = {columns, depth};
  Tensor* const b = node.float_constant("weights", extents, weights);
  return emit_of_floats(node, LayerKind::kMatrixMultiply, std::move(attrs), {node.input(0), b});
}

}  // namespace

std::span<const OperatorRow> low_bit_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"MatMulNBits", import_matmul_bits},
      {"MatMulBnb4", import_matmul_bnb4},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
