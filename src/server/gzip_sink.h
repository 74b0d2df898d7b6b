// SPDX-License-Identifier: Apache-2.0
// Packs a text as it comes and sends it on in pieces.
#pragma once

#include <zlib.h>

#include <functional>
#include <string_view>
#include <vector>

namespace camshaft::server {

class GzipSink {
 public:
  using Sink = std::function<bool(std::string_view)>;

  explicit GzipSink(const Sink& sink);
  ~GzipSink();
  GzipSink(const GzipSink&) = delete;
  GzipSink& operator=(const GzipSink&) = delete;

  // False when the sink said no; `last` ends the stream.
  bool write(std::string_view text, bool last = false);

 private:
  const Sink& sink_;
  std::vector<char> out_;
  z_stream stream_{};
  bool ready_ = false;
};

}  // namespace camshaft::server
