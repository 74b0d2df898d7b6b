// SPDX-License-Identifier: Apache-2.0
// parse_graph(): recursive descent over the text form (docs/ir-text.md). Errors name the line.
// One file: a function per rule of one grammar.
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "ir/graph.h"
#include "ir/text.h"

namespace camshaft::ir {
namespace {

// The text as tokens: names, quoted strings, numbers, single characters. Whitespace and "# …"
// separate.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : rest_(text) {}

  bool at_end() { return skip_blank(), rest_.empty(); }
  char peek() { return at_end() ? '\0' : rest_[0]; }
  bool accept(char c) {
    if (peek() != c) return false;
    advance(1);
    return true;
  }
  // The next bare word without taking it; "" if there is none.
  std::string_view peek_word() {
    skip_blank();
    size_t length = 0;
    while (length < rest_.size() && is_name_char(rest_[length])) ++length;
    return rest_.substr(0, length);
  }
  bool accept_word(std::string_view word) {
    if (peek_word() != word) return false;
    advance(word.size());
    return true;
  }
  char after_word() {
    const size_t length = peek_word().size();
    const size_t at = rest_.find_first_not_of(" \t", length);
    return at == std::string_view::npos ? '\0' : rest_[at];
  }

  Status expect(char c) { return accept(c) ? ok_status() : error(fmt::format("expected '{}'", c)); }
  Status error(std::string_view what) {
    const std::string_view near = rest_.substr(0, std::min<size_t>(rest_.find('\n'), 30));
    return make_error(ErrorCode::kInvalidArgument, "line {}: {}, at '{}'", line_, what, near);
  }
  Result<std::string> name() {
    if (peek() == '"') return quoted();
    const std::string word(peek_word());
    if (word.empty()) return error("expected a name");
    advance(word.size());
    return word;
  }
  Result<std::string> quoted() {
    CAMSHAFT_TRY(expect('"'));
    std::string text;
    while (!rest_.empty() && rest_[0] != '"') {
      const bool escaped = rest_[0] == '\\' && rest_.size() > 1;
      if (escaped) advance(1);
      text += escaped && rest_[0] == 'n' ? '\n' : rest_[0];
      advance(1);
    }
    if (rest_.empty()) return error("a quoted name is not closed");
    advance(1);
    return text;
  }
  // Up to the character `end`, which is taken too.
  Result<std::string> until(char end) {
    const size_t at = rest_.find(end);
    if (at == std::string_view::npos) return error(fmt::format("expected '{}'", end));
    std::string text(rest_.substr(0, at));
    advance(at + 1);
    return text;
  }
  Result<int64_t> integer() {
    skip_blank();
    int64_t value = 0;
    const auto [end, failed] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (failed != std::errc()) return error("expected an integer");
    advance(end - rest_.data());
    return value;
  }
  Result<double> number() {
    skip_blank();
    size_t length = 0;
    while (length < rest_.size() &&
           (is_name_char(rest_[length]) || std::strchr("+-", rest_[length])))
      ++length;
    const std::string word(rest_.substr(0, length));
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end) return error("expected a number");
    advance(length);
    return value;
  }

 private:
  void skip_blank() {
    for (;;) {
      if (!rest_.empty() && std::strchr(" \t\r\n", rest_[0]))
        advance(1);
      else if (!rest_.empty() && rest_[0] == '#')
        advance(std::min(rest_.find('\n'), rest_.size()));
      else
        return;
    }
  }
  void advance(size_t count) {
    for (size_t k = 0; k < count; ++k) line_ += rest_[k] == '\n';
    rest_.remove_prefix(count);
  }

  std::string_view rest_;
  int line_ = 1;
};

using RuntimeSymbols =
    std::unordered_map<std::string, Dim>;  // "?7name" → symbol, for the whole text

class Parser {
 public:
  Parser(Lexer& lexer, RuntimeSymbols& runtime_symbols)
      : lexer_(lexer), runtime_symbols_(runtime_symbols) {}

  Result<std::unique_ptr<Graph>> parse(const std::shared_ptr<SymbolTable>& symbols) {
    if (!lexer_.accept_word("graph")) return lexer_.error("expected 'graph'");
    CAMSHAFT_ASSIGN(std::string name, lexer_.quoted());
    graph_ = symbols ? std::make_unique<Graph>(name, symbols) : std::make_unique<Graph>(name);
    CAMSHAFT_TRY(lexer_.expect('{'));
    while (!lexer_.accept('}')) CAMSHAFT_TRY(statement());
    return std::move(graph_);
  }

