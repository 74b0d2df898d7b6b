// SPDX-License-Identifier: Apache-2.0
// SoftMax and LogSoftMax of doubles over neighbouring dimensions. Where these are the last ones, a
// line at a time, else as many lines side by side as stay in cache.
#include <limits>

#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/pointwise/double_math.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::softmax_doubles {
namespace {

const ir::SoftMaxAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::SoftMaxAttrs>(&layer.attrs);
}

// Some dimensions of x and y, the innermost last, merged where both lie so.
struct Walk {
  int rank = 0;
  int64_t count = 1;
  int64_t extents[ir::kMaxRank], x[ir::kMaxRank], y[ir::kMaxRank];

  void add(const TensorView& from, const TensorView& to, int d) {
    const int64_t extent = to.extents[d], x_step = from.strides[d], y_step = to.strides[d];
    if (extent == 1) return;
    count *= extent;
    const bool merges =
        rank > 0 && x[rank - 1] == x_step * extent && y[rank - 1] == y_step * extent;
    if (!merges) extents[rank++] = 1;
    extents[rank - 1] *= extent, x[rank - 1] = x_step, y[rank - 1] = y_step;
  }
  int64_t offset(const int64_t* strides, int64_t index) const {
    int64_t offset = 0;
    for (int d = rank - 1; d > 0; --d) {
      offset += index % extents[d] * strides[d];
      index /= extents[d];
    }
    return rank == 0 ? 0 : offset + index * strides[0];
  }
};

struct SoftMax {
  Walk lines, line;  // the lines there are, and along one of them
  int64_t columns;   // lines that lie side by side
  int64_t together;  // of them, in one part
  bool log;
  double predicted_us;
};

constexpr int64_t kWidth = 4 * kLanes;  // partial results of one line

// buffer[k * width + c]: element k of line c.
void find_most(const double* buffer, int64_t length, int64_t width, double* most) {
  for (int64_t c = 0; c < width; ++c) most[c] = -std::numeric_limits<double>::infinity();
  for (int64_t k = 0; k < length; ++k, buffer += width)
    for (int64_t c = 0; c < width; ++c) most[c] = buffer[c] > most[c] ? buffer[c] : most[c];
}

// Elements become exponentials; sums of them.
void add_exponentials(double* buffer, int64_t length, int64_t width, const double* most,
                      double* sums) {
  for (int64_t c = 0; c < width; ++c) sums[c] = 0;
  for (int64_t k = 0; k < length; ++k, buffer += width)
    for (int64_t c = 0; c < width; ++c) {
      const double e = exp_of(buffer[c] - most[c]);
      buffer[c] = e, sums[c] += e;
    }
}

// --- one line

void load_line(const Walk& line, const double* x, double* buffer) {
  if (line.rank <= 1) {
    const int64_t step = line.rank == 0 ? 0 : line.x[0];
    for (int64_t k = 0; k < line.count; ++k) buffer[k] = x[k * step];
    return;
  }
  for (int64_t k = 0; k < line.count; ++k) buffer[k] = x[line.offset(line.x, k)];
}

template <class Value>
void store_line(const Walk& line, double* y, const Value& value) {
  if (line.rank <= 1) {
    const int64_t step = line.rank == 0 ? 0 : line.y[0];
    for (int64_t k = 0; k < line.count; ++k) y[k * step] = value(k);
    return;
  }
  for (int64_t k = 0; k < line.count; ++k) y[line.offset(line.y, k)] = value(k);
}

// As rows of kWidth, and what is left.
void run_line(const SoftMax& s, const double* x, double* y, double* buffer) {
  const int64_t count = s.line.count, rows = count / kWidth, whole = rows * kWidth;
  load_line(s.line, x, buffer);
  double partial[kWidth], most = -std::numeric_limits<double>::infinity(), sum = 0;
  find_most(buffer, rows, kWidth, partial);
  for (const double v : partial) most = v > most ? v : most;
  for (int64_t k = whole; k < count; ++k) most = buffer[k] > most ? buffer[k] : most;
  double mosts[kWidth];
  for (double& v : mosts) v = most;
  add_exponentials(buffer, rows, kWidth, mosts, partial);
  for (const double v : partial) sum += v;
  for (int64_t k = whole; k < count; ++k) sum += buffer[k] = exp_of(buffer[k] - most);
  if (!s.log) {
    const double share = 1 / sum;
    return store_line(s.line, y, [=](int64_t k) { return buffer[k] * share; });
  }
  load_line(s.line, x, buffer);
  const double log = log_of(sum);
  store_line(s.line, y, [=](int64_t k) { return buffer[k] - most - log; });
}

