// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/conv_case.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/testing/prepare_elsewhere.h"

namespace camshaft::kernels {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kAlignment = 64;

// Small pseudo-random values in [-1, 1): the same for the same seed everywhere.
std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  uint32_t state = seed * 2654435761u + 12345u;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(state) >> 8) / 8388608.0f;
  }
  return values;
}

size_t count_of(const std::vector<int64_t>& extents) {
  return static_cast<size_t>(ir::element_count(extents));
}

std::shared_ptr<const ir::ConstantData> constant_of(const std::vector<float>& values) {
  auto data = std::make_shared<ir::ConstantData>();
  data->bytes.resize(values.size() * sizeof(float));
  std::memcpy(data->bytes.data(), values.data(), data->bytes.size());
  data->view = data->bytes;
  return data;
}

std::byte* room_of_nans(std::vector<std::byte>& bytes, size_t size) {
  bytes.assign(size + kAlignment, std::byte{0xff});  // all ones: NaN
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  return bytes.data() + (kAlignment - address % kAlignment) % kAlignment;
}

int64_t dense_index(const std::vector<int64_t>& extents, const std::vector<int64_t>& index) {
  int64_t flat = 0;
  for (size_t d = 0; d < extents.size(); ++d)
    flat = flat * extents[d] + (extents[d] == 1 ? 0 : index[d]);
  return flat;
}

int64_t output_extent(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pads,
                      bool transposed, int64_t output_padding) {
  const int64_t reach = (kernel - 1) * dilation + 1;
  if (transposed) return (in - 1) * stride + reach + output_padding - pads;
  return (in + pads - reach) / stride + 1;
}

// Calls body(index) for every index of `extents`.
template <class Body>
void for_each_index(const std::vector<int64_t>& extents, const Body& body) {
  std::vector<int64_t> index(extents.size(), 0);
  const int64_t count = ir::element_count(extents);
  for (int64_t k = 0; k < count; ++k) {
    body(index);
    for (size_t d = extents.size(); d-- > 0;) {
      if (++index[d] < extents[d]) break;
      index[d] = 0;
    }
  }
}

int64_t offset_in(const TensorView& view, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (int d = 0; d < view.rank; ++d) offset += index[static_cast<size_t>(d)] * view.strides[d];
  return offset;
}

}  // namespace

ConvCase::ConvCase(const ConvCaseSpec& spec) : spec_(spec) {
  ConvShape& s = spec_.shape;
  s.oh = output_extent(s.ih, s.kh, s.sh, s.dh, s.pad_top + spec.pad_bottom, spec.transposed,
                       spec.output_padding);
  s.ow = output_extent(s.iw, s.kw, s.sw, s.dw, s.pad_left + spec.pad_right, spec.transposed,
                       spec.output_padding);
  const int64_t w0 = spec.transposed ? s.ic : s.oc,
                w1 = spec.transposed ? s.group_oc() : s.group_ic();
  if (spec.rank == 4) {
    x_extents_ = {s.batch, s.ic, s.ih, s.iw};
    w_extents_ = {w0, w1, s.kh, s.kw};
    y_extents_ = {s.batch, s.oc, s.oh, s.ow};
  } else {
    x_extents_ = {s.batch, s.ic, s.iw};
    w_extents_ = {w0, w1, s.kw};
    y_extents_ = {s.batch, s.oc, s.ow};
  }
  x_ = random_floats(count_of(x_extents_), 1);
  w_ = random_floats(count_of(w_extents_), 2);
  b_ = random_floats(static_cast<size_t>(s.oc), 3);
  w_constant_ = constant_of(w_);
  b_constant_ = constant_of(b_);

  ir::ConvolutionAttrs attrs;
  if (spec.rank == 4) {
    attrs.kernel = {s.kh, s.kw};
    attrs.stride = {s.sh, s.sw};
    attrs.dilation = {s.dh, s.dw};
    attrs.pre_padding = {s.pad_top, s.pad_left};
    attrs.post_padding = {spec.pad_bottom, spec.pad_right};
    if (spec.transposed) attrs.output_padding = {spec.output_padding, spec.output_padding};
  } else {
    attrs.kernel = {s.kw};
    attrs.stride = {s.sw};
    attrs.dilation = {s.dw};
    attrs.pre_padding = {s.pad_left};
    attrs.post_padding = {spec.pad_right};
    if (spec.transposed) attrs.output_padding = {spec.output_padding};
  }
  attrs.groups = s.groups;
  if (!spec.epilogue.empty())
    attrs.epilogue =
        ir::parse_program(1 + static_cast<int>(spec.operands.size()), spec.epilogue).value();
  layer_.kind = spec.transposed ? ir::LayerKind::kDeconvolution : ir::LayerKind::kConvolution;
  layer_.name = "case";
  layer_.attrs = attrs;

  uint32_t seed = 10;
  for (OperandKind kind : spec.operands) {
    std::vector<int64_t> extents = y_extents_;
    for (size_t d = 0; d < extents.size(); ++d) {
      const bool keep = kind == OperandKind::kSame ||
                        (kind == OperandKind::kPerChannel && d == 1) ||
                        (kind == OperandKind::kPerImageChannel && d <= 1) ||
                        (kind == OperandKind::kPerPixel && d != 1);
      if (!keep) extents[d] = 1;
    }
    if (kind == OperandKind::kScalar) extents.clear();
    operand_values_.push_back(random_floats(count_of(extents), seed++));
    operand_extents_.push_back(extents);
  }
}

