// SPDX-License-Identifier: Apache-2.0
#include "engine/weights.h"

#include <cstring>

#include "base/topology.h"
#include "engine/file_format.h"
#include "engine/hash.h"

namespace camshaft::engine {

Weights::Weights() {
  file_.append(kSectionAlignment);
}

size_t Weights::bytes() const {
  return file_.size() - kSectionAlignment;
}

size_t Weights::add(std::span<const std::byte> bytes) {
  return add(bytes.size(), [&](std::byte* to) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  });
}

size_t Weights::add(size_t bytes, const std::function<void(std::byte*)>& write) {
  const InterleavedMemory interleaved;
  const size_t before = file_.size();
  file_.append(-before % kWeightAlignment);
  std::byte* const added = file_.append(bytes);
  write(added);
  const uint64_t hash = hash_bytes({added, bytes});
  const auto [first, last] = stored_.equal_range(hash);
  for (auto entry = first; entry != last; ++entry) {
    const auto [offset, size] = entry->second;
    if (size != bytes || std::memcmp(section().data() + offset, added, bytes) != 0) continue;
    file_.truncate(before);
    return offset;
  }
  const size_t offset = this->bytes() - bytes;
  stored_.emplace(hash, std::pair(offset, bytes));
  return offset;
}

}  // namespace camshaft::engine
