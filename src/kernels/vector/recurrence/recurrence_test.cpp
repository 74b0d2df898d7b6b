// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

using ir::RnnDirection;
using ir::RnnKind;

struct Case {
  RnnKind kind;
  int64_t steps, batch, inputs, hidden;
  RnnDirection direction = RnnDirection::kForward;
  bool bias = true, initial = true, batch_first = false, linear_before_reset = false;
  std::vector<int64_t> lengths = {};  // empty: all steps
  std::vector<std::string> activations = {};
  std::vector<float> alpha = {}, beta = {};
  float clip = 0;
  bool input_forget = false, peepholes = false;
};

TestLayer make_test(const Case& c) {
  ir::RnnAttrs attrs;
  attrs.kind = c.kind;
  attrs.hidden_size = c.hidden;
  attrs.direction = c.direction;
  attrs.batch_first = c.batch_first;
  attrs.linear_before_reset = c.linear_before_reset;
  attrs.activations = c.activations;
  attrs.activation_alpha = c.alpha;
  attrs.activation_beta = c.beta;
  attrs.clip = c.clip;
  attrs.input_forget = c.input_forget;
  const int64_t gates = c.kind == RnnKind::kLstm ? 4 : c.kind == RnnKind::kGru ? 3 : 1;
  const int64_t d = c.direction == RnnDirection::kBidirectional ? 2 : 1;
  const auto small = [](int64_t k) { return static_cast<double>((k * 7919) % 201 - 100) / 250; };
  const auto weights = [&](Extents extents) {
    return TestTensor{.extents = extents, .is_data = false, .is_constant = true, .value = small};
  };
  const Extents state =
      c.batch_first ? Extents{c.batch, d, c.hidden} : Extents{d, c.batch, c.hidden};
  TestLayer test{.layer = make_layer(ir::LayerKind::kRecurrence, attrs),
                 .inputs = {},
                 .outputs = {},
                 .tolerance = 1e-6 + 3e-8 * static_cast<double>(c.inputs + c.hidden)};
  TestTensor lengths{
      .extents = {}, .type = DataType::kInt32, .is_data = false, .present = !c.lengths.empty()};
  if (lengths.present) {
    lengths.extents = {c.batch};
    lengths.value = [all = c.lengths](int64_t k) {
      return static_cast<double>(all[static_cast<size_t>(k)]);
    };
  }
  TestTensor bias = weights({d, 2 * gates * c.hidden}), initial{.extents = state};
  bias.present = c.bias;
  initial.present = c.initial;
  test.inputs = {{.extents = c.batch_first ? Extents{c.batch, c.steps, c.inputs}
                                           : Extents{c.steps, c.batch, c.inputs}},
                 weights({d, gates * c.hidden, c.inputs}),
                 weights({d, gates * c.hidden, c.hidden}),
                 bias,
                 lengths,
                 initial};
  test.outputs = {{.extents = c.batch_first ? Extents{c.batch, c.steps, d, c.hidden}
                                            : Extents{c.steps, d, c.batch, c.hidden}},
                  {.extents = state}};
  if (c.kind == RnnKind::kLstm) {
    test.inputs.push_back(initial);
    test.outputs.push_back({.extents = state});
    if (c.peepholes) test.inputs.push_back(weights({d, 3 * c.hidden}));
  }
  return test;
}

void check(const Case& c) {
  LayerCheck layer(make_test(c));
  EXPECT_GT(layer.run(), 0) << layer.last_refusal();
}

TEST(Recurrence, SizesAndTails) {
  for (RnnKind kind : {RnnKind::kLstm, RnnKind::kGru, RnnKind::kRnn})
    for (int64_t hidden : {1, 5, 16, 33})
      for (int64_t batch : {1, 3, 17}) check({kind, 3, batch, 7, hidden});
}

