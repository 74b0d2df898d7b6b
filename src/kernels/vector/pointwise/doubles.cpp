// SPDX-License-Identifier: Apache-2.0
// Elementwise operators on doubles: plain loops for what networks and models of other fields have,
// for the rest the definition, element by element.
#include <limits>

#include "kernels/vector/pointwise/chunks.h"
#include "kernels/vector/pointwise/double_math.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::doubles {
namespace {

using ir::LayerKind;
using ir::PointOp;

struct Doubles {
  PointOp op;
  float x, y;  // literals
  Nest nest;
  double predicted_us;
};

template <class To>
void evaluate(const Doubles& s, const double* a, const double* b, To* y, int64_t count) {
  map(a, b, y, count,
      [&s](double p, double q) { return ir::evaluate_point_op(s.op, p, q, 0, s.x, s.y); });
}

bool are_within(const double* a, int64_t count, double limit) {
  int64_t outside = 0;
  for (int64_t k = 0; k < count; ++k) outside |= !(__builtin_fabs(a[k]) < limit);
  return outside == 0;
}

void compute_angles(const Doubles& s, const double* a, double* y, int64_t count) {
  if (!are_within(a, count, kMostOfAngles)) return evaluate(s, a, a, y, count);
  if (s.op == PointOp::kSin)
    return map(a, a, y, count, [](double p, double) { return sin_after(p, 0); });
  map(a, a, y, count, [](double p, double) { return sin_after(p, 1); });
}

void compute_unary(const Doubles& s, const double* a, double* y, int64_t count) {
  const auto each = [&](auto function) {
    map(a, a, y, count, [&](double p, double) { return function(p); });
  };
  switch (s.op) {
    case PointOp::kAbs:
      return each([](double p) { return __builtin_fabs(p); });
    case PointOp::kNeg:
      return each([](double p) { return -p; });
    case PointOp::kSqrt:
      return each([](double p) { return __builtin_sqrt(p); });
    case PointOp::kReciprocal:
      return each([](double p) { return 1 / p; });
    case PointOp::kExp:
      return each([](double p) { return exp_of(p); });
    case PointOp::kLog:
      return each([](double p) { return log_of(p); });
    case PointOp::kFloor:
      return each([](double p) { return __builtin_floor(p); });
    case PointOp::kCeil:
      return each([](double p) { return __builtin_ceil(p); });
    case PointOp::kRound:
      return each([](double p) { return __builtin_rint(p); });
    case PointOp::kRelu:
      return each([](double p) { return p < 0 ? 0.0 : p; });
    case PointOp::kLeakyRelu:
      return each([slope = double{s.x}](double p) { return p < 0 ? slope * p : p; });
    case PointOp::kClip:
      return each([low = double{s.x}, high = double{s.y}](double p) {
        return p < low ? (low < high ? low : high) : p > high ? high : p;
      });
    case PointOp::kSign:
      return each([](double p) { return p > 0 ? 1.0 : p < 0 ? -1.0 : p; });
    case PointOp::kSin:
    case PointOp::kCos:
      return compute_angles(s, a, y, count);
    case PointOp::kSigmoid:
      return each([](double p) { return sigmoid_of(p); });
    case PointOp::kTanh:
      return each([](double p) { return tanh_of(p); });
    default:
      return evaluate(s, a, a, y, count);
  }
}

bool are_all(const double* b, int64_t count, double value) {
  int64_t others = 0;
  for (int64_t k = 0; k < count; ++k) others |= b[k] != value;
  return others == 0;
}

// Squares, roots and inverses are what most powers are; as exact as pow.
void raise(const Doubles& s, const double* a, const double* b, double* y, int64_t count) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double exponent = *b;
  if (!are_all(b, count, exponent)) return evaluate(s, a, b, y, count);
  if (exponent == 1) return map(a, a, y, count, [](double p, double) { return p; });
  if (exponent == 2) return map(a, a, y, count, [](double p, double) { return p * p; });
  if (exponent == -1) return map(a, a, y, count, [](double p, double) { return 1 / p; });
  if (exponent != 0.5) return evaluate(s, a, b, y, count);
  map(a, a, y, count,  // of -0 0, of -infinity infinity
      [](double p, double) { return p == -kInfinity ? kInfinity : __builtin_sqrt(p + 0.0); });
}

void compute_binary(const Doubles& s, const double* a, const double* b, double* y, int64_t count) {
  switch (s.op) {
    case PointOp::kAdd:
      return map(a, b, y, count, [](double p, double q) { return p + q; });
    case PointOp::kSub:
      return map(a, b, y, count, [](double p, double q) { return p - q; });
    case PointOp::kMul:
      return map(a, b, y, count, [](double p, double q) { return p * q; });
    case PointOp::kDiv:
      return map(a, b, y, count, [](double p, double q) { return p / q; });
    case PointOp::kMin:  // NaN of any operand stays
      return map(a, b, y, count, [](double p, double q) { return (p < q) | (p != p) ? p : q; });
    case PointOp::kMax:
      return map(a, b, y, count, [](double p, double q) { return (p > q) | (p != p) ? p : q; });
    case PointOp::kPow:
      return raise(s, a, b, y, count);
    default:
      return evaluate(s, a, b, y, count);
  }
}

