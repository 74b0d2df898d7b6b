// SPDX-License-Identifier: Apache-2.0
#include "fuzz/graphs/graph_case.h"

#include <charconv>
#include <cstring>
#include <sstream>
#include <unordered_map>

#include "ir/text.h"

namespace camshaft::fuzz {
namespace {

using ir::DataType;
using ir::Tensor;

std::unique_ptr<ir::Graph> clone_into(const ir::Graph& graph,
                                      const std::shared_ptr<ir::SymbolTable>& symbols) {
  auto copy = std::make_unique<ir::Graph>(graph.name(), symbols);
  std::unordered_map<const Tensor*, Tensor*> copies;
  for (const auto& tensor : graph.tensors()) {
    Tensor* made = copy->add_tensor(tensor->name, tensor->type, tensor->shape);
    made->has_rank = tensor->has_rank;
    made->facts = tensor->facts;
    made->constant = tensor->constant;
    copies[tensor.get()] = made;
  }
  const auto copies_of = [&](const std::vector<Tensor*>& tensors) {
    std::vector<Tensor*> list;
    for (const Tensor* tensor : tensors) list.push_back(tensor ? copies.at(tensor) : nullptr);
    return list;
  };
  for (Tensor* input : copies_of(graph.inputs())) copy->add_input(input);
  for (const auto& layer : graph.layers()) {
    ir::Layer* made = copy->add_layer(layer->kind, layer->name, layer->attrs,
                                      copies_of(layer->inputs), copies_of(layer->outputs));
    made->onnx_nodes = layer->onnx_nodes;
    for (const auto& body : layer->bodies) made->bodies.push_back(clone_into(*body, symbols));
  }
  for (Tensor* output : copies_of(graph.outputs())) copy->add_output(output);
  return copy;
}

ir::Extents extents_at(const ir::Graph& graph, const Tensor& input,
                       const std::vector<SymbolRange>& symbols, const Point& point) {
  ir::Extents extents;
  for (const ir::Dim dim : input.shape) {
    int64_t extent = dim.is_known() ? dim.extent() : 1;
    for (size_t k = 0; !dim.is_known() && k < symbols.size(); ++k)
      if (graph.symbols().symbol(dim.symbol_id()).name == symbols[k].name) extent = point[k];
    extents.push_back(extent);
  }
  return extents;
}

uint64_t seed_of(const std::string& name, size_t run) {
  uint64_t seed = 0xcbf29ce484222325u + run;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

template <class T>
void put(std::vector<std::byte>& bytes, size_t k, T value) {
  std::memcpy(bytes.data() + k * sizeof(T), &value, sizeof(T));
}

kernels::Value random_value(const Tensor& input, const ir::Extents& extents, size_t run) {
  uint64_t state = seed_of(input.name, run);
  const auto count = static_cast<size_t>(ir::element_count(extents));
  std::vector<std::byte> bytes(ir::bytes_for(input.type, static_cast<int64_t>(count)));
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(ir::next_random(state) >> 11) % n;
  };
  const bool whole = input.name[0] == 'k', index = input.name[0] == 'p';
  for (size_t k = 0; k < count; ++k) {
    const float real = whole ? static_cast<float>(below(9) - 4)
                             : static_cast<float>(below(1 << 23)) / (1 << 21) - 2;
    const int64_t number = index ? below(4) : below(9) - 4;
    switch (input.type) {
      case DataType::kFloat:
        put<float>(bytes, k, real);
        break;
      case DataType::kDouble:
        put<double>(bytes, k, real);
        break;
      case DataType::kInt32:
        put<int32_t>(bytes, k, static_cast<int32_t>(number));
        break;
      case DataType::kInt64:
        put<int64_t>(bytes, k, number);
        break;
      case DataType::kBool:
        bytes[k] = std::byte(below(2));
        break;
      default:
        for (size_t b = k * bytes.size() / count; b < (k + 1) * bytes.size() / count; ++b)
          bytes[b] = std::byte(below(256));
    }
  }
  return kernels::make_value(input.type, extents, std::move(bytes)).value();
}

Result<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return make_error(ErrorCode::kInvalidArgument, "\"{}\" is no number", text);
  return value;
}

// "n=1..2..4"
Result<SymbolRange> parse_range(const std::string& text) {
  SymbolRange range;
  const size_t equals = text.find('='), first = text.find(".."),
               second = text.find("..", first + 2);
  if (second == std::string::npos || equals > first)
    return make_error(ErrorCode::kInvalidArgument, "\"{}\" is not NAME=MIN..OPT..MAX", text);
  range.name = text.substr(0, equals);
  CAMSHAFT_ASSIGN(range.min, parse_number(text.substr(equals + 1, first - equals - 1)));
  CAMSHAFT_ASSIGN(range.opt, parse_number(text.substr(first + 2, second - first - 2)));
  CAMSHAFT_ASSIGN(range.max, parse_number(text.substr(second + 2)));
  return range;
}

// "n=1 h=3"
Result<Point> parse_point(std::istringstream& words, const std::vector<SymbolRange>& symbols) {
  Point point;
  for (const SymbolRange& range : symbols) point.push_back(range.opt);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    bool found = false;
    for (size_t k = 0; equals != std::string::npos && k < symbols.size(); ++k) {
      if (word.substr(0, equals) != symbols[k].name) continue;
      CAMSHAFT_ASSIGN(point[k], parse_number(word.substr(equals + 1)));
      found = true;
    }
    if (!found) return make_error(ErrorCode::kInvalidArgument, "run at \"{}\"", word);
  }
  return point;
}

}  // namespace

