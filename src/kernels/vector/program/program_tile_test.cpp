// SPDX-License-Identifier: Apache-2.0
// Tile programs on every instruction set: elementary functions against double over the whole range,
// and programs on tiles with tails, splats, gathers and aliases against a plain evaluation.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/cpu.h"
#include "ir/program.h"
#include "ir/types.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace camshaft::kernels {

#define CAMSHAFT_DECLARE_RUN(isa)                                                       \
  namespace isa {                                                                       \
  struct TileOperand {                                                                  \
    const void* data;                                                                   \
    int64_t row_stride, col_stride;                                                     \
    ir::DataType type = ir::DataType::kFloat;                                           \
  };                                                                                    \
  struct TileResult {                                                                   \
    void* data;                                                                         \
    int64_t row_stride;                                                                 \
    ir::DataType type = ir::DataType::kFloat;                                           \
  };                                                                                    \
  void run_code(const ir::Instruction*, int length, int num_inputs, const TileOperand*, \
                const TileResult& out, int64_t rows, int64_t cols);                     \
  }
CAMSHAFT_DECLARE_RUN(scalar)
CAMSHAFT_DECLARE_RUN(avx2)
CAMSHAFT_DECLARE_RUN(avx512)

namespace {

using ir::Instruction;
using ir::PointOp;
using ir::Program;
using scalar::TileOperand;

struct Target {
  Isa isa;
  std::function<void(const Program&, const TileOperand*, float*, int64_t, int64_t, int64_t)> run;
};

template <class Operand, class Result, class Run>
auto adapt(Run run) {
  return [run](const Program& program, const TileOperand* operands, float* out, int64_t stride,
               int64_t rows, int64_t cols) {
    std::vector<Operand> own;
    for (int k = 0; k < program.num_inputs; ++k)
      own.push_back({operands[k].data, operands[k].row_stride, operands[k].col_stride});
    run(program.code.data(), static_cast<int>(program.code.size()), program.num_inputs, own.data(),
        Result{out, stride}, rows, cols);
  };
}

std::vector<Target> targets() {
  std::vector<Target> all = {
      {Isa::kScalar, adapt<scalar::TileOperand, scalar::TileResult>(scalar::run_code)}};
  if (cpu_info().best_isa >= Isa::kAvx2)
    all.push_back({Isa::kAvx2, adapt<avx2::TileOperand, avx2::TileResult>(avx2::run_code)});
  if (cpu_info().best_isa >= Isa::kAvx512)
    all.push_back({Isa::kAvx512, adapt<avx512::TileOperand, avx512::TileResult>(avx512::run_code)});
  return all;
}

// Distance in units of the last place of the exact value (of the smallest normal step for
// denormals).
double ulps(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : INFINITY;
  const float rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Function {
  const char* name;
  PointOp op;
  double (*exact)(double);
  float low, high;  // measured on this range
  double max_ulps;
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}
constexpr float kInf = std::numeric_limits<float>::infinity();

// The bounds vector/math.h states.
const Function kFunctions[] = {
    {"exp", PointOp::kExp, [](double x) { return std::exp(x); }, -kInf, kInf, 1.01},
    {"log", PointOp::kLog, [](double x) { return std::log(x); }, -kInf, kInf, 2},
    {"tanh", PointOp::kTanh, [](double x) { return std::tanh(x); }, -kInf, kInf, 6},
    {"erf", PointOp::kErf, [](double x) { return std::erf(x); }, -kInf, kInf, 6},
    {"sigmoid", PointOp::kSigmoid, sigmoid, -87.3f, kInf, 3},
    {"softplus", PointOp::kSoftplus, softplus, -kInf, kInf, 3},
    {"silu", PointOp::kSilu, [](double x) { return x * sigmoid(x); }, -87.3f, kInf, 4},
    {"mish", PointOp::kMish, [](double x) { return x * std::tanh(softplus(x)); }, -87.3f, kInf, 4},
    {"elu", PointOp::kElu, [](double x) { return x < 0 ? std::expm1(x) : x; }, -kInf, kInf, 2},
    {"sin", PointOp::kSin, [](double x) { return std::sin(x); }, -100, 100, 2},
    {"cos", PointOp::kCos, [](double x) { return std::cos(x); }, -100, 100, 2},
    {"asin", PointOp::kAsin, [](double x) { return std::asin(x); }, -1, 1, 2},
    {"acos", PointOp::kAcos, [](double x) { return std::acos(x); }, -1, 1, 2},
    {"atan", PointOp::kAtan, [](double x) { return std::atan(x); }, -kInf, kInf, 3},
    {"sqrt", PointOp::kSqrt, [](double x) { return std::sqrt(x); }, -kInf, kInf, 0.51},
    {"reciprocal", PointOp::kReciprocal, [](double x) { return 1 / x; }, -kInf, kInf, 0.51},
};

// Floats of all magnitudes: every `step`-th bit pattern in [low, high], and the special ones.
std::vector<float> samples(float low, float high, uint32_t step) {
  std::vector<float> x = {0.0f,
                          -0.0f,
                          1.0f,
                          -1.0f,
                          low,
                          high,
                          std::numeric_limits<float>::quiet_NaN(),
                          1e-45f,
                          -1e-45f,
                          88.72283f,
                          88.72284f,
                          89.0f,
                          1.17549435e-38f};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (float v = -20; v < 20; v += 0.00037f) x.push_back(v);
  std::erase_if(x, [&](float v) { return v < low || v > high; });
  return x;
}

TEST(VectorMath, StaysWithinTheStatedBounds) {
  for (const Function& function : kFunctions) {
    const std::vector<float> x = samples(function.low, function.high, 16411);
    std::vector<double> exact(x.size());
    for (size_t k = 0; k < x.size(); ++k) exact[k] = function.exact(x[k]);
    for (const Target& target : targets()) {
      const Program program{1, {{function.op, 0, -1, -1, 1, 0}}};
      std::vector<float> y(x.size(), NAN);
      const TileOperand operand{x.data(), 0, 1};
      target.run(program, &operand, y.data(), 0, 1, static_cast<int64_t>(x.size()));
      double worst = 0;
      float at = 0, got = 0;
      for (size_t k = 0; k < x.size(); ++k) {
        const double error = ulps(y[k], exact[k]);
        if (!(error <= worst)) worst = error, at = x[k], got = y[k];
      }
      EXPECT_LE(worst, function.max_ulps)
          << function.name << " " << isa_name(target.isa) << " at " << at << " gives " << got;
      RecordProperty(std::string(function.name) + "_" + std::string(isa_name(target.isa)),
                     std::to_string(worst));
    }
  }
}

TEST(VectorMath, LargeAnglesAreRight) {
  const std::vector<float> x = {100000.0f,  1e10f,     -3e20f, 32769.0f, kInf,
                                12345.678f, -32768.0f, 0.5f,   NAN};
  for (const Target& target : targets()) {
    std::vector<float> y(x.size());
    const TileOperand operand{x.data(), 0, 1};
    target.run({1, {{PointOp::kSin, 0}}}, &operand, y.data(), 0, 1, static_cast<int64_t>(x.size()));
    for (size_t k = 0; k < x.size(); ++k) {
      if (std::isfinite(x[k]))
        EXPECT_NEAR(y[k], std::sin(static_cast<double>(x[k])), 1e-7) << x[k];
      else
        EXPECT_TRUE(std::isnan(y[k]));
    }
  }
}

// Every base with every exponent of both lists, as a tensor of exponents and as one for all.
// Of all magnitudes, of quotients near whole numbers, of NaN, infinities and zeros.
TEST(VectorMath, RestsAreExact) {
  std::mt19937 random(1);
  std::vector<float> x, y;
  const float special[] = {0.0f, -0.0f, kInf, -kInf, NAN, 1e-45f, 1.0f, -3.0f};
  for (const float a : special)
    for (const float b : special) x.push_back(a), y.push_back(b);
  for (int k = 0; k < 200000; ++k) {
    const float b = std::bit_cast<float>(static_cast<uint32_t>(random()));
    float a = k % 4 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                         : b * static_cast<float>(random() % (1u << k % 25));
    if (k % 4 == 2) a = std::nextafter(a, 0.0f);
    x.push_back(a), y.push_back(b);
  }
  for (const Target& target : targets())
    for (const PointOp op : {PointOp::kFmod, PointOp::kMod}) {
      std::vector<float> rest(x.size());
      const TileOperand operands[] = {{x.data(), 0, 1}, {y.data(), 0, 1}};
      target.run({2, {{op, 0, 1}}}, operands, rest.data(), 0, 1, static_cast<int64_t>(x.size()));
      for (size_t k = 0; k < x.size(); ++k) {
        const auto exact = static_cast<float>(ir::evaluate_point_op(op, x[k], y[k], 0, 0, 0));
        ASSERT_TRUE(std::bit_cast<uint32_t>(rest[k]) == std::bit_cast<uint32_t>(exact) ||
                    (std::isnan(rest[k]) && std::isnan(exact)))
            << ir::point_op_name(op) << " " << x[k] << " " << y[k] << " gives " << rest[k];
      }
    }
}

TEST(VectorMath, PowersAreWithinTwoUnits) {
  std::vector<float> bases = {0.0f,
                              -0.0f,
                              1.0f,
                              -1.0f,
                              kInf,
                              -kInf,
                              1e-40f,
                              -1e-40f,
                              1e-45f,
                              3e38f,
                              std::numeric_limits<float>::quiet_NaN(),
                              0.99999994f,
                              1.0000001f},
                     exponents = {0.0f,
                                  -0.0f,
                                  1.0f,
                                  -1.0f,
                                  0.5f,
                                  -0.5f,
                                  2.0f,
                                  3.0f,
                                  9.0f,
                                  -7.0f,
                                  8388607.0f,
                                  -8388607.0f,
                                  16777216.0f,
                                  1e30f,
                                  kInf,
                                  -kInf,
                                  std::numeric_limits<float>::quiet_NaN()};
  std::mt19937 random(7);
  std::uniform_real_distribution<float> unit(-1, 1), exponent(-40, 40);
  for (int k = 0; k < 300; ++k) {
    bases.push_back(unit(random) * std::exp2(exponent(random)));
    bases.push_back(1 + 0.5f * unit(random));
    exponents.push_back(unit(random) * 4);
    exponents.push_back(std::round(unit(random) * 20));
  }
  const Program program = std::move(ir::parse_program(2, "v2 = pow v0 v1")).value();
  const auto count = static_cast<int64_t>(bases.size());
  std::vector<float> got(bases.size()), all(bases.size());
  for (const Target& target : targets())
    for (const float y : exponents)
      for (const bool is_tensor : {false, true}) {
        std::fill(all.begin(), all.end(), y);
        const TileOperand operands[] = {{bases.data(), count, 1},
                                        {all.data(), is_tensor ? count : 0, is_tensor ? 1 : 0}};
        target.run(program, operands, got.data(), count, 1, count);
        for (size_t k = 0; k < bases.size(); ++k) {
          const double exact = std::pow(static_cast<double>(bases[k]), static_cast<double>(y));
          ASSERT_LE(ulps(got[k], exact), 2) << isa_name(target.isa) << " " << bases[k] << " ^ " << y
                                            << " gives " << got[k] << ", not " << exact;
          if (exact == 0) {
            ASSERT_EQ(std::signbit(got[k]), std::signbit(exact)) << bases[k] << " ^ " << y;
          }
        }
      }
}

TEST(VectorMath, GeluIsAbsolutelyAccurate) {
  const std::vector<float> x = samples(-30, 30, 16411);
  for (const Target& target : targets()) {
    for (const PointOp op : {PointOp::kGelu, PointOp::kGeluTanh}) {
      std::vector<float> y(x.size());
      const TileOperand operand{x.data(), 0, 1};
      target.run({1, {{op, 0}}}, &operand, y.data(), 0, 1, static_cast<int64_t>(x.size()));
      for (size_t k = 0; k < x.size(); ++k) {
        const double v = x[k], u = 0.7978845608028654 * (v + 0.044715 * v * v * v);
        const double exact = op == PointOp::kGelu ? v * 0.5 * (1 + std::erf(v / std::sqrt(2.0)))
                                                  : 0.5 * v * (1 + std::tanh(u));
        if (std::isnan(v)) continue;
        ASSERT_NEAR(y[k], exact, 2e-7 * std::max(1.0, std::abs(v))) << v;
      }
    }
  }
}

// --- programs
// ------------------------------------------------------------------------------------------------------------------

struct Layout {
  int64_t row_stride, col_stride;
};

// Runs `program` on a tile whose operands lie as `layouts` say, into poisoned memory with guards,
// and checks every element.
void check(const Target& target, const Program& program, const std::vector<Layout>& layouts,
           int64_t rows, int64_t cols, int64_t out_stride, bool in_place = false) {
  std::mt19937 random(static_cast<uint32_t>(rows * 131 + cols));
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<std::vector<float>> storage;
  std::vector<TileOperand> operands;
  for (const Layout& layout : layouts) {
    // Exactly as long as it must be: reading past the end is seen by the address sanitizer.
    std::vector<float> data(
        static_cast<size_t>((rows - 1) * layout.row_stride + (cols - 1) * layout.col_stride + 1));
    for (float& v : data) v = uniform(random);
    storage.push_back(std::move(data));
  }
  for (size_t k = 0; k < layouts.size(); ++k)
    operands.push_back({storage[k].data(), layouts[k].row_stride, layouts[k].col_stride});
  const auto input = storage;
  std::vector<float> out(static_cast<size_t>((rows - 1) * out_stride + cols), NAN);
  float* to = in_place ? storage[0].data() : out.data();
  target.run(program, operands.data(), to, out_stride, rows, cols);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      std::vector<double> v;
      for (size_t k = 0; k < layouts.size(); ++k)
        v.push_back(input[k][row * layouts[k].row_stride + col * layouts[k].col_stride]);
      for (const Instruction& op : program.code)
        v.push_back(ir::evaluate_point_op(op.op, op.a < 0 ? 0 : v[op.a], op.b < 0 ? 0 : v[op.b],
                                          op.c < 0 ? 0 : v[op.c], op.x, op.y));
      ASSERT_NEAR(to[row * out_stride + col], v.back(), 1e-5 * std::max(1.0, std::abs(v.back())))
          << isa_name(target.isa) << " rows " << rows << " cols " << cols << " at " << row << ", "
          << col;
    }
    for (int64_t col = cols; !in_place && row + 1 < rows && col < out_stride; ++col)
      ASSERT_TRUE(std::isnan(out[row * out_stride + col])) << "wrote beyond the row";
  }
}

