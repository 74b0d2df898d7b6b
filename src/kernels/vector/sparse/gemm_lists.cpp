// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/sparse/gemm_lists.h"

#include <cstring>

#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/movement/transpose_tile.h"
#include "kernels/vector/sparse/list_pixels.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr float kInfinity = __builtin_inff();
constexpr int64_t kStoredChannels = 64;  // of all pixels of a block: 16 or 32 KiB of output

template <int kVecs>
CAMSHAFT_INLINE void add_entry(const std::byte* x, const ListEntry& entry, F32 (&sums)[kVecs]) {
  const float* row = reinterpret_cast<const float*>(x + entry.offset);
  const F32 weight = set1(entry.weight);
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) sums[v] = fma(load(row + v * kLanes), weight, sums[v]);
}

// Y += X · list, one output channel of kVecs vectors of pixels. Few vectors take turns with more
// sets of sums, so that eight multiply-adds are under way. `bias`: what Y begins with, null: its
// values; `bounds`: of the result, null: none.
template <int kVecs>
void add_list(const std::byte* x, const ListEntry* entry, const ListEntry* end, const float* bias,
              const float* bounds, float* y) {
  constexpr int kSets = kVecs > 4 ? 1 : kVecs > 2 ? 2 : 4;
  F32 sums[kSets][kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) sums[0][v] = bias ? set1(*bias) : load(y + v * kLanes);
#pragma GCC unroll 4
  for (int s = 1; s < kSets; ++s)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) sums[s][v] = set1(0);
  for (; end - entry >= kSets; entry += kSets)
#pragma GCC unroll 4
    for (int s = 0; s < kSets; ++s) add_entry(x, entry[s], sums[s]);
  for (; entry < end; ++entry) add_entry(x, *entry, sums[0]);
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    F32 sum = sums[0][v];
#pragma GCC unroll 4
    for (int s = 1; s < kSets; ++s) sum = sum + sums[s][v];
    if (bounds) sum = min(set1(bounds[1]), max(set1(bounds[0]), sum));
    store(y + v * kLanes, sum);
  }
}

using AddList = void (*)(const std::byte*, const ListEntry*, const ListEntry*, const float*,
                         const float*, float*);
constexpr AddList kAddList[kListVecs + 1] = {nullptr,     add_list<1>, add_list<2>,
                                             add_list<3>, add_list<4>, add_list<5>,
                                             add_list<6>, add_list<7>, add_list<8>};

void zero(float* to, int64_t rows, int64_t count) {
  for (int64_t r = 0; r < rows; ++r)
    std::memset(to + r * kListPixels, 0, static_cast<size_t>(count * kLaneBytes));
}

// What the pixels of `place` see through a tap: one row of X per channel.
void turn_tap(const ConvRun& run, const TilePlace& place, const Tap& tap, float* to) {
  const ConvShape& s = run.shape;
  const TapView view(s, place, tap);
  const int64_t begin = view.begin, end = view.end;
  if (begin > 0) zero(to, tap.channels, begin);
  if (end < place.pixels) zero(to + end, tap.channels, place.pixels - end);
  if (begin == end) return;
  const std::byte* from = view.first(run) + tap.channel * kLaneBytes;
  transpose_block(reinterpret_cast<const float*>(from), s.sw * run.x.pixel / kLaneBytes, to + begin,
                  kListPixels, end - begin, tap.channels);
}

struct ListKernel {
  ConvRun run;
  ListLayout layout;
  EvenSplit pixels, chunks;  // chunks of a group's channels
  int64_t worker_bytes;
  bool is_shared;  // among threads
  bool has_bounds;
  float bounds[2];

  int64_t units() const { return layout.groups * chunks.parts * pixels.parts; }

