// SPDX-License-Identifier: Apache-2.0
// Open addressing over a power of two; texts lie in blocks that never move, so views stay valid.
#include "trace/string_pool.h"

namespace camshaft::trace {
namespace {

uint64_t load64(const char* p, size_t bytes) {
  uint64_t word = 0;
  std::memcpy(&word, p, bytes);
  return word;
}

// Multiply-and-fold over 8-byte words: 2 bytes a cycle on the short names that dominate a trace.
uint32_t hash_of(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ull;
  uint64_t hash = text.size() * kMultiplier;
  const char* p = text.data();
  size_t left = text.size();
  for (; left >= 8; p += 8, left -= 8) {
    hash = (hash ^ load64(p, 8)) * kMultiplier;
    hash ^= hash >> 32;
  }
  hash = (hash ^ load64(p, left)) * kMultiplier;
  return static_cast<uint32_t>(hash >> 32);
}

}  // namespace

void StringPool::clear() {
  views_.assign(1, std::string_view());
  slots_.assign(1024, Slot());
}

char* StringPool::allocate(size_t bytes) {
  if (bytes > kBlockBytes / 4) {  // a block of its own, placed before the open one
    blocks_.insert(blocks_.end() - (blocks_.empty() ? 0 : 1), std::make_unique<char[]>(bytes));
    block_bytes_ += bytes;
    if (blocks_.size() == 1) block_used_ = kBlockBytes;
    return blocks_[blocks_.size() == 1 ? 0 : blocks_.size() - 2].get();
  }
  if (block_used_ + bytes > kBlockBytes) {
    blocks_.push_back(std::make_unique<char[]>(kBlockBytes));
    block_bytes_ += kBlockBytes;
    block_used_ = 0;
  }
  char* place = blocks_.back().get() + block_used_;
  block_used_ += bytes;
  return place;
}

void StringPool::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id == kEmpty) continue;
    size_t k = slot.hash & (slots_.size() - 1);
    while (slots_[k].id != kEmpty) k = (k + 1) & (slots_.size() - 1);
    slots_[k] = slot;
  }
}

StringId StringPool::find(std::string_view text) const {
  if (text.empty()) return 0;
  const uint32_t hash = hash_of(text);
  for (size_t k = hash & (slots_.size() - 1); slots_[k].id != kEmpty;
       k = (k + 1) & (slots_.size() - 1))
    if (slots_[k].hash == hash && views_[slots_[k].id] == text) return slots_[k].id;
  return static_cast<StringId>(size());
}

StringId StringPool::intern(std::string_view text) {
  if (text.empty()) return 0;
  const uint32_t hash = hash_of(text);
  size_t k = hash & (slots_.size() - 1);
  for (; slots_[k].id != kEmpty; k = (k + 1) & (slots_.size() - 1))
    if (slots_[k].hash == hash && views_[slots_[k].id] == text) return slots_[k].id;
  const auto id = static_cast<StringId>(views_.size());
  char* place = allocate(text.size());
  std::memcpy(place, text.data(), text.size());
  views_.emplace_back(place, text.size());
  slots_[k] = {hash, id};
  if (views_.size() * 2 > slots_.size()) grow();
  return id;
}

}  // namespace camshaft::trace