const Program kPrograms[] = {
    {1, {}},
    {1, {{PointOp::kRelu, 0}}},
    {1, {{PointOp::kTan, 0}}},
    {2, {{PointOp::kAdd, 0, 1}}},
    {2, {{PointOp::kSub, 1, 0}}},
    {2, {{PointOp::kAdd, 0, 1}, {PointOp::kRelu, 2}}},
    {2, {{PointOp::kMul, 0, 1}, {PointOp::kClip, 2, -1, -1, -0.5f, 0.5f}, {PointOp::kAdd, 3, 1}}},
    {2,
     {{PointOp::kMul, 0, 1},
      {PointOp::kRelu, 2},
      {PointOp::kAdd, 3, 2}}},  // the product is used twice
    {3, {{PointOp::kFma, 0, 1, 2}}},
    {3, {{PointOp::kFma, 0, 1, 2}, {PointOp::kClip, 3, -1, -1, 0, 6}}},
    {3, {{PointOp::kLess, 1, 2}, {PointOp::kSelect, 3, 0, 2}}},
    {1,
     {{PointOp::kConst, -1, -1, -1, 0.25f},
      {PointOp::kMul, 0, 1},
      {PointOp::kConst, -1, -1, -1, 2},
      {PointOp::kPow, 2, 3}}},
    {1, {{PointOp::kConst, -1, -1, -1, 0.25f}, {PointOp::kSigmoid, 1}, {PointOp::kMax, 0, 2}}},
    {1,
     {{PointOp::kSigmoid, 0},
      {PointOp::kMul, 0, 1},
      {PointOp::kHardSwish, 2},
      {PointOp::kAdd, 3, 1}}},
    {2,
     {{PointOp::kAdd, 1, 1},
      {PointOp::kSigmoid, 2},
      {PointOp::kFma, 0, 3, 2},
      {PointOp::kFma, 4, 1, 3}}},
};

