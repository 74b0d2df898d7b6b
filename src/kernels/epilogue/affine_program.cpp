// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/affine_program.h"

#include <cmath>

#include "kernels/epilogue/epilogue_form.h"

namespace camshaft::kernels {
namespace {

using ir::Instruction;
using ir::PointOp;
using PlaneForm = Form<double>;

constexpr int kMaxValues = 24;

// Told before anything is evaluated: most programs that are not affine are seen by this.
bool may_be_affine(PointOp op) {
  switch (op) {
    case PointOp::kConst:
    case PointOp::kIdentity:
    case PointOp::kNeg:
    case PointOp::kRound:
    case PointOp::kRelu:
    case PointOp::kClip:
    case PointOp::kMin:
    case PointOp::kMax:
    case PointOp::kAdd:
    case PointOp::kSub:
    case PointOp::kMul:
    case PointOp::kDiv:
    case PointOp::kFma:
      return true;
    default:
      return false;
  }
}

bool is_finite(double v) {
  return v > -1e30 && v < 1e30;
}

bool has_divisor(const PlaneForm& form) {
  const double size = std::abs(form.divisor);
  return size > 1e-30 && size < 1e30;
}

bool read_affine(PlaneForm& form, DataType out, Affine& affine) {
  const bool narrows = out == DataType::kUInt8;
  if (form.kind != PlaneForm::kChain || form.code.present || form.slope != 1) return false;
  if (form.multiplier == 0 || (form.residual >= 0 && form.residual_scale == 0)) return false;
  if (form.divisor != 0 && (!narrows || !has_divisor(form))) return false;
  if (form.rounded && !narrows) return false;
  if (narrows) {
    form.fold_zeros();
    if (!form.round() || !form.clip(0, 255)) return false;
  }
  if (!is_finite(form.multiplier) || !is_finite(form.residual_scale) || !is_finite(form.addend))
    return false;
  const auto number = [](double v) { return static_cast<float>(v); };
  affine.inputs[0] = form.main, affine.inputs[1] = form.residual;
  affine.scale[0] = number(form.multiplier), affine.scale[1] = number(form.residual_scale);
  affine.offset[0] = number(form.zero), affine.offset[1] = number(form.residual_zero);
  affine.shift = number(form.addend);
  affine.low = number(form.low), affine.high = number(form.high);
  affine.after = static_cast<int32_t>(form.offset);
  affine.divisor = number(form.divisor);
  return true;
}

}  // namespace

bool find_affine(const Instruction* code, int length, int num_inputs, const AffineInput* inputs,
                 DataType out, Affine& affine) {
  affine = {};
  if (out != DataType::kUInt8 && out != DataType::kFloat) return false;
  if (length == 0 || num_inputs + length > kMaxValues) return false;
  for (int k = 0; k < length; ++k)
    if (!may_be_affine(code[k].op)) return false;
  PlaneForm values[kMaxValues];
  for (int k = 0; k < num_inputs; ++k)
    if (inputs[k].kind == AffineInput::kConstant)
      values[k] = PlaneForm::constant(static_cast<double>(inputs[k].constant));
    else if (inputs[k].kind == AffineInput::kVector)
      values[k] = PlaneForm::input(k);
  find_forms(code, length, num_inputs, values);
  return read_affine(values[num_inputs + length - 1], out, affine);
}

}  // namespace camshaft::kernels
