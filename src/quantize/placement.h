// SPDX-License-Identifier: Apache-2.0
// Where Q/DQ pairs belong in a float network, by the rules TensorRT documents for its explicit
// quantization: decided on the graph as imported, before any pass.
//   - every data input of a convolution or matrix product with constant weights, and the weights
//     (not of the product of a one-hot encoding, which is a look-up)
//   - of a residual add that a convolution feeds: the other branch only, so that the add stays the
//     convolution's epilogue
//   - the input of an average pooling a quantized layer feeds
//   - the inputs of a concatenation that only quantized layers read, all with the scale of its
//     output
//   - the input of a nearest-neighbour resize in such a place
// Outputs of weighted layers get none: the next consumer's Q moves back by itself.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft::quantize {

struct PlacementOptions {
  bool per_channel = true;             // weights: one scale per output channel
  bool matmul_of_activations = false;  // quantize products of two activations (attention), too
  // Layers, by their name or that of their ONNX node, one '*' allowed: left in float, or (the only
  // ones) quantized. keep_float wins.
  std::vector<std::string> keep_float;
  std::vector<std::string> only;
};

// A Q/DQ pair before one input of a layer.
struct ActivationUse {
  ir::Layer* layer;
  size_t input;
  ir::Tensor* tensor;    // what is quantized: layer->inputs[input]
  ir::Tensor* scale_of;  // whose calibrated range gives the scale: tensor, or a concat's output
};

// Constant weights of a layer, quantized along `axis` (-1: with one scale).
struct WeightUse {
  ir::Layer* layer;
  size_t input;
  ir::Tensor* tensor;
  int64_t axis;
};

struct Placement {
  std::vector<ActivationUse> activations;  // in the order of the layers
  std::vector<WeightUse> weights;
  // Tensors between which a Q could move if their scales were equal: a concatenation's inputs and
  // its output, both sides of a max pooling, reshape, transpose, slice.
  struct Link {
    ir::Tensor* from;
    ir::Tensor* to;
  };
  std::vector<Link> links;
  struct Skipped {
    const ir::Layer* layer;
    std::string reason;
  };
  std::vector<Skipped> skipped;  // weighted layers left in float
};

Placement find_placement(const ir::Graph& graph, const PlacementOptions& options);

bool has_quantization(const ir::Graph& graph);  // any Quantize or Dequantize layer in it
// True if `pattern`, which may hold one '*', stands for the layer's name or one of its ONNX nodes.
bool matches_layer(const std::string& pattern, const ir::Layer& layer);
// The first pattern that stands for no layer of the graph; null: every one does.
const std::string* unmatched_pattern(const std::vector<std::string>& patterns,
                                     const ir::Graph& graph);
// A constant, or what only constants make (a transposed weight): its values can be computed now.
bool is_constant_expression(const ir::Tensor* tensor);

}  // namespace camshaft::quantize
