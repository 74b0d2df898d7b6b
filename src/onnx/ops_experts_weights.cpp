// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "ir/extents.h"
#include "onnx/ops_experts.h"

namespace camshaft::onnx_import {
namespace {

bool holds_reals(const Tensor* t) {
  return computes_in_float(t->type);
}

bool has_extents(const Tensor* t, const ir::Extents& wanted) {
  return ir::all_known(t->shape) && ir::extents_of(t->shape) == wanted;
}

// Extents of scales and zero points differ between exporters (a last one of 1, or none); their
// number of bytes does not.
bool has_bytes(const Tensor* t, int64_t bytes) {
  return static_cast<int64_t>(t->constant->view.size()) == bytes;
}

// Code `k` of a run of codes that begins with a byte.
int code_at(const std::byte* bytes, int64_t k, int64_t bits) {
  const int64_t bit = k * bits;
  return std::to_integer<int>(bytes[bit / 8]) >> (bit % 8) & ((1 << bits) - 1);
}

int64_t bytes_of_codes(int64_t codes, int64_t bits) {
  return (codes * bits + 7) / 8;
}

float real_at(const Tensor* t, int64_t k) {
  return static_cast<float>(read_element(t->type, t->constant->view.data(), k));
}

// Zero points of columns without blocks lie in one run, else every column's in one.
float zero_at(const ExpertFc& fc, int64_t expert, int64_t column, int64_t b) {
  if (!fc.zeros) return static_cast<float>(1 << (fc.bits - 1));
  const std::byte* zeros = fc.zeros->constant->view.data();
  if (fc.block == 0)
    return static_cast<float>(
        code_at(zeros + expert * bytes_of_codes(fc.columns(), fc.bits), column, fc.bits));
  const int64_t blocks = fc.depth() / fc.block;
  const int64_t at = (expert * fc.columns() + column) * bytes_of_codes(blocks, fc.bits);
  return static_cast<float>(code_at(zeros + at, b, fc.bits));
}

void fill_column(const ExpertFc& fc, int64_t expert, int64_t column, int64_t to,
                 const ir::RecordLayout& layout, std::byte* bytes, ir::RecordWriter& records) {
  const int64_t at = expert * fc.columns() + column, blocks = layout.blocks();
  const int64_t row_bytes = bytes_of_codes(fc.depth(), fc.bits),
                block_bytes = bytes_of_codes(layout.block, fc.bits);
  for (int64_t b = 0; b < blocks; ++b) {
    records.set_block(to, b, real_at(fc.scales, at * blocks + b), zero_at(fc, expert, column, b));
    std::memcpy(bytes + layout.at(to, b) + ir::RecordLayout::kHeader,
                fc.weights->constant->view.data() + at * row_bytes + b * block_bytes,
                static_cast<size_t>(block_bytes));
  }
}

ir::ExpertProduct product_of(const ColumnOrder& order) {
  ir::ExpertProduct product = order.first->product();
  product.columns = order.columns();
  if (order.second && order.second->zeros) product.zero = DataType::kUInt8;
  return product;
}

}  // namespace

ir::ExpertProduct ExpertFc::product() const {
  return {columns(), depth(), bits,
          bits == 0    ? 0
          : block == 0 ? depth()
                       : block,
          zeros ? DataType::kUInt8 : DataType::kUndefined};
}

Status check_fc(const ExpertFc& fc) {
  const Tensor* w = fc.weights;
  if (!w->is_constant() || (fc.bias && !fc.bias->is_constant()))
    return unsupported("{} weights or a bias that are no constants", fc.name);
  if (w->shape.size() != 3)
    return invalid("{} weights of rank {} instead of 3", fc.name, w->shape.size());
  if (fc.bits == 0 ? !holds_reals(w) : w->type != DataType::kUInt8)
    return unsupported("{} weights of type {}", fc.name, ir::type_name(w->type));
  if (!fc.product().is_valid())
    return invalid("{} weights of extents {}x{}x{}", fc.name, fc.experts(), fc.columns(),
                   fc.depth());
  if (fc.bias && (!holds_reals(fc.bias) || !has_extents(fc.bias, {fc.experts(), fc.columns()})))
    return invalid("the bias of {} is not [{}, {}]", fc.name, fc.experts(), fc.columns());
  if (fc.bits == 0) return ok_status();
  if (!fc.scales || !fc.scales->is_constant() || !holds_reals(fc.scales) ||
      (fc.zeros && (!fc.zeros->is_constant() || fc.zeros->type != DataType::kUInt8)))
    return unsupported("{} weights without constant scales and zero points", fc.name);
  if (fc.block != 0 && (fc.block < 16 || fc.depth() % fc.block != 0))
    return invalid("blocks of {} do not divide the depth {} of {}", fc.block, fc.depth(), fc.name);
  const int64_t columns = fc.experts() * fc.columns();
  const int64_t blocks = fc.block == 0 ? 1 : fc.depth() / fc.block;
  if (!has_bytes(fc.scales, static_cast<int64_t>(ir::bytes_for(fc.scales->type, columns * blocks))))
    return invalid("the scales of {} are not one per column and block", fc.name);
  const int64_t zero_bytes = fc.block == 0 ? fc.experts() * bytes_of_codes(fc.columns(), fc.bits)
                                           : columns * bytes_of_codes(blocks, fc.bits);
  if (fc.zeros && !has_bytes(fc.zeros, zero_bytes))
    return invalid("the zero points of {} are not one per column and block", fc.name);
  return ok_status();
}

std::pair<const ExpertFc*, int64_t> ColumnOrder::at(int64_t column) const {
  const int64_t half = columns() / 2;
  if (interleaved) return {first, column < half ? 2 * column : 2 * (column - half) + 1};
  return column < first->columns() ? std::pair(first, column)
                                   : std::pair(second, column - first->columns());
}

Tensor* expert_weights(Node& node, std::string_view step, const ColumnOrder& order) {
  const ir::ExpertProduct product = product_of(order);
  const int64_t experts = order.first->experts();
  const ir::Extents extents = product.extents(experts);
  std::vector<std::byte> bytes(static_cast<size_t>(experts * product.bytes()));
  for (int64_t expert = 0; expert < experts; ++expert) {
    std::byte* of_expert = bytes.data() + expert * product.bytes();
    if (product.is_float()) {
      auto* floats = reinterpret_cast<float*>(of_expert);
      for (int64_t column = 0; column < product.columns; ++column) {
        const auto [fc, from] = order.at(column);
        const int64_t at = (expert * fc->columns() + from) * product.depth;
        for (int64_t k = 0; k < product.depth; ++k) *floats++ = real_at(fc->weights, at + k);
      }
      continue;
    }
    const ir::RecordLayout layout(product.low_bits());
    ir::RecordWriter records(layout, of_expert);
    for (int64_t column = 0; column < product.columns; ++column) {
      const auto [fc, from] = order.at(column);
      fill_column(*fc, expert, from, column, layout, of_expert, records);
    }
  }
  return node.constant(step, product.type(), extents, std::move(bytes));
}

Tensor* expert_bias(Node& node, std::string_view step, const ColumnOrder& order) {
  if (!order.first->bias && !(order.second && order.second->bias)) return nullptr;
  const int64_t experts = order.first->experts(), columns = order.columns();
  std::vector<float> bias;
  for (int64_t expert = 0; expert < experts; ++expert)
    for (int64_t column = 0; column < columns; ++column) {
      const auto [fc, from] = order.at(column);
      bias.push_back(fc->bias ? real_at(fc->bias, expert * fc->columns() + from) : 0);
    }
  const int64_t extents[] = {experts, columns};
  return node.float_constant(step, extents, bias);
}

}  // namespace camshaft::onnx_import
