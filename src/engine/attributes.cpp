// SPDX-License-Identifier: Apache-2.0
#include "engine/attributes.h"

#include <limits>
#include <type_traits>

#include "engine/stored_list.h"
#include "ir/kind_traits.h"

namespace camshaft::engine {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// One past the last value of each enum that occurs in attributes.
template <class E>
constexpr int kEnumEnd = 0;
template <>
constexpr int kEnumEnd<ir::PaddingMode> = static_cast<int>(ir::PaddingMode::kSameLower) + 1;
template <>
constexpr int kEnumEnd<ir::PoolingType> = static_cast<int>(ir::PoolingType::kLp) + 1;
template <>
constexpr int kEnumEnd<ir::ReduceOp> = static_cast<int>(ir::ReduceOp::kSumSquare) + 1;
template <>
constexpr int kEnumEnd<ir::NormKind> = static_cast<int>(ir::NormKind::kGroup) + 1;
template <>
constexpr int kEnumEnd<ir::GatherMode> = static_cast<int>(ir::GatherMode::kNd) + 1;
template <>
constexpr int kEnumEnd<ir::ScatterMode> = static_cast<int>(ir::ScatterMode::kNd) + 1;
template <>
constexpr int kEnumEnd<ir::ScatterReduction> = static_cast<int>(ir::ScatterReduction::kMax) + 1;
template <>
constexpr int kEnumEnd<ir::PadMode> = static_cast<int>(ir::PadMode::kWrap) + 1;
template <>
constexpr int kEnumEnd<ir::ResizeMode> = static_cast<int>(ir::ResizeMode::kCubic) + 1;
template <>
constexpr int kEnumEnd<ir::CoordinateTransform> =
    static_cast<int>(ir::CoordinateTransform::kTfCropAndResize) + 1;
template <>
constexpr int kEnumEnd<ir::NearestRounding> = static_cast<int>(ir::NearestRounding::kCeil) + 1;
template <>
constexpr int kEnumEnd<ir::RnnKind> = static_cast<int>(ir::RnnKind::kLstm) + 1;
template <>
constexpr int kEnumEnd<ir::RnnDirection> = static_cast<int>(ir::RnnDirection::kBidirectional) + 1;
template <>
constexpr int kEnumEnd<ir::DataType> = static_cast<int>(ir::DataType::kUInt4) + 1;
template <>
constexpr int kEnumEnd<ir::PointOp> = ir::kPointOpCount;

// --- writing: collects the offsets of one attribute's members, then the table.
struct Writer {
  FlatBufferBuilder& builder;
  std::vector<Offset<fb::Attribute>> attributes;

  struct Members {
    std::vector<int64_t> ints;
    std::vector<float> floats;
    double real = 0;
    std::vector<std::string> texts;
    const ir::Program* program = nullptr;
    const std::vector<ir::GenericAttribute>* generics = nullptr;
  };

  template <class T>
  void operator()(const char* name, const T& field) {
    Members m;
    fill(m, field);
    attributes.push_back(store(name, m));
  }

  template <class T>
  static void fill(Members& m, const T& field) {
    if constexpr (std::is_same_v<T, float>)
      m.floats = {field};
    else if constexpr (std::is_same_v<T, double>)
      m.real = field;
    else
      m.ints = {static_cast<int64_t>(field)};  // bool, int64_t, enums
  }
  static void fill(Members& m, const std::string& field) { m.texts = {field}; }
  static void fill(Members& m, const ir::Ints& field) { m.ints = field; }
  static void fill(Members& m, const std::vector<float>& field) { m.floats = field; }
  static void fill(Members& m, const std::vector<std::string>& field) { m.texts = field; }
  static void fill(Members& m, const ir::Program& field) { m.program = &field; }
  static void fill(Members& m, const std::vector<ir::GenericAttribute>& field) {
    m.generics = &field;
  }
  static void fill(Members& m, const ir::Shape& field) {
    for (const ir::Dim dim : field) m.ints.push_back(dim_code(dim));
  }

  Offset<fb::Program> store_program(const ir::Program& program) {
    std::vector<fb::Instruction> code;
    for (const ir::Instruction& i : program.code)
      code.emplace_back(static_cast<uint8_t>(i.op), i.a, i.b, i.c, i.x, i.y);
    return fb::CreateProgram(builder, program.num_inputs, builder.CreateVectorOfStructs(code));
  }