 private:
  // A layer's output may be called "input" or "output": then ':' follows.
  Status statement() {
    if (lexer_.after_word() != ':') {
      if (lexer_.accept_word("symbols")) return symbols_statement();
      if (lexer_.accept_word("input")) return input_statement();
      if (lexer_.accept_word("constant")) return constant_statement();
      if (lexer_.accept_word("output")) return output_statement();
    }
    return layer_statement();
  }

  Status symbols_statement() {
    do {
      CAMSHAFT_ASSIGN(std::string name, lexer_.name());
      graph_->symbols().input(name);
    } while (lexer_.accept(','));
    return ok_status();
  }

  Status input_statement() {
    CAMSHAFT_ASSIGN(Tensor * tensor, declaration());
    graph_->add_input(tensor);
    return ok_status();
  }

  Status output_statement() {
    do {
      CAMSHAFT_ASSIGN(Tensor * tensor, reference());
      if (!tensor) return lexer_.error("a network output must be a tensor");
      graph_->add_output(tensor);
    } while (lexer_.accept(','));
    return ok_status();
  }

  Result<Tensor*> reference() {
    if (lexer_.accept_word("_")) return static_cast<Tensor*>(nullptr);
    CAMSHAFT_ASSIGN(std::string name, lexer_.name());
    auto found = tensors_.find(name);
    if (found == tensors_.end())
      return lexer_.error(fmt::format("tensor '{}' is not defined", name));
    return found->second;
  }

  Result<Tensor*> declaration() {
    CAMSHAFT_ASSIGN(std::string name, lexer_.name());
    if (tensors_.count(name))
      return lexer_.error(fmt::format("tensor '{}' is defined twice", name));
    CAMSHAFT_TRY(lexer_.expect(':'));
    const std::string type_word(lexer_.peek_word());
    Result<DataType> type = parse_type(type_word);
    if (!type.ok()) return lexer_.error(type.status().message());
    lexer_.accept_word(type_word);
    Tensor* tensor = graph_->add_tensor(name, *type, {});
    tensors_[name] = tensor;
    CAMSHAFT_TRY(lexer_.expect('['));
    tensor->has_rank = !lexer_.accept('*');
    if (tensor->has_rank)
      CAMSHAFT_TRY(list_rest([&] { return push_dim(tensor->shape); }));
    else
      CAMSHAFT_TRY(lexer_.expect(']'));
    CAMSHAFT_TRY(facts(tensor->facts));
    return tensor;
  }

  Status facts(Facts& facts) {
    if (lexer_.accept_word("value")) {
      facts.shape_value.emplace();
      CAMSHAFT_TRY(field(*facts.shape_value));
    }
    if (lexer_.accept_word("range")) {
      std::vector<float> range;
      CAMSHAFT_TRY(field(range));
      if (range.size() != 2) return lexer_.error("a range has two ends");
      facts.minimum = range[0];
      facts.maximum = range[1];
    }
    if (lexer_.accept_word("scale")) CAMSHAFT_TRY(field(facts.scale));
    if (lexer_.accept_word("zero_point")) {
      Ints values;
      CAMSHAFT_TRY(field(values));
      facts.zero_point.assign(values.begin(), values.end());
    }
    if (lexer_.accept_word("quantized_axis")) CAMSHAFT_TRY(field(facts.quantized_axis));
    return ok_status();
  }

  // --- constants
  Status constant_statement() {
    CAMSHAFT_ASSIGN(Tensor * tensor, declaration());
    CAMSHAFT_TRY(lexer_.expect('='));
    int64_t count = 1;
    for (Dim dim : tensor->shape) {
      if (!dim.is_known()) return lexer_.error("the extents of a constant are numbers");
      count *= dim.extent();
    }
    std::vector<std::byte> bytes(bytes_for(tensor->type, count));
    if (lexer_.accept_word("hex"))
      CAMSHAFT_TRY(hex_bytes(bytes));
    else if (lexer_.accept_word("random"))
      CAMSHAFT_TRY(random_elements(tensor->type, count, bytes));
    else if (lexer_.accept_word("fill"))
      CAMSHAFT_TRY(fill_elements(tensor->type, count, bytes));
    else
      CAMSHAFT_TRY(listed_elements(tensor->type, count, bytes));
    tensor->constant = make_constant(std::move(bytes));
    return ok_status();
  }

