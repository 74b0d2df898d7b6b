// SPDX-License-Identifier: Apache-2.0
#include "fuzz/graphs/tolerance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "ir/text.h"
#include "kernels/reference/access.h"

namespace camshaft::fuzz {
namespace {

using ir::LayerKind;
using kernels::Value;

// A tie is met by some of the first ones, nearly always; before a result counts as wrong, by one of
// the others (codes of a dynamic scale).
constexpr int kMovements = 8, kMoreMovements = 128;
constexpr double kTight = 2e-5;

double largest_of(const Value& value) {
  double largest = 0;
  for (const double v : value.to_doubles())
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  return largest;
}

// Layers whose float results are copies of their operands.
bool is_exact(LayerKind kind) {
  switch (kind) {
    case LayerKind::kShuffle:
    case LayerKind::kSlice:
    case LayerKind::kPad:
    case LayerKind::kConcatenation:
    case LayerKind::kGather:
    case LayerKind::kExpand:
    case LayerKind::kTile:
    case LayerKind::kFill:
    case LayerKind::kTopK:
    case LayerKind::kDepthToSpace:
    case LayerKind::kSpaceToDepth:
    case LayerKind::kSelect:
    case LayerKind::kIf:
    case LayerKind::kLoop:
    case LayerKind::kScan:
      return true;
    default:
      return false;
  }
}

// Terms of a layer's sums.
double terms_of(const ir::Layer& layer, std::span<const Value* const> outputs) {
  const auto extent = [](const ir::Tensor* t, size_t d) {
    return t && d < t->shape.size() && t->shape[d].is_known()
               ? static_cast<double>(t->shape[d].extent())
               : 16.0;
  };
  const auto all = [&](const ir::Tensor* t, size_t from) {
    double product = 1;
    for (size_t d = from; t && d < t->shape.size(); ++d) product *= extent(t, d);
    return product;
  };
  switch (layer.kind) {
    case LayerKind::kConvolution:
      return all(layer.inputs[1], 1);
    case LayerKind::kDeconvolution:
      return all(layer.inputs[1], 2) * extent(layer.inputs[1], 0);
    case LayerKind::kMatrixMultiply:
    case LayerKind::kLowBitMultiply: {
      const ir::Tensor* a = layer.inputs[0];
      return a->shape.empty() ? 64 : extent(a, a->shape.size() - 1);
    }
    case LayerKind::kExperts: {
      const auto& a = layer.as<ir::ExpertsAttrs>();
      return static_cast<double>(a.width + a.hidden) * extent(layer.inputs[1], 1);
    }
    case LayerKind::kAttention:
      return 2 * all(layer.inputs[1], 0);
    case LayerKind::kRecurrence:
      return 64 * extent(layer.inputs[0], 0);
    case LayerKind::kPooling:
    case LayerKind::kReduce:
    case LayerKind::kNormalization:
    case LayerKind::kSoftMax:
    case LayerKind::kCumSum:
      return all(layer.inputs[0], 0);
    default:
      return outputs.empty() || !outputs[0] ? 1 : 64;
  }
}

bool is_stepped(ir::PointOp op) {
  switch (op) {
    case ir::PointOp::kFloor:
    case ir::PointOp::kCeil:
    case ir::PointOp::kRound:
    case ir::PointOp::kSign:
    case ir::PointOp::kMod:
    case ir::PointOp::kFmod:
    case ir::PointOp::kThresholdedRelu:
    case ir::PointOp::kShrink:
      return true;
    default:
      return ir::gives_bool(op);
  }
}

// Operators that compare what they read.
bool is_stepped(const ir::GenericAttrs& attrs) {
  constexpr std::string_view kOperators[] = {"TreeEnsemble", "LabelEncoder", "OneHotEncoder",
                                             "Binarizer"};
  return std::find(std::begin(kOperators), std::end(kOperators), attrs.op_type) !=
         std::end(kOperators);
}

// Layers whose results may jump: what they read was moved when it was made.
bool is_stepped(const ir::Layer& layer) {
  if (const auto* generic = std::get_if<ir::GenericAttrs>(&layer.attrs))
    return is_stepped(*generic);
  if (layer.kind == LayerKind::kQuantize || layer.kind == LayerKind::kCast) return true;
  if (const auto* program = std::get_if<ir::PointWiseAttrs>(&layer.attrs))
    return std::any_of(program->program.code.begin(), program->program.code.end(),
                       [](const ir::Instruction& code) { return is_stepped(code.op); });
  const auto* attrs = std::get_if<ir::PointOpAttrs>(&layer.attrs);
  return attrs && is_stepped(attrs->op);
}

// The operand times what goes to zero on one side of it.
bool is_gate(ir::PointOp op) {
  return op == ir::PointOp::kGelu || op == ir::PointOp::kGeluTanh || op == ir::PointOp::kSilu ||
         op == ir::PointOp::kMish;
}

bool is_gate(const ir::Layer& layer) {
  if (const auto* program = std::get_if<ir::PointWiseAttrs>(&layer.attrs))
    return std::any_of(program->program.code.begin(), program->program.code.end(),
                       [](const ir::Instruction& code) { return is_gate(code.op); });
  const auto* attrs = std::get_if<ir::PointOpAttrs>(&layer.attrs);
  return attrs && is_gate(attrs->op);
}

// Its exponent is what it is: a negative number has no power of nearly two.
bool is_power(const ir::Layer& layer) {
  const auto* attrs = std::get_if<ir::PointOpAttrs>(&layer.attrs);
  return attrs && attrs->op == ir::PointOp::kPow;
}

// A power that divides.
bool has_negative_exponent(const ir::Layer& layer) {
  if (!is_power(layer) || !layer.inputs[1] || !layer.inputs[1]->is_constant()) return false;
  const std::vector<double> exponents = kernels::constant_value(*layer.inputs[1]).to_doubles();
  return std::any_of(exponents.begin(), exponents.end(), [](double v) { return v < 0; });
}

class Mover {
 public:
  Mover(const Case& test, const std::vector<Value>& inputs, uint64_t seed, double unit)
      : state_(seed), unit_(unit), equals_move_together_(seed % 2 == 0) {
    for (size_t k = 0; k < inputs.size(); ++k) values_[test.graph->inputs()[k]] = inputs[k];
  }

