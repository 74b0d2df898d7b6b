// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/sparse/byte_lists.h"

#include <cstring>

#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_int16_tile.h"
#include "kernels/vector/movement/transpose_tile.h"
#include "kernels/vector/sparse/list_pixels.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int64_t kChunkChannels = 1024;  // of Y: X is made once for them
constexpr int64_t kLeastChunk = 16;
constexpr int kSumVecs = 2;  // of what follows the sums

struct ByteListKernel {
  ConvKernel conv;
  ByteLists lists;
  EvenSplit pixels, chunks;  // vectors; chunks of vectors of a group's channels
  int64_t x_bytes, pixel_bytes, y_bytes, sums_bytes, worker_bytes;
  bool is_shared;  // among threads

  int64_t units() const { return lists.groups * chunks.parts * pixels.parts; }

  void fill(std::byte* to, int64_t rows, int64_t count, uint8_t code) const {
    for (int64_t r = 0; r < rows; ++r)
      std::memset(to + r * kByteRowBytes, code, static_cast<size_t>(count * kLaneBytes));
  }

  // What the pixels of `place` see through a tap: one row per quad of channels.
  void turn_tap(const TilePlace& place, const Tap& tap, std::byte* copy, std::byte* to) const {
    const ConvRun& run = conv.run;
    const ConvShape& s = run.shape;
    const int64_t quads = ceil_div(tap.channels, kQuad);
    const TapView view(s, place, tap);
    const int64_t begin = view.begin, end = view.end;
    if (begin > 0) fill(to, quads, begin, run.x.padding);
    if (end < place.pixels) fill(to + end * kLaneBytes, quads, place.pixels - end, run.x.padding);
    if (begin == end) return;
    const std::byte* from = view.first(run) + tap.channel;
    int64_t stride = s.sw * run.x.pixel;
    const bool is_whole =
        tap.channels % kQuad == 0 &&
        (reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(stride)) % kLaneBytes == 0;
    if (!is_whole) {
      const int64_t copied = quads * kQuad;
      for (int64_t k = 0; k < end - begin; ++k) {
        std::memcpy(copy + k * copied, from + k * stride, static_cast<size_t>(tap.channels));
        std::memset(copy + k * copied + tap.channels, 0,
                    static_cast<size_t>(copied - tap.channels));
      }
      from = copy;
      stride = copied;
    }
    transpose_block(reinterpret_cast<const float*>(from), stride / kLaneBytes,
                    reinterpret_cast<float*>(to + begin * kLaneBytes), kByteListPixels, end - begin,
                    quads);
  }

  // Quads [first, first + count) of a group's K.
  void turn(int64_t group, int64_t first_pixel, int64_t pixels_there, int64_t first, int64_t count,
            std::byte* copy, std::byte* to) const {
    const ConvShape& s = conv.run.shape;
    for (int64_t k = first; k < first + count;) {
      const int64_t tap = k / lists.tap_quads, quad = k % lists.tap_quads;
      const int64_t quads = smaller(lists.tap_quads - quad, first + count - k);
      const int64_t channel = quad * kQuad;
      const int64_t channels = smaller(quads * kQuad, s.group_ic() - channel);
      std::byte* rows = to + (k - first) * kByteRowBytes;
      for_each_run(s, first_pixel, pixels_there, [&](const TilePlace& place, int64_t before) {
        turn_tap(place, {tap / s.kw, tap % s.kw, group * s.group_ic() + channel, channels}, copy,
                 rows + before * kLaneBytes);
      });
      const int64_t padded = round_up(pixels_there, kLanes);
      fill(rows + pixels_there * kLaneBytes, quads, padded - pixels_there, 0);
      k += quads;
    }
  }

  // `repeats` tiles of `rows` pixels; moves `tile` behind them.
  static void run_sums(Tile& tile, int vecs, int64_t rows, int64_t repeats) {
    if (repeats == 0) return;
    tile.repeats.count = repeats;
    sums_kernel(vecs, static_cast<int>(rows))(tile);
    const int64_t all = rows * repeats;
    tile.a.first += all * tile.a.stride;
    tile.c.first += all * tile.c.stride;
    if (tile.residual.first) tile.residual.first += all * tile.residual.stride;
  }

  // What follows the sums [pixel][width] of neighbouring pixels and `cols` channels from `channel`
  // of the group on.
  void finish_row(const TilePlace& row, const int32_t* sums, int64_t width, int64_t group,
                  int64_t channel, int64_t cols, std::byte* scratch) const {
    const ConvRun& run = conv.run;
    const int64_t first = group * lists.channels + channel;
    const int64_t column = group * group_bias_lanes(run.shape) + channel;
    for (int64_t col = 0; col < cols; col += kSumVecs * kLanes) {
      const int64_t some = smaller(kSumVecs * kLanes, cols - col);
      const int vecs = static_cast<int>(ceil_div(some, kLanes));
      Tile tile{};
      set_finish(run.finish, tile);
      tile.a.stride = width * kLaneBytes;
      tile.start.bias = run.weights.bias + (column + col) * kLaneBytes;
      tile.a.first = reinterpret_cast<const std::byte*>(sums + col);
      place_byte_tile(run.finish, row, first + col, some, column + col, first, scratch, tile);
      const EvenSplit tiles = split_evenly(row.pixels, kMaxInt16Rows[vecs]);
      run_sums(tile, vecs, tiles.base + 1, tiles.extra);
      run_sums(tile, vecs, tiles.base, tiles.parts - tiles.extra);
    }
    finish_byte_tiles(run.finish, row, first, cols, column, scratch);
    look_up_tiles(run.finish, row, first, cols);
  }

