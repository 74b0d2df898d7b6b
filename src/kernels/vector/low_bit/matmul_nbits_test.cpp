// SPDX-License-Identifier: Apache-2.0
// Products with weights of few bits against the reference kernel, which computes in double.
#include "ir/weight_records.h"
#include "kernels/vector/byte_test_util.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr double kLargestScale = 0.1;

struct BitProduct {
  Extents a = {1, 64};
  int64_t columns = 16;
  int64_t bits = 4, block = 32;
  DataType zero = DataType::kUndefined;
  bool exact_rows = false;  // integers that int8 represents
  bool sparse = false;      // 2:4
  Extents bias = {};
  bool has_bias = false;
  const char* epilogue = "";
  std::vector<Extents> operands = {};  // its own

  int64_t depth() const { return a.back(); }
  Extents y() const {
    Extents y = a;
    y.back() = columns;
    return y;
  }
};

// Whether `random` of a group of four keeps code `k` of it.
bool keeps(uint32_t random, int64_t k) {
  static constexpr uint32_t kPairs[8] = {3, 5, 9, 6, 10, 12, 8, 0};
  return (kPairs[random % 8] >> k & 1) != 0;
}

std::vector<std::byte> random_records(const ir::LowBits& weights, bool sparse) {
  const ir::RecordLayout layout(weights);
  std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
  ir::RecordWriter records(layout, bytes.data());
  std::mt19937 random(17);
  for (int64_t column = 0; column < layout.columns; ++column)
    for (int64_t b = 0; b < layout.blocks(); ++b) {
      const float scale =
          static_cast<float>(kLargestScale) * static_cast<float>(random() % 1000 + 1) / 1000;
      float zero = static_cast<float>(1 << (weights.bits - 1));
      if (weights.zero == DataType::kUInt8)
        zero = static_cast<float>(random() % (1 << weights.bits));
      if (weights.zero == DataType::kFloat) zero += static_cast<float>(random() % 100) / 40 - 1;
      records.set_block(column, b, scale, zero);
      uint32_t group = 0;
      for (int64_t k = 0; k < layout.count_of(b); ++k) {
        if (k % 4 == 0) group = random();
        const int code = static_cast<int>(random() % (1 << weights.bits));
        records.set_code(column, b, k,
                         sparse && !keeps(group, k % 4) ? static_cast<int>(zero) : code);
      }
    }
  return bytes;
}

ir::LowBits weights_of(const BitProduct& p) {
  ir::LowBits weights;
  weights.columns = p.columns;
  weights.depth = p.depth();
  weights.bits = p.bits;
  weights.block = p.block;
  weights.zero = p.zero;
  weights.codes_rows = true;
  if (*p.epilogue)
    weights.epilogue =
        ir::parse_program(1 + static_cast<int>(p.operands.size()), p.epilogue).value();
  return weights;
}

TestLayer layer_of(const BitProduct& p) {
  const ir::LowBits weights = weights_of(p);
  const std::vector<std::byte> records = random_records(weights, p.sparse);
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kLowBitMultiply, weights);
  test.inputs.push_back({.extents = p.a});
  if (p.exact_rows)
    test.inputs[0].value = [](int64_t k) {
      return k % 4 == 3 ? 127.0 : static_cast<double>((k * 37 + k / 16 * 11) % 255 - 127);
    };
  test.inputs.push_back({.extents = {static_cast<int64_t>(records.size())},
                         .type = DataType::kUInt8,
                         .is_data = false,
                         .is_constant = true,
                         .value = [records](int64_t k) {
                           return static_cast<double>(
                               std::to_integer<int>(records[static_cast<size_t>(k)]));
                         }});
  if (p.has_bias) test.inputs.push_back({.extents = p.bias, .is_data = false});
  if (!p.has_bias && !p.operands.empty()) test.inputs.push_back({.extents = {}, .present = false});
  for (const Extents& operand : p.operands)
    test.inputs.push_back({.extents = operand, .is_data = false});
  test.outputs.push_back({.extents = p.y()});
  return test;
}

// Every product of weight and row element may be wrong by `error` times the largest of both; sums
// of blocks are floats.
void check(const BitProduct& p, const char* only, double error) {
  TestLayer test = layer_of(p);
  const double weight = kLargestScale * static_cast<double>(1 << p.bits);
  const double largest = p.exact_rows ? 127 : 2;
  test.only = only;
  test.tolerance = static_cast<double>(p.depth()) * weight * largest * error;
  check_layer(test, words({p.a[0], p.depth(), p.columns, p.bits, p.block}) +
                        std::string(ir::type_name(p.zero)) + " " + only);
}

// Rows as 24-bit integers: half a unit, which is 2^-22 of the largest at most; a float's rounding
// for every block on top. Rows as int8: half a step of 1 / 127.
void check(const BitProduct& p) {
  for (const bool words_only : {false, true}) {
    force_word_products(words_only);
    check(p, p.sparse ? "sparse_nbits_i24" : "i24", 0x1p-23 + 0x1p-24);
    check(p, p.sparse ? "sparse_nbits_i8" : "i8", p.exact_rows ? 0x1p-22 : 0.51 / 127);
  }
  force_word_products(false);
}

