// SPDX-License-Identifier: Apache-2.0
// For tests: writes ONNX files field by field (broken ones, too), and mutates them along the
// structure of the protobuf.
#pragma once

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace camshaft::onnx_import::testing {

// One message in protobuf's wire format.
class Wire {
 public:
  std::string bytes;

  Wire& number(int field, int64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Wire& real(int field, float value) {
    varint(static_cast<uint64_t>(field) << 3 | 5);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Wire& text(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes.append(value);
    return *this;
  }
  Wire& message(int field, const Wire& value) { return text(field, value.bytes); }

 private:
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
    bytes += static_cast<char>(value);
  }
};

constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9,
              kHalf = 10, kDouble = 11;

using Extent = std::variant<int, const char*>;  // a number or a symbol

inline Wire tensor(const std::string& name, int type, const std::vector<int64_t>& dims) {
  Wire wire;
  for (int64_t dim : dims) wire.number(1, dim);
  wire.number(2, type);
  if (!name.empty()) wire.text(8, name);
  return wire;
}
template <class T>
Wire raw_tensor(const std::string& name, int type, const std::vector<int64_t>& dims,
                const std::vector<T>& values) {
  Wire wire = tensor(name, type, dims);
  wire.text(9, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  return wire;
}
inline Wire floats_tensor(const std::string& name, const std::vector<int64_t>& dims,
                          const std::vector<float>& values) {
  return raw_tensor(name, kFloat, dims, values);
}
inline Wire ints_tensor(const std::string& name, const std::vector<int64_t>& values) {
  return raw_tensor(name, kInt64, {static_cast<int64_t>(values.size())}, values);
}

inline Wire value_info(const std::string& name, int type, const std::vector<Extent>& shape) {
  Wire dims;
  for (const Extent& extent : shape) {
    Wire dim;
    if (std::holds_alternative<int>(extent)) dim.number(1, std::get<int>(extent));
    if (std::holds_alternative<const char*>(extent)) dim.text(2, std::get<const char*>(extent));
    dims.message(1, dim);
  }
  return Wire().text(1, name).message(2,
                                      Wire().message(1, Wire().number(1, type).message(2, dims)));
}

// --- attributes

struct Attribute {
  Wire wire;
};
inline Attribute attr(const std::string& name, int type) {
  Attribute attribute;
  attribute.wire.text(1, name).number(20, type);
  return attribute;
}
inline Attribute real(const std::string& name, float value) {
  Attribute a = attr(name, 1);
  a.wire.real(2, value);
  return a;
}
inline Attribute integer(const std::string& name, int64_t value) {
  Attribute a = attr(name, 2);
  a.wire.number(3, value);
  return a;
}
inline Attribute text(const std::string& name, const std::string& value) {
  Attribute a = attr(name, 3);
  a.wire.text(4, value);
  return a;
}
inline Attribute texts(const std::string& name, const std::vector<std::string>& values) {
  Attribute attribute = attr(name, 8);
  for (const std::string& value : values) attribute.wire.text(9, value);
  return attribute;
}
inline Attribute tensor_attr(const std::string& name, const Wire& value) {
  Attribute a = attr(name, 4);
  a.wire.message(5, value);
  return a;
}
inline Attribute graph_attr(const std::string& name, const Wire& value) {
  Attribute a = attr(name, 5);
  a.wire.message(6, value);
  return a;
}
inline Attribute ints(const std::string& name, const std::vector<int64_t>& values) {
  Attribute a = attr(name, 7);
  for (int64_t value : values) a.wire.number(8, value);
  return a;
}
inline Attribute reals(const std::string& name, const std::vector<float>& values) {
  Attribute a = attr(name, 6);
  for (float value : values) a.wire.real(7, value);
  return a;
}
inline Attribute reference(const std::string& name, int type, const std::string& of) {
  Attribute a = attr(name, type);
  a.wire.text(21, of);
  return a;
}

inline Wire node(const std::string& op, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs,
                 const std::vector<Attribute>& attributes = {}, const std::string& name = "",
                 const std::string& domain = "") {
  Wire wire;
  for (const std::string& input : inputs) wire.text(1, input);
  for (const std::string& output : outputs) wire.text(2, output);
  if (!name.empty()) wire.text(3, name);
  wire.text(4, op);
  for (const Attribute& attribute : attributes) wire.message(5, attribute.wire);
  if (!domain.empty()) wire.text(7, domain);
  return wire;
}

// --- graphs

class TestGraph {
 public:
  Wire wire = Wire().text(2, "test");

  TestGraph& input(const std::string& name, int type, const std::vector<Extent>& shape) {
    wire.message(11, value_info(name, type, shape));
    return *this;
  }
  TestGraph& output(const std::string& name, int type = 0) {
    wire.message(
        12, type == 0 ? Wire().text(1, name)
                      : Wire().text(1, name).message(2, Wire().message(1, Wire().number(1, type))));
    return *this;
  }
  TestGraph& initializer(const Wire& value) {
    wire.message(5, value);
    return *this;
  }
  TestGraph& floats(const std::string& name, const std::vector<int64_t>& dims, float value = 0.5f) {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    return initializer(floats_tensor(name, dims, std::vector<float>(count, value)));
  }
  TestGraph& ints(const std::string& name, const std::vector<int64_t>& values) {
    return initializer(ints_tensor(name, values));
  }
  TestGraph& scalar(const std::string& name, int64_t value) {
    return initializer(raw_tensor<int64_t>(name, kInt64, {}, {value}));
  }
  TestGraph& node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs,
                  const std::vector<Attribute>& attributes = {}, const std::string& name = "",
                  const std::string& domain = "") {
    wire.message(1, testing::node(op, inputs, outputs, attributes, name, domain));
    return *this;
  }
};

inline Wire opset(int64_t version, const std::string& domain = "") {
  Wire wire;
  if (!domain.empty()) wire.text(1, domain);
  return wire.number(2, version);
}

inline std::string model(const TestGraph& graph, int64_t version = 17) {
  return Wire()
      .number(1, 8)
      .text(2, "camshaft test")
      .message(7, graph.wire)
      .message(8, opset(version))
      .bytes;
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// --- mutations

// A message taken apart. What does not parse as a message stays text.
struct Field {
  uint64_t tag = 0;
  uint64_t value = 0;
  std::string text;
  std::vector<Field> children;
  bool is_message = false;
};

inline bool read_varint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

inline bool take_apart(std::string_view bytes, std::vector<Field>& fields, int depth = 0) {
  while (!bytes.empty()) {
    Field field;
    if (!read_varint(bytes, field.tag) || field.tag >> 3 == 0 || field.tag >> 3 > 100) return false;
    const uint64_t wire = field.tag & 7;
    const size_t fixed = wire == 5 ? 4 : wire == 1 ? 8 : 0;
    if (wire == 0) {
      if (!read_varint(bytes, field.value)) return false;
    } else if (fixed > 0) {
      if (bytes.size() < fixed) return false;
      field.text = bytes.substr(0, fixed);
      bytes.remove_prefix(fixed);
    } else if (wire == 2) {
      uint64_t size = 0;
      if (!read_varint(bytes, size) || size > bytes.size()) return false;
      field.text = bytes.substr(0, size);
      bytes.remove_prefix(size);
      field.is_message =
          depth < 12 && size > 1 && take_apart(field.text, field.children, depth + 1);
      if (!field.is_message) field.children.clear();
    } else {
      return false;
    }
    fields.push_back(std::move(field));
  }
  return true;
}

inline std::string put_together(const std::vector<Field>& fields) {
  Wire wire;
  for (const Field& field : fields) {
    const int number = static_cast<int>(field.tag >> 3);
    if ((field.tag & 7) == 0) {
      wire.number(number, static_cast<int64_t>(field.value));
    } else if ((field.tag & 7) == 2) {
      wire.text(number, field.is_message ? put_together(field.children) : field.text);
    } else {
      Wire header;
      header.number(0, static_cast<int64_t>(
                           field.tag));  // field 0, type 0: one byte to drop, then the tag itself
      wire.bytes += header.bytes.substr(1) + field.text;
    }
  }
  return wire.bytes;
}

class Mutator {
 public:
  Mutator(const std::string& bytes, uint32_t seed) : random_(seed) {
    structured_ = take_apart(bytes, fields_);
    if (!structured_) raw_ = bytes;
    collect(fields_);
  }

  // One to four changes.
  std::string mutate() {
    std::vector<Field> fields = fields_;
    const int count = 1 + static_cast<int>(random_() % 4);
    for (int k = 0; k < count && structured_; ++k) change(fields);
    std::string bytes = structured_ ? put_together(fields) : raw_;
    if (random_() % 4 == 0 || !structured_) scramble(bytes);
    return bytes;
  }

 private:
  void collect(const std::vector<Field>& fields) {
    for (const Field& field : fields) {
      if ((field.tag & 7) == 2 && !field.is_message && field.text.size() < 64)
        texts_.push_back(field.text);
      collect(field.children);
    }
  }

  uint64_t interesting() {
    static constexpr int64_t kNumbers[] = {0,
                                           1,
                                           2,
                                           3,
                                           4,
                                           7,
                                           8,
                                           -1,
                                           -2,
                                           -5,
                                           127,
                                           64,
                                           255,
                                           256,
                                           1000,
                                           65536,
                                           1 << 20,
                                           1 << 30,
                                           INT32_MAX,
                                           INT32_MIN,
                                           INT64_MAX,
                                           INT64_MIN,
                                           int64_t{1} << 40,
                                           11,
                                           13,
                                           18};
    return static_cast<uint64_t>(kNumbers[random_() % std::size(kNumbers)]);
  }

  void change(std::vector<Field>& fields) {
    if (fields.empty()) return;
    const size_t at = random_() % fields.size();
    Field& field = fields[at];
    if (field.is_message && !field.children.empty() && random_() % 8 != 0)
      return change(field.children);
    switch (random_() % 6) {
      case 0:
        fields.erase(fields.begin() + static_cast<long>(at));
        return;
      case 1: {
        const Field copy = field;
        fields.insert(fields.begin() + static_cast<long>(random_() % (fields.size() + 1)), copy);
        return;
      }
      case 2:
        std::swap(fields[at], fields[random_() % fields.size()]);
        return;
      default:
        break;
    }
    if ((field.tag & 7) == 0) {
      field.value = random_() % 3 == 0 ? field.value + random_() % 5 - 2 : interesting();
    } else if ((field.tag & 7) == 2 && !field.is_message) {
      if (field.text.size() < 64 && !texts_.empty() && random_() % 2 == 0)
        field.text = texts_[random_() % texts_.size()];
      else
        scramble(field.text);
    } else if (!field.text.empty()) {
      scramble(field.text);
    }
  }

  void scramble(std::string& text) {
    if (text.empty()) {
      text = "?";
      return;
    }
    const size_t at = random_() % text.size();
    switch (random_() % 4) {
      case 0:
        text[at] = static_cast<char>(random_());
        return;
      case 1:
        text[at] = static_cast<char>(text[at] ^ 1 << random_() % 8);
        return;
      case 2:
        text.resize(at);
        return;
      default:
        text.insert(at, 1, static_cast<char>(random_()));
        return;
    }
  }

  std::mt19937 random_;
  bool structured_ = false;
  std::string raw_;
  std::vector<Field> fields_;
  std::vector<std::string> texts_;
};

}  // namespace camshaft::onnx_import::testing
