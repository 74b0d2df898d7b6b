// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_shape.h"

#include <algorithm>

namespace camshaft::kernels {
namespace {

struct Heads {
  int64_t batch = 0, heads = 0, steps = 0, depth = 0;
  HeadStrides strides;
};

bool heads_of(const TensorView& x, bool steps_first, int64_t heads, Heads& out) {
  const auto stride = [&](int d) { return x.extents[d] == 1 ? 0 : x.strides[d]; };
  const auto set = [&](int batch, int head, int step) {
    const int last = x.rank - 1;
    out.batch = batch < 0 ? 1 : x.extents[batch];
    out.heads = x.extents[head];
    out.steps = x.extents[step];
    out.depth = x.extents[last];
    out.strides = {batch < 0 ? 0 : stride(batch), stride(head), stride(step),
                   x.extents[last] == 1 ? 1 : x.strides[last]};
    return true;
  };
  if (x.rank == 4) return steps_first ? set(0, 2, 1) : set(0, 1, 2);
  if (x.rank != 3) return false;
  if (!steps_first) return set(-1, 0, 1);
  if (heads < 1 || x.extents[2] % heads != 0) return false;
  out.batch = x.extents[0];
  out.heads = heads;
  out.steps = x.extents[1];
  out.depth = x.extents[2] / heads;
  const int64_t element = x.extents[2] == 1 ? 1 : x.strides[2];
  out.strides = {stride(0), heads == 1 ? 0 : out.depth * element, stride(1), element};
  return true;
}

}  // namespace

bool attention_shape(const ir::AttentionAttrs& attrs, std::span<const TensorView> inputs,
                     const TensorView& y, AttentionShape& shape) {
  Heads q, k, v, out;
  if (!heads_of(inputs[0], attrs.q_steps_first, attrs.heads, q) ||
      !heads_of(inputs[1], attrs.k_steps_first, attrs.kv_heads, k) ||
      !heads_of(inputs[2], attrs.v_steps_first, attrs.kv_heads, v) ||
      !heads_of(y, attrs.y_steps_first, q.heads, out))
    return false;
  const auto fits = [&](int64_t batch) { return batch == q.batch || batch == 1; };
  if (k.heads < 1 || q.heads % k.heads != 0 || v.heads != k.heads || k.depth != q.depth ||
      k.steps != v.steps || !fits(k.batch) || !fits(v.batch) || out.batch != q.batch ||
      out.heads != q.heads || out.steps != q.steps || out.depth != v.depth)
    return false;
  shape = {q.batch, q.heads,   k.heads,   q.steps,   k.steps,    q.depth,
           v.depth, q.strides, k.strides, v.strides, out.strides};
  return true;
}

bool attention_shape(const Problem& problem, AttentionShape& shape) {
  const auto view = [](const ProblemTensor& t) {
    return make_view(nullptr, t.type, Format::kLinear, t.extents);
  };
  const TensorView inputs[] = {view(problem.inputs[0]), view(problem.inputs[1]),
                               view(problem.inputs[2])};
  return attention_shape(problem.layer->as<ir::AttentionAttrs>(), inputs, view(problem.outputs[0]),
                         shape);
}

TensorView scores_view(const AttentionShape& shape) {
  const int64_t extents[] = {shape.batch, shape.heads, shape.queries, shape.keys};
  return make_view(nullptr, DataType::kFloat, Format::kLinear, extents);
}

KeyWindows key_windows(const ir::AttentionAttrs& attrs, const AttentionShape& shape,
                       bool has_lengths) {
  KeyWindows windows{shape.keys, shape.queries, attrs.left_window, attrs.right_window, -1, 1};
  if (!attrs.first_query.empty())
    windows.first_query = attrs.first_query[0].extent();
  else if (!has_lengths)
    windows.first_query = 0;
  return windows;
}

int64_t length_of(const void* lengths, DataType type, int64_t stride, int64_t b, int64_t keys) {
  if (!lengths) return keys;
  const int64_t length = type == DataType::kInt32
                             ? static_cast<const int32_t*>(lengths)[b * stride]
                             : static_cast<const int64_t*>(lengths)[b * stride];
  return std::clamp<int64_t>(length, 0, keys);
}

}  // namespace camshaft::kernels
