// SPDX-License-Identifier: Apache-2.0
// Gather and Scatter in all their forms, CumSum, ArgMinMax, TopK, Range and what depends on
// positions: against the reference kernels, and with indices that are out of range.
#include <cmath>

#include "kernels/prepared.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using ir::ScatterReduction;
using test::check_layer;
using test::make_layer;
using test::TestLayer;
using test::TestTensor;

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kInt64, DataType::kUInt8,
                               DataType::kHalf};
constexpr DataType kIndexTypes[] = {DataType::kInt64, DataType::kInt32};

std::string text(const ir::Extents& shape) {
  return ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end()));
}

// Indices in [-range, range), in no order.
TestTensor indices_of(const ir::Extents& extents, int64_t range, DataType type) {
  return {.extents = extents, .type = type, .is_data = false, .value = [range](int64_t k) {
            return static_cast<double>((k * 7919 + k * k * 31 + 5) % (2 * range) - range);
          }};
}

// --- gather

TEST(Indexed, GathersAlongAnAxis) {
  for (const ir::Extents& shape : {ir::Extents{9, 20, 5, 7}, {40, 33}, {17}, {3, 2000}, {3, 5, 40}})
    for (size_t axis = 0; axis < shape.size(); ++axis)
      for (const ir::Extents& indices : {ir::Extents{}, {6}, {2, 3}, {0}})
        for (const DataType type : kTypes) {
          ir::Extents out(shape.begin(), shape.begin() + axis);
          for (const int64_t extent : indices) out.push_back(extent);
          for (size_t d = axis + 1; d < shape.size(); ++d) out.push_back(shape[d]);
          check_layer(
              {.layer = make_layer(LayerKind::kGather, ir::GatherAttrs{ir::GatherMode::kDefault,
                                                                       static_cast<int64_t>(axis)}),
               .inputs = {{.extents = shape, .type = type},
                          indices_of(indices, shape[axis], kIndexTypes[axis % 2])},
               .outputs = {{.extents = out, .type = type}},
               .tolerance = 0},
              text(shape) + text(indices));
        }
}

TEST(Indexed, GathersElements) {
  for (const ir::Extents& shape : {ir::Extents{9, 20, 5, 7}, {40, 33}, {17}, {2, 6, 500}})
    for (size_t axis = 0; axis < shape.size(); ++axis)
      for (const int64_t count : {1, 5, 50})
        for (const DataType type : kTypes) {
          ir::Extents out = shape;
          out[axis] = count;
          if (axis > 0) out[0] = 1;  // fewer lines than there are
          check_layer(
              {.layer = make_layer(LayerKind::kGather, ir::GatherAttrs{ir::GatherMode::kElements,
                                                                       static_cast<int64_t>(axis)}),
               .inputs = {{.extents = shape, .type = type},
                          indices_of(out, shape[axis], kIndexTypes[axis % 2])},
               .outputs = {{.extents = out, .type = type}},
               .tolerance = 0},
              text(shape) + text(out));
        }
}

TEST(Indexed, GathersTuples) {
  struct Case {
    ir::Extents data, indices, out;
    int64_t batch_dims = 0;
  };
  for (const Case& c : {Case{{6, 7, 40}, {5, 2}, {5, 40}},
                        {{6, 7, 40}, {5, 3, 1}, {5, 3, 7, 40}},
                        {{6, 7}, {2, 3, 2}, {2, 3}},
                        {{2, 6, 7, 9}, {2, 4, 1}, {2, 4, 7, 9}, 1},
                        {{2, 6, 7, 9}, {2, 6, 3, 2}, {2, 6, 3}, 2},
                        {{8, 3000}, {3, 1}, {3, 3000}}})
    for (const DataType type : kTypes)
      for (const DataType index_type : kIndexTypes)
        check_layer(
            {.layer = make_layer(LayerKind::kGather,
                                 ir::GatherAttrs{ir::GatherMode::kNd, 0, c.batch_dims}),
             .inputs = {{.extents = c.data, .type = type}, indices_of(c.indices, 6, index_type)},
             .outputs = {{.extents = c.out, .type = type}},
             .tolerance = 0},
            text(c.data) + text(c.indices));
}

// --- scatter

constexpr ScatterReduction kReductions[] = {ScatterReduction::kNone, ScatterReduction::kAdd,
                                            ScatterReduction::kMul, ScatterReduction::kMin,
                                            ScatterReduction::kMax};

