// SPDX-License-Identifier: Apache-2.0
// Every kernel of bytes at the values where saturating arithmetic would saturate: codes and weights
// 0, 255, 127, -128, alternating, and weights exactly at and just beyond what 16-bit sums can hold.
// Results are integers (or means of integers), so equality is bit equality.
#include "kernels/vector/byte_test_util.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

using Values = std::function<double(int64_t)>;

// The first value `period` times, then the second, and again.
Values alternating(double even, double odd, int64_t period) {
  return [=](int64_t k) { return k / period % 2 == 0 ? even : odd; };
}
Values constant(double value) {
  return alternating(value, value, 1);
}
// One of the two, at random.
Values either(double a, double b, uint32_t seed) {
  return [=](int64_t k) {
    const uint32_t hash = (static_cast<uint32_t>(k) * 2654435761u + seed) * 2246822519u;
    return (hash >> 19 & 1) != 0 ? a : b;
  };
}

std::vector<Values> codes(double largest) {
  return {constant(largest), alternating(largest, 0, 1), alternating(0, largest, 2),
          either(largest, 0, 7)};
}

// What codes of 0 … largest can be multiplied with in 16 bits: pairs of `one`, sums of 2 and 4 such
// pairs of `two` and `four`; and one more.
std::vector<Values> weights(double largest) {
  const double one = std::min(127.0, std::floor(32767 / largest / 2)), two = std::floor(one / 2),
               four = std::floor(one / 4);
  return {constant(-128),
          constant(127),
          alternating(-128, 127, 1),
          alternating(127, -128, 2),
          alternating(-128, 127, 9),
          constant(one),
          constant(-std::min(128.0, one + 1)),
          either(two, two + 1, 1),
          either(-two, -two - 1, 2),
          either(four, four + 1, 3),
          either(-four, four + 1, 4),
          either(-128, four, 5)};
}

void check_everywhere(const TestLayer& test, const std::string& what) {
  for (const bool words_only : {false, true}) {
    if (words_only && active_isa() == Isa::kScalar) break;
    force_word_products(words_only);
    check_layer(test, what + (words_only ? ", 16-bit products" : ""));
  }
  force_word_products(false);
}

struct Window {
  const char* name;
  int64_t ic, size, oc, kernel, stride, pad, groups;
};
constexpr Window kWindows[] = {
    {"dense", 20, 4, 20, 3, 1, 1, 1},      {"pointwise", 70, 3, 40, 1, 1, 0, 1},
    {"stem", 3, 9, 17, 5, 2, 2, 1},        {"groups", 12, 4, 34, 3, 1, 1, 2},
    {"depthwise", 19, 5, 19, 3, 1, 1, 19},
};

TestLayer convolution(const Window& w, double largest, const Values& x, const Values& weights,
                      int64_t zero_point) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {w.kernel, w.kernel};
  attrs.stride = {w.stride, w.stride};
  attrs.dilation = {1, 1};
  attrs.pre_padding = attrs.post_padding = {w.pad, w.pad};
  attrs.groups = w.groups;
  attrs.zero_point = zero_point;
  attrs.x_maximum = static_cast<int64_t>(largest);
  attrs.type = DataType::kInt32;
  const int64_t out = (w.size + 2 * w.pad - w.kernel) / w.stride + 1;
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kConvolution, attrs);
  test.inputs = {{.extents = {1, w.ic, w.size, w.size}, .type = DataType::kUInt8, .value = x},
                 {.extents = {w.oc, w.ic / w.groups, w.kernel, w.kernel},
                  .type = DataType::kInt8,
                  .is_data = false,
                  .is_constant = true,
                  .value = weights},
                 {.extents = {w.oc}, .type = DataType::kInt32, .present = false}};
  test.outputs = {{.extents = {1, w.oc, out, out}, .type = DataType::kInt32}};
  test.tolerance = 0;
  test.strided_inputs = test.strided_outputs = test.threaded = false;
  return test;
}

