// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution on channel-last tensors: vectors of channels, a block of output pixels in
// registers. Packed weights are, per vector of channels, the head (bias, or multiplier and addend
// of a quantized one) and then the taps in order. The last vector overlaps the one before where the
// channels do not fill it. 8-bit inputs are summed as floats: exact below 2^24.
#pragma once

#include "kernels/conv_shape.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/epilogue/folded_epilogue.h"
#include "kernels/nest.h"
#include "kernels/simd/bytes.h"
#include "kernels/simd/float16.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/pointwise/byte_table.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/compiled_code.h"
#include "kernels/vector/program/gate.h"
#include "kernels/vector/program/tile_finish.h"
#include "kernels/vector/tactic_util.h"

#include <array>
#include <utility>

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace depthwise {

inline constexpr size_t kFirstOperand = 3;  // after x, w, bias
// Output pixels of a register tile: their accumulators, a row of weights and an input.
inline constexpr int kPixels = kRegisters == 32 ? 8 : kLanes > 4 ? 6 : 4;
// Vectors of channels that go along a row together. All of them: the weights push the rows out of
// L1 (480 channels: 12 cycles per output vector for 3x3). One: pixels far apart defeat the
// prefetcher and collide in L1 (256 channels: 17). Six: 6 to 7.
inline constexpr int64_t kChannelBlock = 6 * kLanes;

// X: float, bfloat16 or uint8_t. The loops store that type or floats: outputs, or rows that the
// program turns into outputs. Which of the two is told at run time, once a vector of channels: the
// other way these kernels took half as long again to compile.
template <class X>
struct Run {
  using Input = X;
  static constexpr bool kIsFloat = sizeof(X) == sizeof(float);
  static constexpr bool kIsQuantized = sizeof(X) == 1;
  static constexpr bool kMayStoreSums = sizeof(X) == 2;   // as they are, for a program
  static constexpr int64_t kHead = kIsQuantized ? 2 : 1;  // vectors before the taps

  ConvShape s;
  const X* x;
  int64_t x_image, x_row, x_pixel;
  X padding[kLanes] = {};  // what a pixel outside the image holds
  float zero_point = 0;
  std::byte* y;  // strides are in elements
  int64_t y_image, y_row, y_pixel;
  bool stores_floats = true;
  const float* packed;
  Epilogue epilogue;
  int32_t after = 0;           // added to rounded results
  float scale = 1, shift = 0;  // of gated quantized results
  const ir::Program* program;
  const CompiledCode* code = nullptr;  // of it
  double predicted_us = 0;
  int64_t packed_at = 0;     // before `packed`
  bool has_table = false;    // of stored codes, right before `packed`
  std::byte* out = nullptr;  // a quantized program's output; then y holds rows, one per thread
  DataType out_type = DataType::kFloat;
  int64_t out_image = 0, out_row = 0, out_pixel = 0;
  TileSource operands[kMaxOperands];
  int num_operands = 0;

  std::byte* y_at(int64_t place) const {
    return y + place * static_cast<int64_t>(stores_floats ? sizeof(float) : sizeof(X));
  }
  const TileSource& residual() const { return operands[epilogue.residual]; }
  int64_t block_floats() const {
    return (kHead + s.kh * s.kw) * kLanes;
  }  // packed floats per vector of channels
};

// The channels [first, last) of one output row; pointers are to channel 0.
template <class X>
struct Strip {
  const X* x;            // column 0 of the first input row in use
  const float* weights;  // of the first channel: its head; taps follow
  std::byte* y;
  int64_t x_pixel, y_pixel;  // as those of the run: stores to y do not change them
  const float* residual;
  int64_t residual_pixel;
  int64_t kh_first, kh_last;  // taps inside the image
  int64_t first, last;
};

struct Lanes {
  M32 mask;
  int count;
};

template <bool kMasked>
CAMSHAFT_INLINE F32 read(const float* p, const Lanes& lanes) {
  if constexpr (kMasked) return load(p, lanes.mask);
  return load(p);
}
template <bool kMasked>
CAMSHAFT_INLINE F32 read(const uint8_t* p, const Lanes& lanes) {
  if constexpr (kMasked) return to_float(load_bytes(p, lanes.count));
  return to_float(load_bytes(p));
}
template <bool kMasked>
CAMSHAFT_INLINE F32 read(const Bf16* p, const Lanes& lanes) {
  if constexpr (kMasked) return load_floats(p, lanes.count);
  return load_floats(p);
}
// An input as it is multiplied.
template <bool kMasked, class R>
CAMSHAFT_INLINE F32 read_input(const R& run, const typename R::Input* p, const Lanes& lanes) {
  if constexpr (R::kIsQuantized) return read<kMasked>(p, lanes) - set1(run.zero_point);
  return read<kMasked>(p, lanes);
}
template <bool kMasked>
CAMSHAFT_INLINE void write(float* p, F32 v, int32_t, const Lanes& lanes) {
  if constexpr (kMasked)
    store(p, v, lanes.mask);
  else
    store(p, v);
}
template <bool kMasked>
CAMSHAFT_INLINE void write(uint8_t* p, F32 v, int32_t after, const Lanes& lanes) {
  const I32 code = to_int(v) + iset1(after);
  if constexpr (kMasked)
    store_bytes(p, code, lanes.count);
  else
    store_bytes(p, code);
}

template <bool kMasked>
CAMSHAFT_INLINE void write(Bf16* p, F32 v, int32_t, const Lanes& lanes) {
  if constexpr (kMasked)
    store_floats(p, v, lanes.count);
  else
    store_floats(p, v);
}

// `p`, the input at column `col`; padding outside the image.
template <bool kChecked, class R>
CAMSHAFT_INLINE const typename R::Input* inside(const R& run, const typename R::Input* p,
                                                int64_t col) {
  if constexpr (!kChecked) return p;
  return static_cast<uint64_t>(col) < static_cast<uint64_t>(run.s.iw) ? p : run.padding;
}

// Neighbouring columns of a row: four share a base, as in the register tiles of products
// (gemm_multiply.h), so that a tile keeps few addresses.
template <class T, int kColumns>
struct Columns {
  static constexpr int kBases = (kColumns + 3) / 4;
  const T* base[kBases];
  int64_t s, s3;  // elements between columns, and three times that

  CAMSHAFT_INLINE_MEMBER Columns(const T* first, int64_t stride) : s(stride), s3(3 * stride) {
    base[0] = first;
#pragma GCC unroll 8
    for (int k = 1; k < kBases; ++k) base[k] = base[k - 1] + 4 * s;
  }
  CAMSHAFT_INLINE_MEMBER const T* at(int col) const {
    return base[col / 4] + (col % 4 == 3 ? s3 : col % 4 * s);
  }
  CAMSHAFT_INLINE_MEMBER void advance(int64_t step) {
#pragma GCC unroll 8
    for (int k = 0; k < kBases; ++k) base[k] += step;
  }
};

// Any window: each tap loads its own input.
struct AnyWindow {
  static constexpr bool kIsAny = true;
  struct Edges {};
  template <int P, bool kChecked, class R>
  static Edges edges(const R&, int64_t) {
    return {};
  }
  static bool fits(const ConvShape&) { return true; }
  template <int P>
  static constexpr int columns() {
    return 1;
  }
  template <int P, bool kChecked, bool kMasked, class R>
  CAMSHAFT_INLINE void add_row(const R& run, F32 (&sum)[P],
                               const Columns<typename R::Input, 1>& first, int c, int64_t iw,
                               const float* w, const Edges&, const Lanes& lanes) {
    const typename R::Input* row = first.at(0) + c - iw * first.s;
    for (int64_t kw = 0; kw < run.s.kw; ++kw) {
      const F32 weight = load(w + kw * kLanes);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        const int64_t col = iw + kw * run.s.dw + p * run.s.sw;
        const auto* x = inside<kChecked>(run, row + col * first.s, col);
        sum[p] = fma(read_input<kMasked>(run, x, lanes), weight, sum[p]);
      }
    }
  }
};

