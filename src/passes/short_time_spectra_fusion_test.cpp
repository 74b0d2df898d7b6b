// SPDX-License-Identifier: Apache-2.0
// Convolutions with waves, told from others; their numbers: tests/cli/test_signals.py.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

constexpr int64_t kLength = 256, kBins = kLength / 2 + 1;

std::string value_of(int64_t bin, int64_t n, bool sine) {
  const double window = 0.6 - 0.4 * std::cos(2 * std::numbers::pi * double(n) / kLength),
               angle = 2 * std::numbers::pi * double(bin * n % kLength) / kLength;
  return fmt::format("{:.9g}", window * (sine ? -std::sin(angle) : std::cos(angle)));
}

// The kernels (bin, sine), of `taps`.
std::string kernels(const std::vector<std::pair<int64_t, bool>>& rows, int64_t taps = kLength) {
  std::string text = fmt::format("float[{}, 1, {}] = [", rows.size(), taps);
  for (size_t k = 0; k < rows.size(); ++k)
    for (int64_t n = 0; n < taps; ++n)
      text += (k + n > 0 ? ", " : "") + value_of(rows[k].first, n, rows[k].second);
  return text + "]";
}

std::vector<std::pair<int64_t, bool>> rows_of(bool sine) {
  std::vector<std::pair<int64_t, bool>> rows;
  for (int64_t bin = 0; bin < kBins; ++bin) rows.emplace_back(bin, sine);
  return rows;
}

std::string attributes(int64_t taps, const std::string& padding) {
  return fmt::format("{{kernel=[{}], stride=[100], dilation=[1], {}}}", taps, padding);
}
const char* const kNoPadding = "pre_padding=[0], post_padding=[0]";

TEST(ShortTimeSpectraFusion, CosinesAndSinesInConvolutionsOfTheirOwn) {
  expect_rewrite(
      short_time_spectra_fusion,
      "graph \"g\" {\n  input x: float[2, 1, 1000]\n  constant c: " + kernels(rows_of(false)) +
          "\n  constant s: " + kernels(rows_of(true)) +
          "\n  z: float[2, 129, 8] = Convolution \"b\"(x, s) " + attributes(256, kNoPadding) +
          "\n  y: float[2, 129, 8] = Convolution \"a\"(x, c) " + attributes(256, kNoPadding) +
          "\n  output y, z\n}",
      R"ir("a (signal)" = Shuffle(x) {has_reshape=true, reshape=[2, 1000]}
           "a (spectra)" = Generic("a (signal)", "a (window)") {op_type="ShortTimeSpectra", opset=1, attributes=[("hop", [100], [], ""), ("conjugate", [0], [], "")]}
           "b (part)" = Slice("a (spectra)") {start=[1, 0, 0, 0], size=[1, 2, 8, 129], step=[1, 1, 1, 1]}
           z = Shuffle "b"("b (part)") {first_transpose=[0, 1, 3, 2], has_reshape=true, reshape=[2, 129, 8]}
           "a (part)" = Slice("a (spectra)") {start=[0, 0, 0, 0], size=[1, 2, 8, 129], step=[1, 1, 1, 1]}
           y = Shuffle "a"("a (part)") {first_transpose=[0, 1, 3, 2], has_reshape=true, reshape=[2, 129, 8]})ir");
}

// Kernels of 200 of a transform of 256; padding on both sides.
TEST(ShortTimeSpectraFusion, OneConvolutionOfShorterKernels) {
  std::vector<std::pair<int64_t, bool>> rows = rows_of(false);
  for (const auto& row : rows_of(true)) rows.push_back(row);
  expect_rewrite(short_time_spectra_fusion,
                 "graph \"g\" {\n  input x: float[1, 1, 900]\n  constant c: " + kernels(rows, 200) +
                     "\n  y: float[1, 258, 9] = Convolution \"a\"(x, c) " +
                     attributes(200, "pre_padding=[60], post_padding=[40]") + "\n  output y\n}",
                 R"ir("a (signal)" = Shuffle(x) {has_reshape=true, reshape=[1, 900]}
           "a (padded)" = Pad("a (signal)") {pre=[0, 60], post=[0, 96]}
           "a (spectra)" = Generic("a (padded)", "a (window)") {op_type="ShortTimeSpectra", opset=1, attributes=[("hop", [100], [], ""), ("conjugate", [0], [], "")]}
           y = Shuffle "a"("a (spectra)") {first_transpose=[1, 0, 3, 2], has_reshape=true, reshape=[1, 258, 9]})ir");
}

TEST(ShortTimeSpectraFusion, LeavesOtherKernelsAlone) {
  const auto expect_none = [](const std::vector<std::pair<int64_t, bool>>& rows,
                              const std::string& x = "[1, 1, 1000]",
                              const std::string& padding = kNoPadding) {
    const auto graph =
        std::move(ir::parse_graph("graph \"g\" {\n  input x: float" + x +
                                  "\n  constant c: " + kernels(rows) + "\n  y: float[1, " +
                                  std::to_string(rows.size()) + ", 8] = Convolution(x, c) " +
                                  attributes(256, padding) + "\n  output y\n}"))
            .value();
    Records records;
    EXPECT_EQ(short_time_spectra_fusion(*graph, &records), 0);
  };
  expect_none(rows_of(true));  // sines alone do not tell the window
  std::vector<std::pair<int64_t, bool>> rows = rows_of(false);
  std::swap(rows[3], rows[4]);
  expect_none(rows);
  rows = rows_of(false);
  rows.pop_back();
  expect_none(rows);
}

}  // namespace
}  // namespace camshaft::passes
