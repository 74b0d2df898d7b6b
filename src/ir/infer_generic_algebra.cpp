// SPDX-License-Identifier: Apache-2.0
// Shapes of Generic operators: algebra, attention, integer products, losses, sets.
#include <algorithm>
#include <map>

#include "ir/append_rows.h"
#include "ir/chosen_product.h"
#include "ir/einsum.h"
#include "ir/infer_generic.h"
#include "ir/rotation.h"

namespace camshaft::ir {
namespace {

Status like_input(GenericRule& g) {
  return g.same();
}

// --- Einsum

Status einsum(GenericRule& g) {
  std::vector<size_t> ranks;
  CAMSHAFT_TRY(g.f.require(std::max<size_t>(g.f.inputs.size(), 1)));
  const DataType type = g.f.in(0).type;
  for (const InferInput& operand : g.f.inputs)
    if (operand.type != type)
      return invalid("the operands have different types: {} and {}", type_name(type),
                     type_name(operand.type));
  for (size_t k = 0; k < g.f.inputs.size(); ++k) {
    if (!g.f.ranked(k)) return g.f.unranked(type);
    ranks.push_back(g.f.rank(k));
  }
  CAMSHAFT_ASSIGN(const EinsumTerms terms, parse_einsum(g.text("equation", ""), ranks));
  std::map<char, Dim> extents;
  for (size_t k = 0; k < ranks.size(); ++k)
    for (size_t d = 0; d < ranks[k]; ++d) {
      const auto [entry, added] = extents.emplace(terms.operands[k][d], g.f.shape(k)[d]);
      if (!added && entry->second == Dim(1)) entry->second = g.f.shape(k)[d];
    }
  Shape shape;
  for (const char label : terms.result) shape.push_back(extents[label]);
  return g.f.give(type, shape);
}

Status determinant(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(1));
  if (!g.f.ranked(0)) return g.f.unranked(g.f.in(0).type);
  if (g.f.rank(0) < 2)
    return invalid("input {} is not a matrix", to_string(g.f.shape(0), g.f.symbols));
  return g.f.give(g.f.in(0).type, Shape(g.f.shape(0).begin(), g.f.shape(0).end() - 2));
}

Status typed_like_input(GenericRule& g) {  // EyeLike, BitCast
  CAMSHAFT_TRY(g.f.require(1));
  CAMSHAFT_ASSIGN(const DataType type, g.type(g.has("to") ? "to" : "dtype", g.f.in(0).type));
  if (g.has("to") && bits_of(type) != bits_of(g.f.in(0).type))
    return make_error(ErrorCode::kUnsupported, "a type of another width");
  return g.f.ranked(0) ? g.f.give(type, g.f.shape(0)) : g.f.unranked(type);
}

// --- attention

Status attention(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(3));
  const DataType type = f.in(0).type;
  if (!f.ranked(0) || !f.ranked(1) || !f.ranked(2) || f.rank(0) != f.rank(1) ||
      f.rank(0) != f.rank(2) || (f.rank(0) != 3 && f.rank(0) != 4))
    return invalid("query, key and value must all have 3 or 4 dimensions");
  const bool packed = f.rank(0) == 3;
  const int64_t heads = g.integer("q_num_heads", 0), kv_heads = g.integer("kv_num_heads", 0);
  if (packed && (heads < 1 || kv_heads < 1))
    return invalid("q_num_heads and kv_num_heads are needed for 3 dimensions");
  SymbolTable& s = f.symbols;
  const Shape &q = f.shape(0), &k = f.shape(1), &v = f.shape(2);
  const Dim batch = q[0], queries = q[packed ? 1 : 2];
  const Dim q_heads = packed ? Dim(heads) : q[1], k_heads = packed ? Dim(kv_heads) : k[1];
  const Dim depth = packed ? s.floor_div(k[2], kv_heads) : k[3],
            v_depth = packed ? s.floor_div(v[2], kv_heads) : v[3];
  Dim keys = k[packed ? 1 : 2];
  if (f.has(4)) keys = f.ranked(4) && f.rank(4) == 4 ? s.add(keys, f.shape(4)[2]) : f.unknown();
  CAMSHAFT_TRY(f.give(f.in(1).type, Shape{batch, k_heads, keys, depth}, 1));
  CAMSHAFT_TRY(f.give(f.in(2).type, Shape{batch, k_heads, keys, v_depth}, 2));
  CAMSHAFT_TRY(f.give(type, Shape{batch, q_heads, queries, keys}, 3));
  return f.give(type, packed ? Shape{batch, queries, s.mul(v_depth, heads)}
                             : Shape{batch, q_heads, queries, v_depth});
}

