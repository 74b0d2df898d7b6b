// SPDX-License-Identifier: Apache-2.0
// Convolutions (or products) that read the same tensor with equal attributes as one with the
// weights stacked, `a || b`; the old results are slices of its own along the channels. Quantized
// ones too: factors and biases of their epilogues are stacked like the weights. Products with
// weights of few bits: queries, keys and values whose rows are made integers once. Bit exact per
// output channel.
#pragma once

#include <string>
#include <vector>

#include "ir/rewriter.h"

namespace camshaft::passes {

// Has constant weights to stack, and nothing that could not be stacked with them.
bool can_merge(const ir::Layer& layer);
// Why two such readers of one tensor stay two; empty: they can merge.
ir::Refusal merge_refusal(const ir::Layer& a, const ir::Layer& b);
int64_t output_channels(const ir::Layer& layer);

struct MergedForm {
  std::vector<ir::Layer*> siblings;  // in the order of their channels
  ir::Layer* product = nullptr;
};

// Adds the product in front of the siblings (two or more); nothing reads it yet.
MergedForm add_merged_form(ir::Rewriter& rewriter, std::vector<ir::Layer*> siblings);
// It takes their place …
void take_merged_form(ir::Rewriter& rewriter, const MergedForm& form);
// … or goes again.
void drop_merged_form(ir::Rewriter& rewriter, const MergedForm& form);

}  // namespace camshaft::passes
