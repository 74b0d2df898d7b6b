// SPDX-License-Identifier: Apache-2.0
#include "inspect/work.h"

#include <gtest/gtest.h>

namespace camshaft::inspect {
namespace {

// Attention of 2 × 4 heads of 16 numbers, values of 32, to keys of 2 heads.
struct Attention {
  engine::Plan plan;
  engine::PlanStep step;

  Attention(ir::Dim queries, ir::Dim keys, bool has_lengths = false) {
    step.layer.kind = ir::LayerKind::kAttention;
    step.layer.attrs = ir::AttentionAttrs{};
    step.inputs = {add({2, 4, queries, 16}), add({2, 2, keys, 16}), add({2, 2, keys, 32})};
    if (has_lengths) step.inputs.push_back(add({2}));
    step.outputs = {add({2, 4, queries, 32})};
  }
  ir::AttentionAttrs& attrs() { return step.layer.as<ir::AttentionAttrs>(); }
  double macs() const { return multiply_adds(plan, step, nullptr); }

 private:
  int add(ir::Shape shape) {
    engine::PlanTensor& tensor = plan.tensors.emplace_back();
    tensor.type = ir::DataType::kFloat;
    tensor.has_rank = true;
    tensor.shape = std::move(shape);
    return static_cast<int>(plan.tensors.size()) - 1;
  }
};

constexpr double kPerScore = 2 * 4 * (16 + 32);

TEST(MultiplyAdds, AttentionCountsBothProducts) {
  EXPECT_EQ(Attention(5, 7).macs(), kPerScore * 5 * 7);
  Attention unknown(5, 7);
  unknown.plan.tensors[1].shape[2] = unknown.plan.symbols.input("keys");
  EXPECT_EQ(unknown.macs(), -1);
}

TEST(MultiplyAdds, AttentionCountsTheKeysOfWindows) {
  Attention causal(5, 5);
  causal.attrs().right_window = 0;
  EXPECT_EQ(causal.macs(), kPerScore * (1 + 2 + 3 + 4 + 5));
  Attention sliding(5, 5);
  sliding.attrs().right_window = 0;
  sliding.attrs().left_window = 1;
  EXPECT_EQ(sliding.macs(), kPerScore * (1 + 2 + 2 + 2 + 2));
}

// Of 3 queries behind 4 keys of the past the first sees 5 keys.
TEST(MultiplyAdds, AttentionKnowsWhereQueriesBegin) {
  for (const bool is_given : {true, false}) {
    Attention later(3, 7);
    later.attrs().right_window = 0;
    const ir::Dim past = is_given ? ir::Dim(4) : later.plan.symbols.input("past");
    later.attrs().first_query = {past};
    EXPECT_EQ(later.macs(), kPerScore * (5 + 6 + 7)) << is_given;
    EXPECT_STREQ(counted_arithmetic(later.step), "");
  }
  Attention of_lengths(3, 7, true);
  of_lengths.attrs().right_window = 0;
  EXPECT_EQ(of_lengths.macs(), kPerScore * (5 + 6 + 7));
  EXPECT_STREQ(counted_arithmetic(of_lengths.step), "all keys");
}

TEST(MultiplyAdds, ViewsHaveNone) {
  Attention view(5, 7);
  view.step.is_view = true;
  EXPECT_EQ(view.macs(), 0);
  EXPECT_EQ(traffic(view.plan, view.step, nullptr).io_bytes, 0);
}

TEST(Traffic, TensorsAreReadAndWrittenOnce) {
  const Attention attention(5, 7);
  const Traffic moved = traffic(attention.plan, attention.step, nullptr);
  EXPECT_EQ(moved.io_bytes, 4 * (2 * 4 * 5 * (16 + 32) + 2 * 2 * 7 * (16 + 32)));
  EXPECT_EQ(moved.weight_bytes, 0);
}

}  // namespace
}  // namespace camshaft::inspect