  bool has_nan() const { return has_nan_; }
  // A divisor may be zero as well: what a sum of which nothing is left leaves, rounding decides.
  bool may_divide_by_zero() const { return may_divide_by_zero_; }

  kernels::EvaluateOptions options() {
    kernels::EvaluateOptions options;
    options.max_iterations = 1000;
    options.observer = [this](const ir::Layer& layer, std::span<const Value* const> outputs) {
      observe(layer, outputs);
    };
    options.substitute = [this](const ir::Tensor& tensor) { return substitute(tensor); };
    return options;
  }

 private:
  // Null: the layer is no division.
  static const ir::Tensor* divisor_of(const ir::Layer& layer) {
    const auto* attrs = std::get_if<ir::PointOpAttrs>(&layer.attrs);
    if (!attrs) return nullptr;
    if (attrs->op == ir::PointOp::kReciprocal || has_negative_exponent(layer))
      return layer.inputs[0];
    return attrs->op == ir::PointOp::kDiv ? layer.inputs[1] : nullptr;
  }
  bool may_vanish(const ir::Tensor* tensor) const {
    const auto value = values_.find(tensor);
    const auto distance = distances_.find(tensor);
    if (value == values_.end() || distance == distances_.end() ||
        value->second.type != ir::DataType::kFloat)
      return false;
    const auto elements = value->second.as<float>();
    return std::any_of(elements.begin(), elements.end(),
                       [&](float v) { return std::fabs(v) <= distance->second; });
  }

  // The mean of a map without elements, which nothing defines: shifted codes make it another
  // number.
  bool averages_nothing(const ir::Layer& layer) const {
    const auto* pooling = std::get_if<ir::PoolingAttrs>(&layer.attrs);
    if (!pooling || !pooling->global || pooling->type != ir::PoolingType::kAverage) return false;
    const auto x = values_.find(layer.inputs[0]);
    return x != values_.end() && ir::element_count(x->second.extents) == 0;
  }

