// SPDX-License-Identifier: Apache-2.0
// Small predicates and look-ups the passes share.
#pragma once

#include <optional>
#include <vector>

#include "ir/extents.h"
#include "ir/graph.h"
#include "ir/refusal.h"

namespace camshaft::passes {

// Input k, null where it is absent or beyond the list.
ir::Tensor* input_at(const ir::Layer& layer, size_t k);
// The layer when it alone reads `tensor` (once or more) and the network does not; else null.
ir::Layer* only_reader(const ir::Tensor* tensor);
// The producer of `tensor` if it is of that kind; else null.
ir::Layer* producer_of_kind(const ir::Tensor* tensor, ir::LayerKind kind);

// An Identity.
bool is_copy(const ir::Layer& layer);
// What `tensor` is a copy of, itself if it is none.
const ir::Tensor* without_copies(const ir::Tensor* tensor);

// A convolution, deconvolution or matrix product.
bool is_product(const ir::Layer& layer);
// A product of two matrices, or batches of them, of floats.
bool is_float_product(const ir::Layer& layer);
// Such a product without bias and epilogue.
bool is_bare_product(const ir::Layer& layer);
// One of is_product() of codes: its epilogue may store 8 bits.
bool makes_codes(const ir::Layer& layer);

// Why pointwise layers do not become the epilogue that its kind has; nothing: they may.
ir::Refusal epilogue_refusal(const ir::Layer& layer);
// Its kind has one, and they may.
bool takes_epilogue(const ir::Layer& layer);

// The builder added the layer beside one of the model's: names of fusions leave it out.
bool is_added(const ir::Layer& layer, const ir::Layer& beside);

bool is_float_constant(const ir::Tensor* tensor);
// The value of a float constant of one element.
std::optional<float> scalar_value(const ir::Tensor* tensor);
// A Gather of whole rows of a matrix of constant floats.
bool looks_up_rows(const ir::Layer& layer);
// Explicit padding other than 0, or padding by mode.
bool pads_images(const ir::ConvolutionAttrs& attrs);
inline constexpr size_t kVolumeRank = 5;  // of images in three dimensions
// The slice of that shape which starts at `first` along `axis`, at 0 along all others.
ir::SliceAttrs slice_along(const ir::Shape& shape, size_t axis, int64_t first);
bool is_identity_order(const ir::Ints& order);  // [0, 1, 2 …] or empty
ir::Ints inverse(const ir::Ints& order);
// A Shuffle that only transposes: its order, else empty.
ir::Ints pure_order(const ir::Layer* layer);
// A Shuffle that only reshapes, as its attributes say.
bool is_reshape(const ir::Layer* layer);
ir::ShuffleAttrs reshape_to(const ir::Shape& shape);
ir::Shape with_last_two_swapped(ir::Shape shape);  // a vector as it is
// With leading ones up to `rank`.
ir::Shape padded(const ir::Shape& shape, size_t rank);

// A transpose that leaves extents other than 1 in their order: the elements do not move.
bool moves_nothing(const ir::Shape& shape, const ir::Ints& order);

// A reshape that only adds and drops extents of 1: for every dimension of `to`, that of `from` it
// is, or -1. Empty: it does more.
std::optional<ir::Ints> unit_reshape(const ir::Shape& from, const ir::Shape& to);

// Dimensions [from, from_end) of one shape that a reshape makes [to, to_end) of another, as few as
// possible.
struct ReshapeGroup {
  size_t from, from_end, to, to_end;
};
// In order, all dimensions of both; empty: symbols leave it open.
std::optional<std::vector<ReshapeGroup>> reshape_groups(const ir::Shape& from, const ir::Shape& to,
                                                        ir::SymbolTable& symbols);
void sort_by_position(std::vector<ir::Layer*>& layers);

// The elements of float constant `tensor` when it broadcasts to `shape` along `axis` alone:
// `extent` of them (a single one is repeated). Empty: it does not.
std::vector<float> values_along(const ir::Tensor* tensor, const ir::Shape& shape, size_t axis,
                                int64_t extent);

// The elements of a constant of integers (int32, int64), or of those, floats and truth values;
// empty: it is another one.
ir::Ints integers_of(const ir::Tensor* constant);
std::vector<double> numbers_of(const ir::Tensor* constant);
// The value all elements have: of a constant, a Fill, or what moves elements of such.
std::optional<double> uniform_value(const ir::Tensor* tensor);

}  // namespace camshaft::passes
