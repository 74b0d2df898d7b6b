// SPDX-License-Identifier: Apache-2.0
#include "quantize/permute_channels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "quantize/channel_spaces.h"

namespace camshaft::quantize {
namespace {

using ::onnx::TensorProto;

constexpr int64_t kGroup = 4;
constexpr int64_t kMostRows = 1024;  // of weights, evenly chosen: enough to rank swaps by
constexpr int kMostSweeps = 20;

// Bytes of an element; 0: a type whose elements are not moved.
size_t element_bytes(const TensorProto& tensor) {
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
    case TensorProto::INT32:
      return 4;
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
      return 2;
    case TensorProto::INT8:
    case TensorProto::UINT8:
      return 1;
    default:
      return 0;
  }
}

template <class T, class From>
void append(const From& values, std::string& bytes) {
  for (const auto value : values) {
    const T one = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char*>(&one), sizeof one);
  }
}

// Elements as raw data, however they are stored.
void make_raw(TensorProto& tensor) {
  if (tensor.has_raw_data()) return;
  std::string bytes;
  if (tensor.data_type() == TensorProto::FLOAT)
    append<float>(tensor.float_data(), bytes);
  else if (element_bytes(tensor) == 4)
    append<int32_t>(tensor.int32_data(), bytes);
  else if (element_bytes(tensor) == 2)
    append<uint16_t>(tensor.int32_data(), bytes);
  else
    append<uint8_t>(tensor.int32_data(), bytes);
  tensor.clear_float_data();
  tensor.clear_int32_data();
  tensor.set_raw_data(bytes);
}

// Seen as [outer][extent][inner] around an axis.
struct Slices {
  int64_t outer = 1, extent = 1, inner = 1;
  Slices(const TensorProto& tensor, int axis) {
    for (int d = 0; d < tensor.dims_size(); ++d)
      (d < axis ? outer : d == axis ? extent : inner) *= tensor.dims(d);
  }
};

bool is_movable(const TensorProto& tensor) {
  const size_t size = element_bytes(tensor);
  int64_t count = 1;
  for (const int64_t dim : tensor.dims()) count *= dim;
  return size > 0 && tensor.raw_data().size() == static_cast<size_t>(count) * size;
}

// order[k]: which channel comes to be the k-th.
void move_slices(TensorProto& tensor, int axis, int64_t offset, const std::vector<int64_t>& order) {
  const Slices s(tensor, axis);
  const size_t slice = static_cast<size_t>(s.inner) * element_bytes(tensor);
  std::string* raw = tensor.mutable_raw_data();
  std::string moved(order.size() * slice, '\0');
  for (int64_t outer = 0; outer < s.outer; ++outer) {
    char* first = raw->data() + static_cast<size_t>(outer * s.extent + offset) * slice;
    for (size_t k = 0; k < order.size(); ++k)
      std::copy_n(first + static_cast<size_t>(order[k]) * slice, slice, moved.data() + k * slice);
    std::copy_n(moved.data(), moved.size(), first);
  }
}

float magnitude_at(const TensorProto& tensor, size_t index) {
  const char* raw = tensor.raw_data().data();
  if (tensor.data_type() == TensorProto::INT8)
    return std::fabs(static_cast<float>(static_cast<int8_t>(raw[index])));
  float value = 0;
  std::memcpy(&value, raw + index * sizeof value, sizeof value);
  return std::fabs(value);
}

bool is_pruned(const TensorProto& tensor) {
  return tensor.data_type() == TensorProto::FLOAT || tensor.data_type() == TensorProto::INT8;
}

// Squares of one reader's weights, of what they add to its sums where norms are known: a column per
// channel of the space; `shift`: where its first channel is within a group of four.
struct Columns {
  int64_t rows = 0, shift = 0;
  std::vector<std::vector<float>> of;  // [channel][row]
};