  Offset<fb::GenericAttribute> store_generic(const ir::GenericAttribute& a) {
    return fb::CreateGenericAttribute(builder, builder.CreateSharedString(a.name),
                                      builder.CreateVector(a.ints), builder.CreateVector(a.floats),
                                      builder.CreateString(a.text));
  }

  Offset<fb::Attribute> store(const char* name, const Members& m) {
    const auto name_offset = builder.CreateSharedString(name);
    const auto ints = m.ints.empty() ? 0 : builder.CreateVector(m.ints);
    const auto floats = m.floats.empty() ? 0 : builder.CreateVector(m.floats);
    const auto texts = m.texts.empty() ? 0 : builder.CreateVectorOfStrings(m.texts);
    const auto program = m.program && !m.program->empty() ? store_program(*m.program) : 0;
    Offset<flatbuffers::Vector<Offset<fb::GenericAttribute>>> generics = 0;
    if (m.generics && !m.generics->empty()) {
      std::vector<Offset<fb::GenericAttribute>> offsets;
      for (const ir::GenericAttribute& a : *m.generics) offsets.push_back(store_generic(a));
      generics = builder.CreateVector(offsets);
    }
    return fb::CreateAttribute(builder, name_offset, ints, floats, m.real, texts, program,
                               generics);
  }
};

// --- reading: takes the stored attributes in order; the first contradiction is kept in `error`.
struct Reader {
  const AttributeVector* stored;
  int num_symbols;
  flatbuffers::uoffset_t next = 0;
  std::string error = {};

  template <class T>
  void operator()(const char* name, T& field) {
    if (!error.empty()) return;
    const fb::Attribute* a = stored && next < stored->size() ? stored->Get(next++) : nullptr;
    if (!a || !a->name() || a->name()->string_view() != name) {
      error = fmt::format("attribute {} is missing", name);
    } else if (!take(*a, field)) {
      error = fmt::format("attribute {} is malformed", name);
    }
  }

  static bool single(const fb::Attribute& a, int64_t low, int64_t high, int64_t& value) {
    if (!a.ints() || a.ints()->size() != 1) return false;
    value = a.ints()->Get(0);
    return value >= low && value <= high;
  }

  template <class T>
  static bool take(const fb::Attribute& a, T& field) {
    int64_t value = 0;
    if constexpr (std::is_same_v<T, float>) {
      if (!a.floats() || a.floats()->size() != 1) return false;
      field = a.floats()->Get(0);
    } else if constexpr (std::is_same_v<T, double>) {
      field = a.real();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!single(a, 0, 1, value)) return false;
      field = value != 0;
    } else if constexpr (std::is_same_v<T, int64_t>) {
      return single(a, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                    field);
    } else {
      static_assert(std::is_enum_v<T> && kEnumEnd<T> > 0);
      if (!single(a, 0, kEnumEnd<T> - 1, value)) return false;
      field = static_cast<T>(value);
    }
    return true;
  }
  static bool take(const fb::Attribute& a, std::string& field) {
    if (!a.texts() || a.texts()->size() != 1) return false;
    field = a.texts()->Get(0)->str();
    return true;
  }
  static bool take(const fb::Attribute& a, ir::Ints& field) {
    field = stored_list(a.ints());
    return true;
  }
  static bool take(const fb::Attribute& a, std::vector<float>& field) {
    field = stored_list(a.floats());
    return true;
  }
  static bool take(const fb::Attribute& a, std::vector<std::string>& field) {
    if (a.texts())
      for (const auto* text : *a.texts()) field.push_back(text->str());
    return true;
  }
  bool take(const fb::Attribute& a, ir::Shape& field) const {
    Result<ir::Shape> shape = shape_from_codes(a.ints(), num_symbols);
    if (shape.ok()) field = *shape;
    return shape.ok();
  }
  static bool take(const fb::Attribute& a, ir::Program& program) {
    if (!a.program()) return true;
    program.num_inputs = a.program()->num_inputs();
    if (program.num_inputs < 0 || program.num_inputs > 64 || !a.program()->code()) return false;
    for (const fb::Instruction* i : *a.program()->code()) {
      if (i->op() >= ir::kPointOpCount) return false;
      const auto op = static_cast<ir::PointOp>(i->op());
      const int defined = program.num_inputs + static_cast<int>(program.code.size());
      const int operands[3] = {i->a(), i->b(), i->c()};
      for (int k = 0; k < ir::arity(op); ++k)
        if (operands[k] < 0 || operands[k] >= defined) return false;
      program.code.push_back({op, i->a(), i->b(), i->c(), i->x(), i->y()});
    }
    return program.code.size() < 4096;
  }
  static bool take(const fb::Attribute& a, std::vector<ir::GenericAttribute>& field) {
    if (!a.generics()) return true;
    for (const fb::GenericAttribute* g : *a.generics()) {
      if (!g->name() || !g->ints() || !g->floats() || !g->text()) return false;
      field.push_back(
          {g->name()->str(), stored_list(g->ints()), stored_list(g->floats()), g->text()->str()});
    }
    return true;
  }
};

