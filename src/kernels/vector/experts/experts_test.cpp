// SPDX-License-Identifier: Apache-2.0
// Experts against the reference kernel, which computes in double.
#include "ir/expert_weights.h"
#include "kernels/vector/byte_test_util.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr double kLargestScale = 0.01, kLargestFloat = 0.05, kLimit = 4;
constexpr const char* kSwiglu =
    "v2 = clip v0 -100 4; v3 = silu v2 1.702; v4 = clip v1 -4 4; v5 = mul v3 v4; v6 = add v3 v5";

struct Mixture {
  int64_t rows = 1, chosen = 2;
  int64_t experts = 5, width = 64, hidden = 48;
  int64_t up_bits = 4, down_bits = 4, up_block = 32, down_block = 16;
  DataType zero = DataType::kUndefined;
  bool has_bias = true;
  const char* activation = kSwiglu;
  int64_t favourite = 0;  // the only expert but for one row in four, if not 0

  int inputs() const { return *activation == 0 ? 0 : activation == kSwiglu ? 2 : 1; }
};

ir::ExpertsAttrs attributes_of(const Mixture& m) {
  ir::ExpertsAttrs a;
  a.experts = m.experts, a.width = m.width, a.hidden = m.hidden;
  a.up_bits = m.up_bits, a.down_bits = m.down_bits;
  a.up_block = m.up_block, a.down_block = m.down_block;
  a.up_zero = a.down_zero = m.zero;
  a.codes_rows = true;
  if (*m.activation) a.activation = ir::parse_program(m.inputs(), m.activation).value();
  return a;
}

TestTensor weights_of(const ir::ExpertProduct& product, int64_t experts, uint32_t seed) {
  TestTensor tensor{.extents = product.extents(experts),
                    .type = product.type(),
                    .is_data = false,
                    .is_constant = true};
  auto random = std::make_shared<std::mt19937>(seed);
  if (product.is_float()) {
    tensor.value = [random](int64_t) {
      return static_cast<float>(static_cast<double>((*random)() % 2001) / 1000 - 1) *
             static_cast<float>(kLargestFloat);
    };
    return tensor;
  }
  ir::ExpertProduct all = product;
  all.columns *= experts;
  const ir::RecordLayout layout(all.low_bits());
  std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
  ir::RecordWriter records(layout, bytes.data());
  for (int64_t column = 0; column < layout.columns; ++column)
    for (int64_t b = 0; b < layout.blocks(); ++b) {
      const auto codes = static_cast<uint32_t>(1) << product.bits;
      float zero = static_cast<float>(codes / 2);
      if (product.zero != DataType::kUndefined) zero = static_cast<float>((*random)() % codes);
      records.set_block(
          column, b,
          static_cast<float>(kLargestScale) * static_cast<float>((*random)() % 1000 + 1) / 1000,
          zero);
      for (int64_t k = 0; k < layout.count_of(b); ++k)
        records.set_code(column, b, k, static_cast<int>((*random)() % codes));
    }
  tensor.value = [bytes](int64_t k) {
    return static_cast<double>(std::to_integer<int>(bytes[static_cast<size_t>(k)]));
  };
  return tensor;
}

TestLayer layer_of(const Mixture& m) {
  const ir::ExpertsAttrs a = attributes_of(m);
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kExperts, a);
  test.inputs.push_back({.extents = {m.rows, m.width}});
  test.inputs.push_back({.extents = {m.rows, m.chosen},
                         .type = DataType::kInt64,
                         .is_data = false,
                         .value = [m](int64_t k) {
                           const int64_t row = k / m.chosen;
                           if (m.favourite > 0 && row % 4 != 3)
                             return static_cast<double>(m.favourite);
                           return static_cast<double>((row * 7 + k % m.chosen * 3) % m.experts);
                         }});
  test.inputs.push_back({.extents = {m.rows, m.chosen}, .is_data = false});
  test.inputs.push_back(weights_of(ir::up_product(a), m.experts, 3));
  test.inputs.push_back(weights_of(ir::down_product(a), m.experts, 4));
  if (m.has_bias) {
    test.inputs.push_back({.extents = {m.experts, ir::up_product(a).columns}, .is_data = false});
    test.inputs.push_back({.extents = {m.experts, m.width}, .is_data = false});
  }
  test.outputs.push_back({.extents = {m.rows, m.width}});
  return test;
}

