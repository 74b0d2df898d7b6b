// SPDX-License-Identifier: Apache-2.0
#include "ir/rewriter.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <set>
#include <string_view>
#include <tuple>

#include "base/log.h"
#include "ir/extents.h"
#include "ir/kind_traits.h"

namespace camshaft::ir {

Rewriter::Rewriter(Graph& graph, std::string pass, std::vector<RewriteRecord>* record)
    : graph_(graph), pass_(std::move(pass)), record_(record) {}

const char* action_name(Action action) {
  static constexpr const char* kNames[] = {"running", "fuse",    "remove", "swap",   "merge",
                                           "split",   "convert", "edit",   "decline"};
  return kNames[static_cast<size_t>(action)];
}

const char* reason_name(Reason reason) {
  static constexpr const char* kNames[] = {
      "",       "constant", "extent", "shape", "type",       "attribute",  "grid",
      "reader", "value",    "limit",  "cost",  "other pass", "unsupported"};
  static_assert(std::size(kNames) == kNumReasons);
  return kNames[static_cast<size_t>(reason)];
}

std::vector<RewriteRecord> told_once(std::vector<RewriteRecord> records) {
  std::set<std::tuple<std::string, std::string, std::string>> told;
  std::erase_if(records, [&](const RewriteRecord& r) {
    return r.action == Action::kRunning ||
           (r.action == Action::kDecline &&
            !told.insert({r.pass, r.layers.empty() ? "" : r.layers[0], r.text}).second);
  });
  return records;
}

void Rewriter::record(Action action, std::initializer_list<const Layer*> layers, std::string text,
                      Reason reason) {
  if (!record_) return;
  RewriteRecord made{action, pass_, {}, (*layers.begin())->number(), std::move(text), reason};
  for (const Layer* layer : layers) made.layers.push_back(layer->name);
  record_->push_back(std::move(made));
}

void Rewriter::running(const Layer& layer) {
  log(Severity::kVerbose, "Running: {} on {}", pass_, layer.name);
  record(Action::kRunning, {&layer}, "");
}

// TensorRT's log names the pass where layers are fused, and only there.
static bool names_its_pass(std::string_view text) {
  for (const char* word : {"Swap", "Eliminating ", "Removing ", "Merging layers: "})
    if (text.starts_with(word)) return false;
  return true;
}

void Rewriter::tell(Action action, std::initializer_list<const Layer*> layers, std::string text) {
  ++edits_;
  if (names_its_pass(text))
    log(Severity::kVerbose, "{}: {}", pass_, text);
  else
    log(Severity::kVerbose, "{}", text);
  record(action, layers, std::move(text));
}

void Rewriter::fused(const Layer& a, const Layer& b) {
  tell(Action::kFuse, {&a, &b}, "Fusing " + a.name + " with " + b.name);
}

void Rewriter::swapped(const Layer& a, const Layer& b) {
  tell(Action::kSwap, {&a, &b}, "Swapping " + a.name + " with " + b.name);
}

void Rewriter::removed(const Layer& layer) {
  tell(Action::kRemove, {&layer}, "Removing " + layer.name);
}

void Rewriter::applied(Action action, const Layer& layer, std::string text) {
  tell(action, {&layer}, std::move(text));
}

void Rewriter::declined(const Layer& layer, Refusal refusal) {
  assert(refusal && !refusal.text.empty());
  log(Severity::kVerbose, "{}: not on {}: {}", pass_, layer.name, refusal.text);
  record(Action::kDecline, {&layer}, std::move(refusal.text), refusal.reason);
}

void Rewriter::inherit(Layer* made, const Layer& origin) {
  for (const std::string& node : origin.onnx_nodes)
    if (std::find(made->onnx_nodes.begin(), made->onnx_nodes.end(), node) == made->onnx_nodes.end())
      made->onnx_nodes.push_back(node);
  for (const int number : origin.lineage)
    if (!made->came_from(number)) made->lineage.push_back(number);
}

void Rewriter::absorb(Layer* first, Layer* second, std::string name) {
  if (name.empty()) name = first->name + " + " + second->name;
  // Where `second` stands, everything both of them read is available, and nobody else reads
  // `first`.
  graph_.move_before(first, second);
  for (Tensor* output : first->outputs)
    if (output) output->producer = nullptr;
  first->outputs = std::move(second->outputs);
  second->outputs.clear();
  for (Tensor* output : first->outputs)
    if (output) output->producer = first;
  inherit(first, *second);
  graph_.remove_layer(second);
  graph_.rename(first, std::move(name));
}

Layer* Rewriter::replace(std::span<Layer* const> group, LayerKind kind, Attrs attrs,
                         std::vector<Tensor*> inputs, std::string name) {
  Layer* last = group.back();
  if (name.empty()) {
    std::vector<Layer*> ordered(group.begin(), group.end());
    std::sort(ordered.begin(), ordered.end(), [&](const Layer* a, const Layer* b) {
      return graph_.position(a) < graph_.position(b);
    });
    for (const Layer* layer : ordered) name += (name.empty() ? "" : " + ") + layer->name;
  }
  std::vector<Tensor*> outputs = last->outputs;
  while (outputs.size() > 1 && !outputs.back()) outputs.pop_back();  // absent ones
  Layer* made =
      graph_.add_layer(kind, name, std::move(attrs), std::move(inputs), std::move(outputs), last);
  last->outputs.clear();
  for (const Layer* layer : group) inherit(made, *layer);
  graph_.remove_layer(last);
  // Producers stand before consumers: one sweep from the back finds all that became dead.
  std::vector<Layer*> rest(group.begin(), group.end() - 1);
  std::sort(rest.begin(), rest.end(), [&](const Layer* a, const Layer* b) {
    return graph_.position(a) > graph_.position(b);
  });
  // A layer that made both operands of the last one is listed twice.
  rest.erase(std::unique(rest.begin(), rest.end()), rest.end());
  const auto is_unused = [&](const Tensor* t) {
    return !t || (t->consumers.empty() && !graph_.is_output(t));
  };
  for (Layer* layer : rest)
    if (std::all_of(layer->outputs.begin(), layer->outputs.end(), is_unused))
      graph_.remove_layer(layer);
  graph_.rename(made, std::move(name));
  return made;
}

bool Rewriter::can_replace(const Tensor* from, const Tensor* to) const {
  return !graph_.is_output(from) || (to->producer && !graph_.is_output(to));
}

void Rewriter::replace_uses(Tensor* from, Tensor* to) {
  const std::vector<Layer*> consumers = from->consumers;
  for (Layer* consumer : consumers)
    for (size_t k = 0; k < consumer->inputs.size(); ++k)
      if (consumer->inputs[k] == from) graph_.set_input(consumer, k, to);
  for (size_t k = 0; k < graph_.outputs().size(); ++k) {
    if (graph_.outputs()[k] != from) continue;
    if (!can_replace(from, to)) {  // an output is always made by a layer of its own: a copy
      Tensor* copy = graph_.add_tensor(to->name + "_copy", from->type, from->shape);
      copy->has_rank = from->has_rank;
      graph_.add_layer(LayerKind::kUnary, copy->name, PointOpAttrs(), {to}, {copy});
      to = copy;
    }
    std::swap(from->name, to->name);
    graph_.set_output(k, to);
  }
}

Layer* Rewriter::insert_before(const Layer* before, LayerKind kind, std::string name, Attrs attrs,
                               std::vector<Tensor*> inputs, std::vector<Tensor*> outputs,
                               const std::vector<const Layer*>& provenance) {
  Layer* layer = graph_.add_layer(kind, std::move(name), std::move(attrs), std::move(inputs),
                                  std::move(outputs), before);
  for (const Layer* origin : provenance) inherit(layer, *origin);
  return layer;
}

Tensor* Rewriter::reshaped_before(const Layer* before, std::string name, Tensor* x,
                                  const Shape& shape, const Layer& origin) {
  if (x->shape == shape) return x;
  ShuffleAttrs attrs;
  attrs.has_reshape = true;
  attrs.reshape = shape;
  Tensor* y = add_tensor(name, x->type, shape);
  insert_before(before, LayerKind::kShuffle, std::move(name), std::move(attrs), {x}, {y},
                {&origin});
  return y;
}

void Rewriter::drop_output(Layer* layer, size_t index) {
  if (layer->outputs[index]) layer->outputs[index]->producer = nullptr;
  layer->outputs[index] = nullptr;
}

Program& Rewriter::program(Layer* layer) {
  if (auto* pointwise = std::get_if<PointWiseAttrs>(&layer->attrs)) return pointwise->program;
  return *epilogue_of(*layer);
}

void Rewriter::set_stored_type(Layer* layer, DataType type) {
  if (auto* a = std::get_if<PointWiseAttrs>(&layer->attrs)) a->type = type;
  if (auto* a = std::get_if<ConvolutionAttrs>(&layer->attrs)) a->type = type;
  if (auto* a = std::get_if<MatrixMultiplyAttrs>(&layer->attrs)) a->type = type;
}

Tensor* Rewriter::add_tensor_like(const Tensor& model, std::string name, DataType type) {
  Tensor* made = graph_.add_tensor(std::move(name), type, model.shape);
  made->has_rank = model.has_rank;
  return made;
}

void Rewriter::set_shape(Tensor* tensor, Shape shape) {
  tensor->has_rank = true;
  tensor->shape = std::move(shape);
}

void Rewriter::set_constant(Tensor* tensor, std::vector<std::byte> bytes) {
  assert(bytes.size() == tensor->constant->view.size());
  tensor->constant = make_constant(std::move(bytes));
}

Tensor* Rewriter::add_constant_like(const Tensor& model) {
  Tensor* made =
      graph_.add_constant(model.name, model.type, extents_of(model.shape), model.constant);
  made->facts = model.facts;
  return made;
}

Tensor* Rewriter::add_constant(std::string name, DataType type, std::span<const int64_t> extents,
                               std::vector<std::byte> bytes) {
  return graph_.add_constant(std::move(name), type, extents, make_constant(std::move(bytes)));
}

Tensor* Rewriter::add_float_constant(std::string name, std::span<const int64_t> extents,
                                     std::span<const float> values) {
  std::vector<std::byte> bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return add_constant(std::move(name), DataType::kFloat, extents, std::move(bytes));
}

Layer* sole_consumer(const Tensor* tensor) {
  if (tensor->consumers.size() != 1 || tensor->graph->is_output(tensor)) return nullptr;
  return tensor->consumers[0];
}

bool same_shape(const Tensor* a, const Tensor* b) {
  return a->has_rank && b->has_rank && a->shape == b->shape;
}

}  // namespace camshaft::ir
