// SPDX-License-Identifier: Apache-2.0
// Reduce over any set of dimensions: the input is walked in its memory order; where its contiguous
// dimension is reduced a line becomes a number, else rows are added to a row of results.
#include "kernels/nest.h"
#include "kernels/simd/shuffles.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/math.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/reduction/reduction.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::reduce {
namespace {

using ir::ReduceOp;

struct Finish {
  ReduceOp op;
  float scale;
  float operator()(float v) const {
    switch (op) {
      case ReduceOp::kMean:
        return v * scale;
      case ReduceOp::kL2:
        return __builtin_sqrtf(v);
      case ReduceOp::kLogSum:
        return __builtin_logf(v);
      default:
        return v;
    }
  }
  void line(float* v, int64_t count) const {
    if (!is_needed()) return;
    const F32 factor = set1(scale);
    int64_t k = 0;
    if (op == ReduceOp::kMean)
      for (; k + kLanes <= count; k += kLanes) store(v + k, load(v + k) * factor);
    if (op == ReduceOp::kL2)
      for (; k + kLanes <= count; k += kLanes) store(v + k, sqrt(load(v + k)));
    for (; k < count; ++k) v[k] = (*this)(v[k]);
  }
  bool is_needed() const {
    return op == ReduceOp::kMean || op == ReduceOp::kL2 || op == ReduceOp::kLogSum;
  }
};

// Lines up to here go kLanes together: a vector of each, all of which are turned and merged lane by
// lane. By itself a line of 80 takes as long for its last lanes as for its elements.
constexpr int64_t kShortLine = 8 * kLanes;

// Of up to kLanes lines from `first` on. A line's result hangs on no other line.
template <class Step>
void reduce_short_lines(const Reduction& s, const float* x, int64_t first, int64_t count,
                        float* results) {
  const int64_t length = s.nest.cols();
  const M32 tail = first_n(static_cast<int>(length % kLanes));
  alignas(64) float parts[kLanes * kLanes], turned[kLanes * kLanes];
  for (int64_t k = 0; k < kLanes; ++k) {
    F32 part = set1(Step::kIdentity);
    if (k < count) {
      const float* line = x + s.offset_of_kept(0, first + k);
      int64_t c = 0;
      for (; c + kLanes <= length; c += kLanes) part = Step::step(part, load(line + c));
      if (c < length) part = select(tail, Step::step(part, load(line + c, tail)), part);
    }
    store(parts + k * kLanes, part);
  }
  transpose_full(parts, kLanes, turned, kLanes);
  F32 result = load(turned);
  for (int lane = 1; lane < kLanes; ++lane)
    result = Step::merge(result, load(turned + lane * kLanes));
  store(results, result);
}

template <class Step>
void reduce_lines(const Reduction& s, const float* x, float* y, ThreadPool* pool) {
  const Finish finish{s.op, s.scale};
  const int64_t length = s.nest.cols();
  const bool are_short = s.num_reduced == 0 && length <= kShortLine && s.kept_count >= 4;
  split(pool, s.kept_count, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (; are_short && first < last; first += kLanes) {
      float results[kLanes];
      const int64_t count = smaller(kLanes, last - first);
      reduce_short_lines<Step>(s, x, first, count, results);
      for (int64_t k = 0; k < count; ++k) y[s.offset_of_kept(1, first + k)] = finish(results[k]);
    }
    for (int64_t k = first; k < last; ++k) {
      const float* from = x + s.offset_of_kept(0, k);
      float value = Step::kIdentity;
      for (int64_t r = 0; r < s.reduced_count; ++r)
        value = Step::merge(value, reduce_line<Step>(from + s.offset_of_reduced(r), length));
      y[s.offset_of_kept(1, k)] = finish(value);
    }
  });
}

// Columns of a unit: as many as are taken at once, fewer where threads would go without, down to a
// line of the cache. A column is summed in the same order, whatever is beside it.
int64_t columns_together(const Reduction& s, ThreadPool* pool) {
  constexpr int64_t kLeast = 16;
  const int64_t threads = pool == nullptr || s.predicted_us < kThreadedUs ? 1 : pool->threads(),
                columns = s.kept_count * s.nest.cols();
  if (threads == 1 || columns >= 4 * threads * kWideColumns) return kWideColumns;
  return smaller(256, round_up(larger(1, columns / threads), kLeast));
}

template <class Step>
void reduce_column_range(const Reduction& s, const float* from, int64_t cols, float* to) {
  if (s.num_reduced == 0) return reduce_columns<Step>(from, 1, 0, cols, to, false);
  const int inner = s.reduced[s.num_reduced - 1];
  const int64_t rows = s.nest.extents[inner], row_stride = s.nest.strides[0][inner],
                outer = s.reduced_count / rows;
  for (int64_t r = 0; r < outer; ++r)
    reduce_columns<Step>(from + s.offset_of_reduced(r * rows), rows, row_stride, cols, to, r > 0);
}

