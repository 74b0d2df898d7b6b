// SPDX-License-Identifier: Apache-2.0
// LoopHoisting: what every iteration of a Loop or Scan computes anew from captured tensors alone
// (the keys of a decoder's attention, projected once per step) is computed once, in front of it,
// and captured instead. Only layers of floats that cannot fail move: a loop may have no iteration.
// Exact.
#include <unordered_map>

#include "passes/bodies.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Layers that neither fail nor give more than a few times what they read.
bool may_move(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kConvolution:
    case LayerKind::kMatrixMultiply:
    case LayerKind::kActivation:
    case LayerKind::kUnary:
    case LayerKind::kElementWise:
    case LayerKind::kSoftMax:
    case LayerKind::kNormalization:
    case LayerKind::kReduce:
    case LayerKind::kPooling:
    case LayerKind::kShuffle:
      return true;
    default:
      return false;
  }
}

class Mover {
 public:
  Mover(Graph& graph, Layer* loop, Records* records)
      : outer_(graph, "LoopHoisting", records),
        body_(*loop->bodies[0], "LoopHoisting", records),
        loop_(loop) {
    for (size_t k = slots_of(*loop).captured; k < loop->inputs.size(); ++k)
      outside_[body().inputs()[k]] = loop->inputs[k];
  }

  int run() {
    std::vector<Layer*> invariant;
    for (const auto& layer : body().layers())
      if (is_invariant(*layer)) {
        invariant.push_back(layer.get());
        outside_[layer->outputs[0]] = nullptr;  // its uses become those of an input
      }
    for (Layer* layer : invariant) move(layer);
    return outer_.edits();
  }

 private:
  const Graph& body() const { return body_.graph(); }

  bool is_plain(const Tensor& tensor) const {
    if (!tensor.has_rank) return false;
    for (const Dim dim : tensor.shape)
      if (body().symbols().depends_on_runtime(dim)) return false;
    return true;
  }

  bool is_invariant(const Layer& layer) const {
    if (!may_move(layer) || layer.outputs.size() != 1 || !layer.outputs[0]) return false;
    const Tensor& y = *layer.outputs[0];
    if (y.type != DataType::kFloat || !is_plain(y)) return false;
    bool captures = false;  // what is made of constants alone is folded
    for (const Tensor* x : layer.inputs) {
      if (!x || x->is_constant()) continue;
      if (!outside_.count(x) || x->type != DataType::kFloat || !is_plain(*x)) return false;
      captures = true;
    }
    return captures;
  }

  void move(Layer* layer) {
    std::vector<Tensor*> inputs;
    for (const Tensor* x : layer->inputs)
      inputs.push_back(!x                 ? nullptr
                       : x->is_constant() ? outer_.add_constant_like(*x)
                                          : outside_[x]);
    Tensor* inside = layer->outputs[0];
    outer_.applied(Action::kEdit, *layer,
                   "Moving " + layer->name + " in front of " + loop_->name +
                       ", all iterations of which give the same");
    Tensor* made = outer_.add_tensor_like(*inside, inside->name, inside->type);
    outer_.insert_before(loop_, layer->kind, layer->name, layer->attrs, inputs, {made}, {layer});
    outside_[capture(outer_, loop_, body_, inside, made)] = made;
    body_.remove(layer);
  }

  Rewriter outer_, body_;
  Layer* loop_;
  std::unordered_map<const Tensor*, Tensor*> outside_;  // of the body -> around it
};

}  // namespace

int loop_hoisting(Graph& graph, Records* records) {
  int edits = 0;
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kLoop && layer->kind != LayerKind::kScan) continue;
    edits += Mover(graph, layer, records).run();
    k = graph.position(layer);
  }
  return edits;
}

}  // namespace camshaft::passes
