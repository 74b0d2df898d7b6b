// SPDX-License-Identifier: Apache-2.0
// TopK, ArgMinMax, NonZero, Range.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

// A total order with NaN above all numbers, as numpy sorts.
template <class T>
bool below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return !std::isnan(a);
  }
  return a < b;
}

// Positions of the line in the wanted order; equal values keep theirs, or the last is first.
template <class T>
Ints ordered(const T* first, int64_t count, int64_t step, int64_t k, const ir::TopKAttrs& attrs) {
  const bool largest = attrs.largest;
  Ints positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  std::partial_sort(positions.begin(), positions.begin() + k, positions.end(),
                    [&](int64_t p, int64_t q) {
                      const T a = first[p * step], b = first[q * step];
                      if (below(a, b)) return !largest;
                      if (below(b, a)) return largest;
                      return attrs.select_last_index ? p > q : p < q;
                    });
  positions.resize(k);
  return positions;
}

// values and positions of the k first of every line along `axis`.
template <class T>
void select_lines(std::span<const T> x, const Extents& extents, const ir::TopKAttrs& attrs,
                  int64_t k, std::vector<T>& values, Ints& positions) {
  const int64_t axis = attrs.axis;
  const int64_t count = extents[axis],
                inner = count_of(std::span<const int64_t>(extents).subspan(axis + 1));
  const int64_t outer = count_of(std::span<const int64_t>(extents).first(axis));
  values.resize(outer * k * inner);
  positions.resize(values.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const T* first = x.data() + o * count * inner + i;
      const Ints best = ordered(first, count, inner, k, attrs);
      for (int64_t r = 0; r < k; ++r) {
        values[(o * k + r) * inner + i] = first[best[r] * inner];
        positions[(o * k + r) * inner + i] = best[r];
      }
    }
  }
}

template <class Load, class T>
void top_k_as(const KernelArgs& args, const ir::TopKAttrs& attrs, int64_t k) {
  const TensorView& x = args.inputs[0];
  const std::vector<Load> loaded = load<Load>(x);
  const std::vector<T> ordered_values(loaded.begin(), loaded.end());
  std::vector<T> values;
  Ints positions;
  select_lines<T>(ordered_values, extents_of(x), attrs, k, values, positions);
  if (const TensorView out = output(args, 0); out.present())
    store<Load>(out, std::vector<Load>(values.begin(), values.end()));
  if (const TensorView out = output(args, 1); out.present()) store(out, positions);
}

Status top_k(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::TopKAttrs>();
  const TensorView& x = args.inputs[0];
  const TensorView& any = output(args, 0).present() ? args.outputs[0] : args.outputs[1];
  CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(attrs.axis, x.rank));
  const int64_t k = any.extents[axis];
  if (k < 0 || k > x.extents[axis])
    return make_error(ErrorCode::kInvalidArgument, "the top {} of {} elements", k, x.extents[axis]);
  if (x.type == DataType::kUInt64)
    top_k_as<int64_t, uint64_t>(args, attrs, k);
  else if (ir::is_integer(x.type))
    top_k_as<int64_t, int64_t>(args, attrs, k);
  else
    top_k_as<double, double>(args, attrs, k);
  return ok_status();
}

template <class T>
Ints best_positions(std::span<const T> x, const Extents& extents, const ir::TopKAttrs& attrs) {
  const int64_t count = extents[attrs.axis],
                inner = count_of(std::span<const int64_t>(extents).subspan(attrs.axis + 1));
  const int64_t outer = count_of(std::span<const int64_t>(extents).first(attrs.axis));
  Ints result(outer * inner);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const T* first = x.data() + o * count * inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < count; ++k) {
        const T value = first[k * inner], record = first[best * inner];
        const bool better = attrs.largest ? below(record, value) : below(value, record);
        const bool equal = !below(record, value) && !below(value, record);
        if (better || (equal && attrs.select_last_index)) best = k;
      }
      result[o * inner + i] = best;
    }
  }
  return result;
}

Status arg_min_max(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::TopKAttrs>();
  const TensorView& x = args.inputs[0];
  CAMSHAFT_TRY(normalize_axis(attrs.axis, x.rank).status());
  const Extents extents = extents_of(x);
  if (extents[attrs.axis] == 0 && args.outputs[0].elements() > 0)
    return make_error(ErrorCode::kInvalidArgument, "no minimum or maximum of an empty dimension");
  if (x.type == DataType::kUInt64) {
    const Ints loaded = load<int64_t>(x);
    store(args.outputs[0],
          best_positions<uint64_t>(std::vector<uint64_t>(loaded.begin(), loaded.end()), extents,
                                   attrs));
  } else if (ir::is_integer(x.type)) {
    store(args.outputs[0], best_positions<int64_t>(load<int64_t>(x), extents, attrs));
  } else {
    store(args.outputs[0], best_positions<double>(load<double>(x), extents, attrs));
  }
  return ok_status();
}

