// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/layer_case.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "ir/sparsity.h"

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
  result.type = tensor.present ? tensor.type : DataType::kUndefined;
  result.format = tensor.extents.size() >= 3 && !tensor.is_constant ? format : Format::kLinear;
  result.extents.assign(tensor.extents.begin(), tensor.extents.end());
  return result;
}

}  // namespace

LayerCase::LayerCase(ir::LayerKind kind, ir::Attrs attrs, std::vector<CaseTensor> inputs,
                     CaseTensor output)
    : inputs_(std::move(inputs)), output_(std::move(output)) {
  layer_.kind = kind;
  layer_.name = "case";
  layer_.attrs = std::move(attrs);
  uint32_t state = 1;
  const auto next = [&state] {
    state = state * 1664525u + 1013904223u;
    return state;
  };
  const auto add = [&](const CaseTensor& tensor) {
    const size_t count =
        tensor.present ? static_cast<size_t>(ir::element_count(tensor.extents)) : 0;
    auto& bytes = data_.emplace_back(count * ir::bits_of(tensor.type) / 8);
    if (tensor.type == DataType::kFloat) {
      float* floats = reinterpret_cast<float*>(bytes.data());
      for (size_t k = 0; k < count; ++k)
        floats[k] = static_cast<float>(static_cast<int32_t>(next()) >> 8) / 8388608.0f;
    } else if (tensor.type == DataType::kInt8) {  // weights: about Gaussian, few of them large
      for (std::byte& byte : bytes) {
        int sum = 0;
        for (int k = 0; k < 4; ++k) sum += static_cast<int8_t>(next() >> 24);
        byte = static_cast<std::byte>(sum / 4);
      }
    } else {
      for (std::byte& byte : bytes)
        byte = static_cast<std::byte>((next() >> 16) % (tensor.largest_code + 1));
    }
  };
  for (const CaseTensor& tensor : inputs_) add(tensor);
  add(output_);
  constants_.resize(inputs_.size());
  for (size_t k = 0; k < inputs_.size(); ++k) constants_[k].view = data_[k];
}

void LayerCase::prune_weights() {
  constants_[1].sparsity = nullptr;
  if (layer_.kind == ir::LayerKind::kLowBitMultiply) {
    ir::prune_2_4(layer_.as<ir::LowBits>(), data_[1]);
    return;
  }
  const bool rows_first = layer_.kind == ir::LayerKind::kMatrixMultiply &&
                          !layer_.as<ir::MatrixMultiplyAttrs>().transpose_b;
  ir::prune_2_4(inputs_[1].type, data_[1], ir::channel_axis(inputs_[1].extents, rows_first ? 0 : 1),
                ir::KeepRule::kMagnitude);
}

void LayerCase::narrow_weights() {
  constants_[1].narrow = nullptr;
  for (size_t at = 0; at < data_[1].size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, data_[1].data() + at, sizeof value);
    value = std::nearbyint(std::clamp(value, -1.0F, 1.0F) * 64) / 64;
    std::memcpy(data_[1].data() + at, &value, sizeof value);
  }
}

void LayerCase::prune_weights(double share, int64_t block_channels, int64_t block_filters) {
  constants_[1].sparsity = nullptr;
  const CaseTensor& weights = inputs_[1];
  const bool product = layer_.kind == ir::LayerKind::kMatrixMultiply;
  const bool rows_first = product && !layer_.as<ir::MatrixMultiplyAttrs>().transpose_b;
  const int64_t filters = weights.extents[rows_first ? 1 : 0];
  const int64_t channels = weights.extents[rows_first ? 0 : 1];
  const int64_t taps = ir::element_count(weights.extents) / (filters * channels);
  const int64_t blocks = (channels + block_channels - 1) / block_channels;
  std::mt19937 random(1);
  const auto kept = static_cast<uint32_t>(share * 4294967295.0);
  std::vector<bool> stays;
  for (int64_t k = 0; k < (filters + block_filters - 1) / block_filters * blocks * taps; ++k)
    stays.push_back(random() <= kept);
  const size_t size = weights.type == DataType::kFloat ? sizeof(float) : 1;
  for (int64_t n = 0; n < filters; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t block = (n / block_filters * blocks + c / block_channels) * taps + tap;
        const int64_t at = rows_first ? c * filters + n : (n * channels + c) * taps + tap;
        std::byte* weight = data_[1].data() + static_cast<size_t>(at) * size;
        if (!stays[static_cast<size_t>(block)]) std::fill_n(weight, size, std::byte{0});
      }
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
  const Problem p = problem(tactic, pool->threads());
  packed_.resize(tactic.packed_bytes(p));
  tactic.pack(p, packed_.data());
  input_views_.clear();
  for (size_t k = 0; k < inputs_.size(); ++k) {
    input_views_.push_back(inputs_[k].present ? make_view(data_[k].data(), inputs_[k].type,
                                                          p.inputs[k].format, inputs_[k].extents)
                                              : TensorView{});
    if ((tactic.packed_inputs(p) >> k & 1u) != 0) input_views_.back().data = nullptr;
  }
  output_views_ = {
      make_view(data_.back().data(), output_.type, p.outputs[0].format, output_.extents)};
  kernel_ =
      BoundKernel(tactic, {&layer_, input_views_, output_views_, packed_.data(), nullptr, pool});
  workspace_.resize(kernel_.workspace_bytes());
  kernel_.set_workspace(workspace_.data());
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

LayerCase low_bit_case(int64_t rows, int64_t columns, int64_t depth, int64_t block,
                       const std::string& epilogue) {
  ir::LowBits weights;
  weights.columns = columns;
  weights.depth = depth;
  weights.block = block;
  weights.codes_rows = true;
  if (!epilogue.empty()) weights.epilogue = ir::parse_program(1, epilogue).value();
  const ir::RecordLayout layout(weights);
  CaseTensor records{.extents = {layout.bytes()}, .is_constant = true, .type = DataType::kUInt8};
  LayerCase made(ir::LayerKind::kLowBitMultiply, weights, {{.extents = {rows, depth}}, records},
                 {.extents = {rows, columns}});
  std::mt19937 random(1);
  ir::RecordWriter writer(layout, made.input(1).data());
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t b = 0; b < layout.blocks(); ++b) {
      writer.set_block(column, b, 0.01F, 8);
      for (int64_t k = 0; k < layout.count_of(b); ++k)
        writer.set_code(column, b, k, static_cast<int>(random() % 16));
    }
  return made;
}

