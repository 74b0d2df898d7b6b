// SPDX-License-Identifier: Apache-2.0
// Attention: every tactic against the reference kernel, which computes in double.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

struct Heads {
  int64_t batch = 1, heads = 2, kv_heads = 2, queries = 5, keys = 7, depth = 8, value_depth = 8;
};

struct Case {
  Heads heads;
  ir::AttentionAttrs attrs = {};
  const char* epilogue = "";
  std::vector<TestTensor> operands = {};
  std::vector<int64_t> lengths = {};
  bool steps_first = false;
};

TestLayer make_test(const Case& c) {
  const Heads& h = c.heads;
  ir::AttentionAttrs attrs = c.attrs;
  if (*c.epilogue)
    attrs.epilogue = ir::parse_program(1 + static_cast<int>(c.operands.size()), c.epilogue).value();
  const auto extents = [&](int64_t heads, int64_t steps, int64_t depth) {
    return c.steps_first ? Extents{h.batch, steps, heads * depth}
                         : Extents{h.batch, heads, steps, depth};
  };
  if (c.steps_first) {
    attrs.heads = h.heads, attrs.kv_heads = h.kv_heads;
    attrs.q_steps_first = attrs.k_steps_first = attrs.v_steps_first = attrs.y_steps_first = true;
  }
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kAttention, attrs);
  test.inputs = {{.extents = extents(h.heads, h.queries, h.depth)},
                 {.extents = extents(h.kv_heads, h.keys, h.depth)},
                 {.extents = extents(h.kv_heads, h.keys, h.value_depth)}};
  if (!c.lengths.empty() || !c.operands.empty())
    test.inputs.push_back({.extents = {h.batch},
                           .type = DataType::kInt64,
                           .is_data = false,
                           .present = !c.lengths.empty(),
                           .value = [lengths = c.lengths](int64_t k) {
                             return lengths.empty()
                                        ? 0
                                        : static_cast<double>(lengths[static_cast<size_t>(k)]);
                           }});
  for (const TestTensor& operand : c.operands) test.inputs.push_back(operand);
  test.outputs.push_back({.extents = extents(h.heads, h.queries, h.value_depth)});
  // Scores of up to 4 * depth * scale are off by some of their last places; what they weigh is of
  // up to 2.
  test.tolerance = 1.2e-7 * (8 + 16 * static_cast<double>(h.depth) * attrs.scale);
  return test;
}

void check(const Case& c) {
  const Heads& h = c.heads;
  check_layer(make_test(c),
              words({h.batch, h.heads, h.kv_heads, h.queries, h.keys, h.depth, h.value_depth}) +
                  c.epilogue);
}

Case of(Heads heads) {
  Case c{heads};
  c.attrs.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(heads.depth)));
  return c;
}

TEST(Attention, Tails) {
  for (const int64_t queries : {1, 2, 3, 4, 10, 13, 14, 15, 33})
    for (const int64_t keys : {1, 3, 16, 31, 32, 33, 70}) {
      check(of({1, 2, 2, queries, keys, 8, 8}));
      check(of({1, 2, 2, queries, keys, 7, 33}));
    }
}

TEST(Attention, Depths) {
  for (const int64_t depth : {1, 3, 16, 20, 32, 64, 80, 96, 128, 160, 256, 300})
    for (const int64_t value_depth : {depth, depth / 2 + 1})
      check(of({2, 3, 3, 9, 40, depth, value_depth}));
}

TEST(Attention, SharedKeys) {
  for (const int64_t kv_heads : {1, 2, 3, 6})
    for (const int64_t queries : {1, 4, 20}) check(of({2, 6, kv_heads, queries, 37, 16, 16}));
}

TEST(Attention, RowsInPlace) {
  for (const int64_t queries : {1, 6, 30}) {
    Case c = of({2, 6, 2, queries, 37, 16, 24});
    c.steps_first = true;
    check(c);
  }
}

// Many heads of few queries and keys, in all layouts; a head per lane, the last ones in some.
TEST(Attention, SmallHeads) {
  for (const int64_t heads : {4, 5, 16})
    for (const int64_t batch : {1, 3, 8})
      for (const bool steps_first : {false, true})
        for (const Heads& h :
             {Heads{batch, heads, heads, 8, 8, 8, 8}, Heads{batch, heads, heads, 3, 5, 7, 9},
              Heads{batch, heads, heads, 16, 13, 40, 64}, Heads{batch, heads, heads, 1, 2, 1, 1}}) {
          Case c = of(h);
          c.steps_first = steps_first;
          check(c);
        }
}

// Of windows that leave some queries without a key.
TEST(Attention, WindowsOfSmallHeads) {
  for (const bool zero : {false, true})
    for (const int64_t right : {-1, 0, 2})
      for (const int64_t left : {-1, 0, 3}) {
        Case c = of({2, 6, 6, 9, 6, 8, 8});
        c.attrs.nan_is_zero = zero;
        c.attrs.left_window = left, c.attrs.right_window = right;
        check(c);
      }
}