double largest_weight(int64_t bits) {
  return bits == 0 ? kLargestFloat : kLargestScale * static_cast<double>(1 << bits);
}

// What an error of `error` times the largest of every product's factors makes of the result: that
// of the first product passes the activation, whose slope is at most 1.1 but for SwiGLU's two
// factors.
void check(const Mixture& m, const char* only, double error) {
  TestLayer test = layer_of(m);
  test.only = only;
  const double first = 2 * static_cast<double>(m.width) * largest_weight(m.up_bits) + 2;
  const double slope = m.activation == kSwiglu ? 2 * (kLimit + 1) : 1.2;
  const double most = m.activation == kSwiglu ? std::min(first, kLimit) * (kLimit + 1) : first;
  const double second = static_cast<double>(m.hidden) * largest_weight(m.down_bits);
  test.tolerance = 2 * static_cast<double>(m.chosen) * error * second * (slope * first + most);
  check_layer(test,
              words({m.rows, m.chosen, m.experts, m.width, m.hidden, m.up_bits, m.down_bits}) +
                  m.activation + " " + only);
}

void check(const Mixture& m) {
  if (m.up_bits == 0) return check(m, "experts_f32", 0x1p-23);
  for (const bool words_only : {false, true}) {
    force_word_products(words_only);
    check(m, "i24", 0x1p-23 + 0x1p-24);
    check(m, "nbits_f32", 0x1p-22);
    check(m, "i8", 0.51 / 127);
  }
  force_word_products(false);
}

TEST(Experts, RowsAndChoices) {
  for (const int64_t bits : {0, 4})
    for (const int64_t rows : {1, 2, 5, 33, 150})
      for (const int64_t chosen : {1, 2, 4})
        check({.rows = rows, .chosen = chosen, .up_bits = bits, .down_bits = bits});
}

TEST(Experts, ManyRowsOfOneExpert) {
  for (const int64_t bits : {0, 4})
    check({.rows = 200, .experts = 3, .up_bits = bits, .down_bits = bits, .favourite = 2});
}

TEST(Experts, Extents) {
  for (const int64_t bits : {0, 8})
    for (const int64_t width : {3, 40, 130, 600})
      for (const int64_t hidden : {5, 64, 97})
        for (const int64_t rows : {1, 30})
          check({.rows = rows,
                 .experts = 3,
                 .width = width,
                 .hidden = hidden,
                 .up_bits = bits,
                 .down_bits = bits});
}

TEST(Experts, BitsBlocksAndZeros) {
  for (const int64_t up : {2, 4, 8})
    for (const int64_t down : {2, 4, 8})
      for (const int64_t block : {16, 32, 100, 1000})
        for (const DataType zero : {DataType::kUndefined, DataType::kUInt8})
          check({.rows = 21,
                 .width = 200,
                 .hidden = 100,
                 .up_bits = up,
                 .down_bits = down,
                 .up_block = block,
                 .down_block = block,
                 .zero = zero});
}

TEST(Experts, Activations) {
  for (const char* activation :
       {"", "v1 = relu v0", "v1 = gelu_tanh v0", "v1 = silu v0 1", kSwiglu})
    for (const bool has_bias : {false, true})
      for (const int64_t bits : {0, 4})
        check({.rows = 20,
               .up_bits = bits,
               .down_bits = bits,
               .has_bias = has_bias,
               .activation = activation});
}

TEST(Experts, NoRowsAndNoChoices) {
  check({.rows = 0});
  check({.rows = 3, .chosen = 0});
}

