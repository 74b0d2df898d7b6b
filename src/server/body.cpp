// SPDX-License-Identifier: Apache-2.0
#include "server/body.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "server/gzip_sink.h"

namespace camshaft::server {
namespace {

constexpr size_t kMostInMemory = size_t{4} << 20;

int nameless_file() {
  std::error_code error;
  std::string path =
      (std::filesystem::temp_directory_path(error) / "camshaft_answer_XXXXXX").string();
  const int file = ::mkstemp(path.data());
  if (file >= 0) ::unlink(path.c_str());
  return file;
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

Body::~Body() {
  if (file_ >= 0) ::close(file_);
}

size_t Body::read(uint64_t offset, char* into, size_t size) const {
  if (offset >= size_) return 0;
  const size_t part = static_cast<size_t>(std::min<uint64_t>(size, size_ - offset));
  if (file_ < 0) {
    std::memcpy(into, text_.data() + offset, part);
    return part;
  }
  const ssize_t got = ::pread(file_, into, part, static_cast<off_t>(offset));
  return got < 0 ? 0 : static_cast<size_t>(got);
}

bool Body::append(std::string_view piece) {
  if (file_ < 0 && text_.size() + piece.size() <= kMostInMemory) {
    text_.append(piece);
  } else {
    if (file_ < 0) {
      file_ = nameless_file();
      if (file_ < 0 || !write_all(file_, text_)) return false;
      text_ = {};
    }
    if (!write_all(file_, piece)) return false;
  }
  size_ += piece.size();
  return true;
}

Result<BodyPtr> Body::of_file(const std::string& path) {
  auto body = std::make_shared<Body>();
  body->file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  if (body->file_ < 0 || ::fstat(body->file_, &about) != 0)
    return make_error(ErrorCode::kIo, "cannot read {}: {}", path, std::strerror(errno));
  body->size_ = static_cast<uint64_t>(about.st_size);
  return BodyPtr(std::move(body));
}

BodyPtr packed_body(const std::function<bool(const PieceSink&)>& write) {
  auto body = std::make_shared<Body>();
  const GzipSink::Sink keep = [&](std::string_view piece) { return body->append(piece); };
  GzipSink packed(keep);
  const bool done =
      write([&](std::string_view text) { return packed.write(text); }) && packed.write("", true);
  return done ? body : nullptr;
}

}  // namespace camshaft::server
