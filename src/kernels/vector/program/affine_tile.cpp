// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/program/affine_tile.h"

#include "kernels/simd/bytes.h"
#include "kernels/vector/program/affine_step.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// --- the loops

CAMSHAFT_INLINE F32 fetch(const float* p) {
  return load(p);
}
CAMSHAFT_INLINE F32 fetch(const uint8_t* p) {
  return to_float(load_bytes(p));
}
CAMSHAFT_INLINE F32 fetch(const float* p, int64_t count) {
  return load(p, first_n(static_cast<int>(count)));
}
CAMSHAFT_INLINE F32 fetch(const uint8_t* p, int64_t count) {
  return to_float(load_bytes(p, count));
}

template <Form kForm, class A, class B>
void affine_row(const Factors& factors, const A* a, const B* b, float* out, int64_t count) {
  const Factors f = factors;
  int64_t k = 0;
  const auto at = [&](int64_t n) {
    return combine<kForm, true>(f, fetch(a + n), kForm == Form::kTwo ? fetch(b + n) : zero());
  };
  for (; k + kLanes <= count; k += kLanes) store(out + k, at(k));
  if (k == count) return;
  const int64_t rest = count - k;
  store(out + k,
        combine<kForm, true>(f, fetch(a + k, rest),
                             kForm == Form::kTwo ? fetch(b + k, rest) : zero()),
        first_n(static_cast<int>(rest)));
}

template <Form kForm, class A, class B>
void affine_row(const Factors& factors, const A* a, const B* b, uint8_t* out, int64_t count) {
  const Factors f = factors;
  int64_t k = 0;
  const auto code = [&](int64_t n) {
    return to_int(combine<kForm, false>(f, fetch(a + n),
                                        kForm == Form::kTwo ? fetch(b + n) : zero())) +
           f.after;
  };
  for (; k + 4 * kLanes <= count; k += 4 * kLanes)
    store_bytes(out + k, code(k), code(k + kLanes), code(k + 2 * kLanes), code(k + 3 * kLanes));
  for (; k + kLanes <= count; k += kLanes) store_bytes(out + k, code(k));
  if (k == count) return;
  const int64_t rest = count - k;
  const F32 t = combine<kForm, false>(f, fetch(a + k, rest),
                                      kForm == Form::kTwo ? fetch(b + k, rest) : zero());
  store_bytes(out + k, to_int(t) + f.after, rest);
}

template <Form kForm, class A, class B, class Out>
void affine_rows(const Factors& f, const TileOperand& a, const TileOperand& b,
                 const TileResult& out, int64_t rows, int64_t cols) {
  const A* row_a = static_cast<const A*>(a.data);
  const B* row_b = static_cast<const B*>(b.data);
  Out* to = static_cast<Out*>(out.data);
  for (int64_t row = 0; row < rows; ++row) {
    affine_row<kForm>(f, row_a, row_b, to, cols);
    row_a += a.row_stride, row_b += b.row_stride, to += out.row_stride;
  }
}

template <class Out>
void run_one(const Affine& affine, const TileOperand& a, const TileResult& out, int64_t rows,
             int64_t cols) {
  const Factors f = splat(affine);
  if (a.type == DataType::kUInt8)
    return affine_rows<Form::kOne, uint8_t, uint8_t, Out>(f, a, a, out, rows, cols);
  if (affine.divisor != 0)
    return affine_rows<Form::kDivide, float, float, Out>(f, a, a, out, rows, cols);
  affine_rows<Form::kOne, float, float, Out>(f, a, a, out, rows, cols);
}

template <class Out>
void run_two(const Affine& affine, const TileOperand& a, const TileOperand& b,
             const TileResult& out, int64_t rows, int64_t cols) {
  const Factors f = splat(affine);
  const bool bytes_a = a.type == DataType::kUInt8, bytes_b = b.type == DataType::kUInt8;
  if (bytes_a && bytes_b)
    return affine_rows<Form::kTwo, uint8_t, uint8_t, Out>(f, a, b, out, rows, cols);
  if (bytes_a) return affine_rows<Form::kTwo, uint8_t, float, Out>(f, a, b, out, rows, cols);
  if (bytes_b) return affine_rows<Form::kTwo, float, uint8_t, Out>(f, a, b, out, rows, cols);
  affine_rows<Form::kTwo, float, float, Out>(f, a, b, out, rows, cols);
}

}  // namespace

bool find_affine(const ir::Instruction* code, int length, int num_inputs,
                 const TileOperand* operands, DataType out, Affine& affine) {
  constexpr int kMaxInputs = 8;
  bool has_bytes = out == DataType::kUInt8;
  for (int k = 0; k < num_inputs; ++k) has_bytes |= operands[k].type == DataType::kUInt8;
  if (!has_bytes || num_inputs > kMaxInputs) return false;
  AffineInput inputs[kMaxInputs];
  for (int k = 0; k < num_inputs; ++k) {
    const TileOperand& a = operands[k];
    const bool one = a.col_stride == 0 && a.row_stride == 0;
    if (a.type == DataType::kFloat && one)
      inputs[k] = {AffineInput::kConstant, *static_cast<const float*>(a.data)};
    else if (a.type == DataType::kUInt8 && one)
      inputs[k] = {AffineInput::kConstant,
                   static_cast<float>(*static_cast<const uint8_t*>(a.data))};
    else if (a.col_stride == 1 && (a.type == DataType::kFloat || a.type == DataType::kUInt8))
      inputs[k].kind = AffineInput::kVector;
  }
  return kernels::find_affine(code, length, num_inputs, inputs, out, affine);
}

void run_affine(const Affine& affine, const TileOperand* operands, const TileResult& out,
                int64_t rows, int64_t cols) {
  const TileOperand a = operands[affine.inputs[0]];
  const bool two = affine.inputs[1] >= 0;
  const TileOperand b = two ? operands[affine.inputs[1]] : a;
  if (a.row_stride == cols && b.row_stride == cols && out.row_stride == cols)
    cols *= rows, rows = 1;
  if (out.type == DataType::kUInt8)
    return two ? run_two<uint8_t>(affine, a, b, out, rows, cols)
               : run_one<uint8_t>(affine, a, out, rows, cols);
  two ? run_two<float>(affine, a, b, out, rows, cols) : run_one<float>(affine, a, out, rows, cols);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
