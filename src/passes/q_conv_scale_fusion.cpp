// SPDX-License-Identifier: Apache-2.0
// QConvScaleFusion: a per-channel x * s + b by constants (BatchNormalization, a bias, a factor)
// behind a quantized convolution or product goes into the factors and the bias of its epilogue; the
// int8 weights stay as they are. At most one step of what is quantized next.
#include <algorithm>
#include <cstring>

#include "passes/affine.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// The epilogue v0 * factor [+ bias] as the quantized layer was given it.
struct Scaling {
  Program* epilogue;
  Tensor *factor, *bias;  // bias: null where there is none
  int64_t channels;
  size_t axis;
};

std::optional<Scaling> scaling_of(Layer& layer) {
  if (!makes_codes(layer) || layer.outputs[0]->type != DataType::kFloat) return std::nullopt;
  const bool matrix = layer.kind == LayerKind::kMatrixMultiply;
  Program& epilogue =
      matrix ? layer.as<MatrixMultiplyAttrs>().epilogue : layer.as<ConvolutionAttrs>().epilogue;
  Tensor* factor = input_at(layer, 3);
  Tensor* bias = input_at(layer, 4);
  if (epilogue.code.size() != 1 || !is_float_constant(factor)) return std::nullopt;
  const Instruction& code = epilogue.code[0];
  const bool multiplies = code.op == PointOp::kMul && code.a == 0 && code.b == 1 && !bias;
  const bool also_adds = code.op == PointOp::kFma && code.a == 0 && code.b == 1 && code.c == 2 &&
                         is_float_constant(bias) && bias->shape == factor->shape;
  if ((!multiplies && !also_adds) || !layer.outputs[0]->has_rank) return std::nullopt;
  const size_t axis = matrix ? layer.outputs[0]->shape.size() - 1 : 1;
  return Scaling{&epilogue, factor, bias, factor->shape[0].extent(), axis};
}

bool fuse(Rewriter& rewriter, Layer* layer, const Scaling& scaling) {
  Tensor* y = layer->outputs[0];
  Layer* next = only_reader(y);
  if (!next) return false;
  const std::optional<Affine> affine = affine_of(*next, y, scaling.axis, scaling.channels);
  if (!affine) return false;
  rewriter.running(*layer);
  rewriter.removed(*next);
  std::vector<float> factors, shifts;
  bool shifts_any = scaling.bias != nullptr;
  for (int64_t k = 0; k < scaling.channels; ++k) {
    const double scale = affine->scale[k];
    const double bias = scaling.bias ? scaling.bias->values<float>()[k] : 0.0f;
    factors.push_back(static_cast<float>(scaling.factor->values<float>()[k] * scale));
    shifts.push_back(static_cast<float>(bias * scale + affine->shift[k]));
    shifts_any = shifts_any || shifts.back() != 0;
  }
  const Extents extents = extents_of(scaling.factor->shape);
  rewriter.set_input(
      layer, 3,
      rewriter.add_float_constant(scaling.factor->name + " + " + next->name, extents, factors));
  if (shifts_any) {
    Tensor* bias = rewriter.add_float_constant(
        scaling.bias ? scaling.bias->name + " + " + next->name : next->name + " bias", extents,
        shifts);
    if (scaling.bias)
      rewriter.set_input(layer, 4, bias);
    else
      rewriter.append_input(layer, bias);
    *scaling.epilogue = Program();
    scaling.epilogue->num_inputs = 3;
    append(*scaling.epilogue, PointOp::kFma, 0, 1, 2);
  }
  rewriter.absorb(layer, next);
  return true;
}

// The accumulators as floats are what value 0 of an epilogue is: a Cast behind them goes.
bool absorb_cast(Rewriter& rewriter, Layer* layer) {
  Tensor* y = layer->outputs.empty() ? nullptr : layer->outputs[0];
  Layer* cast = y && y->type == DataType::kInt32 && makes_codes(*layer) ? only_reader(y) : nullptr;
  if (!cast || cast->kind != LayerKind::kCast || cast->as<CastAttrs>().to != DataType::kFloat)
    return false;
  rewriter.running(*layer);
  rewriter.removed(*cast);
  rewriter.set_stored_type(layer, DataType::kUndefined);
  rewriter.absorb(layer, cast);
  return true;
}

}  // namespace

int q_conv_scale_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "QConvScaleFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    if (absorb_cast(rewriter, layer)) k = graph.position(layer);
    const std::optional<Scaling> scaling = scaling_of(*layer);
    if (!scaling || !fuse(rewriter, layer, *scaling))
      ++k;
    else
      k = graph.position(layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