// "axis:int64 mode:enum(linear cubic )" …
struct FieldLister {
  std::string text;

  template <class T>
  void operator()(const char* name, const T&) {
    text += fmt::format(" {}:", name);
    if constexpr (std::is_enum_v<T>)
      for (int k = 0; k < kEnumEnd<T>; ++k)
        text += fmt::format("{}|", ir::enum_name(static_cast<T>(k)));
    else
      text += type_text<T>();
  }

  template <class T>
  static std::string_view type_text() {
    if constexpr (std::is_same_v<T, bool>)
      return "bool";
    else if constexpr (std::is_same_v<T, int64_t>)
      return "int";
    else if constexpr (std::is_same_v<T, float>)
      return "float";
    else if constexpr (std::is_same_v<T, double>)
      return "double";
    else if constexpr (std::is_same_v<T, std::string>)
      return "text";
    else if constexpr (std::is_same_v<T, ir::Ints>)
      return "ints";
    else if constexpr (std::is_same_v<T, std::vector<float>>)
      return "floats";
    else if constexpr (std::is_same_v<T, std::vector<std::string>>)
      return "texts";
    else if constexpr (std::is_same_v<T, ir::Program>)
      return "program";
    else if constexpr (std::is_same_v<T, ir::Shape>)
      return "shape";
    else {
      static_assert(std::is_same_v<T, std::vector<ir::GenericAttribute>>);
      return "generics";
    }
  }
};

}  // namespace

std::string attribute_layouts() {
  FieldLister lister;
  for (size_t k = 0; k < ir::kLayerKinds; ++k) {
    const auto kind = static_cast<ir::LayerKind>(k);
    lister.text += ir::kind_name(kind);
    const ir::Attrs attrs = ir::default_attrs(kind);
    std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, lister); }, attrs);
    lister.text += '\n';
  }
  return lister.text;
}

int64_t dim_code(ir::Dim dim) {
  return dim.is_known() ? dim.extent() : -1 - int64_t{dim.symbol_id()};
}

Result<ir::Dim> dim_from_code(int64_t code, int num_symbols) {
  if (code >= 0) return ir::Dim(code);
  if (-1 - code >= num_symbols)
    return make_error(ErrorCode::kCorrupt, "symbol {} of {}", -1 - code, num_symbols);
  return ir::Dim::symbol(static_cast<int>(-1 - code));
}

Result<ir::Shape> shape_from_codes(const flatbuffers::Vector<int64_t>* codes, int num_symbols) {
  ir::Shape shape;
  if (!codes) return shape;
  if (codes->size() > ir::kMaxRank)
    return make_error(ErrorCode::kCorrupt, "rank {}", codes->size());
  for (const int64_t code : stored_list(codes)) {
    CAMSHAFT_ASSIGN(const ir::Dim dim, dim_from_code(code, num_symbols));
    shape.push_back(dim);
  }
  return shape;
}

Offset<AttributeVector> store_attributes(FlatBufferBuilder& builder, const ir::Attrs& attrs) {
  Writer writer{builder, {}};
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, writer); }, attrs);
  return builder.CreateVector(writer.attributes);
}

Result<ir::Attrs> read_attributes(ir::LayerKind kind, const AttributeVector* stored,
                                  int num_symbols) {
  ir::Attrs attrs = ir::default_attrs(kind);
  Reader reader{stored, num_symbols};
  std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, reader); }, attrs);
  if (reader.error.empty() && stored && reader.next != stored->size())
    reader.error = "too many attributes";
  if (!reader.error.empty()) return Status(ErrorCode::kCorrupt, reader.error);
  return attrs;
}

}  // namespace camshaft::engine