Columns read_columns(const TensorProto& tensor, const ChannelReader& reader, int64_t channels,
                     const InputNorms& norms) {
  const Slices s(tensor, reader.axis);
  const int64_t all = s.outer * s.inner;
  Columns columns;
  columns.rows = std::min(all, kMostRows);
  columns.shift = reader.offset % kGroup;
  const auto known = norms.find(reader.constant);
  for (int64_t c = 0; c < channels; ++c) {
    const float norm =
        known == norms.end() ? 1 : known->second[static_cast<size_t>(reader.offset + c)];
    std::vector<float>& column = columns.of.emplace_back(static_cast<size_t>(columns.rows));
    for (int64_t row = 0; row < columns.rows; ++row) {
      const int64_t at = row * all / columns.rows;
      const int64_t index = (at / s.inner * s.extent + reader.offset + c) * s.inner + at % s.inner;
      const float v = norm * magnitude_at(tensor, static_cast<size_t>(index));
      column[static_cast<size_t>(row)] = v * v;
    }
  }
  return columns;
}

// Every reader counts alike, whatever its scale.
void normalize(Columns& columns) {
  double sum = 0;
  for (const auto& column : columns.of) sum = std::accumulate(column.begin(), column.end(), sum);
  const float factor = sum > 0 ? static_cast<float>(1 / sum) : 0;
  for (auto& column : columns.of)
    for (float& value : column) value *= factor;
}

// What is kept of groups of four: the two largest of each row.
class Search {
 public:
  Search(std::vector<Columns> readers, int64_t channels)
      : readers_(std::move(readers)), order_(static_cast<size_t>(channels)) {
    std::iota(order_.begin(), order_.end(), 0);
    int64_t rows = 0;
    for (Columns& columns : readers_) {
      normalize(columns);
      rows = std::max(rows, columns.rows);
    }
    nothing_.assign(static_cast<size_t>(rows), 0);
  }

  const std::vector<int64_t>& order() const { return order_; }

  // The share that is kept.
  double kept() const {
    double sum = 0;
    for (const Columns& columns : readers_)
      for (int64_t group = 0; group < groups(columns); ++group) sum += kept_of(columns, group);
    return readers_.empty() ? 1 : sum / static_cast<double>(readers_.size());
  }

  // Swaps of channels of two groups, the best of each pair, until none gains.
  void run() {
    const int64_t count = groups(readers_.front());
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      double gained = 0;
      for (int64_t a = 0; a < count; ++a)
        for (int64_t b = a + 1; b < count; ++b) gained += swap_best(a, b);
      if (gained < 1e-4) return;
    }
  }

 private:
  int64_t channels() const { return static_cast<int64_t>(order_.size()); }
  int64_t groups(const Columns& columns) const {
    return (channels() + columns.shift + kGroup - 1) / kGroup;
  }

  const float* column(const Columns& columns, int64_t place) const {
    if (place < 0 || place >= channels()) return nothing_.data();
    return columns.of[static_cast<size_t>(order_[static_cast<size_t>(place)])].data();
  }

  double kept_of(const Columns& columns, int64_t group) const {
    const int64_t first = group * kGroup - columns.shift;
    const float *a = column(columns, first), *b = column(columns, first + 1),
                *c = column(columns, first + 2), *d = column(columns, first + 3);
    float sum = 0;
    for (int64_t r = 0; r < columns.rows; ++r) {
      const float across = std::max(a[r], b[r]) + std::max(c[r], d[r]);
      sum += std::max(across, std::max(a[r] + b[r], c[r] + d[r]));
    }
    return static_cast<double>(sum);
  }

  // What the groups around two places keep.
  double kept_around(int64_t p, int64_t q) const {
    double sum = 0;
    for (const Columns& columns : readers_) {
      const int64_t a = (p + columns.shift) / kGroup, b = (q + columns.shift) / kGroup;
      sum += kept_of(columns, a) + (a == b ? 0 : kept_of(columns, b));
    }
    return sum;
  }

  void swap(int64_t p, int64_t q) {
    std::swap(order_[static_cast<size_t>(p)], order_[static_cast<size_t>(q)]);
  }

  double swap_best(int64_t a, int64_t b) {
    const int64_t shift = readers_.front().shift;
    const auto inside = [this](int64_t place) { return place >= 0 && place < channels(); };
    int64_t best_p = -1, best_q = -1;
    double best = 1e-7;
    for (int64_t p = a * kGroup - shift; p < (a + 1) * kGroup - shift; ++p)
      for (int64_t q = b * kGroup - shift; q < (b + 1) * kGroup - shift; ++q) {
        if (!inside(p) || !inside(q)) continue;
        const double before = kept_around(p, q);
        swap(p, q);
        const double gain = kept_around(p, q) - before;
        swap(p, q);
        if (gain > best) best = gain, best_p = p, best_q = q;
      }
    if (best_p < 0) return 0;
    swap(best_p, best_q);
    return best;
  }

  std::vector<Columns> readers_;
  std::vector<int64_t> order_;
  std::vector<float> nothing_;  // beyond the last channel
};

