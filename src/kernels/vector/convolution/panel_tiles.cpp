// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/convolution/panel_tiles.h"

#include "kernels/vector/gemm/gemm_bf16.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"
#include "kernels/vector/gemm/gemm_fold.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Sets the panel of `tile`; gives the kernel for it.
TileKernel set_panel(const ConvRun& run, const std::byte* panel, int vecs, int rows, Tile& tile) {
  tile.b.first = panel;
  if (run.tile.in_matrices) return amx_tile_kernel(run.tile.numeric, vecs, rows);
  if (run.tile.has_quads()) return quad_tile_kernel(vecs, rows);
  if (run.tile.has_picks()) return pick_tile_kernel(vecs, rows);
  if (run.tile.is_narrow()) return narrow_tile_kernel(run.tile.stored, vecs, rows);
  if (run.tile.fold > 1) return fold_kernel(run.tile.fold, vecs, rows);
  if (run.tile.numeric == Numeric::kFloat) return tile_kernel(vecs, rows);
  if (run.tile.numeric == Numeric::kBf16) return pair_tile_kernel(vecs, rows);
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
  if (run.tile.numeric == Numeric::kWord) return widened_tile_kernel(vecs, rows);
#endif
  if (run.tile.is_sparse()) return sparse_panel_kernel(panel, run.plan.k.spans, vecs, rows, tile);
  return byte_panel_kernel(panel, run.plan.k.spans, vecs, rows, tile);
}

constexpr int64_t kFarAhead = 8192;  // two pages: processors fetch ahead within one

bool takes_whole_panels(const ConvRun& run, const Tile& tile) {
  return run.tile.numeric == Numeric::kFloat && run.tile.fold == 1 && !run.tile.is_narrow() &&
         run.tile.sparse == SparseIndex::kNone && !tile.ahead.from && !run.plan.blocks.streams() &&
         !tile.start.from_c && is_plain(tile, run.tile.max_vecs);
}

// Tiles of a plain product against whole panels from `first` on, in one call; gives the first panel
// that is left.
const PanelTile* run_whole_panels(const ConvRun& run, Tile& tile, const TilePlace& place, int rows,
                                  const PanelTile* first, const PanelTile* last) {
  const int vecs = run.tile.max_vecs;
  const PanelTile* end = first;
  while (end < last && end->cols == vecs * kLanes) ++end;
  if (end == first) return first;
  tile.b.stride = run.tile.panel_step(vecs);
  tile.b.first = first->weights;
  tile.start.bias = first->bias;
  place_tile(run.finish, place, first->channel, first->cols, tile);
  PlainProduct product = plain_product(tile);
  product.b_panel = run.plan.panels.k * tile.b.stride / kLaneBytes;
  product.panels = end - first;
  plain_kernel(vecs, rows)(product);
  return end;
}

}  // namespace

void run_panels(const ConvRun& run, Tile& tile, const TilePlace& place, int rows,
                const PanelTile* first, const PanelTile* last, std::byte* rest_scratch) {
  if (takes_whole_panels(run, tile)) first = run_whole_panels(run, tile, place, rows, first, last);
  for (const PanelTile* panel = first; panel < last; ++panel) {
    tile.b.stride = run.tile.panel_step(panel->vecs);
    tile.start.bias = panel->bias;
    if (run.tile.numeric == Numeric::kFloat)
      place_tile(run.finish, place, panel->channel, panel->cols, tile);
    else if (run.tile.numeric == Numeric::kBf16)
      place_pair_tile(run.finish, place, panel->channel, panel->cols, first->channel, rest_scratch,
                      tile);
    else
      place_byte_tile(run.finish, place, panel->channel, panel->cols, panel->column, first->channel,
                      rest_scratch, tile);
    if (run.plan.blocks.streams()) {
      tile.ahead.from = panel->weights + kFarAhead;
      tile.ahead.step = tile.b.stride;
    }
    set_panel(run, panel->weights, panel->vecs, rows, tile)(tile);
  }
}

void finish_panels(const ConvRun& run, const TilePlace& place, const PanelTile* first,
                   const PanelTile* last, std::byte* rest_scratch) {
  const int64_t channels = last[-1].channel + last[-1].cols - first->channel;
  if (run.tile.numeric == Numeric::kFloat)
    finish_tiles(run.finish, place, first->channel, channels);
  else if (run.tile.numeric == Numeric::kBf16)
    finish_pair_tiles(run.finish, place, first->channel, channels, rest_scratch);
  else
    finish_byte_tiles(run.finish, place, first->channel, channels, first->column, rest_scratch);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