Status linear_attention(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(3));
  const int64_t heads = g.integer("q_num_heads", 0), kv_heads = g.integer("kv_num_heads", 0);
  if (!f.ranked(0) || f.rank(0) != 3 || !f.ranked(1) || f.rank(1) != 3 || !f.ranked(2) ||
      f.rank(2) != 3 || heads < 1 || kv_heads < 1)
    return invalid(
        "query, key and value must have 3 dimensions, and the numbers of heads must be given");
  const Dim depth = f.symbols.floor_div(f.shape(1)[2], kv_heads),
            v_depth = f.symbols.floor_div(f.shape(2)[2], kv_heads);
  const DataType state = f.has(3) ? f.in(3).type : f.in(0).type;
  CAMSHAFT_TRY(f.give(state, Shape{f.shape(0)[0], Dim(kv_heads), depth, v_depth}, 1));
  return f.give(f.in(0).type, Shape{f.shape(0)[0], f.shape(0)[1], f.symbols.mul(v_depth, heads)});
}

Status causal_convolution(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  const Dim taps = g.extent(1, 2);
  CAMSHAFT_TRY(
      f.give(f.in(0).type, Shape{g.extent(0, 0), g.extent(0, 1), f.symbols.sub(taps, 1)}, 1));
  return g.same();
}

// --- caches

Status append_rows(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(2));
  const int64_t axis = append_axis(g.f.layer);
  if (!g.f.ranked(0)) return g.f.unranked(g.f.in(0).type);
  if (axis < 1 || axis >= static_cast<int64_t>(g.f.rank(0)))
    return invalid("axis {} of rank {}", axis, g.f.rank(0));
  Shape shape = g.f.shape(0);
  if (g.f.has(kAppendTotal)) {
    const auto total = g.value(kAppendTotal);
    shape[axis] =
        total && total->size() == 1 ? g.f.symbols.max(shape[axis], (*total)[0]) : g.f.unknown();
  }
  return g.f.give(g.f.in(0).type, shape);
}

// --- pairs turned by angles

Status rotation(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(3));
  const int64_t half = rotated_half(g.f.layer);
  if (half < 1) return invalid("no half");
  if (!g.f.ranked(0) || !g.f.ranked(kRotationCosine) || !g.f.ranked(kRotationSine))
    return g.f.unranked(g.f.in(0).type);
  const Shape &x = g.f.shape(0), &cosine = g.f.shape(kRotationCosine),
              &sine = g.f.shape(kRotationSine);
  if (x.empty() || cosine.empty() || cosine.size() > x.size() || cosine.size() != sine.size())
    return invalid("elements, cosines and sines of ranks {}, {} and {}", x.size(), cosine.size(),
                   sine.size());
  const Dim width = cosine.back();
  if (!x.back().is_known() || x.back().extent() < 2 * half || width != sine.back() ||
      (width != Dim(half) && width != Dim(2 * half)))
    return invalid("{} pairs of {}, {} cosines", half, to_string(x, g.f.symbols),
                   to_string(cosine, g.f.symbols));
  const size_t missing = x.size() - cosine.size();
  for (size_t d = 0; d + 1 < cosine.size(); ++d)
    for (const Dim factor : {cosine[d], sine[d]})
      if (factor != Dim(1) && !compatible(factor, x[d + missing], g.f.symbols))
        return invalid("cosines {} do not broadcast to {}", to_string(cosine, g.f.symbols),
                       to_string(x, g.f.symbols));
  return g.same();
}

// --- rows and the matrices chosen for them

