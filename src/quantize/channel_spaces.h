// SPDX-License-Identifier: Apache-2.0
// Which channels of an ONNX graph belong together: the outputs of a convolution, all that is added
// to them, normalized, pooled and read by others are one space, whose channels may change places as
// long as they do so in every tensor at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

namespace camshaft::quantize {

// `count` neighbouring slices of a constant along `axis`, from `offset` on, are the channels of a
// space.
struct ChannelEdit {
  std::string constant;
  int axis = 0;
  int64_t offset = 0;
};

// Weights that sum over the channels of a space: `outer`, of all they sum over.
struct ChannelReader {
  std::string constant;
  int axis = 1;
  int64_t offset = 0;
};

struct ChannelSpace {
  int64_t channels = 0;
  std::vector<ChannelEdit> edits;      // everything that follows a change of places
  std::vector<ChannelReader> readers;  // of products
  std::string pinned;                  // why nothing may change places; "": it may
};

// Spaces that something reads, in the order of their first makers.
std::vector<ChannelSpace> find_channel_spaces(const onnx::GraphProto& graph);

// The constants of a graph, initializers and outputs of Constant nodes, by name; null: none.
onnx::TensorProto* find_constant(onnx::GraphProto& graph, const std::string& name);

}  // namespace camshaft::quantize