class Permuter {
 public:
  Permuter(::onnx::GraphProto& graph, const InputNorms& norms) : graph_(graph), norms_(norms) {}

  Status run(const std::function<bool(int, int)>& progress, Permutation& result) {
    std::vector<ChannelSpace> spaces = find_channel_spaces(graph_);
    double before = 0, after = 0;
    for (size_t k = 0; k < spaces.size(); ++k) {
      if (progress && !progress(static_cast<int>(k), static_cast<int>(spaces.size())))
        return Status(ErrorCode::kCancelled, "cancelled");
      ++result.spaces;
      if (!may_move(spaces[k])) {
        ++result.pinned;
        continue;
      }
      Search search(readers_of(spaces[k]), spaces[k].channels);
      const double kept = search.kept();
      search.run();
      before += kept;
      after += search.kept();
      if (search.kept() <= kept) continue;
      ++result.permuted;
      for (const ChannelEdit& edit : spaces[k].edits)
        move_slices(*constant(edit.constant), edit.axis, edit.offset, search.order());
    }
    const int searched = result.spaces - result.pinned;
    if (searched > 0) {
      result.kept_before = before / searched;
      result.kept_after = after / searched;
    }
    return ok_status();
  }

 private:
  TensorProto* constant(const std::string& name) {
    TensorProto*& found = constants_[name];
    if (found == nullptr) found = find_constant(graph_, name);
    return found;
  }

  bool may_move(const ChannelSpace& space) {
    if (!space.pinned.empty() || space.channels <= kGroup) return false;
    for (const ChannelEdit& edit : space.edits) {
      TensorProto* tensor = constant(edit.constant);
      make_raw(*tensor);
      if (!is_movable(*tensor)) return false;
    }
    return std::any_of(
        space.readers.begin(), space.readers.end(),
        [this](const ChannelReader& reader) { return is_pruned(*constant(reader.constant)); });
  }

  std::vector<Columns> readers_of(const ChannelSpace& space) {
    std::vector<Columns> readers;
    for (const ChannelReader& reader : space.readers)
      if (const TensorProto* tensor = constant(reader.constant); is_pruned(*tensor))
        readers.push_back(read_columns(*tensor, reader, space.channels, norms_));
    return readers;
  }

  ::onnx::GraphProto& graph_;
  const InputNorms& norms_;
  std::map<std::string, TensorProto*> constants_;
};

}  // namespace

Result<Permutation> permute_channels(std::string& onnx, const InputNorms& norms,
                                     const std::function<bool(int, int)>& progress) {
  ::onnx::ModelProto model;
  if (!model.ParseFromString(onnx))
    return make_error(ErrorCode::kInvalidModel, "not an ONNX model");
  Permutation result;
  CAMSHAFT_TRY(Permuter(*model.mutable_graph(), norms).run(progress, result));
  if (!model.SerializeToString(&onnx))
    return make_error(ErrorCode::kUnsupported, "the model exceeds 2 GiB");
  return result;
}

}  // namespace camshaft::quantize
