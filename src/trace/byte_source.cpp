// SPDX-License-Identifier: Apache-2.0
// Decompressors behind one read(): zlib for gzip, zstd, minizip for zip. Damage inside a stream
// ends it early rather than failing.
#include "trace/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "archive/zip.h"

namespace camshaft::trace {
namespace {

constexpr size_t kInputBytes = size_t{1} << 18;

// Raw bytes of a file or of memory, with random access for zip directories.
class RawInput {
 public:
  virtual ~RawInput() = default;
  virtual Result<size_t> read_at(uint64_t offset, char* into, size_t capacity) = 0;
  uint64_t size() const { return size_; }

 protected:
  uint64_t size_ = 0;
};

class FileInput : public RawInput {
 public:
  FileInput(int descriptor, uint64_t size) : descriptor_(descriptor) { size_ = size; }
  ~FileInput() override { ::close(descriptor_); }
  Result<size_t> read_at(uint64_t offset, char* into, size_t capacity) override {
    for (;;) {
      const ssize_t got = ::pread(descriptor_, into, capacity, static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR)
        return make_error(ErrorCode::kIo, "cannot read: {}", std::strerror(errno));
    }
  }

 private:
  int descriptor_;
};

class MemoryInput : public RawInput {
 public:
  MemoryInput(const char* bytes, size_t count) : bytes_(bytes) { size_ = count; }
  Result<size_t> read_at(uint64_t offset, char* into, size_t capacity) override {
    const size_t count = offset >= size_ ? 0 : std::min<size_t>(capacity, size_ - offset);
    if (count > 0) std::memcpy(into, bytes_ + offset, count);
    return count;
  }

 private:
  const char* bytes_;
};

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(std::shared_ptr<RawInput> input, uint64_t offset = 0)
      : input_(std::move(input)), offset_(offset) {
    file_bytes_ = input_->size();
  }
  Result<size_t> read(char* into, size_t capacity) override {
    CAMSHAFT_ASSIGN(const size_t got, input_->read_at(offset_, into, capacity));
    offset_ += got;
    return got;
  }
  uint64_t consumed() const override { return offset_; }

 private:
  std::shared_ptr<RawInput> input_;
  uint64_t offset_;
};

// Feeds compressed bytes from `offset` on to a decompressor.
class CompressedSource : public ByteSource {
 public:
  CompressedSource(std::shared_ptr<RawInput> input, uint64_t offset)
      : input_(std::move(input)), offset_(offset), buffer_(kInputBytes) {
    file_bytes_ = input_->size();
  }
  uint64_t consumed() const override { return offset_ - (end_ - next_); }

 protected:
  // Makes at least one byte available at next(); false at the end of the input.
  Result<bool> refill() {
    if (next_ < end_) return true;
    CAMSHAFT_ASSIGN(end_, input_->read_at(offset_, buffer_.data(), buffer_.size()));
    next_ = 0;
    offset_ += end_;
    return end_ > 0;
  }
  const char* next() const { return buffer_.data() + next_; }
  size_t available() const { return end_ - next_; }
  void use(size_t bytes) { next_ += bytes; }

 private:
  std::shared_ptr<RawInput> input_;
  uint64_t offset_;
  std::vector<char> buffer_;
  size_t next_ = 0, end_ = 0;
};

class InflateSource : public CompressedSource {
 public:
  InflateSource(std::shared_ptr<RawInput> input, uint64_t offset, bool is_gzip)
      : CompressedSource(std::move(input), offset), is_gzip_(is_gzip) {
    ready_ = inflateInit2(&stream_, is_gzip ? 15 + 16 : -15) == Z_OK;
  }
  ~InflateSource() override { inflateEnd(&stream_); }

  Result<size_t> read(char* into, size_t capacity) override {
    if (!ready_) return make_error(ErrorCode::kInternal, "zlib cannot be set up");
    size_t made = 0;
    while (made < capacity && !done_) {
      CAMSHAFT_ASSIGN(const bool more, refill());
      if (!more) {
        cut_short_ = cut_short_ || !between_members_;
        break;
      }
      CAMSHAFT_TRY(step(into, capacity, made));
    }
    return made;
  }

 private:
  Status step(char* into, size_t capacity, size_t& made) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next()));
    stream_.avail_in = static_cast<uInt>(available());
    const size_t room = std::min<size_t>(capacity - made, size_t{1} << 30);
    stream_.next_out = reinterpret_cast<Bytef*>(into + made);
    stream_.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    use(available() - stream_.avail_in);
    made += room - stream_.avail_out;
    between_members_ = false;
    if (code == Z_STREAM_END) {
      between_members_ = true;
      done_ = !is_gzip_ ||
              inflateReset(&stream_) != Z_OK;  // gzip files may be several members in a row
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      done_ = true;
      // Bytes after a whole member that are no further member are padding, not damage.
      cut_short_ = stream_.total_out > 0 || !seen_member_;
    }
    seen_member_ = seen_member_ || between_members_;
    return ok_status();
  }

  z_stream stream_{};
  bool is_gzip_;
  bool ready_ = false, done_ = false, between_members_ = false, seen_member_ = false;
};

