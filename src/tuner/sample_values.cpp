// SPDX-License-Identifier: Apache-2.0
#include "tuner/sample_values.h"

#include <algorithm>
#include <cstring>

#include "kernels/attention_shape.h"

namespace camshaft::tuner {
namespace {

using kernels::Problem;
using kernels::TensorView;

class Generator {
 public:
  // 24 bits.
  uint32_t next() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 8;
  }

 private:
  uint32_t state_ = 12345;
};

int64_t along(const ir::Extents& extents, int64_t axis) {
  return axis >= 0 && axis < static_cast<int64_t>(extents.size())
             ? extents[static_cast<size_t>(axis)]
             : 0;
}

// Tuples of indices go to neighbouring dimensions: what all of them may be.
int64_t least_along(const ir::Extents& data, size_t first, const ir::Extents& indices) {
  const size_t length = indices.empty() ? 0 : static_cast<size_t>(indices.back());
  if (length == 0 || first + length > data.size()) return 0;
  return *std::min_element(data.begin() + static_cast<std::ptrdiff_t>(first),
                           data.begin() + static_cast<std::ptrdiff_t>(first + length));
}

// Input `k` may hold 0 … this - 1; 0: nothing is known.
int64_t index_limit(const Problem& problem, size_t k) {
  if (k != 1 || problem.inputs.empty() || !problem.inputs[0].present) return 0;
  const ir::Extents& data = problem.inputs[0].extents;
  const ir::Extents& indices = problem.inputs[1].extents;
  if (const auto* gather = std::get_if<ir::GatherAttrs>(&problem.layer->attrs)) {
    return gather->mode == ir::GatherMode::kNd
               ? least_along(data, static_cast<size_t>(gather->batch_dims), indices)
               : along(data, gather->axis);
  }
  if (const auto* experts = std::get_if<ir::ExpertsAttrs>(&problem.layer->attrs))
    return experts->experts;
  if (const auto* scatter = std::get_if<ir::ScatterAttrs>(&problem.layer->attrs)) {
    return scatter->mode == ir::ScatterMode::kNd && scatter->axis == 0
               ? least_along(data, 0, indices)
               : along(data, scatter->axis);
  }
  return 0;
}

// Where input `k` says how much of each item is there: all of it; 0: it says something else. None
// would leave nothing to time.
int64_t whole_length(const Problem& problem, size_t k) {
  constexpr size_t kSequenceLengths = 4;  // of ONNX's LSTM, GRU and RNN
  if (const auto* recurrence = std::get_if<ir::RnnAttrs>(&problem.layer->attrs);
      recurrence && k == kSequenceLengths)
    return along(problem.inputs[0].extents, recurrence->batch_first ? 1 : 0);
  if (std::holds_alternative<ir::AttentionAttrs>(problem.layer->attrs) &&
      k == kernels::kAttentionLengths) {
    kernels::AttentionShape shape;
    return kernels::attention_shape(problem, shape) ? shape.keys : 0;
  }
  return 0;
}

template <class T>
void fill_integers(const Problem& problem, size_t k, const TensorView& view) {
  T* data = view.as<T>();
  const int64_t limit = index_limit(problem, k);
  if (limit <= 0) {
    std::fill_n(data, view.elements(), static_cast<T>(whole_length(problem, k)));
    return;
  }
  Generator random;
  for (int64_t i = 0; i < view.elements(); ++i)
    data[i] = static_cast<T>(random.next() % static_cast<uint64_t>(limit));
}

}  // namespace

void fill_sample(const Problem& problem, size_t k, const TensorView& view) {
  if (view.type == ir::DataType::kFloat) {
    Generator random;
    float* data = view.as<float>();
    for (int64_t i = 0; i < view.elements(); ++i)
      data[i] = static_cast<float>(random.next()) * (2.0f / (1 << 24)) - 1.0f;
  } else if (view.type == ir::DataType::kBool && problem.layer->kind == ir::LayerKind::kSelect) {
    Generator random;
    for (int64_t i = 0; i < view.elements(); ++i)
      view.as<uint8_t>()[i] = static_cast<uint8_t>(random.next() >> 12 & 1);
  } else if (view.type == ir::DataType::kInt64) {
    fill_integers<int64_t>(problem, k, view);
  } else if (view.type == ir::DataType::kInt32) {
    fill_integers<int32_t>(problem, k, view);
  } else {
    std::memset(view.data, 0, ir::bytes_for(view.type, view.elements()));
  }
}

}  // namespace camshaft::tuner
