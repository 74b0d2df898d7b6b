// SPDX-License-Identifier: Apache-2.0
// RotationFusion: rotary positions written out become one layer that turns pairs in registers, in
// all forms that rotation_forms.h tells. A transpose in front that leaves the last dimension alone
// goes behind it, toward Attention, which reads rows where they lie. A product and a sum are
// rounded once: half a unit of the last place.
#include <algorithm>
#include <optional>

#include "ir/rotation.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rotation_forms.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Repeated over x, with as many values as pairs, or twice as many.
bool is_factor(const Shape& factor, const RotationForm& found) {
  if (factor.empty() || factor.size() > found.shape.size()) return false;
  const Dim width = factor.back();
  if (width != Dim(found.half) && width != Dim(2 * found.half)) return false;
  const size_t missing = found.shape.size() - factor.size();
  for (size_t d = 0; d + 1 < factor.size(); ++d)
    if (factor[d] != Dim(1) && factor[d] != found.shape[d + missing]) return false;
  return true;
}

Shape without_column(Shape shape, const RotationForm& found) {
  if (found.has_columns && !shape.empty()) shape.pop_back();
  return shape;
}

class Fusion {
 public:
  Fusion(Graph& graph, Records* records) : rewriter_(graph, "RotationFusion", records) {}

  int run() {
    fuse_all(find_rotation);
    fuse_all(find_rotated_pairs);
    return rewriter_.edits();
  }

 private:
  void fuse_all(std::optional<RotationForm> (*find)(const Layer&)) {
    for (size_t k = 0; k < rewriter_.graph().layers().size(); ++k) {
      Layer* layer = rewriter_.graph().layers()[k].get();
      if (const std::optional<RotationForm> found = find(*layer); found && fuse(layer, *found))
        k = 0;
    }
  }

  bool fuse(Layer* layer, RotationForm found) {
    const Shape cosine = without_column(found.cosine->shape, found),
                sine = without_column(found.sine->shape, found);
    if (!found.has_neighbours && layer->outputs[0]->shape != found.shape) return false;
    if (!is_factor(cosine, found) || !is_factor(sine, found) || cosine.size() != sine.size() ||
        cosine.back() != sine.back())
      return false;
    rewriter_.running(*layer);
    rewriter_.applied(Action::kFuse, *layer,
                      "Fusing " + layer->name + " into the rotation of " + found.x->name);
    std::vector<Layer*> group;
    collect(layer, found, group);
    sort_by_position(group);
    found.x = as_pairs(layer, found.x, found.shape);
    found.cosine = as_pairs(layer, found.cosine, cosine);
    found.sine = as_pairs(layer, found.sine, sine);
    if (layer->outputs[0]->shape != found.shape)
      reshape_behind(layer, found, group);
    else if (!go_before_transpose(layer, found, group))
      rewriter_.replace(group, LayerKind::kGeneric,
                        rotation_attributes(found.half, found.has_neighbours),
                        {found.x, found.cosine, found.sine}, layer->name);
    return true;
  }

  Tensor* as_pairs(const Layer* before, Tensor* tensor, const Shape& shape) {
    return rewriter_.reshaped_before(before, tensor->name + " (pairs)", tensor, shape, *before);
  }

  // A rotation in front of `layer`, in its name; `layer` itself gets another.
  Tensor* insert_rotation(Layer* layer, const RotationForm& found, const char* suffix,
                          const std::string& turned_name, const std::vector<Layer*>& group) {
    const std::string name = layer->name;
    rewriter_.rename(layer, name + suffix);
    Tensor* turned = rewriter_.add_tensor(turned_name, found.x->type, found.x->shape);
    rewriter_.insert_before(layer, LayerKind::kGeneric, name,
                            rotation_attributes(found.half, found.has_neighbours),
                            {found.x, found.cosine, found.sine}, {turned},
                            std::vector<const Layer*>(group.begin(), group.end()));
    return turned;
  }

  // The result in the shape of `layer`.
  void reshape_behind(Layer* layer, const RotationForm& found, const std::vector<Layer*>& group) {
    const Tensor* y = layer->outputs[0];
    Tensor* turned = insert_rotation(layer, found, " (reshape)", y->name + " (turned)", group);
    rewriter_.replace(group, LayerKind::kShuffle, reshape_to(y->shape), {turned}, layer->name);
  }

  // What lies between x, the factors and the result.
  static void collect(Layer* layer, const RotationForm& found, std::vector<Layer*>& group) {
    if (std::find(group.begin(), group.end(), layer) != group.end()) return;
    group.push_back(layer);
    for (const Tensor* input : layer->inputs)
      if (!found.ends_at(input) && input->producer) collect(input->producer, found, group);
  }

  // x is heads [batch, heads, steps, depth] of what a product made as [batch, steps, heads, depth];
  // factors have no heads.
  bool go_before_transpose(Layer* layer, RotationForm found, std::vector<Layer*> group) {
    Layer* shuffle = producer_of_kind(found.x, LayerKind::kShuffle);
    if (!shuffle || input_at(*shuffle, 1) || found.x->shape.size() != 4) return false;
    const auto& a = shuffle->as<ShuffleAttrs>();
    const Ints swap = {0, 2, 1, 3};
    const bool splits = a.has_reshape && is_identity_order(a.first_transpose);
    if (a.has_reshape ? !splits || a.second_transpose != swap : a.first_transpose != swap)
      return false;
    for (const Tensor* factor : {found.cosine, found.sine})
      if (factor->shape.size() == 3 || (factor->shape.size() == 4 && factor->shape[1] != Dim(1)))
        return false;
    Shape steps_first = found.x->shape;
    std::swap(steps_first[1], steps_first[2]);
    const std::string turned_name = found.x->name + " (turned)";
    Tensor* x = shuffle->inputs[0];
    found.x = rewriter_.reshaped_before(layer, x->name + " (steps)", x, steps_first, *shuffle);
    found.cosine = beside_steps(layer, found.cosine);
    found.sine = beside_steps(layer, found.sine);
    Tensor* turned = insert_rotation(layer, found, " (heads)", turned_name, group);
    ShuffleAttrs back;
    back.first_transpose = swap;
    group.insert(group.begin(), shuffle);
    rewriter_.replace(group, LayerKind::kShuffle, back, {turned}, shuffle->name);
    return true;
  }

  // [batch, 1, steps, width] as [batch, steps, 1, width]; [steps, width] as [1, steps, 1, width].
  Tensor* beside_steps(const Layer* before, Tensor* factor) {
    const Shape& s = factor->shape;
    if (s.size() == 1) return factor;
    const Shape wanted = s.size() == 2 ? Shape{1, s[0], 1, s[1]} : Shape{s[0], s[2], 1, s[3]};
    return rewriter_.reshaped_before(before, factor->name + " (steps)", factor, wanted, *before);
  }

  Rewriter rewriter_;
};

}  // namespace

int rotation_fusion(Graph& graph, Records* records) {
  return Fusion(graph, records).run();
}

}  // namespace camshaft::passes