class ZstdSource : public CompressedSource {
 public:
  explicit ZstdSource(std::shared_ptr<RawInput> input)
      : CompressedSource(std::move(input), 0), stream_(ZSTD_createDStream()) {}
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  Result<size_t> read(char* into, size_t capacity) override {
    ZSTD_outBuffer out{into, capacity, 0};
    while (out.pos < out.size && !done_) {
      CAMSHAFT_ASSIGN(const bool more, refill());
      if (!more) {
        cut_short_ = pending_ != 0;
        break;
      }
      ZSTD_inBuffer in{next(), available(), 0};
      pending_ = ZSTD_decompressStream(stream_, &out, &in);
      use(in.pos);
      if (ZSTD_isError(pending_)) cut_short_ = done_ = true;
    }
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_;
  size_t pending_ = 0;
  bool done_ = false;
};

uint64_t little_endian(const char* bytes, int count) {
  uint64_t value = 0;
  for (int k = count - 1; k >= 0; --k) value = value << 8 | static_cast<unsigned char>(bytes[k]);
  return value;
}

Result<std::string> read_exactly(RawInput& input, uint64_t offset, size_t count) {
  std::string bytes(count, '\0');
  CAMSHAFT_ASSIGN(const size_t got, input.read_at(offset, bytes.data(), count));
  bytes.resize(got);
  return bytes;
}

// The first member named *.json*, else the first with anything in it.
class ZipSource : public ByteSource {
 public:
  ZipSource(std::unique_ptr<ZipReader> zip, uint64_t file_bytes) : zip_(std::move(zip)) {
    file_bytes_ = file_bytes;
  }

  Status choose() {
    for (const bool by_name : {true, false}) {
      CAMSHAFT_ASSIGN(bool found, zip_->first());
      while (found) {
        const bool is_json = zip_->name().find(".json") != std::string::npos;
        if (by_name ? is_json : zip_->size() > 0) return ok_status();
        CAMSHAFT_ASSIGN(found, zip_->next());
      }
    }
    return make_error(ErrorCode::kCorrupt, "the zip archive holds no file");
  }

  Result<size_t> read(char* into, size_t capacity) override {
    CAMSHAFT_ASSIGN(const size_t got, zip_->read(into, capacity));
    cut_short_ = zip_->is_damaged();
    return got;
  }
  uint64_t consumed() const override { return zip_->position(); }

 private:
  std::unique_ptr<ZipReader> zip_;
};

// An archive that was cut short has lost its directory: its members are read as their own headers
// announce them, up to the first *.json*, which lasts to the end of what is there.
Result<std::unique_ptr<ByteSource>> open_cut_zip(std::shared_ptr<RawInput> input) {
  constexpr int kMostMembers = 1000;
  uint64_t at = 0;
  for (int k = 0; k < kMostMembers; ++k) {
    CAMSHAFT_ASSIGN(const std::string header, read_exactly(*input, at, 30));
    if (header.size() != 30 || little_endian(header.data(), 4) != 0x04034b50) break;
    const size_t name_size = little_endian(&header[26], 2);
    CAMSHAFT_ASSIGN(const std::string name, read_exactly(*input, at + 30, name_size));
    const uint64_t data = at + 30 + name_size + little_endian(&header[28], 2);
    const uint64_t compressed = little_endian(&header[18], 4),
                   method = little_endian(&header[8], 2);
    if (name.find(".json") != name.npos && method == 8)
      return std::unique_ptr<ByteSource>(
          std::make_unique<InflateSource>(std::move(input), data, false));
    if (name.find(".json") != name.npos && method == 0)
      return std::unique_ptr<ByteSource>(std::make_unique<PlainSource>(std::move(input), data));
    if (compressed == 0 || compressed == 0xffffffffu) break;  // stands behind the data instead
    at = data + compressed;
  }
  return make_error(ErrorCode::kCorrupt, "the zip archive is cut short before any JSON file");
}

Result<std::unique_ptr<ByteSource>> open_zip(std::shared_ptr<RawInput> input) {
  auto zip =
      ZipReader::open([input](uint64_t offset, char* into,
                              size_t capacity) { return input->read_at(offset, into, capacity); },
                      input->size());
  if (!zip.ok()) return open_cut_zip(std::move(input));
  auto source = std::make_unique<ZipSource>(std::move(*zip), input->size());
  CAMSHAFT_TRY(source->choose());
  return std::unique_ptr<ByteSource>(std::move(source));
}

Result<std::unique_ptr<ByteSource>> choose_source(std::unique_ptr<RawInput> input) {
  char magic[4] = {};
  CAMSHAFT_ASSIGN(const size_t got, input->read_at(0, magic, sizeof magic));
  const std::string_view start(magic, got);
  if (start.substr(0, 2) == "\x1f\x8b")
    return std::unique_ptr<ByteSource>(std::make_unique<InflateSource>(std::move(input), 0, true));
  if (start == "\x28\xb5\x2f\xfd")
    return std::unique_ptr<ByteSource>(std::make_unique<ZstdSource>(std::move(input)));
  if (start == "PK\x03\x04") return open_zip(std::move(input));
  return std::unique_ptr<ByteSource>(std::make_unique<PlainSource>(std::move(input)));
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_byte_source(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return make_error(ErrorCode::kIo, "cannot open {}: {}", path, std::strerror(errno));
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return make_error(ErrorCode::kIo, "cannot open {}: not a regular file", path);
  }
  auto source =
      choose_source(std::make_unique<FileInput>(descriptor, static_cast<uint64_t>(info.st_size)));
  if (!source.ok()) return source.status().with_context(path);
  return source;
}

std::unique_ptr<ByteSource> memory_byte_source(const char* bytes, size_t count) {
  auto source = choose_source(std::make_unique<MemoryInput>(bytes, count));
  if (source.ok()) return std::move(source).value();
  return std::make_unique<PlainSource>(std::make_unique<MemoryInput>(bytes, count));
}

}  // namespace camshaft::trace
