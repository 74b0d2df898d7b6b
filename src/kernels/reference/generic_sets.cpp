// SPDX-License-Identifier: Apache-2.0
// Selection by value: Unique, Compress, OneHot, TfIdfVectorizer, ArrayFeatureExtractor, Binarizer.
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

// Slices of x, whose elements lie row by row, along `axis`, put together in the order `order`.
DynamicOutput take(const TensorView& x, int64_t axis, const Ints& order) {
  const size_t bytes = ir::bits_of(x.type) / 8;
  const Extents extents = extents_of(x);
  const auto* all = x.as<const std::byte>();
  Extents out = extents;
  out[axis] = static_cast<int64_t>(order.size());
  const Lines lines = lines_of(extents, axis);
  const size_t slice = lines.inner * bytes;
  DynamicOutput result{out, x.type, std::vector<std::byte>(count_of(out) * bytes)};
  std::byte* to = result.bytes.data();
  const auto take_slices = [&](auto copy_slice) {
    for (int64_t o = 0; o < lines.outer; ++o)
      for (const int64_t k : order) {
        copy_slice(to, all + (o * lines.count + k) * slice);
        to += slice;
      }
  };
  // Single elements are not worth calling memcpy for.
  if (slice == 4)
    take_slices([](std::byte* t, const std::byte* f) { std::memcpy(t, f, 4); });
  else if (slice == 8)
    take_slices([](std::byte* t, const std::byte* f) { std::memcpy(t, f, 8); });
  else if (slice > 0)
    take_slices([slice](std::byte* t, const std::byte* f) { std::memcpy(t, f, slice); });
  return result;
}

// x row by row: where it lies otherwise, a copy of it, which `bytes` hold.
struct RowMajor {
  TensorView view;
  std::vector<std::byte> bytes;

  RowMajor(const RowMajor&) = delete;  // the view may be of its own bytes
  explicit RowMajor(const TensorView& x) : view(x) {
    if (is_dense(x) && x.format == Format::kLinear) return;
    bytes.resize(x.elements() * ir::bits_of(x.type) / 8 + 1);
    view = make_view(bytes.data(), x.type, Format::kLinear, extents_of(x));
    copy_view(x, view);
  }
};

// The axis of the slices of x: without one, x becomes one row of elements.
Result<int64_t> slice_axis(const Call& call, TensorView& x) {
  if (call.has("axis")) return normalize_axis(call.integer("axis", 0), x.rank);
  x = make_view(x.data, x.type, Format::kLinear, Extents{x.elements()});
  return 0;
}

// Slices in order, row major: negative, zero, positive.
template <class T>
int compare_slices(const std::vector<T>& values, const Lines& lines, int64_t a, int64_t b) {
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t i = 0; i < lines.inner; ++i) {
      const T left = values[(o * lines.count + a) * lines.inner + i],
              right = values[(o * lines.count + b) * lines.inner + i];
      if (left != right) return left < right ? -1 : 1;
    }
  return 0;
}

// The slices in order, equal ones as they stand; `starts`: where in it each value's first is.
template <class T>
void sort_slices(const std::vector<T>& values, const Lines& lines, Ints& order, Ints& starts) {
  if (lines.outer == 1 && lines.inner == 1) {  // elements: values beside their places
    std::vector<std::pair<T, int64_t>> sorted(lines.count);
    for (int64_t k = 0; k < lines.count; ++k) sorted[k] = {values[k], k};
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (int64_t k = 0; k < lines.count; ++k) order[k] = sorted[k].second;
  } else {
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return compare_slices(values, lines, a, b) < 0; });
  }
  for (int64_t k = 0; k < lines.count; ++k)
    if (k == 0 || compare_slices(values, lines, order[k - 1], order[k]) != 0) starts.push_back(k);
}