TEST(Recurrence, DirectionsAndLayouts) {
  for (RnnKind kind : {RnnKind::kLstm, RnnKind::kGru, RnnKind::kRnn})
    for (RnnDirection direction :
         {RnnDirection::kForward, RnnDirection::kReverse, RnnDirection::kBidirectional})
      for (bool batch_first : {false, true})
        check({.kind = kind,
               .steps = 4,
               .batch = 2,
               .inputs = 5,
               .hidden = 9,
               .direction = direction,
               .batch_first = batch_first});
}

TEST(Recurrence, OptionalInputs) {
  for (RnnKind kind : {RnnKind::kLstm, RnnKind::kGru, RnnKind::kRnn}) {
    check({.kind = kind, .steps = 2, .batch = 2, .inputs = 5, .hidden = 8, .bias = false});
    check({.kind = kind, .steps = 2, .batch = 2, .inputs = 5, .hidden = 8, .initial = false});
  }
  check({.kind = RnnKind::kGru,
         .steps = 3,
         .batch = 2,
         .inputs = 5,
         .hidden = 12,
         .linear_before_reset = true});
}

// Padded batches: each item ends by itself, in any order, one of them before it begins.
TEST(Recurrence, SequenceLengths) {
  for (RnnKind kind : {RnnKind::kLstm, RnnKind::kGru, RnnKind::kRnn})
    for (RnnDirection direction : {RnnDirection::kForward, RnnDirection::kBidirectional})
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{5, 3, 2}, {2, 0, 4}, {0, 0, 0}})
        for (bool before : {false, true})
          check({.kind = kind,
                 .steps = 5,
                 .batch = 3,
                 .inputs = 6,
                 .hidden = 19,
                 .direction = direction,
                 .batch_first = before,
                 .linear_before_reset = before && kind == RnnKind::kGru,
                 .lengths = lengths});
}

// Weights as codes: int8 with zero points 0, or uint8 with others.
TestLayer make_test_of_codes(const Case& c, DataType type) {
  TestLayer test = make_test(c);
  const int64_t d = c.direction == RnnDirection::kBidirectional ? 2 : 1;
  const auto constant = [&](Extents extents, DataType t, auto value) {
    return TestTensor{
        .extents = extents, .type = t, .is_data = false, .is_constant = true, .value = value};
  };
  const bool is_signed = type == DataType::kInt8;
  const auto codes = [is_signed](int64_t k) {
    return static_cast<double>((k * 7919) % 255 - (is_signed ? 127 : 0));
  };
  const auto scale = [](int64_t k) { return 0.002 + 1e-4 * static_cast<double>(k % 7); };
  const auto zero = [is_signed](int64_t k) {
    return is_signed ? 0.0 : static_cast<double>(120 + k % 5);
  };
  const Extents grid = {d, 4 * c.hidden};
  test.inputs[1] = constant({d, 4 * c.hidden, c.inputs}, type, codes);
  test.inputs[2] = constant({d, 4 * c.hidden, c.hidden}, type, codes);
  if (!c.peepholes) test.inputs.push_back({.extents = {}, .present = false});
  for (int k = 0; k < 2; ++k) {
    test.inputs.push_back(constant(grid, DataType::kFloat, scale));
    test.inputs.push_back(constant(grid, type, zero));
  }
  return test;
}

void check_codes(const Case& c) {
  for (const DataType type : {DataType::kInt8, DataType::kUInt8}) {
    LayerCheck layer(make_test_of_codes(c, type));
    EXPECT_GT(layer.run(), 0) << layer.last_refusal();
  }
}

TEST(Recurrence, CodesSizesAndTails) {
  for (int64_t hidden : {1, 5, 16, 33})
    for (int64_t batch : {1, 3, 17}) check_codes({RnnKind::kLstm, 3, batch, 7, hidden});
}