  Status hex_bytes(std::vector<std::byte>& bytes) {
    CAMSHAFT_ASSIGN(std::string text, lexer_.quoted());
    if (text.size() != 2 * bytes.size())
      return lexer_.error(fmt::format("expected {} bytes", bytes.size()));
    for (size_t k = 0; k < bytes.size(); ++k) {
      int value = 0;
      const char* at = text.data() + 2 * k;
      if (std::from_chars(at, at + 2, value, 16).ptr != at + 2)
        return lexer_.error("bad hexadecimal digits");
      bytes[k] = static_cast<std::byte>(value);
    }
    return ok_status();
  }

  template <class T>
  static void store(std::vector<std::byte>& bytes, int64_t index, T value) {
    std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
  }
  Status store_number(DataType type, std::vector<std::byte>& bytes, int64_t index, double value,
                      int64_t whole) {
    switch (type) {
      case DataType::kFloat:
        return store(bytes, index, static_cast<float>(value)), ok_status();
      case DataType::kDouble:
        return store(bytes, index, value), ok_status();
      case DataType::kInt8:
      case DataType::kUInt8:
      case DataType::kBool:
        return store(bytes, index, static_cast<int8_t>(whole)), ok_status();
      case DataType::kInt16:
      case DataType::kUInt16:
        return store(bytes, index, static_cast<int16_t>(whole)), ok_status();
      case DataType::kInt32:
      case DataType::kUInt32:
        return store(bytes, index, static_cast<int32_t>(whole)), ok_status();
      case DataType::kInt64:
      case DataType::kUInt64:
        return store(bytes, index, whole), ok_status();
      default:
        return lexer_.error("constants of this type are written as hex");
    }
  }

  Status number_into(DataType type, std::vector<std::byte>& bytes, int64_t index) {
    if (is_floating(type)) {
      CAMSHAFT_ASSIGN(double value, lexer_.number());
      return store_number(type, bytes, index, value, 0);
    }
    CAMSHAFT_ASSIGN(int64_t value, lexer_.integer());
    return store_number(type, bytes, index, 0, value);
  }

  Status listed_elements(DataType type, int64_t count, std::vector<std::byte>& bytes) {
    CAMSHAFT_TRY(lexer_.expect('['));
    int64_t next = 0;
    CAMSHAFT_TRY(list_rest([&] {
      if (next == count) return lexer_.error("more elements than the shape has");
      return number_into(type, bytes, next++);
    }));
    return next == count ? ok_status()
                         : lexer_.error(fmt::format("expected {} elements, got {}", count, next));
  }

  Status fill_elements(DataType type, int64_t count, std::vector<std::byte>& bytes) {
    CAMSHAFT_TRY(lexer_.expect('('));
    std::vector<std::byte> one(8);
    CAMSHAFT_TRY(number_into(type, one, 0));
    const size_t size = bits_of(type) / 8;
    for (int64_t k = 0; k < count; ++k) std::memcpy(bytes.data() + k * size, one.data(), size);
    return lexer_.expect(')');
  }

  // random(seed) or random(seed, low, high): floats in [low, high), integers in [low, high].
  Status random_elements(DataType type, int64_t count, std::vector<std::byte>& bytes) {
    CAMSHAFT_TRY(lexer_.expect('('));
    CAMSHAFT_ASSIGN(int64_t seed, lexer_.integer());
    double low = is_floating(type) ? -1 : 0, high = type == DataType::kBool ? 1
                                                    : is_floating(type)     ? 1
                                                                            : 100;
    if (lexer_.accept(',')) {
      CAMSHAFT_ASSIGN(low, lexer_.number());
      CAMSHAFT_TRY(lexer_.expect(','));
      CAMSHAFT_ASSIGN(high, lexer_.number());
    }
    uint64_t state = static_cast<uint64_t>(seed);
    for (int64_t k = 0; k < count; ++k) {
      const double unit = static_cast<double>(next_random(state) >> 11) * 0x1p-53;
      const int64_t whole =
          static_cast<int64_t>(low) + static_cast<int64_t>(unit * (high - low + 1));
      CAMSHAFT_TRY(store_number(type, bytes, k, low + unit * (high - low), whole));
    }
    return lexer_.expect(')');
  }