  void store(const int32_t* y, int64_t first_pixel, int64_t count, int64_t group, int64_t channel,
             int64_t channels, int32_t* sums, std::byte* scratch) const {
    for (int64_t c = 0; c < channels; c += kMaxRestChannels) {
      const int64_t some = smaller(kMaxRestChannels, channels - c);
      const int64_t width = round_up(some, kLanes);
      transpose_block(reinterpret_cast<const float*>(y + c * kByteListPixels), kByteListPixels,
                      reinterpret_cast<float*>(sums), width, some, count);
      for_each_run(conv.run.shape, first_pixel, count, [&](const TilePlace& row, int64_t before) {
        finish_row(row, sums + before * width, width, group, channel + c, some, scratch);
      });
    }
  }

  void run_unit(int64_t unit, std::byte* memory) const {
    const ConvShape& s = conv.run.shape;
    const int64_t part = unit % pixels.parts, chunk = unit / pixels.parts % chunks.parts;
    const int64_t group = unit / pixels.parts / chunks.parts;
    const int64_t first_pixel = pixels.start(part) * kLanes;
    const int64_t count = smaller(pixels.size(part) * kLanes, s.batch * s.oh * s.ow - first_pixel);
    const int64_t first = chunks.start(chunk) * kLanes;
    const int64_t channels = smaller(chunks.size(chunk) * kLanes, lists.channels - first);
    const AddByteLists add = byte_list_kernel(pixels.size(part));
    const int32_t* ends = lists.ends(conv.run.weights.panels);
    const ByteEntry* entries = lists.entries(conv.run.weights.panels);
    std::byte *x = memory, *copy = x + x_bytes;
    int32_t* y = reinterpret_cast<int32_t*>(copy + pixel_bytes);
    int32_t* sums = reinterpret_cast<int32_t*>(copy + pixel_bytes + y_bytes);
    for (int64_t b = 0; b < lists.blocks.parts; ++b) {
      turn(group, first_pixel, count, lists.blocks.start(b), lists.blocks.size(b), copy, x);
      const int64_t list = lists.list(group, b, first);
      const int32_t* end = ends + list * kByteListKinds;
      add(x, {entries, end, list == 0 ? 0 : end[-1], channels}, b == 0, y, kByteListPixels);
    }
    store(y, first_pixel, count, group, first, channels, sums,
          reinterpret_cast<std::byte*>(sums) + sums_bytes);
  }
};

void run_byte_lists(ByteListKernel& kernel, const KernelCall& call) {
  set_addresses(call, kernel.conv);
  ThreadPool& pool = kernel.is_shared ? *call.pool : ThreadPool::serial();
  pool.parallel_ranges(kernel.units(), [&](int worker, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit)
      kernel.run_unit(unit, call.workspace + worker * kernel.worker_bytes);
  });
}

}  // namespace

void prepare_byte_lists(const KernelArgs& args, const ConvRun& run, const ByteLists& lists,
                        PreparedKernel& kernel) {
  ByteListKernel state{conv_kernel(args, run), lists, {0, 0, 0}, {0, 0, 0}, 0, 0, 0, 0, 0, false};
  ConvRun& conv = state.conv.run;
  merge_rows(conv);
  const ConvShape& s = conv.shape;
  state.pixels = split_evenly(ceil_div(s.batch * s.oh * s.ow, kLanes), kByteListVecs);
  state.is_shared = args.pool && s.macs() >= kMacsWorthThreads;
  const int threads = state.is_shared ? threads_of(args) : 1;
  // Every thread has a part; parts of some channels at least, as their pixels are turned for each.
  const int64_t wanted = ceil_div(threads, at_least_one(state.pixels.parts * lists.groups));
  const int64_t most =
      smaller(kChunkChannels, at_least_one(ceil_div(lists.channels, at_least_one(wanted))));
  state.chunks =
      split_evenly(ceil_div(lists.channels, kLanes), ceil_div(larger(most, kLeastChunk), kLanes));
  state.x_bytes = lists.blocks.size(0) * kByteRowBytes;
  state.pixel_bytes = round_up(lists.blocks.size(0) * kQuad * kByteListPixels, 64);
  state.y_bytes = state.chunks.size(0) * kLanes * kByteRowBytes;
  state.sums_bytes = kByteListPixels * (kMaxRestChannels + kLanes) * kLaneBytes;
  state.worker_bytes = state.x_bytes + state.pixel_bytes + state.y_bytes + state.sums_bytes +
                       rest_scratch_bytes(conv.finish, kByteListPixels);
  state.worker_bytes = round_up(state.worker_bytes, 64);
  kernel.workspace_bytes = static_cast<size_t>(state.worker_bytes * threads);
  keep_state<run_byte_lists>(kernel, state);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