TEST(RunProgram, TailsSplatsGathersAndAliases) {
  for (const Target& target : targets())
    for (const Program& program : kPrograms)
      for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                                       {1, 7},
                                       {3, 16},
                                       {14, 32},
                                       {5, 33},
                                       {2, 700},
                                       {40, 100}})
        for (int variant = 0; variant < 6; ++variant) {
          // Second and third operand: like the output, one per row, one per column, one scalar,
          // transposed, denser rows.
          const Layout like_out{cols + 3, 1};
          const Layout variants[] = {like_out, {1, 0}, {0, 1}, {0, 0}, {1, rows}, {cols, 1}};
          std::vector<Layout> layouts = {like_out};
          for (int k = 1; k < program.num_inputs; ++k)
            layouts.push_back(variants[(variant + k - 1) % 6]);
          check(target, program, layouts, rows, cols, cols + 3);
          check(target, program, layouts, rows, cols, cols + 3, true);
          layouts[0] = {cols, 1};
          check(target, program, layouts, rows, cols, cols);
          layouts[0] = variants[variant];
          check(target, program, layouts, rows, cols, cols);
        }
}

TEST(RunProgram, ManyLiveValues) {
  // 30 values that all live until the end: chunks shrink, results stay.
  Program program{1, {}};
  for (int k = 0; k < 30; ++k) program.code.push_back({PointOp::kAdd, static_cast<int16_t>(k), 0});
  int16_t sum = 30;
  for (int16_t k = 1; k < 30; ++k) {
    program.code.push_back({PointOp::kAdd, sum, k});
    sum = static_cast<int16_t>(program.result());
  }
  for (const Target& target : targets()) check(target, program, {{101, 1}}, 7, 100, 101);
}

