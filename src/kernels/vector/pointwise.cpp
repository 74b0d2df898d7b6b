// SPDX-License-Identifier: Apache-2.0
// PointWise, Activation, Unary, ElementWise, Select and Scale: a tile program over the collapsed
// dimensions of the output, any broadcast, any strides. Bool tensors are converted chunk by chunk.
#include "kernels/vector/nest.h"
#include "kernels/vector/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::Instruction;
using ir::LayerKind;
using ir::PointOp;

constexpr int kMaxInputs = kMaxNestTensors - 1;
constexpr int kMaxBoolInputs = 3;

// The layer's program, without allocating.
struct Code {
  const Instruction* data = nullptr;
  int length = 0, inputs = 0;
  Instruction own;
};

int arity_of(const ir::Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kActivation:
    case LayerKind::kUnary:
      return 1;
    case LayerKind::kElementWise:
      return 2;
    default:
      return 3;
  }
}

void set_code(Code& code, const ir::Layer& layer) {
  if (const auto* pointwise = std::get_if<ir::PointWiseAttrs>(&layer.attrs)) {
    code.data = pointwise->program.code.data();
    code.length = static_cast<int>(pointwise->program.code.size());
    code.inputs = pointwise->program.num_inputs;
    return;
  }
  code.inputs = arity_of(layer);
  code.own.op = PointOp::kFma;  // Scale
  if (const auto* point = std::get_if<ir::PointOpAttrs>(&layer.attrs))
    code.own = {point->op, 0, -1, -1, point->x, point->y};
  code.own.a = 0;
  if (code.inputs > 1) code.own.b = 1;
  if (code.inputs > 2) code.own.c = 2;
  code.data = &code.own;
  code.length = 1;
}

std::string refusal(const Problem& p) {
  const auto is_fit = [](const ProblemTensor& t) {
    return !t.present || t.type == DataType::kFloat || t.type == DataType::kBool;
  };
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (!is_fit(p.inputs[k])) return "inputs are neither float nor bool";
  for (size_t k = 0; k < p.outputs.size(); ++k)
    if (!is_fit(p.outputs[k])) return "output is neither float nor bool";
  if (p.inputs.size() > kMaxInputs) return "too many inputs";
  int bools = 0;
  for (size_t k = 0; k < p.inputs.size(); ++k)
    bools += p.inputs[k].present && p.inputs[k].type == DataType::kBool;
  if (bools > kMaxBoolInputs) return "too many bool inputs";
  if (const auto* pointwise = std::get_if<ir::PointWiseAttrs>(&p.layer->attrs))
    if (!program_fits(pointwise->program)) return "program too long";
  if (p.layer->kind == LayerKind::kScale)
    for (size_t k = 0; k < p.inputs.size(); ++k)
      if (!p.inputs[k].present) return "scale or shift absent";
  return "";
}

double nanoseconds(const ir::Layer& layer, int64_t elements) {
  Code code;
  set_code(code, layer);
  return static_cast<double>(elements) / 16 * code_ns_per_16(code.data, code.length);
}

double cost_us(const Problem& p) {
  const double us = nanoseconds(*p.layer, count_of(p.outputs[0])) / 1000;
  return traffic_us(p) + (us > kThreadedUs ? us / p.threads : us);
}

// Tiles of bytes as 0 or 1 floats, and back.
void widen(const uint8_t* from, int64_t row_stride, int64_t col_stride, float* to, int64_t rows,
           int64_t cols) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      to[row * cols + col] = from[row * row_stride + col * col_stride] != 0 ? 1.0f : 0.0f;
}
void narrow(const float* from, uint8_t* to, int64_t row_stride, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      to[row * row_stride + col] = from[row * cols + col] != 0 ? 1 : 0;
}

constexpr int64_t kBoolChunk = 1024;

struct Pointwise {
  Code code;
  Nest nest;
  const TensorView* out;
  const TensorView* inputs[kMaxInputs];
  bool has_bool = false;

  void tile(const int64_t* offsets, int64_t rows, int64_t cols) const {
    if (has_bool) return bool_tiles(offsets, rows, cols);
    TileOperand operands[kMaxInputs];
    for (int k = 0; k < code.inputs; ++k)
      operands[k] = {inputs[k]->as<const float>() + offsets[k + 1], nest.row_stride(k + 1),
                     nest.col_stride(k + 1)};
    run_code(code.data, code.length, code.inputs, operands, out->as<float>() + offsets[0],
             nest.row_stride(0), rows, cols);
  }

