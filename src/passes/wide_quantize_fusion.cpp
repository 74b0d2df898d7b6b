// SPDX-License-Identifier: Apache-2.0
// WideQuantizeFusion: Q followed by DQ of 16 bits rounds floats to a grid, and no kernel multiplies
// such codes (sums of int16 times int8 leave int32 after 512 products): they become one PointWise,
// round(x / s) clipped, times s, which fuses with what is around it. A value that is on the grid
// already, behind layers that only move elements, is left as it is. Legal: every reader of the
// codes is such a DQ, one scale per tensor. Bit exact: differences of 16-bit codes are floats.
#include <algorithm>

#include "ir/kind_traits.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

int append_constant(Program& program, float value) {
  return append(program, PointOp::kConst, -1, -1, -1, value);
}

Program rounding_program(const Grid& grid) {
  const CodeRange range = code_range(grid.type);
  const auto bound = [&](int code) { return static_cast<float>(code - grid.zero_point[0]); };
  Program program;
  program.num_inputs = 1;
  const int scale = append_constant(program, grid.scale[0]);
  const int steps = append(program, PointOp::kRound, append(program, PointOp::kDiv, 0, scale));
  const int clipped =
      append(program, PointOp::kClip, steps, -1, -1, bound(range.low), bound(range.high));
  append(program, PointOp::kMul, clipped, scale);
  return program;
}

bool is_only_dequantized(const Layer& quantizer, const Grid& grid) {
  const Tensor* codes = quantizer.outputs[0];
  return !codes->graph->is_output(codes) && !codes->consumers.empty() &&
         std::all_of(codes->consumers.begin(), codes->consumers.end(), [&](const Layer* reader) {
           return reader->kind == LayerKind::kDequantize && reader->inputs[0] == codes &&
                  reader->outputs[0]->type == DataType::kFloat && wide_grid_of(*reader) == grid;
         });
}

class WideFusion {
 public:
  WideFusion(Graph& graph, Records* records) : rewriter_(graph, "WideQuantizeFusion", records) {}

  int run() {
    for (size_t k = 0; k < rewriter_.graph().layers().size(); ++k) {
      Layer* layer = rewriter_.graph().layers()[k].get();
      const std::optional<Grid> grid =
          layer->kind == LayerKind::kQuantize ? wide_grid_of(*layer) : std::nullopt;
      if (!grid || layer->inputs[0]->type != DataType::kFloat) continue;
      rewriter_.running(*layer);
      if (!grid->per_tensor())
        rewriter_.declined(*layer, {Reason::kGrid, "a scale per channel"});
      else if (!is_only_dequantized(*layer, *grid))
        rewriter_.declined(*layer,
                           {Reason::kReader, "its codes are not only dequantized on its own grid"});
      else
        k = fuse(layer, *grid);
    }
    return rewriter_.edits();
  }

 private:
  // Where to go on.
  size_t fuse(Layer* quantizer, const Grid& grid) {
    const size_t at = rewriter_.graph().position(quantizer);
    Tensor* x = quantizer->inputs[0];
    const bool is_rounded = is_on_grid(x, grid);
    const std::vector<Layer*> readers = quantizer->outputs[0]->consumers;
    for (Layer* dequantizer : readers) {
      rewriter_.fused(*quantizer, *dequantizer);
      if (is_rounded && rewriter_.can_replace(dequantizer->outputs[0], x)) {
        rewriter_.replace_uses(dequantizer->outputs[0], x);
        rewriter_.remove(dequantizer);
        continue;
      }
      PointWiseAttrs attrs;
      attrs.program = rounding_program(grid);
      Layer* group[] = {dequantizer};
      Layer* made = rewriter_.replace(group, LayerKind::kPointWise, attrs, {x},
                                      quantizer->name + " + " + dequantizer->name);
      rewriter_.inherit(made, *quantizer);
      rounded_.push_back({made->outputs[0], grid});
    }
    rewriter_.remove(quantizer);
    return at == 0 ? 0 : at - 1;
  }

  bool is_on_grid(const Tensor* x, const Grid& grid) const {
    while (x->producer && always_moves(x->producer->kind)) x = x->producer->inputs[0];
    return std::any_of(rounded_.begin(), rounded_.end(),
                       [&](const auto& entry) { return entry.first == x && entry.second == grid; });
  }

  Rewriter rewriter_;
  std::vector<std::pair<const Tensor*, Grid>> rounded_;
};

}  // namespace

int wide_quantize_fusion(Graph& graph, Records* records) {
  return WideFusion(graph, records).run();
}

}  // namespace camshaft::passes
