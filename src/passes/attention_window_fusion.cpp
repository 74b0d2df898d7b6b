// SPDX-License-Identifier: Apache-2.0
// AttentionWindowFusion: a constant mask behind the scores that hides all keys but those from so
// many before a query to so many after it (causal masks, sliding windows) becomes the window of
// Attention: blocks of keys that nobody sees are neither multiplied nor read, and no mask is.
// Exact: what is hidden has -inf or less than -1e30 as its score, of which softmax makes 0 beside
// any that is not; every query sees a key.
#include <algorithm>

#include "passes/expression.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr size_t kLengths = 3, kFirstOperand = 4;  // of Attention's inputs
constexpr double kHidden = -1e30;

// Behind the scores, last of all: what it leaves of them, and which keys of which query it hides.
struct Mask {
  Program rest;
  std::vector<bool> hides;  // [queries][keys]
  bool adds = false;        // something to those that are seen
};

std::optional<double> literal(const Program& program, int value) {
  const int at = value - program.num_inputs;
  if (at < 0 || program.code[at].op != PointOp::kConst) return std::nullopt;
  return program.code[at].x;
}

// The constant [queries, keys] that program input `value` is, for all batches and heads.
const Tensor* constant_operand(const Layer& layer, int value, int64_t queries, int64_t keys) {
  if (value < 1 || value >= layer.as<AttentionAttrs>().epilogue.num_inputs) return nullptr;
  const Tensor* tensor = input_at(layer, kFirstOperand + static_cast<size_t>(value) - 1);
  if (!tensor || !tensor->is_constant() || tensor->shape.size() < 2) return nullptr;
  const size_t rank = tensor->shape.size();
  for (size_t d = 0; d + 2 < rank; ++d)
    if (tensor->shape[d] != Dim(1)) return nullptr;
  const bool fits = tensor->shape[rank - 2] == Dim(queries) && tensor->shape[rank - 1] == Dim(keys);
  return fits ? tensor : nullptr;
}

// Of the program's values, one that scores have no part in.
bool is_operand(const Program& program, int value) {
  return value > 0 && value < program.num_inputs;
}

// The program up to `value`, which becomes its result; empty: the scores as they are.
Program up_to(Program program, int value) {
  if (value == 0) return {};
  program.code.resize(static_cast<size_t>(std::max(value - program.num_inputs + 1, 0)));
  return program;
}

std::optional<Mask> added_mask(const Layer& layer, const Instruction& last, int64_t queries,
                               int64_t keys) {
  const Program& program = layer.as<AttentionAttrs>().epilogue;
  const bool is_fma = last.op == PointOp::kFma;
  for (const bool swapped : {false, true}) {
    if (is_fma && swapped) break;
    const int mask = is_fma ? last.c : swapped ? last.a : last.b;
    const int left = is_fma ? program.result() - 1 : swapped ? last.b : last.a;
    const Tensor* tensor = constant_operand(layer, mask, queries, keys);
    if (!tensor || tensor->type != DataType::kFloat || (!is_fma && is_operand(program, left)))
      continue;
    Mask found;
    for (const float value : tensor->values<float>()) {
      found.hides.push_back(value < kHidden);
      found.adds |= !(value < kHidden) && value != 0;
    }
    found.rest = up_to(program, left);
    if (is_fma) append(found.rest, PointOp::kMul, last.a, last.b);
    return found;
  }
  return std::nullopt;
}

std::optional<Mask> chosen_mask(const Layer& layer, const Instruction& last, int64_t queries,
                                int64_t keys) {
  const Program& program = layer.as<AttentionAttrs>().epilogue;
  const Tensor* tensor = constant_operand(layer, last.a, queries, keys);
  if (!tensor || tensor->type != DataType::kBool) return std::nullopt;
  const std::optional<double> if_true = literal(program, last.b),
                              if_false = literal(program, last.c);
  const bool true_hides = if_true && *if_true < kHidden;
  const int left = true_hides ? last.c : last.b;
  if ((!true_hides && !(if_false && *if_false < kHidden)) || is_operand(program, left))
    return std::nullopt;
  Mask found;
  for (const uint8_t value : tensor->values<uint8_t>())
    found.hides.push_back((value != 0) == true_hides);
  found.rest = up_to(program, left);
  return found;
}