LayerCase conv_case(const ConvShape& s, const std::string& epilogue) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {s.kh, s.kw};
  attrs.stride = {s.sh, s.sw};
  attrs.dilation = {s.dh, s.dw};
  attrs.pre_padding = attrs.post_padding = {s.pad_top, s.pad_left};
  attrs.groups = s.groups;
  if (!epilogue.empty()) attrs.epilogue = ir::parse_program(1, epilogue).value();
  return LayerCase(
      ir::LayerKind::kConvolution, attrs,
      {{{s.batch, s.ic, s.ih, s.iw}}, {{s.oc, s.group_ic(), s.kh, s.kw}, true}, {{s.oc}, true}},
      {{s.batch, s.oc, s.oh, s.ow}});
}

LayerCase byte_matmul_case(int64_t batch, int64_t m, int64_t n, int64_t k, bool constant,
                           bool transpose_b, const std::string& epilogue, uint8_t largest_code) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = transpose_b;
  attrs.a_maximum = largest_code;
  attrs.a_zero_point = largest_code == 255 ? 128 : 0;
  attrs.b_zero_point = constant ? 0 : 128;
  attrs.type = DataType::kUInt8;
  attrs.epilogue = ir::parse_program(2, epilogue).value();
  const auto batched = [batch](int64_t rows, int64_t cols) {
    return batch == 1 ? std::vector<int64_t>{rows, cols} : std::vector<int64_t>{batch, rows, cols};
  };
  return LayerCase(
      ir::LayerKind::kMatrixMultiply, attrs,
      {{.extents = batched(m, k), .type = DataType::kUInt8, .largest_code = largest_code},
       {.extents = transpose_b ? batched(n, k) : batched(k, n),
        .is_constant = constant,
        .type = constant ? DataType::kInt8 : DataType::kUInt8},
       {.extents = {n}, .is_constant = true, .present = constant, .type = DataType::kInt32},
       {.extents = {}, .is_constant = true}},
      {.extents = batched(m, n), .type = DataType::kUInt8});
}

LayerCase byte_conv_case(const ConvShape& s, int64_t pad_bottom, int64_t pad_right, bool transposed,
                         bool residual, const std::string& epilogue, uint8_t largest_code) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {s.kh, s.kw};
  attrs.stride = {s.sh, s.sw};
  attrs.dilation = {s.dh, s.dw};
  attrs.pre_padding = {s.pad_top, s.pad_left};
  attrs.post_padding = {pad_bottom, pad_right};
  if (transposed) attrs.output_padding = {0, 0};
  attrs.groups = s.groups;
  attrs.x_maximum = largest_code;
  attrs.type = DataType::kUInt8;
  attrs.epilogue = ir::parse_program(residual ? 3 : 2, epilogue).value();
  const std::vector<int64_t> y{s.batch, s.oc, s.oh, s.ow};
  std::vector<CaseTensor> inputs{
      {.extents = {s.batch, s.ic, s.ih, s.iw},
       .type = DataType::kUInt8,
       .largest_code = largest_code},
      {.extents = transposed ? std::vector<int64_t>{s.ic, s.group_oc(), s.kh, s.kw}
                             : std::vector<int64_t>{s.oc, s.group_ic(), s.kh, s.kw},
       .is_constant = true,
       .type = DataType::kInt8},
      {.extents = {s.oc}, .is_constant = true, .type = DataType::kInt32},
      {.extents = {s.oc, 1, 1}, .is_constant = true}};
  if (residual) inputs.push_back({.extents = y, .type = DataType::kUInt8});
  return LayerCase(transposed ? ir::LayerKind::kDeconvolution : ir::LayerKind::kConvolution, attrs,
                   inputs, {.extents = y, .type = DataType::kUInt8});
}

}  // namespace camshaft::kernels
