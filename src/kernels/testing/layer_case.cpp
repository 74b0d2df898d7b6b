// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/layer_case.h"

#include <cstdint>

namespace camshaft::kernels {
namespace {

Format format_of(FormatRule rule, bool is_output) {
  switch (rule) {
    case FormatRule::kChannelLast:
      return Format::kChannelLast;
    case FormatRule::kLinearToChannelLast:
      return is_output ? Format::kChannelLast : Format::kLinear;
    case FormatRule::kChannelLastToLinear:
      return is_output ? Format::kLinear : Format::kChannelLast;
    default:
      return Format::kLinear;
  }
}

ProblemTensor problem_tensor(const CaseTensor& tensor, Format format) {
  ProblemTensor result;
  result.present = tensor.present;
  result.type = tensor.present ? DataType::kFloat : DataType::kUndefined;
  result.format = tensor.extents.size() >= 3 && !tensor.is_constant ? format : Format::kLinear;
  result.extents.assign(tensor.extents.begin(), tensor.extents.end());
  return result;
}

std::byte* aligned(std::vector<std::byte>& bytes, size_t size) {
  constexpr size_t kAlignment = 64;
  bytes.resize(size + kAlignment);
  return bytes.data() +
         (kAlignment - reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment) % kAlignment;
}

}  // namespace

LayerCase::LayerCase(ir::LayerKind kind, ir::Attrs attrs, std::vector<CaseTensor> inputs,
                     CaseTensor output)
    : inputs_(std::move(inputs)), output_(std::move(output)) {
  layer_.kind = kind;
  layer_.name = "case";
  layer_.attrs = std::move(attrs);
  uint32_t state = 1;
  const auto add = [&](const CaseTensor& tensor) {
    data_.emplace_back(tensor.present ? static_cast<size_t>(ir::element_count(tensor.extents)) : 0);
    for (float& value : data_.back()) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int32_t>(state) >> 8) / 8388608.0f;
    }
  };
  for (const CaseTensor& tensor : inputs_) add(tensor);
  add(output_);
  constants_.resize(inputs_.size());
  for (size_t k = 0; k < inputs_.size(); ++k)
    constants_[k].view = std::as_bytes(std::span<const float>(data_[k]));
}

Problem LayerCase::problem(const Tactic& tactic, int threads) const {
  Problem problem;
  problem.layer = &layer_;
  problem.threads = threads;
  for (size_t k = 0; k < inputs_.size(); ++k) {
    problem.inputs.push_back(problem_tensor(inputs_[k], format_of(tactic.formats, false)));
    if (inputs_[k].is_constant) problem.inputs.back().constant = &constants_[k];
  }
  problem.outputs.push_back(problem_tensor(output_, format_of(tactic.formats, true)));
  return problem;
}

void LayerCase::prepare(const Tactic& tactic, ThreadPool* pool) {
  tactic_ = &tactic;
  const Problem p = problem(tactic, pool->threads());
  std::byte* packed = aligned(packed_, tactic.packed_bytes(p));
  tactic.pack(p, packed);
  input_views_.clear();
  for (size_t k = 0; k < inputs_.size(); ++k) {
    input_views_.push_back(inputs_[k].present ? make_view(data_[k].data(), DataType::kFloat,
                                                          p.inputs[k].format, inputs_[k].extents)
                                              : TensorView{});
    if ((tactic.packed_inputs(p) >> k & 1u) != 0) input_views_.back().data = nullptr;
  }
  output_views_ = {
      make_view(data_.back().data(), DataType::kFloat, p.outputs[0].format, output_.extents)};
  args_ = KernelArgs{&layer_, input_views_, output_views_, packed, nullptr, pool};
  args_.workspace = aligned(workspace_, tactic.workspace_bytes(args_));
}

LayerCase matmul_case(int64_t batch, int64_t m, int64_t n, int64_t k, bool constant,
                      bool transpose_b, const std::string& epilogue) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = transpose_b;
  if (!epilogue.empty()) attrs.epilogue = ir::parse_program(1, epilogue).value();
  const auto batched = [batch](int64_t rows, int64_t cols) {
    return batch == 1 ? std::vector<int64_t>{rows, cols} : std::vector<int64_t>{batch, rows, cols};
  };
  return LayerCase(ir::LayerKind::kMatrixMultiply, attrs,
                   {{batched(m, k)},
                    {transpose_b ? batched(n, k) : batched(k, n), constant},
                    {{n}, true, constant}},
                   {batched(m, n)});
}

}  // namespace camshaft::kernels