  // Rows [first, first + count) of a group's K.
  void turn(int64_t group, int64_t first_pixel, int64_t count, int64_t first, int64_t rows,
            float* x) const {
    const ConvShape& s = run.shape;
    const int64_t ic = s.group_ic();
    for (int64_t k = first; k < first + rows;) {
      const int64_t tap = k / ic, channel = k % ic;
      const int64_t channels = smaller(ic - channel, first + rows - k);
      float* to = x + (k - first) * kListPixels;
      for_each_run(s, first_pixel, count, [&](const TilePlace& place, int64_t before) {
        turn_tap(run, place, {tap / s.kw, tap % s.kw, group * ic + channel, channels}, to + before);
      });
      const int64_t padded = round_up(count, kLanes);
      if (padded > count) zero(to + count, channels, padded - count);
      k += channels;
    }
  }

  void store(const float* y, int64_t first_pixel, int64_t count, int64_t channel,
             int64_t channels) const {
    const TileOutput& out = run.finish.out;
    for (int64_t c = 0; c < channels; c += kStoredChannels) {
      const int64_t some = smaller(kStoredChannels, channels - c);
      for_each_run(run.shape, first_pixel, count, [&](const TilePlace& place, int64_t before) {
        std::byte* to = out.data + place.image * out.image + place.row * out.row +
                        place.col * out.pixel + (channel + c) * kLaneBytes;
        transpose_block(y + c * kListPixels + before, kListPixels, reinterpret_cast<float*>(to),
                        out.pixel / kLaneBytes, some, place.pixels);
        finish_tiles(run.finish, place, channel + c, some);
      });
    }
  }

  void run_unit(int64_t unit, const std::byte* packed, std::byte* scratch) const {
    const int64_t part = unit % pixels.parts, chunk = unit / pixels.parts % chunks.parts;
    const int64_t group = unit / pixels.parts / chunks.parts;
    const int64_t first_pixel = pixels.start(part) * kLanes;
    const int64_t all = run.shape.batch * run.shape.oh * run.shape.ow;
    const int64_t count = smaller(pixels.size(part) * kLanes, all - first_pixel);
    const int64_t first = chunks.start(chunk), channels = chunks.size(chunk);
    const AddList add = kAddList[pixels.size(part)];
    const float* bias = reinterpret_cast<const float*>(packed) + group * layout.channels + first;
    const int32_t* ends = layout.ends(packed);
    const ListEntry* entries = reinterpret_cast<const ListEntry*>(packed + layout.entries_at);
    float* x = reinterpret_cast<float*>(scratch);
    float* y = x + kListRows * kListPixels;
    for (int64_t b = 0; b < layout.blocks.parts; ++b) {
      turn(group, first_pixel, count, layout.blocks.start(b), layout.blocks.size(b), x);
      const float* clamps = has_bounds && b + 1 == layout.blocks.parts ? bounds : nullptr;
      const int64_t list = layout.list(group, b, first);
      int32_t at = list == 0 ? 0 : ends[list - 1];
      for (int64_t c = 0; c < channels; ++c) {
        const int32_t end = ends[list + c];
        add(scratch, entries + at, entries + end, b == 0 ? bias + c : nullptr, clamps,
            y + c * kListPixels);
        at = end;
      }
    }
    store(y, first_pixel, count, group * layout.channels + first, channels);
  }
};

void run_lists(ListKernel& kernel, const KernelCall& call) {
  kernel.run.x.data = call.input<const std::byte>(0);
  set_addresses(call, kFirstConvOperand, kernel.run.finish);
  ThreadPool& pool = kernel.is_shared ? *call.pool : ThreadPool::serial();
  pool.parallel_ranges(kernel.units(), [&](int worker, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit)
      kernel.run_unit(unit, call.packed, call.workspace + worker * kernel.worker_bytes);
  });
}

}  // namespace

ListLayout::ListLayout(const ConvShape& s, int64_t divisor)
    : groups(s.groups),
      channels(s.group_oc()),
      k(s.kh * s.kw * s.group_ic()),
      blocks(split_evenly(k, kListRows)),
      capacity(groups * channels * k / divisor),
      bias_lanes(round_up(s.oc, 16)),
      ends_at(bias_lanes * kLaneBytes),
      entries_at(round_up(ends_at + groups * blocks.parts * channels * 4, 64)),
      bytes(entries_at + capacity * static_cast<int64_t>(sizeof(ListEntry))) {}

