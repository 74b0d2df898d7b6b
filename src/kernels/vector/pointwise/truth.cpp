// SPDX-License-Identifier: Apache-2.0
// Comparisons of floats and what is made of truth values, alone or as a program: bytes from the
// first instruction on, at the speed of memory. The programs of pointwise.cpp compute truth values
// as floats.
#include "kernels/vector/pointwise/chunks.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::truth {
namespace {

using ir::Instruction;
using ir::LayerKind;
using ir::PointOp;

constexpr int kMaxInputs = 4, kMaxCode = 8;
constexpr int64_t kChunk = kChunkOf<float>;

struct Code {
  Instruction code[kMaxCode];
  int length = 0, inputs = 0;
};

Instruction instruction_of(const ir::PointOpAttrs& attrs) {
  Instruction code{attrs.op, 0, -1, -1, attrs.x, attrs.y};
  if (ir::arity(attrs.op) > 1) code.b = 1;
  return code;
}

// False: more than fits.
bool set_code(Code& code, const ir::Layer& layer) {
  if (const auto* point = std::get_if<ir::PointOpAttrs>(&layer.attrs)) {
    code.code[code.length++] = instruction_of(*point);
    code.inputs = ir::arity(point->op);
    return true;
  }
  const ir::Program& program = std::get_if<ir::PointWiseAttrs>(&layer.attrs)->program;
  code.inputs = program.num_inputs;
  if (program.code.size() > kMaxCode || code.inputs > kMaxInputs) return false;
  for (const Instruction& instruction : program.code) code.code[code.length++] = instruction;
  return true;
}

// What a value is: a float of each element, one literal, or a truth value.
enum class Value : uint8_t { kFloat, kLiteral, kTruth };

bool is_number(Value v) {
  return v != Value::kTruth;
}

// Whether truth values come of the instruction; `left`, `right`: of its operands.
bool gives_truth(PointOp op, Value left, Value right) {
  switch (op) {
    case PointOp::kNot:
      return left == Value::kTruth;
    case PointOp::kAnd:
    case PointOp::kOr:
    case PointOp::kXor:
      return left == Value::kTruth && right == Value::kTruth;
    case PointOp::kIsNan:
      return left == Value::kFloat;
    case PointOp::kEqual:
      if (left == Value::kTruth || right == Value::kTruth) return left == right;
      [[fallthrough]];
    case PointOp::kLess:
    case PointOp::kLessOrEqual:
    case PointOp::kGreater:
    case PointOp::kGreaterOrEqual:
      return is_number(left) && is_number(right);
    default:
      return false;
  }
}

std::string refusal(const Problem& p) {
  Code code;
  if (!set_code(code, *p.layer)) return "a long program";
  if (code.length == 0) return "an empty program";
  Value values[kMaxInputs + kMaxCode];
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    const DataType type = p.inputs[k].type;
    if (!p.inputs[k].present || (type != DataType::kFloat && type != DataType::kBool))
      return "an input that is neither float nor a truth value";
    values[k] = type == DataType::kBool ? Value::kTruth : Value::kFloat;
  }
  if (p.outputs[0].type != DataType::kBool) return "the result is no truth value";
  for (int k = 0; k < code.length; ++k) {
    const Instruction& i = code.code[k];
    Value& value = values[code.inputs + k];
    value = i.op == PointOp::kConst ? Value::kLiteral : Value::kTruth;
    if (value == Value::kTruth &&
        !gives_truth(i.op, values[i.a], i.b < 0 ? Value::kTruth : values[i.b]))
      return "numbers are computed";
  }
  return values[code.inputs + code.length - 1] == Value::kTruth ? "" : "a constant";
}

struct Truth {
  Code code;
  Nest nest;  // the output, the inputs
  DataType types[kMaxInputs];
  double predicted_us;
};

// Where an operand's elements of a chunk lie.
union Operand {
  const float* floats;
  const uint8_t* truths;
};

void compare(PointOp op, const float* a, const float* b, uint8_t* y, int64_t count) {
  switch (op) {
    case PointOp::kEqual:
      return map(a, b, y, count, [](float p, float q) { return p == q; });
    case PointOp::kLess:
      return map(a, b, y, count, [](float p, float q) { return p < q; });
    case PointOp::kLessOrEqual:
      return map(a, b, y, count, [](float p, float q) { return p <= q; });
    case PointOp::kGreater:
      return map(a, b, y, count, [](float p, float q) { return p > q; });
    case PointOp::kGreaterOrEqual:
      return map(a, b, y, count, [](float p, float q) { return p >= q; });
    default:  // kIsNan
      return map(a, a, y, count, [](float p, float) { return p != p; });
  }
}

