// SPDX-License-Identifier: Apache-2.0
// Extents that only running can tell: what the tuner guessed of them must not show. Every engine
// runs twice (the second run has fast kernels for late layers), with random choices of tactics and
// formats, and agrees with the interpreter.
#include "tuner/late_shapes.h"
#include "kernels/interpreter.h"
#include "tuner/refine_shapes.h"
#include "tuner/specialize.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

engine::Profile profile_of(const ir::Graph& graph, int64_t max_extent) {
  engine::Profile profile;
  for (const ir::Tensor* input : graph.inputs()) {
    engine::ShapeRange range{input->name, {}, {}, {}};
    for (const ir::Dim dim : input->shape) {
      range.min.push_back(dim.is_known() ? dim.extent() : 1);
      range.opt.push_back(dim.is_known() ? dim.extent() : 8);
      range.max.push_back(dim.is_known() ? dim.extent() : max_extent);
    }
    profile.push_back(range);
  }
  return profile;
}

std::vector<TestTensor> interpreted(const ir::Graph& graph, const std::vector<TestTensor>& inputs) {
  std::vector<kernels::Value> values;
  for (size_t k = 0; k < inputs.size(); ++k)
    values.push_back(
        kernels::make_value(graph.inputs()[k]->type, inputs[k].extents, inputs[k].bytes).value());
  auto outputs = kernels::evaluate(graph, values);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  std::vector<TestTensor> result;
  for (const kernels::Value& value : outputs.ok() ? *outputs : std::vector<kernels::Value>())
    result.push_back({value.extents, {value.bytes().begin(), value.bytes().end()}});
  return result;
}

void expect_near(const TestTensor& found, const TestTensor& expected) {
  ASSERT_EQ(found.extents, expected.extents);
  float largest = 0;
  for (const float value : expected.floats()) largest = std::max(largest, std::fabs(value));
  for (size_t k = 0; k < expected.floats().size(); ++k)
    ASSERT_NEAR(found.floats()[k], expected.floats()[k], 1e-4F * largest + 1e-6F) << k;
}

// `rounds`: inputs of each run, twice.
void check(const char* text, const std::vector<std::vector<TestTensor>>& rounds,
           int64_t max_extent = 100, int seeds = 8) {
  for (int seed = 0; seed <= seeds; ++seed) {
    auto graph = graph_of(text);
    ASSERT_TRUE(graph);
    BuildOptions options;
    options.profiles = {profile_of(*graph, max_extent)};
    options.threads = 1 + seed % 2;
    options.random_choices = static_cast<uint64_t>(seed);
    const auto engine = engine_of(std::move(graph), options);
    ASSERT_TRUE(engine);
    auto context = runtime::Context::create(engine, {.threads = options.threads});
    ASSERT_STATUS_OK(context.status());
    graph = graph_of(text);
    for (size_t round = 0; round < rounds.size() * 2; ++round) {
      SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
      const std::vector<TestTensor>& inputs = rounds[round / 2];
      const std::vector<TestTensor> expected = interpreted(*graph, inputs);
      std::vector<TestTensor> outputs;
      ASSERT_STATUS_OK(run(**context, inputs, outputs));
      ASSERT_EQ(outputs.size(), expected.size());
      for (size_t k = 0; k < outputs.size(); ++k) expect_near(outputs[k], expected[k]);
    }
  }
}

// The inner extent of a product is that of its weights, whatever a reshape at run time is guessed
// to give.
TEST(LateShapes, WeightsKnowTheirRows) {
  const char* text = R"(graph "g" {
    symbols n
    input x: float[n, 64]
    input s: int64[2]
    constant w: float[64, 96] = random(3)
    z: float[?1a, ?2k] = Shuffle(x, s)
    y: float[?1a, 96] = MatrixMultiply(z, w)
    output y
  })";
  check(text, {{random_tensor({8, 64}, 1), tensor_of<int64_t>({2}, {8, -1})},
               {random_tensor({3, 64}, 2), tensor_of<int64_t>({2}, {-1, 64})}});
  auto graph = graph_of(text);
  EXPECT_EQ(resolve_extents(*graph), 1);
  EXPECT_EQ(graph->outputs()[0]->producer->inputs[0]->shape[1], ir::Dim(64));
}

