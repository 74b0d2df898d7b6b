// SPDX-License-Identifier: Apache-2.0
// Convolution as a GEMM without im2col: pixels are the rows of the register tile, the window's
// kernel rows its K segments. Where a window leaves the image (or the input has another layout) a
// block of it is first copied, padded, into L2 scratch.
#pragma once

#include "kernels/conv_shape.h"
#include "kernels/vector/gemm/gemm_amx.h"
#include "kernels/vector/gemm/gemm_chains.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/tile_finish.h"
#include "kernels/vector/shares.h"
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

// A part of K: steps [step, step + steps) of each of the segments [first, first + count).
struct ConvPart {
  int64_t first, count, step, steps;
};

// A convolution ready to run; strides in bytes.
struct ConvRun {
  ConvShape shape;
  Numeric numeric = Numeric::kFloat;
  uint8_t padding = 0;  // what lies around the image: the zero point of bytes
  // Floats become bfloat16, and bytes words, where they are copied.
  DataType x_type = DataType::kFloat;
  const std::byte* x = nullptr;
  int64_t x_image = 0, x_channel = 4, x_row = 0, x_pixel = 0;
  const std::byte* bias = nullptr;     // group_bias_lanes per group: floats, of bytes int32
  const std::byte* weights = nullptr;  // panels, group after group
  int max_vecs = 1;
  int fold = 1;                             // steps of K in a vector (gemm_fold.h)
  SparseIndex sparse = SparseIndex::kNone;  // panels of gemm_sparse.h, pair_quads.h
  bool copies = false;                      // A is read from a padded copy
  bool in_matrices = false;                 // tiles of AMX (gemm_amx.h)
  TileFinish finish;

  // Set by plan_conv.
  bool zoned = false;            // A is read in place; tiles skip taps outside the image
  int64_t pixel = 0;             // bytes between pixels of A
  int64_t row = 0;               // bytes between input rows of A
  int64_t b_row = 0, b_tap = 0;  // rows of B between kernel rows and between taps
  int64_t strip = 0;             // output pixels of a work unit: a row, or a part of it
  int64_t strips_per_row = 1;
  int64_t block_rows = 1;      // output rows computed together
  int64_t panel_group = 1;     // panels computed together
  bool fetches_ahead = false;  // a panel at a time, the next one fetched into L2 meanwhile
  bool streams = false;        // one tile passes each panel, which comes from far away
  // Threads share out a line of panels, each over all units of pixels, or of units, each over all
  // panels.
  bool splits_panels = false;
  Line line;
  // Rows of the output that are one tile of matrix registers each go down together.
  bool joins_rows = false;
  bool row_runs = false;  // a kernel row is one segment
  bool chained = false;   // segments are spans of chained panels (gemm_chains.h)
  Spans spans{0, 0};
  int64_t segment_length = 0, max_segments = 0;
  // Floats of long K, where the tactic wants it: part after part of it is added to the output, and
  // a panel's part stays in L1 while tile after tile of pixels passes. The same additions in the
  // same order as without.
  bool adds_parts = false;
  EvenSplit part_segments{0, 0, 0}, part_steps{0, 0, 0};
  int threads = 1;
  Panels planned{0, 0, 1};  // panels()
  int64_t zone_bytes = 0, scratch_bytes = 0, segment_bytes = 0, worker_bytes = 0;

  // Set by keep_tables, else in the workspace in every run.
  bool has_tables = false;
  int32_t* step_offsets = nullptr;  // of chained panels
  ConvZone* zones = nullptr;
  int64_t num_zones = 0;

  // In the workspace, per worker: its copy of A, its segments, waiting tiles.
  std::byte* scratch = nullptr;

