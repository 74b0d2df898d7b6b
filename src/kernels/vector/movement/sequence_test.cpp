// SPDX-License-Identifier: Apache-2.0
// ReverseSequence, MaxUnpool and Dropout: every type, awkward extents, and numbers out of range.
#include "kernels/prepared.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using test::check_layer;
using test::TestLayer;

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kInt64, DataType::kUInt8,
                               DataType::kHalf};

TestLayer reversal(const ir::Extents& x, int64_t time_axis, DataType type) {
  const std::vector<ir::GenericAttribute> attributes = {{"batch_axis", {1 - time_axis}, {}, ""},
                                                        {"time_axis", {time_axis}, {}, ""}};
  const int64_t items = x[1 - time_axis], steps = x[time_axis];
  return {.layer = test::make_layer(ir::LayerKind::kGeneric,
                                    ir::GenericAttrs{"ReverseSequence", 10, attributes}),
          .inputs = {{.extents = x, .type = type},
                     {.extents = {items},
                      .type = DataType::kInt64,
                      .value =
                          [steps](int64_t k) {
                            return static_cast<double>((k * 7 + 3) % (steps + 1));
                          }}},
          .outputs = {{.extents = x, .type = type}},
          .tolerance = 0,
          .strided_inputs = false,
          .strided_outputs = false};
}

TEST(ReverseSequence, FirstSteps) {
  for (const ir::Extents& x :
       {ir::Extents{5, 7}, {9, 4, 33}, {3, 11, 2, 5}, {1, 40, 300}, {6, 1, 1}})
    for (const int64_t time_axis : {0, 1})
      for (const DataType type : kTypes)
        check_layer(reversal(x, time_axis, type),
                    ::testing::PrintToString(std::vector<int64_t>(x.begin(), x.end())) +
                        std::to_string(time_axis));
}

// Places go around so that some are written twice: the last one stays.
TestLayer unpooling(const ir::Extents& x, int64_t window, DataType type) {
  const size_t spatial = x.size() - 2;
  const std::vector<ir::GenericAttribute> attributes = {
      {"kernel_shape", ir::Ints(spatial, window), {}, ""},
      {"strides", ir::Ints(spatial, 2), {}, ""},
      {"pads", ir::Ints(2 * spatial, window / 2 - 1), {}, ""}};
  ir::Extents y = x;
  int64_t places = x[0] * x[1];
  for (size_t d = 2; d < x.size(); ++d) {
    y[d] = (x[d] - 1) * 2 - 2 * (window / 2 - 1) + window;
    places *= y[d];
  }
  return {
      .layer =
          test::make_layer(ir::LayerKind::kGeneric, ir::GenericAttrs{"MaxUnpool", 22, attributes}),
      .inputs = {{.extents = x, .type = type},
                 {.extents = x,
                  .type = DataType::kInt64,
                  .value = [places](int64_t k) { return static_cast<double>(k * 131 % places); }}},
      .outputs = {{.extents = y, .type = type}},
      .tolerance = 0,
      .strided_inputs = false,
      .strided_outputs = false};
}

TEST(MaxUnpool, PutsElementsBack) {
  for (const ir::Extents& x : {ir::Extents{1, 3, 8, 8}, {2, 5, 7, 3}, {2, 4, 30}, {1, 2, 3, 4, 5}})
    for (const int64_t window : {2, 3, 4})
      for (const DataType type : kTypes)
        check_layer(unpooling(x, window, type),
                    ::testing::PrintToString(std::vector<int64_t>(x.begin(), x.end())) +
                        std::to_string(window));
}

// Told by an input: while training the same elements are dropped, in whatever order they lie.
TEST(Dropout, DropsWhileTrainingOnly) {
  for (const ir::Extents& x : {ir::Extents{5, 7}, {2, 9, 4, 33}, {1, 40, 30, 70}, {6}})
    for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kDouble})
      for (const bool training : {false, true})
        for (const double ratio : {0.0, 0.25})
          for (const size_t outputs : {1, 2}) {
            const std::vector<ir::GenericAttribute> seed = {{"seed", {3}, {}, ""}};
            TestLayer test{
                .layer = test::make_layer(ir::LayerKind::kGeneric,
                                          ir::GenericAttrs{"Dropout", 13, seed}),
                .inputs = {{.extents = x, .type = type},
                           {.extents = {}, .type = type, .value = [=](int64_t) { return ratio; }},
                           {.extents = {},
                            .type = DataType::kBool,
                            .value = [=](int64_t) { return training ? 1.0 : 0.0; }}},
                .outputs = {{.extents = x, .type = type}, {.extents = x, .type = DataType::kBool}},
                .tolerance = 0};
            test.outputs.resize(outputs);
            check_layer(test, fmt::format("{} training {} ratio {} outputs {}",
                                          ::testing::PrintToString(x), training, ratio, outputs));
          }
}

// The layer's second input is `numbers`: the kernels say what the reference does.
void expect_error(const TestLayer& test, std::vector<int64_t> numbers, const std::string& message) {
  std::vector<float> x(ir::element_count(test.inputs[0].extents)),
      y(ir::element_count(test.outputs[0].extents));
  const ir::Extents count = test.inputs[1].extents;
  numbers.resize(ir::element_count(count), 0);
  const TensorView inputs[] = {
      make_view(x.data(), DataType::kFloat, Format::kLinear, test.inputs[0].extents),
      make_view(numbers.data(), DataType::kInt64, Format::kLinear, count)};
  const TensorView outputs[] = {
      make_view(y.data(), DataType::kFloat, Format::kLinear, test.outputs[0].extents)};
  KernelArgs args;
  args.layer = test.layer.get();
  args.inputs = inputs, args.outputs = outputs;
  std::vector<DynamicOutput> given;
  EXPECT_EQ(reference_kernel(*test.layer)->run_dynamic(args, given).message(), message);
  Problem problem;
  problem.layer = test.layer.get();
  problem.inputs = {{true, DataType::kFloat, Format::kLinear, test.inputs[0].extents},
                    {true, DataType::kInt64, Format::kLinear, count}};
  problem.outputs = {{true, DataType::kFloat, Format::kLinear, test.outputs[0].extents}};
  for (const Tactic* tactic : tactics_for(ir::LayerKind::kGeneric)) {
    if (!tactic->refusal(problem).empty()) continue;
    EXPECT_EQ(run_once(*tactic, args).message(), message) << tactic->name;
  }
}

TEST(ReverseSequence, TellsLengthsOutOfRange) {
  const TestLayer test = reversal({5, 7, 3}, 0, DataType::kFloat);
  expect_error(test, {2, 6}, "sequence length 6 of 5");
  expect_error(test, {2, 0, -1}, "sequence length -1 of 5");
}

TEST(MaxUnpool, TellsPlacesOutOfRange) {
  const TestLayer test = unpooling({1, 3, 4, 4}, 2, DataType::kFloat);
  expect_error(test, {2, 192}, "MaxUnpool: index 192 of 192 elements");
  expect_error(test, {2, -1}, "MaxUnpool: index -1 of 192 elements");
}

}  // namespace
}  // namespace camshaft::kernels
