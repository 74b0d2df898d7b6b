// SPDX-License-Identifier: Apache-2.0
#include "quantize/channel_spaces.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "quantize/channel_operators.h"

namespace camshaft::quantize {
namespace {

using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

// Channels [first of the part before, …) of a value are those of a space.
struct Part {
  int space;
  int64_t channels;
};

// A tensor whose dimension `axis` is channels. `rank` 0: some matrix, channels last.
struct Value {
  std::vector<Part> parts;
  int rank = 0;               // of images; channels are dimension 1
  bool is_one_pixel = false;  // of every image

  int64_t channels() const {
    int64_t sum = 0;
    for (const Part& part : parts) sum += part.channels;
    return sum;
  }
};

class Finder {
 public:
  explicit Finder(const GraphProto& graph) : graph_(graph) {
    for (const TensorProto& tensor : graph.initializer()) constants_[tensor.name()] = &tensor;
    for (const NodeProto& node : graph.node()) {
      if (node.op_type() == "Constant" && attribute(node, "value") != nullptr)
        constants_[node.output(0)] = &attribute(node, "value")->t();
      if (is_one_of(node.op_type(), {"QuantizeLinear", "DequantizeLinear"}))
        coders_[node.output(0)] = &node;
    }
  }

  std::vector<ChannelSpace> find() {
    for (const NodeProto& node : graph_.node()) visit(node);
    for (const auto& output : graph_.output()) pin(output.name(), "an output of the network");
    pin_shared_constants();
    return collect();
  }

 private:
  // --- spaces: joined ones share a root.
  int add_space(int64_t channels) {
    spaces_.push_back({channels, {}, {}, ""});
    parents_.push_back(static_cast<int>(parents_.size()));
    return parents_.back();
  }
  int root(int space) {
    while (parents_[static_cast<size_t>(space)] != space)
      space = parents_[static_cast<size_t>(space)];
    return space;
  }
  ChannelSpace& space(int index) { return spaces_[static_cast<size_t>(root(index))]; }
  void pin_space(int index, const std::string& reason) {
    if (space(index).pinned.empty()) space(index).pinned = reason;
  }
  void join(int a, int b) {
    a = root(a), b = root(b);
    if (a == b) return;
    if (a > b) std::swap(a, b);
    ChannelSpace& to = spaces_[static_cast<size_t>(a)];
    ChannelSpace& from = spaces_[static_cast<size_t>(b)];
    to.edits.insert(to.edits.end(), from.edits.begin(), from.edits.end());
    to.readers.insert(to.readers.end(), from.readers.begin(), from.readers.end());
    if (to.pinned.empty()) to.pinned = from.pinned;
    parents_[static_cast<size_t>(b)] = a;
  }

  // --- values
  const Value* value(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
  }
  void pin(const std::string& name, const std::string& reason) {
    if (const Value* known = value(name))
      for (const Part& part : known->parts) pin_space(part.space, reason);
  }
  void pin_inputs(const NodeProto& node, const std::string& reason) {
    for (const std::string& input : node.input()) pin(input, reason);
  }
  void pass(const NodeProto& node, const Value& in) { values_[node.output(0)] = in; }
  void make(const NodeProto& node, int64_t channels, int rank) {
    values_[node.output(0)] = {{{add_space(channels), channels}}, rank, false};
  }

  // --- constants
  const TensorProto* constant(const std::string& name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : found->second;
  }
  // The dimension `axis` of a constant follows the value's channels; false: it has others.
  bool follow(const Value& in, const std::string& name, int axis) {
    const TensorProto* tensor = constant(name);
    if (tensor == nullptr || axis < 0 || axis >= tensor->dims_size() ||
        tensor->dims(axis) != in.channels())
      return false;
    int64_t offset = 0;
    for (const Part& part : in.parts) {
      space(part.space).edits.push_back({name, axis, offset});
      offset += part.channels;
    }
    ++explained_[name];
    return true;
  }
  void unexplained(const std::string& name) { --explained_[name]; }

