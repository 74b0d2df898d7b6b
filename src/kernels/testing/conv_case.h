// SPDX-License-Identifier: Apache-2.0
// One convolution with its data, for tests and benchmarks: builds the layer, the problem and the
// run arguments of a tactic, and the answer in double precision.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/conv_shape.h"
#include "kernels/prepared.h"

namespace camshaft::kernels {

// How an epilogue operand lies against the output.
enum class OperandKind { kSame, kPerChannel, kPerImageChannel, kScalar, kPerPixel };

struct ConvCaseSpec {
  ConvShape shape;  // oh, ow are computed
  int64_t pad_bottom = 0, pad_right = 0;
  bool bias = true;
  int rank = 4;
  std::string epilogue;  // text of a program of 1 + operands.size() inputs
  std::vector<OperandKind> operands;
  int64_t slack = 0;  // channel-last buffers hold this many channels more than the tensor: a slice
  bool transposed = false;  // Deconvolution
  int64_t output_padding = 0;
  bool constant_weights = true;  // else weights and bias are known only at run time
};

class ConvCase {
 public:
  explicit ConvCase(const ConvCaseSpec& spec);

  // What the tuner would give a tactic of that format rule.
  Problem problem(const Tactic& tactic, int threads) const;
  // Packs, allocates, poisons the output.
  void prepare(const Tactic& tactic, ThreadPool* pool);
  void run();
  // Largest error of the output against the double answer, in units of eps * sum |products|; floats
  // outside the output that changed count as infinite.
  double worst_error();

  const ConvShape& shape() const { return spec_.shape; }

 private:
  struct Buffer {
    std::vector<float> floats;
    TensorView view;
  };
  Buffer make_buffer(const std::vector<float>& dense, const std::vector<int64_t>& extents,
                     Format format) const;
  double answer(int64_t n, int64_t oc, int64_t oh, int64_t ow, double& magnitude) const;
  void make_answers();
  double finished(double accumulator, const std::vector<int64_t>& index) const;

  ConvCaseSpec spec_;
  ir::Layer layer_;
  std::vector<int64_t> x_extents_, w_extents_, y_extents_;
  std::vector<float> x_, w_, b_;
  std::vector<double> wanted_, magnitudes_;  // of every output, made once
  std::vector<std::vector<int64_t>> operand_extents_;
  std::vector<std::vector<float>> operand_values_;
  std::shared_ptr<const ir::ConstantData> w_constant_, b_constant_;

  Buffer x_buffer_, y_buffer_;
  std::vector<Buffer> operand_buffers_;
  std::vector<TensorView> inputs_, outputs_;
  std::vector<std::byte> packed_, workspace_;
  BoundKernel kernel_;
};

}  // namespace camshaft::kernels
