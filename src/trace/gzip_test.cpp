// SPDX-License-Identifier: Apache-2.0
#include "trace/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

namespace camshaft::trace {
namespace {

std::string unpacked(const std::string& packed, size_t size) {
  std::string out(size + 1, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);  // one member, checksum and length right
  EXPECT_EQ(stream.avail_in, 0u);
  out.resize(out.size() - stream.avail_out);
  inflateEnd(&stream);
  return out;
}

// Lengths around the stretches that are packed apart; texts that pack well and that do not at all.
TEST(Gzip, UnpacksToTheSame) {
  constexpr size_t kStretch = size_t{512} << 10;
  std::mt19937 random(1);
  for (const size_t size : {size_t{0}, size_t{1}, kStretch - 1, kStretch, kStretch + 1,
                            2 * kStretch, 3 * kStretch + 12345})
    for (const bool packs_well : {true, false})
      for (const int level : {1, 6}) {
        std::string text(size, 'a');
        for (size_t k = 0; k < size; ++k)
          text[k] = static_cast<char>(packs_well ? 'a' + k / 7 % 20 : random());
        EXPECT_TRUE(unpacked(gzip(text, level), size) == text) << size << " level " << level;
      }
}

}  // namespace
}  // namespace camshaft::trace