void compute_truth(const Doubles& s, const double* a, const double* b, uint8_t* y, int64_t count) {
  switch (s.op) {
    case PointOp::kEqual:
      return map(a, b, y, count, [](double p, double q) { return p == q; });
    case PointOp::kLess:
      return map(a, b, y, count, [](double p, double q) { return p < q; });
    case PointOp::kLessOrEqual:
      return map(a, b, y, count, [](double p, double q) { return p <= q; });
    case PointOp::kGreater:
      return map(a, b, y, count, [](double p, double q) { return p > q; });
    case PointOp::kGreaterOrEqual:
      return map(a, b, y, count, [](double p, double q) { return p >= q; });
    case PointOp::kIsNan:
      return map(a, b, y, count, [](double p, double) { return p != p; });
    case PointOp::kIsInf:
      return map(a, b, y, count, [below = s.x != 0, above = s.y != 0](double p, double) {
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        return ((p == kInfinity) & above) | ((p == -kInfinity) & below);
      });
    default:
      return evaluate(s, a, b, y, count);
  }
}

template <class To>
void run(Doubles& s, const KernelCall& call) {
  const Nest& nest = s.nest;
  const double* a = call.input<const double>(0);
  const double* b = nest.tensors > 2 ? call.input<const double>(1) : a;
  To* y = call.output<To>(0);
  const auto body = [&s](To* to, const double* p, const double* q, int64_t count) {
    if constexpr (sizeof(To) == 1)
      compute_truth(s, p, q, to, count);
    else if (s.nest.tensors > 2)
      compute_binary(s, p, q, to, count);
    else
      compute_unary(s, p, to, count);
  };
  for_tiles(
      nest, call.pool, s.predicted_us, [&](const int64_t* offsets, int64_t rows, int64_t cols) {
        const double *left = a + offsets[1], *right = nest.tensors > 2 ? b + offsets[2] : left;
        for_chunks(nest, y + offsets[0], left, right, rows, cols, body);
      });
}

const ir::PointOpAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::PointOpAttrs>(&layer.attrs);
}

std::string refusal(const Problem& p) {
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (!p.inputs[k].present || p.inputs[k].type != DataType::kDouble)
      return "an input that is not double";
  const DataType type = p.outputs[0].type;
  if (type != DataType::kDouble && type != DataType::kBool) return "the output's type";
  return "";
}

double ns_of(PointOp op) {
  switch (op) {
    case PointOp::kAbs:
    case PointOp::kNeg:
    case PointOp::kAdd:
    case PointOp::kSub:
    case PointOp::kMul:
    case PointOp::kMin:
    case PointOp::kMax:
    case PointOp::kRelu:
    case PointOp::kLeakyRelu:
    case PointOp::kClip:
    case PointOp::kSign:
    case PointOp::kFloor:
    case PointOp::kCeil:
    case PointOp::kRound:
      return 0.3;
    case PointOp::kExp:
    case PointOp::kLog:
    case PointOp::kSigmoid:
    case PointOp::kTanh:
    case PointOp::kSin:
    case PointOp::kCos:
    case PointOp::kDiv:
    case PointOp::kSqrt:
      return 1;
    default:
      return ir::gives_bool(op) ? 0.3 : 5;
  }
}

double cost_us(const Problem& p) {
  const double us =
      static_cast<double>(count_of(p.outputs[0])) * ns_of(attrs_of(*p.layer).op) / 1000;
  return 0.2 + (us > kThreadedUs ? us / p.threads : us);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const ir::PointOpAttrs& attrs = attrs_of(*args.layer);
  const TensorView& y = args.outputs[0];
  Doubles s{attrs.op, attrs.x, attrs.y, make_nest(y),
            static_cast<double>(count_of(y)) * ns_of(attrs.op) / 1000};
  for (size_t k = 0; k < args.inputs.size(); ++k) add_tensor(s.nest, args.inputs[k]);
  collapse(s.nest);
  if (y.type == DataType::kBool)
    keep_state<run<uint8_t>>(kernel, s);
  else
    keep_state<run<double>>(kernel, s);
}

#define CAMSHAFT_DOUBLES(name, kind)                                                              \
  {                                                                                               \
    name, LayerKind::kind, kIsa, FormatRule::kSame, 1, refusal, cost_us, CAMSHAFT_NOTHING_PACKED, \
        prepare                                                                                   \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_DOUBLES("activation_f64", kActivation),
    CAMSHAFT_DOUBLES("unary_f64", kUnary),
    CAMSHAFT_DOUBLES("elementwise_f64", kElementWise),
};
#undef CAMSHAFT_DOUBLES

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::doubles
