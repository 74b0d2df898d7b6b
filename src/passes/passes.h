// SPDX-License-Identifier: Apache-2.0
// Every pass: a function that rewrites the graph where its pattern is found and legal, and gives
// the number of edits it made. pipeline.cpp is the order; each pass's file says what it looks for,
// what it makes of it and how exact that is.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"

namespace camshaft::passes {

using Records = std::vector<ir::RewriteRecord>;  // may be null where passes run alone
using PassFunction = int (*)(ir::Graph& graph, Records* records);

// Clean-up
int dead_layer_removal(ir::Graph& graph, Records* records);
int no_op_removal(ir::Graph& graph, Records* records);
int constant_folding(ir::Graph& graph, Records* records);
int duplicate_layer_removal(ir::Graph& graph, Records* records);
// Types
int widen_floats(ir::Graph& graph, Records* records);
int widen_floats_strictly(ir::Graph& graph, Records* records);  // not in the pipeline
// Shuffles
int const_shuffle_fusion(ir::Graph& graph, Records* records);
int shuffle_shuffle_fusion(ir::Graph& graph, Records* records);
int movement_fusion(ir::Graph& graph, Records* records);
int slice_pad_fusion(ir::Graph& graph, Records* records);
int transpose_motion(ir::Graph& graph, Records* records);
int squeeze_motion(ir::Graph& graph, Records* records);
int scatter_elimination(ir::Graph& graph, Records* records);
int scatter_transposition(ir::Graph& graph, Records* records);
int repeated_indices(ir::Graph& graph, Records* records);
int constant_attributes(ir::Graph& graph, Records* records);
// Bodies
int loop_invariants(ir::Graph& graph, Records* records);
int loop_hoisting(ir::Graph& graph, Records* records);
int loop_batching(ir::Graph& graph, Records* records);
// Weights
int conv_scale_fusion(ir::Graph& graph, Records* records);
int conv_branch_fusion(ir::Graph& graph, Records* records);
int scalar_product_to_eltwise(ir::Graph& graph, Records* records);
int vector_product_turn(ir::Graph& graph, Records* records);
int weighted_sum_fusion(ir::Graph& graph, Records* records);
int matmul_operand_fusion(ir::Graph& graph, Records* records);
int padding_fusion(ir::Graph& graph, Records* records);
int crop_fusion(ir::Graph& graph, Records* records);
int space_to_depth_conv_fusion(ir::Graph& graph, Records* records);
int volume_lowering(ir::Graph& graph, Records* records);
int volume_split(ir::Graph& graph, Records* records);
int expand_fusion(ir::Graph& graph, Records* records);
int local_response_split(ir::Graph& graph, Records* records);
int lp_pool_split(ir::Graph& graph, Records* records);
int deform_conv_split(ir::Graph& graph, Records* records);
int short_time_spectra_fusion(ir::Graph& graph, Records* records);
int chosen_product_fusion(ir::Graph& graph, Records* records);
int one_hot_fusion(ir::Graph& graph, Records* records);
int look_up_fusion(ir::Graph& graph, Records* records);
int zero_channel_removal(ir::Graph& graph, Records* records);
int horizontal_merge(ir::Graph& graph, Records* records);
// Tensors in place
int slice_join(ir::Graph& graph, Records* records);
// Q/DQ
int dynamic_quantization_fusion(ir::Graph& graph, Records* records);
int const_qdq_initializers_fusion(ir::Graph& graph, Records* records);
int const_weights_quantize_fusion(ir::Graph& graph, Records* records);
int wide_quantize_fusion(ir::Graph& graph, Records* records);
int arithmetic_weights_fusion(ir::Graph& graph, Records* records);
int low_bit_weights_fusion(ir::Graph& graph, Records* records);
int const_dequantize_fusion(ir::Graph& graph, Records* records);
int dangling_const_dequantize_fusion(ir::Graph& graph, Records* records);
int vanilla_swap_with_following_q(ir::Graph& graph, Records* records);
int split_q_across_preceding_fan_in(ir::Graph& graph, Records* records);
int horizontal_merge_q_nodes(ir::Graph& graph, Records* records);
int dequantize_motion(ir::Graph& graph, Records* records);
int dequantize_quantize_fusion(ir::Graph& graph, Records* records);
int quantize_double_input_nodes(ir::Graph& graph, Records* records);
void warn_of_float_products(const Records& records);  // of a whole build
int q_conv_scale_fusion(ir::Graph& graph, Records* records);
int requantize_fusion(ir::Graph& graph, Records* records);
int signed_to_unsigned(ir::Graph& graph, Records* records);
int codes_from_zero(ir::Graph& graph, Records* records);
int code_bounds(ir::Graph& graph, Records* records);
int quantize_pooling(ir::Graph& graph, Records* records);
int qdq_to_copy(ir::Graph& graph, Records* records);
// Patterns
int reduce_to_pooling(ir::Graph& graph, Records* records);
int mean_fusion(ir::Graph& graph, Records* records);
int normalization_fusion(ir::Graph& graph, Records* records);
int group_norm_fusion(ir::Graph& graph, Records* records);
int softmax_fusion(ir::Graph& graph, Records* records);
int attention_fusion(ir::Graph& graph, Records* records);
int attention_layout_fusion(ir::Graph& graph, Records* records);
int attention_window_fusion(ir::Graph& graph, Records* records);
int rotation_fusion(ir::Graph& graph, Records* records);
int quantized_attention_fusion(ir::Graph& graph, Records* records);
// Pointwise
int scale_activation_fusion(ir::Graph& graph, Records* records);
int pointwise_fusion(ir::Graph& graph, Records* records);
int pointwise_motion(ir::Graph& graph, Records* records);
int epilogue_fusion(ir::Graph& graph, Records* records);
int eltwise_to_pwn(ir::Graph& graph, Records* records);

}  // namespace camshaft::passes
