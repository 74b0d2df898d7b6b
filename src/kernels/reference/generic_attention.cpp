// SPDX-License-Identifier: Apache-2.0
// Attention, LinearAttention, RotaryEmbedding, CausalConvWithState, SwiGLU.
#include <algorithm>
#include <limits>

#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [B, T, H*D] → [B, H, T, D]; a tensor of rank 4 stays as it is.
Result<Dense> by_heads(const TensorView& view, int64_t heads) {
  if (view.rank == 4) return dense(view);
  if (view.rank != 3 || heads < 1 || view.extents[2] % heads)
    return make_error(ErrorCode::kInvalidArgument, "a tensor of rank {} in {} heads", view.rank,
                      heads);
  TensorView four = view;
  four.rank = 4;
  const int64_t depth = view.extents[2] / heads, s = view.strides[2];
  const int64_t extents[] = {view.extents[0], heads, view.extents[1], depth};
  const int64_t strides[] = {view.strides[0], depth * s, view.strides[1], s};
  std::copy_n(extents, 4, four.extents);
  std::copy_n(strides, 4, four.strides);
  return dense(four);
}

// [B, H, T, D] → [B, T, H*D].
Dense joined_heads(Dense& y) {
  const Extents e = y.extents;
  TensorView view = make_view(y.values.data(), DataType::kDouble, Format::kLinear, e);
  std::swap(view.extents[1], view.extents[2]);
  std::swap(view.strides[1], view.strides[2]);
  return {{e[0], e[2], e[1] * e[3]}, load<double>(view)};
}

// past and x along dimension 2.
Result<Dense> appended(const TensorView& past, const Dense& x) {
  if (!past.present()) return x;
  Dense all{x.extents, {}};
  const Extents pe = extents_of(past);
  if (pe.size() != 4 || pe[0] != x.extents[0] || pe[1] != x.extents[1] || pe[3] != x.extents[3])
    return make_error(ErrorCode::kInvalidArgument, "the cache does not fit the new keys or values");
  all.extents[2] += pe[2];
  const std::vector<double> old = load<double>(past);
  const int64_t old_block = pe[2] * pe[3], new_block = x.extents[2] * x.extents[3];
  for (int64_t k = 0; k < pe[0] * pe[1]; ++k) {
    all.values.insert(all.values.end(), old.begin() + k * old_block,
                      old.begin() + (k + 1) * old_block);
    all.values.insert(all.values.end(), x.values.begin() + k * new_block,
                      x.values.begin() + (k + 1) * new_block);
  }
  return all;
}

// What is added to the scores: 0 or -∞ by causality, window and padding, plus the mask.
struct Bias {
  std::vector<double> mask;  // [B, H, Tq, Tk], empty: none
  Ints padding;              // valid keys per batch item, empty: all
  bool causal = false;
  int64_t left = -1, right = -1, past = 0, queries = 0;

  double operator()(int64_t b, int64_t head_row, int64_t i, int64_t j, int64_t keys) const {
    const int64_t position = i + (padding.empty() || past > 0 ? past : padding[b] - queries);
    if (causal && j > position) return -kInfinity;
    if (left >= 0 && position - j > left) return -kInfinity;
    if (right >= 0 && j - position > right) return -kInfinity;
    if (!padding.empty() && j >= padding[b]) return -kInfinity;
    return mask.empty() ? 0 : mask[(head_row * queries + i) * keys + j];
  }
};

Result<Bias> attention_bias(const Call& call, int64_t batch, int64_t heads, int64_t queries,
                            int64_t keys) {
  Bias bias;
  bias.causal = call.integer("is_causal", 0) != 0;
  bias.left = call.integer("left_window_size", -1);
  bias.right = call.integer("right_window_size", -1);
  bias.queries = queries;
  if (call.has_input(4)) bias.past = call.in(4).extents[2];
  bias.padding = call.ints(6);
  if (!bias.padding.empty() && static_cast<int64_t>(bias.padding.size()) != batch)
    return make_error(ErrorCode::kInvalidArgument, "{} key counts for {} items",
                      bias.padding.size(), batch);
  const TensorView mask = call.in(3);
  if (!mask.present()) return bias;
  Extents wanted{batch, heads, queries, keys};
  if (mask.rank < 1 || mask.rank > 4 || mask.extents[mask.rank - 1] > keys)
    return make_error(ErrorCode::kInvalidArgument, "the mask does not fit the scores");
  const int64_t given = mask.extents[mask.rank - 1];
  if (given != 1 || keys == 1) wanted[3] = given;
  const TensorView views[] = {mask, make_view(nullptr, mask.type, Format::kLinear, wanted)};
  CAMSHAFT_ASSIGN(const Extents common, broadcast_extents(views));
  if (!(common == wanted))
    return make_error(ErrorCode::kInvalidArgument, "the mask does not broadcast to the scores");
  std::vector<double> values = load<double>(broadcast_to(mask, wanted));
  if (mask.type == DataType::kBool)
    for (double& value : values) value = value != 0 ? 0 : -kInfinity;
  bias.mask.assign(batch * heads * queries * keys,
                   -kInfinity);  // a short mask hides the keys it does not name
  for (int64_t row = 0; row < batch * heads * queries; ++row)
    std::copy_n(values.data() + row * wanted[3], wanted[3], bias.mask.data() + row * keys);
  return bias;
}

