// SPDX-License-Identifier: Apache-2.0
// Long texts are packed in stretches, two threads taking turns: somebody waits for the answer.
#include "trace/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <future>
#include <vector>

namespace camshaft::trace {
namespace {

constexpr size_t kStretch = size_t{512} << 10;

// One stretch of a deflate stream, ended on a byte so that the next may follow.
std::string deflate_stretch(std::string_view text, int level, bool is_last) {
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, is_last ? Z_FINISH : Z_SYNC_FLUSH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::string gzip(std::string_view text, int level) {
  const size_t count = std::max<size_t>(1, (text.size() + kStretch - 1) / kStretch);
  std::vector<std::string> stretches(count);
  const auto pack = [&](size_t first) {
    for (size_t k = first; k < count; k += 2)
      stretches[k] = deflate_stretch(text.substr(k * kStretch, kStretch), level, k + 1 == count);
  };
  std::future<void> odd;
  if (count > 1) odd = std::async(std::launch::async, pack, 1);
  pack(0);
  if (odd.valid()) odd.get();
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  for (const std::string& stretch : stretches) out += stretch;
  uLong crc = crc32(0, nullptr, 0);
  for (size_t at = 0; at < text.size(); at += kStretch) {
    const std::string_view part = text.substr(at, kStretch);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
  }
  for (const uint32_t word : {static_cast<uint32_t>(crc), static_cast<uint32_t>(text.size())})
    for (int k = 0; k < 4; ++k) out += static_cast<char>(word >> (8 * k) & 0xff);
  return out;
}

}  // namespace camshaft::trace
