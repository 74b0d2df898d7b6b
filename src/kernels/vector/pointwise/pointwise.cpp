// SPDX-License-Identifier: Apache-2.0
// PointWise, Activation, Unary, ElementWise, Select and Scale: a tile program over the collapsed
// dimensions of the output, any broadcast, any strides. PointWise also takes and gives 8-bit codes,
// all take and give bools.
#include "kernels/nest.h"
#include "kernels/simd/float16.h"
#include "kernels/vector/pointwise/short_rows.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/affine_tile.h"
#include "kernels/vector/program/compiled_code.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::pointwise {
namespace {

using ir::Instruction;
using ir::LayerKind;
using ir::PointOp;

constexpr int kMaxInputs = kMaxNestTensors - 1;

// The layer's program, without allocating.
struct Code {
  const Instruction* data = nullptr;
  int length = 0, inputs = 0;
  Instruction own;
};

int arity_of(const ir::Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kActivation:
    case LayerKind::kUnary:
      return 1;
    case LayerKind::kElementWise:
      return 2;
    default:
      return 3;
  }
}

void set_code(Code& code, const ir::Layer& layer) {
  if (const auto* pointwise = std::get_if<ir::PointWiseAttrs>(&layer.attrs)) {
    code.data = pointwise->program.code.data();
    code.length = static_cast<int>(pointwise->program.code.size());
    code.inputs = pointwise->program.num_inputs;
    return;
  }
  code.inputs = arity_of(layer);
  code.own.op = PointOp::kFma;  // Scale
  if (const auto* point = std::get_if<ir::PointOpAttrs>(&layer.attrs))
    code.own = {point->op, 0, -1, -1, point->x, point->y};
  code.own.a = 0;
  if (code.inputs > 1) code.own.b = 1;
  if (code.inputs > 2) code.own.c = 2;
  code.data = &code.own;
  code.length = 1;
}

// Codes are floats to the program of a PointWise; other kinds do integer arithmetic on them.
bool is_fit(const ProblemTensor& t, LayerKind kind) {
  if (!t.present || t.type == DataType::kFloat || t.type == DataType::kBool) return true;
  if (ir::is_16_bit_float(t.type)) return true;
  return kind == LayerKind::kPointWise && (t.type == DataType::kUInt8 || t.type == DataType::kInt8);
}

std::string refusal(const Problem& p) {
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (!is_fit(p.inputs[k], p.layer->kind)) return "an input's type";
  for (size_t k = 0; k < p.outputs.size(); ++k)
    if (!is_fit(p.outputs[k], p.layer->kind)) return "the output's type";
  if (p.inputs.size() > kMaxInputs) return "too many inputs";
  if (const auto* pointwise = std::get_if<ir::PointWiseAttrs>(&p.layer->attrs))
    if (!program_fits(pointwise->program)) return "program too long";
  if (p.layer->kind == LayerKind::kScale)
    for (size_t k = 0; k < p.inputs.size(); ++k)
      if (!p.inputs[k].present) return "scale or shift absent";
  return "";
}

// Nanoseconds for 16 elements of a program that is one loop over bytes.
constexpr double kAffineNs = 8.0 / kLanes;

bool is_code(DataType type) {
  return type == DataType::kUInt8;
}

// Whether run_code will take the loop for affine programs, as far as a problem tells.
bool is_affine(const Problem& p, const Code& code) {
  constexpr int kMaxVectors = 8;
  bool has_codes = is_code(p.outputs[0].type);
  AffineInput inputs[kMaxVectors];
  if (code.inputs > kMaxVectors) return false;
  for (size_t k = 0; k < static_cast<size_t>(code.inputs); ++k) {
    const ProblemTensor& t = p.inputs[k];
    has_codes |= is_code(t.type);
    const bool is_float = t.type == DataType::kFloat;
    if (is_float && t.constant != nullptr && count_of(t) == 1)
      inputs[k] = {AffineInput::kConstant,
                   *reinterpret_cast<const float*>(t.constant->view.data())};
    else if ((is_float || is_code(t.type)) && count_of(t) == count_of(p.outputs[0]))
      inputs[k].kind = AffineInput::kVector;
  }
  Affine affine;
  return has_codes && kernels::find_affine(code.data, code.length, code.inputs, inputs,
                                           p.outputs[0].type, affine);
}

double ns_of(const Code& code) {
  return code_ns_per_16(code.data, code.length);
}

double cost_us(const Problem& p) {
  Code code;
  set_code(code, *p.layer);
  const double ns = is_affine(p, code) ? kAffineNs : code_ns_per_16(code.data, code.length);
  const double us = static_cast<double>(count_of(p.outputs[0])) / 16 * ns / 1000;
  return traffic_us(p) + (us > kThreadedUs ? us / p.threads : us);
}

struct Pointwise {
  Code code;
  CompiledCode compiled;
  Nest nest;  // the output, then the inputs
  DataType types[kMaxNestTensors];
  bool has_codes = false;  // 8-bit ones: whether the program is affine depends on values
  ShortRows short_rows;
  double predicted_us = 0;
  std::byte* data[kMaxNestTensors];  // of the call

  std::byte* element(int tensor, int64_t offset) const {
    return data[tensor] + offset * bytes_of(types[tensor]);
  }

  void set_operands(const int64_t* offsets, TileOperand* operands) const {
    for (int k = 0; k < code.inputs; ++k)
      operands[k] = {element(k + 1, offsets[k + 1]), nest.row_stride(k + 1), nest.col_stride(k + 1),
                     types[k + 1]};
  }

  bool is_affine() const {
    const int64_t offsets[kMaxNestTensors] = {};
    TileOperand operands[kMaxInputs];
    set_operands(offsets, operands);
    Affine affine;
    return find_affine(code.data, code.length, code.inputs, operands, types[0], affine);
  }