TEST(MatmulNBits, Tails) {
  for (const int64_t columns : {1, 7, 16, 33, 64, 65, 130})
    for (const int64_t rows : {1, 2, 3, 4, 5, 9})
      check({.a = {rows, 96}, .columns = columns, .exact_rows = true});
}

TEST(MatmulNBits, BlocksAndBits) {
  for (const int64_t bits : {2, 4, 8})
    for (const int64_t block : {16, 20, 32, 64, 128, 256, 1000})
      for (const int64_t depth : {64, 77, 300})
        for (const DataType zero : {DataType::kUndefined, DataType::kUInt8, DataType::kFloat})
          for (const bool exact : {false, true})
            check({.a = {3, depth},
                   .columns = 40,
                   .bits = bits,
                   .block = block,
                   .zero = zero,
                   .exact_rows = exact});
}

TEST(MatmulNBits, Sparse) {
  for (const int64_t columns : {1, 7, 33, 65, 130})
    for (const int64_t rows : {1, 2, 3, 4, 5, 9})
      check({.a = {rows, 96}, .columns = columns, .exact_rows = true, .sparse = true});
  for (const int64_t block : {32, 64, 128, 256, 1024})
    for (const int64_t depth : {64, 96, 324, 1024})
      for (const DataType zero : {DataType::kUndefined, DataType::kUInt8})
        if (block % 32 == 0 && (block <= depth || depth % 32 == 0))
          check({.a = {3, depth}, .columns = 40, .block = block, .zero = zero, .sparse = true});
}

// Sums are exact in integers: rows of the same bytes give the same floats.
TEST(MatmulNBits, SparseIsDense) {
  for (const bool words_only : {false, true}) {
    force_word_products(words_only);
    for (const int64_t rows : {1, 2, 7})
      for (const int64_t block : {32, 128}) {
        TestLayer test =
            layer_of({.a = {rows, 320}, .columns = 100, .block = block, .sparse = true});
        test.tolerance = 1;  // of what is compared with the reference
        for (const char* kind : {"nbits_i8", "nbits_i24"}) {
          const auto output = [&](const char* form) {
            test.only = std::string(form) + kind;
            LayerCheck check(test);
            EXPECT_GT(check.run(), 0);
            return check.last_output();
          };
          EXPECT_EQ(output("matmul_sparse_"), output("matmul_")) << rows << kind;
        }
      }
  }
  force_word_products(false);
}

// The largest codes and bytes of either sign in all that is kept: sums of pairs hold them.
TEST(MatmulNBits, SparseExtremes) {
  for (const bool words_only : {false, true})
    for (const int zero : {0, 15})
      for (const double x : {127.0, -127.0}) {
        force_word_products(words_only);
        BitProduct p{.a = {2, 128}, .block = 128, .zero = DataType::kUInt8, .sparse = true};
        ir::LowBits weights = weights_of(p);
        const ir::RecordLayout layout(weights);
        std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
        ir::RecordWriter records(layout, bytes.data());
        for (int64_t column = 0; column < layout.columns; ++column) {
          records.set_block(column, 0, 1, static_cast<float>(zero));
          for (int64_t k = 0; k < 128; ++k)
            records.set_code(column, 0, k, k % 4 < 2 ? 15 - zero : zero);
        }
        TestLayer test = layer_of(p);
        test.inputs[0].value = [x](int64_t) { return x; };
        test.inputs[1].value = [bytes](int64_t k) {
          return static_cast<double>(std::to_integer<int>(bytes[static_cast<size_t>(k)]));
        };
        test.only = "sparse_nbits";
        test.tolerance = 1e-6;
        check_layer(test, words({zero, static_cast<int64_t>(x)}));
      }
  force_word_products(false);
}

TEST(MatmulNBits, SparseRefusals) {
  const auto reason = [](const BitProduct& p) {
    TestLayer test = layer_of(p);
    test.only = "sparse_nbits";
    LayerCheck check(test);
    EXPECT_EQ(check.run(), 0);
    return check.last_refusal();
  };
  EXPECT_EQ(reason({}), "weights are not 2:4");
  EXPECT_EQ(reason({.bits = 8, .sparse = true}), "sparse codes have 4 bits");
  EXPECT_EQ(reason({.block = 16, .sparse = true}), "blocks are no multiple of 32 codes");
  EXPECT_EQ(reason({.zero = DataType::kFloat, .sparse = true}), "zero points are no codes");
}

TEST(MatmulNBits, Bias) {
  for (const Extents& bias : {Extents{37}, Extents{}, Extents{6, 1}, Extents{6, 37}})
    check({.a = {6, 64}, .columns = 37, .bias = bias, .has_bias = true});
  check({.a = {2, 3, 64}, .columns = 70, .bias = {70}, .has_bias = true});
  check({.a = {2, 3, 64}, .columns = 70, .bias = {3, 1}, .has_bias = true});
}