// A product of 50 numbers is no test of a sum of 50: few meet.
TEST(Indexed, ScattersElements) {
  for (const ir::Extents& shape : {ir::Extents{9, 20, 5, 7}, {40, 33}, {17}, {64, 200}})
    for (size_t axis = 0; axis < shape.size(); ++axis)
      for (const ScatterReduction reduction : kReductions)
        for (const DataType type :
             {DataType::kFloat, DataType::kInt64, DataType::kInt32, DataType::kDouble}) {
          ir::Extents updates = shape;
          updates[axis] = shape[axis] / 2 + 1;
          if (axis > 0) updates[0] = shape[0] - 1;
          check_layer({.layer = make_layer(LayerKind::kScatter,
                                           ir::ScatterAttrs{ir::ScatterMode::kElements,
                                                            static_cast<int64_t>(axis), reduction}),
                       .inputs = {{.extents = shape, .type = type},
                                  indices_of(updates, shape[axis], kIndexTypes[axis % 2]),
                                  {.extents = updates, .type = type, .is_data = false}},
                       .outputs = {{.extents = shape, .type = type}},
                       .tolerance = reduction == ScatterReduction::kNone ? 0 : 1e-5},
                      text(shape) + text(updates) + std::string(ir::enum_name(reduction)));
        }
}

TEST(Indexed, ScattersSlices) {
  struct Case {
    ir::Extents data, indices, updates;
  };
  for (const Case& c : {Case{{6, 7, 40}, {5, 2}, {5, 40}},
                        {{6, 7, 5}, {5, 3, 1}, {5, 3, 7, 5}},
                        {{6, 7}, {2, 3, 2}, {2, 3}},
                        {{8, 6000}, {3, 1}, {3, 6000}},
                        {{6, 200, 3}, {9000, 2}, {9000, 3}},
                        {{6, 7, 3}, {0, 1}, {0, 7, 3}}})
    for (const ScatterReduction reduction : kReductions)
      for (const DataType type : {DataType::kFloat, DataType::kInt64}) {
        if (c.indices[0] > 1000 && reduction == ScatterReduction::kMul) continue;
        check_layer({.layer = make_layer(LayerKind::kScatter,
                                         ir::ScatterAttrs{ir::ScatterMode::kNd, 0, reduction}),
                     .inputs = {{.extents = c.data, .type = type},
                                indices_of(c.indices, 6, DataType::kInt64),
                                {.extents = c.updates, .type = type, .is_data = false}},
                     .outputs = {{.extents = c.data, .type = type}},
                     .tolerance = reduction == ScatterReduction::kNone ? 0 : 1e-4},
                    text(c.data) + text(c.indices) + std::string(ir::enum_name(reduction)));
      }
}

// Along dimensions that are not the first.
TEST(Indexed, ScattersRows) {
  struct Case {
    ir::Extents data;
    int64_t axis, rows;
  };
  for (const Case& c : {Case{{2, 8, 20, 16}, 2, 1},
                        {{1, 3, 500, 64}, 2, 40},
                        {{6, 7, 5}, 1, 9},
                        {{4, 40, 30}, 2, 3},
                        {{300, 20, 33}, 1, 6},
                        {{3, 5}, 1, 0}})
    for (const ScatterReduction reduction : kReductions)
      for (const DataType type : {DataType::kFloat, DataType::kInt64}) {
        ir::Extents updates = c.data;
        updates[c.axis] = c.rows;
        check_layer({.layer = make_layer(LayerKind::kScatter,
                                         ir::ScatterAttrs{ir::ScatterMode::kNd, c.axis, reduction}),
                     .inputs = {{.extents = c.data, .type = type},
                                indices_of({c.rows, 1}, c.data[c.axis], DataType::kInt64),
                                {.extents = updates, .type = type, .is_data = false}},
                     .outputs = {{.extents = c.data, .type = type}},
                     .tolerance = reduction == ScatterReduction::kNone ? 0 : 1e-5},
                    text(c.data) + std::string(ir::enum_name(reduction)));
      }
}

TEST(Indexed, ScattersBytes) {
  for (const DataType type : kTypes)
    check_layer(
        {.layer = make_layer(LayerKind::kScatter, ir::ScatterAttrs{ir::ScatterMode::kElements, 1}),
         .inputs = {{.extents = {3, 20, 5}, .type = type},
                    indices_of({3, 9, 5}, 20, DataType::kInt64),
                    {.extents = {3, 9, 5}, .type = type, .is_data = false}},
         .outputs = {{.extents = {3, 20, 5}, .type = type}},
         .tolerance = 0},
        "bytes");
}