// Blocks of at most 512 keys, units of many rows.
TEST(Attention, LongSequences) {
  for (const int64_t keys : {511, 512, 513, 1000, 1700}) check(of({1, 1, 1, 40, keys, 16, 16}));
  check(of({1, 2, 1, 700, 130, 8, 8}));
  check(of({1, 1, 1, 3, 8191, 32, 32}));
  check(of({1, 1, 1, 1, 8191, 64, 64}));
}

TEST(Attention, Epilogues) {
  const Heads h{2, 4, 2, 21, 50, 16, 16};
  for (const Extents& mask :
       {Extents{2, 4, 21, 50}, {1, 1, 21, 50}, {2, 1, 1, 50}, {4, 21, 1}, {1}}) {
    Case c = of(h);
    c.epilogue = "v2 = add v0 v1";
    c.operands = {{.extents = mask, .is_data = mask.size() >= 3}};
    check(c);
  }
  Case both = of(h);
  both.epilogue = "v3 = add v0 v1; v4 = add v2 v3";
  both.operands = {{.extents = {1, 4, 21, 50}}, {.extents = {2, 1, 1, 50}}};
  check(both);
  Case cap = of(h);
  cap.epilogue = "v1 = const 0.5; v2 = mul v0 v1; v3 = tanh v2; v4 = const 2; v5 = mul v3 v4";
  check(cap);
  Case chosen = of(h);
  chosen.epilogue = "v2 = const -inf; v3 = select v1 v0 v2";
  chosen.operands = {{.extents = {2, 1, 21, 50}, .type = DataType::kBool, .is_data = false}};
  check(chosen);
}

TEST(Attention, Windows) {
  for (const int64_t queries : {1, 7, 40})
    for (const int64_t keys : {7, 40, 700})
      for (const int64_t left : {-1, 0, 5})
        for (const int64_t right : {-1, 0, 3})
          for (const bool shifted : {false, true}) {
            Case c = of({1, 2, 1, queries, keys, 8, 40});
            c.attrs.left_window = left;
            c.attrs.right_window = right;
            c.attrs.nan_is_zero = true;
            if (shifted) c.attrs.first_query = {keys - 3};
            check(c);
          }
}

TEST(Attention, Lengths) {
  for (const bool zero : {false, true})
    for (const int64_t right : {-1, 0}) {
      Case c = of({4, 2, 1, 9, 600, 8, 8});
      c.lengths = {600, 1, 0, 513};
      c.attrs.nan_is_zero = zero;
      c.attrs.right_window = right;
      check(c);
    }
}

// Scores that hide all keys: no number, or 0.
TEST(Attention, NothingSeen) {
  for (const bool zero : {false, true})
    for (const int64_t keys : {20, 1100}) {
      Case c = of({1, 1, 1, 20, keys, 8, 8});
      c.attrs.nan_is_zero = zero;
      c.epilogue = "v2 = add v0 v1";
      c.operands = {{.extents = {20, keys}, .is_data = false, .value = [keys](int64_t k) {
                       const int64_t row = k / keys, key = k % keys;
                       return row == 3 || (row == 5 && key < 600) || (row == 6 && key > 10)
                                  ? -std::numeric_limits<double>::infinity()
                                  : 0;
                     }}};
      check(c);
    }
}

// The least float hides as -infinity does, and where it is everywhere nothing is hidden.
TEST(Attention, LeastFloats) {
  Case c = of({1, 1, 1, 20, 40, 8, 8});
  c.epilogue = "v2 = add v0 v1";
  c.operands = {{.extents = {20, 40}, .is_data = false, .value = [](int64_t k) {
                   return k / 40 == 3 || k % 40 > 20
                              ? static_cast<double>(-std::numeric_limits<float>::max())
                              : 0;
                 }}};
  check(c);
}

// A larger score in every block: what was summed before fades, or, where it is larger by little,
// stays. Not in every row of a tile.
TEST(Attention, GrowingScores) {
  for (const double slope : {0.01, 0.05})
    for (const bool thirds : {false, true}) {
      Case c = of({1, 1, 1, 17, 1500, 8, 8});
      c.epilogue = "v2 = add v0 v1";
      c.operands = {{.extents = {17, 1500}, .is_data = false, .value = [=](int64_t k) {
                       return thirds && k / 1500 % 3 != 0 ? 0
                                                          : slope * static_cast<double>(k % 1500);
                     }}};
      check(c);
    }
}

TEST(Attention, ThreeDimensions) {
  ir::AttentionAttrs attrs;
  attrs.scale = 0.3f;
  attrs.epilogue = ir::parse_program(2, "v2 = add v0 v1").value();
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kAttention, attrs);
  test.inputs = {{.extents = {6, 20, 12}},
                 {.extents = {6, 30, 12}},
                 {.extents = {6, 30, 9}},
                 {.extents = {1}, .type = DataType::kInt64, .is_data = false, .present = false},
                 {.extents = {6, 20, 30}}};
  test.outputs = {{.extents = {6, 20, 9}}};
  check_layer(test, "three dimensions");
}

}  // namespace
}  // namespace camshaft::kernels::test