// A byte per element, not 0 where that is not: padded to whole words.
std::vector<uint8_t> flags_of(const TensorView& x) {
  std::vector<uint8_t> flags(x.elements() + sizeof(uint64_t));
  const auto compare = [&flags](const auto& values) {
    for (size_t k = 0; k < values.size(); ++k) flags[k] = values[k] != 0;
  };
  if (ir::bits_of(x.type) == 8)
    copy_view(x, make_view(flags.data(), x.type, Format::kLinear, extents_of(x)));
  else if (x.type == DataType::kDouble)
    compare(load<double>(x));
  else
    compare(load<float>(x));
  return flags;
}

// Writes the positions in [first, first + count) that are set, counted from `first`, and perhaps
// one element behind them; gives their number.
int64_t write_set(const std::vector<uint8_t>& flags, int64_t first, int64_t count, int64_t* to) {
  int64_t hits = 0;
  for (int64_t k = 0; k < count; k += 8) {
    uint64_t word;
    std::memcpy(&word, flags.data() + first + k, sizeof word);
    if (word == 0) continue;  // most masks are nearly empty
    const int64_t end = std::min(k + 8, count);
    for (int64_t n = k; n < end; ++n) {  // no branch to guess where half the elements are set
      to[hits] = n;
      hits += flags[first + n] != 0;
    }
  }
  return hits;
}

Status non_zero(const KernelArgs& args, std::vector<DynamicOutput>& outputs) {
  const TensorView& x = args.inputs[0];
  // A scalar counts as a vector of one element.
  const Extents extents = x.rank == 0 ? Extents{1} : extents_of(x);
  const std::vector<uint8_t> flags = flags_of(x);
  const int64_t hits =
      x.elements() - std::count(flags.begin(), flags.begin() + x.elements(), uint8_t{0});
  const size_t last = extents.size() - 1;
  DynamicOutput out;
  out.type = DataType::kInt64;
  out.extents = {x.rank == 0 ? 0 : static_cast<int64_t>(extents.size()), hits};
  // A row for each dimension, and room for what write_set() writes beyond.
  out.bytes.resize((extents.size() * hits + 1) * sizeof(int64_t));
  int64_t* const rows = reinterpret_cast<int64_t*>(out.bytes.data());
  int64_t first = 0, done = 0;
  for_each_index(std::span(extents).first(last), [&](const Extents& index) {
    const int64_t found = write_set(flags, first, extents[last], rows + last * hits + done);
    for (size_t d = 0; d < last; ++d) std::fill_n(rows + d * hits + done, found, index[d]);
    first += extents[last];
    done += found;
  });
  out.bytes.resize(x.rank == 0 ? 0 : extents.size() * hits * sizeof(int64_t));
  outputs.assign(1, std::move(out));
  return ok_status();
}

Status range(const KernelArgs& args) {
  const TensorView& y = args.outputs[0];
  for (size_t k = 0; k < 3; ++k)
    if (!input(args, k).present() || input(args, k).elements() != 1)
      return make_error(ErrorCode::kInvalidArgument, "Range takes three scalars");
  const int64_t count = y.elements();
  if (ir::is_integer(y.type)) {
    const int64_t start = load_ints(args.inputs[0])[0], delta = load_ints(args.inputs[2])[0];
    Ints values(count);
    for (int64_t k = 0; k < count; ++k) values[k] = start + k * delta;
    store(y, values);
  } else {
    const double start = load<double>(args.inputs[0])[0], delta = load<double>(args.inputs[2])[0];
    std::vector<double> values(count);
    for (int64_t k = 0; k < count; ++k) values[k] = start + static_cast<double>(k) * delta;
    store(y, values);
  }
  return ok_status();
}

}  // namespace

std::span<const KindRow> search_kinds() {
  static constexpr KindRow kRows[] = {
      {ir::LayerKind::kTopK, {top_k, nullptr}},
      {ir::LayerKind::kArgMinMax, {arg_min_max, nullptr}},
      {ir::LayerKind::kNonZero, {nullptr, non_zero}},
      {ir::LayerKind::kRange, {range, nullptr}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