TEST(ByteExtremes, Convolutions) {
  for (const Window& window : kWindows)
    for (const double largest : {255.0, 133.0, 127.0})
      for (const Values& x : codes(largest))
        for (const Values& w : weights(largest)) {
          const int64_t zero_point = largest == 133 ? 6 : 0;
          check_everywhere(convolution(window, largest, x, w, zero_point), window.name);
        }
}

TEST(ByteExtremes, ZeroPointsAtTheEnds) {
  for (const Window& window : kWindows)
    for (const int64_t zero_point : {1, 128, 255})
      for (const Values& w : weights(255))
        check_everywhere(convolution(window, 255, either(0, 255, 3), w, zero_point), window.name);
}

TestLayer product(double largest, const Values& a, const Values& b, DataType b_type,
                  bool b_constant) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.a_maximum = static_cast<int64_t>(largest);
  attrs.b_zero_point = b_type == DataType::kUInt8 ? 128 : 0;
  attrs.type = DataType::kInt32;
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  test.inputs = {{.extents = {7, 150}, .type = DataType::kUInt8, .value = a},
                 {.extents = {150, 41},
                  .type = b_type,
                  .is_data = !b_constant,
                  .is_constant = b_constant,
                  .value = b}};
  test.outputs = {{.extents = {7, 41}, .type = DataType::kInt32}};
  test.tolerance = 0;
  test.strided_inputs = test.strided_outputs = test.threaded = false;
  return test;
}

TEST(ByteExtremes, Products) {
  for (const double largest : {255.0, 133.0, 127.0})
    for (const Values& a : codes(largest))
      for (const Values& w : weights(largest)) {
        check_everywhere(product(largest, a, w, DataType::kInt8, true), "packed");
        check_everywhere(product(largest, a, w, DataType::kInt8, false), "int8 activation");
        const Values b = [w](int64_t k) { return w(k) + 128; };
        check_everywhere(product(largest, a, b, DataType::kUInt8, false), "uint8 activation");
        check_everywhere(product(largest, a, b, DataType::kUInt8, true), "packed uint8");
      }
}

TEST(ByteExtremes, Pooling) {
  for (const DataType type : {DataType::kUInt8, DataType::kInt8})
    for (const ir::PoolingType pooling : {ir::PoolingType::kMax, ir::PoolingType::kAverage})
      for (const bool global : {false, true})
        for (const int64_t channels : {5, 64, 200}) {
          const double low = type == DataType::kInt8 ? -128 : 0, high = low + 255;
          const int64_t size = global ? 24 : 7;  // sums of 576 codes are beyond 16 bits
          for (const Values& x : {constant(low), constant(high), alternating(low, high, 1),
                                  alternating(high, low, 3), either(low, high, 5)}) {
            ir::PoolingAttrs attrs;
            attrs.type = pooling;
            attrs.global = global;
            if (!global) {
              attrs.kernel = {3, 3}, attrs.stride = {2, 2}, attrs.dilation = {1, 1};
              attrs.pre_padding = attrs.post_padding = {1, 1};
            }
            const bool is_mean = pooling == ir::PoolingType::kAverage;
            const int64_t out = global ? 1 : (size + 2 - 3) / 2 + 1;
            TestLayer test;
            test.layer = make_layer(ir::LayerKind::kPooling, attrs);
            test.inputs = {{.extents = {1, channels, size, size}, .type = type, .value = x}};
            test.outputs = {
                {.extents = {1, channels, out, out}, .type = is_mean ? DataType::kFloat : type}};
            test.tolerance = is_mean ? 1e-7 : 0;  // of one division
            test.strided_inputs = test.strided_outputs = test.threaded = false;
            check_layer(test, is_mean ? "average" : "maximum");
          }
        }
}

}  // namespace
}  // namespace camshaft::kernels::test
