// SPDX-License-Identifier: Apache-2.0
// TransposeMotion: a region of layers that do not care for the order of the dimensions (pointwise,
// reductions, concatenations, slices, pads …) between transposes is computed in the other order
// when fewer bytes are transposed that way: the transposes move to the region's border, where they
// meet their inverses and cancel. Bit exact.
#include <algorithm>
#include <map>
#include <set>

#include "ir/extents.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr size_t kMostMovedLayers = 400;
constexpr int64_t kAssumedExtent = 64;  // of a symbol, when bytes are weighed

double bytes_of(const Tensor& tensor) {
  double bytes = static_cast<double>(bits_of(tensor.type)) / 8;
  for (Dim dim : tensor.shape)
    bytes *= static_cast<double>(dim.is_known() ? dim.extent() : kAssumedExtent);
  return bytes;
}

double cost_of_transpose(const Tensor& tensor, const Ints& order) {
  return moves_nothing(tensor.shape, order) ? 0 : bytes_of(tensor);
}

// Layers that compute the same along reordered dimensions, given reordered attributes.
bool is_agnostic(const Layer& layer, size_t rank) {
  if (layer.outputs.size() != 1 || !layer.outputs[0] || !layer.outputs[0]->has_rank ||
      layer.outputs[0]->shape.size() != rank)
    return false;
  for (const Tensor* input : layer.inputs)
    if (!input || !input->has_rank || input->shape.size() > rank) return false;
  const bool one_input = layer.inputs.size() == 1;
  switch (layer.kind) {
    case LayerKind::kActivation:
    case LayerKind::kUnary:
    case LayerKind::kElementWise:
    case LayerKind::kSelect:
    case LayerKind::kPointWise:
    case LayerKind::kConcatenation:
    case LayerKind::kCast:
      return true;
    case LayerKind::kReduce:
      return one_input && layer.as<ReduceAttrs>().keep_dims &&
             !layer.as<ReduceAttrs>().axes.empty();
    case LayerKind::kSoftMax:
      return layer.as<SoftMaxAttrs>().axis == layer.as<SoftMaxAttrs>().last_axis;
    case LayerKind::kSlice:
    case LayerKind::kPad:
      return one_input;
    case LayerKind::kResize:
      return one_input && layer.as<ResizeAttrs>().roi.empty();
    default:
      return false;
  }
}

template <class List>
void reorder(List& list, const Ints& order) {
  const List old = list;
  for (size_t k = 0; k < old.size(); ++k) list[order[k]] = old[k];
}

// Attributes for dimension k lying at order[k].
Attrs reordered(const Layer& layer, const Ints& order) {
  Attrs attrs = layer.attrs;
  if (auto* a = std::get_if<AxisAttrs>(&attrs)) a->axis = order[a->axis];
  if (auto* a = std::get_if<SoftMaxAttrs>(&attrs)) a->axis = a->last_axis = order[a->axis];
  if (auto* a = std::get_if<ReduceAttrs>(&attrs)) {
    for (int64_t& axis : a->axes) axis = order[axis];
    std::sort(a->axes.begin(), a->axes.end());
  }
  if (auto* a = std::get_if<SliceAttrs>(&attrs))
    reorder(a->start, order), reorder(a->size, order), reorder(a->step, order);
  if (auto* a = std::get_if<PadAttrs>(&attrs)) reorder(a->pre, order), reorder(a->post, order);
  if (auto* a = std::get_if<ResizeAttrs>(&attrs))
    reorder(a->scales, order), reorder(a->sizes, order);
  return attrs;
}

class Region {
 public:
  // `order`: that of the transposes into the region; dimension k of a tensor inside was dimension
  // order[k] before.
  Region(Rewriter& rewriter, Ints order)
      : rewriter_(rewriter), order_(std::move(order)), back_(inverse(order_)) {}

  enum class Growth { kReaders, kDownwards, kBothWays };
  void grow(const Tensor* seed, Growth growth) {
    const bool upwards = growth == Growth::kBothWays;
    std::vector<const Tensor*> open = {seed};
    while (!open.empty() && layers_.size() < kMostMovedLayers) {
      const Tensor* tensor = open.back();
      open.pop_back();
      for (Layer* reader : tensor->consumers) add(reader, open, upwards);
      if (growth == Growth::kReaders) return;
    }
  }
  bool empty() const { return layers_.empty(); }
  size_t size() const { return layers_.size(); }

  // Bytes transposed now minus bytes transposed when flipped.
  double gain() const {
    double now = 0, then = 0;
    for (const Tensor* input : border_inputs()) {
      if (input->is_constant()) continue;
      const bool meets = pure_order(input->producer) == order_;
      if (meets && layers_.count(input->producer->inputs[0]->producer))
        then += cost_of_transpose(*input, order_);  // of the region's own result: once more as now
      else if (meets && read_inside_only(input))
        now += cost_of_transpose(*input, order_);
      if (!meets) then += cost_of_inner(*input);
    }
    for (const Layer* layer : layers_) weigh_output(layer->outputs[0], &now, &then);
    return now - then;
  }

  void flip() {
    std::map<Tensor*, Tensor*> before;  // tensor → the same in the order before the transposes
    std::vector<Layer*> ordered(layers_.begin(), layers_.end());
    sort_by_position(ordered);
    for (Tensor* input : border_inputs()) before[input] = enter(input);
    for (Layer* layer : ordered) {
      std::vector<Tensor*> inputs;
      for (Tensor* input : layer->inputs) inputs.push_back(before.at(input));
      Tensor* output = layer->outputs[0];
      Tensor* made =
          rewriter_.add_tensor(output->name, output->type, reordered_shape(output->shape));
      Facts facts = output->facts;
      facts.shape_value.reset();
      rewriter_.set_facts(made, std::move(facts));
      before[output] = made;
      rewriter_.insert_before(layer, layer->kind, layer->name, reordered(*layer, order_), inputs,
                              {made}, {layer});
    }
    for (size_t k = ordered.size(); k-- > 0;) leave(ordered[k], before.at(ordered[k]->outputs[0]));
  }