// Every kernel of the kind reports it and writes nothing out of place.
void expect_out_of_range(const ir::Layer& layer, const ir::Extents& data,
                         const ir::Extents& indices, const ir::Extents& updates,
                         const ir::Extents& out, int64_t index) {
  std::vector<float> x(ir::element_count(data)), u(ir::element_count(updates)),
      y(ir::element_count(out));
  std::vector<int64_t> wanted(ir::element_count(indices), 0);
  wanted.back() = index;
  const TensorView inputs[] = {make_view(x.data(), DataType::kFloat, Format::kLinear, data),
                               make_view(wanted.data(), DataType::kInt64, Format::kLinear, indices),
                               make_view(u.data(), DataType::kFloat, Format::kLinear, updates)};
  const TensorView outputs[] = {make_view(y.data(), DataType::kFloat, Format::kLinear, out)};
  Problem problem;
  problem.layer = &layer;
  const size_t count = layer.kind == LayerKind::kScatter ? 3 : 2;
  for (size_t k = 0; k < count; ++k)
    problem.inputs.push_back({true, inputs[k].type, Format::kLinear,
                              ir::Extents(inputs[k].extents, inputs[k].extents + inputs[k].rank),
                              nullptr});
  problem.outputs = {{true, DataType::kFloat, Format::kLinear, out, nullptr}};
  int runs = 0;
  for (const Tactic* tactic : tactics_for(layer.kind)) {
    if (!tactic->refusal(problem).empty()) continue;
    ThreadPool pool(1);
    KernelArgs args;
    args.layer = &layer;
    args.inputs = std::span(inputs).first(count);
    args.outputs = outputs;
    args.pool = &pool;
    const Status status = run_once(*tactic, args);
    EXPECT_FALSE(status.ok()) << tactic->name << " " << index;
    EXPECT_NE(status.message().find("out of range"), std::string::npos) << status.message();
    ++runs;
  }
  EXPECT_GT(runs, 0);
}

TEST(Indexed, TellsIndicesOutOfRange) {
  for (const int64_t index : {int64_t{5}, int64_t{-6}, INT64_MAX, INT64_MIN}) {
    const auto gather = [](ir::GatherMode mode) {
      return make_layer(LayerKind::kGather, ir::GatherAttrs{mode, 0});
    };
    const auto scatter = [](ir::ScatterMode mode) {
      return make_layer(LayerKind::kScatter, ir::ScatterAttrs{mode, 0});
    };
    expect_out_of_range(*gather(ir::GatherMode::kDefault), {5, 4}, {3}, {}, {3, 4}, index);
    expect_out_of_range(*gather(ir::GatherMode::kElements), {5, 4}, {2, 4}, {}, {2, 4}, index);
    expect_out_of_range(*gather(ir::GatherMode::kNd), {5, 5}, {3, 2}, {}, {3}, index);
    expect_out_of_range(*scatter(ir::ScatterMode::kElements), {5, 4}, {2, 4}, {2, 4}, {5, 4},
                        index);
    expect_out_of_range(*scatter(ir::ScatterMode::kNd), {5, 4}, {2, 1}, {2, 4}, {5, 4}, index);
  }
}

// --- along lines

TEST(Indexed, SumsUp) {
  for (const ir::Extents& shape : {ir::Extents{3, 20, 5, 7}, {40, 33}, {170}, {2, 5, 300}})
    for (size_t axis = 0; axis < shape.size(); ++axis)
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          for (const DataType type :
               {DataType::kFloat, DataType::kInt64, DataType::kInt32, DataType::kDouble})
            check_layer(
                {.layer = make_layer(LayerKind::kCumSum, ir::CumSumAttrs{exclusive, reverse}),
                 .inputs = {{.extents = shape, .type = type},
                            {.extents = {},
                             .type = DataType::kInt64,
                             .is_data = false,
                             .is_constant = true,
                             .value =
                                 [axis, &shape](int64_t) {
                                   return static_cast<double>(axis) -
                                          static_cast<double>(axis % 2 ? shape.size() : 0);
                                 }}},
                 .outputs = {{.extents = shape, .type = type}},
                 .tolerance = 1e-6},
                text(shape) + std::to_string(axis));
}

// Equal elements, both zeros, infinities and NaN.
double awkward(int64_t k) {
  static const double kOdd[] = {0, -0.0, INFINITY, -INFINITY, NAN, -1, 1};
  const int64_t n = (k * 7919 + k * k * 13) % 41;
  return n < 7 ? kOdd[n] : static_cast<double>(n % 9) - 4;
}

