// SPDX-License-Identifier: Apache-2.0
#include "kernels/packed/packed_records.h"

#include "kernels/packed/packed_layouts.h"

namespace camshaft::kernels {
namespace {

template <class Record>
size_t bytes_of_fields() {
  const Record record{};
  FieldSizer sizer;
  visit_fields(record, sizer);
  return sizer.bytes;
}

template <class Record>
std::string layout_of(const char* name) {
  FieldLister lister{std::string(name)};
  lister.describe(Record{});
  return lister.text + '\n';
}

}  // namespace

template <class Record>
size_t record_bytes() {
  static const size_t bytes = (bytes_of_fields<Record>() + 63) / 64 * 64;
  return bytes;
}

template <class Record>
void store_record(const Record& record, std::byte* to) {
  std::memset(to, 0, record_bytes<Record>());
  visit_fields(record, FieldWriter{to});
}

template <class Record>
void read_record(const std::byte* from, Record& record) {
  visit_fields(record, FieldReader{from});
}

#define CAMSHAFT_INSTANTIATE(Record)                     \
  template size_t record_bytes<Record>();                \
  template void store_record(const Record&, std::byte*); \
  template void read_record(const std::byte*, Record& record);
CAMSHAFT_PACKED_RECORDS(CAMSHAFT_INSTANTIATE)

size_t code_bytes(size_t length) {
  static const size_t bytes = bytes_of_fields<ir::Instruction>();
  return length * bytes;
}

void store_code(std::span<const ir::Instruction> code, std::byte* to) {
  FieldWriter writer{to};
  for (const ir::Instruction& instruction : code) visit_fields(instruction, writer);
}

void read_code(const std::byte* from, int length, ir::Instruction* code) {
  FieldReader reader{from};
  for (int k = 0; k < length; ++k) visit_fields(code[k], reader);
}

std::string record_layouts() {
  std::string text =
      layout_of<ir::Instruction>("Instruction") + layout_of<ForestNode>("ForestNode");
#define CAMSHAFT_LIST(Record) text += layout_of<Record>(#Record);
  CAMSHAFT_PACKED_RECORDS(CAMSHAFT_LIST)
  return text;
}

}  // namespace camshaft::kernels
