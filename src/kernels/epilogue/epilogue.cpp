// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/epilogue.h"

#include <limits>

namespace camshaft::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Clamp bounds of an instruction that reads value `a`; false for another operator.
bool clamp_bounds(const ir::Instruction& instruction, int a, Epilogue& epilogue) {
  if (instruction.a != a) return false;
  epilogue.low = -kInfinity;
  epilogue.high = kInfinity;
  switch (instruction.op) {
    case ir::PointOp::kIdentity:
      return true;
    case ir::PointOp::kRelu:
      epilogue.low = 0;
      return true;
    case ir::PointOp::kClip:
      epilogue.low = instruction.x;
      epilogue.high = instruction.y;
      return instruction.x <= instruction.y;
    default:
      return false;
  }
}

}  // namespace

Epilogue classify_epilogue(const ir::Program& program) {
  Epilogue epilogue{EpilogueKind::kClip, -kInfinity, kInfinity, 0};
  if (program.empty()) return epilogue;
  const ir::Instruction& first = program.code[0];
  const size_t length = program.code.size();
  if (program.num_inputs == 1 && length == 1) {
    if (clamp_bounds(first, 0, epilogue)) return epilogue;
    if (first.op == ir::PointOp::kLeakyRelu && first.x >= 0 && first.x <= 1)
      return {EpilogueKind::kLeaky, -kInfinity, kInfinity, first.x};
  }
  if (Gate gate; find_gate(program, gate))
    return {EpilogueKind::kGate, -kInfinity, kInfinity, 0, gate};
  const bool adds_operand = program.num_inputs == 2 && first.op == ir::PointOp::kAdd &&
                            ((first.a == 0 && first.b == 1) || (first.a == 1 && first.b == 0));
  if (adds_operand &&
      (length == 1 || (length == 2 && clamp_bounds(program.code[1], 2, epilogue)))) {
    epilogue.kind = EpilogueKind::kResidualClip;
    return epilogue;
  }
  return {EpilogueKind::kProgram, -kInfinity, kInfinity, 0};
}

BroadcastOperand broadcast_operand(const TensorView& operand, const TensorView& output) {
  BroadcastOperand result;
  result.data = operand.as<const float>();
  for (int back = 0; back < operand.rank && back < output.rank; ++back) {
    const int dim = operand.rank - 1 - back;
    if (operand.extents[dim] != 1) result.strides[back] = operand.strides[dim];
  }
  return result;
}

std::string refuse_operands(const Problem& problem, size_t first_operand, DataType other) {
  const ProblemTensor& output = problem.outputs[0];
  for (size_t k = first_operand; k < problem.inputs.size(); ++k) {
    const ProblemTensor& operand = problem.inputs[k];
    if (!operand.present) return "an epilogue operand is missing";
    if (operand.type != DataType::kFloat && operand.type != other)
      return other == DataType::kUInt8   ? "an epilogue operand is neither float nor uint8"
             : other == DataType::kFloat ? "an epilogue operand is not float"
                                         : "an epilogue operand is neither float nor bfloat16";
    if (operand.extents.size() > output.extents.size())
      return "an epilogue operand has a higher rank";
    for (size_t back = 1; back <= operand.extents.size(); ++back) {
      const int64_t extent = operand.extents[operand.extents.size() - back];
      if (extent != 1 && extent != output.extents[output.extents.size() - back])
        return "an epilogue operand does not broadcast to the output";
    }
  }
  return {};
}

}  // namespace camshaft::kernels
