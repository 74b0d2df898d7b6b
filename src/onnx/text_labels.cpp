// SPDX-License-Identifier: Apache-2.0
#include "onnx/text_labels.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "base/log.h"

namespace camshaft::onnx_import {
namespace {

using Texts = std::vector<std::string_view>;

constexpr std::string_view kTextLabels = "classlabels_strings";

// Classifiers, and where each keeps labels that are integers.
struct ClassifierRow {
  std::string_view op_type, integers;
};
constexpr ClassifierRow kClassifiers[] = {{"TreeEnsembleClassifier", "classlabels_int64s"},
                                          {"LinearClassifier", "classlabels_ints"},
                                          {"SVMClassifier", "classlabels_ints"}};
// What picks from its first input, or says it in another shape.
constexpr std::string_view kPickers[] = {"Identity",  "Reshape",   "Squeeze",
                                         "Unsqueeze", "Flatten",   "ArrayFeatureExtractor",
                                         "Gather",    "Transpose", "Slice"};

const ClassifierRow* find_classifier(const NodeDef& node) {
  const auto* found =
      std::find_if(std::begin(kClassifiers), std::end(kClassifiers),
                   [&](const ClassifierRow& row) { return node.op_type == row.op_type; });
  return found == std::end(kClassifiers) ? nullptr : found;
}

const AttributeDef* text_labels(const NodeDef& node) {
  if (!find_classifier(node)) return nullptr;
  const auto found =
      std::find_if(node.attributes.begin(), node.attributes.end(),
                   [](const AttributeDef& a) { return a.name == kTextLabels && !a.texts.empty(); });
  return found == node.attributes.end() ? nullptr : &*found;
}

bool is_text_list(const TensorDef& tensor) {
  return tensor.data_type == kString && !tensor.texts.empty();
}

bool is_text_cast(const NodeDef& node) {
  return node.op_type == "Cast" &&
         std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const AttributeDef& a) { return a.name == "to" && a.i == kString; });
}

bool picks(const NodeDef& node) {
  return is_text_cast(node) ||
         std::find(std::begin(kPickers), std::end(kPickers), node.op_type) != std::end(kPickers);
}

// Names that bodies read, theirs among them.
void add_names(const GraphDef& graph, std::vector<std::string>& names) {
  for (const NodeDef& node : graph.nodes) {
    names.insert(names.end(), node.inputs.begin(), node.inputs.end());
    for (const AttributeDef& attribute : node.attributes)
      if (attribute.graph) add_names(*attribute.graph, names);
  }
  for (const ValueDef& output : graph.outputs) names.push_back(output.name);
}

class Positions {
 public:
  explicit Positions(const GraphDef& graph) : graph_(graph) {
    for (const TensorDef& tensor : graph.initializers)
      if (is_text_list(tensor)) texts_[tensor.name] = &tensor.texts;
    for (const NodeDef& node : graph.nodes)
      if (const AttributeDef* labels = text_labels(node); labels && !node.outputs.empty())
        texts_[node.outputs[0]] = &labels->texts;
    follow();
    keep_what_is_read_otherwise();
  }

  // Numbers live in `numbers`.
  GraphDef replaced(std::deque<std::vector<int64_t>>& numbers) const {
    GraphDef result = graph_;
    const auto positions = [&](size_t count) -> std::span<const int64_t> {
      std::vector<int64_t>& made = numbers.emplace_back(count);
      std::iota(made.begin(), made.end(), 0);
      return made;
    };
    for (TensorDef& tensor : result.initializers)
      if (const Texts* texts = find(tensor.name)) {
        tensor.data_type = kInt64;
        tensor.int64s = positions(texts->size());
        tensor.texts.clear();
      }
    for (NodeDef& node : result.nodes)
      if (const Texts* texts = node.outputs.empty() ? nullptr : find(node.outputs[0]))
        replace(node, *texts, positions);
    for (ValueDef& output : result.outputs)
      if (const Texts* texts = find(output.name)) {
        log(Severity::kWarning,
            "{} holds numbers instead of texts: positions, from 0, in the list {}", output.name,
            list_labels(*texts));
        output.data_type = kInt64;
      }
    return result;
  }

 private:
  const Texts* find(const std::string& name) const {
    const auto found = texts_.find(name);
    return found == texts_.end() ? nullptr : found->second;
  }

  // Nodes may stand in any order.
  void follow() {
    for (size_t before = 0; before != texts_.size();) {
      before = texts_.size();
      for (const NodeDef& node : graph_.nodes)
        if (picks(node) && !node.inputs.empty() && node.outputs.size() == 1)
          if (const Texts* texts = find(node.inputs[0])) texts_.emplace(node.outputs[0], texts);
    }
  }

  void keep(const std::string& name) {
    if (const Texts* texts = find(name))
      std::erase_if(texts_, [&](const auto& entry) { return entry.second == texts; });
  }

  void keep_what_is_read_otherwise() {
    std::vector<std::string> others;
    for (const NodeDef& node : graph_.nodes) {
      for (size_t k = picks(node) ? 1 : 0; k < node.inputs.size(); ++k)
        others.push_back(node.inputs[k]);
      for (const AttributeDef& attribute : node.attributes)
        if (attribute.graph) add_names(*attribute.graph, others);
    }
    for (const std::string& name : others) keep(name);
  }

  template <class F>
  static void replace(NodeDef& node, const Texts& texts, const F& positions) {
    if (is_text_cast(node)) {
      node.op_type = "Identity";
      node.attributes.clear();
    }
    if (!text_labels(node)) return;
    std::erase_if(node.attributes, [](const AttributeDef& a) { return a.name == kTextLabels; });
    AttributeDef labels;
    labels.name = find_classifier(node)->integers;
    labels.type = AttributeType::kInts;
    labels.ints = positions(texts.size());
    node.attributes.push_back(std::move(labels));
  }

  const GraphDef& graph_;
  std::map<std::string, const Texts*> texts_;  // tensors of texts, and the list they are from
};

}  // namespace

bool has_text_labels(const GraphDef& graph) {
  return std::any_of(graph.initializers.begin(), graph.initializers.end(), is_text_list) ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const NodeDef& node) { return text_labels(node) != nullptr; });
}

std::shared_ptr<const GraphDef> with_label_positions(const GraphDef& graph) {
  struct Replaced {
    std::deque<std::vector<int64_t>> numbers;
    GraphDef graph;
  };
  const auto result = std::make_shared<Replaced>();
  result->graph = Positions(graph).replaced(result->numbers);
  return {result, &result->graph};
}

std::string list_labels(const std::vector<std::string_view>& labels) {
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t k = 0; k < std::min(labels.size(), kShown); ++k)
    text += fmt::format("{}{}", k ? ", " : "", labels[k]);
  return labels.size() > kShown ? text + fmt::format(", … ({})", labels.size()) : text;
}

}  // namespace camshaft::onnx_import
