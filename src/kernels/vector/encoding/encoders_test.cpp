// SPDX-License-Identifier: Apache-2.0
// LabelEncoder, OneHotEncoder, TfIdfVectorizer: exact, but for sums of weights.
#include "kernels/prepared.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using test::check_layer;
using test::make_layer;
using test::TestTensor;

std::shared_ptr<ir::Layer> generic(const char* name, std::vector<ir::GenericAttribute> attributes) {
  return make_layer(LayerKind::kGeneric, ir::GenericAttrs{name, 4, std::move(attributes)});
}

// Keys close together and far apart, some of them twice; NaN and both zeros among floats.
void check_labels(DataType keys, DataType values, int64_t distance, const ir::Extents& shape) {
  const bool has_nan = ir::is_floating(keys);
  const auto key = [=](int64_t k) {
    if (has_nan && k == 5) return static_cast<double>(NAN);
    if (has_nan && k == 6) return -0.0;
    return static_cast<double>(k % 40 * distance - 20 * distance);
  };
  check_layer(
      {.layer = generic("LabelEncoder", {}),
       .inputs =
           {{.extents = shape,
             .type = keys,
             .value =
                 [=](int64_t k) {
                   if (has_nan && k % 17 == 3) return static_cast<double>(NAN);
                   return static_cast<double>((k * 7 % 60 - 30) * distance);
                 }},
            {.extents = {50}, .type = keys, .is_data = false, .is_constant = true, .value = key},
            {.extents = {50},
             .type = values,
             .is_data = false,
             .is_constant = true,
             .value = [](int64_t k) { return static_cast<double>(k + 1); }},
            {.extents = {1},
             .type = values,
             .is_data = false,
             .is_constant = true,
             .value = [](int64_t) { return 99.0; }}},
       .outputs = {{.extents = shape, .type = values}},
       .tolerance = 0},
      std::string(ir::type_name(keys)) + " to " + std::string(ir::type_name(values)));
}

TEST(Encoders, Labels) {
  for (const DataType keys :
       {DataType::kInt64, DataType::kInt32, DataType::kFloat, DataType::kDouble})
    for (const DataType values : {DataType::kFloat, DataType::kInt64, DataType::kInt32,
                                  DataType::kDouble, DataType::kInt16, DataType::kUInt8})
      for (const int64_t distance : {1, 1000000})
        for (const ir::Extents& shape : {ir::Extents{3, 500}, {7}, {2, 3, 5, 9}, {}})
          check_labels(keys, values, distance, shape);
}

void check_one_hot(DataType type, int64_t count, int64_t distance, const ir::Extents& shape) {
  ir::Ints categories;
  for (int64_t k = 0; k < count; ++k) categories.push_back((k * 11 % 36 - 9) * distance);
  ir::Extents out = shape;
  out.push_back(count);
  const auto value = [=](int64_t k) { return static_cast<double>((k * 7 % 50 - 20) * distance); };
  check_layer({.layer = generic("OneHotEncoder", {{"cats_int64s", categories, {}, ""}}),
               .inputs = {{.extents = shape, .type = type, .value = value}},
               .outputs = {{.extents = out}},
               .tolerance = 0},
              std::string(ir::type_name(type)) + " of " + std::to_string(count));
}

TEST(Encoders, OneHotRows) {
  for (const DataType type :
       {DataType::kInt64, DataType::kInt32, DataType::kFloat, DataType::kDouble})
    for (const int64_t count : {1, 37, 700})
      for (const int64_t distance : {1, 1000003})
        for (const ir::Extents& shape : {ir::Extents{300}, {3, 50}, {2, 3, 5}, {}})
          check_one_hot(type, count, distance, shape);
}

TEST(Encoders, TellsWhatIsNoCategory) {
  const auto layer =
      generic("OneHotEncoder", {{"cats_int64s", {1, 2}, {}, ""}, {"zeros", {0}, {}, ""}});
  std::vector<int64_t> x = {1, 2, 3};
  std::vector<float> y(6);
  const TensorView inputs[] = {make_view(x.data(), DataType::kInt64, Format::kLinear, {{3}})};
  const TensorView outputs[] = {make_view(y.data(), DataType::kFloat, Format::kLinear, {{3, 2}})};
  KernelArgs args;
  args.layer = layer.get();
  args.inputs = inputs;
  args.outputs = outputs;
  const Tactic* tactic = find_tactic("one_hot_encoder", Isa::kScalar);
  ASSERT_NE(tactic, nullptr);
  EXPECT_EQ(run_once(*tactic, args).message(), "OneHotEncoder: 3 is no category");
}

TEST(Encoders, Grams) {
  const ir::Ints pool = {2, 3, 5, 4, 2, 1, 5, 6, 7, 8, 5, 6, 2, 2, 9000000000, 3, 4, 5, 2, 3, 4};
  for (const char* mode : {"TF", "IDF", "TFIDF"})
    for (const int64_t shortest : {1, 2})
      for (const int64_t longest : {2, 3})
        for (const int64_t skips : {0, 2})
          for (const DataType type : {DataType::kInt64, DataType::kInt32})
            for (const ir::Extents& shape : {ir::Extents{20, 40}, {30}, {3, 2}}) {
              const ir::Extents out =
                  shape.size() == 2 ? ir::Extents{shape[0], 11} : ir::Extents{11};
              check_layer({.layer = generic(
                               "TfIdfVectorizer",
                               {{"mode", {}, {}, mode},
                                {"min_gram_length", {shortest}, {}, ""},
                                {"max_gram_length", {longest}, {}, ""},
                                {"max_skip_count", {skips}, {}, ""},
                                {"ngram_counts", {0, 6, 14}, {}, ""},
                                {"ngram_indexes", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, {}, ""},
                                {"weights", {}, {0.5F, 2, 3.25F, 0.1F, 7, 1, 2, 3}, ""},
                                {"pool_int64s", pool, {}, ""}}),
                           .inputs = {{.extents = shape,
                                       .type = type,
                                       .value =
                                           [](int64_t k) {
                                             return static_cast<double>(k * 7919 % 1009 % 9);
                                           }}},
                           .outputs = {{.extents = out}},
                           .tolerance = 1e-6},
                          mode);
            }
}

}  // namespace
}  // namespace camshaft::kernels
