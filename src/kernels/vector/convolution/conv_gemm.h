// SPDX-License-Identifier: Apache-2.0
// Convolution as a GEMM without im2col: pixels are the rows of the register tile, the window's
// kernel rows its K segments. Where a window leaves the image (or the input has another layout) a
// block of it is first copied, padded, into L2 scratch.
#pragma once

#include "kernels/conv_shape.h"
#include "kernels/vector/convolution/conv_filter.h"
#include "kernels/vector/gemm/gemm_amx.h"
#include "kernels/vector/gemm/gemm_chains.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/tile_finish.h"
#include "kernels/vector/shares.h"
#include "kernels/vector/sparse/float_picks.h"
#include "kernels/vector/sparse/gemm_sparse.h"
#include "kernels/vector/sparse/pair_quads.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Output columns [col, end) whose windows have the taps [first_tap, last_tap) of a kernel row
// inside the image.
struct ConvZone {
  int64_t col, end, first_tap, last_tap;
};

// How the filter's K is laid out: kernel rows of `runs` runs of `length` steps of 4 bytes
// (`elements` values), each `rows` rows of a packed panel.
struct ConvRuns {
  int64_t runs, elements, length, rows;
};
// Where taps are whole steps and not folded, any cut is the same layout. Else a run is a kernel row
// where its pixels can be neighbours, else a tap.
ConvRuns conv_runs(const ConvShape& shape, Numeric numeric, int fold);
bool taps_join(const ConvShape& shape, Numeric numeric, int fold);    // any cut is the same
Spans conv_spans(const ConvShape& shape, Numeric numeric, int fold);  // kernel rows
Panels conv_panels(const ConvShape& shape, Numeric numeric, int max_vecs, int fold);

// Fewer lanes idle than with half the fold, and runs are long enough to fill them.
bool folding_helps(const ConvShape& shape, int fold);
// Folded tiles are no wider than the channels, so that few channels get tiles of many rows.
int tile_vecs(const ConvShape& shape, int most, int fold);
// Microseconds of one thread in the tiles of `rows` rows of `strip` pixels.
double conv_tiles_us(const ConvShape& shape, Numeric numeric, int64_t rows, int64_t strip,
                     int max_vecs, int fold);

// What tiles multiply, and in which registers.
struct ConvTile {
  Numeric numeric = Numeric::kFloat;
  int max_vecs = 1;
  int fold = 1;                             // steps of K in a vector (gemm_fold.h)
  SparseIndex sparse = SparseIndex::kNone;  // panels of gemm_sparse.h, pair_quads.h, float_picks.h
  Stored stored = Stored::kFloat;           // of floats
  bool in_matrices = false;                 // tiles of AMX (gemm_amx.h)

  bool has_quads() const { return sparse == SparseIndex::kQuads; }
  bool is_narrow() const { return stored != Stored::kFloat; }
  bool has_picks() const { return sparse == SparseIndex::kPicks; }
  bool is_sparse() const {  // of bytes
    return sparse == SparseIndex::kBytes || sparse == SparseIndex::kBits;
  }
  int64_t element() const { return element_bytes(numeric); }
  int64_t step_elements() const { return is_sparse() ? kSparseStep : elements_per_step(numeric); }
  int64_t rows() const {
    return in_matrices   ? kAmxRows
           : has_quads() ? quad_max_rows(max_vecs)
           : has_picks() ? pick_max_rows(max_vecs)
           : is_narrow() ? kMaxNarrowRows[max_vecs]
           : is_sparse() ? sparse_max_rows(max_vecs)
                         : max_rows(numeric, max_vecs);
  }
  int64_t panel_width() const { return panel_step(max_vecs); }
  int64_t panel_step(int vecs) const { return int64_t{vecs} * kLanes * column_bytes(stored); }
  Panels panels(const ConvShape& shape) const {
    return has_quads()   ? quad_panels(shape.oc, shape.ic, max_vecs)
           : has_picks() ? pick_panels(shape, max_vecs)
           : is_sparse() ? sparse_panels(shape, max_vecs, sparse)
           : is_narrow() ? narrow_panels(shape.oc, shape.ic, max_vecs)
                         : conv_panels(shape, numeric, max_vecs, fold);
  }
};

// Strides in bytes. Floats become bfloat16, and bytes words, where they are copied.
struct ConvInput {
  DataType type = DataType::kFloat;
  uint8_t padding = 0;  // what lies around the image: the zero point of bytes
  const std::byte* data = nullptr;
  int64_t image = 0, channel = 4, row = 0, pixel = 0;
};

struct ConvWeights {
  const std::byte* bias = nullptr;    // group_bias_lanes per group: floats, of bytes int32
  const std::byte* panels = nullptr;  // group after group
  // Of packed bytes: tiles of pixels start from -zero_point times the sum of their inputs.
  int64_t zero_point = 0;
};