  // --- dims
  Result<Dim> binary_call(std::string_view function) {
    SymbolTable& table = graph_->symbols();
    CAMSHAFT_TRY(lexer_.expect('('));
    CAMSHAFT_ASSIGN(Dim a, dim());
    CAMSHAFT_TRY(lexer_.expect(','));
    CAMSHAFT_ASSIGN(Dim b, dim());
    CAMSHAFT_TRY(lexer_.expect(')'));
    if (function == "floor_div") return table.floor_div(a, b);
    if (function == "ceil_div") return table.ceil_div(a, b);
    if (function == "mod") return table.mod(a, b);
    if (function == "min") return table.min(a, b);
    if (function == "max") return table.max(a, b);
    if (function == "broadcast") return table.broadcast(a, b);
    return lexer_.error(fmt::format("unknown function '{}' in an extent", function));
  }

  Result<Dim> dim() {
    SymbolTable& table = graph_->symbols();
    if (lexer_.accept('(')) {
      CAMSHAFT_ASSIGN(Dim a, dim());
      const char sign = lexer_.peek();
      if (!lexer_.accept('+') && !lexer_.accept('-') && !lexer_.accept('*'))
        return lexer_.error("expected + - or *");
      CAMSHAFT_ASSIGN(Dim b, dim());
      CAMSHAFT_TRY(lexer_.expect(')'));
      return sign == '+' ? table.add(a, b) : sign == '-' ? table.sub(a, b) : table.mul(a, b);
    }
    if (lexer_.accept('?')) {
      CAMSHAFT_ASSIGN(std::string key, runtime_key());
      auto [at, is_new] = runtime_symbols_.try_emplace(key);
      if (is_new) at->second = table.runtime(key.substr(key.find('?') + 1));
      return at->second;
    }
    if (is_digit(lexer_.peek()) || lexer_.peek() == '-') {
      CAMSHAFT_ASSIGN(int64_t value, lexer_.integer());
      return table.constant(value);
    }
    CAMSHAFT_ASSIGN(std::string name, lexer_.name());
    if (lexer_.peek() == '(') return binary_call(name);
    return table.input(name);
  }

  // "7name" or 7"odd name" → "7?name"
  Result<std::string> runtime_key() {
    std::string number;
    CAMSHAFT_ASSIGN(int64_t id, lexer_.integer());
    if (lexer_.peek() == '"' || !lexer_.peek_word().empty()) {
      CAMSHAFT_ASSIGN(std::string name, lexer_.name());
      return std::to_string(id) + "?" + name;
    }
    return std::to_string(id) + "?";
  }

  Status push_dim(Shape& shape) {
    if (shape.size() == kMaxRank) return lexer_.error("more dimensions than supported");
    CAMSHAFT_ASSIGN(Dim value, dim());
    shape.push_back(value);
    return ok_status();
  }

  // --- attributes: overloads for every field type
  template <class Item>
  Status list_rest(Item&& item) {  // after '['
    if (lexer_.accept(']')) return ok_status();
    do CAMSHAFT_TRY(item());
    while (lexer_.accept(','));
    return lexer_.expect(']');
  }
  Status field(bool& value) {
    value = lexer_.accept_word("true");
    return value || lexer_.accept_word("false") ? ok_status()
                                                : lexer_.error("expected true or false");
  }
  Status field(int64_t& value) {
    CAMSHAFT_ASSIGN(value, lexer_.integer());
    return ok_status();
  }
  Status field(double& value) {
    CAMSHAFT_ASSIGN(value, lexer_.number());
    return ok_status();
  }
  Status field(float& value) {
    CAMSHAFT_ASSIGN(double number, lexer_.number());
    value = static_cast<float>(number);
    return ok_status();
  }
  Status field(std::string& value) {
    CAMSHAFT_ASSIGN(value, lexer_.quoted());
    return ok_status();
  }
  Status field(Dim& value) {
    CAMSHAFT_ASSIGN(value, dim());
    return ok_status();
  }
  Status field(Shape& shape) {
    shape.clear();
    CAMSHAFT_TRY(lexer_.expect('['));
    return list_rest([&] { return push_dim(shape); });
  }
  template <class T>
  Status field(std::vector<T>& list) {
    list.clear();
    CAMSHAFT_TRY(lexer_.expect('['));
    return list_rest([&] { return field(list.emplace_back()); });
  }
  Status field(GenericAttribute& value) {
    CAMSHAFT_TRY(lexer_.expect('('));
    CAMSHAFT_TRY(field(value.name));
    CAMSHAFT_TRY(lexer_.expect(','));
    CAMSHAFT_TRY(field(value.ints));
    CAMSHAFT_TRY(lexer_.expect(','));
    CAMSHAFT_TRY(field(value.floats));
    CAMSHAFT_TRY(lexer_.expect(','));
    CAMSHAFT_TRY(field(value.text));
    return lexer_.expect(')');
  }
  Status field(Program& program) {
    CAMSHAFT_TRY(lexer_.expect('<'));
    CAMSHAFT_ASSIGN(int64_t inputs, lexer_.integer());
    CAMSHAFT_TRY(lexer_.expect(':'));
    CAMSHAFT_ASSIGN(std::string text, lexer_.until('>'));
    Result<Program> parsed = parse_program(static_cast<int>(inputs), text);
    if (!parsed.ok()) return lexer_.error(parsed.status().message());
    program = *parsed;
    return ok_status();
  }
  template <class E>
  requires std::is_enum_v<E> Status field(E& value) {
    const std::string word(lexer_.peek_word());
    const std::optional<E> parsed = parse_enum<E>(word);
    if (!parsed) return lexer_.error(fmt::format("unknown value '{}'", word));
    lexer_.accept_word(word);
    value = *parsed;
    return ok_status();
  }

