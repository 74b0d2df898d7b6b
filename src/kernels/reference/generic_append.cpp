// SPDX-License-Identifier: Apache-2.0
// AppendRows, element by element.
#include "ir/append_rows.h"
#include "kernels/append_error.h"
#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

Status append_rows(const KernelArgs& args) {
  const TensorView past = args.inputs[0], fresh = args.inputs[ir::kAppendFresh],
                   &y = args.outputs[0];
  const auto axis = static_cast<int>(ir::append_axis(*args.layer));
  if (axis < 1 || axis >= y.rank || past.rank != y.rank || fresh.rank != y.rank)
    return make_error(ErrorCode::kInvalidArgument, "AppendRows along axis {} of rank {}", axis,
                      y.rank);
  for (int d = 0; d < y.rank; ++d)
    if (d != axis && (past.extents[d] != y.extents[d] || fresh.extents[d] != y.extents[d]))
      return make_error(ErrorCode::kInvalidArgument, "AppendRows: extents differ in dimension {}",
                        d);
  Ints first(static_cast<size_t>(y.extents[0]));
  if (const TensorView given = input(args, ir::kAppendFirst); given.present()) {
    const std::vector<int64_t> values = load<int64_t>(given);
    if (values.size() != 1 && values.size() != first.size())
      return make_error(ErrorCode::kInvalidArgument, "AppendRows: {} positions for a batch of {}",
                        values.size(), first.size());
    for (size_t b = 0; b < first.size(); ++b) first[b] = values[values.size() == 1 ? 0 : b];
  }
  const int64_t rows = past.extents[axis], count = fresh.extents[axis], room = y.extents[axis];
  for (size_t b = 0; b < first.size(); ++b)
    if (first[b] < 0 || first[b] > rows || first[b] + count > room)
      return append_error(static_cast<int64_t>(b), first[b], count, rows, room);
  const bool in_place = past.data == y.data;
  const std::vector<double> before = load<double>(past), added = load<double>(fresh);
  std::vector<double> values(static_cast<size_t>(y.elements()));
  if (in_place) values = load<double>(y);
  const Ints past_strides = dense_strides(extents_of(past)),
             fresh_strides = dense_strides(extents_of(fresh)),
             strides = dense_strides(extents_of(y));
  for_each_index(extents_of(y), [&](const Extents& index) {
    Extents source = index;
    source[axis] -= first[static_cast<size_t>(index[0])];
    if (source[axis] >= 0 && source[axis] < count)
      values[offset_of(index, strides)] = added[offset_of(source, fresh_strides)];
    else if (!in_place && index[axis] < rows)
      values[offset_of(index, strides)] = before[offset_of(index, past_strides)];
  });
  store(y, values);
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_append_operators() {
  static constexpr GenericRow kRows[] = {{ir::kAppendRows, {append_rows, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
