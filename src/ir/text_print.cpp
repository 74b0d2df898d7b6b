// SPDX-License-Identifier: Apache-2.0
// to_text(): one line per input, constant and layer (docs/ir-text.md).
#include <cstring>

#include "ir/graph.h"
#include "ir/text.h"

namespace camshaft::ir {
namespace {

constexpr int64_t kInlineElements = 32;  // longer constants are written as hexadecimal bytes

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result + '"';
}

std::string name_text(std::string_view name) {
  bool bare = !name.empty() && name != "_" && !is_digit(name[0]);
  for (char c : name) bare = bare && is_name_char(c);
  return bare ? std::string(name) : in_quotes(name);
}

class Printer {
 public:
  Printer(const Graph& graph, bool elide_constants) : graph_(graph), elide_(elide_constants) {}

  std::string print(const std::string& indent) {
    std::string text = "graph " + in_quotes(graph_.name()) + " {\n";
    const std::string inner = indent + "  ";
    if (indent.empty()) text += input_symbols(inner);
    for (const Tensor* input : graph_.inputs())
      text += inner + "input " + declaration(input) + "\n";
    for (const auto& tensor : graph_.tensors())
      if (tensor->is_constant() && is_used(tensor.get()))
        text +=
            inner + "constant " + declaration(tensor.get()) + " = " + constant_text(*tensor) + "\n";
    for (const auto& layer : graph_.layers()) text += inner + layer_text(*layer, inner) + "\n";
    if (!graph_.outputs().empty()) text += inner + "output";
    for (size_t k = 0; k < graph_.outputs().size(); ++k)
      text += (k ? ", " : " ") + name_text(graph_.outputs()[k]->name);
    return text + (graph_.outputs().empty() ? "" : "\n") + indent + "}";
  }

 private:
  bool is_used(const Tensor* tensor) const {
    return !tensor->consumers.empty() || graph_.is_output(tensor);
  }

  // Declared first, in table order, so that reading back numbers them alike.
  std::string input_symbols(const std::string& indent) const {
    std::string text;
    for (int k = 0; k < graph_.symbols().size(); ++k)
      if (graph_.symbols().symbol(k).op == SymbolOp::kInput)
        text += (text.empty() ? indent + "symbols " : ", ") +
                name_text(graph_.symbols().symbol(k).name);
    return text.empty() ? text : text + "\n";
  }

  std::string dim_text(Dim dim) const {
    if (dim.is_known()) return std::to_string(dim.extent());
    const Symbol& symbol = graph_.symbols().symbol(dim.symbol_id());
    const auto call = [&](const char* function) {
      return fmt::format("{}({}, {})", function, dim_text(symbol.a), dim_text(symbol.b));
    };
    const auto infix = [&](const char* sign) {
      return "(" + dim_text(symbol.a) + sign + dim_text(symbol.b) + ")";
    };
    switch (symbol.op) {
      case SymbolOp::kInput:
        return name_text(symbol.name);
      case SymbolOp::kRuntime:
        return fmt::format("?{}{}", dim.symbol_id(), name_text(symbol.name));
      case SymbolOp::kConstant:
        return std::to_string(symbol.constant);
      case SymbolOp::kAdd:
        return infix(" + ");
      case SymbolOp::kSub:
        return infix(" - ");
      case SymbolOp::kMul:
        return infix("*");
      case SymbolOp::kFloorDiv:
        return call("floor_div");
      case SymbolOp::kCeilDiv:
        return call("ceil_div");
      case SymbolOp::kMod:
        return call("mod");
      case SymbolOp::kMin:
        return call("min");
      case SymbolOp::kMax:
        return call("max");
      case SymbolOp::kBroadcast:
        return call("broadcast");
    }
    return "?";
  }

  template <class List, class Text>
  static std::string list_text(const List& list, Text&& text) {
    std::string result = "[";
    for (size_t k = 0; k < list.size(); ++k) result += (k ? ", " : "") + text(list[k]);
    return result + "]";
  }

  // Overloads for every field type of the attributes.
  std::string field_text(bool value) const { return value ? "true" : "false"; }
  std::string field_text(int64_t value) const { return std::to_string(value); }
  std::string field_text(float value) const { return fmt::format("{}", value); }
  std::string field_text(double value) const { return fmt::format("{}", value); }
  std::string field_text(const std::string& value) const { return in_quotes(value); }
  std::string field_text(Dim value) const { return dim_text(value); }
  std::string field_text(const Program& value) const {
    return fmt::format("<{}: {}>", value.num_inputs, to_string(value));
  }
  std::string field_text(const GenericAttribute& value) const {
    return fmt::format("({}, {}, {}, {})", in_quotes(value.name), field_text(value.ints),
                       field_text(value.floats), in_quotes(value.text));
  }
  template <class T>
  std::string field_text(const std::vector<T>& list) const {
    return list_text(list, [&](const T& value) { return field_text(value); });
  }
  std::string field_text(const Shape& shape) const {
    return list_text(shape, [&](Dim dim) { return dim_text(dim); });
  }
  template <class E>
  requires std::is_enum_v<E> std::string field_text(E value)
  const { return std::string(enum_name(value)); }

