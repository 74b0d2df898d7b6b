// SPDX-License-Identifier: Apache-2.0
// The register tile under every dense kernel: kRows rows of A times a packed panel of kVecs vectors
// of columns of B. A is read in place by scalar broadcasts; its K runs over segments, so a
// convolution needs no im2col.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/epilogue/epilogue.h"
#include "kernels/simd/tiles.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// What is multiplied: floats, or unsigned bytes of A with signed bytes of B, four steps of K in the
// four bytes of a lane, or bfloat16s, two steps in a lane, or such bytes widened to 16 bits while
// they are copied and packed. All read four bytes of A per step and row, so one geometry serves
// all.
enum class Numeric : uint8_t { kFloat, kByte, kBf16, kWord };
inline constexpr int64_t kLaneBytes = 4;
inline constexpr int64_t kCacheLine = 64;                  // bytes
inline constexpr int64_t element_bytes(Numeric numeric) {  // of A and B
  return numeric == Numeric::kFloat ? 4 : numeric == Numeric::kByte ? 1 : 2;
}
// Sums are integers, what follows is a PackedEpilogue.
inline constexpr bool is_quantized(Numeric numeric) {
  return numeric == Numeric::kByte || numeric == Numeric::kWord;
}
inline constexpr int64_t elements_per_step(Numeric numeric) {
  return kLaneBytes / element_bytes(numeric);
}

// How panels of floats are stored: as they are, or, where every weight is one, as 16-bit floats
// that tiles widen in registers.
enum class Stored : uint8_t { kFloat, kHalf, kBf16 };
// Of a column of a panel, per step.
inline constexpr int64_t column_bytes(Stored stored) {
  return stored == Stored::kFloat ? kLaneBytes : 2;
}

// A run of K: bytes [a, a + 4 * length) of each row of A against rows [b, b + length) of B.
struct Segment {
  int64_t a, b;
};

// All strides and distances of a tile are in bytes. `first`: its first row.
struct TileRows {
  const std::byte* first;
  int64_t stride;  // between rows
};

// K: where the tile's products are.
struct TileDepth {
  const Segment* segments;
  int64_t num_segments;
  int64_t length;  // of every segment, in steps of 4 bytes of A
};

struct TilePanel {
  const std::byte* first;  // row k at first + k * stride; a packed one is [K][kVecs * kLanes] lanes
  int64_t stride;
};

// Of chained panels (gemm_chains.h), where a segment's b is its span.
struct ChainedSteps {
  const int32_t* ends;     // where kinds of steps end
  const int32_t* order;    // of the steps
  const int32_t* offsets;  // from a span's first step of A to each, in bytes
};

// What sums begin with.
struct TileStart {
  const void* bias;     // kVecs * kLanes floats, of bytes int32; or null for 0
  const int32_t* rows;  // of bytes: added to every column of a row; or null
  bool from_c;          // C, which is of floats, instead of the bias
};

enum class TileOut : uint8_t { kFloat, kByte, kInt, kBf16, kHalf };

struct TileStore {
  std::byte* first;
  int64_t stride;
  int64_t cols;  // (kVecs - 1) * kLanes < cols ≤ kVecs * kLanes
  TileOut type;
};

// So many tiles of rows, one below the other. A panel and what belongs to it are set up once for
// all of them.
struct TileRepeats {
  int64_t count = 1;
  int64_t stride = 0;  // of AMX: from a tile of A to the next; 0: its rows
};

// Not of bytes without VNNI: memory to fetch into L2 meanwhile, `step` bytes further with every
// step of K.
struct TileAhead {
  const std::byte* from = nullptr;  // null: nothing
  int64_t step = 0;
};

enum class ResidualType : uint8_t { kFloat, kByte, kBf16 };

struct TileResidual {
  const std::byte* first;  // null: none; columns contiguous
  int64_t stride;
  ResidualType type;
};

// v = max(v, slope * v), v * clamp(gate) where there is one; v += residual; v = clamp(v, low,
// high). slope 1 leaves v as it is.
struct FloatFinish {
  float low, high, slope;
  const Gate* gate = nullptr;  // or null: v = v * clamp(scale * v + shift), before the residual
};

// What happens to scaled sums of bytes before the residual.
enum class ByteMiddle : uint8_t {
  kNothing,
  kRounds,  // v = round(clamp(v, code_low, code_high)) * code_scale + code_shift
  kGates    // v = v * gate of v * code_scale + code_shift
};

