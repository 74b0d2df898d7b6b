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
int remove_dead_layers(ir::Graph& graph, Records* records);
int remove_no_ops(ir::Graph& graph, Records* records);
int fold_constants(ir::Graph& graph, Records* records);
int remove_duplicates(ir::Graph& graph, Records* records);
// Types
int widen_floats(ir::Graph& graph, Records* records);
int widen_floats_strictly(ir::Graph& graph, Records* records);  // not in the pipeline
// Shuffles
int fuse_const_shuffles(ir::Graph& graph, Records* records);
int fuse_shuffles(ir::Graph& graph, Records* records);
int fuse_movements(ir::Graph& graph, Records* records);
int fuse_pads(ir::Graph& graph, Records* records);
int flip_layouts(ir::Graph& graph, Records* records);
int sink_squeezes(ir::Graph& graph, Records* records);
// Bodies
int hoist_loop_invariants(ir::Graph& graph, Records* records);
int batch_loops(ir::Graph& graph, Records* records);
// Weights
int fuse_scales(ir::Graph& graph, Records* records);
int fuse_matmul_operands(ir::Graph& graph, Records* records);
int fuse_padding(ir::Graph& graph, Records* records);
int fuse_crops(ir::Graph& graph, Records* records);
int fuse_space_to_depth(ir::Graph& graph, Records* records);
int lower_volumes(ir::Graph& graph, Records* records);
int split_volumes(ir::Graph& graph, Records* records);
int fuse_expands(ir::Graph& graph, Records* records);
int fuse_one_hot(ir::Graph& graph, Records* records);
int fuse_look_ups(ir::Graph& graph, Records* records);
int merge_siblings(ir::Graph& graph, Records* records);
// Tensors in place
int join_slices(ir::Graph& graph, Records* records);
// Q/DQ
int lower_dynamic_quantization(ir::Graph& graph, Records* records);
int fuse_initializers(ir::Graph& graph, Records* records);
int fuse_quantized_constants(ir::Graph& graph, Records* records);
int fuse_low_bit_weights(ir::Graph& graph, Records* records);
int fold_dequantized_constants(ir::Graph& graph, Records* records);
int fold_dangling_constants(ir::Graph& graph, Records* records);
int swap_with_following_quantize(ir::Graph& graph, Records* records);
int split_quantize_across_fan_in(ir::Graph& graph, Records* records);
int merge_quantize_nodes(ir::Graph& graph, Records* records);
int move_dequantize(ir::Graph& graph, Records* records);
int cancel_dequantize_quantize(ir::Graph& graph, Records* records);
int quantize_products(ir::Graph& graph, Records* records);
void warn_of_float_products(const Records& records);  // of a whole build
int fuse_quantized_scales(ir::Graph& graph, Records* records);
int fold_requantization(ir::Graph& graph, Records* records);
int make_unsigned(ir::Graph& graph, Records* records);
int lower_codes(ir::Graph& graph, Records* records);
int bound_codes(ir::Graph& graph, Records* records);
int quantize_pooling(ir::Graph& graph, Records* records);
int convert_quantization(ir::Graph& graph, Records* records);
// Patterns
int reduce_to_pooling(ir::Graph& graph, Records* records);
int fuse_means(ir::Graph& graph, Records* records);
int fuse_normalizations(ir::Graph& graph, Records* records);
int fuse_group_norms(ir::Graph& graph, Records* records);
int fuse_softmax(ir::Graph& graph, Records* records);
int fuse_attention(ir::Graph& graph, Records* records);
int fuse_attention_layouts(ir::Graph& graph, Records* records);
// Pointwise
int fuse_scale_activations(ir::Graph& graph, Records* records);
int fuse_pointwise(ir::Graph& graph, Records* records);
int hoist_pointwise(ir::Graph& graph, Records* records);
int fuse_epilogues(ir::Graph& graph, Records* records);
int convert_to_pointwise(ir::Graph& graph, Records* records);

}  // namespace camshaft::passes