// kWidth taps a row, undilated, a fixed stride: neighbouring pixels share the inputs they have in
// common.
template <int kWidth, int kStride>
struct FixedWindow {
  static constexpr bool kIsAny = false;
  static constexpr int kTaps = kWidth;  // of a row
  // Only the outer columns of a tile can lie in the padding. Floats are read there under a mask
  // that is made once a tile: choosing between two addresses at each column is more instructions
  // than the core takes in (images 8 wide: 10 cycles per output vector, 7 so).
  static constexpr int kOuter = kWidth - 1;
  struct Edges {
    M32 left[kOuter], right[kOuter];
  };
  template <int P>
  static constexpr int columns() {
    return (P - 1) * kStride + kWidth;
  }
  template <int P, bool kChecked, class R>
  CAMSHAFT_INLINE Edges edges(const R& run, int64_t iw) {
    Edges e{};
    if constexpr (kChecked && !R::kIsQuantized) {
      const auto inside = [&](int64_t col) {
        return first_n(static_cast<uint64_t>(col) < static_cast<uint64_t>(run.s.iw) ? kLanes : 0);
      };
      for (int k = 0; k < kOuter; ++k) {
        e.left[k] = inside(iw + k);
        e.right[k] = inside(iw + columns<P>() - kOuter + k);
      }
    }
    return e;
  }
  static bool fits(const ConvShape& s) {
    const int64_t overhang = (s.ow - 1) * kStride + kWidth - s.pad_left - s.iw;
    return s.kw == kWidth && s.sw == kStride && s.dw == 1 && s.pad_left < kWidth &&
           overhang < kWidth;
  }
  template <int P, bool kChecked, bool kMasked, class R, class Row>
  CAMSHAFT_INLINE F32 input(const R& run, const Row& row, int c, int64_t iw, int col,
                            const Edges& edges, const Lanes& lanes) {
    const bool is_left = col < kOuter, is_right = col >= columns<P>() - kOuter;
    if (!kChecked || !(is_left || is_right))
      return read_input<kMasked>(run, row.at(col) + c, lanes);
    if constexpr (sizeof(typename R::Input) != sizeof(float) || kMasked)
      return read_input<kMasked>(run, inside<kChecked>(run, row.at(col) + c, iw + col), lanes);
    else
      return load(row.at(col) + c,
                  is_left ? edges.left[col] : edges.right[col - columns<P>() + kOuter]);
  }
  template <int P, bool kChecked, bool kMasked, class R, class Row>
  CAMSHAFT_INLINE void add_row(const R& run, F32 (&sum)[P], const Row& row, int c, int64_t iw,
                               const float* w, const Edges& edges, const Lanes& lanes) {
    F32 weight[kWidth];
#pragma GCC unroll 8
    for (int kw = 0; kw < kWidth; ++kw) weight[kw] = load(w + kw * kLanes);
    constexpr int kColumns = columns<P>();
#pragma GCC unroll 32
    for (int col = 0; col < kColumns; ++col) {
      F32 x = input<P, kChecked, kMasked>(run, row, c, iw, col, edges, lanes);
      keep_in_register(x);  // the compiler would load it again for every tap
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        const int kw = col - p * kStride;
        if (kw >= 0 && kw < kWidth) sum[p] = fma(x, weight[kw], sum[p]);
      }
    }
  }
};

