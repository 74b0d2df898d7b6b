// SPDX-License-Identifier: Apache-2.0
// Rows through the experts chosen for them (Experts). Choices are sorted by expert and taken in
// batches of at most kMostChoices, in which an expert's rows are one segment: every weight of an
// expert is read once for a segment, and those of experts nobody chose are not.
//
// A batch: rows of segments become operands, the first product, what its sums become, the second
// product, and each row's share of that added to the output, in the order of the experts.
#pragma once

#include "ir/expert_weights.h"
#include "kernels/vector/low_bit/matmul_nbits_layer.h"
#include "kernels/vector/low_bit/matmul_nbits_unpack.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int64_t kMostChoices = 128;

// How products are computed: of floats; or of planes of bytes, where segments have few rows or
// always.
enum class ExpertsWay : uint8_t { kFloats, kUnpacked, kIntegers };

// One of the two products of all experts.
struct ExpertProductRun {
  ir::ExpertProduct product;
  BitGeometry geometry;       // of codes
  int64_t panel_columns = 0;  // of a work unit
  int64_t panel_bytes = 0, expert_bytes = 0, packed_at = 0;
  int64_t row_digits = 0;  // dwords of a row of integers
  int64_t row_parts = 0;   // bytes

  explicit ExpertProductRun(const ir::ExpertProduct& p);
  int64_t panels() const { return ceil_div(product.columns, panel_columns); }
};
// Where the panels of both begin in the packed bytes, and how many bytes there are.
struct PackedExperts {
  ExpertProductRun up, down;
  int64_t bytes;
};
PackedExperts packed_experts(const ir::ExpertsAttrs& attrs);
void pack_expert_product(const ExpertProductRun& run, int64_t experts, const std::byte* weights,
                         std::byte* packed);
void pack_expert_products(const ir::ExpertsAttrs& attrs, const std::byte* up, const std::byte* down,
                          std::byte* packed);

// Choices [first, first + count) of a batch are rows for one expert.
struct ExpertSegment {
  int32_t expert, first, count;
  int32_t first_tile;  // of integers
  bool integers;
};
// At most kMaxBitRows of them together; their digits begin at row `digits` of all.
struct ExpertTile {
  int32_t expert, first, rows, digits;
  bool is_copy;  // the digits of the row are the last tile's
};

// Operands and sums of a batch. Rows of floats: `rows` of the first product; the second one's lie
// where the first one's sums were.
struct ExpertsBatch {
  int64_t segments = 0, tiles = 0, choices = 0;
  const int32_t* chosen = nullptr;  // of all choices, sorted by expert: row * k + place
  ExpertSegment* segment = nullptr;
  ExpertTile* tile = nullptr;
  float *rows = nullptr, *sums = nullptr, *result = nullptr;
  int32_t* digits = nullptr;
  std::byte* parts = nullptr;
  float* weights = nullptr;  // of all workers, unpacked
};

struct ExpertsRun {
  ExpertProductRun up, down;
  const ir::Program* activation = nullptr;  // of the layer
  ExpertsWay way = ExpertsWay::kFloats;
  int planes = 3;
  int64_t experts = 0, rows = 0, choices_of_row = 0;
  int64_t width = 0, hidden = 0;
  int64_t x_stride = 0, y_stride = 0;      // of the tensors, in floats
  int64_t row_stride = 0, sum_stride = 0;  // of a batch's
  bool shares = false;                     // work among threads
  KeptViews views{};

  int64_t choices() const { return rows * choices_of_row; }
  int64_t most_choices() const { return smaller(choices(), kMostChoices); }
};

// Takes pieces off the workspace; with none, counts them.
class Pieces {
 public:
  explicit Pieces(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(int64_t count) {
    constexpr int64_t kAlign = 64;
    T* piece = memory_ ? reinterpret_cast<T*>(memory_ + bytes_) : nullptr;
    bytes_ += round_up(count * static_cast<int64_t>(sizeof(T)), kAlign);
    return piece;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  int64_t bytes_ = 0;
};

struct SortedChoices {
  int32_t *first, *chosen;  // of every expert, where its choices begin; the choices
};
SortedChoices take_sorted(const ExpertsRun& run, Pieces& pieces);
// By counting; of one expert, in the order of the rows. False: an expert that there is not.
bool sort_choices(const ExpertsRun& run, const int64_t* chosen, const SortedChoices& sorted);
// Segments of the choices from `from` on, beginning with expert `expert`; moves both on.
void fill_batch(const ExpertsRun& run, const SortedChoices& sorted, int64_t& expert, int64_t& from,
                ExpertsBatch& batch);

// One product of all segments of a batch: y[choice][column].
struct ExpertsMultiply {
  const ExpertProductRun* run;
  const std::byte* packed;  // of all experts
  const float* rows;
  int64_t row_stride;
  float* y;
  int64_t y_stride;
  int planes;
};
// Unit `unit` of segments * panels.
void multiply_unit(const ExpertsBatch& batch, const ExpertsMultiply& m, int64_t unit, int worker);

// Digits of a tile's rows, `row(r)` being where row r is.
template <class RowOf>
void make_tile_digits(const ExpertProductRun& run, int planes, const ExpertTile& tile,
                      const ExpertsBatch& batch, const RowOf& row) {
  const int interleaved = tile_rows(tile.rows);
  for (int r = 0; r < interleaved; ++r)
    make_digits(row(smaller(r, tile.rows - 1)), run.geometry, planes, interleaved, r,
                batch.digits + tile.digits * run.row_digits,
                batch.parts + tile.digits * run.row_parts);
}

void prepare_experts(const KernelArgs& args, ExpertsWay way, int planes, PreparedKernel& kernel);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
