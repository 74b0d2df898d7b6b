// SPDX-License-Identifier: Apache-2.0
#include "tuner/views.h"

#include <algorithm>

#include "base/log.h"

namespace camshaft::tuner {
namespace {

using ir::Dim;
using ir::Format;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

// Dimensions from the outermost in memory to the innermost.
std::vector<int> memory_order(size_t rank, Format format) {
  std::vector<int> order;
  const bool channel_last = format == Format::kChannelLast && rank >= 3;
  for (int d = 0; d < static_cast<int>(rank); ++d)
    if (!(channel_last && d == 1)) order.push_back(d);
  if (channel_last) order.push_back(1);
  return order;
}

// A part along `axis` of a dense tensor is dense itself when everything outside of it is one.
bool part_is_dense(const ir::Shape& shape, Format format, int axis) {
  for (const int d : memory_order(shape.size(), format)) {
    if (d == axis) return true;
    if (shape[d] != Dim(1)) return false;
  }
  return false;
}

class Finder {
 public:
  Finder(const ir::Graph& graph, Choices& choices, const runtime::Bindings& bindings, int threads,
         std::vector<ir::RewriteRecord>* record)
      : graph_(graph), choices_(choices), bindings_(bindings), threads_(threads), record_(record) {}

  Views find() {
    for (const auto& layer : graph_.layers())
      if (layer->kind == LayerKind::kSlice) try_slice(*layer);
    // Outer concats first: an inner one then knows that its output is itself a part.
    for (auto layer = graph_.layers().rbegin(); layer != graph_.layers().rend(); ++layer)
      if ((*layer)->kind == LayerKind::kConcatenation) try_concat(**layer);
    return std::move(views_);
  }

 private:
  void applied(const char* pass, const Layer& layer, std::string text) {
    if (!record_) return;
    log(Severity::kVerbose, "{}", text);
    record_->push_back({ir::Action::kRemove, pass, {layer.name}, layer.number(), std::move(text)});
  }
  void declined(const char* pass, const Layer& layer, ir::Refusal refusal) {
    if (!record_) return;
    record_->push_back({ir::Action::kDecline,
                        pass,
                        {layer.name},
                        layer.number(),
                        std::move(refusal.text),
                        refusal.reason});
  }

  Format made_format(const Tensor& tensor) const {
    if (!tensor.producer) return Format::kLinear;
    const Layer& producer = *tensor.producer;
    for (size_t k = 0; k < producer.outputs.size(); ++k)
      if (producer.outputs[k] == &tensor && is_data_output(producer, k))
        return choices_.at(&producer).formats.output;
    return Format::kLinear;
  }
  ir::DataType made_type(const Tensor& tensor) const {
    return tensor.producer ? choices_.at(tensor.producer).formats.output_type
                           : ir::DataType::kUndefined;
  }

  bool shape_known(const Tensor& tensor) const {
    if (!tensor.has_rank || tensor.shape.empty()) return false;
    return std::none_of(tensor.shape.begin(), tensor.shape.end(), [&](Dim dim) {
      return !dim.is_known() && graph_.symbols().depends_on_runtime(dim);
    });
  }

  bool accepts(const Layer& layer, const Choice& choice, const Tensor* input,
               const Tensor* output) const {
    if (!choice.kernel.tactic) return true;  // plain loops over strides
    LayerProblem made = make_problem(layer, choice.formats, bindings_, threads_);
    if (!made.layer) return false;
    for (size_t k = 0; k < layer.inputs.size(); ++k)
      made.problem.inputs[k].dense = layer.inputs[k] != input;
    for (size_t k = 0; k < layer.outputs.size(); ++k)
      made.problem.outputs[k].dense = layer.outputs[k] != output;
    return choice.kernel.tactic->refusal(made.problem).empty();
  }

  // Can every reader of `tensor` (made in `format`) live with strides? Views of it pass the
  // question on.
  bool readers_accept_strides(const Tensor& tensor, Format format) const {
    if (formats_coincide(tensor))
      return false;  // one channel or pixel: passes for either format, which strides tell apart
    for (const Layer* reader : tensor.consumers) {
      const Choice& choice = choices_.at(reader);
      if (choice.is_view) {
        if (reader->kind != LayerKind::kSlice ||
            !readers_accept_strides(*reader->outputs[0], format))
          return false;
        continue;
      }
      if (!reader->bodies.empty()) return false;
      if (!accepts(*reader, choice, &tensor, nullptr)) return false;
    }
    return true;
  }

  // --- slices
  // The one axis a slice narrows; -1 if it is not that simple.
  static int sliced_axis(const Layer& layer) {
    const auto& a = layer.as<ir::SliceAttrs>();
    const Tensor& x = *layer.inputs[0];
    if (layer.inputs.size() != 1 || a.size.size() != x.shape.size() ||
        a.start.size() != x.shape.size())
      return -1;
    int axis = -1;
    for (size_t d = 0; d < a.size.size(); ++d) {
      if (d < a.step.size() && a.step[d] != 1) return -1;
      if (a.size[d] == x.shape[d] && a.start[d] == Dim(0)) continue;
      if (axis >= 0) return -1;
      axis = static_cast<int>(d);
    }
    return axis;
  }