// What the epilogue does to them, where no program does all of it.
template <int P, bool kMasked, class R, class S>
CAMSHAFT_INLINE void change_sums(const R& run, const S& strip, F32 (&sum)[P], const float* head,
                                 int64_t ow, int64_t c, const Lanes& lanes) {
  if constexpr (R::kIsQuantized) {
    const F32 multiplier = load(head), addend = load(head + kLanes);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = fma(sum[p], multiplier, addend);
    if (run.epilogue.is_gated) {
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p)
        sum[p] = fma(sum[p] * gate_of(run.epilogue.gate, sum[p]), set1(run.scale), set1(run.shift));
    }
  } else if (R::kIsFloat && run.epilogue.adds()) {
    const Columns<float, P> residual(strip.residual + ow * strip.residual_pixel + c,
                                     strip.residual_pixel);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = sum[p] + read<kMasked>(residual.at(p), lanes);
  } else if (run.epilogue.slope != 1) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = max(sum[p] * set1(run.epilogue.slope), sum[p]);
  } else if (run.epilogue.is_gated) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = sum[p] * gate_of(run.epilogue.gate, sum[p]);
  }
  // A ReLU has no upper end; minima run on the units of the FMAs.
  const F32 low = set1(run.epilogue.low);
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sum[p] = max(low, sum[p]);
  if (run.epilogue.high < __builtin_inff()) {
    const F32 high = set1(run.epilogue.high);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = min(high, sum[p]);
  }
}