  // " {a=1, b=[2]}": the fields that differ from the defaults of the kind.
  std::string attrs_text(const Layer& layer) const {
    const Attrs defaults = default_attrs(layer.kind);
    std::string text;
    std::visit(
        [&](const auto& attrs) {
          using A = std::decay_t<decltype(attrs)>;
          std::vector<std::string> plain;
          A::fields(std::get<A>(defaults),
                    [&](const char*, const auto& field) { plain.push_back(field_text(field)); });
          size_t next = 0;
          A::fields(attrs, [&](const char* name, const auto& field) {
            const std::string value = field_text(field);
            if (value != plain[next++])
              text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
          });
        },
        layer.attrs);
    return text.empty() ? text : " {" + text + "}";
  }

  std::string facts_text(const Facts& facts) const {
    std::string text;
    if (facts.shape_value)
      text += " value " + list_text(*facts.shape_value, [&](Dim dim) { return dim_text(dim); });
    const Facts none;
    if (facts.minimum != none.minimum || facts.maximum != none.maximum)
      text += fmt::format(" range [{}, {}]", facts.minimum, facts.maximum);
    if (!facts.scale.empty()) text += " scale " + field_text(facts.scale);
    if (!facts.zero_point.empty())
      text += " zero_point " +
              list_text(facts.zero_point, [](int32_t value) { return std::to_string(value); });
    if (facts.quantized_axis >= 0) text += fmt::format(" quantized_axis {}", facts.quantized_axis);
    return text;
  }

  // "x: float[1, 3] range [0, inf]"
  std::string declaration(const Tensor* tensor) const {
    if (!tensor) return "_";
    return fmt::format("{}: {}{}{}", name_text(tensor->name), type_name(tensor->type),
                       tensor->has_rank ? field_text(tensor->shape) : "[*]",
                       facts_text(tensor->facts));
  }

  template <class T>
  static std::string numbers(const Tensor& tensor) {
    return list_text(tensor.values<T>(), [](T value) {
      if constexpr (sizeof(T) == 1)
        return std::to_string(static_cast<int>(value));
      else
        return fmt::format("{}", value);
    });
  }

  std::string constant_text(const Tensor& tensor) const {
    const std::span<const std::byte> bytes = tensor.constant->view;
    if (bits_of(tensor.type) >= 8 && bytes.size() * 8 <= kInlineElements * bits_of(tensor.type))
      switch (tensor.type) {
        case DataType::kFloat:
          return numbers<float>(tensor);
        case DataType::kDouble:
          return numbers<double>(tensor);
        case DataType::kInt8:
          return numbers<int8_t>(tensor);
        case DataType::kBool:
        case DataType::kUInt8:
          return numbers<uint8_t>(tensor);
        case DataType::kInt16:
          return numbers<int16_t>(tensor);
        case DataType::kUInt16:
          return numbers<uint16_t>(tensor);
        case DataType::kInt32:
          return numbers<int32_t>(tensor);
        case DataType::kUInt32:
          return numbers<uint32_t>(tensor);
        case DataType::kInt64:
          return numbers<int64_t>(tensor);
        case DataType::kUInt64:
          return numbers<uint64_t>(tensor);
        default:
          break;
      }
    if (elide_) return fmt::format("elided({} bytes)", bytes.size());
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text = "hex \"";
    text.reserve(bytes.size() * 2 + 8);
    for (std::byte byte : bytes) {
      text += kDigits[static_cast<int>(byte) >> 4];
      text += kDigits[static_cast<int>(byte) & 15];
    }
    return text + '"';
  }

  std::string layer_text(const Layer& layer, const std::string& indent) const {
    std::string text;
    for (size_t k = 0; k < layer.outputs.size(); ++k)
      text += (k ? ", " : "") + declaration(layer.outputs[k]);
    text += " = " + std::string(kind_name(layer.kind));
    if (layer.outputs.empty() || !layer.outputs[0] || layer.outputs[0]->name != layer.name)
      text += " " + in_quotes(layer.name);
    text += "(";
    for (size_t k = 0; k < layer.inputs.size(); ++k)
      text += (k ? ", " : "") + (layer.inputs[k] ? name_text(layer.inputs[k]->name) : "_");
    text += ")" + attrs_text(layer);
    for (size_t k = 0; k < layer.onnx_nodes.size(); ++k)
      text += (k ? ", " : " from ") + in_quotes(layer.onnx_nodes[k]);
    for (const auto& body : layer.bodies) text += " " + Printer(*body, elide_).print(indent);
    return text;
  }

  const Graph& graph_;
  bool elide_;
};

}  // namespace

std::string to_text(const Graph& graph, bool elide_constants) {
  return Printer(graph, elide_constants).print("") + "\n";
}

}  // namespace camshaft::ir
