// SPDX-License-Identifier: Apache-2.0
// Col2Im of one or two spatial dimensions: each map adds its taps row by row; threads share maps.
#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::col2im {
namespace {

// One spatial dimension.
struct Side {
  int64_t image = 1, block = 1, stride = 1, dilation = 1, pre = 0, positions = 1;

  // The positions whose tap lies inside the image: [first, last).
  int64_t first(int64_t tap) const { return ceil_div(pre - tap * dilation, stride); }
  int64_t last(int64_t tap) const {
    return smaller(positions, ceil_div(image + pre - tap * dilation, stride));
  }
  int64_t place(int64_t position, int64_t tap) const {
    return position * stride + tap * dilation - pre;
  }
};

// Rows and columns; of one spatial dimension only columns.
struct Sides {
  Side rows, cols;
};

// False: attributes or extents do not fit each other.
bool find_sides(const ir::Layer& layer, const int64_t* block, const int64_t* image, int rank,
                int64_t places, Sides& sides) {
  const auto at = [&layer](std::string_view name, int k, int64_t fallback) {
    return generic_integer(layer, name, fallback, static_cast<size_t>(k));
  };
  for (int d = 0; d < rank; ++d) {
    Side& side = d + 1 == rank ? sides.cols : sides.rows;
    side.image = image[d], side.block = block[d];
    side.stride = at("strides", d, 1), side.dilation = at("dilations", d, 1);
    side.pre = at("pads", d, 0);
    if (side.stride < 1 || side.dilation < 1 || side.block < 1 || side.pre < 0) return false;
    const int64_t room =
        side.image + side.pre + at("pads", d + rank, 0) - side.dilation * (side.block - 1) - 1;
    if (room < 0) return false;
    side.positions = room / side.stride + 1;
  }
  return sides.rows.positions * sides.cols.positions == places;
}

std::string refusal(const Problem& p) {
  if (!is_operator(p, "Col2Im")) return "another operator";
  const ProblemTensor &x = p.inputs[0], &block = p.inputs[2], &y = p.outputs[0];
  if (x.type != DataType::kFloat) return "not float";
  const size_t rank = y.extents.size() - 2;
  if (x.extents.size() != 3 || rank < 1 || rank > 2) return "not one or two spatial dimensions";
  if (p.inputs[1].constant == nullptr || block.constant == nullptr ||
      block.type != DataType::kInt64 || count_of(block) != static_cast<int64_t>(rank))
    return "image or block are known only when running";
  const auto* taps = reinterpret_cast<const int64_t*>(block.constant->view.data());
  Sides sides;
  if (!find_sides(*p.layer, taps, y.extents.data() + 2, static_cast<int>(rank), x.extents[2],
                  sides) ||
      x.extents[0] != y.extents[0] ||
      x.extents[1] != y.extents[1] * sides.rows.block * sides.cols.block)
    return "columns and image do not fit";
  return "";
}

double cost_us(const Problem& p) {
  return 0.5 + 0.0005 * static_cast<double>(count_of(p.inputs[0]));
}

void add_row(float* y, int64_t y_step, const float* x, int64_t x_step, int64_t count) {
  if (y_step == 1 && x_step == 1)
    for (int64_t k = 0; k < count; ++k) y[k] += x[k];
  else
    for (int64_t k = 0; k < count; ++k) y[k * y_step] += x[k * x_step];
}

// The block is a constant, but its values are seen only when running.
struct Col2Im {
  const ir::Layer* layer;
  TensorView x, y;
  double predicted_us;
  int64_t block[2];  // that `sides` belong to
  Sides sides;
};

// False: the block does not fit.
bool find_sides(Col2Im& s, const int64_t* block) {
  const int rank = s.y.rank - 2;
  bool same = true;
  for (int d = 0; d < rank; ++d) same &= s.block[d] == block[d];
  if (same) return true;
  Sides sides;
  if (!find_sides(*s.layer, block, s.y.extents + 2, rank, s.x.extents[2], sides)) return false;
  s.sides = sides;
  for (int d = 0; d < rank; ++d) s.block[d] = block[d];
  return true;
}

void run(Col2Im& s, const KernelCall& call) {
  if (!find_sides(s, call.input<const int64_t>(2))) return;
  const TensorView &x = s.x, &y = s.y;
  const Side &rows = s.sides.rows, &cols = s.sides.cols;
  const int64_t channels = y.extents[1], taps = rows.block * cols.block;
  const int64_t row_step = y.rank == 4 ? y.strides[2] : 0, col_step = y.strides[y.rank - 1],
                from_step = x.strides[2];
  split(call.pool, y.extents[0] * channels, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t map = first; map < last; ++map) {
      const int64_t n = map / channels, c = map % channels;
      float* to = call.output<float>(0) + n * y.strides[0] + c * y.strides[1];
      const float* from = call.input<const float>(0) + n * x.strides[0] + c * taps * x.strides[1];
      for (int64_t row = 0; row < rows.image; ++row)
        for (int64_t col = 0; col < cols.image; ++col) to[row * row_step + col * col_step] = 0;
      for (int64_t tap = 0; tap < taps; ++tap, from += x.strides[1]) {
        const int64_t row_tap = tap / cols.block, col_tap = tap % cols.block;
        const int64_t begin = cols.first(col_tap), count = cols.last(col_tap) - begin;
        for (int64_t row = rows.first(row_tap); row < rows.last(row_tap); ++row)
          add_row(to + rows.place(row, row_tap) * row_step + cols.place(begin, col_tap) * col_step,
                  cols.stride * col_step, from + (row * cols.positions + begin) * from_step,
                  from_step, count);
      }
    }
  });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  keep_state<run>(
      kernel, Col2Im{args.layer, x, y, static_cast<double>(count_of(x)) * 0.0005, {0, 0}, Sides()});
}

constexpr Tactic kTactics[] = {
    {"col2im", ir::LayerKind::kGeneric, kIsa, FormatRule::kAny, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::col2im