template <class T, int P, bool kMasked, class R, class S>
CAMSHAFT_INLINE void store_sums(const R& run, const S& strip, const F32 (&sum)[P], int64_t ow,
                                int64_t c, const Lanes& lanes) {
  const Columns<T, P> y(reinterpret_cast<T*>(strip.y) + ow * strip.y_pixel + c, strip.y_pixel);
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) write<kMasked>(const_cast<T*>(y.at(p)), sum[p], run.after, lanes);
}

// What is added to and done with the sums, and their store.
template <int P, bool kMasked, class R, class S>
CAMSHAFT_INLINE void finish(const R& run, const S& strip, F32 (&sum)[P], const float* head,
                            int64_t ow, int64_t c, const Lanes& lanes) {
  if (!R::kMayStoreSums || !run.epilogue.is_program)
    change_sums<P, kMasked>(run, strip, sum, head, ow, c, lanes);
  if (R::kIsFloat || run.stores_floats)
    store_sums<float, P, kMasked>(run, strip, sum, ow, c, lanes);
  else
    store_sums<typename R::Input, P, kMasked>(run, strip, sum, ow, c, lanes);
}

// P neighbouring pixels from column ow on, V vectors of channels from c on.
template <class Window, int P, int V, bool kChecked, bool kMasked, class R, class S>
CAMSHAFT_INLINE void run_vectors(const R& run, const S& strip, int64_t ow, int64_t c,
                                 const float* weights, const typename Window::Edges& edges,
                                 const Lanes& lanes) {
  const ConvShape& s = run.s;
  const int64_t iw = ow * s.sw - s.pad_left, step = s.dh * run.x_row, w_step = s.kw * kLanes,
                block = run.block_floats();
  F32 sum[V][P];
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    const F32 start = R::kIsQuantized ? zero() : load(weights + v * block);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[v][p] = start;
  }
  const float* w = weights + (R::kHead + strip.kh_first * s.kw) * kLanes;
  Columns<typename R::Input, Window::template columns<P>()> row(strip.x + iw * strip.x_pixel + c,
                                                                strip.x_pixel);
  for (int64_t kh = strip.kh_first; kh < strip.kh_last; ++kh, row.advance(step), w += w_step) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v)
      Window::template add_row<P, kChecked, kMasked>(run, sum[v], row, v * kLanes, iw,
                                                     w + v * block, edges, lanes);
  }
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v)
    finish<P, kMasked>(run, strip, sum[v], weights + v * block, ow, c + v * kLanes, lanes);
}