Status unique(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  RowMajor x(call.in(0));
  CAMSHAFT_ASSIGN(const int64_t axis, slice_axis(call, x.view));
  const Lines lines = lines_of(extents_of(x.view), axis);
  Ints order(lines.count), starts;
  std::iota(order.begin(), order.end(), 0);
  if (ir::is_integer(x.view.type)) {  // doubles are not every int64
    Ints values = load<int64_t>(x.view);
    if (x.view.type == DataType::kUInt64)
      for (int64_t& value : values) value ^= INT64_MIN;  // the order of unsigned numbers
    sort_slices(values, lines, order, starts);
  } else {
    sort_slices(load<double>(x.view), lines, order, starts);
  }
  struct Group {
    int64_t start, count;  // in `order`
  };
  std::vector<Group> groups;
  for (size_t k = 0; k < starts.size(); ++k)
    groups.push_back(
        {starts[k], (k + 1 < starts.size() ? starts[k + 1] : lines.count) - starts[k]});
  if (!call.integer("sorted", 1))
    std::sort(groups.begin(), groups.end(),
              [&](const Group& a, const Group& b) { return order[a.start] < order[b.start]; });
  Ints first, inverse(lines.count), counts;
  for (const Group& group : groups) {
    for (int64_t k = 0; k < group.count; ++k)
      inverse[order[group.start + k]] = static_cast<int64_t>(first.size());
    first.push_back(order[group.start]);
    counts.push_back(group.count);
  }
  const auto number = static_cast<int64_t>(groups.size());
  outputs.push_back(take(x.view, axis, first));
  outputs.push_back(produce(DataType::kInt64, {number}, first));
  outputs.push_back(produce(DataType::kInt64, {lines.count}, inverse));
  outputs.push_back(produce(DataType::kInt64, {number}, counts));
  return ok_status();
}

Status compress(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  RowMajor x(call.in(0));
  CAMSHAFT_ASSIGN(const int64_t axis, slice_axis(call, x.view));
  const Ints condition = call.ints(1);
  Ints order;
  for (int64_t k = 0; k < static_cast<int64_t>(condition.size()) && k < x.view.extents[axis]; ++k)
    if (condition[k]) order.push_back(k);
  outputs.push_back(take(x.view, axis, order));
  return ok_status();
}

// indices, depth, [off, on].
Status one_hot(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(3));
  const int64_t depth = call.integer_scalar(1, 0);
  const std::vector<double> values = call.doubles(2);
  if (values.size() != 2 || depth < 0 || call.in(0).rank >= static_cast<int>(ir::kMaxRank))
    return make_error(ErrorCode::kInvalidArgument, "OneHot: depth {} and {} values", depth,
                      values.size());
  CAMSHAFT_ASSIGN(const int64_t axis,
                  normalize_axis(call.integer("axis", -1), call.in(0).rank + 1));
  const Ints indices = call.ints(0);
  Extents out = call.extents(0);
  out.insert(axis, depth);
  const Lines lines = lines_of(out, axis);
  CAMSHAFT_TRY(check_extents(out));
  std::vector<double> y(count_of(out), values[0]);
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t i = 0; i < lines.inner; ++i) {
      const int64_t index = indices[o * lines.inner + i],
                    position = index < 0 ? index + depth : index;
      if (position >= 0 && position < depth)
        y[(o * depth + position) * lines.inner + i] = values[1];
    }
  outputs.push_back(produce(call.in(2).type, out, y));
  return ok_status();
}

// The n-grams of the pool with their positions in the output and weights.
struct GramPool {
  std::map<Ints, size_t> grams;
  Ints positions;
  std::vector<double> weights;
};

