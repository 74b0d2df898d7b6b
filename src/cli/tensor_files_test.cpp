// SPDX-License-Identifier: Apache-2.0
#include "cli/tensor_files.h"

#include <bit>
#include <cstring>

#include <gtest/gtest.h>
#include <unistd.h>

namespace camshaft::cli {
namespace {

class TensorFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("camshaft_tensor_files_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

std::vector<std::byte> npy(const std::string& header, const std::vector<float>& values) {
  std::string text = "\x93NUMPY\x01";
  text += '\0';
  text += static_cast<char>(header.size());
  text += '\0';
  text += header;
  text.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  const auto bytes = std::as_bytes(std::span<const char>(text));
  return {bytes.begin(), bytes.end()};
}

TEST_F(TensorFiles, NpyRoundTripOfEveryTypeAndRank) {
  const std::vector<std::pair<DataType, Dims>> cases = {
      {DataType::kFloat, {2, 3}},   {DataType::kInt64, {4}}, {DataType::kBool, {}},
      {DataType::kHalf, {1, 0, 2}}, {DataType::kUInt8, {5}}, {DataType::kDouble, {1, 1, 1, 2}}};
  for (const auto& [type, dims] : cases) {
    HostTensor tensor{"", type, true, dims,
                      std::vector<std::byte>(byte_size(type, element_count(dims)))};
    for (size_t k = 0; k < tensor.bytes.size(); ++k)
      tensor.bytes[k] = static_cast<std::byte>(k % 2);
    ASSERT_TRUE(write_npy(folder_ / "t.npy", tensor.view()).ok());
    const auto back = read_tensor(folder_ / "t.npy");
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(back.value().type, type);
    EXPECT_EQ(back.value().dims, dims);
    EXPECT_EQ(back.value().bytes, tensor.bytes);
    EXPECT_EQ(std::filesystem::file_size(folder_ / "t.npy") % 64,
              tensor.bytes.size() % 64);  // data is aligned to 64
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}),
            1);  // no temporaries left
}

TEST_F(TensorFiles, FortranOrderIsTransposed) {
  const auto tensor = parse_npy(
      npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", {1, 4, 2, 5, 3, 6}), "t");
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  const auto values = tensor.value().view().as<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(TensorFiles, BigEndianValuesAreTurnedRound) {
  // 1.0F is 3f 80 00 00; read the other way round it is the denormal 4.6006e-41.
  const float swapped = std::bit_cast<float>(uint32_t{0x0000803f});
  const auto tensor =
      parse_npy(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", {swapped}), "t");
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(tensor.value().view().as<float>()[0], 1);
  EXPECT_NE(tensor.value().note.find("big-endian"), std::string::npos);
}

TEST_F(TensorFiles, DamagedNpyFilesGiveErrors) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  const std::vector<std::byte> bytes = npy(good, {1, 2});
  ASSERT_TRUE(parse_npy(bytes, "t").ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_npy(std::span(bytes).first(size), "t").ok()) << size;
  }
  EXPECT_FALSE(
      parse_npy(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }\n", {1, 2}), "t")
          .ok());
  EXPECT_FALSE(
      parse_npy(
          npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999, 9999999, 9999999), }\n",
              {1}),
          "t")
          .ok());
  EXPECT_FALSE(parse_npy(npy("{'descr': '<f4', 'shape': (-2,), }\n", {1, 2}), "t").ok());
  EXPECT_FALSE(parse_npy(npy("{}\n", {}), "t").ok());
}

TEST_F(TensorFiles, MissingFilesAndFolders) {
  EXPECT_EQ(read_tensor(folder_ / "none.npy").status().code(), ErrorCode::kIo);
  EXPECT_EQ(read_tensor(folder_).status().code(), ErrorCode::kIo);
  EXPECT_EQ(write_file(folder_ / "no" / "such", std::string("x")).code(), ErrorCode::kIo);
  ASSERT_TRUE(write_file(folder_ / "x.npz", std::string("not a zip file at all, really not")).ok());
  EXPECT_FALSE(read_npz(folder_ / "x.npz").ok());
}

TEST_F(TensorFiles, RawFilesHaveNoShape) {
  ASSERT_TRUE(write_file(folder_ / "x.bin", std::string("abcd")).ok());
  const auto tensor = read_tensor(folder_ / "x.bin");
  ASSERT_TRUE(tensor.ok());
  EXPECT_FALSE(tensor.value().has_shape);
  EXPECT_EQ(tensor.value().bytes.size(), 4u);
}

TEST(FileNames, SeparatorsGoAway) {
  EXPECT_EQ(file_name_of("a/b:0\n"), "a_b_0_");
}

}  // namespace
}  // namespace camshaft::cli