// One vector of channels of P pixels whose columns lie inside the image: `x` is the first input.
// kRows: how many they are; 0: `rows`. Three rows in a loop take 5 % longer.
template <class Window, int P, int kRows, class R, class S>
CAMSHAFT_INLINE void run_inner_vector(const R& run, const S& strip, const typename R::Input* x,
                                      int64_t step, int64_t rows, int64_t ow, int64_t c,
                                      const float* head, const float* w) {
  const Lanes all{first_n(kLanes), kLanes};
  F32 sum[P];
  const F32 start = R::kIsQuantized ? zero() : load(head);
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sum[p] = start;
  const auto add = [&]() __attribute__((always_inline)) {
    const Columns<typename R::Input, Window::template columns<P>()> row(x, strip.x_pixel);
    Window::template add_row<P, false, false>(run, sum, row, 0, 0, w, {}, all);
    x += step, w += Window::kTaps * kLanes;
  };
  if constexpr (kRows > 0) {
#pragma GCC unroll 3
    for (int row = 0; row < kRows; ++row) add();
  } else {
    for (; rows > 0; --rows) add();
  }
  finish<P, false>(run, strip, sum, head, ow, c, all);
}

// All channels of the strip, columns inside the image: nothing to look at on the way.
template <class Window, int P, int kRows, class R, class S>
__attribute__((noinline)) void run_inner_tile(const R& run, const S& strip, int64_t ow) {
  const int64_t block = run.block_floats(), last = strip.last, step = run.s.dh * run.x_row,
                rows = strip.kh_last - strip.kh_first;
  const float *head = strip.weights, *w = head + (R::kHead + strip.kh_first * run.s.kw) * kLanes;
  const typename R::Input* x = strip.x + (ow * run.s.sw - run.s.pad_left) * strip.x_pixel;
  int64_t c = strip.first;
  for (; c + kLanes <= last; c += kLanes, head += block, w += block)
    run_inner_vector<Window, P, kRows>(run, strip, x + c, step, rows, ow, c, head, w);
  if (c < last)
    run_inner_vector<Window, P, kRows>(run, strip, x + run.s.oc - kLanes, step, rows, ow,
                                       run.s.oc - kLanes, head, w);
}

// All channels of the strip. Two vectors together, where registers allow and windows are not read
// by run_inner_tile: a pixel's taps are one chain of additions, and eight chains just fill two
// units of four cycles (8.0 to 6.5 cycles per output vector). Eight pixels of what is widened first
// are bound by that; a second vector there was a third of the code and no faster.
template <class Window, int P, bool kChecked, bool kMasked, class R, class S>
void run_tile(const R& run, const S& strip, int64_t ow, const Lanes& lanes) {
  constexpr bool kFew = sizeof(typename R::Input) == sizeof(float) || 2 * P <= kPixels;
  constexpr bool kPairs = kRegisters == 32 && !kMasked && (Window::kIsAny || (kChecked && kFew));
  if constexpr (!kChecked && !kMasked && !Window::kIsAny)
    return Window::kTaps == 3 && strip.kh_last - strip.kh_first == 3
           ? run_inner_tile < Window,
           P,
           Window::kTaps == 3 ? 3 : 0 > (run, strip, ow)
           : run_inner_tile<Window, P, 0>(run, strip, ow);
  const int64_t block = run.block_floats(), channels = run.s.oc, last = strip.last;
  const float* weights = strip.weights;
  const auto edges = Window::template edges<P, kChecked>(run, ow * run.s.sw - run.s.pad_left);
  int64_t c = strip.first;
  if constexpr (kPairs)
    for (; c + 2 * kLanes <= last; c += 2 * kLanes, weights += 2 * block)
      run_vectors<Window, P, 2, kChecked, kMasked>(run, strip, ow, c, weights, edges, lanes);
  for (; c < last; c += kLanes, weights += block)
    run_vectors<Window, P, 1, kChecked, kMasked>(
        run, strip, ow, kMasked || c + kLanes <= channels ? c : channels - kLanes, weights, edges,
        lanes);
}

// Those of 1 to kPixels pixels.
template <class Window, bool kChecked, bool kMasked, class R, class S>
inline constexpr auto kTiles = []<int... P>(std::integer_sequence<int, P...>) {
  return std::array{run_tile<Window, P + 1, kChecked, kMasked, R, S>...};
}
(std::make_integer_sequence<int, kPixels>());