// --- chains of codes

using RunTyped = std::function<void(const Program&, const TileOperand*, const scalar::TileResult&,
                                    int64_t rows, int64_t cols)>;

template <class Operand, class Result, class Run>
RunTyped adapt_typed(Run run) {
  return [run](const Program& program, const TileOperand* operands, const scalar::TileResult& out,
               int64_t rows, int64_t cols) {
    std::vector<Operand> own;
    for (int k = 0; k < program.num_inputs; ++k)
      own.push_back(
          {operands[k].data, operands[k].row_stride, operands[k].col_stride, operands[k].type});
    run(program.code.data(), static_cast<int>(program.code.size()), program.num_inputs, own.data(),
        Result{out.data, out.row_stride, out.type}, rows, cols);
  };
}

std::vector<RunTyped> typed_targets() {
  std::vector<RunTyped> all = {
      adapt_typed<scalar::TileOperand, scalar::TileResult>(scalar::run_code)};
  if (cpu_info().best_isa >= Isa::kAvx2)
    all.push_back(adapt_typed<avx2::TileOperand, avx2::TileResult>(avx2::run_code));
  if (cpu_info().best_isa >= Isa::kAvx512)
    all.push_back(adapt_typed<avx512::TileOperand, avx512::TileResult>(avx512::run_code));
  return all;
}