TEST(Indexed, FindsTheBest) {
  for (const ir::Extents& shape : {ir::Extents{3, 20, 5, 7}, {40, 33}, {170}, {2, 150, 80}})
    for (size_t axis = 0; axis < shape.size(); ++axis)
      for (int flags = 0; flags < 8; ++flags)
        for (const DataType type :
             {DataType::kFloat, DataType::kInt64, DataType::kDouble, DataType::kUInt8}) {
          ir::TopKAttrs attrs;
          attrs.axis = static_cast<int64_t>(axis);
          attrs.largest = flags & 1, attrs.keep_dims = flags & 2;
          attrs.select_last_index = flags & 4;
          ir::Extents out = shape;
          out[axis] = 1;
          if (!attrs.keep_dims) out.erase(axis);
          const bool floating = ir::is_floating(type);
          check_layer({.layer = make_layer(LayerKind::kArgMinMax, attrs),
                       .inputs = {{.extents = shape,
                                   .type = type,
                                   .value =
                                       [floating](int64_t k) {
                                         const double value = awkward(k);
                                         return floating               ? value
                                                : std::isfinite(value) ? std::abs(value)
                                                                       : 3.0;
                                       }}},
                       .outputs = {{.extents = out, .type = DataType::kInt64}},
                       .tolerance = 0},
                      text(shape) + std::to_string(axis) + " " + std::to_string(flags));
        }
}

TEST(Indexed, FindsTheBestFew) {
  for (const ir::Extents& shape :
       {ir::Extents{3, 20, 5, 7}, {40, 33}, {2, 500, 2}, {5000}, {2, 3000, 3}})
    for (size_t axis = 0; axis < shape.size(); ++axis)
      for (const int64_t wanted : {1, 3, 40, 3000})
        for (int flags = 0; flags < 4; ++flags)
          for (const DataType type : {DataType::kFloat, DataType::kInt32, DataType::kDouble}) {
            const int64_t k = std::min(wanted, shape[axis]);
            ir::TopKAttrs attrs;
            attrs.axis = static_cast<int64_t>(axis), attrs.largest = flags & 1;
            attrs.select_last_index = flags & 2;
            ir::Extents out = shape;
            out[axis] = k;
            const bool floating = ir::is_floating(type);
            check_layer({.layer = make_layer(LayerKind::kTopK, attrs),
                         .inputs = {{.extents = shape,
                                     .type = type,
                                     .value =
                                         [floating](int64_t n) {
                                           const double value = awkward(n);
                                           return floating || std::isfinite(value) ? value : 3.0;
                                         }},
                                    {.extents = {1}, .type = DataType::kInt64, .is_data = false}},
                         .outputs = {{.extents = out, .type = type},
                                     {.extents = out, .type = DataType::kInt64}},
                         .tolerance = 0},
                        text(shape) + std::to_string(axis) + " " + std::to_string(k));
          }
}

// --- from positions

TEST(Indexed, Ranges) {
  for (const DataType type :
       {DataType::kFloat, DataType::kInt64, DataType::kInt32, DataType::kDouble}) {
    const auto scalar = [type](double value) {
      return TestTensor{.extents = {}, .type = type, .is_data = false, .value = [value](int64_t) {
                          return value;
                        }};
    };
    check_layer({.layer = make_layer(LayerKind::kRange, ir::NoAttrs()),
                 .inputs = {scalar(-3), scalar(497), scalar(2)},
                 .outputs = {{.extents = {250}, .type = type}},
                 .tolerance = 0},
                "range");
  }
}

// --- Generic operators: their reference kernels make their own outputs