std::unique_ptr<ir::Graph> clone(const ir::Graph& graph) {
  return clone_into(graph, std::make_shared<ir::SymbolTable>(graph.symbols()));
}

Case clone(const Case& original) {
  return {clone(*original.graph), original.symbols, original.runs};
}

std::vector<engine::Profile> profiles_of(const Case& test) {
  engine::Profile profile;
  Point min, opt, max;
  for (const SymbolRange& range : test.symbols) {
    min.push_back(range.min);
    opt.push_back(range.opt);
    max.push_back(range.max);
  }
  for (const Tensor* input : test.graph->inputs())
    profile.push_back({input->name, extents_at(*test.graph, *input, test.symbols, min),
                       extents_at(*test.graph, *input, test.symbols, opt),
                       extents_at(*test.graph, *input, test.symbols, max)});
  return {profile};
}

std::vector<kernels::Value> inputs_of(const Case& test, size_t run) {
  std::vector<kernels::Value> values;
  for (const Tensor* input : test.graph->inputs())
    values.push_back(
        random_value(*input, extents_at(*test.graph, *input, test.symbols, test.runs[run]), run));
  return values;
}

std::vector<kernels::Value> stray_inputs_of(const Case& test, size_t number) {
  std::vector<kernels::Value> values;
  for (const Tensor* input : test.graph->inputs()) {
    uint64_t state = seed_of(input->name, number + 1000);
    Point point;
    for (const SymbolRange& range : test.symbols)
      point.push_back(range.min + static_cast<int64_t>(ir::next_random(state) >> 11) %
                                      (range.max - range.min + 1));
    values.push_back(
        random_value(*input, extents_at(*test.graph, *input, test.symbols, point), number));
  }
  return values;
}

std::string to_text(const Case& test) {
  std::string text;
  if (!test.symbols.empty()) text += "# symbols";
  for (const SymbolRange& range : test.symbols)
    text += fmt::format(" {}={}..{}..{}", range.name, range.min, range.opt, range.max);
  if (!test.symbols.empty()) text += '\n';
  for (const Point& point : test.runs) {
    text += "# run";
    for (size_t k = 0; k < point.size(); ++k)
      text += fmt::format(" {}={}", test.symbols[k].name, point[k]);
    text += '\n';
  }
  return text + ir::to_text(*test.graph);
}

Result<Case> parse_case(const std::string& text) {
  Case test;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, what;
    words >> hash >> what;
    if (hash != "#") continue;
    if (what == "run") {
      CAMSHAFT_ASSIGN(Point point, parse_point(words, test.symbols));
      test.runs.push_back(std::move(point));
    }
    for (std::string word; what == "symbols" && words >> word;) {
      CAMSHAFT_ASSIGN(SymbolRange range, parse_range(word));
      test.symbols.push_back(std::move(range));
    }
  }
  CAMSHAFT_ASSIGN(test.graph, ir::parse_graph(text));
  if (test.runs.empty()) test.runs.emplace_back(test.symbols.size(), 1);
  return test;
}

}  // namespace camshaft::fuzz