  // Weights as they are stored, behind DequantizeLinear and perhaps QuantizeLinear.
  struct Weights {
    std::string name;
    const TensorProto* tensor = nullptr;
    std::vector<const NodeProto*> coders;
  };
  Weights weights(std::string name) const {
    Weights found;
    for (auto coder = coders_.find(name); coder != coders_.end(); coder = coders_.find(name)) {
      found.coders.push_back(coder->second);
      name = coder->second->input(0);
    }
    found.tensor = constant(name);
    found.name = std::move(name);
    return found;
  }
  bool connect_coders(const Weights& w, const Value* made, int out) {
    return std::all_of(w.coders.begin(), w.coders.end(),
                       [&](const NodeProto* coder) { return connect_scales(*coder, made, out); });
  }
  // Weights whose dimension `out` becomes the channels of `made`, `in` those of `read`.
  bool connect(const Weights& w, const Value* read, int in, const Value* made, int out) {
    if (w.tensor == nullptr) return false;
    if (!connect_coders(w, made, out)) return false;
    if (read != nullptr && !follow(*read, w.name, in)) return false;
    if (made != nullptr && !follow(*made, w.name, out)) return false;
    if (read != nullptr && made != nullptr) unexplained(w.name);  // one use, two axes
    if (read != nullptr) add_readers(*read, w.name, in);
    return true;
  }
  // One scale for all, or one per output channel.
  bool connect_scales(const NodeProto& node, const Value* made, int out) {
    for (int k = 1; k < node.input_size(); ++k) {
      const TensorProto* values = constant(node.input(k));
      if (values == nullptr) return false;
      if (count_of(*values) == 1) continue;
      if (made == nullptr || integer(node, "axis", 1) != out ||
          integer(node, "block_size", 0) != 0 || !follow(*made, node.input(k), 0))
        return false;
    }
    return true;
  }
  void add_readers(const Value& in, const std::string& name, int axis) {
    int64_t offset = 0;
    for (const Part& part : in.parts) {
      space(part.space).readers.push_back({name, axis, offset});
      offset += part.channels;
    }
  }

  // --- operators
  void visit(const NodeProto& node) {
    for (const auto& entry : node.attribute())
      if (entry.has_g()) pin_graph(entry.g());
    const std::string& op = node.op_type();
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    if (node.output_size() == 0 || op == "Constant") return;
    if (standard && coders_.count(node.output(0)) > 0 && weights(node.output(0)).tensor != nullptr)
      return;  // of weights
    const Value* first = node.input_size() > 0 ? value(node.input(0)) : nullptr;
    if (!standard)
      pin_inputs(node, "read by " + op);
    else if (op == "Conv")
      visit_conv(node, first);
    else if (op == "ConvTranspose")
      visit_deconv(node, first);
    else if (op == "Gemm" || op == "MatMul")
      visit_product(node, first);
    else if (op == "Gather")
      visit_gather(node);
    else if (op == "Concat")
      visit_concat(node);
    else if (is_binary(op))
      visit_binary(node);
    else if (first == nullptr)
      pin_inputs(node, "read by " + op);
    else
      visit_unary(node, *first);
  }

  void pin_graph(const GraphProto& inner) {
    for (const NodeProto& node : inner.node()) {
      pin_inputs(node, "read by the body of a loop or branch");
      for (const auto& entry : node.attribute())
        if (entry.has_g()) pin_graph(entry.g());
    }
    for (const auto& output : inner.output())
      pin(output.name(), "read by the body of a loop or branch");
  }

  void visit_conv(const NodeProto& node, const Value* in) {
    const Weights w = weights(node.input(1));
    const int64_t groups = integer(node, "group", 1);
    if (w.tensor == nullptr || w.tensor->dims_size() < 3 || (in != nullptr && in->rank == 0))
      return pin_inputs(node, "weights of a convolution are not constant");
    const int64_t maps = w.tensor->dims(0);
    const bool depthwise = groups > 1 && groups == maps && w.tensor->dims(1) == 1;
    if (depthwise && in != nullptr && in->channels() == maps && connect(w, nullptr, 1, in, 0))
      pass(node, *in);
    else
      make(node, maps, w.tensor->dims_size());
    const Value made = values_[node.output(0)];
    const bool kept = in != nullptr && depthwise && made.parts[0].space == in->parts[0].space;
    if (!kept) {
      const bool connected = groups == 1 && connect(w, in, 1, &made, 0);
      if (!connected) {
        pin(node.input(0), "read by a grouped convolution");
        pin(node.output(0), "made by a grouped convolution");
      }
    }
    if (node.input_size() > 2 && !node.input(2).empty()) follow_vector(node, made, 2);
  }