Status chosen_product(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(3));
  if (!g.f.ranked(kChosenRows) || !g.f.ranked(kChosenMatrix) || !g.f.ranked(kChosenWeights))
    return g.f.unranked(DataType::kFloat);
  if (g.f.rank(kChosenRows) != 2 || g.f.rank(kChosenMatrix) != 1 || g.f.rank(kChosenWeights) != 3)
    return invalid("rows, numbers and matrices of ranks {}, {} and {}", g.f.rank(kChosenRows),
                   g.f.rank(kChosenMatrix), g.f.rank(kChosenWeights));
  const Shape &rows = g.f.shape(kChosenRows), &weights = g.f.shape(kChosenWeights);
  if (!compatible(rows[0], g.f.shape(kChosenMatrix)[0], g.f.symbols) ||
      !compatible(rows[1], weights[2], g.f.symbols))
    return invalid("rows, numbers and matrices do not fit");
  return g.f.give(DataType::kFloat, {rows[0], weights[1]});
}

// --- integer products

Status as_layer(GenericRule& g, LayerKind kind, Attrs attrs, std::vector<InferInput> inputs,
                DataType type) {
  Layer probe;
  probe.kind = kind;
  probe.name = g.f.layer.name;
  probe.attrs = std::move(attrs);
  for (InferInput& input : inputs) input.type = DataType::kFloat;
  CAMSHAFT_ASSIGN(const std::vector<InferOutput> outputs, infer(probe, inputs, g.f.symbols));
  return outputs[0].has_rank ? g.f.give(type, outputs[0].shape) : g.f.unranked(type);
}

Status matmul_integer(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(2));
  return as_layer(g, LayerKind::kMatrixMultiply, MatrixMultiplyAttrs{}, {g.f.in(0), g.f.in(1)},
                  DataType::kInt32);
}

Status conv_integer(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(2));
  if (!g.f.ranked(1) || g.f.rank(1) < 3) return invalid("weights without a kernel");
  const size_t spatial = g.f.rank(1) - 2;
  const auto filled = [&](const char* name, size_t count, int64_t fallback) {
    const Ints list = g.list(name);
    return list.size() == count ? list : Ints(count, fallback);
  };
  ConvolutionAttrs attrs;
  for (size_t d = 0; d < spatial; ++d) {
    if (!g.f.shape(1)[d + 2].is_known())
      return make_error(ErrorCode::kUnsupported, "weights whose kernel size is not known");
    attrs.kernel.push_back(g.f.shape(1)[d + 2].extent());
  }
  attrs.stride = filled("strides", spatial, 1);
  attrs.dilation = filled("dilations", spatial, 1);
  const Ints pads = filled("pads", 2 * spatial, 0);
  attrs.pre_padding.assign(pads.begin(), pads.begin() + spatial);
  attrs.post_padding.assign(pads.begin() + spatial, pads.end());
  const std::string auto_pad = g.text("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER") attrs.padding_mode = PaddingMode::kSameUpper;
  if (auto_pad == "SAME_LOWER") attrs.padding_mode = PaddingMode::kSameLower;
  attrs.groups = g.integer("group", 1);
  return as_layer(g, LayerKind::kConvolution, std::move(attrs), {g.f.in(0), g.f.in(1)},
                  DataType::kInt32);
}

Status dynamic_quantize(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(1));
  CAMSHAFT_TRY(g.f.give(DataType::kFloat, {}, 1));
  CAMSHAFT_TRY(g.f.give(DataType::kUInt8, {}, 2));
  return g.f.ranked(0) ? g.f.give(DataType::kUInt8, g.f.shape(0)) : g.f.unranked(DataType::kUInt8);
}

Status dropout(GenericRule& g) {
  CAMSHAFT_TRY(g.same());
  return g.f.ranked(0) ? g.f.give(DataType::kBool, g.f.shape(0), 1)
                       : g.f.unranked(DataType::kBool, 1);
}

Status training_batch_normalization(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(5));
  CAMSHAFT_TRY(g.same(3, 1));
  CAMSHAFT_TRY(g.same(4, 2));
  return g.same();
}

// --- losses

Status loss(GenericRule& g) {  // NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  CAMSHAFT_TRY(g.same(0, 1));
  if (g.text("reduction", "mean") != "none") return f.give(f.in(0).type, {});
  return f.ranked(1) ? f.give(f.in(0).type, f.shape(1)) : f.unranked(f.in(0).type);
}

// --- sets

