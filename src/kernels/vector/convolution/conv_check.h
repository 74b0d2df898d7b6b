// SPDX-License-Identifier: Apache-2.0
// What the tests of convolutions share: square cases, and every tactic that takes a case against
// the definition in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/conv_case.h"

namespace camshaft::kernels {

// The rounding error of a sum of K products grows like sqrt(K) ulps of the sum of magnitudes, for
// any order of adding.
inline double tolerance(const ConvShape& s, const Tactic& t) {
  // Both factors are off by up to 2^-9: a product by 2^-8, 2^15 times the epsilon of floats.
  if (t.precision == DataType::kBFloat16) return 32768 * 1.01;
  const std::string_view tactic = t.name;
  // Winograd's transforms amplify: measured up to 6 times the error of direct sums.
  const double amplification = tactic.find("winograd") == tactic.npos ? 1 : 12;
  return amplification * (2 + std::sqrt(static_cast<double>(s.kh * s.kw * s.group_ic())));
}

inline std::string describe(const ConvCaseSpec& spec) {
  const ConvShape& s = spec.shape;
  return fmt::format(
      "n{} ic{} {}x{} oc{} k{}x{} s{}x{} d{}x{} p{},{},{},{} g{} slack{} rank{} [{}]", s.batch,
      s.ic, s.ih, s.iw, s.oc, s.kh, s.kw, s.sh, s.sw, s.dh, s.dw, s.pad_top, s.pad_left,
      spec.pad_bottom, spec.pad_right, s.groups, spec.slack, spec.rank, spec.epilogue);
}

inline ConvCaseSpec square(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride,
                           int64_t pad, int64_t groups = 1) {
  ConvCaseSpec spec;
  spec.shape = {.groups = groups,
                .ic = ic,
                .ih = size,
                .iw = size,
                .oc = oc,
                .kh = kernel,
                .kw = kernel,
                .sh = stride,
                .sw = stride,
                .pad_top = pad,
                .pad_left = pad};
  spec.pad_bottom = spec.pad_right = pad;
  return spec;
}

// Runs every tactic that takes the case, on one thread, and on 2 and 3 if the work is worth it;
// gives how many did.
inline int check(const ConvCaseSpec& spec, bool threaded = false) {
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  ConvCase conv(spec);
  const ir::LayerKind kind =
      spec.transposed ? ir::LayerKind::kDeconvolution : ir::LayerKind::kConvolution;
  int runs = 0;
  for (const Tactic* tactic : tactics_for(kind)) {
    for (ThreadPool& pool : pools) {
      const Problem problem = conv.problem(*tactic, pool.threads());
      if (!tactic->refusal(problem).empty()) break;
      if (pool.threads() > 1 && !threaded) break;
      EXPECT_GT(tactic->cost_us(problem), 0) << tactic->name;
      conv.prepare(*tactic, &pool);
      conv.run();
      EXPECT_LE(conv.worst_error(), tolerance(conv.shape(), *tactic))
          << tactic->name << " " << isa_name(tactic->isa) << " threads " << pool.threads() << ": "
          << describe(spec);
      ++runs;
    }
  }
  return runs;
}

}  // namespace camshaft::kernels