// Q, K, V, mask, past key, past value, key counts → Y, present key, present value, scores.
Status attention(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(3));
  CAMSHAFT_ASSIGN(const Dense q, by_heads(call.in(0), call.integer("q_num_heads", 0)));
  CAMSHAFT_ASSIGN(const Dense new_k, by_heads(call.in(1), call.integer("kv_num_heads", 0)));
  CAMSHAFT_ASSIGN(const Dense new_v, by_heads(call.in(2), call.integer("kv_num_heads", 0)));
  CAMSHAFT_ASSIGN(const Dense k, appended(call.in(4), new_k));
  CAMSHAFT_ASSIGN(const Dense v, appended(call.in(5), new_v));
  const int64_t batch = q.extents[0], heads = q.extents[1], queries = q.extents[2],
                depth = q.extents[3];
  const int64_t kv_heads = k.extents[1], keys = k.extents[2], v_depth = v.extents[3];
  if (k.extents[0] != batch || v.extents[0] != batch || k.extents[3] != depth ||
      v.extents[2] != keys || v.extents[1] != kv_heads || kv_heads < 1 || heads % kv_heads)
    return make_error(ErrorCode::kInvalidArgument,
                      "Attention: queries, keys and values do not fit");
  CAMSHAFT_ASSIGN(const Bias bias, attention_bias(call, batch, heads, queries, keys));
  const double scale = call.real("scale", 1 / std::sqrt(static_cast<double>(depth))),
               softcap = call.real("softcap", 0);
  const int64_t mode = call.integer("qk_matmul_output_mode", 0);
  Dense y{{batch, heads, queries, v_depth}, std::vector<double>(batch * heads * queries * v_depth)};
  std::vector<double> shown(batch * heads * queries * keys), scores(keys);
  for (int64_t row = 0; row < batch * heads * queries; ++row) {
    const int64_t i = row % queries, head_row = row / queries, b = head_row / heads,
                  kv = b * kv_heads + head_row % heads / (heads / kv_heads);
    double maximum = -kInfinity, sum = 0;
    bool any_key = false;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < depth; ++d)
        score += q.values[row * depth + d] * k.values[(kv * keys + j) * depth + d];
      score *= scale;
      if (mode == 0) shown[row * keys + j] = score;
      if (softcap > 0) score = softcap * std::tanh(score / softcap);
      if (mode == 1) shown[row * keys + j] = score;
      const double added = bias(b, head_row, i, j, keys);
      any_key = any_key || added != -kInfinity;
      scores[j] = score + added;
      if (mode == 2) shown[row * keys + j] = scores[j];
      maximum = std::max(maximum, scores[j]);
    }
    for (double& score : scores) sum += score = any_key ? std::exp(score - maximum) : 0;
    for (int64_t j = 0; j < keys; ++j) {
      const double probability = any_key ? scores[j] / sum : 0;
      if (mode == 3) shown[row * keys + j] = probability;
      for (int64_t d = 0; d < v_depth && probability != 0; ++d)
        y.values[row * v_depth + d] += probability * v.values[(kv * keys + j) * v_depth + d];
    }
  }
  const Dense result = call.in(0).rank == 3 ? joined_heads(y) : y;
  outputs.push_back(produce(call.in(0).type, result.extents, result.values));
  outputs.push_back(produce(call.in(1).type, k.extents, k.values));
  outputs.push_back(produce(call.in(2).type, v.extents, v.values));
  outputs.push_back(produce(call.in(0).type, {batch, heads, queries, keys}, shown));
  return ok_status();
}

