// SPDX-License-Identifier: Apache-2.0
// SplitQAcrossPrecedingFanIn: Concatenation → Q becomes one clone of Q per part, so that bytes are
// put together. Bit exact for one scale per tensor.
#include <fmt/format.h>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool split(Rewriter& rewriter, Layer* concat) {
  Layer* quantizer = only_reader(concat->outputs[0]);
  rewriter.running(*concat);
  if (!quantizer || quantizer->kind != LayerKind::kQuantize) return false;
  const std::optional<Grid> grid = grid_of(*quantizer);
  if (!grid || !grid->per_tensor() || !is_quantized(grid->type)) return false;
  rewriter.applied(Action::kSplit, *concat,
                   "Splitting " + quantizer->name + " across " + concat->name);
  std::vector<Tensor*> parts;
  for (size_t k = 0; k < concat->inputs.size(); ++k)
    parts.push_back(insert_quantizer(rewriter, quantizer, concat->inputs[k],
                                     fmt::format("{}_clone_{}", quantizer->name, k), concat));
  const std::string name = concat->name;
  const Attrs attrs = concat->attrs;
  Layer* group[] = {concat, quantizer};
  Layer* behind = rewriter.replace(group, LayerKind::kConcatenation, attrs, parts, name);
  set_grid_facts(rewriter, behind->outputs[0], *grid);
  rewriter.rename(behind, name);
  return true;
}

}  // namespace

int split_q_across_preceding_fan_in(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SplitQAcrossPrecedingFanIn", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kConcatenation || layer->outputs[0]->type != DataType::kFloat)
      continue;
    const Layer* reader = only_reader(layer->outputs[0]);
    if (reader && reader->kind == LayerKind::kQuantize) split(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