// A row in tiles of nearly equal width.
template <class Window, bool kMasked, class R, class S>
void run_strip(const R& run, const S& strip, const Lanes& lanes) {
  const ConvShape& s = run.s;
  const int64_t tiles = (s.ow + kPixels - 1) / kPixels, reach = (s.kw - 1) * s.dw + 1;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t ow = s.ow * tile / tiles, pixels = s.ow * (tile + 1) / tiles - ow;
    const int64_t first = ow * s.sw - s.pad_left, last = first + (pixels - 1) * s.sw + reach;
    if (first >= 0 && last <= s.iw)
      kTiles<Window, false, kMasked, R, S>[pixels - 1](run, strip, ow, lanes);
    else
      kTiles<Window, true, kMasked, R, S>[pixels - 1](run, strip, ow, lanes);
  }
}

static inline int64_t clamp_to(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}
// End of the block of channels at `first`. What is left joins the last block when it has no whole
// vector: a vector that overlaps the block before would undo its epilogue.
static inline int64_t next_block(int64_t channels, int64_t first) {
  return channels - first < kChannelBlock + kLanes ? channels : first + kChannelBlock;
}

// The program on `pixels` outputs from column `ow` on.
template <class R, class S>
void run_epilogue(const R& run, const S& strip, int64_t n, int64_t oh, int64_t ow, int64_t pixels) {
  const int64_t c = strip.first, channels = strip.last - c;
  float* const rows = reinterpret_cast<float*>(strip.y) + ow * run.y_pixel + c;
  TileOperand operands[1 + kMaxOperands] = {{rows, run.y_pixel, 1}};
  for (int k = 0; k < run.num_operands; ++k)
    operands[k + 1] = operand_at(run.operands[k], {n, oh, ow, pixels}, c);
  TileResult to{rows, run.y_pixel};
  if (run.out != nullptr)
    to = {run.out + (n * run.out_image + oh * run.out_row + ow * run.out_pixel + c) *
                        bytes_of(run.out_type),
          run.out_pixel, run.out_type};
  run_code(*run.code, operands, to, pixels, channels);
}

template <class Window, class R>
void run_row(const R& run, int worker, int64_t n, int64_t oh) {
  const ConvShape& s = run.s;
  const int64_t top = oh * s.sh - s.pad_top;
  Strip<typename R::Input> strip{};
  strip.kh_last = clamp_to(ceil_div(s.ih - top, s.dh), 0, s.kh);
  strip.kh_first = clamp_to(ceil_div(-top, s.dh), 0, strip.kh_last);
  strip.x = run.x + n * run.x_image + (top + strip.kh_first * s.dh) * run.x_row;
  strip.y = run.y_at(n * run.y_image + oh * run.y_row);
  strip.x_pixel = run.x_pixel, strip.y_pixel = run.y_pixel;
  if (run.epilogue.adds()) {
    strip.residual = reinterpret_cast<const float*>(run.residual().at(n, oh, 0, 0));
    strip.residual_pixel = run.residual().pixel / run.residual().element();
  }
  for (strip.first = 0; strip.first < s.oc; strip.first = strip.last) {
    // Rows on the way to a program hold one block of channels.
    if (run.out != nullptr) strip.y = run.y_at(worker * run.y_row - strip.first);
    strip.weights = run.packed + strip.first / kLanes * run.block_floats();
    strip.last = next_block(s.oc, strip.first);
    if (s.oc < kLanes)
      run_strip<AnyWindow, true>(run, strip,
                                 {first_n(static_cast<int>(s.oc)), static_cast<int>(s.oc)});
    else
      run_strip<Window, false>(run, strip, {first_n(kLanes), kLanes});
    if (run.epilogue.is_program) run_epilogue(run, strip, n, oh, 0, s.ow);
    if (run.has_table)
      look_up_codes(reinterpret_cast<const uint8_t*>(run.packed) - kTableBytes,
                    reinterpret_cast<uint8_t*>(strip.y) + strip.first, s.ow,
                    strip.last - strip.first, run.y_pixel);
  }
}

}  // namespace depthwise
}  // namespace camshaft::kernels::CAMSHAFT_TARGET
