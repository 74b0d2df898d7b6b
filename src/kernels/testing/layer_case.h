// SPDX-License-Identifier: Apache-2.0
// One layer of any kind with random data, to time its tactics.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "kernels/conv_shape.h"
#include "kernels/prepared.h"

namespace camshaft::kernels {

struct CaseTensor {
  std::vector<int64_t> extents;
  bool is_constant = false;
  bool present = true;
  DataType type = DataType::kFloat;
  uint8_t largest_code = 255;  // of uint8
};

// As tensors and packed weights of an engine lie: from a line of memory on, large ones in huge
// pages.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t count) {
    std::byte* memory = allocate_lines(count * sizeof(T));
    if (!memory) throw std::bad_alloc();
    return reinterpret_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  bool operator==(const LineAllocator&) const { return true; }
};
using Lines = std::vector<std::byte, LineAllocator<std::byte>>;

class LayerCase {
 public:
  LayerCase(ir::LayerKind kind, ir::Attrs attrs, std::vector<CaseTensor> inputs, CaseTensor output);

  // Weights (input 1) become 2:4 by magnitude; codes of few bits keep the first two of four.
  void prune_weights();
  // All but `share` of the weights become zeros, without a pattern or in blocks of neighbouring
  // input channels and output channels.
  void prune_weights(double share, int64_t block_channels = 1, int64_t block_filters = 1);
  // Weights become multiples of 1/64 of few bits, which half precision and bfloat16 hold.
  void narrow_weights();
  Problem problem(const Tactic& tactic, int threads) const;
  void prepare(const Tactic& tactic, ThreadPool* pool);
  void run() { static_cast<void>(kernel_.run()); }
  std::span<std::byte> input(size_t k) { return data_[k]; }
  std::span<const std::byte> output() const { return data_.back(); }

 private:
  ir::Layer layer_;
  std::vector<CaseTensor> inputs_;
  CaseTensor output_;
  // Inputs, then the output.
  std::vector<Lines> data_;
  std::vector<ir::ConstantData> constants_;

  std::vector<TensorView> input_views_, output_views_;
  Lines packed_, workspace_;
  BoundKernel kernel_;
};

// A matrix product of `batch` m x k by k x n matrices.
LayerCase matmul_case(int64_t batch, int64_t m, int64_t n, int64_t k, bool constant,
                      bool transpose_b, const std::string& epilogue = {});
// `rows` rows of floats by codes of 4 bits, whose zero points are 8; rows may become int8.
LayerCase low_bit_case(int64_t rows, int64_t columns, int64_t depth, int64_t block,
                       const std::string& epilogue = {});
// A convolution of floats that pads equally on both sides, with bias.
LayerCase conv_case(const ConvShape& shape, const std::string& epilogue = {});
// The same of uint8 (of codes up to `largest_code`) by int8 (or, where b is not constant, uint8),
// and a convolution of uint8 by int8; uint8 results. The epilogue's input 1 is a multiplier per
// channel; input 2 of a convolution with a residual is uint8 of the output's shape.
LayerCase byte_matmul_case(int64_t batch, int64_t m, int64_t n, int64_t k, bool constant,
                           bool transpose_b, const std::string& epilogue,
                           uint8_t largest_code = 255);
LayerCase byte_conv_case(const ConvShape& shape, int64_t pad_bottom, int64_t pad_right,
                         bool transposed, bool residual, const std::string& epilogue,
                         uint8_t largest_code = 255);

}  // namespace camshaft::kernels
