// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts (com.microsoft.MoE, QMoE): the router's choice as TopK and SoftMax, what the
// chosen experts do as one layer.
#include <cmath>

#include "onnx/ops_experts.h"

namespace camshaft::onnx_import {
namespace {

// --- the router

struct Routing {
  Tensor *chosen, *shares;  // [rows, k]
};

Result<Tensor*> one_of(Node& node, std::string_view op, int64_t opset,
                       std::vector<AttributeDef> attributes, std::vector<Tensor*> inputs,
                       std::string_view step) {
  CAMSHAFT_ASSIGN(const std::vector<Tensor*> results,
                  apply(node, op, opset, std::move(attributes), std::move(inputs), 1, step));
  return results[0];
}

Result<Tensor*> softmax(Node& node, Tensor* x, std::string_view step) {
  return one_of(node, "Softmax", 13, {number("axis", -1)}, {x}, step);
}

Result<Tensor*> pick(Node& node, Tensor* from, Tensor* chosen, std::string_view step) {
  return one_of(node, "GatherElements", 13, {number("axis", 1)}, {from, chosen}, step);
}

// x / Σ x of every row.
Result<Tensor*> normalized(Node& node, Tensor* x) {
  const int64_t extents[] = {1}, axes[] = {1};
  CAMSHAFT_ASSIGN(Tensor* const sum, one_of(node, "ReduceSum", 13, {},
                                            {x, node.int_constant("axis", extents, axes)}, "sum"));
  return node.binary("normalized", PointOp::kDiv, x, sum);
}

// The share of a choice by SparseMixer, as it is inferred with (Phi-3.5-MoE): softmax over the
// experts whose logit lies at most 2 % below the chosen one's, of `scores`, from which earlier
// choices are gone.
Result<Tensor*> mixer_share(Node& node, Tensor* logits, Tensor* scores, Tensor* best, Tensor* index,
                            std::string_view step) {
  constexpr double kFar = 0.02;
  const auto name = [&](std::string_view part) { return fmt::format("{}_{}", step, part); };
  CAMSHAFT_ASSIGN(Tensor* const size, node.unary(name("size"), PointOp::kAbs, logits));
  CAMSHAFT_ASSIGN(Tensor* const scale, node.binary(name("scale"), PointOp::kMax, size, best));
  CAMSHAFT_ASSIGN(Tensor* const below, node.binary(name("below"), PointOp::kSub, best, logits));
  CAMSHAFT_ASSIGN(Tensor* const distance,
                  node.binary(name("distance"), PointOp::kDiv, below, scale));
  CAMSHAFT_ASSIGN(Tensor* const is_far,
                  node.binary(name("is_far"), PointOp::kGreater, distance,
                              node.scalar_like(name("far"), DataType::kFloat, kFar)));
  Tensor* const nothing = node.scalar_like(name("nothing"), DataType::kFloat, -INFINITY);
  CAMSHAFT_ASSIGN(Tensor* const near,
                  node.add(name("near"), LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                           {is_far, nothing, scores}));
  CAMSHAFT_ASSIGN(Tensor* const weights, softmax(node, near, name("softmax")));
  return pick(node, weights, index, step);
}

Result<Tensor*> column_of(Node& node, Tensor* x, int64_t column, std::string_view step) {
  const int64_t extents[] = {1}, values[] = {column};
  return one_of(node, "Gather", 13, {number("axis", 1)},
                {x, node.int_constant(fmt::format("{}_column", step), extents, values)}, step);
}

// Inputs: the logits [rows, experts], the two largest of every row and where they are.
Result<Tensor*> mixer_shares(Node& node, Tensor* logits, Tensor* values, Tensor* chosen) {
  std::vector<Tensor*> shares;
  Tensor* scores = logits;
  for (const int64_t choice : {0, 1}) {
    const std::string step = fmt::format("choice{}", choice);
    CAMSHAFT_ASSIGN(Tensor* const best, column_of(node, values, choice, step + "_logit"));
    CAMSHAFT_ASSIGN(Tensor* const index, column_of(node, chosen, choice, step + "_expert"));
    CAMSHAFT_ASSIGN(Tensor* const share, mixer_share(node, logits, scores, best, index, step));
    shares.push_back(share);
    if (choice == 1) break;
    CAMSHAFT_ASSIGN(Tensor* const gone, node.binary(step + "_gone", PointOp::kMul, best,
                                                    node.scalar_like("zero", DataType::kFloat, 0)));
    CAMSHAFT_ASSIGN(Tensor* const lowest,
                    node.binary(step + "_lowest", PointOp::kAdd, gone,
                                node.scalar_like("lowest", DataType::kFloat, -INFINITY)));
    CAMSHAFT_ASSIGN(scores, one_of(node, "ScatterElements", 13, {number("axis", 1)},
                                   {logits, index, lowest}, step + "_rest"));
  }
  return node.add("shares", LayerKind::kConcatenation, ir::AxisAttrs{1}, shares);
}

// `weights`: or null: what shares are taken from in place of the logits. MoE without normalizing
// takes the softmax over all experts; QMoE over the chosen ones, as ONNX Runtime's CPU kernel does.
Result<Routing> route(Node& node, Tensor* logits, Tensor* weights, bool is_quantized,
                      int64_t experts) {
  const int64_t k = node.integer("k", 1);
  const bool normalizes = node.flag("normalize_routing_weights", false),
             is_mixer = node.flag("use_sparse_mixer", false);
  if (k < 1 || k > experts) return invalid("k = {} of {} experts", k, experts);
  if (is_mixer && (k != 2 || weights)) return unsupported("use_sparse_mixer of k = {}", k);
  // Of equal logits the last one's expert comes first, as in ONNX Runtime.
  ir::TopKAttrs attrs;
  attrs.axis = 1;
  attrs.select_last_index = true;
  const int64_t extents[] = {1}, count[] = {k};
  Tensor* const values = node.graph().add_tensor(node.name() + "/values", DataType::kUndefined, {});
  Tensor* const chosen = node.graph().add_tensor(node.name() + "/chosen", DataType::kUndefined, {});
  CAMSHAFT_TRY(node.add_layer(LayerKind::kTopK, node.name() + "/choice", attrs,
                              {logits, node.int_constant("k", extents, count)}, {values, chosen})
                   .status());
  Routing routing{chosen, nullptr};
  if (is_mixer) {
    CAMSHAFT_ASSIGN(routing.shares, mixer_shares(node, logits, values, chosen));
  } else if (weights) {
    CAMSHAFT_ASSIGN(routing.shares, pick(node, weights, chosen, "weights"));
    if (normalizes) {
      CAMSHAFT_ASSIGN(routing.shares, normalized(node, routing.shares));
    }
  } else if (normalizes || is_quantized) {
    CAMSHAFT_ASSIGN(routing.shares, softmax(node, values, "shares"));
  } else {
    CAMSHAFT_ASSIGN(Tensor* const all, softmax(node, logits, "softmax"));
    CAMSHAFT_ASSIGN(routing.shares, pick(node, all, chosen, "shares"));
  }
  return routing;
}

// --- what an expert does between its products

// g = min(v0, limit), or its activation so; l = clamp(v1, ±limit) + beta.
ir::Program swiglu(Node& node) {
  const float alpha = node.real("activation_alpha", 1), beta = node.real("activation_beta", 0),
              limit = node.real("swiglu_limit", INFINITY);
  const bool late = node.flag("swiglu_limit_after_activation", false), limits = limit < INFINITY;
  ir::Program p;
  p.num_inputs = 2;
  const auto constant = [&](float x) { return append(p, PointOp::kConst, -1, -1, -1, x); };
  const auto limited = [&](int v) {
    return limits ? append(p, PointOp::kMin, v, constant(limit)) : v;
  };
  int gate = append(p, PointOp::kSilu, late ? 0 : limited(0), -1, -1, alpha);
  if (late) gate = limited(gate);
  int value = limits ? append(p, PointOp::kClip, 1, -1, -1, -limit, limit) : 1;
  if (beta != 0) value = append(p, PointOp::kAdd, value, constant(beta));
  append(p, PointOp::kMul, gate, value);
  return p;
}

// Value 0, perhaps times value 1. GELU is ONNX Runtime's, by tanh.
Result<ir::Program> simple_activation(std::string_view type, bool has_gate) {
  constexpr std::pair<std::string_view, PointOp> kTypes[] = {
      {"relu", PointOp::kRelu},  {"gelu", PointOp::kGeluTanh},  {"silu", PointOp::kSilu},
      {"relu2", PointOp::kRelu}, {"geglu", PointOp::kGeluTanh}, {"identity", PointOp::kIdentity},
  };
  ir::Program p;
  p.num_inputs = has_gate ? 2 : 1;
  int value = -1;
  for (const auto& [name, op] : kTypes)
    if (name == type)
      value =
          op == PointOp::kIdentity ? 0 : append(p, op, 0, -1, -1, op == PointOp::kSilu ? 1.f : 0.f);
  if (value < 0) return unsupported("activation_type {}", type);
  if (type == "relu2") value = append(p, PointOp::kMul, value, value);
  if (has_gate) append(p, PointOp::kMul, value, 1);
  return p;
}

struct Mixture {
  ExpertFc up{"fc1"}, down{"fc2"}, gated{"fc3"};
  Tensor* router_weights = nullptr;
  bool is_quantized = false;
};

// The columns of the first product, gates first.
Result<ColumnOrder> order_of(Node& node, const Mixture& m, std::string_view type, bool& has_gate) {
  const int64_t fusion = node.integer("swiglu_fusion", 0);
  const bool splits = type == "swiglu" || type == "geglu";
  const bool is_fused = splits && fusion != 0, has_third = m.gated.weights != nullptr;
  if (fusion < 0 || fusion > 2) return invalid("swiglu_fusion {}", fusion);
  if (is_fused && has_third) return invalid("fc3 weights beside swiglu_fusion {}", fusion);
  if (splits && !is_fused && !has_third)
    return invalid("activation_type {} without fc3 weights or swiglu_fusion", type);
  if (is_fused && m.up.columns() % 2 != 0)
    return invalid("fc1 of {} columns, which are no pairs", m.up.columns());
  has_gate = is_fused || has_third;
  return ColumnOrder{&m.up, has_third ? &m.gated : nullptr, is_fused && fusion == 1};
}

Status check_mixture(const Mixture& m) {
  CAMSHAFT_TRY(check_fc(m.up));
  CAMSHAFT_TRY(check_fc(m.down));
  if (m.up.experts() != m.down.experts())
    return invalid("fc1 of {} experts, fc2 of {}", m.up.experts(), m.down.experts());
  if (m.up.depth() != m.down.columns())
    return invalid("fc1 reads {} elements of a row, fc2 gives {}", m.up.depth(), m.down.columns());
  if (!m.gated.weights) return ok_status();
  CAMSHAFT_TRY(check_fc(m.gated));
  if (m.gated.bits != m.up.bits) return unsupported("fc3 of other bits than fc1");
  if (m.gated.experts() != m.up.experts() || m.gated.columns() != m.up.columns() ||
      m.gated.depth() != m.up.depth())
    return invalid("fc1 and fc3 have different extents");
  return ok_status();
}

Result<ir::ExpertsAttrs> attributes_of(Node& node, const Mixture& m, ColumnOrder& order) {
  CAMSHAFT_TRY(check_mixture(m));
  const std::string type = node.text("activation_type", "relu");
  node.ignore({"activation_alpha", "activation_beta", "swiglu_limit",
               "swiglu_limit_after_activation"});  // of all but swiglu
  bool has_gate = false;
  CAMSHAFT_ASSIGN(order, order_of(node, m, type, has_gate));
  ir::ExpertsAttrs a;
  if (type == "swiglu") {
    a.activation = swiglu(node);
  } else {
    CAMSHAFT_ASSIGN(a.activation, simple_activation(type, has_gate));
  }
  a.experts = m.up.experts();
  a.width = m.up.depth();
  a.hidden = order.columns() / (has_gate ? 2 : 1);
  if (m.down.depth() != a.hidden)
    return invalid("fc2 reads {} elements, fc1 gives {}", m.down.depth(), a.hidden);
  const ir::ExpertProduct up = m.up.product(), down = m.down.product();
  a.up_bits = up.bits, a.up_block = up.block, a.up_zero = up.zero;
  if (m.gated.weights && m.gated.zeros) a.up_zero = DataType::kUInt8;
  a.down_bits = down.bits, a.down_block = down.block, a.down_zero = down.zero;
  a.codes_rows = m.is_quantized && node.integer("accuracy_level", 0) >= 4;
  return a;
}

// Rows of 16 bits are computed as floats. Those of x [batch, steps, width] are one matrix, as the
// router's are.
Status import_mixture(Node& node, const Mixture& m) {
  ColumnOrder order{};
  CAMSHAFT_ASSIGN(const ir::ExpertsAttrs attrs, attributes_of(node, m, order));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  CAMSHAFT_ASSIGN(const size_t router_rank, node.rank(1));
  if (rank != 2 && rank != 3) return invalid("input of rank {}", rank);
  if (router_rank != 2) return invalid("router_probs of rank {}", router_rank);
  if (const Dim experts = node.input(1)->shape[1];
      experts.is_known() && experts.extent() != attrs.experts)
    return invalid("router_probs are of {} experts, the weights of {}", experts.extent(),
                   attrs.experts);
  Tensor *x = node.input(0), *logits = node.input(1), *weights = m.router_weights;
  const DataType type = x->type;
  const auto widen = [&](std::string_view step, Tensor*& t) -> Status {
    if (t && t->type != DataType::kFloat) {
      CAMSHAFT_ASSIGN(t, node.cast(step, t, DataType::kFloat));
    }
    return ok_status();
  };
  CAMSHAFT_TRY(widen("rows", x));
  CAMSHAFT_TRY(widen("router", logits));
  CAMSHAFT_TRY(widen("router_weights", weights));
  CAMSHAFT_ASSIGN(const Routing routing,
                  route(node, logits, weights, m.is_quantized, attrs.experts));
  const Shape shape = x->shape;
  if (rank == 3) {
    CAMSHAFT_ASSIGN(x,
                    node.reshape("matrix", x, {node.symbols().mul(shape[0], shape[1]), shape[2]}));
  }
  const ColumnOrder down{&m.down};
  std::vector<Tensor*> inputs = {x, routing.chosen, routing.shares,
                                 expert_weights(node, "up", order),
                                 expert_weights(node, "down", down)};
  inputs.push_back(expert_bias(node, "up_bias", order));
  inputs.push_back(expert_bias(node, "down_bias", down));
  while (!inputs.back()) inputs.pop_back();
  CAMSHAFT_ASSIGN(Tensor * y, node.add("experts", LayerKind::kExperts, attrs, std::move(inputs)));
  if (rank == 3) {
    CAMSHAFT_ASSIGN(y, node.reshape("rows_again", y, shape));
  }
  if (type != DataType::kFloat) {
    CAMSHAFT_ASSIGN(y, node.cast("narrowed", y, type));
  }
  node.give(0, y);
  return ok_status();
}

// Inputs: rows, the router's logits, then weights and bias of fc1, fc2, fc3.
Status import_moe(Node& node) {
  CAMSHAFT_TRY(node.require(3, 8));
  if (!node.has(4)) return invalid("no fc2 weights");
  Mixture m;
  ExpertFc* const fcs[] = {&m.up, &m.down, &m.gated};
  for (size_t k = 0; k < 3; ++k)
    fcs[k]->weights = node.input(2 + 2 * k), fcs[k]->bias = node.input(3 + 2 * k);
  return import_mixture(node, m);
}

// Inputs: rows, the router's logits, weights, scales and bias of fc1, fc2, fc3, their zero points,
// what the shares are taken from; scales of floating-point codes.
Status import_qmoe(Node& node) {
  CAMSHAFT_TRY(node.require(3, 21));
  if (!node.has(5)) return invalid("no fc2 weights");
  const std::string type = node.text("quant_type", "int");
  if (type != "int") return unsupported("quant_type {}", type);
  if (const int64_t packing = node.integer("weights_prepacked", -1); packing > 0)
    return unsupported("weights_prepacked {}", packing);
  for (size_t k = 15; k < node.input_count(); ++k)
    if (node.has(k)) return unsupported("input {} of quant_type int", k);
  const int64_t bits = node.integer("expert_weight_bits", 4);
  const int64_t block = node.integer("block_size", 0);
  Mixture m;
  m.is_quantized = true;
  m.router_weights = node.input(14);
  ExpertFc* const fcs[] = {&m.up, &m.down, &m.gated};
  for (size_t k = 0; k < 3; ++k) {
    ExpertFc& fc = *fcs[k];
    fc.weights = node.input(2 + 3 * k);
    fc.scales = node.input(3 + 3 * k);
    fc.bias = node.input(4 + 3 * k);
    fc.zeros = node.input(11 + k);
    fc.block = std::max<int64_t>(block, 0);
    fc.bits = node.integer(fmt::format("{}_expert_weight_bits", fc.name), bits);
    if (fc.bits != 2 && fc.bits != 4 && fc.bits != 8)
      return unsupported("weights of {} bits", fc.bits);
  }
  return import_mixture(node, m);
}

}  // namespace

std::span<const OperatorRow> experts_operators() {
  static constexpr OperatorRow kOperators[] = {{"MoE", import_moe}, {"QMoE", import_qmoe}};
  return kOperators;
}

}  // namespace camshaft::onnx_import
