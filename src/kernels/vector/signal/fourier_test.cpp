// SPDX-License-Identifier: Apache-2.0
// DFT against the transform in double: factors of every kind, real, complex and half spectra, both
// directions.
#include "ir/short_time_spectra.h"
#include "kernels/fourier_length.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

struct Case {
  int64_t length;
  int64_t lines = 3, parts = 2;
  bool inverse = false, onesided = false;
};

int check(const Case& c) {
  const bool to_real = c.inverse && c.onesided;
  const int64_t half = c.length / 2 + 1, given = to_real ? half : c.length,
                bins = c.onesided && !c.inverse ? half : c.length;
  const std::vector<ir::GenericAttribute> attributes = {{"inverse", {c.inverse}, {}, ""},
                                                        {"onesided", {c.onesided}, {}, ""}};
  // Errors of sums of `length` values up to 2, in as many steps as there are factors.
  const double size = std::sqrt(static_cast<double>(c.length));
  LayerCheck layer(
      {.layer = make_layer(ir::LayerKind::kGeneric, ir::GenericAttrs{"DFT", 20, attributes}),
       .inputs = {{.extents = {c.lines, given, c.parts}}},
       .outputs = {{.extents = {c.lines, bins, to_real ? 1 : 2}}},
       .tolerance = c.inverse ? 1e-6 : 8e-7 * size,
       .only = "fourier",
       .strided_inputs = false,
       .strided_outputs = false});
  return layer.run();
}

TEST(Fourier, Lengths) {
  for (const int64_t length : {256, 272, 289, 320, 400, 480, 512, 529, 600, 961, 1000, 1024, 2048,
                               2187, 3125, 4096, 17 * 31, 19 * 23 * 2, 7 * 11 * 13})
    for (const int64_t parts : {1, 2})
      for (const bool inverse : {false, true})
        EXPECT_GT(check({.length = length, .parts = parts, .inverse = inverse}), 0) << length;
}

TEST(Fourier, OneSided) {
  for (const int64_t length : {256, 400, 1024})
    for (const int64_t lines : {1, 2, 5}) {
      EXPECT_GT(check({.length = length, .lines = lines, .parts = 1, .onesided = true}), 0);
      EXPECT_GT(check({.length = length, .lines = lines, .onesided = true}), 0);
      EXPECT_GT(check({.length = length, .lines = lines, .inverse = true, .onesided = true}), 0);
    }
  EXPECT_GT(check({.length = 289, .parts = 1, .onesided = true}), 0);
}

TEST(Fourier, ShortTime) {
  for (const int64_t length : {256, 400, 512})
    for (const int64_t step : {1, 100, 512})
      for (const bool onesided : {false, true})
        for (const bool has_parts : {false, true}) {
          const int64_t frames = 5, samples = (frames - 1) * step + length + step / 2;
          const int64_t bins = onesided ? length / 2 + 1 : length;
          ir::GenericAttrs attrs{"STFT", 17, {{"onesided", {onesided}, {}, ""}}};
          LayerCheck layer(
              {.layer = make_layer(ir::LayerKind::kGeneric, attrs),
               .inputs = {{.extents = has_parts ? Extents{3, samples, 1} : Extents{3, samples}},
                          {.extents = {},
                           .type = DataType::kInt64,
                           .is_data = false,
                           .is_constant = true,
                           .value = [step](int64_t) { return double(step); }},
                          {.extents = {length}, .is_data = false}},
               .outputs = {{.extents = {3, frames, bins, 2}}},
               .tolerance = 2e-6 * std::sqrt(static_cast<double>(length)),
               .only = "fourier",
               .strided_inputs = false,
               .strided_outputs = false});
          EXPECT_GT(layer.run(), 0) << layer.last_refusal();
        }
}

TEST(Fourier, ShortTimeSpectra) {
  for (const int64_t length : {256, 400, 512})
    for (const int64_t hop : {1, 100, 512})
      for (const bool conjugate : {false, true}) {
        const int64_t frames = 5, samples = (frames - 1) * hop + length + hop / 2;
        ir::GenericAttrs attrs{
            ir::kShortTimeSpectra, 1, {{"hop", {hop}, {}, ""}, {"conjugate", {conjugate}, {}, ""}}};
        LayerCheck layer(
            {.layer = make_layer(ir::LayerKind::kGeneric, attrs),
             .inputs = {{.extents = {3, samples}}, {.extents = {length}, .is_data = false}},
             .outputs = {{.extents = {2, 3, frames, length / 2 + 1}}},
             .tolerance = 2e-6 * std::sqrt(static_cast<double>(length)),
             .only = "fourier",
             .strided_inputs = false,
             .strided_outputs = false});
        EXPECT_GT(layer.run(), 0) << layer.last_refusal();
      }
}

TEST(Fourier, ManyLinesAndOtherLengths) {
  EXPECT_GT(check({.length = 1024, .lines = 70}), 0);
  EXPECT_EQ(check({.length = 509}), 0);
  EXPECT_EQ(check({.length = 2 * 37}), 0);
  EXPECT_GT(check({.length = 64, .lines = 5}), 0);  // vectors of AVX2 and less
  int64_t rows, columns;
  EXPECT_FALSE(split_fourier_length(64, 16, rows, columns));
  EXPECT_TRUE(split_fourier_length(1200, 16, rows, columns));
  EXPECT_EQ(rows, 30);
  EXPECT_EQ(columns, 40);
}

}  // namespace
}  // namespace camshaft::kernels::test