// A run that the weights do not fit is an error, not a read beyond them.
TEST(LateShapes, OtherRowsThanTheWeightsHaveAreRefused) {
  auto graph = graph_of(R"(graph "g" {
    input x: float[8, 64]
    input s: int64[2]
    constant w: float[64, 96] = random(3)
    z: float[?1a, ?2k] = Shuffle(x, s)
    y: float[?1a, 96] = MatrixMultiply(z, w)
    output y
  })");
  const auto engine = engine_of(std::move(graph));
  auto context = runtime::Context::create(engine, {.threads = 1});
  ASSERT_STATUS_OK(context.status());
  std::vector<TestTensor> outputs;
  const TestTensor x = random_tensor({8, 64}, 1);
  const Status status = run(**context, {x, tensor_of<int64_t>({2}, {4, 128})}, outputs);
  EXPECT_NE(status.message().find("where the model says 64"), std::string::npos)
      << status.message();
  ASSERT_STATUS_OK(run(**context, {x, tensor_of<int64_t>({2}, {8, 64})}, outputs));
}

// Inside a branch nothing is resolved: the branch may never run. No tactic may pack by the guess.
TEST(LateShapes, GuessesAreNotPackedBy) {
  check(R"(graph "g" {
    symbols n
    input c: bool[]
    input x: float[n, 64]
    input s: int64[2]
    y: float[?3m, ?4c] = If(c, x, s)
    graph "then" {
      symbols n
      input u: float[n, 64]
      input v: int64[2]
      constant w: float[64, 96] = random(3)
      z: float[?1a, ?2k] = Shuffle(u, v)
      r: float[?1a, 96] = MatrixMultiply(z, w)
      output r }
    graph "else" {
      symbols n
      input u: float[n, 64]
      input v: int64[2]
      r: float[n, 64] = Unary(u) {op=neg}
      output r }
    output y
  })",
        {{TestTensor{{}, {std::byte{1}}}, random_tensor({8, 64}, 1),
          tensor_of<int64_t>({2}, {8, -1})},
         {TestTensor{{}, {std::byte{0}}}, random_tensor({5, 64}, 1),
          tensor_of<int64_t>({2}, {5, 64})},
         {TestTensor{{}, {std::byte{1}}}, random_tensor({40, 64}, 1),
          tensor_of<int64_t>({2}, {40, 64})}});
}

// With one channel both formats are the same bytes: the other name is placed when the tensor is
// made.
TEST(LateShapes, OneChannelInBothFormats) {
  const char* text = R"(graph "g" {
    symbols n
    input x: float[n]
    constant w: float[16, 1, 3, 3] = random(5)
    constant two: float[] = [2]
    i: int64[1, ?1f] = NonZero(x)
    j: int64[?1f] = Shuffle(i) {has_reshape=true, reshape=[?1f]}
    g: float[?1f] = Gather(x, j) {axis=0}
    q: float[1, 1, ?1f, 1] = Shuffle(g) {has_reshape=true, reshape=[1, 1, ?1f, 1]}
    d: float[1, 1, ?1f, 1] = ElementWise(q, two) {op=mul}
    c: float[1, 16, ?1f, 1] = Convolution(d, w) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]}
    r: float[1, 16, ?1f, 1] = Activation(c) {op=relu}
    m: float[1, 1, ?1f, 1] = Reduce(r) {op=mean, axes=[1], keep_dims=true}
    e: float[1, 1, ?1f, 1] = ElementWise(m, d) {op=add}
    t: float[?1f, 1, 1, 1] = Shuffle(e) {first_transpose=[2, 1, 0, 3]}
    output t
    output e
  })";
  TestTensor some = random_tensor({8}, 4), few = random_tensor({30}, 5);
  reinterpret_cast<float*>(some.bytes.data())[3] = 0;
  check(text, {{some}, {few}}, 100, 24);
}

