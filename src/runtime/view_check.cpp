// SPDX-License-Identifier: Apache-2.0
#include "runtime/view_check.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/ranges.h>

namespace camshaft::runtime {

namespace {

int check_level() {
  static const int level = [] {
    if (const char* wanted = std::getenv("CAMSHAFT_CHECK_VIEWS")) return std::atoi(wanted);
#ifdef NDEBUG
    return CAMSHAFT_ADDRESS_SANITIZER;
#else
    return 1;
#endif
  }();
  return level;
}

}  // namespace

bool checks_views() {
  return check_level() >= 1;
}
bool fences_views() {
  return check_level() >= 2;
}

Status check_view(const kernels::TensorView& view, const MemoryRange& room) {
  if (!view.present() || view.elements() == 0) return ok_status();
  const auto describe = [&] {
    return fmt::format("extents {}, strides {}",
                       fmt::join(view.extents, view.extents + view.rank, "x"),
                       fmt::join(view.strides, view.strides + view.rank, ","));
  };
  if (!view.data) return make_error(ErrorCode::kInternal, "no memory for {}", describe());
  int64_t first = 0, last = 0;
  for (int d = 0; d < view.rank; ++d)
    (view.strides[d] < 0 ? first : last) += (view.extents[d] - 1) * view.strides[d];
  const auto bits = static_cast<int64_t>(ir::bits_of(view.type));
  const int64_t start = static_cast<const std::byte*>(view.data) - room.data + first * bits / 8;
  const int64_t end =
      static_cast<const std::byte*>(view.data) - room.data + ((last + 1) * bits + 7) / 8;
  if (start < 0 || end > static_cast<int64_t>(room.bytes))
    return make_error(ErrorCode::kInternal, "bytes {} to {} of {}: {}", start, end, room.bytes,
                      describe());
  return ok_status();
}

#if CAMSHAFT_ADDRESS_SANITIZER
namespace {
constexpr size_t kFence = 4096;
}

void Poison::cover(const MemoryRange& range) {
  if (range.bytes == 0) return;
  __asan_poison_memory_region(range.data, range.bytes);
  covered_.push_back(range);
}
void Poison::uncover(const MemoryRange& range) {
  if (range.bytes > 0) __asan_unpoison_memory_region(range.data, range.bytes);
}
void Poison::fence(const MemoryRange& range, const MemoryRange& whole) {
  const std::byte* end = range.data + range.bytes;
  const size_t before = std::min(kFence, static_cast<size_t>(range.data - whole.data));
  const size_t after = std::min(kFence, static_cast<size_t>(whole.data + whole.bytes - end));
  cover({range.data - before, before});
  cover({end, after});
}
void Poison::clear() {
  for (const MemoryRange& range : covered_) uncover(range);
  covered_.clear();
}
#else
void Poison::cover(const MemoryRange&) {}
void Poison::uncover(const MemoryRange&) {}
void Poison::fence(const MemoryRange&, const MemoryRange&) {}
void Poison::clear() {}
#endif

}  // namespace camshaft::runtime
