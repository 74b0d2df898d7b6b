// SPDX-License-Identifier: Apache-2.0
// One layer of any kind with random data, to time its tactics.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace camshaft::kernels {

struct CaseTensor {
  std::vector<int64_t> extents;
  bool is_constant = false;
  bool present = true;
};

class LayerCase {
 public:
  LayerCase(ir::LayerKind kind, ir::Attrs attrs, std::vector<CaseTensor> inputs, CaseTensor output);

  Problem problem(const Tactic& tactic, int threads) const;
  void prepare(const Tactic& tactic, ThreadPool* pool);
  void run() { tactic_->run(args_); }

 private:
  ir::Layer layer_;
  std::vector<CaseTensor> inputs_;
  CaseTensor output_;
  std::vector<std::vector<float>> data_;  // inputs, then the output
  std::vector<ir::ConstantData> constants_;

  const Tactic* tactic_ = nullptr;
  std::vector<TensorView> input_views_, output_views_;
  std::vector<std::byte> packed_, workspace_;
  KernelArgs args_;
};

// A matrix product of `batch` m x k by k x n matrices.
LayerCase matmul_case(int64_t batch, int64_t m, int64_t n, int64_t k, bool constant,
                      bool transpose_b, const std::string& epilogue = {});

}  // namespace camshaft::kernels