  Status attributes(Attrs& attrs) {
    if (!lexer_.accept('{')) return ok_status();
    do {
      CAMSHAFT_ASSIGN(std::string name, lexer_.name());
      CAMSHAFT_TRY(lexer_.expect('='));
      bool known = false;
      Status status;
      std::visit(
          [&](auto& chosen) {
            std::decay_t<decltype(chosen)>::fields(chosen,
                                                   [&](const char* field_name, auto& target) {
                                                     if (name != field_name) return;
                                                     known = true;
                                                     status = field(target);
                                                   });
          },
          attrs);
      CAMSHAFT_TRY(status);
      if (!known) return lexer_.error(fmt::format("unknown attribute '{}'", name));
    } while (lexer_.accept(','));
    return lexer_.expect('}');
  }

  Status layer_statement() {
    std::vector<Tensor*> outputs, inputs;
    do {
      if (lexer_.accept_word("_")) {
        outputs.push_back(nullptr);
        continue;
      }
      CAMSHAFT_ASSIGN(Tensor * tensor, declaration());
      outputs.push_back(tensor);
    } while (lexer_.accept(','));
    CAMSHAFT_TRY(lexer_.expect('='));
    const std::string kind_word(lexer_.peek_word());
    const Result<LayerKind> kind = parse_kind(kind_word);
    if (!kind.ok()) return lexer_.error(kind.status().message());
    lexer_.accept_word(kind_word);
    std::string name = outputs[0] ? outputs[0]->name : kind_word;
    if (lexer_.peek() == '"') CAMSHAFT_TRY(field(name));
    CAMSHAFT_TRY(lexer_.expect('('));
    while (!lexer_.accept(')')) {
      CAMSHAFT_ASSIGN(Tensor * tensor, reference());
      inputs.push_back(tensor);
      if (lexer_.peek() != ')') CAMSHAFT_TRY(lexer_.expect(','));
    }
    Attrs attrs = default_attrs(kind.value());
    CAMSHAFT_TRY(attributes(attrs));
    Layer* layer = graph_->add_layer(kind.value(), name, attrs, inputs, outputs);
    return layer_rest(layer);
  }

  // Provenance and bodies.
  Status layer_rest(Layer* layer) {
    if (lexer_.peek_word() == "from" && lexer_.after_word() == '"') {
      lexer_.accept_word("from");
      do CAMSHAFT_TRY(field(layer->onnx_nodes.emplace_back()));
      while (lexer_.accept(','));
    }
    while (lexer_.peek_word() == "graph" && lexer_.after_word() == '"') {
      CAMSHAFT_ASSIGN(std::unique_ptr<Graph> body,
                      Parser(lexer_, runtime_symbols_).parse(graph_->shared_symbols()));
      layer->bodies.push_back(std::move(body));
    }
    return ok_status();
  }

  Lexer& lexer_;
  RuntimeSymbols& runtime_symbols_;
  std::unique_ptr<Graph> graph_;
  std::unordered_map<std::string, Tensor*> tensors_;
};

}  // namespace

Result<std::unique_ptr<Graph>> parse_graph(std::string_view text) {
  Lexer lexer(text);
  RuntimeSymbols runtime_symbols;
  Result<std::unique_ptr<Graph>> graph = Parser(lexer, runtime_symbols).parse(nullptr);
  if (graph.ok() && !lexer.at_end()) return lexer.error("expected the end");
  return graph;
}

}  // namespace camshaft::ir
