// SPDX-License-Identifier: Apache-2.0
// Attention of codes gives the bits of the four layers it stands for, whatever its blocks and
// threads; and what the reference kernel gives but for weights that rounding decides.
#include "base/aligned_memory.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

struct Shape {
  int64_t batch = 2, heads = 3, queries = 5, keys = 7, depth = 8, value_depth = 8;
};

constexpr const char* kScoresProgram = "v2 = const 0.0004; v3 = mul v0 v2; v4 = add v3 v1";
constexpr const char* kWeightsProgram = "v1 = const 255; v2 = mul v0 v1; v3 = round v2";
constexpr const char* kResultProgram =
    "v1 = const 0.00392; v2 = mul v0 v1; v3 = round v2; v4 = const 128; v5 = add v3 v4";

ir::AttentionAttrs attrs_of(DataType result) {
  ir::AttentionAttrs attrs;
  attrs.epilogue = ir::parse_program(2, kScoresProgram).value();
  attrs.weights = DataType::kUInt8;
  attrs.q_zero_point = 128;
  attrs.k_zero_point = 3;
  attrs.v_zero_point = -5;
  attrs.weight_codes = ir::parse_program(1, kWeightsProgram).value();
  attrs.type = result;
  if (result == DataType::kUInt8) attrs.result = ir::parse_program(1, kResultProgram).value();
  return attrs;
}

struct Tensor {
  std::vector<std::byte> bytes;
  TensorView view;

  Tensor(DataType type, const Extents& extents)
      : bytes(ir::bytes_for(type, ir::element_count(extents)) + 64),
        view(make_view(bytes.data(), type, Format::kLinear, extents)) {}
  size_t size() const { return ir::bytes_for(view.type, view.elements()); }
};

Tensor random_codes(DataType type, const Extents& extents, uint32_t seed) {
  Tensor t(type, extents);
  std::mt19937 random(seed);
  for (size_t k = 0; k < t.size(); ++k) t.bytes[k] = static_cast<std::byte>(random());
  return t;
}

struct Operands {
  Tensor q, k, v, mask;

  explicit Operands(const Shape& s)
      : q(random_codes(DataType::kUInt8, {s.batch, s.heads, s.queries, s.depth}, 1)),
        k(random_codes(DataType::kInt8, {s.batch, s.heads, s.keys, s.depth}, 2)),
        v(random_codes(DataType::kInt8, {s.batch, s.heads, s.keys, s.value_depth}, 3)),
        mask(DataType::kFloat, {s.batch, 1, 1, s.keys}) {
    for (int64_t i = 0; i < mask.view.elements(); ++i)
      mask.view.as<float>()[i] = i % 5 == 4 ? -1e4f : 0.25f * static_cast<float>(i % 3);
  }
};

ProblemTensor described(const TensorView& view) {
  ProblemTensor t;
  t.present = view.present();
  t.type = view.type;
  if (t.present) t.extents.assign(view.extents, view.extents + view.rank);
  return t;
}

void run(const ir::Layer& layer, std::string_view tactic, Isa isa, std::vector<TensorView> inputs,
         const TensorView& output, ThreadPool* pool = nullptr) {
  const Tactic* found = find_tactic(tactic, isa);
  ASSERT_TRUE(found) << tactic;
  Problem problem;
  problem.layer = &layer;
  for (const TensorView& input : inputs) problem.inputs.push_back(described(input));
  problem.outputs = {described(output)};
  ASSERT_EQ(found->refusal(problem), "");
  const auto packed = aligned_memory(found->packed_bytes(problem) + 1);
  if (found->packed_bytes(problem) > 0) found->pack(problem, packed.get());
  KernelArgs args;
  args.layer = &layer;
  args.packed = found->packed_bytes(problem) > 0 ? packed.get() : nullptr;
  args.inputs = inputs;
  args.outputs = {&output, 1};
  args.pool = pool ? pool : &ThreadPool::serial();
  ASSERT_TRUE(run_once(*found, args).ok());
}

std::string narrowest_product(Isa isa) {
  for (const Tactic* tactic : tactics_for(ir::LayerKind::kMatrixMultiply))
    if (tactic->isa == isa && std::string_view(tactic->name).substr(0, 10) == "matmul_u8_")
      return tactic->name;
  return "";
}

