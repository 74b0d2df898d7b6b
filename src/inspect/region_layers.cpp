// SPDX-License-Identifier: Apache-2.0
#include "inspect/region_layers.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "inspect/layers.h"
#include "inspect/parameters.h"

namespace camshaft::inspect {
namespace {

using engine::Plan;
using engine::PlanStep;
using ir::LayerKind;
using ir::PointOp;

// "hard_sigmoid" is "Hard", "mul" is "Mul".
std::string abbreviation(std::string_view word) {
  std::string text(word.substr(0, std::min<size_t>({4, word.size(), word.find('_')})));
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(text[0]));
  return text;
}

std::string operations_of(const ir::Program& program) {
  std::string text;
  for (const ir::Instruction& instruction : program.code) {
    if (instruction.op == PointOp::kConst || instruction.op == PointOp::kIdentity) continue;
    text += instruction.op == PointOp::kFma ? "MulAdd"
                                            : abbreviation(ir::point_op_name(instruction.op));
  }
  return text;
}

bool has_input(const PlanStep& step, size_t k) {
  return k < step.inputs.size() && step.inputs[k] != engine::kNoTensor;
}

std::string normalization(const PlanStep& step) {
  const auto& attrs = step.layer.as<ir::NormalizationAttrs>();
  std::string text =
      attrs.kind == ir::NormKind::kRms ? "MulMeanAddSqrtDivMul" : "MeanSubMulMeanAddSqrtDivMul";
  if (has_input(step, 1)) text += "Mul";
  if (has_input(step, 2)) text += "Add";
  return text + operations_of(attrs.epilogue);
}

std::string shuffle(const PlanStep& step) {
  const auto& attrs = step.layer.as<ir::ShuffleAttrs>();
  std::string text = attrs.first_transpose.empty() ? "" : "Tran";
  if (attrs.has_reshape || has_input(step, 1)) text += "Resh";
  if (!attrs.second_transpose.empty()) text += "Tran";
  return text.empty() ? "Move" : text;
}

// What a layer does, each operation by its first letters.
std::string signature(const PlanStep& step) {
  using enum LayerKind;
  switch (step.layer.kind) {
    case kActivation:
    case kUnary:
    case kElementWise:
    case kSelect:
      return abbreviation(ir::point_op_name(step.layer.as<ir::PointOpAttrs>().op));
    case kPointWise:
      return operations_of(step.layer.as<ir::PointWiseAttrs>().program);
    case kScale:
      return "MulAdd";
    case kNormalization:
      return normalization(step);
    case kShuffle:
      return shuffle(step);
    case kSoftMax:
      return "MaxSubExpSumDiv";
    case kReduce:
      return abbreviation(ir::enum_name(step.layer.as<ir::ReduceAttrs>().op));
    case kExpand:
    case kTile:
      return "Repl";
    case kReformat:
      return "Move";
    case kGeneric:
      return abbreviation(step.layer.as<ir::GenericAttrs>().op_type);
    default:
      return abbreviation(ir::kind_name(step.layer.kind));
  }
}

bool is_product(const PlanStep& step) {
  return step.layer.kind == LayerKind::kMatrixMultiply ||
         step.layer.kind == LayerKind::kLowBitMultiply;
}

const ir::Program& epilogue_of_product(const PlanStep& step) {
  return step.layer.kind == LayerKind::kMatrixMultiply
             ? step.layer.as<ir::MatrixMultiplyAttrs>().epilogue
             : step.layer.as<ir::LowBitMultiplyAttrs>().epilogue;
}

// Whether more than scaling, bias and residual follows the sums.
bool has_fused_operations(const PlanStep& step) {
  const ir::Program& epilogue = epilogue_of_product(step);
  return std::any_of(epilogue.code.begin(), epilogue.code.end(), [](const ir::Instruction& code) {
    constexpr PointOp kPlain[] = {PointOp::kConst, PointOp::kAdd,  PointOp::kSub,
                                  PointOp::kMul,   PointOp::kFma,  PointOp::kDiv,
                                  PointOp::kRound, PointOp::kClip, PointOp::kIdentity};
    return std::find(std::begin(kPlain), std::end(kPlain), code.op) == std::end(kPlain);
  });
}

bool names_a_product(std::string_view node) {
  std::string word(node.substr(node.find_last_of("/.") + 1));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const char* name : {"matmul", "gemm", "linear"})
    if (word.find(name) != std::string::npos) return true;
  return false;
}

// The products among the ONNX nodes, joined; their names' dots are underscores.
std::string product_nodes(const PlanStep& step) {
  std::string text;
  for (const std::string& node : step.layer.onnx_nodes)
    if (names_a_product(node)) text += (text.empty() ? "" : "+") + node;
  if (text.empty())
    text = step.layer.onnx_nodes.empty() ? step.layer.name : step.layer.onnx_nodes.front();
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

std::string region_type(const PlanStep& step) {
  if (step.is_view) return "NoOp";
  if (!is_product(step)) return "kgen";
  return has_fused_operations(step) ? "fusion" : "gemm";
}

std::string region_name(const PlanStep& step, const std::string& type) {
  if (type == "gemm") return product_nodes(step);
  if (type == "fusion") return "__myl_Fc";
  if (step.layer.kind == LayerKind::kAttention) return "_gemm_mha_v2";
  return "__myl_" + signature(step);
}

}  // namespace

void name_region_layers(const Plan& plan, std::vector<LayerInfo>& layers) {
  for (size_t r = 0; r < plan.regions.size(); ++r) {
    const std::vector<int>& steps = plan.regions[r].steps;
    for (size_t k = 0; k < steps.size(); ++k) {
      const PlanStep& step = plan.steps[static_cast<size_t>(steps[k])];
      LayerInfo& layer = layers[static_cast<size_t>(steps[k])];
      layer.region = static_cast<int>(r);
      layer.region_type = region_type(step);
      layer.region_name = fmt::format("{}_myl{}_{}", region_name(step, layer.region_type), r, k);
    }
  }
}

std::vector<RegionInfo> collect_regions(const engine::Engine& engine,
                                        const std::vector<LayerInfo>& layers,
                                        const runtime::Context* context) {
  const Plan& plan = engine.plan();
  const auto borders = [&](const std::vector<engine::RegionBorder>& list) {
    std::vector<RegionInfo::Border> result;
    result.reserve(list.size());
    for (const engine::RegionBorder& border : list)
      result.push_back({describe_tensor(plan, border.tensor, context), border.step,
                        border.step == engine::kNoStep
                            ? ""
                            : plan.steps[static_cast<size_t>(border.step)].layer.name,
                        border.reason});
    return result;
  };
  std::vector<RegionInfo> regions;
  for (const engine::Region& region : plan.regions) {
    RegionInfo info;
    info.index = static_cast<int>(regions.size());
    info.name = region.name;
    info.layers = region.steps;
    info.reason = region.reason;
    info.before = borders(region.before);
    info.after = borders(region.after);
    for (const int k : region.steps) {
      const LayerInfo& layer = layers[static_cast<size_t>(k)];
      info.build_time_us += layer.build_time_us;
      info.running += layer.is_no_op ? 0 : 1;
    }
    regions.push_back(std::move(info));
  }
  return regions;
}

}  // namespace camshaft::inspect