template <class Step>
void reduce_rows(const Reduction& s, const float* x, float* y, ThreadPool* pool) {
  const Finish finish{s.op, s.scale};
  const int64_t cols = s.nest.cols(), stride = s.nest.col_stride(1),
                width = columns_together(s, pool), blocks = (cols + width - 1) / width;
  split(pool, s.kept_count * blocks, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t k = unit / blocks, c = unit % blocks * width;
      const int64_t count = cols - c < width ? cols - c : width;
      float* to = y + s.offset_of_kept(1, k) + c * stride;
      alignas(64) float own[kWideColumns];
      float* sums = stride == 1 ? to : own;
      reduce_column_range<Step>(s, x + s.offset_of_kept(0, k) + c, count, sums);
      if (stride == 1)
        finish.line(to, count);
      else
        for (int64_t n = 0; n < count; ++n) to[n * stride] = finish(sums[n]);
    }
  });
}

using RunReduction = void (*)(const Reduction&, const float* x, float* y, ThreadPool*);

template <class Step>
RunReduction runs(bool line) {
  return line ? reduce_lines<Step> : reduce_rows<Step>;
}

RunReduction runs(ReduceOp op, bool line) {
  switch (op) {
    case ReduceOp::kMax:
      return runs<MaxStep>(line);
    case ReduceOp::kMin:
      return runs<MinStep>(line);
    case ReduceOp::kProd:
      return runs<MultiplyStep>(line);
    case ReduceOp::kL1:
      return runs<AddAbsStep>(line);
    case ReduceOp::kL2:
    case ReduceOp::kSumSquare:
      return runs<AddSquareStep>(line);
    default:
      return runs<AddStep>(line);
  }
}

// --- the tactic
// ----------------------------------------------------------------------------------------------------------------

const ir::ReduceAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::ReduceAttrs>(&layer.attrs);
}

std::string refusal(const Problem& p) {
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  if (attrs_of(*p.layer).axes.empty()) return "axes are known only when running";
  if (attrs_of(*p.layer).op == ReduceOp::kLogSumExp) return "log-sum-exp needs two passes";
  if (count_of(p.inputs[0]) == 0) return "empty";
  return "";
}

double cost_us(const Problem& p) {
  return traffic_us(p);
}

void run(Reduction& r, const KernelCall& call) {
  run_reduction(r, call.input<const float>(0), call.output<float>(0), call.pool);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const ir::ReduceAttrs& attrs = attrs_of(*args.layer);
  keep_state<run>(
      kernel, plan_reduction(x, with_reduced_extents(x, y, attrs), dims_of(attrs.axes), attrs.op));
}

constexpr Tactic kTactics[] = {
    {"reduce_f32", ir::LayerKind::kReduce, kIsa, FormatRule::kSame, 2, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::reduce

namespace camshaft::kernels::CAMSHAFT_TARGET {

Reduction split_reduction(const TensorView& x, const TensorView& y, uint32_t dims) {
  Reduction s;
  s.nest = make_nest(x);
  add_tensor(s.nest, y);
  for (int d = 0; d < x.rank; ++d)
    if ((dims >> d & 1) != 0) s.nest.strides[1][d] = 0;
  collapse(s.nest);
  const int last = s.nest.rank - 1;
  s.line = s.nest.strides[1][last] == 0;
  for (int d = 0; d < last; ++d) {
    if (s.nest.strides[1][d] != 0)
      s.kept[s.num_kept++] = d, s.kept_count *= s.nest.extents[d];
    else
      s.reduced[s.num_reduced++] = d, s.reduced_count *= s.nest.extents[d];
  }
  return s;
}

TensorView with_reduced_extents(const TensorView& x, const TensorView& y,
                                const ir::ReduceAttrs& attrs) {
  const uint32_t reduced = dims_of(attrs.axes);
  TensorView aligned = y;
  aligned.rank = x.rank;
  for (int d = 0, own = 0; d < x.rank; ++d) {
    const bool gone = (reduced >> d & 1) != 0;
    aligned.extents[d] = gone ? 1 : y.extents[attrs.keep_dims ? d : own];
    aligned.strides[d] = gone ? 0 : y.strides[attrs.keep_dims ? d : own];
    own += !gone;
  }
  return aligned;
}

Reduction plan_reduction(const TensorView& x, const TensorView& y, uint32_t dims, ir::ReduceOp op) {
  Reduction s = split_reduction(x, y, dims);
  const int64_t per_output = s.reduced_count * (s.line ? s.nest.cols() : 1);
  s.run = reduce::runs(op, s.line);
  s.op = op;
  s.scale = per_output == 0 ? 0 : 1 / static_cast<float>(per_output);
  // A line that is summed up, a row that is added to others, a row of results.
  constexpr double kLineUs = 0.004, kRowUs = 0.0006, kKeptUs = 0.1;
  const auto count = static_cast<double>(count_of(x));
  s.predicted_us =
      count / kLanes / 3000 +
      count / static_cast<double>(larger(1, s.nest.cols())) * (s.line ? kLineUs : kRowUs) +
      (s.line ? 0 : static_cast<double>(s.kept_count) * kKeptUs);
  return s;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