// --- LinearAttention: one state [dk, dv] per key head, read and written at every step.
Status linear_attention(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(3));
  const std::string rule = call.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta",
             delta = rule == "delta" || rule == "gated_delta";
  const int64_t q_heads = call.integer("q_num_heads", 0), heads = call.integer("kv_num_heads", 0);
  if ((!gated && !delta && rule != "linear") || gated != call.has_input(4) ||
      delta != call.has_input(5) || heads < 1 || q_heads < 1 || q_heads % heads)
    return make_error(ErrorCode::kInvalidArgument,
                      "LinearAttention: rule {} and its inputs do not fit", rule);
  CAMSHAFT_ASSIGN(const Dense q, by_heads(call.in(0), q_heads));
  CAMSHAFT_ASSIGN(const Dense k, by_heads(call.in(1), heads));
  CAMSHAFT_ASSIGN(const Dense v, by_heads(call.in(2), heads));
  const int64_t batch = q.extents[0], steps = q.extents[2], dk = q.extents[3], dv = v.extents[3];
  if (call.in(0).rank != 3 || k.extents[3] != dk || k.extents[2] != steps || v.extents[2] != steps)
    return make_error(ErrorCode::kInvalidArgument,
                      "LinearAttention: queries, keys and values do not fit");
  const double stated = call.real("scale", 0),
               scale = stated == 0 ? 1 / std::sqrt(static_cast<double>(dk)) : stated;
  if (gated) CAMSHAFT_TRY(call.require_rank(4, 1));
  if (delta) CAMSHAFT_TRY(call.require_rank(5, 1));
  if (k.extents[0] != batch || v.extents[0] != batch)
    return make_error(ErrorCode::kInvalidArgument, "LinearAttention: batches do not fit");
  const std::vector<double> decay = call.doubles(4), beta = call.doubles(5);
  const int64_t decay_width =
      gated ? call.in(4).extents[call.in(4).rank - 1] / heads : 1;  // 1 or dk per head
  const int64_t beta_heads = delta ? call.in(5).extents[call.in(5).rank - 1] : 1;  // 1 or all
  std::vector<double> state = call.doubles(3);
  if (state.empty()) state.resize(batch * heads * dk * dv);
  if (static_cast<int64_t>(state.size()) != batch * heads * dk * dv)
    return make_error(ErrorCode::kInvalidArgument, "LinearAttention: the state does not fit");
  if ((gated && static_cast<int64_t>(decay.size()) != batch * steps * heads * decay_width) ||
      (decay_width != 1 && decay_width != dk) ||
      (delta && (static_cast<int64_t>(beta.size()) != batch * steps * beta_heads ||
                 (beta_heads != 1 && beta_heads != heads))))
    return make_error(ErrorCode::kInvalidArgument, "LinearAttention: decay or beta do not fit");
  Dense y{{batch, q_heads, steps, dv}, std::vector<double>(batch * q_heads * steps * dv)};
  std::vector<double> written(dv);
  for (int64_t bh = 0; bh < batch * heads; ++bh) {
    const int64_t b = bh / heads, h = bh % heads, group = q_heads / heads;
    double* s = state.data() + bh * dk * dv;
    for (int64_t t = 0; t < steps; ++t) {
      const double *key = k.values.data() + (bh * steps + t) * dk,
                   *value = v.values.data() + (bh * steps + t) * dv;
      for (int64_t d = 0; gated && d < dk; ++d) {
        const double factor = std::exp(
            decay[((b * steps + t) * heads + h) * decay_width + (decay_width == 1 ? 0 : d)]);
        for (int64_t m = 0; m < dv; ++m) s[d * dv + m] *= factor;
      }
      for (int64_t m = 0; m < dv; ++m) {
        double read = 0;
        for (int64_t d = 0; delta && d < dk; ++d) read += s[d * dv + m] * key[d];
        written[m] = delta ? beta[(b * steps + t) * beta_heads + (beta_heads == 1 ? 0 : h)] *
                                 (value[m] - read)
                           : value[m];
      }
      for (int64_t d = 0; d < dk; ++d)
        for (int64_t m = 0; m < dv; ++m) s[d * dv + m] += key[d] * written[m];
      for (int64_t g = 0; g < group; ++g) {
        const int64_t row = (b * q_heads + h * group + g) * steps + t;
        for (int64_t m = 0; m < dv; ++m)
          for (int64_t d = 0; d < dk; ++d)
            y.values[row * dv + m] += scale * q.values[row * dk + d] * s[d * dv + m];
      }
    }
  }
  const Dense result = joined_heads(y);
  outputs.push_back(produce(call.in(0).type, result.extents, result.values));
  outputs.push_back(produce(call.has_input(3) ? call.in(3).type : call.in(0).type,
                            {batch, heads, dk, dv}, state));
  return ok_status();
}

