// SPDX-License-Identifier: Apache-2.0
#include "engine/file_format.h"

#include "engine/attributes.h"
#include "engine/hash.h"
#include "ir/types.h"
#include "kernels/packed/packed_fields.h"
#include "kernels/packed/packed_records.h"

namespace camshaft::engine {
namespace {

template <class Header, class Visitor>
void visit(Header& h, Visitor&& visitor) {
  for (auto& c : h.magic) visitor("magic", c);
  visitor("format_version", h.format_version);
  visitor("header_bytes", h.header_bytes);
  visitor("required_isa", h.required_isa);
  visitor("layout", h.layout);
  visitor("file_bytes", h.file_bytes);
  visitor("weights_offset", h.weights_offset);
  visitor("weights_bytes", h.weights_bytes);
  visitor("weights_hash", h.weights_hash);
  visitor("plan_offset", h.plan_offset);
  visitor("plan_bytes", h.plan_bytes);
  visitor("plan_hash", h.plan_hash);
  visitor("header_hash", h.header_hash);
}

// "DataType undefined float …": names end where there is none any more.
template <class Name>
std::string list_names(const char* what, int count, Name name) {
  std::string text = what;
  for (int k = 0; k < count; ++k) text += fmt::format(" {}", name(k));
  return text + '\n';
}

}  // namespace

void write_header(const FileHeader& header, std::byte* to) {
  visit(header, kernels::FieldWriter{to});
}

FileHeader read_header(const std::byte* from) {
  FileHeader header;
  visit(header, kernels::FieldReader{from});
  return header;
}

uint64_t hash_of(const FileHeader& header) {
  std::byte bytes[kHeaderBytes];
  write_header(header, bytes);
  return hash_bytes(std::span(bytes).first(kHeaderBytes - sizeof header.header_hash));
}

std::string stored_layout() {
  std::string text = kernels::record_layouts() + attribute_layouts();
  text += list_names("DataType", static_cast<int>(ir::DataType::kUInt4) + 1,
                     [](int k) { return ir::type_name(static_cast<ir::DataType>(k)); });
  text += list_names("PointOp", ir::kPointOpCount,
                     [](int k) { return ir::point_op_name(static_cast<ir::PointOp>(k)); });
  text += list_names("Isa", kIsaCount, [](int k) { return isa_name(static_cast<Isa>(k)); });
  text += fmt::format("SymbolOp {}\n", ir::kSymbolOpCount);
  return text;
}

uint32_t layout_hash(const std::string& layout) {
  const uint64_t hash = hash_bytes(std::as_bytes(std::span(layout)));
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

uint32_t own_layout() {
  static const uint32_t hash = layout_hash(stored_layout());
  return hash;
}

}  // namespace camshaft::engine