Result<GramPool> gram_pool(const Call& call) {
  GramPool pool;
  const Ints items = call.list("pool_int64s"), counts = call.list("ngram_counts");
  pool.positions = call.list("ngram_indexes");
  pool.weights = call.reals("weights");
  size_t number = 0;
  for (size_t size = 1; size <= counts.size(); ++size) {
    const int64_t first = counts[size - 1],
                  last = size < counts.size() ? counts[size] : static_cast<int64_t>(items.size());
    if (first < 0 || last > static_cast<int64_t>(items.size()) || first > last)
      return make_error(ErrorCode::kInvalidModel, "TfIdfVectorizer: ngram_counts out of range");
    for (int64_t k = first; k + static_cast<int64_t>(size) <= last; k += static_cast<int64_t>(size))
      pool.grams.emplace(Ints(items.begin() + k, items.begin() + k + static_cast<int64_t>(size)),
                         number++);
  }
  if (items.empty() || number > pool.positions.size() || pool.positions.empty() ||
      *std::min_element(pool.positions.begin(), pool.positions.end()) < 0)
    return make_error(ErrorCode::kUnsupported,
                      "TfIdfVectorizer needs an integer pool with an index per n-gram");
  return pool;
}

Status tf_idf(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  CAMSHAFT_ASSIGN(const GramPool pool, gram_pool(call));
  const Extents extents = call.extents(0);
  if (extents.size() > 2)
    return make_error(ErrorCode::kInvalidArgument, "TfIdfVectorizer of rank {}", extents.size());
  const int64_t rows = extents.size() == 2 ? extents[0] : 1,
                length = extents.empty() ? 1 : extents.back();
  const int64_t width = *std::max_element(pool.positions.begin(), pool.positions.end()) + 1;
  const int64_t shortest = call.integer("min_gram_length", 1),
                longest = std::min(call.integer("max_gram_length", 1), length),
                skips = std::min(call.integer("max_skip_count", 0), length);
  CAMSHAFT_TRY(check_extents(Extents{rows, width}));
  const std::string mode = call.text("mode", "TF");
  const Ints x = call.ints(0);
  std::vector<double> y(rows * width);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t size = shortest; size <= longest; ++size)
      for (int64_t skip = 0; skip <= (size == 1 ? 0 : skips);
           ++skip)  // single items have no gaps to skip
        for (int64_t start = 0; start + (size - 1) * (skip + 1) < length; ++start) {
          Ints gram;
          for (int64_t k = 0; k < size; ++k)
            gram.push_back(x[row * length + start + k * (skip + 1)]);
          const auto found = pool.grams.find(gram);
          if (found == pool.grams.end()) continue;
          const double weight =
              found->second < pool.weights.size() ? pool.weights[found->second] : 1;
          double& value = y[row * width + pool.positions[found->second]];
          if (mode == "TF") value += 1;
          if (mode == "IDF") value = weight;
          if (mode == "TFIDF") value += weight;
        }
  outputs.push_back(
      produce(DataType::kFloat, extents.size() == 2 ? Extents{rows, width} : Extents{width}, y));
  return ok_status();
}

Status array_feature_extractor(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_TRY(call.require_rank(0, 1));
  const TensorView x = call.in(0);
  Ints wanted = call.ints(1);
  for (int64_t k : wanted)
    if (k < 0 || k >= x.extents[x.rank - 1])
      return make_error(ErrorCode::kInvalidArgument, "ArrayFeatureExtractor: index {} of {}", k,
                        x.extents[x.rank - 1]);
  outputs.push_back(take(RowMajor(x).view, x.rank - 1, wanted));
  if (x.rank == 1) outputs.back().extents = {1, static_cast<int64_t>(wanted.size())};
  return ok_status();
}

Status binarizer(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  std::vector<double> x = call.doubles(0);
  const double threshold = call.real("threshold", 0);
  for (double& value : x) value = value > threshold;
  outputs.push_back(produce(call.in(0).type, call.extents(0), x));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_sets_operators() {
  static constexpr GenericRow kRows[] = {
      {"Unique", {nullptr, appending<unique>}},
      {"Compress", {nullptr, appending<compress>}},
      {"OneHot", {nullptr, appending<one_hot>}},
      {"TfIdfVectorizer", {nullptr, appending<tf_idf>}},
      {"ArrayFeatureExtractor", {nullptr, appending<array_feature_extractor>}},
      {"Binarizer", {nullptr, appending<binarizer>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
