// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "onnx/model.h"

namespace camshaft::onnx_import {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& file) {
  const auto failure = [&] {
    return make_error(ErrorCode::kIo, "cannot read {}: {}", file.string(), std::strerror(errno));
  };
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return failure();
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) {
    const Status status = failure();
    ::close(descriptor);
    return status;
  }
  if (!S_ISREG(facts.st_mode)) {
    ::close(descriptor);
    return make_error(ErrorCode::kIo, "cannot read {}: not a regular file", file.string());
  }
  const size_t size = static_cast<size_t>(facts.st_size);
  void* data = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const Status status = data == MAP_FAILED ? failure() : ok_status();
  ::close(descriptor);
  if (!status.ok()) return status;
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace camshaft::onnx_import