void check_generic(const char* op, std::vector<ir::GenericAttribute> attributes,
                   const std::vector<TestTensor>& tensors, const TestTensor& out) {
  const auto layer = make_layer(LayerKind::kGeneric, ir::GenericAttrs{op, 18, attributes});
  std::vector<test::Storage> inputs;
  std::vector<TensorView> views;
  std::vector<ir::ConstantData> constants(tensors.size());
  Problem problem;
  problem.layer = layer.get();
  for (size_t k = 0; k < tensors.size(); ++k) {
    inputs.push_back(test::make_storage(tensors[k], Format::kLinear, tensors[k].is_data ? 6 : 0));
    const std::vector<double> values = test::make_values(tensors[k], static_cast<uint32_t>(k));
    if (ir::is_floating(tensors[k].type))
      reference::store<double>(inputs[k].view, values);
    else
      reference::store<int64_t>(inputs[k].view, {values.begin(), values.end()});
    views.push_back(inputs[k].view);
    constants[k].view = inputs[k].bytes;
    problem.inputs.push_back({true, tensors[k].type, Format::kLinear, tensors[k].extents,
                              tensors[k].is_constant ? &constants[k] : nullptr});
  }
  problem.outputs = {{true, out.type, Format::kLinear, out.extents, nullptr}};
  KernelArgs args;
  args.layer = layer.get();
  args.inputs = views;
  std::vector<DynamicOutput> expected;
  const Status status = reference_kernel(*layer)->run_dynamic(args, expected);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::vector<double> wanted = reference::load<double>(
      make_view(expected[0].bytes.data(), out.type, Format::kLinear, out.extents));
  int runs = 0;
  for (const Tactic* tactic : tactics_for(LayerKind::kGeneric))
    for (const int threads : {1, 3}) {
      if (!tactic->refusal(problem).empty()) continue;
      test::Storage result = test::make_storage(out, Format::kLinear, 5);
      ThreadPool pool(threads);
      args.outputs = {&result.view, 1};
      args.pool = &pool;
      EXPECT_TRUE(run_once(*tactic, args).ok());
      const std::vector<double> got = reference::load<double>(result.view);
      for (size_t n = 0; n < got.size(); ++n)
        ASSERT_NEAR(got[n], wanted[n], 1e-5) << tactic->name << " element " << n;
      ++runs;
    }
  EXPECT_GT(runs, 0) << op;
}

TEST(Indexed, Triangles) {
  for (const ir::Extents& shape : {ir::Extents{9, 20}, {2, 3, 17, 5}, {3, 1, 40}})
    for (const int64_t upper : {0, 1})
      for (const int64_t diagonal :
           {int64_t{0}, int64_t{3}, int64_t{-4}, INT64_MAX / 2, -INT64_MAX})
        for (const DataType type : kTypes)
          check_generic("Trilu", {{"upper", {upper}, {}, ""}},
                        {{.extents = shape, .type = type},
                         {.extents = {},
                          .type = DataType::kInt64,
                          .is_data = false,
                          .value = [diagonal](int64_t) { return static_cast<double>(diagonal); }}},
                        {.extents = shape, .type = type});
}

TEST(Indexed, OneHots) {
  for (const int64_t axis : {-1, 0, 1})
    for (const DataType type : kTypes)
      for (const DataType index_type : kIndexTypes) {
        ir::Extents out = {4, 15};
        out.insert(axis < 0 ? 2 : static_cast<size_t>(axis), 7);
        check_generic("OneHot", {{"axis", {axis}, {}, ""}},
                      {indices_of({4, 15}, 9, index_type),
                       {.extents = {},
                        .type = DataType::kInt64,
                        .is_data = false,
                        .is_constant = true,
                        .value = [](int64_t) { return 7; }},
                       {.extents = {2},
                        .type = type,
                        .is_data = false,
                        .value = [](int64_t k) { return k == 0 ? 3 : 5; }}},
                      {.extents = out, .type = type});
      }
}

TEST(Indexed, ColumnsToImages) {
  const auto list = [](std::initializer_list<int64_t> numbers) {
    return [values = std::vector<int64_t>(numbers)](int64_t k) {
      return static_cast<double>(values[static_cast<size_t>(k)]);
    };
  };
  const auto constant = [&](std::initializer_list<int64_t> numbers) {
    return TestTensor{.extents = {static_cast<int64_t>(numbers.size())},
                      .type = DataType::kInt64,
                      .is_data = false,
                      .is_constant = true,
                      .value = list(numbers)};
  };
  check_generic("Col2Im", {}, {{.extents = {2, 3 * 4, 6 * 8}}, constant({7, 9}), constant({2, 2})},
                {.extents = {2, 3, 7, 9}});
  check_generic(
      "Col2Im",
      {{"strides", {2, 3}, {}, ""}, {"pads", {1, 2, 0, 1}, {}, ""}, {"dilations", {2, 1}, {}, ""}},
      {{.extents = {1, 5 * 6, 5 * 4}}, constant({10, 9}), constant({2, 3})},
      {.extents = {1, 5, 10, 9}});
  check_generic("Col2Im", {{"strides", {3}, {}, ""}},
                {{.extents = {2, 4 * 5, 7}}, constant({23}), constant({5})},
                {.extents = {2, 4, 23}});
}

}  // namespace
}  // namespace camshaft::kernels