  // [in, out, …]
  void visit_deconv(const NodeProto& node, const Value* in) {
    const Weights w = weights(node.input(1));
    if (w.tensor == nullptr || w.tensor->dims_size() < 3 || integer(node, "group", 1) != 1 ||
        (in != nullptr && in->rank == 0))
      return pin_inputs(node, "read by a grouped deconvolution");
    make(node, w.tensor->dims(1), w.tensor->dims_size());
    const Value made = values_[node.output(0)];
    if (!connect(w, in, 0, &made, 1)) {
      pin(node.input(0), "read by a deconvolution");
      pin(node.output(0), "made by a deconvolution");
    }
    if (node.input_size() > 2 && !node.input(2).empty()) follow_vector(node, made, 2);
  }

  void visit_product(const NodeProto& node, const Value* in) {
    const Weights w = weights(node.input(1));
    const bool transposed = integer(node, "transB", 0) != 0;
    if (w.tensor == nullptr || w.tensor->dims_size() != 2 || integer(node, "transA", 0) != 0 ||
        (in != nullptr && in->rank != 0))
      return pin_inputs(node, "read by " + node.op_type());
    make(node, w.tensor->dims(transposed ? 0 : 1), 0);
    const Value made = values_[node.output(0)];
    if (!connect(w, in, transposed ? 1 : 0, &made, transposed ? 0 : 1)) {
      pin_inputs(node, "read by " + node.op_type());
      pin(node.output(0), "made by " + node.op_type());
    }
    if (node.input_size() > 2 && !node.input(2).empty()) follow_vector(node, made, 2);
  }

  // A table of embeddings: its columns are channels.
  void visit_gather(const NodeProto& node) {
    pin_inputs(node, "read by Gather");
    const TensorProto* table = constant(node.input(0));
    if (table == nullptr || table->dims_size() != 2 || integer(node, "axis", 0) != 0) return;
    make(node, table->dims(1), 0);
    const Value made = values_[node.output(0)];
    follow(made, node.input(0), 1);
  }

  // A vector per channel, or one value, or none that is known.
  void follow_vector(const NodeProto& node, const Value& in, int input) {
    const Weights w = weights(node.input(input));
    if (w.tensor != nullptr && count_of(*w.tensor) == 1) return explained_one(w.name);
    const int axis = w.tensor == nullptr ? -1 : w.tensor->dims_size() - 1;
    const bool follows = w.tensor != nullptr && count_of(*w.tensor) == in.channels() &&
                         connect_coders(w, &in, 0) && follow(in, w.name, axis);
    if (!follows)
      for (const Part& part : in.parts)
        pin_space(part.space, "a vector of " + node.op_type() + " is not constant");
  }
  void explained_one(const std::string& name) { ++explained_[name]; }

  // Images beside each other: channels of the first, then of the second …
  void visit_concat(const NodeProto& node) {
    Value joined;
    const int64_t axis = integer(node, "axis", 1);
    for (const std::string& input : node.input()) {
      const Value* part = value(input);
      const bool fits = part != nullptr && part->rank > 0 &&
                        (axis == 1 || axis == 1 - part->rank) &&
                        (joined.rank == 0 || joined.rank == part->rank);
      if (!fits) return pin_inputs(node, "joined with something else");
      joined.rank = part->rank;
      joined.parts.insert(joined.parts.end(), part->parts.begin(), part->parts.end());
    }
    pass(node, joined);
  }