// x [B, H, T, D] or [B, T, H*D], cos and sin caches [B, T, r/2] or, with position_ids [B, T],
// [positions, r/2].
Status rotary_embedding(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(3));
  CAMSHAFT_TRY(call.require_rank(1, 1));
  CAMSHAFT_ASSIGN(Dense x, by_heads(call.in(0), call.integer("num_heads", 0)));
  const int64_t batch = x.extents[0], heads = x.extents[1], steps = x.extents[2],
                depth = x.extents[3];
  const int64_t stated = call.integer("rotary_embedding_dim", 0),
                rotated = stated == 0 ? depth : stated, half = rotated / 2;
  const bool interleaved = call.integer("interleaved", 0) != 0;
  const std::vector<double> cosines = call.doubles(1), sines = call.doubles(2);
  const Ints positions = call.ints(3);
  if (half < 1 || rotated > depth || call.in(1).extents[call.in(1).rank - 1] != half ||
      cosines.size() != sines.size())
    return make_error(ErrorCode::kInvalidArgument,
                      "RotaryEmbedding: caches do not fit {} rotated elements", rotated);
  const int64_t rows = static_cast<int64_t>(cosines.size()) / half;
  if (!positions.empty() && static_cast<int64_t>(positions.size()) != batch * steps)
    return make_error(ErrorCode::kInvalidArgument, "RotaryEmbedding: {} positions",
                      positions.size());
  for (int64_t row = 0; row < batch * heads * steps; ++row) {
    const int64_t b = row / (heads * steps), t = row % steps;
    const int64_t line = positions.empty() ? b * steps + t : positions[b * steps + t];
    if (line < 0 || line >= rows)
      return make_error(ErrorCode::kInvalidArgument, "RotaryEmbedding: position {} of {}", line,
                        rows);
    double* head = x.values.data() + row * depth;
    for (int64_t k = 0; k < half; ++k) {
      double &a = head[interleaved ? 2 * k : k], &b2 = head[interleaved ? 2 * k + 1 : half + k];
      const double c = cosines[line * half + k], s = sines[line * half + k], real = c * a - s * b2,
                   imag = s * a + c * b2;
      a = real;
      b2 = imag;
    }
  }
  const Dense result = call.in(0).rank == 3 ? joined_heads(x) : x;
  outputs.push_back(produce(call.in(0).type, result.extents, result.values));
  return ok_status();
}

// input [B, C, L], weight [C, 1, k], bias, past state [B, C, k-1] → output, the last k-1 inputs.
Status causal_conv(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  const Extents xe = call.extents(0), we = call.extents(1);
  if (xe.size() != 3 || we.size() != 3 || we[0] != xe[1] || we[1] != 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "CausalConvWithState: input and weights do not fit");
  const int64_t length = xe[2], k = we[2], keep = k - 1;
  const std::vector<double> x = call.doubles(0), w = call.doubles(1), bias = call.doubles(2),
                            past = call.doubles(3);
  if (k < 1 || (!bias.empty() && static_cast<int64_t>(bias.size()) != xe[1]) ||
      (!past.empty() && static_cast<int64_t>(past.size()) != xe[0] * xe[1] * keep))
    return make_error(ErrorCode::kInvalidArgument, "CausalConvWithState: bias or state do not fit");
  const bool silu = call.text("activation", "none") != "none";
  std::vector<double> y, present;
  for (int64_t map = 0; map < xe[0] * xe[1]; ++map) {
    const int64_t c = map % xe[1];
    std::vector<double> line(keep, 0.0);
    if (!past.empty()) std::copy_n(past.data() + map * keep, keep, line.begin());
    line.insert(line.end(), x.begin() + map * length, x.begin() + (map + 1) * length);
    for (int64_t t = 0; t < length; ++t) {
      double sum = bias.empty() ? 0 : bias[c];
      for (int64_t tap = 0; tap < k; ++tap) sum += w[c * k + tap] * line[t + tap];
      y.push_back(silu ? sum / (1 + std::exp(-sum)) : sum);
    }
    present.insert(present.end(), line.end() - keep, line.end());
  }
  outputs.push_back(produce(call.in(0).type, xe, y));
  outputs.push_back(produce(call.in(0).type, {xe[0], xe[1], keep}, present));
  return ok_status();
}

Status swiglu(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  std::vector<double> a = call.doubles(0);
  const std::vector<double> b = call.doubles(1);
  const double alpha = call.real("alpha", 1);
  if (a.size() != b.size())
    return make_error(ErrorCode::kInvalidArgument, "SwiGLU of different shapes");
  for (size_t k = 0; k < a.size(); ++k) a[k] = a[k] / (1 + std::exp(-alpha * a[k])) * b[k];
  outputs.push_back(produce(call.in(0).type, call.extents(0), a));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_attention_operators() {
  static constexpr GenericRow kRows[] = {
      {"Attention", {nullptr, appending<attention>}},
      {"LinearAttention", {nullptr, appending<linear_attention>}},
      {"RotaryEmbedding", {nullptr, appending<rotary_embedding>}},
      {"CausalConvWithState", {nullptr, appending<causal_conv>}},
      {"SwiGLU", {nullptr, appending<swiglu>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