  void observe(const ir::Layer& layer, std::span<const Value* const> outputs) {
    pending_.clear();
    may_divide_by_zero_ |= may_vanish(divisor_of(layer)) || averages_nothing(layer);
    double operands = 0;
    if (layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kDeconvolution ||
        layer.kind == LayerKind::kMatrixMultiply)
      operands = scale_of(layer.inputs[0]) * scale_of(layer.inputs[1]);
    if (const auto* norm = std::get_if<ir::NormalizationAttrs>(&layer.attrs))  // x * s - mean * s
      operands = scale_of(layer.inputs[0]) / std::sqrt(norm->epsilon) *
                 (layer.inputs.size() > 1 && layer.inputs[1] ? scale_of(layer.inputs[1]) : 1);
    if (is_gate(layer))
      operands = scale_of(layer.inputs[0]);  // v * (1 + erf(v)), of a mask's -10000
    const double terms = terms_of(layer, outputs);
    const bool may_transform = layer.kind == LayerKind::kConvolution && terms >= 9;
    const double share = std::max(unit_ * (8 + 2 * std::sqrt(terms)) * (may_transform ? 16 : 1),
                                  unit_ > 0 ? lost_before(layer) : 0);
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k] || !layer.outputs[k]) continue;
      const Value& value = *outputs[k];
      const double largest = largest_of(value);
      values_[layer.outputs[k]] = value;
      if (value.type != ir::DataType::kFloat) continue;
      for (const float v : value.as<float>()) has_nan_ |= !std::isfinite(v);
      if (unit_ == 0 || is_exact(layer.kind)) continue;
      pending_[layer.outputs[k]] = {
          value, std::max(share * std::max(largest, operands), code_step(layer))};
    }
    if (layer.kind == LayerKind::kQuantize && unit_ > 0) return requantize(layer);
    if (pending_.empty() || is_stepped(layer) || !layer.bodies.empty()) return;
    if (auto moved = with_moved_operands(layer); moved.ok())
      for (size_t k = 0; k < moved->size(); ++k)
        if (const auto found = pending_.find(layer.outputs[k]); found != pending_.end())
          found->second.value = moved.value()[k];
  }

  // What an input or a state of an LSTM of codes that rounds the other way may do: 1/255 of its
  // range (of states at most 2) times a weight, at most 255 steps of 0.004 in these graphs.
  double code_step(const ir::Layer& layer) {
    const bool has_codes = layer.kind == LayerKind::kRecurrence && layer.inputs[1] &&
                           ir::is_quantized(layer.inputs[1]->type);
    return has_codes ? 0.004 * 2 * std::max(1.0, scale_of(layer.inputs[0])) : 0;
  }

  // What a Cast to 16 bits took from what this one reads: engines may have kept it (WidenFloats).
  static double lost_before(const ir::Layer& layer) {
    if (layer.kind != LayerKind::kCast) return 0;
    const ir::DataType type = layer.inputs[0]->type;
    return type == ir::DataType::kHalf ? 0x1p-11 : type == ir::DataType::kBFloat16 ? 0x1p-8 : 0;
  }

  // Codes of what is off by as much as a float of 256 codes may be: kernels add the zero point
  // before they round.
  void requantize(const ir::Layer& layer) {
    const auto x = values_.find(layer.inputs[0]);
    if (x == values_.end() || x->second.type != ir::DataType::kFloat) return;
    std::vector<Value> operands = {
        moved(x->second, 8 * unit_ * 256 * scale_of(layer.inputs[1]), 2 * unit_)};
    for (size_t k = 1; k < layer.inputs.size(); ++k) {
      const ir::Tensor* tensor = layer.inputs[k];
      if (tensor && !tensor->is_constant()) return;
      operands.push_back(tensor ? kernels::constant_value(*tensor) : Value());
    }
    if (auto codes = evaluate(layer, operands); codes.ok())
      pending_[layer.outputs[0]] = {codes.value()[0], 0};
  }

  static Result<std::vector<Value>> evaluate(const ir::Layer& layer,
                                             const std::vector<Value>& operands) {
    std::vector<const Value*> pointers;
    for (size_t k = 0; k < operands.size(); ++k)
      pointers.push_back(layer.inputs[k] ? &operands[k] : nullptr);
    return kernels::evaluate_layer(layer, pointers);
  }

  // The layer again, every operand off by some units: the error a kernel makes is often of that
  // kind.
  Result<std::vector<Value>> with_moved_operands(const ir::Layer& layer) {
    std::vector<Value> operands;
    for (const ir::Tensor* tensor : layer.inputs) {
      const auto found = values_.find(tensor);
      operands.push_back(!tensor                  ? Value()
                         : tensor->is_constant()  ? kernels::constant_value(*tensor)
                         : found != values_.end() ? found->second
                                                  : Value());
      if (tensor && (operands.size() == 1 || !is_power(layer)))
        operands.back() = moved(operands.back(), 0, 2 * unit_);
    }
    if (layer.kind != LayerKind::kPointWise) return evaluate(layer, operands);
    ir::Layer moved;
    moved.kind = layer.kind;
    moved.inputs = layer.inputs;
    moved.outputs = layer.outputs;
    moved.attrs = with_moved_steps(layer.as<ir::PointWiseAttrs>());
    return evaluate(moved, operands);
  }

  // The program with a rounding error after every step: a share of the value (but of the last
  // one's), of a gate's operand too. Values go toward zero, so that sines and tangents stay within
  // the domains of their inverses.
  ir::PointWiseAttrs with_moved_steps(ir::PointWiseAttrs attrs) {
    ir::Program program;
    program.num_inputs = attrs.program.num_inputs;
    std::vector<int16_t> number;  // of a value of the old program, in the new one
    for (int k = 0; k < program.num_inputs; ++k) number.push_back(static_cast<int16_t>(k));
    const auto moved = [&](int16_t v) { return v < 0 ? v : number[v]; };
    const auto share = [&](double from) {
      const double random = static_cast<double>(ir::next_random(state_) >> 11) / 0x1p53;
      return ir::append(program, ir::PointOp::kConst, -1, -1, -1,
                        static_cast<float>(from - 4 * unit_ * random));
    };
    for (const ir::Instruction& code : attrs.program.code) {
      const int16_t a = moved(code.a);
      int value = ir::append(program, code.op, a, moved(code.b), moved(code.c), code.x, code.y);
      if (&code != &attrs.program.code.back() && code.op != ir::PointOp::kConst)
        value = ir::append(program, ir::PointOp::kMul, value, share(1));
      if (is_gate(code.op)) value = ir::append(program, ir::PointOp::kFma, a, share(0), value);
      number.push_back(static_cast<int16_t>(value));
    }
    attrs.program = std::move(program);
    return attrs;
  }

  // Every element off by at most `distance` and `share` of itself.
  Value moved(const Value& value, double distance, double share) {
    if (value.type != ir::DataType::kFloat) return value;
    std::vector<float> elements(value.as<float>().begin(), value.as<float>().end());
    const uint64_t start = ir::next_random(state_);
    for (float& v : elements) {
      uint64_t state = start ^ std::bit_cast<uint32_t>(v) * uint64_t{0x9e3779b97f4a7c15};
      const uint64_t bits = ir::next_random(equals_move_together_ ? state : state_);
      const double random = static_cast<double>(bits >> 11) / 0x1p52 - 1;
      v += static_cast<float>((distance + share * std::fabs(v)) * random);
    }
    std::vector<std::byte> bytes(elements.size() * sizeof(float));
    std::copy_n(reinterpret_cast<const std::byte*>(elements.data()), bytes.size(), bytes.data());
    return kernels::make_value(value.type, value.extents, std::move(bytes)).value();
  }

  double scale_of(const ir::Tensor* tensor) {
    if (tensor && tensor->is_constant()) return largest_of(kernels::constant_value(*tensor));
    const auto found = values_.find(tensor);
    return found == values_.end() ? 2 : largest_of(found->second);
  }

  std::optional<Value> substitute(const ir::Tensor& tensor) {
    const auto found = pending_.find(&tensor);
    if (found == pending_.end()) return std::nullopt;
    distances_[&tensor] = found->second.distance;
    return values_[&tensor] = moved(found->second.value, found->second.distance, 0);
  }

  struct Pending {
    Value value;
    double distance;
  };
  uint64_t state_;
  double unit_;
  // As kernels move them: a tie of the largest with the smallest is then met from both sides.
  bool equals_move_together_;
  bool has_nan_ = false, may_divide_by_zero_ = false;
  std::unordered_map<const ir::Tensor*, double> distances_;  // what results were moved by, at most
  std::unordered_map<const ir::Tensor*, Value> values_;
  std::unordered_map<const ir::Tensor*, Pending> pending_;
};

}  // namespace