  void visit_binary(const NodeProto& node) {
    const Value* in = nullptr;
    for (const std::string& input : node.input())
      if (const Value* candidate = value(input); candidate != nullptr) {
        if (in == nullptr || (in->is_one_pixel && !candidate->is_one_pixel)) in = candidate;
      }
    if (in == nullptr) return;
    const Value made = *in;
    bool follows = true;
    for (const std::string& input : node.input()) {
      const Value* other = value(input);
      follows = follows && (other != nullptr ? tie(made, *other) : operand(made, input));
    }
    if (!follows)
      return pin_inputs(node, "an operand of " + node.op_type() + " has other channels");
    pass(node, made);
  }
  // Two values element by element: their channels keep company.
  bool tie(const Value& a, const Value& b) {
    if (a.rank != b.rank || a.parts.size() != b.parts.size()) return false;
    for (size_t k = 0; k < a.parts.size(); ++k)
      if (a.parts[k].channels != b.parts[k].channels) return false;
    for (size_t k = 0; k < a.parts.size(); ++k) join(a.parts[k].space, b.parts[k].space);
    return true;
  }
  // A constant that is broadcast.
  bool operand(const Value& in, const std::string& name) {
    const TensorProto* tensor = constant(name);
    if (tensor == nullptr) return false;
    const int axis = in.rank == 0 ? tensor->dims_size() - 1 : tensor->dims_size() - in.rank + 1;
    if (count_of(*tensor) == 1 || axis < 0 || tensor->dims(axis) == 1) {
      explained_one(name);
      return tensor->dims_size() <= (in.rank == 0 ? 8 : in.rank);
    }
    return follow(in, name, axis);
  }

  void visit_unary(const NodeProto& node, const Value& given) {
    const std::string& op = node.op_type();
    Value in = given;
    if (is_unary(op) || (is_pooling(op) && in.rank > 0)) return pass_one(node, in);
    if (op == "QuantizeLinear" || op == "DequantizeLinear") return visit_codes(node, in);
    if (is_global_pooling(op) && in.rank > 0) {
      in.is_one_pixel = true;
      return pass_one(node, in);
    }
    if (op == "BatchNormalization" || (op == "InstanceNormalization" && in.rank > 0))
      return visit_norm(node, in);
    if (op == "LayerNormalization" && in.rank == 0 && integer(node, "axis", -1) == -1)
      return visit_norm(node, in);
    if (op == "PRelu" && operand(in, node.input(1))) return pass(node, in);
    const bool flattens = op == "Flatten" && integer(node, "axis", 1) == 1;
    if (flattens && in.is_one_pixel) {
      in.rank = 0;
      in.is_one_pixel = false;
      return pass(node, in);
    }
    if (op == "ReduceMean" && averages_images(node, in)) {
      in.is_one_pixel = integer(node, "keepdims", 1) != 0;
      if (!in.is_one_pixel) in.rank = 0;
      return pass_one(node, in);
    }
    pin_inputs(node, "read by " + op);
  }
  // Bounds and the like have no channels; other outputs (indices of a pooling) have.
  void pass_one(const NodeProto& node, const Value& in) {
    if (node.output_size() > 1 && !node.output(1).empty() && node.op_type() != "Dropout")
      return pin_inputs(node, "read by " + node.op_type() + " with two outputs");
    pass(node, in);
  }
  void visit_codes(const NodeProto& node, const Value& in) {
    for (int k = 1; k < node.input_size(); ++k) {
      const TensorProto* values = constant(node.input(k));
      if (values == nullptr || count_of(*values) != 1)
        return pin_inputs(node, "scales of activations per channel");
      explained_one(node.input(k));
    }
    pass(node, in);
  }
  void visit_norm(const NodeProto& node, const Value& in) {
    for (int k = 1; k < node.input_size(); ++k)
      if (!node.input(k).empty() && !follow(in, node.input(k), 0))
        return pin_inputs(node, "vectors of " + node.op_type() + " are not constant");
    pass_one(node, in);
  }
  // Over everything but images and channels.
  bool averages_images(const NodeProto& node, const Value& in) const {
    if (in.rank < 3) return false;
    std::set<int64_t> axes;
    if (const auto* given = attribute(node, "axes"); given != nullptr) {
      axes.insert(given->ints().begin(), given->ints().end());
    } else if (node.input_size() > 1) {
      const TensorProto* tensor = constant(node.input(1));
      if (tensor == nullptr || tensor->data_type() != TensorProto::INT64) return false;
      const std::string& raw = tensor->raw_data();
      axes.insert(tensor->int64_data().begin(), tensor->int64_data().end());
      for (size_t k = 0; k + 8 <= raw.size(); k += 8) {
        int64_t axis;
        std::copy_n(raw.data() + k, 8, reinterpret_cast<char*>(&axis));
        axes.insert(axis);
      }
    }
    std::set<int64_t> wanted;
    for (const int64_t axis : axes) wanted.insert(axis < 0 ? axis + in.rank : axis);
    return wanted.size() == static_cast<size_t>(in.rank - 2) && *wanted.begin() == 2;
  }