void combine(PointOp op, const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t count) {
  switch (op) {
    case PointOp::kNot:
      return map(a, a, y, count, [](uint8_t p, uint8_t) { return p == 0; });
    case PointOp::kAnd:
      return map(a, b, y, count, [](uint8_t p, uint8_t q) { return (p != 0) & (q != 0); });
    case PointOp::kOr:
      return map(a, b, y, count, [](uint8_t p, uint8_t q) { return (p | q) != 0; });
    case PointOp::kXor:
      return map(a, b, y, count, [](uint8_t p, uint8_t q) { return (p != 0) != (q != 0); });
    default:  // kEqual
      return map(a, b, y, count, [](uint8_t p, uint8_t q) { return (p != 0) == (q != 0); });
  }
}

class Chunks {
 public:
  Chunks(const Truth& truth, const KernelCall& call, const int64_t* offsets)
      : t_(truth), y_(call.output<uint8_t>(0) + offsets[0]) {
    for (int k = 0; k < t_.code.inputs; ++k) {
      const auto input = static_cast<size_t>(k);
      if (is_float(k))
        sources_[k].floats = call.input<const float>(input) + offsets[k + 1];
      else
        sources_[k].truths = call.input<const uint8_t>(input) + offsets[k + 1];
    }
  }

  void run(const Block& block) {
    for (int k = 0; k < t_.code.inputs; ++k) {
      if (is_float(k))
        values_[k].floats = side_by_side(t_.nest, k + 1, sources_[k].floats, block, buffers_[k]);
      else
        values_[k].truths = side_by_side(t_.nest, k + 1, sources_[k].truths, block,
                                         reinterpret_cast<uint8_t*>(buffers_[k]));
    }
    for (int k = 0; k < t_.code.length; ++k) run_instruction(k, block);
  }

 private:
  bool is_float(int value) const {
    return value < t_.code.inputs ? t_.types[value] == DataType::kFloat
                                  : t_.code.code[value - t_.code.inputs].op == PointOp::kConst;
  }

  void run_instruction(int k, const Block& block) {
    const Instruction& i = t_.code.code[k];
    Operand& value = values_[t_.code.inputs + k];
    if (i.op == PointOp::kConst) {
      float* literals = buffers_[kMaxInputs + k];
      for (int64_t n = 0; n < block.count(); ++n) literals[n] = i.x;
      value.floats = literals;
      return;
    }
    uint8_t* y = k + 1 == t_.code.length ? y_ + block.row * t_.nest.row_stride(0) + block.col
                                         : reinterpret_cast<uint8_t*>(buffers_[kMaxInputs + k]);
    const Operand a = values_[i.a], b = values_[i.b < 0 ? i.a : i.b];
    if (is_float(i.a))
      compare(i.op, a.floats, b.floats, y, block.count());
    else
      combine(i.op, a.truths, b.truths, y, block.count());
    value.truths = y;
  }

  const Truth& t_;
  uint8_t* y_;
  Operand sources_[kMaxInputs], values_[kMaxInputs + kMaxCode];
  float buffers_[kMaxInputs + kMaxCode][kChunk];
};

void run(Truth& truth, const KernelCall& call) {
  for_tiles(truth.nest, call.pool, truth.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              Chunks chunks(truth, call, offsets);
              for_blocks(truth.nest, rows, cols, kChunk,
                         [&](const Block& block) { chunks.run(block); });
            });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  Truth truth;
  set_code(truth.code, *args.layer);
  const TensorView& y = args.outputs[0];
  truth.nest = make_nest(y);
  for (int k = 0; k < truth.code.inputs; ++k) {
    const TensorView& x = args.inputs[static_cast<size_t>(k)];
    add_tensor(truth.nest, x);
    truth.types[k] = x.type;
  }
  collapse(truth.nest);
  truth.predicted_us =
      static_cast<double>(count_of(y)) * static_cast<double>(truth.code.length) / 10000;
  keep_state<run>(kernel, truth);
}

#define CAMSHAFT_TRUTH(name, kind)                                          \
  {                                                                         \
    name, LayerKind::kind, kIsa, FormatRule::kSame, 1, refusal, traffic_us, \
        CAMSHAFT_NOTHING_PACKED, prepare                                    \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_TRUTH("pointwise_truth", kPointWise),
    CAMSHAFT_TRUTH("unary_truth", kUnary),
    CAMSHAFT_TRUTH("elementwise_truth", kElementWise),
};
#undef CAMSHAFT_TRUTH

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::truth