void Tolerance::measure() {
  movement_.assign(expected_.size(), 0);
  Mover still(test_, inputs_, 0, 0);
  kernels::evaluate(*test_.graph, inputs_, still.options()).ok();
  has_nan_ = still.has_nan();
  move_until(kMovements);
}

void Tolerance::move_until(int count) {
  for (int& k = movements_; k < count; ++k) {
    Mover mover(test_, inputs_, k + 1, bfloat16_ ? 0x1p-8 : 0x1p-24);
    const auto moved = kernels::evaluate(*test_.graph, inputs_, mover.options());
    has_nan_ |= mover.may_divide_by_zero();
    for (size_t o = 0; o < expected_.size(); ++o) {
      if (!moved.ok() || !(moved.value()[o].extents == expected_[o].extents)) {
        movement_[o] = INFINITY;  // rounding decides a shape
        continue;
      }
      const std::vector<double> a = expected_[o].to_doubles(), b = moved.value()[o].to_doubles();
      for (size_t i = 0; i < a.size(); ++i)
        if (std::isnan(a[i]) != std::isnan(b[i]))
          movement_[o] = INFINITY;
        else if (a[i] != b[i])
          movement_[o] = std::max(movement_[o], std::fabs(a[i] - b[i]));
    }
  }
}

bool Tolerance::is_unsettled(size_t output) {
  if (movements_ == 0) measure();
  return has_nan_ || movement_[output] == INFINITY;
}