// What the tactic asks plan_conv for.
struct ConvWishes {
  bool copies = false;   // A is read from a padded copy, whatever else would do
  bool windows = false;  // A is a copy of every window, one row of pixels whatever the image's are
  bool parts = false;    // long K of floats is taken part by part
  bool fetches = true;   // weights that one tile passes and L2 does not hold, far ahead
};

enum class ConvReading : uint8_t {
  kInPlace,
  kZoned,   // in place; tiles skip taps outside the image
  kCopied,  // from a padded copy
  kWindows  // from copies of windows
};

// Where tiles find A: bytes between its pixels, between input rows.
struct ConvRows {
  ConvReading reading = ConvReading::kInPlace;
  int64_t pixel = 0, row = 0;

  bool zoned() const { return reading == ConvReading::kZoned; }
  bool copied() const { return reading == ConvReading::kCopied || windows(); }
  bool windows() const { return reading == ConvReading::kWindows; }
};

enum class SegmentKind : uint8_t {
  kTaps,
  kRows,  // kernel rows: their taps lie next to each other, in A and in the filter
  kSpans  // of chained panels (gemm_chains.h)
};

// K as segments.
struct ConvDepth {
  SegmentKind kind = SegmentKind::kTaps;
  Spans spans{0, 0};
  int64_t length = 0, max_segments = 0;
  int64_t b_row = 0, b_tap = 0;  // rows of B between kernel rows and between taps

  bool chained() const { return kind == SegmentKind::kSpans; }
  bool row_runs() const { return kind == SegmentKind::kRows; }
};

// A part of K: steps [step, step + steps) of each of the segments [first, first + count).
struct ConvPart {
  int64_t first, count, step, steps;
};

// Floats of long K: part after part of it is added to the output, and a panel's part stays in L1
// while tile after tile of pixels passes. The same additions in the same order as without.
struct ConvParts {
  bool used = false;
  EvenSplit segments{0, 0, 0}, steps{0, 0, 0};

  int64_t count() const { return segments.parts * steps.parts; }
  ConvPart part(int64_t index) const {
    const int64_t s = index / steps.parts, k = index % steps.parts;
    return {segments.start(s), segments.size(s), steps.start(k), steps.size(k)};
  }
};

enum class WeightFetch : uint8_t {
  kNothing,
  kNextPanel,  // a panel at a time, the next one fetched into L2 meanwhile
  kFarAhead    // one tile passes each panel, which comes from far away
};

// What is computed together.
struct ConvBlocks {
  int64_t strip = 0;  // output pixels of a work unit: a row, or a part of it
  int64_t strips_per_row = 1;
  int64_t rows = 1;  // of the output
  int64_t panels = 1;
  WeightFetch fetch = WeightFetch::kNothing;
  bool joins_rows = false;  // rows of the output that are one tile of AMX each go down together

  bool fetches_next() const { return fetch == WeightFetch::kNextPanel; }
  bool streams() const { return fetch == WeightFetch::kFarAhead; }
};

// Threads share out a line of panels, each over all units of pixels, or of units, each over all
// panels.
struct ConvShares {
  int threads = 1;
  bool splits_panels = false;
  Line line;
};

// Bytes of workspace: tables, then of every worker its copy of A, its segments, what pixels start
// from, waiting tiles.
struct ConvMemory {
  int64_t tables = 0, copy = 0, segments = 0, starts = 0, worker = 0;
};

// What plan_conv decides.
struct ConvPlan {
  Panels panels{0, 0, 1};
  ConvRows a;
  ConvDepth k;
  ConvParts parts;
  ConvBlocks blocks;
  ConvShares shares;
  ConvMemory bytes;
};

// What a convolution was before its windows became pixels of one tap.
struct ConvWindows {
  ConvShape shape;
  ConvInput x;  // all but the address
};

// Set by keep_tables, else in the workspace in every run.
struct ConvTables {
  bool kept = false;
  int32_t* step_offsets = nullptr;  // of chained panels
  ConvZone* zones = nullptr;
  int64_t num_zones = 0;
};

// A convolution ready to run.
struct ConvRun {
  ConvShape shape;
  ConvTile tile;
  ConvInput x;
  ConvWeights weights;
  TileFinish finish;
  ConvWishes wishes;

  ConvPlan plan;
  ConvTables tables;
  ConvWindows windows;
  std::byte* scratch = nullptr;  // of the workers, in the workspace

