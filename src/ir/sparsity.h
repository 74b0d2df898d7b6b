// SPDX-License-Identifier: Apache-2.0
// Patterns of zeros in constant weights. 2:4: of every four neighbouring input channels, for each
// output channel and tap, at most two weights are not zero; 4:8 likewise. Channels beyond the last
// whole four count as zeros.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ir/graph.h"
#include "ir/refusal.h"
#include "ir/weight_records.h"

namespace camshaft::ir {

// A tensor seen as [outer][channels][inner], row major.
struct ChannelAxis {
  int64_t outer = 1, channels = 1, inner = 1;
  bool operator==(const ChannelAxis&) const = default;
};
ChannelAxis channel_axis(std::span<const int64_t> extents, size_t axis);

// What an engine keeps of them.
struct WeightSparsity {
  int64_t weights = 0, nonzeros = 0;    // 0: no constant weights
  int64_t groups = 0, full_groups = 0;  // of four channels; those with more than two nonzeros

  // Filters of one or two channels cannot break the pattern: they are not sparse by it.
  bool has_groups() const { return weights > 2 * groups; }
  bool is_2_4() const { return has_groups() && full_groups == 0; }
};

struct SparsityCount : WeightSparsity {
  int64_t empty_groups = 0;
  int64_t excess = 0;                   // nonzeros beyond two, of all groups
  int64_t eights = 0, full_eights = 0;  // of eight; those with more than four

  bool is_4_8() const { return weights > 4 * eights && full_eights == 0; }
  // Enough zeros without a pattern: what kernels of floats and of int8 make lists of.
  bool is_list(DataType type) const {
    if (type == DataType::kInt8) return 4 * empty_groups >= groups && groups > 0;
    return type == DataType::kFloat && 2 * nonzeros <= weights;
  }
  double kept_share() const {
    return weights == 0 ? 1 : static_cast<double>(nonzeros) / static_cast<double>(weights);
  }
};
// Of floats, 16-bit floats and int8; empty for other types.
std::optional<SparsityCount> count_sparsity(DataType type, std::span<const std::byte> values,
                                            const ChannelAxis& axis);

// The same of a constant, counted once: every sparse tactic asks for it.
std::optional<SparsityCount> sparsity_of(const ConstantData& constant, DataType type,
                                         const ChannelAxis& axis);

// Of weights of few bits along the depth; zeros are codes that are their block's zero point.
std::optional<SparsityCount> sparsity_of(const ConstantData& constant, const LowBits& weights);

// The position of the first NaN or infinity.
std::optional<int64_t> first_not_finite(DataType type, std::span<const std::byte> values);

// Which two of every four stay.
enum class KeepRule : uint8_t {
  kFirstTwo,   // trtexec's --sparsity=force
  kMagnitude,  // the two largest; of equal ones the later: polygraphy's
  kActivation  // the two largest |weight| * norm of the channel
};
// Writes zeros in place; gives how many weights that were not zero became so. `norms`: one per
// channel of each group of a grouped convolution, of kActivation only.
int64_t prune_2_4(DataType type, std::span<std::byte> values, const ChannelAxis& axis,
                  KeepRule rule, std::span<const float> norms = {});

// The same of weights of few bits, kFirstTwo: codes become their block's zero point where that is a
// code.
int64_t prune_2_4(const LowBits& weights, std::span<std::byte> records);

// The constant weights of a convolution or product, behind Quantize, Dequantize and transposing
// Shuffle layers.
struct ProductWeights {
  Tensor* constant = nullptr;
  size_t axis = 0;                 // of the input channels in the constant
  Refusal refusal;                 // why there is none
  const LowBits* codes = nullptr;  // of few bits: how the constant holds them; no axis then
};
ProductWeights find_product_weights(const Layer& layer);
std::optional<SparsityCount> sparsity_of(const ProductWeights& weights);
// Why zeros must not be written into them: something else reads them too, codes have a zero point,
// a NaN would be hidden, there are no groups of four.
Refusal refuse_pruning(const ProductWeights& weights);
// What the constant holds once pruned, and how many weights became zeros. Of codes of few bits the
// first two stay, whatever the rule.
struct PrunedWeights {
  std::vector<std::byte> bytes;
  int64_t pruned = 0;
};
PrunedWeights pruned_2_4(const ProductWeights& weights, KeepRule rule);

}  // namespace camshaft::ir