  void tile(const int64_t* offsets, int64_t rows, int64_t cols) const {
    TileOperand operands[kMaxInputs];
    set_operands(offsets, operands);
    run_code(compiled, operands, {element(0, offsets[0]), nest.row_stride(0), types[0]}, rows,
             cols);
  }

  // Blocks [first, last) of short rows.
  void blocks(int64_t first, int64_t last) const {
    for_gathered(
        nest, short_rows, types, first, last,
        [this](int tensor, int64_t offset) { return element(tensor, offset); },
        [this](const TileOperand* gathered, int64_t offset, int64_t count) {
          run_code(compiled, gathered, {element(0, offset), 0, types[0]}, 1, count);
        });
  }

  // Chains in registers, which read every operand once, are as fast as copying where rows fill half
  // a vector (50,000 rows of 3: 123 us gathered, 305 apart). Single operations are so only until
  // the result lies where an operand did: a row's masked load then waits for the store of the row
  // before it (16,384 rows of 2: 13 us apart, 96 in place).
  bool should_gather() const {
    for (int t = 1; t < nest.tensors; ++t)
      if (types[t] != DataType::kFloat && types[t] != DataType::kBool) return false;
    return has_short_rows(nest) &&
           (code.length == 1 || !compiled.registers.present() || 2 * nest.cols() <= kLanes);
  }

  // Rows of blocks that a table is made for: of floats.
  int64_t rows_of_table() const {
    if (!has_short_rows(nest)) return 0;
    for (int t = 1; t < nest.tensors; ++t)
      if (types[t] != DataType::kFloat) return 0;
    return rows_alike(nest);
  }

  // Operands as the program will meet them, without addresses.
  void compile(PreparedKernel& kernel) {
    TileOperand operands[kMaxInputs];
    for (int k = 0; k < code.inputs; ++k)
      operands[k] = {nullptr, 0, nest.col_stride(k + 1), types[k + 1]};
    compile_code(code.data, code.length, code.inputs, operands, types[0], compiled);
    const int64_t alike = rows_of_table();
    if (alike == 0 && !should_gather()) return;
    short_rows = ShortRows(nest, types, alike, kernel);
    for (int k = 0; k < code.inputs; ++k) operands[k] = {nullptr, 0, 1};
    compile_code(code.data, code.length, code.inputs, operands, types[0], compiled);
  }
};

// A per-channel vector as a tensor of x's rank.
TensorView along_axis(const TensorView& vector, const TensorView& x, int64_t axis) {
  TensorView view = vector;
  view.rank = x.rank;
  for (int d = 0; d < x.rank; ++d) view.extents[d] = 1, view.strides[d] = 0;
  view.extents[axis] = count_of(vector);
  view.strides[axis] = vector.rank > 0 ? vector.strides[vector.rank - 1] : 1;
  return view;
}

void run(Pointwise& p, const KernelCall& call) {
  p.data[0] = call.output<std::byte>(0);
  for (int k = 0; k < p.code.inputs; ++k)
    p.data[k + 1] = call.input<std::byte>(static_cast<size_t>(k));
  if (p.short_rows.together > 0)
    return split(call.pool, ceil_div(p.short_rows.rows, p.short_rows.together), p.predicted_us,
                 [&p](int, int64_t first, int64_t last) { p.blocks(first, last); });
  const double us =
      p.has_codes && p.is_affine() ? p.predicted_us * kAffineNs / ns_of(p.code) : p.predicted_us;
  for_tiles(p.nest, call.pool, us, [&p](const int64_t* offsets, int64_t rows, int64_t cols) {
    p.tile(offsets, rows, cols);
  });
}

void add_tensor(const TensorView& view, Pointwise& p) {
  p.types[p.nest.tensors] = view.type;
  p.has_codes |= is_code(view.type);
  add_tensor(p.nest, view);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  Pointwise& p = keep_state<run>(kernel, Pointwise());
  const TensorView& y = args.outputs[0];
  set_code(p.code, *args.layer);
  p.nest = make_nest(y);
  p.types[0] = y.type;
  p.has_codes = is_code(y.type);
  for (int k = 0; k < p.code.inputs; ++k) {
    const TensorView& x = args.inputs[static_cast<size_t>(k)];
    if (args.layer->kind == LayerKind::kScale && k > 0)
      add_tensor(along_axis(x, y, std::get_if<ir::ScaleAttrs>(&args.layer->attrs)->axis), p);
    else
      add_tensor(x, p);
  }
  collapse(p.nest);
  p.compile(kernel);
  constexpr double kGatheredUs = 0.0005;
  p.predicted_us = static_cast<double>(count_of(y)) / 16 * ns_of(p.code) / 1000 +
                   (p.short_rows.together > 0 ? static_cast<double>(count_of(y)) * kGatheredUs : 0);
}

#define CAMSHAFT_POINTWISE(tactic, layer)                                                    \
  {                                                                                          \
    .name = tactic, .kind = LayerKind::layer, .isa = kIsa, .formats = FormatRule::kSame,     \
    .version = 3, .refusal = refusal, .cost_us = cost_us, .packed_inputs = no_packed_inputs, \
    .packed_bytes = no_packed_bytes, .pack = pack_nothing, .prepare = prepare                \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_POINTWISE("pointwise_f32", kPointWise),
    CAMSHAFT_POINTWISE("activation_f32", kActivation),
    CAMSHAFT_POINTWISE("unary_f32", kUnary),
    CAMSHAFT_POINTWISE("elementwise_f32", kElementWise),
    CAMSHAFT_POINTWISE("select_f32", kSelect),
    CAMSHAFT_POINTWISE("scale_f32", kScale),
};
#undef CAMSHAFT_POINTWISE

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::pointwise
