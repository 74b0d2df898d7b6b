// SPDX-License-Identifier: Apache-2.0
// AppendRows: where y lies in past, the fresh rows alone are written; else past is copied first.
#include "ir/append_rows.h"
#include "kernels/append_error.h"
#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::append_rows {
namespace {

constexpr int64_t kBytesWorthThreads = 256 * 1024;

// Rows along the axis, of one index of the dimensions before it: bytes.
struct Rows {
  int64_t count = 0, step = 0;
  int64_t outer[ir::kMaxRank] = {};  // strides of those dimensions
};

struct State {
  Rows past, fresh, y;
  int outer_rank = 0;
  int64_t extents[ir::kMaxRank] = {};  // of the dimensions before the axis
  int64_t lines = 1, lines_of_item = 1;
  int64_t row_bytes = 0;
  DataType first_type = DataType::kUndefined;  // or there is none
  int64_t first_stride = 0;
  bool lie_alike = false;  // past and y, as far as strides say
};

Rows rows_of(const TensorView& view, int axis, int64_t element) {
  Rows rows;
  rows.count = view.extents[axis];
  rows.step = view.strides[axis] * element;
  for (int d = 0; d < axis; ++d) rows.outer[d] = view.strides[d] * element;
  return rows;
}

int64_t offset_of(const State& s, const Rows& rows, int64_t line) {
  int64_t offset = 0;
  for (int d = s.outer_rank - 1; d >= 0; --d) {
    offset += line % s.extents[d] * rows.outer[d];
    line /= s.extents[d];
  }
  return offset;
}

void copy_rows(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t row_bytes,
               int64_t count) {
  if (from_step == row_bytes && to_step == row_bytes)
    return copy_bytes(from, to, count * row_bytes);
  for (int64_t k = 0; k < count; ++k) copy_bytes(from + k * from_step, to + k * to_step, row_bytes);
}

int64_t first_of(const State& s, const KernelCall& call, int64_t item) {
  if (s.first_type == DataType::kUndefined) return 0;
  return s.first_type == DataType::kInt32 ? call.input<const int32_t>(2)[item * s.first_stride]
                                          : call.input<const int64_t>(2)[item * s.first_stride];
}

void run_line(const State& s, const KernelCall& call, int64_t line, bool in_place) {
  char* y = call.output<char>(0) + offset_of(s, s.y, line);
  const int64_t first = first_of(s, call, line / s.lines_of_item);
  if (!in_place) {
    const char* past = call.input<const char>(0) + offset_of(s, s.past, line);
    // A y whose rows only running tells is timed at a guess, perhaps with fewer than past has.
    const int64_t kept = s.past.count < s.y.count ? s.past.count : s.y.count;
    copy_rows(past, s.past.step, y, s.y.step, s.row_bytes, kept);
    for (int64_t row = kept; row < s.y.count; ++row)
      __builtin_memset(y + row * s.y.step, 0, static_cast<size_t>(s.row_bytes));
  }
  copy_rows(call.input<const char>(1) + offset_of(s, s.fresh, line), s.fresh.step,
            y + first * s.y.step, s.y.step, s.row_bytes, s.fresh.count);
}

Status run(State& s, const KernelCall& call) {
  for (int64_t item = 0; item * s.lines_of_item < s.lines; ++item) {
    const int64_t first = first_of(s, call, item);
    if (first < 0 || first > s.past.count || first + s.fresh.count > s.y.count)
      return append_error(item, first, s.fresh.count, s.past.count, s.y.count);
  }
  const bool in_place = s.lie_alike && call.inputs[0] == call.outputs[0];
  const auto body = [&](int, int64_t first, int64_t last) {
    for (int64_t line = first; line < last; ++line) run_line(s, call, line, in_place);
  };
  const int64_t bytes = s.lines * s.row_bytes * (in_place ? s.fresh.count : s.y.count);
  if (bytes < kBytesWorthThreads || !call.pool || call.pool->threads() == 1)
    body(0, 0, s.lines);
  else
    call.pool->parallel_ranges(s.lines, body);
  return Status();
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &past = args.inputs[0], &fresh = args.inputs[1], &y = args.outputs[0];
  const int axis = static_cast<int>(ir::append_axis(*args.layer));
  const int64_t element = bytes_of(y.type);
  State s;
  s.past = rows_of(past, axis, element);
  s.fresh = rows_of(fresh, axis, element);
  s.y = rows_of(y, axis, element);
  s.outer_rank = axis;
  for (int d = 0; d < axis; ++d) {
    s.extents[d] = y.extents[d];
    s.lines *= y.extents[d];
    if (d > 0) s.lines_of_item *= y.extents[d];
  }
  s.row_bytes = axis + 1 < y.rank ? y.extents[axis + 1] * element : element;
  s.lie_alike = s.past.step == s.y.step;
  for (int d = 0; d < axis; ++d)
    s.lie_alike &= y.extents[d] == 1 || s.past.outer[d] == s.y.outer[d];
  if (args.inputs.size() > 2 && args.inputs[2].present()) {
    const TensorView& first = args.inputs[2];
    s.first_type = first.type;
    s.first_stride = first.rank == 0 || first.extents[0] == 1 ? 0 : first.strides[0];
  }
  keep_checked_state<run>(kernel, s);
}

std::string refusal(const Problem& p) {
  const int64_t axis = ir::append_axis(*p.layer);
  if (axis == 0) return "another operator";
  const auto rank = static_cast<int64_t>(p.outputs[0].extents.size());
  if (rank > axis + 2) return "more than one dimension behind the rows";
  for (const ProblemTensor* t : {&p.inputs[0], &p.inputs[1], &p.outputs[0]}) {
    if (t->type != p.outputs[0].type) return "types of tensors";
    if (t->type == DataType::kInt4 || t->type == DataType::kUInt4) return "4-bit elements";
  }
  if (p.inputs.size() > 2 && p.inputs[2].present && p.inputs[2].type != DataType::kInt32 &&
      p.inputs[2].type != DataType::kInt64)
    return "positions are neither int32 nor int64";
  return "";
}

constexpr Tactic kTactics[] = {
    {"append_rows", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 1, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::append_rows
