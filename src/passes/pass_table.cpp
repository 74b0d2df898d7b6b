// SPDX-License-Identifier: Apache-2.0
#include "passes/pass_table.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace camshaft::passes {
namespace {

#define RUNS(function) function, #function

const std::vector<Pass>& table() {
  static const std::vector<Pass> kPasses = {
      // Clean-up
      {"DeadLayerRemoval", RUNS(dead_layer_removal), {}},
      {"NoOpRemoval", RUNS(no_op_removal), {}},
      {"ConstantFolding", RUNS(constant_folding), {}},
      {"ConstShuffleFusion", RUNS(const_shuffle_fusion), {}, "constant_folding"},
      {"ConstantAttributes", RUNS(constant_attributes), {}},
      {"DuplicateLayerRemoval", RUNS(duplicate_layer_removal), {}},
      // Types
      {"WidenFloats", RUNS(widen_floats), {}},
      // Shuffles
      {"ShuffleShuffleFusion", RUNS(shuffle_shuffle_fusion), {}},
      {"MovementFusion", RUNS(movement_fusion), {}},
      {"SlicePadFusion", RUNS(slice_pad_fusion), {}},
      {"ScatterElimination", RUNS(scatter_elimination), {}},
      {"ScatterTransposition", RUNS(scatter_transposition), {}},
      {"RepeatedIndices", RUNS(repeated_indices), {}},
      {"TransposeMotion", RUNS(transpose_motion), {}},
      {"SqueezeMotion", RUNS(squeeze_motion), {}},
      // Bodies
      {"LoopInvariants", RUNS(loop_invariants), {}},
      {"LoopHoisting", RUNS(loop_hoisting), {}},
      {"LoopBatching", RUNS(loop_batching), {}},
      // Weights
      {"ConvScaleFusion", RUNS(conv_scale_fusion), {}},
      {"ConvBranchFusion", RUNS(conv_branch_fusion), {}},
      {"ScalarProductToEltwise", RUNS(scalar_product_to_eltwise), {}},
      {"VectorProductTurn", RUNS(vector_product_turn), {}},
      {"WeightedSumFusion", RUNS(weighted_sum_fusion), {}},
      {"MatMulOperandFusion", RUNS(matmul_operand_fusion), {}},
      {"PaddingFusion", RUNS(padding_fusion), {}},
      {"CropFusion", RUNS(crop_fusion), {}},
      {"SpaceToDepthConvFusion", RUNS(space_to_depth_conv_fusion), {}},
      {"VolumeLowering", RUNS(volume_lowering), {}},
      {"VolumeSplit", RUNS(volume_split), {}},
      {"DeformConvSplit", RUNS(deform_conv_split), {}},
      {"LocalResponseSplit", RUNS(local_response_split), {}},
      {"ShortTimeSpectraFusion", RUNS(short_time_spectra_fusion), {}},
      {"LpPoolSplit", RUNS(lp_pool_split), {}},
      {"ExpandFusion", RUNS(expand_fusion), {}},
      {"ChosenProductFusion", RUNS(chosen_product_fusion), {}},
      {"OneHotFusion", RUNS(one_hot_fusion), {}},
      {"LookUpFusion", RUNS(look_up_fusion), {}},
      {"ZeroChannelRemoval", RUNS(zero_channel_removal), {}},
      {"HorizontalMerge", RUNS(horizontal_merge), {}},
      // Tensors in place
      {"SliceJoin", RUNS(slice_join), {}},
      // Q/DQ
      {"DynamicQuantizationFusion", RUNS(dynamic_quantization_fusion), {}},
      {"ConstQDQInitializersFusion", RUNS(const_qdq_initializers_fusion), {}},
      {"ConstWeightsQuantizeFusion", RUNS(const_weights_quantize_fusion), {}},
      {"WideQuantizeFusion", RUNS(wide_quantize_fusion), {}},
      {"ArithmeticWeightsFusion", RUNS(arithmetic_weights_fusion), {}},
      {"LowBitWeightsFusion", RUNS(low_bit_weights_fusion), {}},
      {"ConstDequantizeFusion", RUNS(const_dequantize_fusion), {}},
      {"DanglingConstDequantizeFusion",
       RUNS(dangling_const_dequantize_fusion),
       {},
       "const_dequantize_fusion"},
      {"VanillaSwapWithFollowingQ", RUNS(vanilla_swap_with_following_q), {}},
      {"SplitQAcrossPrecedingFanIn", RUNS(split_q_across_preceding_fan_in), {}},
      {"HorizontalMergeQNodes", RUNS(horizontal_merge_q_nodes), {}},
      {"DequantizeMotion", RUNS(dequantize_motion), {}},
      {"DequantizeQuantizeFusion", RUNS(dequantize_quantize_fusion), {}},
      {"QuantizeDoubleInputNodes", RUNS(quantize_double_input_nodes), {"ConstWeightsFusion"}},
      {"QConvScaleFusion", RUNS(q_conv_scale_fusion), {}},
      {"RequantizeFusion", RUNS(requantize_fusion), {}},
      {"SignedToUnsigned", RUNS(signed_to_unsigned), {}},
      {"CodesFromZero", RUNS(codes_from_zero), {}},
      {"CodeBounds", RUNS(code_bounds), {}},
      {"QuantizePooling", RUNS(quantize_pooling), {}},
      {"QDQToCopy", RUNS(qdq_to_copy), {}},
      // Patterns
      {"ReduceToPooling", RUNS(reduce_to_pooling), {}},
      {"MeanFusion", RUNS(mean_fusion), {}},
      {"NormalizationFusion", RUNS(normalization_fusion), {}},
      {"GroupNormFusion", RUNS(group_norm_fusion), {}},
      {"SoftMaxFusion", RUNS(softmax_fusion), {}},
      {"RotationFusion", RUNS(rotation_fusion), {}},
      {"AttentionFusion", RUNS(attention_fusion), {}},
      {"AttentionLayoutFusion", RUNS(attention_layout_fusion), {}},
      {"AttentionWindowFusion", RUNS(attention_window_fusion), {}},
      {"QuantizedAttentionFusion", RUNS(quantized_attention_fusion), {}},
      // Pointwise
      {"ScaleActivationFusion", RUNS(scale_activation_fusion), {}, "pointwise_fusion"},
      {"PointWiseFusion", RUNS(pointwise_fusion), {}},
      {"PointWiseMotion", RUNS(pointwise_motion), {}},
      {"EpilogueFusion",
       RUNS(epilogue_fusion),
       {"ConvReluFusion", "ConvActFusion", "ConvEltwiseSumFusion", "ActEpilogueFusion",
        "EltwiseEpilogueFusion", "QuantizeDoubleInputNodes"}},
      {"EltwiseToPwn", RUNS(eltwise_to_pwn), {"EltwiseAddToPwn"}, "pointwise_fusion"},
  };
  return kPasses;
}

#undef RUNS

// "SoftMaxFusion", "softmax_fusion" → "softmaxfusion"
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (c != '_' && c != '-')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// How many letters are to be changed, added or left out to make one of the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// Names that hold the word, or that few letters make of it; all where there are none.
std::vector<std::string_view> names_near(std::string_view word) {
  std::vector<std::string_view> near, all;
  for (const Pass& pass : table()) {
    all.push_back(pass.name);
    const std::string name = plain(pass.name);
    if ((word.size() > 2 && name.find(word) != std::string::npos) ||
        distance(name, word) <= std::max<size_t>(2, word.size() / 3))
      near.push_back(pass.name);
  }
  return near.empty() ? all : near;
}

}  // namespace

std::span<const Pass> all_passes() {
  return table();
}

const Pass& pass_of(PassFunction function) {
  return *std::find_if(table().begin(), table().end(),
                       [&](const Pass& pass) { return pass.run == function; });
}

Result<const Pass*> find_pass(std::string_view name) {
  const std::string wanted = plain(name);
  for (const Pass& pass : table())
    if (plain(pass.name) == wanted) return &pass;
  return make_error(ErrorCode::kInvalidArgument, "no pass is called '{}'; there are {}", name,
                    fmt::join(names_near(wanted), ", "));
}

}  // namespace camshaft::passes