TEST(Recurrence, CodesInEveryForm) {
  for (RnnDirection direction :
       {RnnDirection::kForward, RnnDirection::kReverse, RnnDirection::kBidirectional})
    for (bool batch_first : {false, true})
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{}, {5, 3, 2}, {2, 0, 4}, {0, 0, 0}})
        check_codes({.kind = RnnKind::kLstm,
                     .steps = 5,
                     .batch = 3,
                     .inputs = 6,
                     .hidden = 19,
                     .direction = direction,
                     .bias = !batch_first,
                     .initial = lengths.empty() || lengths[0] != 5,
                     .batch_first = batch_first,
                     .lengths = lengths});
}

TEST(Recurrence, LargeEnoughForThreads) {
  check_codes({RnnKind::kLstm, 2, 1, 257, 128});
  check({RnnKind::kLstm, 2, 1, 257, 128});
}

// Every function of ONNX in every place, with its usual parameters and with others.
TEST(Recurrence, Activations) {
  for (const char* name : {"Relu", "tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu",
                           "ScaledTanh", "HardSigmoid", "Elu", "Softsign", "Softplus"})
    for (const bool with_parameters : {false, true}) {
      const auto check_functions = [&](RnnKind kind, const std::vector<std::string>& functions) {
        Case c{.kind = kind, .steps = 3, .batch = 3, .inputs = 7, .hidden = 19};
        c.activations = functions;
        if (with_parameters) c.alpha = {0.3f, 0.7f}, c.beta = {0.25f, 0.6f};
        SCOPED_TRACE(name);
        TestLayer test = make_test(c);
        test.tolerance *= 4;  // errors grow with slopes above 1
        LayerCheck layer(test);
        EXPECT_GT(layer.run(), 0) << layer.last_refusal();
      };
      check_functions(RnnKind::kRnn, {name});
      check_functions(RnnKind::kGru, {"HardSigmoid", name});
      check_functions(RnnKind::kGru, {name, "Tanh"});
      check_functions(RnnKind::kLstm, {name, "ScaledTanh", "Tanh"});
      check_functions(RnnKind::kLstm, {"Sigmoid", name, "Tanh"});
      check_functions(RnnKind::kLstm, {"Sigmoid", "Tanh", name});
    }
}

TEST(Recurrence, ActivationsOfEachDirection) {
  for (const bool before : {false, true}) {
    check({.kind = RnnKind::kGru,
           .steps = 4,
           .batch = 2,
           .inputs = 5,
           .hidden = 9,
           .direction = RnnDirection::kBidirectional,
           .batch_first = before,
           .linear_before_reset = before,
           .activations = {"HardSigmoid", "Tanh", "Sigmoid", "Affine"},
           .alpha = {0.3f, 0.5f},
           .beta = {0.4f}});
    check({.kind = RnnKind::kRnn,
           .steps = 4,
           .batch = 2,
           .inputs = 5,
           .hidden = 33,
           .direction = RnnDirection::kBidirectional,
           .batch_first = before,
           .activations = {"Relu", "Tanh"}});
  }
}

TEST(Recurrence, PeepholesLimitsAndCoupledGates) {
  for (const bool peepholes : {false, true})
    for (const bool input_forget : {false, true})
      for (const float clip : {0.0f, 0.4f})
        for (const RnnDirection direction : {RnnDirection::kForward, RnnDirection::kBidirectional})
          for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{}, {2, 0, 4}}) {
            const Case c{.kind = RnnKind::kLstm,
                         .steps = 4,
                         .batch = 3,
                         .inputs = 6,
                         .hidden = 21,
                         .direction = direction,
                         .lengths = lengths,
                         .clip = clip,
                         .input_forget = input_forget,
                         .peepholes = peepholes};
            check(c);
            check_codes(c);
          }
  for (const RnnKind kind : {RnnKind::kGru, RnnKind::kRnn})
    check({.kind = kind, .steps = 3, .batch = 2, .inputs = 6, .hidden = 21, .clip = 0.3f});
}

}  // namespace
}  // namespace camshaft::kernels::test
