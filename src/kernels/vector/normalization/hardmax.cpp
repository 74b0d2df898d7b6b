// SPDX-License-Identifier: Apache-2.0
// Hardmax: 1 where the first of the largest elements of a line is, else 0. Lines lie one after
// another, or side by side, kBlock at a time.
#include <cstring>

#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::hardmax {
namespace {

constexpr int64_t kBlock = 256;

// The dimension that lines run along; -1: several do.
int axis_of(const ir::SoftMaxAttrs& attrs, const int64_t* extents, int rank) {
  int axis = static_cast<int>(attrs.last_axis);
  for (int d = static_cast<int>(attrs.axis); d <= attrs.last_axis && d < rank; ++d) {
    if (extents[d] == 1) continue;
    if (extents[axis] != 1 && axis != d) return -1;
    axis = d;
  }
  return axis;
}

std::string refusal(const Problem& p) {
  const auto& attrs = *std::get_if<ir::SoftMaxAttrs>(&p.layer->attrs);
  const ir::Extents& x = p.inputs[0].extents;
  if (!attrs.hard) return "not hardmax";
  if (!all_float(p)) return "not float";
  if (x.empty() || attrs.axis < 0 || attrs.last_axis >= static_cast<int64_t>(x.size()))
    return "no such dimension";
  if (axis_of(attrs, x.data(), static_cast<int>(x.size())) < 0)
    return "of several dimensions together";
  return "";
}

double cost_us(const Problem& p) {
  return traffic_us(p) / p.threads;
}

struct Hardmax {
  Nest nest;  // of lines: y, x
  int64_t count, x_step, y_step;
  double predicted_us;
};

// Of a line whose elements follow each other. A NaN is passed over, unless it is in front: it
// stays.
int64_t first_largest(const float* x, int64_t count) {
  F32 most = set1(x[0]);
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    const F32 value = load(x + k);
    most = select(less(most, value), value, most);
  }
  float largest = reduce_max(most);
  for (; k < count; ++k) largest = x[k] > largest ? x[k] : largest;
  if (x[0] != x[0]) return 0;
  for (k = 0; k + kLanes <= count && !any(equal(load(x + k), set1(largest)));) k += kLanes;
  while (x[k] != largest) ++k;
  return k;
}

void mark_line(const Hardmax& s, const float* x, float* y) {
  if (s.y_step == 1)
    std::memset(y, 0, static_cast<size_t>(s.count) * sizeof(float));
  else
    for (int64_t k = 0; k < s.count; ++k) y[k * s.y_step] = 0;
  y[first_largest(x, s.count) * s.y_step] = 1;
}

// Lines side by side: `step` elements from one to the next.
void mark_lines(const Hardmax& s, const float* x, int64_t x_line, float* y, int64_t y_line,
                int64_t lines) {
  float largest[kBlock];
  int32_t places[kBlock];
  for (int64_t n = 0; n < lines; ++n) largest[n] = x[n * x_line], places[n] = 0;
  for (int64_t k = 1; k < s.count; ++k) {
    const float* from = x + k * s.x_step;
    for (int64_t n = 0; n < lines; ++n) {
      const float value = from[n * x_line];
      places[n] = value > largest[n] ? static_cast<int32_t>(k) : places[n];
      largest[n] = value > largest[n] ? value : largest[n];
    }
  }
  for (int64_t k = 0; k < s.count; ++k)
    for (int64_t n = 0; n < lines; ++n)
      y[k * s.y_step + n * y_line] = places[n] == static_cast<int32_t>(k) ? 1.0f : 0.0f;
}

void run(Hardmax& s, const KernelCall& call) {
  const Nest& nest = s.nest;
  const int64_t x_line = nest.col_stride(1), y_line = nest.col_stride(0);
  for_tiles(nest, call.pool, s.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              for (int64_t row = 0; row < rows; ++row) {
                const float* x = call.input<const float>(0) + offsets[1] + row * nest.row_stride(1);
                float* y = call.output<float>(0) + offsets[0] + row * nest.row_stride(0);
                if (s.x_step == 1) {
                  for (int64_t col = 0; col < cols; ++col)
                    mark_line(s, x + col * x_line, y + col * y_line);
                } else {
                  for (int64_t col = 0; col < cols; col += kBlock)
                    mark_lines(s, x + col * x_line, x_line, y + col * y_line, y_line,
                               smaller(kBlock, cols - col));
                }
              }
            });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int axis = axis_of(*std::get_if<ir::SoftMaxAttrs>(&args.layer->attrs), x.extents, x.rank);
  Hardmax s{make_nest(y), x.extents[axis], x.strides[axis], y.strides[axis],
            static_cast<double>(count_of(y)) / 2000};
  add_tensor(s.nest, x);
  s.nest.extents[axis] = 1;
  collapse(s.nest);
  keep_state<run>(kernel, s);
}

constexpr Tactic kTactics[] = {
    {"hardmax_f32", ir::LayerKind::kSoftMax, kIsa, FormatRule::kAny, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::hardmax