// v = sum * multiplier[col] + addend[col]; the middle; v += residual_scale * residual; v = max(v,
// slope * v) + post; v = clamp(v, low, high); bytes are round(v) + offset, which lies in [0, 255].
// Of kInt the sum itself is stored.
struct ByteFinish {
  const float *multiplier, *addend;
  ByteMiddle middle = ByteMiddle::kNothing;
  bool fits_int = false;                 // v needs no clamp to be a 32-bit integer
  uint8_t code_min = 0, code_max = 255;  // the least and the largest stored byte
  float code_low = 0, code_high = 0, code_scale = 1, code_shift = 0;
  const Gate* gate = nullptr;
  float residual_scale, slope, post, low, high;
  int32_t offset;
};

// One call: C[rows][cols] = finish(start + sum over segments, k of A[row][a + k] * B[b + k][col]).
struct Tile {
  TileRows a;
  TileDepth k;
  TilePanel b;
  ChainedSteps chain;
  TileStart start;
  TileStore c;
  TileRepeats repeats;
  TileAhead ahead;
  TileResidual residual;
  FloatFinish floats;  // of kByte and kWord: bytes
  ByteFinish bytes;
};

using TileKernel = void (*)(const Tile&);

inline int max_rows(Numeric numeric, int vecs) {
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
  if (numeric == Numeric::kWord) return kMaxWordRows[vecs];
  if (numeric == Numeric::kByte && uses(Feature::kVnni)) return kMaxVnniRows[vecs];
#endif
  return numeric == Numeric::kFloat ? kMaxRows[vecs] : kMaxByteRows[vecs];
}

// 1 ≤ vecs ≤ kMaxVecs, 1 ≤ rows ≤ max_rows(numeric, vecs).
TileKernel tile_kernel(int vecs, int rows);
TileKernel byte_tile_kernel(int vecs, int rows);
// Of 16-bit floats; 1 ≤ rows ≤ kMaxNarrowRows[vecs].
TileKernel narrow_tile_kernel(Stored stored, int vecs, int rows);

// Splits `count` into the fewest parts of at most `most`, as even as can be: the first `count %
// parts` get one more.
struct EvenSplit {
  int64_t parts, base, extra;
  int64_t size(int64_t part) const { return base + (part < extra ? 1 : 0); }
  int64_t start(int64_t part) const { return part * base + (part < extra ? part : extra); }
};
CAMSHAFT_INLINE EvenSplit split_evenly(int64_t count, int64_t most) {
  const int64_t parts = count <= 0 ? 0 : (count + most - 1) / most;
  return parts == 0 ? EvenSplit{0, 0, 0} : EvenSplit{parts, count / parts, count % parts};
}

// Columns of B as panels of at most `max_vecs` vectors of kLanes / fold columns (gemm_fold.h;
// mostly fold is 1). Panels lie one after another: [k rows][vecs * kLanes] lanes of 4 bytes each.
struct Panels {
  int64_t unit;  // columns of a vector
  EvenSplit vecs;
  int64_t n, k;
  int64_t vec_lanes;  // of one vector in a panel

  Panels(int64_t n_, int64_t k_, int max_vecs, int fold = 1)
      : unit(kLanes / fold),
        vecs(split_evenly((n_ + unit - 1) / unit, max_vecs)),
        n(n_),
        k(k_),
        vec_lanes(kLanes * k_) {}
  int64_t count() const { return vecs.parts; }
  int vecs_of(int64_t panel) const { return static_cast<int>(vecs.size(panel)); }
  int64_t first_col(int64_t panel) const { return vecs.start(panel) * unit; }
  int64_t cols_of(int64_t panel) const {
    const int64_t width = vecs.size(panel) * unit, left = n - first_col(panel);
    return width < left ? width : left;
  }
  int64_t padded_n() const { return (n + unit - 1) / unit * unit; }
  // In lanes.
  int64_t offset(int64_t panel) const { return vecs.start(panel) * vec_lanes; }
  int64_t total_vecs() const { return (n + unit - 1) / unit; }
  int64_t lanes() const { return total_vecs() * vec_lanes; }
};

// Panels of 16-bit floats: two columns in a lane.
inline Panels narrow_panels(int64_t n, int64_t k, int max_vecs) {
  Panels panels(n, k, max_vecs);
  panels.vec_lanes /= 2;
  return panels;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