// Epilogues and bodies of quantized networks; every one ends in codes.
const char* const kChains[] = {
    // scale and bias per channel, hard-swish, quantize
    "v4 = fma v0 v1 v2; v5 = hard_swish v4; v6 = const -3; v7 = const 7; v8 = fma v5 v7 v6; "
    "v9 = round v8; v10 = const 9; v11 = add v9 v10",
    // codes dequantized, weighted, quantized and dequantized, a residual of codes, quantized
    "v4 = const 0.5; v5 = const -60; v6 = fma v3 v4 v5; v7 = mul v0 v1; v8 = const 1.5; "
    "v9 = mul v7 v8; v10 = round v9; v11 = const 133; v12 = add v10 v11; v13 = clip v12 0 255; "
    "v14 = const 0.47; v15 = const -60; v16 = fma v13 v14 v15; v17 = add v6 v16; v18 = round v17; "
    "v19 = const 100; v20 = add v18 v19",
    // two chains: one waits
    "v4 = mul v0 v1; v5 = relu v4; v6 = const 0.25; v7 = mul v3 v6; v8 = round v7; "
    "v9 = clip v8 3 60; v10 = sub v5 v9",
    // the chain on the right of a difference and of a quotient, smallest and largest
    "v4 = const 300; v5 = sub v4 v3; v6 = const 7; v7 = max v6 v5; v8 = const 1000; "
    "v9 = div v8 v7; v10 = min v9 v2; v11 = max v2 v10; v12 = add v11 v3",
    // scaled operands added to a chain, operators through memory
    "v4 = abs v0; v5 = sqrt v4; v6 = const 12; v7 = fma v3 v6 v5; v8 = const 0.01; "
    "v9 = fma v7 v8 v2; v10 = neg v9; v11 = leaky_relu v10 0.1; v12 = sub v3 v11",
    // elementary functions
    "v4 = silu v0 1; v5 = sigmoid v4; v6 = tanh v5; v7 = const 200; v8 = mul v6 v7",
};

