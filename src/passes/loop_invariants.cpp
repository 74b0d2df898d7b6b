// SPDX-License-Identifier: Apache-2.0
// LoopInvariants: what a Loop or Scan carries from one iteration to the next and never changes
// (weights, as tf2onnx writes them) is captured instead, and what bodies capture of constants
// becomes a constant of the body, so that its products have packed weights and its shape arithmetic
// folds. What is no longer carried leaves a single element in its place. Runs before the passes of
// the bodies. Exact.
#include "passes/bodies.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

class Hoisting {
 public:
  Hoisting(Rewriter& rewriter, Layer* layer, Records* records)
      : rewriter_(rewriter), layer_(layer), records_(records) {}

  void run() {
    if (layer_->kind != LayerKind::kIf) capture_invariants();
    bind_constants();
  }

 private:
  void capture_invariants() {
    const BodySlots s = slots_of(*layer_);
    Graph& body = *layer_->bodies[0];
    for (size_t k = 0; k < s.carried; ++k) {
      Tensor *inside = body.inputs()[s.first_in + k], *back = body.outputs()[s.first_out + k];
      Tensor *outside = layer_->inputs[s.first_in + k], *result = layer_->outputs[k];
      if (!outside || !outside->has_rank || outside->shape.empty() ||
          without_copies(back) != inside || (result && !rewriter_.can_replace(result, outside)))
        continue;
      rewriter_.applied(Action::kEdit, *layer_,
                        "Capturing " + outside->name + ", which " + layer_->name +
                            " carries and does not change");
      if (result) {
        rewriter_.replace_uses(result, outside);
        rewriter_.drop_output(layer_, k);
      }
      Rewriter in_body(body, "LoopInvariants", records_);
      capture(rewriter_, layer_, in_body, inside, outside);
      leave_element(in_body, s, k);
    }
  }

  void leave_element(Rewriter& in_body, const BodySlots& s, size_t k) {
    Tensor* inside = in_body.graph().inputs()[s.first_in + k];
    std::vector<std::byte> zeros(bytes_for(inside->type, 1));
    const int64_t one[] = {1};
    rewriter_.set_input(
        layer_, s.first_in + k,
        rewriter_.add_constant(layer_->name + " (nothing)", inside->type, one, std::move(zeros)));
    Tensor* copy = in_body.add_tensor(inside->name + " (nothing)", inside->type, {Dim(1)});
    in_body.set_shape(inside, {Dim(1)});
    in_body.set_facts(inside, {});
    in_body.insert_before(nullptr, LayerKind::kUnary, copy->name, PointOpAttrs(), {inside}, {copy},
                          {});
    in_body.set_output(s.first_out + k, copy);
  }

  void bind_constants() {
    const BodySlots s = slots_of(*layer_);
    for (size_t k = s.captured; k < layer_->inputs.size(); ++k) {
      const Tensor* outside = layer_->inputs[k];
      if (!outside || !outside->is_constant()) continue;
      int uses = 0;
      for (const auto& body : layer_->bodies) uses += bind(*body, k - s.unseen, *outside);
      if (uses > 0)
        rewriter_.applied(Action::kEdit, *layer_,
                          "Binding " + outside->name + " in the body of " + layer_->name);
    }
  }

  bool bind(Graph& body, size_t index, const Tensor& outside) {
    Tensor* inside = body.inputs()[index];
    if (inside->consumers.empty()) return false;
    Rewriter in_body(body, "LoopInvariants", records_);
    in_body.replace_uses(inside, in_body.add_constant_like(outside));
    return true;
  }

  Rewriter& rewriter_;
  Layer* layer_;
  Records* records_;
};

}  // namespace

int loop_invariants(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "LoopInvariants", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->bodies.empty()) continue;
    rewriter.running(*layer);
    Hoisting(rewriter, layer, records).run();
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