  // What is read elsewhere, too, cannot follow one space: every use must be understood, and several
  // must agree, as those of a scale that quantizes weights and dequantizes them.
  void pin_shared_constants() {
    std::map<std::string, int> uses;
    count_uses(graph_, uses);
    std::map<std::pair<std::string, int>, std::set<std::pair<int, int64_t>>> followed;
    std::map<std::string, std::set<int>> axes;
    for_each_root([&](int index, const ChannelSpace& s) {
      for (const ChannelEdit& edit : s.edits) {
        followed[{edit.constant, edit.axis}].insert({index, edit.offset});
        axes[edit.constant].insert(edit.axis);
      }
    });
    for_each_root([&](int, ChannelSpace& s) {
      for (const ChannelEdit& edit : s.edits) {
        const int count = uses[edit.constant];
        const bool agree = count == 1 || (axes[edit.constant].size() == 1 &&
                                          followed[{edit.constant, edit.axis}].size() == 1);
        if (s.pinned.empty() && (count != explained_[edit.constant] || !agree))
          s.pinned = edit.constant + " is shared";
      }
    });
  }
  template <class Visit>
  void for_each_root(const Visit& visit) {
    for (size_t k = 0; k < spaces_.size(); ++k)
      if (root(static_cast<int>(k)) == static_cast<int>(k)) visit(static_cast<int>(k), spaces_[k]);
  }
  static void count_uses(const GraphProto& graph, std::map<std::string, int>& uses) {
    for (const NodeProto& node : graph.node()) {
      for (const std::string& input : node.input()) ++uses[input];
      for (const auto& entry : node.attribute())
        if (entry.has_g()) count_uses(entry.g(), uses);
    }
    for (const auto& output : graph.output()) ++uses[output.name()];
  }

  std::vector<ChannelSpace> collect() {
    std::vector<ChannelSpace> found;
    for_each_root([&found](int, ChannelSpace& s) {
      if (s.readers.empty()) return;
      const auto key = [](const ChannelEdit& e) { return std::tie(e.constant, e.axis, e.offset); };
      std::sort(s.edits.begin(), s.edits.end(),
                [&key](const ChannelEdit& a, const ChannelEdit& b) { return key(a) < key(b); });
      const auto same = [&key](const ChannelEdit& a, const ChannelEdit& b) {
        return key(a) == key(b);
      };
      s.edits.erase(std::unique(s.edits.begin(), s.edits.end(), same), s.edits.end());
      found.push_back(s);
    });
    return found;
  }

  const GraphProto& graph_;
  std::unordered_map<std::string, const TensorProto*> constants_;
  std::unordered_map<std::string, const NodeProto*> coders_;
  std::unordered_map<std::string, Value> values_;
  std::vector<ChannelSpace> spaces_;
  std::vector<int> parents_;
  std::map<std::string, int> explained_;  // uses of a constant that are understood
};

}  // namespace

std::vector<ChannelSpace> find_channel_spaces(const GraphProto& graph) {
  return Finder(graph).find();
}

TensorProto* find_constant(GraphProto& graph, const std::string& name) {
  for (TensorProto& tensor : *graph.mutable_initializer())
    if (tensor.name() == name) return &tensor;
  for (NodeProto& node : *graph.mutable_node()) {
    if (node.op_type() != "Constant" || node.output(0) != name) continue;
    for (auto& entry : *node.mutable_attribute())
      if (entry.name() == "value") return entry.mutable_t();
  }
  return nullptr;
}

}  // namespace camshaft::quantize