// Inputs: floats, one float per row, floats per column, codes (all extremes among them).
void check_chain(const RunTyped& run, const Program& program, int64_t rows, int64_t cols,
                 int64_t stride, ir::DataType type) {
  std::mt19937 random(static_cast<uint32_t>(rows * 131 + cols));
  std::uniform_real_distribution<float> uniform(-9, 9);
  const size_t size = static_cast<size_t>((rows - 1) * stride + cols);
  std::vector<float> x(size), per_row(static_cast<size_t>(rows)),
      per_col(static_cast<size_t>(cols));
  for (std::vector<float>* v : {&x, &per_row, &per_col})
    for (float& f : *v) f = uniform(random) * (random() % 16 == 0 ? 1e5f : 1.0f);
  std::vector<uint8_t> codes(size);
  for (size_t k = 0; k < size; ++k)
    codes[k] = static_cast<uint8_t>(k % 3 == 0 ? 0 : k % 3 == 1 ? 255 : random());
  const TileOperand operands[] = {{x.data(), stride, 1},
                                  {per_row.data(), 1, 0},
                                  {per_col.data(), 0, 1},
                                  {codes.data(), stride, 1, ir::DataType::kUInt8}};
  std::vector<uint8_t> out(size, 77);
  run(program, operands, {out.data(), stride, type}, rows, cols);
  const double low = type == ir::DataType::kInt8 ? -128 : 0, high = low + 255;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < stride && row * stride + col < static_cast<int64_t>(size); ++col) {
      const size_t at = static_cast<size_t>(row * stride + col);
      if (col >= cols) {
        ASSERT_EQ(out[at], 77) << "wrote beyond the row";
        continue;
      }
      // In float, as every kernel takes the steps: codes are then equal but for ties.
      std::vector<float> v = {x[at], per_row[static_cast<size_t>(row)],
                              per_col[static_cast<size_t>(col)], static_cast<float>(codes[at])};
      for (const Instruction& op : program.code) {
        const auto value = [&](int k) { return k < 0 ? 0.0 : static_cast<double>(v[k]); };
        v.push_back(static_cast<float>(
            ir::evaluate_point_op(op.op, value(op.a), value(op.b), value(op.c), op.x, op.y)));
      }
      const double code = type == ir::DataType::kInt8 ? static_cast<int8_t>(out[at]) : out[at];
      const double exact = std::clamp(static_cast<double>(v.back()), low, high);
      ASSERT_LE(std::abs(code - exact), 0.5 + 1e-4 * std::max(1.0, std::abs(exact)))
          << ir::to_string(program) << " rows " << rows << " cols " << cols << " at " << row << ", "
          << col;
    }
}

#if defined(__x86_64__)
[[gnu::noinline]] void leave_denormals_on_the_stack() {
  volatile uint32_t words[8192];
  for (volatile uint32_t& word : words) word = 0x00007ffe;
}

// Lanes behind a row's end hold nothing an operation would take a hundred cycles for.
TEST(RunProgram, TailsMeetNoDenormals) {
  const Program program =
      std::move(ir::parse_program(2,
                                  "v2 = const 0.7; v3 = mul v0 v2; v4 = erf v3; v5 = const 1; "
                                  "v6 = add v4 v5; v7 = mul v6 v0; v8 = mul v7 v1"))
          .value();
  constexpr unsigned kDenormalOperand = 0x0002;
  for (const Target& target : targets())
    for (const int64_t cols : {1, 5, 7, 9, 15, 21, 85}) {
      constexpr int64_t kRows = 11;
      const int64_t stride = 2 * cols;
      std::vector<float> x(static_cast<size_t>(kRows * stride)), y(x.size());
      for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k % 17) / 8 - 1.03f;
      const TileOperand operands[] = {{x.data(), stride, 1}, {x.data() + cols, stride, 1}};
      leave_denormals_on_the_stack();
      _mm_setcsr(_mm_getcsr() & ~kDenormalOperand);
      target.run(program, operands, y.data(), cols, kRows, cols);
      EXPECT_EQ(_mm_getcsr() & kDenormalOperand, 0u)
          << isa_name(target.isa) << ", " << cols << " columns";
    }
}
#endif

TEST(RunProgram, ChainsOfCodes) {
  for (const RunTyped& run : typed_targets())
    for (const char* text : kChains) {
      const Program program = std::move(ir::parse_program(4, text)).value();
      for (const int64_t rows : {1, 3, 8, 71})
        for (const int64_t cols : {1, 7, 15, 16, 24, 33, 47, 64, 96, 128, 200})
          for (const int64_t gap : {0, 5})
            for (const ir::DataType type : {ir::DataType::kUInt8, ir::DataType::kInt8})
              check_chain(run, program, rows, cols, cols + gap, type);
    }
}

}  // namespace
}  // namespace camshaft::kernels
