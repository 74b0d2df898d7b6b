// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "ir/types.h"

namespace camshaft::ir {
namespace {

struct Symbols : testing::Test {
  SymbolTable table;
  Dim n = table.input("N"), h = table.input("H"), w = table.input("W");
};

TEST_F(Symbols, NumbersFold) {
  EXPECT_EQ(table.add(2, 3), Dim(5));
  EXPECT_EQ(table.number(table.sub(2, 5)), -3);
  EXPECT_EQ(table.to_string(table.sub(2, 5)), "-3");
  EXPECT_EQ(table.number(table.floor_div(table.constant(-7), 2)), -4);
  EXPECT_EQ(table.number(table.ceil_div(7, 2)), 4);
  EXPECT_EQ(table.mod(table.constant(-7), 3), Dim(2));
  EXPECT_EQ(table.floor_div(7, 0), Dim(0));
}

TEST_F(Symbols, EqualExpressionsAreTheSameDim) {
  EXPECT_EQ(table.input("N"), n);
  EXPECT_EQ(table.add(n, h), table.add(h, n));
  EXPECT_EQ(table.add(table.add(n, h), w), table.add(n, table.add(w, h)));
  EXPECT_EQ(table.mul(table.mul(n, h), 4), table.mul(table.mul(2, h), table.mul(n, 2)));
  EXPECT_EQ(table.sub(table.add(n, h), h), n);
  EXPECT_EQ(table.sub(n, n), Dim(0));
  EXPECT_EQ(table.mul(table.add(n, 1), 64), table.add(table.mul(n, 64), 64));
  EXPECT_NE(table.runtime("r"), table.runtime("r"));
}

TEST_F(Symbols, ExactQuotients) {
  const Dim pixels = table.mul(table.mul(h, w), 64);
  EXPECT_EQ(table.floor_div(pixels, table.mul(w, 64)), h);
  EXPECT_EQ(table.floor_div(pixels, 64), table.mul(h, w));
  EXPECT_EQ(table.floor_div(table.mul(h, table.add(w, 1)), table.add(w, 1)), h);
  EXPECT_EQ(table.floor_div(table.add(table.mul(h, 4), 3), 4), h);
  EXPECT_EQ(table.ceil_div(table.mul(h, 4), 4), h);
  EXPECT_EQ(table.mod(pixels, 32), Dim(0));
  EXPECT_EQ(table.mod(table.add(table.mul(h, 4), 3), 4), Dim(3));
}

TEST_F(Symbols, NestedHalvingsCollapse) {
  Dim a = h;
  for (int k = 0; k < 5; ++k)
    a = table.add(table.floor_div(table.sub(a, 1), 2), 1);  // stride 2, SAME
  EXPECT_EQ(a, table.ceil_div(h, 32));
  EXPECT_EQ(table.floor_div(table.floor_div(h, 2), 3), table.floor_div(h, 6));
}

TEST_F(Symbols, MinAndMaxUseBounds) {
  EXPECT_EQ(table.min(h, table.add(h, w)), h);
  EXPECT_EQ(table.max(h, 0), h);
  EXPECT_EQ(table.max(table.sub(h, 1), table.constant(-1)), table.sub(h, 1));
  EXPECT_EQ(table.min(h, INT64_MAX), h);
  const Dim least = table.min(h, 5);
  EXPECT_EQ(table.min(least, 5), least);
  EXPECT_EQ(table.bounds(least).high, 5);
}

TEST_F(Symbols, BroadcastIsTheLargerUnlessOneIsNone) {
  const Dim r = table.runtime("r"), s = table.runtime("s"), both = table.broadcast(r, s);
  EXPECT_EQ(both, table.broadcast(s, r));
  EXPECT_EQ(table.broadcast(both, r), both);
  EXPECT_EQ(table.broadcast(1, r), r);
  EXPECT_EQ(table.to_string(both), "broadcast(s, r)");
  std::vector<int64_t> values(table.size());
  const auto value = [&](int64_t first, int64_t second) {
    values[r.symbol_id()] = first, values[s.symbol_id()] = second;
    return table.evaluate(both, values);
  };
  EXPECT_EQ(value(5, 1), 5);
  EXPECT_EQ(value(1, 5), 5);
  EXPECT_EQ(value(4, 4), 4);
  EXPECT_EQ(value(0, 1), 0);
  EXPECT_EQ(value(1, 0), 0);
}

TEST_F(Symbols, Text) {
  EXPECT_EQ(table.to_string(table.mul(4, n)), "N*4");
  EXPECT_EQ(table.to_string(table.floor_div(table.add(h, 1), 2)), "((H + 1)/2)");
  EXPECT_EQ(table.to_string(table.sub(h, w)), "(H - W)");
}

TEST_F(Symbols, RuntimeIsSeenThroughArithmetic) {
  const Dim r = table.runtime("count");
  EXPECT_TRUE(table.depends_on_runtime(table.add(table.mul(r, 2), n)));
  EXPECT_FALSE(table.depends_on_runtime(table.mul(n, 2)));
}

TEST_F(Symbols, AppendReadsBackTheSameTable) {
  const Dim x = table.floor_div(table.add(table.mul(h, 3), w), 7);
  SymbolTable copy;
  for (int k = 0; k < table.size(); ++k) copy.append(table.symbol(k));
  EXPECT_EQ(copy.to_string(x), table.to_string(x));
  EXPECT_EQ(copy.floor_div(copy.add(copy.input("W"), copy.mul(copy.input("H"), 3)), 7), x);
}

TEST_F(Symbols, LargeSumsAndHugeNumbersStayBounded) {
  Dim total = 0;
  for (int k = 0; k < 3000; ++k) total = table.add(total, table.input("x" + std::to_string(k)));
  Dim power = n;
  for (int k = 0; k < 200; ++k) power = table.mul(power, table.add(power, h));
  EXPECT_LT(table.size(), 20000);
  EXPECT_EQ(table.number(table.mul(INT64_MAX, INT64_MAX)), INT64_MAX);
}

// Random expressions: the canonical form has the value of plain arithmetic.
TEST_F(Symbols, RandomExpressionsKeepTheirValue) {
  std::mt19937 random(7);
  struct Value {
    Dim dim;
    int64_t number;
  };
  for (int round = 0; round < 400; ++round) {
    const int64_t bound_values[] = {1 + int64_t(random() % 9), 1 + int64_t(random() % 9),
                                    1 + int64_t(random() % 9)};
    std::vector<Value> values = {{n, bound_values[0]}, {h, bound_values[1]}, {w, bound_values[2]}};
    for (int64_t c : {1, 2, 3, 5}) values.push_back({c, c});
    for (int step = 0; step < 12; ++step) {
      const Value a = values[random() % values.size()], b = values[random() % values.size()];
      if (std::abs(a.number) > 1000000 || std::abs(b.number) > 1000000) continue;
      const auto floor_div = [](int64_t x, int64_t y) {
        return x / y - (x % y != 0 && (x < 0) != (y < 0));
      };
      switch (random() % 8) {
        case 0:
          values.push_back({table.add(a.dim, b.dim), a.number + b.number});
          break;
        case 1:
          values.push_back({table.sub(a.dim, b.dim), a.number - b.number});
          break;
        case 2:
          values.push_back({table.mul(a.dim, b.dim), a.number * b.number});
          break;
        case 3:
          values.push_back({table.min(a.dim, b.dim), std::min(a.number, b.number)});
          break;
        case 4:
          values.push_back({table.max(a.dim, b.dim), std::max(a.number, b.number)});
          break;
        case 5:
          if (b.number > 0)
            values.push_back({table.floor_div(a.dim, b.dim), floor_div(a.number, b.number)});
          break;
        case 6:
          if (b.number > 0)
            values.push_back({table.ceil_div(a.dim, b.dim), -floor_div(-a.number, b.number)});
          break;
        default:
          if (b.number > 0)
            values.push_back(
                {table.mod(a.dim, b.dim), a.number - b.number * floor_div(a.number, b.number)});
      }
    }
    std::vector<int64_t> bindings(table.size());
    std::vector<bool> bound(table.size());
    const Dim inputs[] = {n, h, w};
    for (int k = 0; k < 3; ++k) {
      bindings[inputs[k].symbol_id()] = bound_values[k];
      bound[inputs[k].symbol_id()] = true;
    }
    table.evaluate_all(bindings, bound);
    for (const Value& value : values) {
      ASSERT_EQ(table.evaluate(value.dim, bindings), value.number) << table.to_string(value.dim);
      if (!value.dim.is_known()) {
        ASSERT_EQ(bindings[value.dim.symbol_id()], value.number);
      }
      const SymbolTable::Bounds bounds = table.bounds(value.dim);
      ASSERT_TRUE(bounds.low <= value.number && value.number <= bounds.high)
          << table.to_string(value.dim);
    }
  }
}

}  // namespace
}  // namespace camshaft::ir
