// SPDX-License-Identifier: Apache-2.0
// The tactics of Experts. All read the weights of the chosen experts alone; those of few bits stay
// codes, as matmul_nbits_* have them.
#include <string>

#include "kernels/vector/experts/experts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/program/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::experts {
namespace {

const ir::ExpertsAttrs& attributes_of(const Problem& problem) {
  return problem.layer->as<ir::ExpertsAttrs>();
}

bool has_even_rows(const ProblemTensor& tensor, bool of_matrix) {
  return tensor.dense || (of_matrix && tensor.extents.size() <= 2);
}

std::string refuse_experts(const Problem& problem) {
  for (size_t k = 0; k < problem.inputs.size(); ++k) {
    const bool is_weights = k == ir::kUpWeights || k == ir::kDownWeights;
    const ProblemTensor& input = problem.inputs[k];
    if (is_weights && !input.constant) return "the weights are not constant";
    if (input.present && !is_weights && !has_even_rows(input, k == ir::kExpertRows))
      return "a part of a larger tensor";
  }
  if (!has_even_rows(problem.outputs[0], true)) return "a part of a larger tensor";
  return program_fits(attributes_of(problem).activation) ? "" : "the activation is too long";
}

template <ExpertsWay kWay, int kPlanes>
std::string refusal(const Problem& problem) {
  const ir::ExpertsAttrs& attrs = attributes_of(problem);
  if (std::string reason = refuse_experts(problem); !reason.empty()) return reason;
  if ((attrs.up_bits == 0) != (attrs.down_bits == 0)) return "one product is of floats";
  if ((attrs.up_bits == 0) != (kWay == ExpertsWay::kFloats)) return "weights of other bits";
  if (kPlanes == 1 && !attrs.codes_rows) return "the model does not allow int8 rows";
  return {};
}

// Rows are taken to be spread evenly over the experts.
template <ExpertsWay kWay, int kPlanes>
double cost_us(const Problem& problem) {
  const ir::ExpertsAttrs& attrs = attributes_of(problem);
  const PackedExperts packed = packed_experts(attrs);
  const int64_t choices = count_of(problem.inputs[ir::kExpertsChosen]);
  const int64_t read = smaller(at_least_one(choices), attrs.experts);
  const int64_t rows = ceil_div(choices, attrs.experts);
  const bool integers =
      kWay == ExpertsWay::kIntegers || (kWay == ExpertsWay::kUnpacked && rows < kLeastUnpackedRows);
  double us = 0;
  for (const ExpertProductRun* run : {&packed.up, &packed.down}) {
    const auto weights = static_cast<double>(run->product.columns * run->product.depth);
    const double per_cycle = (uses(Feature::kVnni) ? 6.0 : 2.0) * kLanes;
    const double product =
        integers ? static_cast<double>(rows) * weights * kPlanes / per_cycle / 3000
                 : tile_cost_us(Numeric::kFloat, 1, rows, run->product.columns, run->product.depth,
                                kUnpackedVecs) +
                       (kWay == ExpertsWay::kUnpacked ? weights * 2.5 / kLanes / 3000 : 0);
    const double stream = static_cast<double>(run->expert_bytes) / 30e3;
    us += static_cast<double>(read) * (product > stream ? product : stream);
  }
  return 1 + us / problem.threads;
}

uint32_t packed_inputs(const Problem&) {
  return 1u << ir::kUpWeights | 1u << ir::kDownWeights;
}

size_t packed_bytes(const Problem& problem) {
  return static_cast<size_t>(packed_experts(attributes_of(problem)).bytes);
}

void pack(const Problem& problem, std::byte* packed) {
  pack_expert_products(attributes_of(problem),
                       constant_values<std::byte>(problem.inputs[ir::kUpWeights]),
                       constant_values<std::byte>(problem.inputs[ir::kDownWeights]), packed);
}

template <ExpertsWay kWay, int kPlanes>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  prepare_experts(args, kWay, kPlanes, kernel);
}

template <ExpertsWay kWay, int kPlanes>
std::string arithmetic(const Problem& problem, const std::byte*) {
  const ir::ExpertsAttrs& attrs = attributes_of(problem);
  const std::string experts = std::to_string(attrs.experts) + " experts";
  if (attrs.up_bits == 0) return experts;
  return experts + ", weights of " + std::to_string(attrs.up_bits) + " and " +
         std::to_string(attrs.down_bits) + " bits, rows as " +
         (kWay == ExpertsWay::kUnpacked ? "floats"
          : kPlanes == 1                ? "int8 per block"
                                        : "24-bit integers");
}

template <ExpertsWay kWay, int kPlanes>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kExperts,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 2,
          .refusal = refusal<kWay, kPlanes>,
          .cost_us = cost_us<kWay, kPlanes>,
          .packed_inputs = packed_inputs,
          .packed_bytes = packed_bytes,
          .pack = pack,
          .prepare = prepare<kWay, kPlanes>,
          .arithmetic = arithmetic<kWay, kPlanes>};
}

constexpr Tactic kTactics[] = {row<ExpertsWay::kFloats, 3>("experts_f32"),
                               row<ExpertsWay::kIntegers, 1>("experts_nbits_i8"),
                               row<ExpertsWay::kIntegers, 3>("experts_nbits_i24"),
                               row<ExpertsWay::kUnpacked, 3>("experts_nbits_f32")};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::experts
