// SPDX-License-Identifier: Apache-2.0
#include "archive/zip.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <cstring>

namespace camshaft {
namespace {

constexpr size_t kMostName = 1 << 12;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // minizip counts in 32 bits

}  // namespace

struct ZipReader::State {
  ReadAt bytes;
  uint64_t size = 0, offset = 0, position = 0, member_size = 0;
  bool failed = false;  // the last read of the archive itself
  unzFile handle = nullptr;
  bool is_open = false, is_damaged = false;
  std::string name;

  ~State() {
    close();
    if (handle != nullptr) unzClose(handle);
  }
  // Checks the member's checksum when all of it was read.
  void close() {
    if (is_open && unzCloseCurrentFile(handle) == UNZ_CRCERROR) is_damaged = true;
    is_open = false;
  }

  static State* of(voidpf opaque) { return static_cast<State*>(opaque); }
  static voidpf open_file(voidpf opaque, const void*, int) { return opaque; }
  static uLong read_file(voidpf opaque, voidpf, void* into, uLong count) {
    auto got = of(opaque)->bytes(of(opaque)->offset, static_cast<char*>(into), count);
    of(opaque)->failed = !got.ok();
    if (!got.ok()) return 0;
    of(opaque)->offset += *got;
    return static_cast<uLong>(*got);
  }
  static uLong write_file(voidpf, voidpf, const void*, uLong) { return 0; }
  static ZPOS64_T tell(voidpf opaque, voidpf) { return of(opaque)->offset; }
  static long seek(voidpf opaque, voidpf, ZPOS64_T offset, int origin) {
    State& state = *of(opaque);
    const uint64_t base = origin == ZLIB_FILEFUNC_SEEK_SET   ? 0
                          : origin == ZLIB_FILEFUNC_SEEK_CUR ? state.offset
                                                             : state.size;
    if (offset > state.size || base + offset > state.size) return -1;
    state.offset = base + offset;
    return 0;
  }
  static int close_file(voidpf, voidpf) { return 0; }
  static int error_of_file(voidpf opaque, voidpf) { return of(opaque)->failed ? 1 : 0; }
};

ZipReader::ZipReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ZipReader::~ZipReader() = default;

Result<std::unique_ptr<ZipReader>> ZipReader::open(ReadAt bytes, uint64_t size) {
  auto state = std::make_unique<State>();
  state->bytes = std::move(bytes);
  state->size = size;
  zlib_filefunc64_def functions{State::open_file,     State::read_file, State::write_file,
                                State::tell,          State::seek,      State::close_file,
                                State::error_of_file, state.get()};
  state->handle = unzOpen2_64("", &functions);
  if (state->handle == nullptr)
    return make_error(ErrorCode::kCorrupt, "the zip archive has no directory");
  return std::unique_ptr<ZipReader>(new ZipReader(std::move(state)));
}

Result<std::unique_ptr<ZipReader>> ZipReader::open(const void* bytes, size_t size) {
  const auto* from = static_cast<const char*>(bytes);
  return open(
      [from, size](uint64_t offset, char* into, size_t capacity) -> Result<size_t> {
        const size_t part = offset >= size ? 0 : std::min<size_t>(capacity, size - offset);
        if (part > 0) std::memcpy(into, from + offset, part);
        return part;
      },
      size);
}

Result<bool> ZipReader::first() {
  state_->close();
  return arrive(unzGoToFirstFile(state_->handle));
}

Result<bool> ZipReader::next() {
  state_->close();
  return arrive(unzGoToNextFile(state_->handle));
}

Result<bool> ZipReader::arrive(int code) {
  if (code == UNZ_END_OF_LIST_OF_FILE) return false;
  unz_file_info64 info{};
  std::string name(kMostName, '\0');
  if (code == UNZ_OK)
    code = unzGetCurrentFileInfo64(state_->handle, &info, name.data(), name.size() - 1, nullptr, 0,
                                   nullptr, 0);
  if (code != UNZ_OK)
    return make_error(ErrorCode::kCorrupt, "the zip archive's directory is damaged");
  name.resize(std::min<size_t>(info.size_filename, name.size() - 1));
  state_->name = std::move(name);
  state_->member_size = info.uncompressed_size;
  state_->is_damaged = false;
  return true;
}

const std::string& ZipReader::name() const {
  return state_->name;
}

uint64_t ZipReader::size() const {
  return state_->member_size;
}

Result<size_t> ZipReader::read(char* into, size_t capacity) {
  State& state = *state_;
  if (!state.is_open && !state.is_damaged) {
    if (unzOpenCurrentFile(state.handle) != UNZ_OK)
      return make_error(ErrorCode::kUnsupported,
                        "{}: the zip archive does not hold it stored or deflated", state.name);
    state.is_open = true;
  }
  size_t made = 0;
  while (made < capacity && state.is_open) {
    const auto most = static_cast<unsigned>(std::min(capacity - made, kMostAtOnce));
    const int got = unzReadCurrentFile(state.handle, into + made, most);
    state.position = state.offset;
    if (got > 0) {
      made += static_cast<size_t>(got);
      continue;
    }
    if (got < 0) state.is_damaged = true;  // what was unpacked so far stands
    if (made == 0 || got < 0) state.close();
    break;
  }
  return made;
}

bool ZipReader::is_damaged() const {
  return state_->is_damaged;
}

uint64_t ZipReader::position() const {
  return state_->position;
}

}  // namespace camshaft
