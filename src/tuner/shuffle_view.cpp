// SPDX-License-Identifier: Apache-2.0
// Decides which Shuffles move no bytes, by following memory strides through transposes and
// reshapes.
#include <optional>

#include "kernels/kernel.h"
#include "tuner/selection.h"

namespace camshaft::tuner {
namespace {

struct Strided {
  std::vector<int64_t> extents, strides;
};

Strided transpose(const Strided& x, const ir::Ints& permutation) {
  if (permutation.empty()) return x;
  Strided y;
  for (const int64_t d : permutation) {
    y.extents.push_back(x.extents[d]);
    y.strides.push_back(x.strides[d]);
  }
  return y;
}

// Strides of `x` under other extents without moving bytes, if there are such.
std::optional<Strided> reshape(const Strided& x, const std::vector<int64_t>& extents) {
  Strided y{extents, std::vector<int64_t>(extents.size(), 0)};
  size_t i = 0, j = 0;
  while (i < x.extents.size() || j < extents.size()) {
    // The smallest groups of neighbouring dimensions with the same number of elements.
    int64_t from = 1, to = 1;
    const size_t first_i = i, first_j = j;
    do {
      if (from <= to && i < x.extents.size())
        from *= x.extents[i++];
      else if (j < extents.size())
        to *= extents[j++];
      else if (i < x.extents.size())
        from *= x.extents[i++];
      else
        return {};
    } while (from != to);
    // Inside a group the input must be one run of equal steps.
    int64_t step = 0, run = 1;
    for (size_t d = i; d-- > first_i;) {
      if (x.extents[d] == 1) continue;
      if (step == 0)
        step = x.strides[d];
      else if (x.strides[d] != step * run)
        return {};
      run *= x.extents[d];
    }
    int64_t stride = step == 0 ? 1 : step;
    for (size_t d = j; d-- > first_j;) {
      y.strides[d] = stride;
      stride *= extents[d];
    }
  }
  return y;
}

// Absent: not known, or more elements than a stride can count.
std::optional<std::vector<int64_t>> numbers(const ir::Shape& shape,
                                            const runtime::Bindings& bindings) {
  std::vector<int64_t> extents;
  int64_t elements = 1;
  for (const ir::Dim dim : shape) {
    if (!bindings.known(dim) || bindings.value(dim) <= 0) return {};
    extents.push_back(bindings.value(dim));
    if (__builtin_mul_overflow(elements, extents.back(), &elements)) return {};
  }
  return extents;
}

Strided dense(const std::vector<int64_t>& extents, ir::Format format) {
  const kernels::TensorView view =
      kernels::make_view(nullptr, ir::DataType::kFloat, format, extents);
  return {extents, {view.strides, view.strides + extents.size()}};
}

bool moves_no_bytes_at(const ir::Layer& layer, const Formats& formats,
                       const runtime::Bindings& bindings) {
  const auto& a = layer.as<ir::ShuffleAttrs>();
  const auto from = numbers(layer.inputs[0]->shape, bindings),
             to = numbers(layer.outputs[0]->shape, bindings);
  if (!from || !to || from->size() > ir::kMaxRank || to->size() > ir::kMaxRank) return false;
  std::optional<Strided> x =
      transpose(dense(*from, is_data_input(layer, 0) ? formats.input : ir::Format::kLinear),
                a.first_transpose);
  if (a.has_reshape) {
    const auto extents = numbers(a.reshape, bindings);
    if (!extents) return false;
    x = reshape(*x, *extents);
    if (!x) return false;
  }
  const Strided y = transpose(*x, a.second_transpose);
  const Strided wanted =
      dense(*to, is_data_output(layer, 0) ? formats.output : ir::Format::kLinear);
  if (y.extents != wanted.extents) return false;
  for (size_t d = 0; d < y.extents.size(); ++d)
    if (y.extents[d] > 1 && y.strides[d] != wanted.strides[d]) return false;
  return true;
}

}  // namespace

bool moves_no_bytes(const ir::Layer& layer, const Formats& formats,
                    const ir::SymbolTable& symbols) {
  if (layer.inputs.size() > 1 || !layer.inputs[0] || layer.inputs[0]->is_constant()) return false;
  if (!layer.inputs[0]->has_rank || !layer.outputs[0]->has_rank) return false;
  // Symbols become two sets of large unequal numbers with many divisors: what holds for both holds
  // for all.
  static constexpr int64_t kFactors[2][8] = {{101, 103, 107, 109, 113, 127, 131, 137},
                                             {139, 149, 151, 157, 163, 167, 173, 179}};
  for (const auto& factors : kFactors) {
    runtime::Bindings bindings;
    bindings.values.resize(symbols.size());
    bindings.bound.resize(symbols.size());
    int next = 0;
    for (int id = 0; id < symbols.size(); ++id) {
      if (const ir::SymbolOp op = symbols.symbol(id).op;
          op != ir::SymbolOp::kInput && op != ir::SymbolOp::kRuntime)
        continue;
      bindings.values[id] = 96 * factors[next++ % 8];
      bindings.bound[id] = true;
    }
    symbols.evaluate_all(bindings.values, bindings.bound);
    if (!moves_no_bytes_at(layer, formats, bindings)) return false;
    if (symbols.size() == 0) break;
  }
  return true;
}

}  // namespace camshaft::tuner