// The first of a list and what follows it broadcast, as in suppression written as a loop: one on
// one side and none on the other give none.
TEST(LateShapes, ExtentsThatMeetMayBeOneAndNone) {
  const char* text = R"(graph "g" {
    symbols n
    input x: float[n]
    constant two: float[] = [2]
    i: int64[1, ?1f] = NonZero(x)
    j: int64[?1f] = Shuffle(i) {has_reshape=true, reshape=[?1f]}
    g: float[?1f] = Gather(x, j) {axis=0}
    a: float[min(?1f, 1)] = Slice(g) {start=[0], size=[min(?1f, 1)], step=[1]}
    b: float[(?1f - min(?1f, 1))] = Slice(g) {start=[min(?1f, 1)], size=[(?1f - min(?1f, 1))], step=[1]}
    d: float[broadcast((?1f - min(?1f, 1)), min(?1f, 1))] = ElementWise(b, a) {op=sub}
    e: float[broadcast((?1f - min(?1f, 1)), min(?1f, 1))] = Unary(d) {op=abs}
    y: float[broadcast((?1f - min(?1f, 1)), min(?1f, 1))] = ElementWise(e, two) {op=mul}
    output y
  })";
  check(text, {{tensor_of<float>({5}, {3, 0, -1, 5, 2})},
               {tensor_of<float>({4}, {0, 0, 4, 0})},
               {tensor_of<float>({3}, {0, 0, 0})},
               {tensor_of<float>({2}, {1, 7})}});
}

// What makes its own outputs may have to put them into a part of a larger tensor.
TEST(LateShapes, ResultsThatArePartsOfConcatenations) {
  for (
      const char* maker :
      {R"(Generic(a, b) {op_type="Einsum", opset=12, attributes=[("equation", [], [], "bhik,bhkj->bhij")]})",
       "MatrixMultiply(a, b)"})
    for (const int axis : {1, 2, 3}) {
      const std::string extents[] = {"1, 3, 5, 8", "1, 4, 7, 8", "1, 4, 5, 2"};
      const std::string whole[] = {"1, 7, 5, 8", "1, 4, 12, 8", "1, 4, 5, 10"};
      const std::string text = fmt::format(R"(graph "g" {{
        input a: float[1, 4, 5, 6]
        input b: float[1, 4, 6, 8]
        input p: float[{}]
        n: float[{}] = Unary(p) {{op=neg}}
        q: float[1, 4, 5, 8] = {}
        y: float[{}] = Concatenation(n, q) {{axis={}}}
        z: float[{}] = Unary(y) {{op=abs}}
        output z
        output y
      }})",
                                           extents[axis - 1], extents[axis - 1], maker,
                                           whole[axis - 1], axis, whole[axis - 1]);
      const ir::Extents p = axis == 1   ? ir::Extents{1, 3, 5, 8}
                            : axis == 2 ? ir::Extents{1, 4, 7, 8}
                                        : ir::Extents{1, 4, 5, 2};
      check(text.c_str(), {{random_tensor({1, 4, 5, 6}, 1), random_tensor({1, 4, 6, 8}, 2),
                            random_tensor(p, 3)}});
    }
}

// The branches' result is stored into its place of the concatenation.
TEST(LateShapes, BranchesThatMakePartsOfConcatenations) {
  check(R"(graph "g" {
    input c: bool[]
    input p: float[4, 3]
    n: float[4, 3] = Unary(p) {op=neg}
    q: float[4, 3] = If(c, p)
    graph "then" { input u: float[4, 3]  r: float[4, 3] = Unary(u) {op=abs}  output r }
    graph "else" { input u: float[4, 3]  r: float[4, 3] = Unary(u) {op=neg}  output r }
    y: float[4, 6] = Concatenation(n, q) {axis=1}
    z: float[4, 6] = Unary(y) {op=neg}
    output z
  })",
        {{TestTensor{{}, {std::byte{1}}}, random_tensor({4, 3}, 1)},
         {TestTensor{{}, {std::byte{0}}}, random_tensor({4, 3}, 2)}});
}

