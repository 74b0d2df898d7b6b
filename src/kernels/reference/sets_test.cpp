// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements, on what the conformance cases leave out: integers that no double
// tells apart, tensors that do not lie row by row, masks around a word.
#include <gtest/gtest.h>

#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

Outputs run(const ir::Layer& layer, std::span<const TensorView> inputs) {
  KernelArgs args;
  args.layer = &layer;
  args.inputs = inputs;
  Outputs outputs;
  const Status status = reference_kernel(layer)->run_dynamic(args, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs;
}

ir::Layer generic(const char* op_type, std::vector<ir::GenericAttribute> attributes = {}) {
  ir::Layer layer;
  layer.kind = ir::LayerKind::kGeneric;
  layer.attrs = ir::GenericAttrs{op_type, 20, std::move(attributes)};
  return layer;
}

Ints numbers(const DynamicOutput& output) {
  Ints values(output.bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), output.bytes.data(), output.bytes.size());
  return values;
}

TEST(Unique, TellsLargeIntegersApart) {
  const int64_t big = int64_t{1} << 60;
  Ints x = {big + 1, big, 5, big + 1, -big - 1, -big, 5};
  const TensorView inputs[] = {make_view(x.data(), DataType::kInt64, Format::kLinear, Extents{7})};
  const Outputs outputs = run(generic("Unique"), inputs);
  EXPECT_EQ(numbers(outputs[0]), (Ints{-big - 1, -big, 5, big, big + 1}));
  EXPECT_EQ(numbers(outputs[1]), (Ints{4, 5, 2, 1, 0}));
  EXPECT_EQ(numbers(outputs[2]), (Ints{4, 3, 2, 4, 0, 1, 2}));
  EXPECT_EQ(numbers(outputs[3]), (Ints{1, 1, 2, 1, 2}));
}

TEST(Unique, OrdersUnsignedNumbers) {
  Ints x = {-1, 0, INT64_MIN, 3};
  const TensorView inputs[] = {make_view(x.data(), DataType::kUInt64, Format::kLinear, Extents{4})};
  EXPECT_EQ(numbers(run(generic("Unique"), inputs)[0]), (Ints{0, 3, INT64_MIN, -1}));
}

TEST(Compress, TakesSlicesOfATensorThatIsTurned) {
  Ints x(12);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<int64_t>(k);
  TensorView turned = make_view(x.data(), DataType::kInt64, Format::kLinear, Extents{4, 3});
  turned.strides[0] = 1, turned.strides[1] = 4;  // element [r, c] is r + 4 c
  bool condition[] = {false, true, false, true};
  const TensorView inputs[] = {turned,
                               make_view(condition, DataType::kBool, Format::kLinear, Extents{4})};
  EXPECT_EQ(numbers(run(generic("Compress", {{"axis", {0}, {}, ""}}), inputs)[0]),
            (Ints{1, 5, 9, 3, 7, 11}));
  EXPECT_EQ(numbers(run(generic("Compress"), inputs)[0]), (Ints{4, 1}));
}

TEST(NonZero, RowsAroundAWord) {
  ir::Layer layer;
  layer.kind = ir::LayerKind::kNonZero;
  for (const int64_t width : {1, 7, 8, 9, 40})
    for (const DataType type : {DataType::kBool, DataType::kDouble, DataType::kInt64}) {
      std::vector<std::byte> bytes(ir::bytes_for(type, 3 * width));
      const TensorView x = make_view(bytes.data(), type, Format::kLinear, Extents{3, width});
      std::vector<double> values(3 * width);
      Ints rows, columns;
      for (int64_t k = 0; k < 3 * width; ++k) {
        if (k * 7 % 5 > 1) continue;
        values[k] = type == DataType::kDouble ? 1e-300 : 1;  // no float
        rows.push_back(k / width), columns.push_back(k % width);
      }
      store(x, values);
      rows.insert(rows.end(), columns.begin(), columns.end());
      EXPECT_EQ(numbers(run(layer, std::span(&x, 1))[0]), rows) << width;
    }
}

}  // namespace
}  // namespace camshaft::kernels::reference