// --- lines side by side

void load_columns(const SoftMax& s, const double* x, int64_t width, double* buffer) {
  const int64_t step = s.lines.x[s.lines.rank - 1];
  for (int64_t k = 0; k < s.line.count; ++k, buffer += width) {
    const double* from = x + s.line.offset(s.line.x, k);
    for (int64_t c = 0; c < width; ++c) buffer[c] = from[c * step];
  }
}

template <class Value>
void store_columns(const SoftMax& s, double* y, int64_t width, const Value& value) {
  const int64_t step = s.lines.y[s.lines.rank - 1];
  for (int64_t k = 0; k < s.line.count; ++k) {
    double* to = y + s.line.offset(s.line.y, k);
    for (int64_t c = 0; c < width; ++c) to[c * step] = value(k * width + c, c);
  }
}

void run_columns(const SoftMax& s, const double* x, double* y, int64_t width, double* buffer) {
  double *most = buffer, *sums = most + width, *values = sums + width;
  load_columns(s, x, width, values);
  find_most(values, s.line.count, width, most);
  add_exponentials(values, s.line.count, width, most, sums);
  if (!s.log) {
    for (int64_t c = 0; c < width; ++c) sums[c] = 1 / sums[c];
    return store_columns(s, y, width, [=](int64_t k, int64_t c) { return values[k] * sums[c]; });
  }
  load_columns(s, x, width, values);
  for (int64_t c = 0; c < width; ++c) sums[c] = log_of(sums[c]);
  store_columns(s, y, width, [=](int64_t k, int64_t c) { return values[k] - most[c] - sums[c]; });
}

int64_t worker_doubles(const SoftMax& s) {
  return round_up((s.line.count + 2) * s.together, 8);
}

void run(SoftMax& s, const KernelCall& call) {
  const int64_t parts = ceil_div(s.columns, s.together);
  split(call.pool, s.lines.count / s.columns * parts, s.predicted_us,
        [&](int worker, int64_t first, int64_t last) {
          double* buffer = reinterpret_cast<double*>(call.workspace) + worker * worker_doubles(s);
          for (int64_t unit = first; unit < last; ++unit) {
            const int64_t column = unit % parts * s.together,
                          at = unit / parts * s.columns + column;
            const double* x = call.input<const double>(0) + s.lines.offset(s.lines.x, at);
            double* y = call.output<double>(0) + s.lines.offset(s.lines.y, at);
            if (s.columns == 1)
              run_line(s, x, y, buffer);
            else
              run_columns(s, x, y, smaller(s.together, s.columns - column), buffer);
          }
        });
}

std::string refusal(const Problem& p) {
  const ir::SoftMaxAttrs& attrs = attrs_of(*p.layer);
  if (p.inputs[0].type != DataType::kDouble || p.outputs[0].type != DataType::kDouble)
    return "not double";
  if (attrs.hard) return "Hardmax";
  const auto rank = static_cast<int64_t>(p.inputs[0].extents.size());
  if (attrs.axis < 0 || attrs.last_axis < attrs.axis || attrs.last_axis >= rank) return "the axis";
  return "";
}

double us_of(int64_t elements) {
  return static_cast<double>(elements) * 0.001;
}
double cost_us(const Problem& p) {
  const double us = us_of(count_of(p.outputs[0]));
  return 0.2 + (us > kThreadedUs ? us / p.threads : us);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const ir::SoftMaxAttrs& attrs = attrs_of(*args.layer);
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  SoftMax s{};
  int64_t inner = 1;
  for (int d = 0; d < y.rank; ++d) {
    const bool is_along = d >= attrs.axis && d <= attrs.last_axis;
    (is_along ? s.line : s.lines).add(x, y, d);
    if (d > attrs.last_axis) inner *= y.extents[d];
  }
  s.columns = inner == 1 ? 1 : s.lines.extents[s.lines.rank - 1];
  // 128 KB of the lines' elements, whole vectors of lines.
  const int64_t fits = larger(16384 / s.line.count, 8) / 8 * 8;
  s.together = smaller(s.columns, smaller(fits, 256));
  s.log = attrs.log;
  s.predicted_us = us_of(count_of(y));
  keep_state<run>(kernel, s);
  kernel.workspace_bytes =
      static_cast<size_t>(worker_doubles(s) * threads_of(args)) * sizeof(double);
}

constexpr Tactic kTactics[] = {
    {"softmax_f64", ir::LayerKind::kSoftMax, kIsa, FormatRule::kLinear, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::softmax_doubles