Status unique(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(1));
  const Dim count = f.unknown();
  for (size_t k = 1; k < 4; ++k)
    CAMSHAFT_TRY(f.give(DataType::kInt64, Shape{k == 2 ? f.unknown() : count}, k));
  if (!g.has("axis")) return f.give(f.in(0).type, Shape{count});
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  const int64_t axis = wrap_axis(g.integer("axis", 0), f.rank(0));
  if (axis < 0)
    return invalid("axis {} of {}", g.integer("axis", 0), to_string(f.shape(0), f.symbols));
  Shape shape = f.shape(0);
  shape[axis] = count;
  return f.give(f.in(0).type, shape);
}

Status compress(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  if (!g.has("axis")) return f.give(f.in(0).type, Shape{f.unknown()});
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  const int64_t axis = wrap_axis(g.integer("axis", 0), f.rank(0));
  if (axis < 0)
    return invalid("axis {} of {}", g.integer("axis", 0), to_string(f.shape(0), f.symbols));
  Shape shape = f.shape(0);
  shape[axis] = f.unknown();
  return f.give(f.in(0).type, shape);
}

Status one_hot(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(3));
  if (!f.ranked(0)) return f.unranked(f.in(2).type);
  if (f.rank(0) + 1 > kMaxRank)
    return make_error(ErrorCode::kUnsupported, "more than {} dimensions", kMaxRank);
  const int64_t axis = wrap_axis(g.integer("axis", -1), f.rank(0) + 1);
  if (axis < 0)
    return invalid("axis {} of {}", g.integer("axis", -1), to_string(f.shape(0), f.symbols));
  const auto depth = g.value(1);
  Shape shape = f.shape(0);
  shape.insert(axis, depth && depth->size() == 1 ? (*depth)[0] : f.unknown());
  return f.give(f.in(2).type, shape);
}

Status tf_idf(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(1));
  int64_t last = -1;
  for (int64_t index : g.list("ngram_indexes")) last = std::max(last, index);
  if (last >= kMaxExtent) return invalid("ngram index {}", last);
  const Dim columns = last + 1;
  if (!g.f.ranked(0)) return g.f.unranked(DataType::kFloat);
  return g.f.give(DataType::kFloat,
                  g.f.rank(0) == 2 ? Shape{g.f.shape(0)[0], columns} : Shape{columns});
}

Status array_feature_extractor(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(2));
  if (!g.f.ranked(0) || !g.f.ranked(1)) return g.f.unranked(g.f.in(0).type);
  const Dim count = elements(g.f.shape(1), g.f.symbols);
  Shape shape =
      g.f.rank(0) < 2 ? Shape{Dim(1)} : Shape(g.f.shape(0).begin(), g.f.shape(0).end() - 1);
  shape.push_back(count);
  return g.f.give(g.f.in(0).type, shape);
}

}  // namespace

std::span<const GenericRow> generic_algebra_rules() {
  static constexpr GenericRow kRows[] = {
      {"Einsum", einsum},
      {"Det", determinant},
      {"Trilu", like_input},
      {"EyeLike", typed_like_input},
      {"BitCast", typed_like_input},
      {"CumProd", like_input},
      {"TensorScatter", like_input},
      {"ReverseSequence", like_input},
      {"Attention", attention},
      {"LinearAttention", linear_attention},
      {"RotaryEmbedding", like_input},
      {"CausalConvWithState", causal_convolution},
      {"LRN", like_input},
      {"Dropout", dropout},
      {"BatchNormalization", training_batch_normalization},
      {kAppendRows, append_rows},
      {kRotation, rotation},
      {kChosenProduct, chosen_product},
      {"MatMulInteger", matmul_integer},
      {"ConvInteger", conv_integer},
      {"DynamicQuantizeLinear", dynamic_quantize},
      {"NegativeLogLikelihoodLoss", loss},
      {"SoftmaxCrossEntropyLoss", loss},
      {"Unique", unique},
      {"Compress", compress},
      {"OneHot", one_hot},
      {"TfIdfVectorizer", tf_idf},
      {"ArrayFeatureExtractor", array_feature_extractor},
      {"Binarizer", like_input},
  };
  return kRows;
}

}  // namespace camshaft::ir
