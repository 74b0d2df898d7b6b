// SPDX-License-Identifier: Apache-2.0
// Kept weights v and pruned ones p of a block: the error (w - v)ᵀ M (w - v), with M the moments of
// the inputs, is least for v = w_kept + M_kk⁻¹ M_kp w_p. M_kk gets a hundredth of its mean diagonal
// added, so that channels that never vary change nothing.
#include "quantize/reconstruct.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace camshaft::quantize {
namespace {

constexpr double kDamping = 0.01;

double load(ir::DataType type, const std::byte* values, int64_t index) {
  if (type == ir::DataType::kInt8) return static_cast<int8_t>(values[index]);
  float value;
  std::memcpy(&value, values + index * 4, sizeof value);
  return value;
}

void store(ir::DataType type, std::byte* values, int64_t index, double value) {
  if (type == ir::DataType::kInt8) {
    values[index] = static_cast<std::byte>(
        static_cast<int8_t>(std::clamp(std::nearbyint(value), -128.0, 127.0)));
    return;
  }
  const float rounded = static_cast<float>(value);
  std::memcpy(values + index * 4, &rounded, sizeof rounded);
}

// a x = b for a symmetric positive definite a, in place: b becomes x. False: it is not.
bool solve(std::vector<double>& a, std::vector<double>& b) {
  const size_t n = b.size();
  for (size_t row = 0; row < n; ++row)
    for (size_t col = 0; col <= row; ++col) {
      double sum = a[row * n + col];
      for (size_t k = 0; k < col; ++k) sum -= a[row * n + k] * a[col * n + k];
      if (row == col && sum <= 0) return false;
      a[row * n + col] = row == col ? std::sqrt(sum) : sum / a[col * n + col];
    }
  for (size_t row = 0; row < n; ++row) {
    for (size_t k = 0; k < row; ++k) b[row] -= a[row * n + k] * b[k];
    b[row] /= a[row * n + row];
  }
  for (size_t row = n; row-- > 0;) {
    for (size_t k = row + 1; k < n; ++k) b[row] -= a[k * n + row] * b[k];
    b[row] /= a[row * n + row];
  }
  return true;
}

// One filter's weights of a block at one tap.
struct BlockWeights {
  ir::DataType type;
  const std::byte* original;
  std::byte* pruned;
  int64_t first, stride;  // of the block's first weight
  int64_t group, channel, size;
};

void repair(const BlockWeights& block, const InputMoments& moments) {
  std::vector<int64_t> kept, gone;
  for (int64_t k = 0; k < block.size; ++k) {
    const int64_t index = block.first + k * block.stride;
    const bool was = load(block.type, block.original, index) != 0;
    const bool is = load(block.type, block.pruned, index) != 0;
    if (is) kept.push_back(k);
    if (was && !is) gone.push_back(k);
  }
  if (kept.empty() || gone.empty()) return;
  const size_t n = kept.size();
  std::vector<double> a(n * n), b(n);
  double diagonal = 0;
  const auto moment = [&](int64_t x, int64_t y) {
    return moments.at(block.group, block.channel + x, block.channel + y);
  };
  for (size_t row = 0; row < n; ++row) {
    for (size_t col = 0; col < n; ++col) a[row * n + col] = moment(kept[row], kept[col]);
    diagonal += a[row * n + row];
    for (const int64_t k : gone)
      b[row] +=
          moment(kept[row], k) * load(block.type, block.original, block.first + k * block.stride);
  }
  if (diagonal <= 0) return;
  for (size_t row = 0; row < n; ++row)
    a[row * n + row] += kDamping * diagonal / static_cast<double>(n);
  if (!solve(a, b)) return;
  for (size_t row = 0; row < n; ++row) {
    const int64_t index = block.first + kept[row] * block.stride;
    store(block.type, block.pruned, index, load(block.type, block.original, index) + b[row]);
  }
}

}  // namespace

void reconstruct(ir::DataType type, std::span<const std::byte> original,
                 std::span<std::byte> pruned, const ir::ChannelAxis& axis,
                 const InputMoments& moments) {
  if (type != ir::DataType::kFloat && type != ir::DataType::kInt8) return;
  const int64_t groups = static_cast<int64_t>(moments.norms().size()) / axis.channels;
  for (int64_t outer = 0; outer < axis.outer; ++outer)
    for (int64_t channel = 0; channel < axis.channels; channel += InputMoments::kBlock)
      for (int64_t inner = 0; inner < axis.inner; ++inner)
        repair({type, original.data(), pruned.data(),
                (outer * axis.channels + channel) * axis.inner + inner, axis.inner,
                outer * groups / axis.outer, channel,
                std::min(InputMoments::kBlock, axis.channels - channel)},
               moments);
}

}  // namespace camshaft::quantize