TEST(Experts, Int8OnlyWhereTheModelAllowsIt) {
  const Mixture m;
  ir::ExpertsAttrs a = attributes_of(m);
  a.codes_rows = false;
  TestLayer test = layer_of(m);
  test.layer = make_layer(ir::LayerKind::kExperts, a);
  test.only = "i8";
  LayerCheck layer(test);
  EXPECT_EQ(layer.run(), 0);
  EXPECT_EQ(layer.last_refusal(), "the model does not allow int8 rows");
}

// --- one tactic at a time

struct Tensors {
  TestLayer test;
  std::vector<Storage> inputs;
  std::vector<ir::ConstantData> constants;
  Storage y;
  Problem problem;

  explicit Tensors(const Mixture& m) : test(layer_of(m)) {
    problem.layer = test.layer.get();
    constants.resize(test.inputs.size());
    for (size_t k = 0; k < test.inputs.size(); ++k) {
      const TestTensor& tensor = test.inputs[k];
      inputs.push_back(make_storage(tensor, Format::kLinear, 0));
      const std::vector<double> values = make_values(tensor, static_cast<uint32_t>(k + 1));
      if (ir::is_floating(tensor.type))
        reference::store<double>(inputs[k].view, values);
      else
        reference::store<int64_t>(inputs[k].view,
                                  std::vector<int64_t>(values.begin(), values.end()));
      constants[k].view = inputs[k].bytes;
      problem.inputs.push_back({true, tensor.type, Format::kLinear, tensor.extents,
                                tensor.is_constant ? &constants[k] : nullptr});
    }
    y = make_storage(test.outputs[0], Format::kLinear, 0);
    problem.outputs.push_back({true, DataType::kFloat, Format::kLinear, test.outputs[0].extents});
  }

  Status run(const Tactic& tactic, int threads) {
    ThreadPool pool(threads);
    std::vector<TensorView> in;
    for (size_t k = 0; k < inputs.size(); ++k) {
      in.push_back(inputs[k].view);
      if ((tactic.packed_inputs(problem) >> k & 1u) != 0) in.back().data = nullptr;
    }
    std::vector<std::byte> packed(tactic.packed_bytes(problem));
    tactic.pack(problem, packed.data());
    return run_once(tactic, {test.layer.get(), in, {&y.view, 1}, packed.data(), nullptr, &pool});
  }
};

// Sums do not depend on who computes them.
TEST(Experts, EqualBitsOfAnyNumberOfThreads) {
  for (const int64_t rows : {1, 70})
    for (const int64_t bits : {0, 4}) {
      Tensors tensors(
          {.rows = rows, .width = 256, .hidden = 192, .up_bits = bits, .down_bits = bits});
      int ran = 0;
      for (const Tactic* tactic : tactics_for(ir::LayerKind::kExperts)) {
        if (!tactic->refusal(tensors.problem).empty()) continue;
        ASSERT_TRUE(tensors.run(*tactic, 1).ok());
        const std::vector<std::byte> alone = tensors.y.bytes;
        for (const int threads : {2, 3, 5}) {
          std::fill(tensors.y.bytes.begin(), tensors.y.bytes.end(), std::byte{0xff});
          ASSERT_TRUE(tensors.run(*tactic, threads).ok());
          EXPECT_EQ(tensors.y.bytes, alone) << tactic->name << ", " << threads << " threads";
        }
        ++ran;
      }
      EXPECT_GT(ran, 0);
    }
}

TEST(Experts, RefusesExpertsThatAreNotThere) {
  for (const int64_t wrong : {int64_t{-1}, int64_t{5}, int64_t{1} << 40}) {
    Tensors tensors({.rows = 3});
    tensors.inputs[ir::kExpertsChosen].view.as<int64_t>()[4] = wrong;
    for (const Tactic* tactic : tactics_for(ir::LayerKind::kExperts)) {
      if (!tactic->refusal(tensors.problem).empty()) continue;
      EXPECT_EQ(tensors.run(*tactic, 1).message(),
                "expert " + std::to_string(wrong) + " is chosen of 5");
    }
  }
}

}  // namespace
}  // namespace camshaft::kernels::test