// Residuals, gates and activations; operands at most twice the sums, whose errors they carry on.
TEST(MatmulNBits, Epilogues) {
  struct Case {
    const char* epilogue;
    std::vector<Extents> operands;
  };
  for (const Extents& rows : {Extents{1}, Extents{3}, Extents{9}, Extents{2, 3}, Extents{2, 9}}) {
    Extents y = rows, a = rows;
    y.push_back(70);
    a.push_back(96);
    const Case cases[] = {{"v2 = add v0 v1", {y}},
                          {"v2 = add v0 v1; v3 = relu v2", {{70}}},
                          {"v1 = gelu v0", {}},
                          {"v1 = leaky_relu v0 0.1", {}},
                          {"v2 = silu v1 1; v3 = mul v0 v2", {y}},
                          {"v1 = sigmoid v0; v2 = mul v0 v1", {}},
                          {"v3 = add v0 v2; v4 = mul v3 v1", {{1}, y}}};
    for (const Case& c : cases)
      for (const bool has_bias : {false, true}) {
        const BitProduct p{.a = a,
                           .columns = 70,
                           .exact_rows = true,
                           .bias = {70},
                           .has_bias = has_bias,
                           .epilogue = c.epilogue,
                           .operands = c.operands};
        for (const char* only : {"i24", "i8", "f32"}) check(p, only, 0x1p-20);
      }
  }
}

TEST(MatmulNBits, Batches) {
  check({.a = {64}, .columns = 70});
  check({.a = {3, 5, 64}, .columns = 70});
  check({.a = {2, 3, 5, 64}, .columns = 20});
  check({.a = {0, 64}, .columns = 20});
}

TEST(MatmulNBits, ManyRows) {
  check({.a = {150, 700}, .columns = 200, .exact_rows = true});
  check({.a = {130, 3000}, .columns = 70, .bits = 8, .block = 3000, .exact_rows = true});
}

// Weights as panels of floats, whole depths or in parts.
constexpr double kFloatError = 0x1p-20;

TEST(MatmulNBits, Floats) {
  for (const int64_t bits : {2, 4, 8})
    for (const int64_t block : {16, 20, 64, 256, 1000})
      for (const int64_t depth : {64, 77, 600})
        for (const DataType zero : {DataType::kUndefined, DataType::kUInt8, DataType::kFloat})
          check({.a = {13, depth}, .columns = 40, .bits = bits, .block = block, .zero = zero},
                "f32", kFloatError);
  for (const int64_t columns : {7, 9, 16, 17, 33, 65, 130})
    for (const int64_t rows : {7, 8, 50})
      check({.a = {rows, 96}, .columns = columns}, "f32", kFloatError);
  check({.a = {2, 3, 5, 64}, .columns = 70}, "f32", kFloatError);
}

// Columns in several groups, the last of which is smaller: each finds its bias and operands.
TEST(MatmulNBits, FloatsOfManyColumns) {
  for (const Extents& bias : {Extents{250}, Extents{20, 1}, Extents{20, 250}})
    for (const Extents& operand : {Extents{250}, Extents{20, 1}, Extents{20, 250}})
      check({.a = {20, 1400},
             .columns = 250,
             .bias = bias,
             .has_bias = true,
             .epilogue = "v2 = add v0 v1; v3 = sigmoid v2",
             .operands = {operand}},
            "f32", kFloatError);
  check({.a = {300, 1500}, .columns = 200}, "f32", kFloatError);
}

TEST(MatmulNBits, Int8OnlyWhereTheModelAllowsIt) {
  BitProduct p;
  TestLayer test = layer_of(p);
  ir::LowBits weights = weights_of(p);
  weights.codes_rows = false;
  test.layer = make_layer(ir::LayerKind::kLowBitMultiply, weights);
  test.only = "i8";
  LayerCheck layer(test);
  EXPECT_EQ(layer.run(), 0);
  EXPECT_EQ(layer.last_refusal(), "the model does not allow int8 rows");
}

// What makes integers of rows must not lose small elements beside zero, nor hide what is not
// finite.
TEST(MatmulNBits, UnusualRows) {
  BitProduct p{.a = {6, 64}, .columns = 20};
  TestLayer test = layer_of(p);
  test.only = "i24";
  test.tolerance = 1e-6;
  test.inputs[0].value = [](int64_t k) {
    const int64_t row = k / 64;
    const auto x = static_cast<double>(static_cast<float>(k % 7 - 3));
    return row == 0 ? 0 : row == 1 ? x * 0x1p-120 : row == 2 ? x * 0x1p100 : x;
  };
  check_layer(test, "tiny and huge");
  test.inputs[0].value = [](int64_t k) {
    return k % 64 == 40 ? std::numeric_limits<double>::quiet_NaN() : 1;
  };
  check_layer(test, "not a number");
}

}  // namespace
}  // namespace camshaft::kernels::test
