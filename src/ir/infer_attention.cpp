// SPDX-License-Identifier: Apache-2.0
// Shapes of Attention: its tensors seen as [batch, heads, steps, depth].
#include "ir/infer_internal.h"

namespace camshaft::ir {
namespace {

struct HeadsShape {
  Dim batch, heads, steps, depth;
};

Result<HeadsShape> heads_of(const Shape& x, bool steps_first, int64_t heads, const char* name,
                            SymbolTable& symbols) {
  if (x.size() == 4)
    return steps_first ? HeadsShape{x[0], x[2], x[1], x[3]} : HeadsShape{x[0], x[1], x[2], x[3]};
  if (x.size() != 3)
    return invalid("{} {} has neither 3 nor 4 dimensions", name, to_string(x, symbols));
  if (!steps_first) return HeadsShape{1, x[0], x[1], x[2]};
  if (heads < 1 || (x[2].is_known() && x[2].extent() % heads != 0))
    return invalid("{} {} cannot be divided into {} heads", name, to_string(x, symbols), heads);
  return HeadsShape{x[0], heads, x[1], symbols.floor_div(x[2], heads)};
}

Status check_operands(Inference& f, const Shape& scores) {
  for (size_t k = 4; k < f.inputs.size(); ++k) {
    if (!f.ranked(k)) continue;
    CAMSHAFT_ASSIGN(const Shape shape, broadcast_shapes(scores, f.shape(k), f.symbols));
    bool fits = shape.size() == scores.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = compatible(shape[d], scores[d], f.symbols);
    if (!fits)
      return invalid("epilogue operand {} does not broadcast to the scores {}",
                     to_string(f.shape(k), f.symbols), to_string(scores, f.symbols));
  }
  return ok_status();
}

}  // namespace

Status infer_attention(Inference& f) {
  CAMSHAFT_TRY(f.require(3));
  const auto& a = f.layer.as<AttentionAttrs>();
  if (a.of_codes() ? !is_quantized(f.in(0).type) || !is_quantized(f.in(1).type) ||
                         !is_quantized(f.in(2).type)
                   : f.in(1).type != f.in(0).type || f.in(2).type != f.in(0).type)
    return invalid("queries, keys and values of unequal type");
  const DataType type = !a.of_codes()                    ? f.in(0).type
                        : a.type == DataType::kUndefined ? DataType::kFloat
                                                         : a.type;
  if (!f.ranked(0) || !f.ranked(1) || !f.ranked(2)) return f.unranked(type);
  CAMSHAFT_ASSIGN(const HeadsShape q,
                  heads_of(f.shape(0), a.q_steps_first, a.heads, "the queries", f.symbols));
  CAMSHAFT_ASSIGN(const HeadsShape k,
                  heads_of(f.shape(1), a.k_steps_first, a.kv_heads, "the keys", f.symbols));
  CAMSHAFT_ASSIGN(const HeadsShape v,
                  heads_of(f.shape(2), a.v_steps_first, a.kv_heads, "the values", f.symbols));
  const auto fits = [&](Dim x, Dim y) { return x == Dim(1) || compatible(x, y, f.symbols); };
  if (!compatible(q.depth, k.depth, f.symbols) || !compatible(k.steps, v.steps, f.symbols) ||
      !compatible(k.heads, v.heads, f.symbols) || !fits(k.batch, q.batch) ||
      !fits(v.batch, q.batch) ||
      (q.heads.is_known() && k.heads.is_known() &&
       (k.heads.extent() < 1 || q.heads.extent() % k.heads.extent() != 0)))
    return invalid("queries {}, keys {} and values {} do not match",
                   to_string(f.shape(0), f.symbols), to_string(f.shape(1), f.symbols),
                   to_string(f.shape(2), f.symbols));
  if (f.ranked(3) && f.rank(3) != 1) return invalid("the lengths are no list");
  CAMSHAFT_TRY(check_operands(f, {q.batch, q.heads, q.steps, k.steps}));
  if (a.y_steps_first) return f.give(type, {q.batch, q.steps, f.symbols.mul(q.heads, v.depth)});
  if (!a.q_steps_first && f.rank(0) == 3) return f.give(type, {q.heads, q.steps, v.depth});
  return f.give(type, {q.batch, q.heads, q.steps, v.depth});
}

}  // namespace camshaft::ir
