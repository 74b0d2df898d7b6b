// SPDX-License-Identifier: Apache-2.0
#include "server/gzip_sink.h"

#include <algorithm>

namespace camshaft::server {
namespace {

constexpr size_t kPackedPieceBytes = size_t{256} << 10;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // zlib counts in 32 bits
constexpr int kLevel = 1;                        // the reader waits for it

}  // namespace

GzipSink::GzipSink(const Sink& sink) : sink_(sink), out_(kPackedPieceBytes) {
  ready_ = deflateInit2(&stream_, kLevel, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
}

GzipSink::~GzipSink() {
  deflateEnd(&stream_);
}

bool GzipSink::write(std::string_view text, bool last) {
  if (!ready_) return false;
  do {
    const size_t part = std::min(text.size(), kMostAtOnce);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(part);
    text.remove_prefix(part);
    const bool ends = last && text.empty();
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      if (deflate(&stream_, ends ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR) return false;
      const size_t made = out_.size() - stream_.avail_out;
      if (made > 0 && !sink_(std::string_view(out_.data(), made))) return false;
    } while (stream_.avail_out == 0);
  } while (!text.empty());
  return true;
}

}  // namespace camshaft::server
