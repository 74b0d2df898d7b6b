// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/epilogue.h"

#include <cmath>
#include <vector>

#include "kernels/epilogue/epilogue_form.h"

namespace camshaft::kernels {
namespace {

using FloatForm = Form<double>;

// A gate alone may be scaled: its constants are.
bool is_scaled_gate(const FloatForm& form) {
  return form.code.is_gate && form.code.shift == 0 && form.code.scale < FloatForm::kInfinity &&
         std::isfinite(form.gate.scale) && std::isfinite(form.gate.shift);
}

// Whether kernels do the same: the sums as they are, an activation, the residual, the clamp.
bool is_finished(const FloatForm& form, int num_inputs) {
  if (form.kind != FloatForm::kChain || form.main != 0 || form.zero != 0 || form.rounded)
    return false;
  if (form.multiplier != 1 || form.addend != 0 || form.post != 0) return false;
  if (form.code.present && form.slope != 1) return false;
  if (form.residual >= 0 && (form.residual_scale != 1 || form.residual_zero != 0)) return false;
  if (form.slope != 1 && form.residual >= 0 && !form.leaks_first) return false;
  const bool is_alone = num_inputs == 1 && !form.is_clamped();
  if (form.code.present && !is_scaled_gate(form)) return false;
  if (form.slope == 0 && !is_alone) return false;  // makes no NaN of infinities, as programs do
  return form.exact || (is_alone && form.code.present);
}

}  // namespace

Epilogue classify_epilogue(const ir::Program& program) {
  if (program.empty()) return {};
  const int length = static_cast<int>(program.code.size());
  std::vector<FloatForm> values(static_cast<size_t>(program.num_inputs + length));
  for (int k = 0; k < program.num_inputs; ++k) values[static_cast<size_t>(k)] = FloatForm::input(k);
  find_forms(program.code.data(), length, program.num_inputs, values.data());
  const FloatForm& form = values.back();
  if (!is_finished(form, program.num_inputs)) return kProgramEpilogue;
  const float scale = static_cast<float>(form.code.scale);
  return {.residual = form.residual < 0 ? -1 : form.residual - 1,
          .slope = static_cast<float>(form.slope),
          .low = static_cast<float>(form.low),
          .high = static_cast<float>(form.high),
          .is_gated = form.code.is_gate,
          .gate = {form.gate.scale * scale, form.gate.shift * scale, form.gate.low * scale,
                   form.gate.high * scale}};
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