  void try_slice(const Layer& layer) {
    Choice& choice = choices_.at(&layer);
    const Tensor &x = *layer.inputs[0], &y = *layer.outputs[0];
    if (x.is_constant() || !shape_known(x) || !shape_known(y) || graph_.is_output(&y)) return;
    const int axis = sliced_axis(layer);
    if (axis < 0) return;
    const Format format = is_data_input(layer, 0) ? choice.formats.input : Format::kLinear;
    if (format != (is_data_output(layer, 0) ? choice.formats.output : Format::kLinear)) return;
    if (choice.formats.input_type != choice.formats.output_type) return;
    const bool dense = part_is_dense(x.shape, format, axis) && !views_.count(&x);
    if (!dense && !readers_accept_strides(y, format)) {
      declined("SliceElimination", layer,
               {ir::Reason::kReader, "a reader of " + y.name + " needs it dense"});
      return;
    }
    choice.is_view = true;
    choice.kernel = {};
    views_[&y] = {&x, axis, layer.as<ir::SliceAttrs>().start[axis]};
    applied("SliceElimination", layer,
            fmt::format("Eliminating slice {} by retargeting {} from {} to {}", layer.name, y.name,
                        y.name, x.name));
  }

  // --- concats
  // Why `tensor` cannot be made in its place; empty if it can.
  std::string refusal(const Layer& concat, const Tensor* tensor, Format format, int axis) const {
    if (!tensor || tensor->is_constant()) return "it is a constant";
    if (!tensor->producer) return "it is a network input";
    if (graph_.is_output(tensor)) return "it is a network output";
    if (std::count(concat.inputs.begin(), concat.inputs.end(), tensor) != 1)
      return "it is used twice";
    // Made in this place it would be written over, or write over, what else lies there.
    if (views_.count(tensor)) return "of stomping hazard: it is a part of another tensor already";
    if (made_format(*tensor) != format) return "it is made in another format";
    if (made_type(*tensor) != choices_.at(&concat).formats.output_type)
      return "it is made in another type";
    const Layer& producer = *tensor->producer;
    const Choice& choice = choices_.at(&producer);
    if (choice.is_view) return "of stomping hazard: it is a view of another tensor";
    if (!producer.bodies.empty() || !shape_known(*tensor))
      return "its place is known only at run time";
    const Tensor& whole = *concat.outputs[0];
    if (part_is_dense(whole.shape, format, axis) && !views_.count(&whole)) return {};
    if (!accepts(producer, choice, nullptr, tensor)) return "its tactic writes dense tensors only";
    if (!readers_accept_strides(*tensor, format)) return "a reader needs it dense";
    return {};
  }

  // Keys or values of earlier steps, and new ones behind them (runtime/caches.h).
  bool continues_cache(const Layer& layer) const {
    if (layer.inputs.size() != 2 || !graph_.is_output(layer.outputs[0])) return false;
    const Tensor* past = layer.inputs[0];
    if (!past || past->producer || past->is_constant()) return false;
    const auto& readers = layer.outputs[0]->consumers;
    return std::any_of(readers.begin(), readers.end(),
                       [](const Layer* reader) { return reader->kind == LayerKind::kAttention; });
  }

  void try_concat(const Layer& layer) {
    Choice& choice = choices_.at(&layer);
    const Tensor& whole = *layer.outputs[0];
    const int axis = static_cast<int>(layer.as<ir::AxisAttrs>().axis);
    const Format format = is_data_output(layer, 0) ? choice.formats.output : Format::kLinear;
    if (!shape_known(whole) || layer.inputs.empty() ||
        (is_data_output(layer, 0) && choice.formats.input != format))
      return;
    if (continues_cache(layer)) {
      declined("ConcatElimination", layer,
               {ir::Reason::kOtherPass, fmt::format("{} and {} may share a buffer (set_cache)",
                                                    layer.inputs[0]->name, whole.name)});
      return;
    }
    std::vector<std::string> refusals;
    int kept = 0;
    for (const Tensor* tensor : layer.inputs) {
      if (!tensor || !shape_known(*tensor)) return;
      refusals.push_back(refusal(layer, tensor, format, axis));
      kept += !refusals.back().empty();
    }
    if (kept > 1 && kept * 2 > static_cast<int>(layer.inputs.size())) {
      declined("ConcatElimination", layer,
               {ir::Reason::kCost,
                fmt::format("{} of {} inputs would have to be copied", kept, layer.inputs.size())});
      return;
    }
    choice.is_view = true;
    choice.kernel = {};
    applied("ConcatElimination", layer, "Eliminating concatenation " + layer.name);
    Dim offset(0);
    ir::SymbolTable& symbols = const_cast<ir::Graph&>(graph_).symbols();
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const Tensor* tensor = layer.inputs[k];
      choice.part_offsets.push_back(offset);
      if (refusals[k].empty()) {
        views_[tensor] = {&whole, axis, offset};
        applied("ConcatElimination", layer,
                fmt::format("Retargeting {} to {}", tensor->name, whole.name));
      } else {
        applied("ConcatElimination", layer,
                fmt::format("Generating copy for {} to {} because {}", tensor->name, whole.name,
                            refusals[k]));
      }
      offset = symbols.add(offset, tensor->shape[axis]);
    }
  }

  const ir::Graph& graph_;
  Choices& choices_;
  const runtime::Bindings& bindings_;
  int threads_;
  std::vector<ir::RewriteRecord>* record_;
  Views views_;
};

}  // namespace

Views find_views(const ir::Graph& graph, Choices& choices, const runtime::Bindings& bindings,
                 int threads, std::vector<ir::RewriteRecord>* record) {
  return Finder(graph, choices, bindings, threads, record).find();
}

}  // namespace camshaft::tuner
