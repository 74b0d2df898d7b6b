// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/epilogue/epilogue.h"

namespace camshaft::kernels {
namespace {

double run(const ir::Program& program, double v) {
  std::vector<double> values = {v};
  for (const ir::Instruction& code : program.code) {
    const auto at = [&values](int k) { return k < 0 ? 0.0 : values[static_cast<size_t>(k)]; };
    values.push_back(ir::evaluate_point_op(code.op, at(code.a), at(code.b), at(code.c),
                                           static_cast<double>(code.x),
                                           static_cast<double>(code.y)));
  }
  return values.back();
}

TEST(Gate, EqualsTheProgram) {
  for (const char* text :
       {"v1 = hard_swish v0", "v1 = const 3; v2 = add v0 v1; v3 = clip v2 0 6; v4 = mul v0 v3",
        "v1 = const 3; v2 = add v1 v0; v3 = relu v2; v4 = mul v3 v0; v5 = const "
        "4; v6 = div v4 v5",
        "v1 = hard_sigmoid v0 0.2 0.5; v2 = mul v1 v0; v3 = const 2; v4 = mul "
        "v3 v2",
        "v1 = const 0.5; v2 = fma v0 v1 v1; v3 = clip v2 -1 1; v4 = mul v0 v3"}) {
    const ir::Program program = ir::parse_program(1, text).value();
    Gate gate;
    ASSERT_TRUE(find_gate(program, gate)) << text;
    for (double v = -9; v < 9; v += 0.37) {
      const double line = static_cast<double>(gate.scale) * v + static_cast<double>(gate.shift);
      const double factor =
          std::clamp(line, static_cast<double>(gate.low), static_cast<double>(gate.high));
      EXPECT_NEAR(v * factor, run(program, v), 1e-5) << text << " of " << v;
    }
  }
}

TEST(Gate, NothingElse) {
  for (const char* text :
       {"v1 = relu v0", "v1 = silu v0 1", "v1 = mul v0 v0", "v1 = const 3; v2 = add v0 v1",
        "v1 = clip v0 0 1; v2 = clip v0 0 2; v3 = mul v1 v2",
        "v1 = hard_swish v0; v2 = const 1; v3 = add v1 v2",
        "v1 = hard_swish v0; v2 = const -1; v3 = mul v1 v2"}) {
    Gate gate;
    EXPECT_FALSE(find_gate(ir::parse_program(1, text).value(), gate)) << text;
  }
}

}  // namespace
}  // namespace camshaft::kernels