Problem ConvCase::problem(const Tactic& tactic, int threads) const {
  const auto tensor = [](const std::vector<int64_t>& extents, Format format) {
    ProblemTensor result;
    result.present = true;
    result.type = DataType::kFloat;
    result.format = extents.size() >= 3 ? format : Format::kLinear;
    result.extents.assign(extents.begin(), extents.end());
    return result;
  };
  const Format in = tactic.formats == FormatRule::kChannelLast ||
                            tactic.formats == FormatRule::kChannelLastToLinear
                        ? Format::kChannelLast
                        : Format::kLinear;
  const Format out = tactic.formats == FormatRule::kChannelLast ||
                             tactic.formats == FormatRule::kLinearToChannelLast
                         ? Format::kChannelLast
                         : Format::kLinear;
  Problem problem;
  problem.layer = &layer_;
  problem.threads = threads;
  problem.inputs.push_back(tensor(x_extents_, in));
  problem.inputs.push_back(tensor(w_extents_, Format::kLinear));
  if (spec_.constant_weights) problem.inputs.back().constant = w_constant_.get();
  problem.inputs.push_back(tensor({spec_.shape.oc}, Format::kLinear));
  if (!spec_.bias)
    problem.inputs.back() = ProblemTensor{};
  else if (spec_.constant_weights)
    problem.inputs.back().constant = b_constant_.get();
  for (size_t k = 0; k < spec_.operands.size(); ++k)
    problem.inputs.push_back(tensor(
        operand_extents_[k], spec_.operands[k] == OperandKind::kSame ? out : Format::kLinear));
  problem.outputs.push_back(tensor(y_extents_, out));
  return problem;
}

// A tensor in a buffer with `slack` more channels (channel last) and a row of poison on both sides.
ConvCase::Buffer ConvCase::make_buffer(const std::vector<float>& dense,
                                       const std::vector<int64_t>& extents, Format format) const {
  constexpr size_t kGuard = 64;
  Buffer buffer;
  std::vector<int64_t> held = extents;
  if (format == Format::kChannelLast) held[1] += spec_.slack;
  buffer.view = make_view(nullptr, DataType::kFloat, format, held);
  if (!extents.empty())
    buffer.view.extents[1 < extents.size() ? 1 : 0] = extents[1 < extents.size() ? 1 : 0];
  buffer.floats.assign(count_of(held) + 2 * kGuard, kPoison);
  buffer.view.data = buffer.floats.data() + kGuard;
  if (!dense.empty())
    for_each_index(extents, [&](const std::vector<int64_t>& index) {
      buffer.view.as<float>()[offset_in(buffer.view, index)] =
          dense[static_cast<size_t>(dense_index(extents, index))];
    });
  return buffer;
}

void ConvCase::prepare(const Tactic& tactic, ThreadPool* pool) {
  const Problem p = problem(tactic, pool ? pool->threads() : 1);
  packed_.clear();
  std::byte* packed = room_of_nans(packed_, tactic.packed_bytes ? tactic.packed_bytes(p) : 0);
  if (tactic.pack) tactic.pack(p, packed);
  const uint32_t in_packed = tactic.packed_inputs ? tactic.packed_inputs(p) : 0;

  x_buffer_ = make_buffer(x_, x_extents_, p.inputs[0].format);
  y_buffer_ = make_buffer({}, y_extents_, p.outputs[0].format);
  operand_buffers_.clear();
  for (size_t k = 0; k < operand_values_.size(); ++k)
    operand_buffers_.push_back(
        make_buffer(operand_values_[k], operand_extents_[k], p.inputs[3 + k].format));

  inputs_ = {x_buffer_.view, make_view(w_.data(), DataType::kFloat, Format::kLinear, w_extents_),
             TensorView{}};
  if (spec_.bias) {
    const int64_t channels[] = {spec_.shape.oc};
    inputs_[2] = make_view(b_.data(), DataType::kFloat, Format::kLinear, channels);
  }
  for (const Buffer& operand : operand_buffers_) inputs_.push_back(operand.view);
  for (size_t k = 0; k < inputs_.size(); ++k)
    if (in_packed >> k & 1u) inputs_[k].data = nullptr;
  outputs_ = {y_buffer_.view};

  kernel_ = prepare_elsewhere(tactic, {&layer_, inputs_, outputs_, packed, nullptr, pool},
                              tactic.packed_bytes ? tactic.packed_bytes(p) : 0);
  kernel_.set_workspace(room_of_nans(workspace_, kernel_.workspace_bytes()));
}

