// SPDX-License-Identifier: Apache-2.0
// The products of experts: packed weights, and panels of them over the rows of a segment.
#include "kernels/vector/experts/experts.h"
#include "kernels/vector/gemm/gemm_pack.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Of floats: panels of kUnpackedVecs vectors of columns, [depth][kUnpackedWidth].
void pack_floats(const ir::ExpertProduct& p, const float* weights, float* packed) {
  for (int64_t first = 0; first < p.columns; first += kUnpackedWidth)
    pack_panel(weights + first * p.depth, 1, p.depth, p.depth,
               smaller(kUnpackedWidth, p.columns - first), kUnpackedWidth, 1,
               packed + first * p.depth);
}

}  // namespace

void pack_expert_product(const ExpertProductRun& run, int64_t experts, const std::byte* weights,
                         std::byte* packed) {
  for (int64_t expert = 0; expert < experts; ++expert) {
    const std::byte* from = weights + expert * run.product.bytes();
    std::byte* to = packed + run.packed_at + expert * run.expert_bytes;
    if (run.product.is_float())
      pack_floats(run.product, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
    else
      pack_panels(BitGeometry(run.product.low_bits()), run.product.low_bits(), from, to);
  }
}

namespace {

BitGeometry geometry_of(const ir::ExpertProduct& p) {
  ir::LowBits weights = p.low_bits();
  if (p.is_float()) weights.bits = 8, weights.block = 1;  // not used
  return BitGeometry(weights);
}

// All tiles of a segment's rows pass a part of a panel.
void pass_rows(const ExpertSegment& segment, const ExpertsMultiply& m, int64_t channel,
               const UnpackedPart& part, const float* weights) {
  const int64_t columns = smaller(kUnpackedWidth, m.run->product.columns - channel);
  const int vecs = static_cast<int>(ceil_div(columns, kLanes));
  const EvenSplit tiles = split_evenly(segment.count, kMaxRows[vecs]);
  constexpr int64_t kAhead = 8192;  // two pages
  const Segment all{0, 0};
  Tile tile{};
  tile.k = {&all, 1, part.depth};
  tile.a.stride = m.row_stride * kLaneBytes;
  tile.b = {reinterpret_cast<const std::byte*>(weights), kUnpackedWidth * kLaneBytes};
  tile.start = {nullptr, nullptr, part.k > 0};
  tile.c = {nullptr, m.y_stride * kLaneBytes, columns, TileOut::kFloat};
  tile.floats = {-__builtin_inff(), __builtin_inff(), 1, nullptr};
  if (m.run->product.is_float() && tiles.parts == 1)
    tile.ahead = {tile.b.first + kAhead, tile.b.stride};
  for (int64_t t = 0; t < tiles.parts; ++t) {
    const int64_t row = segment.first + tiles.start(t);
    tile.a.first = reinterpret_cast<const std::byte*>(m.rows + row * m.row_stride + part.k);
    tile.c.first = reinterpret_cast<std::byte*>(m.y + row * m.y_stride + channel);
    tile_kernel(vecs, static_cast<int>(tiles.size(t)))(tile);
  }
}

void multiply_floats(const ExpertSegment& segment, const ExpertsMultiply& m, int64_t panel,
                     const std::byte* packed) {
  const auto* weights = reinterpret_cast<const float*>(packed + panel * m.run->panel_bytes);
  const int64_t depth = m.run->product.depth, channel = panel * kUnpackedWidth;
  const bool is_once = segment.count <= kMaxRows[kUnpackedVecs];
  const int64_t step = is_once ? depth : kUnpackedDepth;
  for (int64_t k = 0; k < depth; k += step)
    pass_rows(segment, m, channel, {k, smaller(step, depth - k), k + step >= depth},
              weights + k * kUnpackedWidth);
}

// A panel of codes is kPanelVecs vectors wide.
void multiply_unpacked(const ExpertSegment& segment, const ExpertsMultiply& m, int64_t panel,
                       const std::byte* packed, float* weights) {
  constexpr int64_t kEach = kPanelVecs / kUnpackedVecs;
  for (int64_t narrow = panel * kEach; narrow < (panel + 1) * kEach; ++narrow) {
    const int64_t channel = narrow * kUnpackedWidth;
    if (channel >= m.run->product.columns) return;
    for_unpacked_parts(m.run->geometry, packed, narrow, weights, [&](const UnpackedPart& part) {
      pass_rows(segment, m, channel, part, weights);
    });
  }
}

void multiply_integers(const ExpertSegment& segment, const ExpertsBatch& batch,
                       const ExpertsMultiply& m, int64_t panel, const std::byte* packed) {
  const ExpertProductRun& run = *m.run;
  const int64_t channel = panel * kPanelColumns;
  for (const ExpertTile* tile = batch.tile + segment.first_tile;
       tile != batch.tile + batch.tiles && tile->first < segment.first + segment.count; ++tile)
    bit_tile_kernel(run.geometry.bits, m.planes, tile_rows(tile->rows))(
        {.panel = packed + panel * run.panel_bytes,
         .digits = batch.digits + tile->digits * run.row_digits,
         .parts = batch.parts + tile->digits * run.row_parts,
         .geometry = &run.geometry,
         .y = m.y + tile->first * m.y_stride + channel,
         .y_stride = m.y_stride,
         .rows = tile->rows,
         .columns = smaller(kPanelColumns, run.product.columns - channel)});
}

}  // namespace

ExpertProductRun::ExpertProductRun(const ir::ExpertProduct& p)
    : product(p), geometry(geometry_of(p)) {
  panel_columns = p.is_float() ? kUnpackedWidth : kPanelColumns;
  panel_bytes = p.is_float() ? kUnpackedWidth * p.depth * kLaneBytes : geometry.panel_bytes();
  expert_bytes = panels() * panel_bytes;
}

PackedExperts packed_experts(const ir::ExpertsAttrs& attrs) {
  PackedExperts packed{ExpertProductRun(ir::up_product(attrs)),
                       ExpertProductRun(ir::down_product(attrs)), 0};
  packed.down.packed_at = attrs.experts * packed.up.expert_bytes;
  packed.bytes = packed.down.packed_at + attrs.experts * packed.down.expert_bytes;
  return packed;
}

void pack_expert_products(const ir::ExpertsAttrs& attrs, const std::byte* up, const std::byte* down,
                          std::byte* packed) {
  const PackedExperts layout = packed_experts(attrs);
  pack_expert_product(layout.up, attrs.experts, up, packed);
  pack_expert_product(layout.down, attrs.experts, down, packed);
}

void multiply_unit(const ExpertsBatch& batch, const ExpertsMultiply& m, int64_t unit, int worker) {
  const int64_t panels = m.run->panels(), panel = unit % panels;
  const ExpertSegment& segment = batch.segment[unit / panels];
  const std::byte* packed = m.packed + m.run->packed_at + segment.expert * m.run->expert_bytes;
  if (segment.integers)
    multiply_integers(segment, batch, m, panel, packed);
  else if (m.run->product.is_float())
    multiply_floats(segment, m, panel, packed);
  else
    multiply_unpacked(segment, m, panel, packed,
                      batch.weights + worker * kUnpackedDepth * kUnpackedWidth);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