std::optional<Mask> mask_of(const Layer& layer, int64_t queries, int64_t keys) {
  const Program& program = layer.as<AttentionAttrs>().epilogue;
  if (program.empty()) return std::nullopt;
  const Instruction& last = program.code.back();
  switch (last.op) {
    case PointOp::kAdd:
    case PointOp::kFma:
      return added_mask(layer, last, queries, keys);
    case PointOp::kSelect:
      return chosen_mask(layer, last, queries, keys);
    default:
      return std::nullopt;
  }
}

// Query q sees keys [q - left, q + right] of those there are; below 0: no limit.
struct Window {
  int64_t left = -1, right = -1;
};

// Keys [first, last] that a query sees; empty: none, or not one behind the other.
std::optional<std::pair<int64_t, int64_t>> seen_by(const std::vector<bool>& hides, int64_t query,
                                                   int64_t keys) {
  const auto row = hides.begin() + query * keys, end = row + keys;
  const auto first = std::find(row, end, false);
  if (first == end) return std::nullopt;
  const auto behind = std::find(first, end, true);
  if (std::find(behind, end, false) != end) return std::nullopt;
  return std::pair(first - row, behind - row - 1);
}

std::optional<Window> window_of(const std::vector<bool>& hides, int64_t queries, int64_t keys) {
  Window window;
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (int64_t q = 0; q < queries; ++q) {
    const auto seen = seen_by(hides, q, keys);
    if (!seen) return std::nullopt;
    rows.push_back(*seen);
    if (seen->first > 0) window.left = q - seen->first;
    if (seen->second < keys - 1) window.right = seen->second - q;
    if ((seen->first > 0 && window.left < 0) || (seen->second < keys - 1 && window.right < 0))
      return std::nullopt;
  }
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t first = window.left < 0 ? 0 : std::max<int64_t>(q - window.left, 0),
                  last = window.right < 0 ? keys - 1 : std::min(q + window.right, keys - 1);
    if (rows[q] != std::pair(first, last)) return std::nullopt;
  }
  return window.left < 0 && window.right < 0 ? std::nullopt : std::optional(window);
}

// Rows of queries or keys, where they are a number.
std::optional<int64_t> steps_of(const Tensor* tensor, bool steps_first) {
  const size_t rank = tensor->shape.size();
  if (!tensor->has_rank || rank < 3) return std::nullopt;
  const Dim dim = tensor->shape[steps_first ? 1 : rank - 2];
  return dim.is_known() ? std::optional(dim.extent()) : std::nullopt;
}

bool fuse(Rewriter& rewriter, Layer* layer) {
  const auto& attrs = layer->as<AttentionAttrs>();
  if (attrs.of_codes() || attrs.left_window >= 0 || attrs.right_window >= 0 ||
      !attrs.first_query.empty() || input_at(*layer, kLengths))
    return false;
  const auto queries = steps_of(layer->inputs[0], attrs.q_steps_first),
             keys = steps_of(layer->inputs[1], attrs.k_steps_first);
  if (!queries || !keys || *queries < 2) return false;
  const std::optional<Mask> mask = mask_of(*layer, *queries, *keys);
  if (!mask) return false;
  const std::optional<Window> window = window_of(mask->hides, *queries, *keys);
  if (!window) return false;
  AttentionAttrs made = attrs;
  made.left_window = window->left;
  made.right_window = window->right;
  std::vector<Tensor*> inputs = layer->inputs;
  if (!mask->adds && mask->rest.empty()) {
    made.epilogue = {};
    inputs.resize(kFirstOperand - 1);  // no lengths either
  } else if (!mask->adds) {
    Expression rest{mask->rest, {layer->outputs[0]}};  // the scores have no tensor
    rest.inputs.insert(rest.inputs.end(), inputs.begin() + kFirstOperand, inputs.end());
    rest = tidy(std::move(rest), 1);
    made.epilogue = rest.program;
    inputs.resize(kFirstOperand);
    inputs.insert(inputs.end(), rest.inputs.begin() + 1, rest.inputs.end());
  }
  rewriter.running(*layer);
  rewriter.applied(Action::kEdit, *layer,
                   fmt::format("{}: keys from {} before to {} after a query are seen", layer->name,
                               window->left < 0 ? "any" : std::to_string(window->left),
                               window->right < 0 ? "any" : std::to_string(window->right)));
  Layer* group[] = {layer};
  rewriter.replace(group, LayerKind::kAttention, std::move(made), std::move(inputs), layer->name);
  return true;
}

}  // namespace

int attention_window_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "AttentionWindowFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind == LayerKind::kAttention) fuse(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
