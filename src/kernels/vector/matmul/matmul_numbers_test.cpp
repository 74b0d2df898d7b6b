// SPDX-License-Identifier: Apache-2.0
// Products of doubles, exact up to the contraction of products and sums, and of integers, to the
// bit.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using test::check_layer;
using test::make_layer;
using test::TestTensor;

constexpr DataType kTypes[] = {DataType::kDouble, DataType::kInt64, DataType::kInt32,
                               DataType::kUInt64, DataType::kUInt32};

void check(DataType type, const ir::MatrixMultiplyAttrs& attrs, const ir::Extents& a,
           const ir::Extents& b, const ir::Extents& y, const ir::Extents* c = nullptr) {
  const auto value = [type](int64_t k) {
    const auto v = static_cast<double>(k * 7919 % 1009);
    return type == DataType::kDouble ? v / 500 - 1 : k % 97 == 5 ? 2147483647.0 : v - 300;
  };
  const auto tensor = [&](const ir::Extents& extents) {
    return TestTensor{.extents = extents, .type = type, .value = value};
  };
  std::vector<TestTensor> inputs = {tensor(a), tensor(b)};
  if (c != nullptr) inputs.push_back(tensor(*c));
  check_layer({.layer = make_layer(LayerKind::kMatrixMultiply, attrs),
               .inputs = inputs,
               .outputs = {{.extents = y, .type = type}},
               .tolerance = type == DataType::kDouble ? 1e-13 : 0},
              std::string(ir::type_name(type)));
}

TEST(MatMulNumbers, Shapes) {
  for (const DataType type : kTypes) {
    for (const int64_t m : {1, 3, 8, 13, 140})
      for (const int64_t n : {1, 12, 24, 50})
        for (const int64_t k : {1, 7, 130, 300}) check(type, {}, {m, k}, {k, n}, {m, n});
    check(type, {}, {2, 1, 5, 9}, {3, 9, 11}, {2, 3, 5, 11});
    check(type, {}, {4, 5, 9}, {9, 40}, {4, 5, 40});
    check(type, {}, {9}, {9, 40}, {40});
    check(type, {}, {6, 9}, {9}, {6});
    check(type, {}, {3, 6, 9}, {9}, {3, 6});
    check(type, {}, {9}, {3, 9, 6}, {3, 6});
    check(type, {}, {200}, {200}, {});
  }
}

TEST(MatMulNumbers, TransposedFactors) {
  for (const DataType type : kTypes)
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        ir::MatrixMultiplyAttrs attrs;
        attrs.transpose_a = a, attrs.transpose_b = b;
        check(type, attrs, a ? ir::Extents{9, 17} : ir::Extents{17, 9},
              b ? ir::Extents{30, 9} : ir::Extents{9, 30}, {17, 30});
        check(type, attrs, a ? ir::Extents{2, 9, 4} : ir::Extents{2, 4, 9},
              b ? ir::Extents{30, 9} : ir::Extents{9, 30}, {2, 4, 30});
      }
}

TEST(MatMulNumbers, Addend) {
  for (const DataType type : kTypes)
    for (const ir::Extents& c : {ir::Extents{17, 30}, {30}, {17, 1}, {1, 30}, {}, {1}}) {
      ir::MatrixMultiplyAttrs attrs;
      check(type, attrs, {17, 200}, {200, 30}, {17, 30}, &c);
      if (type != DataType::kDouble) continue;
      attrs.alpha = 0.3F;
      check(type, attrs, {17, 200}, {200, 30}, {17, 30}, &c);
    }
}

}  // namespace
}  // namespace camshaft::kernels
