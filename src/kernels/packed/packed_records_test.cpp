// SPDX-License-Identifier: Apache-2.0
// Records of packed weights: stored field by field, read back equal, and a layout that tells any
// change of a field.
#include "kernels/packed/packed_records.h"

#include <set>

#include <gtest/gtest.h>

#include "kernels/packed/packed_layouts.h"

namespace camshaft::kernels {
namespace {

// Gives every number of a record another value.
struct Counter {
  int next = 1;
  template <class T>
  void operator()(const char* name, T& field) {
    if constexpr (std::is_array_v<T>)
      for (auto& element : field) (*this)(name, element);
    else if constexpr (std::is_class_v<T>)
      visit_fields(field, *this);
    else
      field = static_cast<T>(next++);
  }
};

struct Lister {
  std::vector<double> numbers;
  template <class T>
  void operator()(const char* name, const T& field) {
    if constexpr (std::is_array_v<T>)
      for (const auto& element : field) (*this)(name, element);
    else if constexpr (std::is_class_v<T>)
      visit_fields(field, *this);
    else
      numbers.push_back(static_cast<double>(field));
  }
};

template <class Record>
std::vector<double> numbers_of(const Record& record) {
  Lister lister;
  visit_fields(record, lister);
  return lister.numbers;
}

template <class Record>
void check_round_trip(size_t bytes) {
  Record record{}, read{};
  visit_fields(record, Counter());
  std::vector<std::byte> stored(record_bytes<Record>() + 1, std::byte{0xee});
  store_record(record, stored.data());
  EXPECT_EQ(stored.back(), std::byte{0xee});
  EXPECT_EQ(record_bytes<Record>(), bytes);
  read_record(stored.data(), read);
  EXPECT_EQ(numbers_of(read), numbers_of(record));
  FieldSizer sizer;
  visit_fields(record, sizer);
  for (size_t k = sizer.bytes; k < bytes; ++k) EXPECT_EQ(stored[k], std::byte{0}) << k;
}

TEST(PackedRecords, AreReadAsTheyWereStored) {
  check_round_trip<PackedEpilogue>(192);
  check_round_trip<FoldedHeader>(64);
  check_round_trip<CodeTable>(64);
  check_round_trip<PackedForest>(64);
  check_round_trip<PlaneChannels>(192);
}

template <class Record>
size_t bytes_of_fields() {
  FieldSizer sizer;
  Record record{};
  visit_fields(record, sizer);
  return sizer.bytes;
}

// All their fields take four bytes: one that is not listed would be missing here.
TEST(PackedRecords, ListAllFields) {
  EXPECT_EQ(bytes_of_fields<const PackedEpilogue>(), sizeof(PackedEpilogue));
  EXPECT_EQ(bytes_of_fields<const Affine>(), sizeof(Affine));
  EXPECT_EQ(bytes_of_fields<const Gate>(), sizeof(Gate));
  EXPECT_EQ(bytes_of_fields<const FoldedHeader>(), sizeof(FoldedHeader));
  EXPECT_EQ(bytes_of_fields<const ForestNode>(), sizeof(ForestNode));
}

TEST(PackedRecords, LieFieldByField) {
  std::vector<std::byte> stored(record_bytes<FoldedHeader>());
  FoldedHeader header;
  header.is_folded = 0x01020304;
  header.low = 1;  // 0x3f800000
  store_record(header, stored.data());
  const std::byte expected[] = {std::byte{4}, std::byte{3}, std::byte{2},    std::byte{1},
                                std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0x3f}};
  EXPECT_TRUE(std::equal(std::begin(expected), std::end(expected), stored.begin()));
}

TEST(PackedRecords, CodeIsReadAsItWasStored) {
  const std::vector<ir::Instruction> code = {{ir::PointOp::kAdd, 0, 1},
                                             {ir::PointOp::kClip, 2, -1, -1, 0.5f, 6},
                                             {ir::PointOp::kFma, 3, 300, 2}};
  std::vector<std::byte> stored(code_bytes(code.size()));
  EXPECT_EQ(stored.size(), 48u);
  store_code(code, stored.data());
  std::vector<ir::Instruction> read(code.size());
  read_code(stored.data(), 3, read.data());
  EXPECT_EQ(read, code);
}

// One record, and what may become of it.
struct Plain {
  float a;
  int32_t b[2];
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(a) CAMSHAFT_FIELD(b))
};
struct Renamed {
  float c;
  int32_t b[2];
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(c) CAMSHAFT_FIELD(b))
};
struct Retyped {
  int32_t a, b[2];
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(a) CAMSHAFT_FIELD(b))
};
struct Reordered {
  float a;
  int32_t b[2];
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(b) CAMSHAFT_FIELD(a))
};
struct Longer {
  float a;
  int32_t b[3];
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(a) CAMSHAFT_FIELD(b))
};
struct Widened {
  float a;
  int64_t b[2];
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(a) CAMSHAFT_FIELD(b))
};
struct Nested {
  struct Inner {
    float a;
    int32_t b[2];
    CAMSHAFT_FIELDS(CAMSHAFT_FIELD(a) CAMSHAFT_FIELD(b))
  } a;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(a))
};

template <class Record>
std::string layout_of() {
  FieldLister lister;
  lister.describe(Record{});
  return lister.text;
}

TEST(PackedRecords, AnyChangeOfAFieldIsAnotherLayout) {
  EXPECT_EQ(layout_of<Plain>(), "{a:f4 b[2]:i4 }");
  const std::set<std::string> layouts = {
      layout_of<Plain>(),  layout_of<Renamed>(), layout_of<Retyped>(), layout_of<Reordered>(),
      layout_of<Longer>(), layout_of<Widened>(), layout_of<Nested>()};
  EXPECT_EQ(layouts.size(), 7u);
}

}  // namespace
}  // namespace camshaft::kernels