// The four layers, on whole tensors.
void run_parts(const ir::AttentionAttrs& a, const Shape& s, Operands& operands, Isa isa,
               const TensorView& y) {
  ir::MatrixMultiplyAttrs scores_attrs, values_attrs;
  scores_attrs.transpose_b = true;
  scores_attrs.a_zero_point = a.q_zero_point;
  scores_attrs.b_zero_point = a.k_zero_point;
  scores_attrs.epilogue = a.epilogue;
  values_attrs.b_zero_point = a.v_zero_point;
  values_attrs.epilogue = a.result;
  values_attrs.type = a.type;
  ir::SoftMaxAttrs softmax;
  softmax.axis = softmax.last_axis = 3;
  const Extents extents{s.batch, s.heads, s.queries, s.keys};
  Tensor scores(DataType::kFloat, extents), weights(DataType::kFloat, extents),
      codes(DataType::kUInt8, extents);
  const std::string product = narrowest_product(isa);
  run(*make_layer(ir::LayerKind::kMatrixMultiply, scores_attrs), product, isa,
      {operands.q.view, operands.k.view, TensorView(), operands.mask.view}, scores.view);
  run(*make_layer(ir::LayerKind::kSoftMax, softmax), "softmax_f32", isa, {scores.view},
      weights.view);
  run(*make_layer(ir::LayerKind::kPointWise, ir::PointWiseAttrs{a.weight_codes, a.weights}),
      "pointwise_f32", isa, {weights.view}, codes.view);
  run(*make_layer(ir::LayerKind::kMatrixMultiply, values_attrs), product, isa,
      {codes.view, operands.v.view}, y);
}

void check(const Shape& s, DataType result) {
  const ir::AttentionAttrs attrs = attrs_of(result);
  const auto layer = make_layer(ir::LayerKind::kAttention, attrs);
  Operands operands(s);
  const Extents extents{s.batch, s.heads, s.queries, s.value_depth};
  ThreadPool pool(3);
  for (const Tactic* tactic : tactics_for(ir::LayerKind::kAttention)) {
    if (std::string_view(tactic->name) != "attention_codes") continue;
    Tensor expected(result, extents), alone(result, extents), shared(result, extents);
    run_parts(attrs, s, operands, tactic->isa, expected.view);
    const std::vector<TensorView> inputs = {operands.q.view, operands.k.view, operands.v.view,
                                            TensorView(), operands.mask.view};
    run(*layer, tactic->name, tactic->isa, inputs, alone.view);
    run(*layer, tactic->name, tactic->isa, inputs, shared.view, &pool);
    const std::string what =
        words({s.queries, s.keys, s.depth, s.value_depth}) + std::string(isa_name(tactic->isa));
    EXPECT_EQ(alone.bytes, expected.bytes) << what;
    EXPECT_EQ(shared.bytes, expected.bytes) << what;
  }
}

TEST(AttentionCodes, GivesTheBitsOfItsParts) {
  for (const int64_t queries : {1, 2, 13, 33})
    for (const int64_t keys : {1, 5, 16, 33, 130})
      check({2, 3, queries, keys, 8, 16}, DataType::kUInt8);
  for (const int64_t depth : {1, 3, 20, 64, 80})
    check({1, 2, 9, 40, depth, depth + 1}, DataType::kFloat);
}

// Blocks of 256 queries and their rest; parts for three threads.
TEST(AttentionCodes, BlocksOfLongSequences) {
  check({1, 1, 700, 1200, 16, 16}, DataType::kUInt8);
  check({1, 2, 257, 3000, 16, 16}, DataType::kFloat);
  check({1, 1, 100, 300, 32, 32}, DataType::kUInt8);
}

TestLayer against_reference(const Shape& s, bool steps_first) {
  ir::AttentionAttrs attrs = attrs_of(DataType::kUInt8);
  if (steps_first) {
    attrs.heads = s.heads, attrs.kv_heads = 1;
    attrs.q_steps_first = attrs.k_steps_first = attrs.v_steps_first = attrs.y_steps_first = true;
  }
  const auto extents = [&](int64_t heads, int64_t steps, int64_t depth) {
    return steps_first ? Extents{s.batch, steps, heads * depth}
                       : Extents{s.batch, heads, steps, depth};
  };
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kAttention, attrs);
  test.inputs = {{.extents = extents(s.heads, s.queries, s.depth), .type = DataType::kUInt8},
                 {.extents = extents(1, s.keys, s.depth), .type = DataType::kInt8},
                 {.extents = extents(1, s.keys, s.value_depth), .type = DataType::kInt8},
                 {.extents = {1}, .is_data = false, .present = false},
                 {.extents = {1}, .is_data = false, .is_constant = true}};
  test.outputs = {
      {.extents = extents(s.heads, s.queries, s.value_depth), .type = DataType::kUInt8}};
  test.off_by_one = 0.01;
  return test;
}

TEST(AttentionCodes, IsTheReferenceUpToRounding) {
  for (const bool steps_first : {false, true})
    for (const int64_t keys : {1, 20, 77})
      check_layer(against_reference({2, 4, 19, keys, 16, 24}, steps_first),
                  words({keys, steps_first}));
}

TEST(AttentionCodes, OfNothing) {
  for (const Shape& s : {Shape{0, 2, 3, 4, 8, 8}, Shape{1, 2, 0, 4, 8, 8}, Shape{1, 2, 3, 0, 8, 8}})
    check(s, DataType::kUInt8);
}

}  // namespace
}  // namespace camshaft::kernels::test