 private:
  void add(Layer* layer, std::vector<const Tensor*>& open, bool upwards) {
    if (layers_.count(layer) || !is_agnostic(*layer, order_.size())) return;
    layers_.insert(layer);
    open.push_back(layer->outputs[0]);
    if (!upwards) return;
    for (const Tensor* input : layer->inputs)
      if (input->producer && is_agnostic(*input->producer, order_.size()))
        add(input->producer, open, upwards);
  }

  std::vector<Tensor*> border_inputs() const {
    std::vector<Tensor*> border;
    std::vector<Layer*> ordered(layers_.begin(), layers_.end());
    sort_by_position(ordered);
    for (const Layer* layer : ordered)
      for (Tensor* input : layer->inputs)
        if (!layers_.count(input->producer) &&
            std::find(border.begin(), border.end(), input) == border.end())
          border.push_back(input);
    return border;
  }

  bool read_inside_only(const Tensor* tensor) const {
    if (tensor->graph->is_output(tensor)) return false;
    return std::all_of(tensor->consumers.begin(), tensor->consumers.end(),
                       [&](Layer* l) { return layers_.count(l) > 0; });
  }

  Shape reordered_shape(const Shape& shape) const {
    Shape result = shape;
    for (size_t k = 0; k < shape.size(); ++k) result[order_[k]] = shape[k];
    return result;
  }
  double cost_of_inner(const Tensor& tensor) const {
    return moves_nothing(padded(tensor.shape, order_.size()), back_) ? 0 : bytes_of(tensor);
  }

  void weigh_output(const Tensor* output, double* now, double* then) const {
    bool needs_transpose = output->graph->is_output(output);
    for (const Layer* reader : output->consumers) {
      if (layers_.count(const_cast<Layer*>(reader))) continue;
      const Ints next = pure_order(reader);
      if (next.empty()) {
        needs_transpose = true;
        continue;
      }
      *now += cost_of_transpose(*output, next);
      Ints both;  // the region's transpose, then the reader's
      for (int64_t axis : next) both.push_back(order_[axis]);
      if (!moves_nothing(reordered_shape(output->shape), both)) *then += bytes_of(*output);
    }
    if (needs_transpose) *then += cost_of_transpose(*output, order_);
  }

  Tensor* enter(Tensor* input) {
    if (pure_order(input->producer) == order_) return input->producer->inputs[0];
    Shape shape = padded(input->shape, order_.size());
    if (all_ones(shape)) return input;  // broadcasts as it is
    ShuffleAttrs shuffle;
    shuffle.has_reshape = shape != input->shape;
    if (shuffle.has_reshape) shuffle.reshape = shape;
    (shuffle.has_reshape ? shuffle.second_transpose : shuffle.first_transpose) = back_;
    Tensor* made =
        rewriter_.add_tensor(input->name + " (transposed)", input->type, reordered_shape(shape));
    rewriter_.insert_before(first_reader(input), LayerKind::kShuffle, made->name, shuffle, {input},
                            {made}, {});
    return made;
  }

  // The first of the region's layers that reads it: its remade form is going to stand just before.
  const Layer* first_reader(const Tensor* tensor) const {
    const Layer* first = nullptr;
    for (Layer* reader : tensor->consumers)
      if (layers_.count(reader) &&
          (!first || rewriter_.graph().position(reader) < rewriter_.graph().position(first)))
        first = reader;
    return first;
  }

  // The old layer goes; where its result is read outside, a transpose makes it.
  void leave(Layer* layer, Tensor* made) {
    Tensor* output = layer->outputs[0];
    const Graph& graph = rewriter_.graph();
    const std::string name = layer->name;
    if (output->consumers.empty() && !graph.is_output(output)) {
      Layer* remade = made->producer;
      rewriter_.remove(layer);
      rewriter_.rename(remade, name);
      std::swap(made->name, output->name);
      return;
    }
    ShuffleAttrs shuffle;
    shuffle.first_transpose = order_;
    Layer* remade = made->producer;
    Layer* group[] = {layer};
    rewriter_.replace(group, LayerKind::kShuffle, shuffle, {made}, name + " (transpose)");
    rewriter_.rename(remade, name);
  }

  Rewriter& rewriter_;
  Ints order_, back_;
  std::set<Layer*> layers_;
};

bool flip_behind(Rewriter& rewriter, const Layer* transpose) {
  const Ints order = pure_order(transpose);
  if (order.empty() || moves_nothing(transpose->inputs[0]->shape, order)) return false;
  for (auto growth :
       {Region::Growth::kBothWays, Region::Growth::kDownwards, Region::Growth::kReaders}) {
    Region region(rewriter, order);
    region.grow(transpose->outputs[0], growth);
    if (region.empty()) return false;
    const double gain = region.gain();
    if (gain <= 0) continue;
    rewriter.running(*transpose);
    rewriter.applied(
        Action::kSwap, *transpose,
        fmt::format("Swapping {} with the {} layers behind it: {:.0f} bytes less to transpose",
                    transpose->name, region.size(), gain));
    region.flip();
    return true;
  }
  return false;
}

}  // namespace

int transpose_motion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "TransposeMotion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (flip_behind(rewriter, graph.layers()[k].get())) {
      dead_layer_removal(graph, nullptr);
      break;  // the others are weighed again, after the transposes that met have cancelled
    }
  return rewriter.edits();
}

}  // namespace camshaft::passes