  void bool_tiles(const int64_t* offsets, int64_t rows, int64_t cols) const {
    const int64_t col_step = cols < kBoolChunk ? cols : kBoolChunk,
                  row_step = kBoolChunk / col_step;
    for (int64_t row = 0; row < rows; row += row_step)
      for (int64_t col = 0; col < cols; col += col_step)
        bool_tile(offsets, row, col, rows - row < row_step ? rows - row : row_step,
                  cols - col < col_step ? cols - col : col_step);
  }

  void bool_tile(const int64_t* offsets, int64_t row, int64_t col, int64_t rows,
                 int64_t cols) const {
    alignas(64) float widened[kMaxBoolInputs + 1][kBoolChunk];
    TileOperand operands[kMaxInputs];
    int buffers = 0;
    for (int k = 0; k < code.inputs; ++k) {
      const int64_t row_stride = nest.row_stride(k + 1), col_stride = nest.col_stride(k + 1);
      const int64_t offset = offsets[k + 1] + row * row_stride + col * col_stride;
      if (inputs[k]->type != DataType::kBool) {
        operands[k] = {inputs[k]->as<const float>() + offset, row_stride, col_stride};
        continue;
      }
      float* buffer = widened[buffers++];
      widen(inputs[k]->as<const uint8_t>() + offset, row_stride, col_stride, buffer, rows, cols);
      operands[k] = {buffer, cols, 1};
    }
    const int64_t to = offsets[0] + row * nest.row_stride(0) + col;
    if (out->type != DataType::kBool)
      return run_code(code.data, code.length, code.inputs, operands, out->as<float>() + to,
                      nest.row_stride(0), rows, cols);
    float* result = widened[kMaxBoolInputs];
    run_code(code.data, code.length, code.inputs, operands, result, cols, rows, cols);
    narrow(result, out->as<uint8_t>() + to, nest.row_stride(0), rows, cols);
  }
};

// A per-channel vector as a tensor of x's rank.
TensorView along_axis(const TensorView& vector, const TensorView& x, int64_t axis) {
  TensorView view = vector;
  view.rank = x.rank;
  for (int d = 0; d < x.rank; ++d) view.extents[d] = 1, view.strides[d] = 0;
  view.extents[axis] = count_of(vector);
  view.strides[axis] = vector.rank > 0 ? vector.strides[vector.rank - 1] : 1;
  return view;
}

void run(const KernelArgs& args) {
  Pointwise p;
  set_code(p.code, *args.layer);
  p.out = &args.outputs[0];
  const int64_t elements = count_of(*p.out);
  if (elements == 0) return;
  p.has_bool = p.out->type == DataType::kBool;
  p.nest = make_nest(*p.out);
  TensorView vectors[2];
  for (int k = 0; k < p.code.inputs; ++k) {
    p.inputs[k] = &args.inputs[k];
    if (args.layer->kind == LayerKind::kScale && k > 0) {
      vectors[k - 1] =
          along_axis(args.inputs[k], *p.out, std::get_if<ir::ScaleAttrs>(&args.layer->attrs)->axis);
      p.inputs[k] = &vectors[k - 1];
    }
    add_tensor(p.nest, *p.inputs[k]);
    p.has_bool |= p.inputs[k]->type == DataType::kBool;
  }
  collapse(p.nest);
  const double us =
      static_cast<double>(elements) / 16 * code_ns_per_16(p.code.data, p.code.length) / 1000;
  for_tiles(p.nest, args.pool, us, [&p](const int64_t* offsets, int64_t rows, int64_t cols) {
    p.tile(offsets, rows, cols);
  });
}

#define CAMSHAFT_POINTWISE(name, kind)                                                            \
  {                                                                                               \
    name, LayerKind::kind, kIsa, FormatRule::kSame, 1, refusal, cost_us, CAMSHAFT_NOTHING_PACKED, \
        run                                                                                       \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_POINTWISE("pointwise_f32", kPointWise),
    CAMSHAFT_POINTWISE("activation_f32", kActivation),
    CAMSHAFT_POINTWISE("unary_f32", kUnary),
    CAMSHAFT_POINTWISE("elementwise_f32", kElementWise),
    CAMSHAFT_POINTWISE("select_f32", kSelect),
    CAMSHAFT_POINTWISE("scale_f32", kScale),
};

}  // namespace

std::span<const Tactic> pointwise_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