  bool has_quads() const { return sparse == SparseIndex::kQuads; }
  bool is_sparse() const { return sparse != SparseIndex::kNone && !has_quads(); }  // of bytes
  Panels panels() const {
    return has_quads()   ? quad_panels(shape.oc, shape.ic, max_vecs)
           : is_sparse() ? sparse_panels(shape, max_vecs, sparse)
                         : conv_panels(shape, numeric, max_vecs, fold);
  }
  int64_t element() const { return element_bytes(numeric); }
  int64_t x_element() const {
    return numeric == Numeric::kWord                                 ? 1
           : numeric == Numeric::kBf16 && x_type == DataType::kFloat ? 4
                                                                     : element();
  }
  int64_t step_elements() const { return is_sparse() ? kSparseStep : elements_per_step(numeric); }
  int64_t tile_rows() const {
    return in_matrices   ? kAmxRows
           : has_quads() ? quad_max_rows(max_vecs)
           : is_sparse() ? sparse_max_rows(max_vecs)
                         : max_rows(numeric, max_vecs);
  }
  // Units are numbered (image, strip, row).
  int64_t units() const { return shape.batch * strips_per_row * shape.oh; }
  int64_t all_panels() const { return planned.count() * shape.groups; }
  int64_t parts() const { return part_segments.parts * part_steps.parts; }
  ConvPart part(int64_t index) const {
    const int64_t segments = index / part_steps.parts, steps = index % part_steps.parts;
    return {part_segments.start(segments), part_segments.size(segments), part_steps.start(steps),
            part_steps.size(steps)};
  }
  // Tiles of bytes, of floats and of matrix registers go down the pixels together.
  bool repeats_tiles() const {
    return (is_quantized(numeric) || in_matrices || (numeric == Numeric::kFloat && fold == 1)) &&
           !finish.has_initial;
  }
  // Of tiles that wait in scratch.
  int64_t waiting_pixels() const {
    constexpr int64_t kMatrixTiles = 4;
    if (in_matrices && repeats_tiles()) return kMatrixTiles * kAmxRows;
    constexpr int64_t kTogether = 32;
    return is_quantized(numeric) && repeats_tiles() && tile_rows() < kTogether ? kTogether
                                                                               : tile_rows();
  }
};

// Whether taking `k` steps in parts differs from taking them at once, for so many rows; what it is
// expected to cost, as a share of the time.
bool has_parts(int64_t rows, int64_t k, int vecs);
double part_cost(int64_t n, int64_t k);

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

// Weights, floats or int8, seen as [group][n][c][kh][kw]: strides in elements, of any sign.
template <class T>
struct Filter {
  const T* data;
  int64_t group, n, c, h, w;
};
template <class T>
Filter<T> conv_filter(const ConvShape& s, const T* weights) {
  const int64_t taps = s.kh * s.kw, filter = s.group_ic() * taps;
  return {weights, s.group_oc() * filter, filter, taps, s.kw, 1};
}

// Packed form: [groups][channels, padded to vectors] bias, then [groups][panel][kh][run][row][vecs
// * kLanes]. Of bytes: first the epilogue; the bias takes up what the zero point adds.
int64_t group_bias_lanes(const ConvShape& shape);
int64_t packed_bias_lanes(const ConvShape& shape);
int64_t packed_filter_lanes(const ConvShape& shape, Numeric numeric, int fold = 1);
void pack_bias(const ConvShape& shape, const float* bias, float* packed);  // null: zeros
void pack_byte_bias(const ConvShape& shape, const int32_t* bias, const Filter<int8_t>& filter,
                    int64_t zero_point, int32_t* packed);
template <class T>
void pack_filter(const ConvShape& shape, const Filter<T>& filter, int max_vecs, int fold,
                 std::byte* packed, int64_t x_maximum = 255);
void count_filter_products(const ConvShape& shape, int max_vecs, const std::byte* packed,
                           ProductShares& shares);

// What Convolution and Deconvolution tactics have in common; inputs are x, w, bias, operands.
inline constexpr size_t kFirstConvOperand = 3;
inline bool has_bias(const Problem& problem) {
  return problem.inputs.size() > 2 && problem.inputs[2].present;
}
template <class T>
const T* constant_values(const ProblemTensor& tensor) {
  return tensor.constant ? reinterpret_cast<const T*>(tensor.constant->view.data()) : nullptr;
}
// Engines keep packed weights only: what the builder has found of the values holds.
inline bool has_values(const ProblemTensor& tensor) {
  return tensor.constant && !tensor.constant->view.empty();
}
inline const float* constant_floats(const ProblemTensor& tensor) {
  return constant_values<float>(tensor);
}
// Types, constants (of who packs them while building), operands.
std::string refuse_conv(const Problem& problem, Numeric numeric, bool has_shape,
                        bool packs_early = true);
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
