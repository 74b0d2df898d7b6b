// SPDX-License-Identifier: Apache-2.0
// Layers as problems: which tensors carry a format, extents at a profile's shapes, keys for caches.
#pragma once

#include <string>

#include "ir/graph.h"
#include "ir/infer.h"
#include "kernels/kernel.h"
#include "runtime/layer_problem.h"

namespace camshaft::tuner {

// Where a tensor lies: a format, and a storage type where that is not the graph's.
struct Place {
  ir::Format format = ir::Format::kLinear;
  ir::DataType type = ir::DataType::kUndefined;
  friend bool operator==(const Place&, const Place&) = default;
};

// Formats of a layer's data tensors; all its other tensors are linear. Types: what its float
// activations are stored as, where that is not what the graph says (kUndefined): bfloat16 or half.
struct Formats {
  ir::Format input = ir::Format::kLinear, output = ir::Format::kLinear;
  ir::DataType input_type = ir::DataType::kUndefined, output_type = ir::DataType::kUndefined;
  friend bool operator==(const Formats&, const Formats&) = default;
};
// "channel_last", "linear -> channel_last", "channel_last bfloat16 -> channel_last"
std::string to_string(const Formats& formats);

// Does input k (output k) carry the layer's data format? Weights, vectors and operands of lower
// rank are always linear.
bool is_data_input(const ir::Layer& layer, size_t k);
bool is_data_output(const ir::Layer& layer, size_t k);

// Has it such inputs or outputs whose formats are not the same memory?
bool has_data_tensor(const ir::Layer& layer);
// What a tactic's rule allows.
std::vector<Formats> formats_of(kernels::FormatRule rule);

// Does input k (output k) take Formats::input_type (output_type)? Float activations do.
bool is_stored_input(const ir::Layer& layer, size_t k);
bool is_stored_output(const ir::Layer& layer, size_t k);

// Both formats put the elements at the same places (one channel, or one pixel).
bool formats_coincide(const ir::Tensor& tensor);

// A layer at given shapes; its constants are the graph's.
using runtime::LayerProblem;
// Without layer when a shape is not known even with estimates.
LayerProblem make_problem(const ir::Layer& layer, const Formats& formats,
                          const runtime::Bindings& bindings, int threads);

// Has the layer an extent that only running can tell? Problems then hold a guess.
bool has_guessed_extents(const ir::Layer& layer);
// What inference makes of the numbers of a problem of `layer`, bound so; its extents are numbers.
Result<std::vector<ir::InferOutput>> infer_problem(const ir::Layer& layer, const LayerProblem& made,
                                                   const runtime::Bindings& bindings);
// Inference on the numbers of a problem of `layer` gives the outputs the problem has: a guess of
// one extent may contradict another.
bool agrees_with_inference(const ir::Layer& layer, const LayerProblem& made,
                           const runtime::Bindings& bindings);

// Everything that decides how fast a kernel is: kind, attributes, types, formats, extents, threads;
// not names or values.
std::string problem_key(const kernels::Problem& problem);

}  // namespace camshaft::tuner
