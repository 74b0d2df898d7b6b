// SPDX-License-Identifier: Apache-2.0
// An epilogue that kernels do themselves gives the bits the tile program gives, in every tactic.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/testing/epilogue_spellings.h"
#include "kernels/testing/layer_case.h"

namespace camshaft::kernels {
namespace {

// The same, behind something no kernel does itself: v where it is NaN, else v.
ir::Program as_program(ir::Program program) {
  const int v = program.result();
  const int test = ir::append(program, ir::PointOp::kIsNan, v);
  ir::append(program, ir::PointOp::kSelect, test, v, v);
  return program;
}

LayerCase product(const ir::Program& epilogue) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.epilogue = epilogue;
  return LayerCase(ir::LayerKind::kMatrixMultiply, attrs,
                   {{{9, 33}}, {{33, 37}, true}, {{37}, true}, {{9, 37}}}, {{9, 37}});
}

LayerCase convolution(const ir::Program& epilogue, int64_t groups) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {3, 3};
  attrs.stride = attrs.dilation = {1, 1};
  attrs.pre_padding = attrs.post_padding = {1, 1};
  attrs.groups = groups;
  attrs.epilogue = epilogue;
  return LayerCase(
      ir::LayerKind::kConvolution, attrs,
      {{{1, 36, 7, 9}}, {{36, 36 / groups, 3, 3}, true}, {{36}, true}, {{1, 36, 7, 9}}},
      {{1, 36, 7, 9}});
}

template <class Make>
void compare(ir::LayerKind kind, Make make) {
  ThreadPool pool(1);
  int compared = 0;
  for (const Tactic* tactic : tactics_for(kind))
    for (uint32_t seed = 0; seed < 24; ++seed) {
      const ir::Program program = EpilogueSpelling(seed).program();
      LayerCase taken = make(program), run = make(as_program(program));
      if (!tactic->refusal(taken.problem(*tactic, 1)).empty() ||
          !tactic->refusal(run.problem(*tactic, 1)).empty())
        break;
      for (LayerCase* layer : {&taken, &run}) layer->prepare(*tactic, &pool), layer->run();
      ASSERT_TRUE(std::ranges::equal(taken.output(), run.output()))
          << tactic->name << " " << isa_name(tactic->isa) << ": " << ir::to_string(program);
      ++compared;
    }
  EXPECT_GT(compared, 100);
}

TEST(EpilogueBits, OfProducts) {
  compare(ir::LayerKind::kMatrixMultiply, product);
}

TEST(EpilogueBits, OfConvolutions) {
  for (int64_t groups : {1, 9, 36})
    compare(ir::LayerKind::kConvolution,
            [groups](const ir::Program& program) { return convolution(program, groups); });
}

}  // namespace
}  // namespace camshaft::kernels