void ConvCase::run() {
  static_cast<void>(kernel_.run());
}

double ConvCase::answer(int64_t n, int64_t oc, int64_t oh, int64_t ow, double& magnitude) const {
  const ConvShape& s = spec_.shape;
  const int64_t group = oc / s.group_oc();
  double sum = spec_.bias ? b_[static_cast<size_t>(oc)] : 0;
  magnitude = std::fabs(sum);
  for (int64_t c = 0; c < s.group_ic(); ++c)
    for (int64_t kh = 0; kh < s.kh; ++kh)
      for (int64_t kw = 0; kw < s.kw; ++kw) {
        int64_t ih, iw;
        if (spec_.transposed) {
          ih = oh + s.pad_top - kh * s.dh;
          iw = ow + s.pad_left - kw * s.dw;
          if (ih % s.sh != 0 || iw % s.sw != 0) continue;
          ih /= s.sh;
          iw /= s.sw;
        } else {
          ih = oh * s.sh - s.pad_top + kh * s.dh;
          iw = ow * s.sw - s.pad_left + kw * s.dw;
        }
        if (ih < 0 || ih >= s.ih || iw < 0 || iw >= s.iw) continue;
        const int64_t ic = group * s.group_ic() + c;
        const double a = x_[static_cast<size_t>(((n * s.ic + ic) * s.ih + ih) * s.iw + iw)];
        const int64_t tap = kh * s.kw + kw;
        const int64_t filter =
            spec_.transposed ? ic * s.group_oc() + oc % s.group_oc() : oc * s.group_ic() + c;
        const double b = w_[static_cast<size_t>(filter * s.kh * s.kw + tap)];
        sum += a * b;
        magnitude += std::fabs(a * b);
      }
  return sum;
}

double ConvCase::finished(double accumulator, const std::vector<int64_t>& index) const {
  const ir::Program& program = layer_.as<ir::ConvolutionAttrs>().epilogue;
  if (program.empty()) return accumulator;
  std::vector<double> values{accumulator};
  for (size_t k = 0; k < operand_values_.size(); ++k)
    values.push_back(
        operand_values_[k][static_cast<size_t>(dense_index(operand_extents_[k], index))]);
  const auto value = [&](int16_t v) { return v < 0 ? 0.0 : values[static_cast<size_t>(v)]; };
  for (const ir::Instruction& i : program.code)
    values.push_back(ir::evaluate_point_op(i.op, value(i.a), value(i.b), value(i.c), i.x, i.y));
  return values.back();
}

void ConvCase::make_answers() {
  for_each_index(y_extents_, [&](const std::vector<int64_t>& index) {
    double magnitude = 0;
    const int64_t oh = spec_.rank == 4 ? index[2] : 0;
    wanted_.push_back(finished(answer(index[0], index[1], oh, index.back(), magnitude), index));
    magnitudes_.push_back(magnitude);
  });
}

double ConvCase::worst_error() {
  constexpr double kEpsilon = 1.1920929e-7, kInfinity = std::numeric_limits<double>::infinity();
  if (wanted_.empty()) make_answers();
  double worst = 0;
  size_t k = 0;
  for_each_index(y_extents_, [&](const std::vector<int64_t>& index) {
    float& got = y_buffer_.view.as<float>()[offset_in(y_buffer_.view, index)];
    const double error = std::fabs(got - wanted_[k]) / (kEpsilon * (magnitudes_[k] + 1));
    worst = std::isnan(error) ? kInfinity : std::max(worst, error);
    got = kPoison;
    ++k;
  });
  for (float value : y_buffer_.floats)
    if (!std::isnan(value)) worst = kInfinity;
  return worst;
}

}  // namespace camshaft::kernels
