// SPDX-License-Identifier: Apache-2.0
#include "tuner/sample_values.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "kernels/attention_shape.h"

namespace camshaft::tuner {
namespace {

using ir::DataType;

struct Sampled {
  ir::Layer layer;
  kernels::Problem problem;
  std::vector<std::byte> memory;
  kernels::TensorView view;

  Sampled(ir::LayerKind kind, ir::Attrs attrs, const ir::Extents& data, size_t input,
          const ir::Extents& extents, DataType type) {
    layer.kind = kind;
    layer.attrs = std::move(attrs);
    problem.layer = &layer;
    problem.inputs.resize(std::max<size_t>(2, input + 1));
    problem.inputs[0] = tensor(data, DataType::kFloat);
    problem.inputs[input] = tensor(extents, type);
    memory.resize(ir::bytes_for(type, ir::element_count(extents)));
    view = kernels::make_view(memory.data(), type, ir::Format::kLinear, extents);
    fill_sample(problem, input, view);
  }

  static kernels::ProblemTensor tensor(const ir::Extents& extents, DataType type) {
    kernels::ProblemTensor t;
    t.present = true;
    t.type = type;
    t.extents = extents;
    return t;
  }

  template <class T>
  std::set<T> values() const {
    return {view.as<T>(), view.as<T>() + view.elements()};
  }
};

// Sequences are as long as they can be: with none there is nothing to time.
TEST(SampleValues, LengthsAreWhole) {
  ir::RnnAttrs rnn;
  const Sampled steps(ir::LayerKind::kRecurrence, rnn, {14, 3, 64}, 4, {3}, DataType::kInt32);
  EXPECT_EQ(steps.values<int32_t>(), std::set<int32_t>{14});
  rnn.batch_first = true;
  const Sampled batch(ir::LayerKind::kRecurrence, rnn, {3, 17, 64}, 4, {3}, DataType::kInt32);
  EXPECT_EQ(batch.values<int32_t>(), std::set<int32_t>{17});

  ir::Layer layer;
  layer.kind = ir::LayerKind::kAttention;
  layer.attrs = ir::AttentionAttrs{};
  kernels::Problem problem;
  problem.layer = &layer;
  for (const int64_t rows : {5, 40, 40})
    problem.inputs.push_back(Sampled::tensor({2, 4, rows, 8}, DataType::kFloat));
  problem.inputs.push_back(Sampled::tensor({2}, DataType::kInt64));
  problem.outputs.push_back(Sampled::tensor({2, 4, 5, 8}, DataType::kFloat));
  int64_t lengths[2] = {};
  fill_sample(problem, kernels::kAttentionLengths,
              kernels::make_view(reinterpret_cast<std::byte*>(lengths), DataType::kInt64,
                                 ir::Format::kLinear, ir::Extents{2}));
  EXPECT_EQ(lengths[0], 40);
  EXPECT_EQ(lengths[1], 40);
}

// A table's rows are met all over, none outside.
TEST(SampleValues, IndicesSpreadOverWhatTheyIndex) {
  ir::GatherAttrs rows;
  rows.axis = 1;
  const Sampled gather(ir::LayerKind::kGather, rows, {4, 1000, 8}, 1, {512}, DataType::kInt64);
  const std::set<int64_t> found = gather.values<int64_t>();
  EXPECT_GT(found.size(), 300u);
  EXPECT_GE(*found.begin(), 0);
  EXPECT_LT(*found.rbegin(), 1000);
  EXPECT_GT(*found.rbegin(), 900);

  ir::GatherAttrs tuples;
  tuples.mode = ir::GatherMode::kNd;
  const Sampled nd(ir::LayerKind::kGather, tuples, {50, 7, 9}, 1, {64, 2}, DataType::kInt64);
  EXPECT_EQ(nd.values<int64_t>().size(), 7u);  // no more than fit both dimensions

  ir::ScatterAttrs elements;
  elements.axis = 0;
  const Sampled scatter(ir::LayerKind::kScatter, elements, {5, 3}, 1, {40, 3}, DataType::kInt32);
  EXPECT_EQ(scatter.values<int32_t>(), (std::set<int32_t>{0, 1, 2, 3, 4}));
}

TEST(SampleValues, ChoicesAndFloatsVaryOthersAreZero) {
  const Sampled choice(ir::LayerKind::kSelect, ir::NoAttrs(), {64}, 0, {64}, DataType::kBool);
  EXPECT_EQ(choice.values<uint8_t>(), (std::set<uint8_t>{0, 1}));
  const Sampled floats(ir::LayerKind::kSoftMax, ir::SoftMaxAttrs(), {64}, 0, {64},
                       DataType::kFloat);
  EXPECT_GT(floats.values<float>().size(), 60u);
  EXPECT_LT(*floats.values<float>().begin(), 0);
  const Sampled counts(ir::LayerKind::kExpand, ir::NoAttrs(), {64}, 1, {2}, DataType::kInt64);
  EXPECT_EQ(counts.values<int64_t>(), std::set<int64_t>{0});
  const Sampled empty(ir::LayerKind::kGather, ir::GatherAttrs(), {0, 4}, 1, {3}, DataType::kInt64);
  EXPECT_EQ(empty.values<int64_t>(), std::set<int64_t>{0});
}

}  // namespace
}  // namespace camshaft::tuner