void pack_lists(const ConvShape& s, const ListLayout& layout, const Filter<float>& filter,
                float alpha, const float* bias, std::byte* packed) {
  std::memset(packed, 0, static_cast<size_t>(layout.bytes));
  if (bias) std::memcpy(packed, bias, static_cast<size_t>(s.oc * kLaneBytes));
  int32_t* ends = reinterpret_cast<int32_t*>(packed + layout.ends_at);
  ListEntry* entries = reinterpret_cast<ListEntry*>(packed + layout.entries_at);
  int32_t count = 0;
  for (int64_t group = 0; group < layout.groups; ++group)
    for (int64_t b = 0; b < layout.blocks.parts; ++b)
      for (int64_t n = 0; n < layout.channels; ++n) {
        for (int64_t row = 0; row < layout.blocks.size(b); ++row) {
          const int64_t k = layout.blocks.start(b) + row, c = k % s.group_ic(),
                        tap = k / s.group_ic();
          const float weight = filter.data[group * filter.group + n * filter.n + c * filter.c +
                                           tap / s.kw * filter.h + tap % s.kw * filter.w];
          if (weight != 0)
            entries[count++] = {static_cast<int32_t>(row * kListRowBytes), weight * alpha};
        }
        ends[layout.list(group, b, n)] = count;
      }
}

double lists_cost_us(const ConvShape& s, double nonzeros) {
  constexpr double kCyclesPerUs = 4000;
  // Measured: two thirds of the multiply-adds a core can do with vectors of 256 bits, half with
  // 512.
  constexpr double kPerCycle = kIsa == Isa::kAvx512 ? 1.0 : kIsa == Isa::kAvx2 ? 1.35 : 0.5;
  const double pixels = static_cast<double>(round_up(s.batch * s.oh * s.ow, kLanes));
  const double k = static_cast<double>(s.kh * s.kw * s.group_ic() * s.groups);
  const double chunks = static_cast<double>(ceil_div(s.group_oc(), kListChannels));
  const double turned = pixels * (k * chunks + static_cast<double>(s.oc));
  const double blocks =
      static_cast<double>(ceil_div(s.kh * s.kw * s.group_ic(), kListRows)) * pixels / kListPixels;
  const double vectors = pixels / kLanes, lists = vectors < 2 ? 2 : vectors;
  const double cycles =
      lists * nonzeros / kPerCycle + turned * 0.35 + blocks * static_cast<double>(s.oc) * 25;
  return cycles / kCyclesPerUs;
}

void prepare_lists(const KernelArgs& args, const ConvRun& run, const ListLayout& layout,
                   PreparedKernel& kernel) {
  const Epilogue& epilogue = run.finish.epilogue;
  ListKernel state{run, layout, {0, 0, 0}, {0, 0, 0},
                   0,   false,  false,     {epilogue.low, epilogue.high}};
  state.has_bounds =
      epilogue.is_clamp() && (epilogue.low > -kInfinity || epilogue.high < kInfinity);
  // Other sums are no longer in registers when their channels are neighbours.
  if (!epilogue.is_clamp()) set_program(state.run.finish);
  merge_rows(state.run);
  const ConvShape& s = state.run.shape;
  state.pixels = split_evenly(ceil_div(s.batch * s.oh * s.ow, kLanes), kListVecs);
  state.is_shared = args.pool && s.macs() >= kMacsWorthThreads;
  const int threads = state.is_shared ? threads_of(args) : 1;
  // Every thread has a part; parts of sixteen channels at least, as their pixels are turned for
  // each.
  const int64_t wanted = ceil_div(threads, at_least_one(state.pixels.parts * layout.groups));
  const int64_t most = smaller(kListChannels, at_least_one(ceil_div(layout.channels, wanted)));
  state.chunks = split_evenly(layout.channels, most < 16 ? 16 : most);
  state.worker_bytes = (kListRows + state.chunks.size(0)) * kListRowBytes;
  kernel.workspace_bytes = static_cast<size_t>(state.worker_bytes * threads);
  keep_state<run_lists>(kernel, state);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