// Each extent that only running can tell is told of once, with its reason.
TEST(LateShapes, AreListedWithTheirReasons) {
  const auto graph = graph_of(R"(graph "g" {
    symbols n
    input x: float[n]
    input s: int64[2]
    i: int64[1, ?1f] = NonZero(x)
    j: int64[?1f] = Shuffle(i) {has_reshape=true, reshape=[?1f]}
    t: int64[2] = Unary(s) {op=neg}
    z: float[?2a, ?3b] = Shuffle(x, t)
    y: float[n] = Unary(x) {op=abs}
    output j
    output z
    output y
  })");
  const auto records = late_shapes(*graph);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_NE(records[0].text.find("i [1,"), std::string::npos) << records[0].text;
  EXPECT_NE(records[0].text.find("NonZero decides it by its data"), std::string::npos);
  EXPECT_NE(records[1].text.find("the values of t, which Unary"), std::string::npos)
      << records[1].text;
}

// A shape that goes through floats is known once the profile has made a number of the symbol.
TEST(LateShapes, RefinedByTheProfile) {
  const char* text = R"(graph "g" {
    symbols n
    input x: float[n, 8]
    constant half: float[1] = [0.5]
    constant rest: int64[1] = [8]
    s: int64[1] = ShapeOf(x) {last=1}
    f: float[1] = Cast(s) {to=float}
    r: float[1] = ElementWise(f, half) {op=pow}
    i: int64[1] = Cast(r) {to=int64}
    t: int64[3] = Concatenation(i, i, rest) {axis=0}
    y: float[?1a, ?2b, ?3c] = Shuffle(x, t)
    z: float[?1a, ?2b, ?3c] = Unary(y) {op=neg}
    output z
  })";
  auto graph = graph_of(text);
  ASSERT_TRUE(graph);
  specialize(*graph, {{{"x", {196, 8}, {196, 8}, {196, 8}}}});
  refine_shapes(*graph, nullptr);
  EXPECT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message();
  EXPECT_EQ(graph->outputs()[0]->shape, (ir::Shape{ir::Dim(14), ir::Dim(14), ir::Dim(8)}));
  EXPECT_EQ(late_shapes(*graph).size(), 0u);
  check(text, {{random_tensor({4, 8}, 1)}, {random_tensor({81, 8}, 2)}});  // and where it has not
}

// Folding them before they are floats would round at every layer: the angle 97 · 0.79980469 by
// 0.02.
TEST(LateShapes, TablesOfHalvesAreFoldedAsFloats) {
  auto graph = graph_of(R"(graph "g" {
    input x: float[4]
    constant axis: int64[1] = [4]
    constant at: half[1] = hex "1056"
    constant frequency: half[1] = hex "663a"
    angle: half[1] = ElementWise(at, frequency) {op=mul}
    cosine: half[1] = Unary(angle) {op=cos}
    found: float[1] = Cast(cosine) {to=float}
    table: float[1] = Unary(found) {op=neg}
    t: int64[1] = Unary(axis) {op=identity}
    y: float[?1a] = Shuffle(x, t)
    output table
    output y
  })");
  ASSERT_TRUE(graph);
  refine_shapes(*graph, nullptr);
  EXPECT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message();
  EXPECT_NEAR(interpreted(*graph, {random_tensor({4}, 1)})[0].floats()[0],
              -std::cos(97 * 0.7998047), 1e-6);
}

// A profile's range decides which side of an expression counts.
TEST(Specialize, RangesSimplifyExpressions) {
  auto graph = graph_of(R"(graph "g" {
    symbols n
    input x: float[n, 4]
    y: float[n, 4] = Unary(x) {op=neg}
    output y
  })");
  ir::SymbolTable& symbols = graph->symbols();
  const ir::Dim n = graph->inputs()[0]->shape[0];
  ir::Tensor* y = graph->outputs()[0];
  y->shape[0] = symbols.max(symbols.sub(n, 3), 0);
  engine::Profile profile = {{"x", {5, 4}, {8, 4}, {100, 4}}};
  EXPECT_EQ(specialize(*graph, {profile}), 0);
  EXPECT_EQ(y->shape[0], symbols.sub(n, 3));
}

}  // namespace
}  // namespace camshaft::tuner
