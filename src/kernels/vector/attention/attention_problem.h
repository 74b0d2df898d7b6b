// SPDX-License-Identifier: Apache-2.0
// What the attention kernels derive from a layer, and refuse.
#pragma once

#include "kernels/attention_shape.h"
#include "kernels/vector/program/program_tile.h"
#include "kernels/vector/program/tile_finish.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct AttentionCall {
  AttentionShape shape;
  KeyWindows windows;
  float scale = 1;
  bool nan_is_zero = false;
  DataType lengths_type = DataType::kUndefined;  // or there are none
  int64_t lengths_stride = 0;
  TileFinish finish;  // of scores: rows are heads, pixels queries, channels keys

  int64_t length(const KernelCall& call, int64_t b) const {
    const bool present = lengths_type != DataType::kUndefined;
    return length_of(present ? call.input<const void>(kAttentionLengths) : nullptr, lengths_type,
                     lengths_stride, b, shape.keys);
  }
  // What a query gets that sees no key.
  float nothing() const { return nan_is_zero || shape.keys == 0 ? 0 : __builtin_nanf(""); }

  // `finish` of the layer's epilogue; its program must outlive this.
  void set_epilogue_of(const KernelArgs& args);
  // One query per head: the heads that read the same keys are rows of a tile, as queries would be.
  void take_heads_as_queries();
};

// All but `finish`. False: tensors that do not fit each other.
bool make_attention_call(const KernelArgs& args, AttentionCall& call);
std::string refuse_attention(const Problem& problem);
double macs_of(const AttentionShape& shape);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