  int64_t x_element() const {
    return tile.numeric == Numeric::kWord                                 ? 1
           : tile.numeric == Numeric::kBf16 && x.type == DataType::kFloat ? 4
                                                                          : tile.element();
  }
  // Units are numbered (image, strip, row).
  int64_t units() const { return shape.batch * plan.blocks.strips_per_row * shape.oh; }
  int64_t all_panels() const { return plan.panels.count() * shape.groups; }
  // Tiles of bytes, of floats and of matrix registers go down the pixels together.
  bool repeats_tiles() const {
    return (is_quantized(tile.numeric) || tile.in_matrices ||
            (tile.numeric == Numeric::kFloat && tile.fold == 1)) &&
           !finish.has_initial;
  }
  // Of tiles that wait in scratch.
  int64_t waiting_pixels() const {
    constexpr int64_t kMatrixTiles = 4;
    if (tile.in_matrices && repeats_tiles()) return kMatrixTiles * kAmxRows;
    constexpr int64_t kTogether = 32;
    return is_quantized(tile.numeric) && repeats_tiles() && tile.rows() < kTogether ? kTogether
                                                                                    : tile.rows();
  }
};

// Whether taking `k` steps in parts differs from taking them at once, for so many rows; what it is
// expected to cost, as a share of the time.
bool has_parts(int64_t rows, int64_t k, int vecs);
double part_cost(int64_t n, int64_t k);
// Weights that half of L2 does not hold: the other half is of the layers before.
bool comes_from_afar(int64_t weight_bytes);

// A 1x1 convolution over dense rows is one long row per image; images join too when all operands
// allow it.
void merge_rows(ConvRun& run);
// Decides blocks, order and the split over `threads`. Gives the workspace it wants.
size_t plan_conv(ConvRun& run, int threads);
// Makes the tables of a planned convolution, for all its runs.
void keep_tables(ConvRun& run, PreparedKernel& kernel);
// Runs a planned convolution with that workspace.
void run_conv(ConvRun& run, std::byte* workspace, ThreadPool* pool);

// Columns of padding need a copy; rows are skipped where padding is 0.
bool conv_needs_copy(const ConvShape& shape, bool skips_rows = true);

// Packed form: [groups][channels, padded to vectors] bias, then [groups][panel][kh][run][row][vecs
// * kLanes]. Of bytes: first the epilogue; the bias takes up what the zero point adds.
int64_t group_bias_lanes(const ConvShape& shape);
int64_t packed_bias_lanes(const ConvShape& shape);
int64_t packed_filter_lanes(const ConvShape& shape, Numeric numeric, int fold = 1);
void pack_bias(const ConvShape& shape, const float* bias, float* packed);  // null: zeros
// `filter`: less its zero point it is what is multiplied.
void pack_byte_bias(const ConvShape& shape, const int32_t* bias, const Filter<int8_t>& filter,
                    int64_t zero_point, int64_t filter_zero_point, int32_t* packed);
template <class T>
void pack_filter(const ConvShape& shape, const Filter<T>& filter, int max_vecs, int fold,
                 std::byte* packed, int64_t x_maximum = 255);
void count_filter_products(const ConvShape& shape, int max_vecs, const std::byte* packed,
                           ProductShares& shares);

// What Convolution and Deconvolution tactics have in common; inputs are x, w, bias, operands.
inline constexpr size_t kFirstConvOperand = 3;
template <class T>
const T* constant_values(const ProblemTensor& tensor) {
  return tensor.constant ? reinterpret_cast<const T*>(tensor.constant->view.data()) : nullptr;
}
inline const float* constant_floats(const ProblemTensor& tensor) {
  return constant_values<float>(tensor);
}
// Types, constants (of who packs them while building), operands. `any_zero_point`: of the weights.
std::string refuse_conv(const Problem& problem, Numeric numeric, bool has_shape,
                        bool packs_early = true, bool any_zero_point = false);
uint32_t packed_conv_inputs(const Problem& problem);
uint32_t packed_byte_conv_inputs(const Problem& problem);
// The channels of a layer of bytes, of which `shape` is a part.
inline int conv_channel_back(const Problem& problem) {
  return static_cast<int>(problem.outputs[0].extents.size()) - 2;
}
ChannelLayout conv_channels(const Problem& problem, const ConvShape& shape);
// A convolution ready to run, but for addresses.
struct ConvKernel {
  ConvRun run;
  int64_t epilogue_at, bias_at, weights_at;  // in the packed bytes
};
ConvKernel conv_kernel(const KernelArgs& args, const ConvRun& run);
void set_addresses(const KernelCall& call, ConvKernel& kernel);
// `run` described with its packed weights, for as many threads as `args` has.
void prepare_conv(const KernelArgs& args, const ConvRun& run, PreparedKernel& kernel);
// Tensors and epilogue of `run`, whose numeric is set; `packed`: the epilogue of bytes.
void set_conv_tensors(const KernelArgs& args, const std::byte* packed, ConvRun& run,
                      TileSource (*source)(const TensorView&, const TensorView&) = conv_source);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