Tolerance::Judgement Tolerance::judge(size_t output, const Value& found) {
  const Judgement j = judge_by_movements(output, found);
  if (j.verdict != Verdict::kDiffers || movements_ == kMoreMovements) return j;
  move_until(kMoreMovements);
  return judge_by_movements(output, found);
}

Tolerance::Judgement Tolerance::judge_by_movements(size_t output, const Value& found) {
  const Value& expected = expected_[output];
  Judgement j;
  const std::vector<double> want = expected.to_doubles(), got = found.to_doubles();
  j.largest = largest_of(expected);
  bool wrong_kind = false;
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] == got[i] || (std::isnan(want[i]) && std::isnan(got[i]))) continue;
    const double error = std::fabs(want[i] - got[i]);
    if (!(error <= j.error)) {
      j.error = error;
      j.at = static_cast<int64_t>(i);
      wrong_kind |= !std::isfinite(error);
      if (wrong_kind) break;
    }
  }
  const bool floating = ir::is_floating(expected.type);
  j.allowed = floating ? kTight * j.largest + 1e-6 : 0;
  if (expected.type == ir::DataType::kHalf) j.allowed = 2e-3 * j.largest;
  if (!wrong_kind && j.error <= j.allowed) return j;
  if (is_unsettled(output)) {
    j.verdict = Verdict::kUnsettled;
    return j;
  }
  j.allowed = std::max(j.allowed, 4 * movement_[output]);
  const bool within = !wrong_kind && j.error <= j.allowed;
  j.verdict = !within ? Verdict::kDiffers : floating ? Verdict::kWithin : Verdict::kUnsettled;
  return j;
}

}  // namespace camshaft::fuzz
