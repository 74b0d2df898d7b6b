// SPDX-License-Identifier: Apache-2.0
// The library as its users see it: public headers only, small networks made from the text form.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "api/impl.h"
#include "camshaft/builder.h"
#include "camshaft/c_api.h"
#include "camshaft/context.h"
#include "camshaft/inspector.h"
#include "tuner/builder.h"

namespace camshaft {
namespace {

// y = relu(x * 2 + 1), z = sum of y over the last axis; batch is dynamic.
constexpr const char* kGraph = R"(graph "small" {
  symbols batch
  input x: float[batch, 4]
  constant two: float[1] = fill(2)
  constant one: float[1] = fill(1)
  a: float[batch, 4] = ElementWise "scale"(x, two) {op=mul} from "Mul_0"
  b: float[batch, 4] = ElementWise "shift"(a, one) {op=add} from "Add_1"
  y: float[batch, 4] = Activation "relu"(b) {op=relu} from "Relu_2"
  z: float[batch, 1] = Reduce "sum"(y) {op=sum, axes=[1]} from "Sum_3"
  output y, z
})";

Engine small_engine(int64_t min = 1, int64_t opt = 2, int64_t max = 8) {
  auto graph = ir::parse_graph(kGraph);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  tuner::BuildOptions options;
  options.threads = 1;
  options.optimization_level = 0;
  options.profiles = {{{"x", {min, 4}, {opt, 4}, {max, 4}}}};
  auto bytes = tuner::build(std::move(graph).value(), options);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  auto engine = Engine::from_memory(bytes.value());
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.value();
}

std::filesystem::path temporary_file(const char* name) {
  return std::filesystem::temp_directory_path() /
         ("camshaft_api_" + std::to_string(getpid()) + "_" + name);
}

TEST(Api, DescribesInputsOutputsAndProfiles) {
  const Engine engine = small_engine();
  ASSERT_EQ(engine.inputs().size(), 1u);
  EXPECT_EQ(engine.inputs()[0].name, "x");
  EXPECT_EQ(engine.inputs()[0].type, DataType::kFloat);
  EXPECT_EQ(engine.inputs()[0].dims, (Dims{-1, 4}));
  EXPECT_EQ(engine.inputs()[0].symbols, (std::vector<std::string>{"batch", ""}));
  EXPECT_TRUE(engine.inputs()[0].is_dynamic());
  ASSERT_EQ(engine.outputs().size(), 2u);
  EXPECT_EQ(engine.find("z")->dims, (Dims{-1, 1}));
  EXPECT_EQ(engine.find("nothing"), nullptr);
  ASSERT_EQ(engine.profiles().size(), 1u);
  EXPECT_EQ(engine.profiles()[0][0].max, (Dims{8, 4}));
  EXPECT_EQ(engine.info().model_name, "small");
  EXPECT_FALSE(engine.info().builder_version.empty());
  EXPECT_TRUE(engine.info().same_cpu);
}

TEST(Api, RunsAtTheOptShapeUnlessSaid) {
  auto context = Context::create(small_engine());
  ASSERT_TRUE(context.ok()) << context.status().message();
  EXPECT_EQ(context->input_shape("x").value(), (Dims{2, 4}));
  EXPECT_EQ(context->output_shape("y").value(), (Dims{2, 4}));
  const std::vector<float> x = {0, 1, -1, 2, -3, 0.5F, -0.5F, 4};
  ASSERT_TRUE(context->set_input("x", std::span<const float>(x)).ok());
  ASSERT_TRUE(context->run().ok());
  const auto y = context->output("y").value().as<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{1, 3, 0, 5, 0, 2, 0, 9}));
  const auto z = context->output("z").value();
  EXPECT_EQ(z.dims, (Dims{2, 1}));
  EXPECT_EQ(z.as<float>()[0], 9);
  EXPECT_EQ(z.as<float>()[1], 11);
}

TEST(Api, ShapesChangeBetweenRunsAndOutputsGoWhereAsked) {
  auto context = Context::create(small_engine());
  ASSERT_TRUE(context.ok());
  const std::vector<float> x(32, 1);
  for (int64_t batch : {1, 8, 3}) {
    std::vector<float> y(static_cast<size_t>(batch) * 4, -1);
    ASSERT_TRUE(context->set_shape("x", Dims{batch, 4}).ok());
    ASSERT_TRUE(context->set_input("x", x.data(), static_cast<size_t>(batch) * 16).ok());
    ASSERT_TRUE(context->set_output("y", y.data(), y.size() * 4).ok());
    ASSERT_TRUE(context->run().ok());
    EXPECT_EQ(y, std::vector<float>(y.size(), 3));
    EXPECT_EQ(context->output("z").value().dims, (Dims{batch, 1}));
  }
}

// The element type is checked, not only the number of bytes.
TEST(Api, InputsTakeTheirOwnElementType) {
  auto context = Context::create(small_engine());
  ASSERT_TRUE(context.ok());
  const std::vector<int32_t> integers(8, 1);
  EXPECT_EQ(context->set_input("x", std::span<const int32_t>(integers)).message(),
            "input 'x' is float: the given values are of another type");
  EXPECT_FALSE(context->set_input("x", integers).ok());
  EXPECT_FALSE(context->run().ok()) << "nothing was set";
  std::vector<float> floats(8, 1);
  const std::array<float, 8> fixed = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_TRUE(context->set_input("x", floats).ok());
  EXPECT_TRUE(context->set_input("x", std::span<float>(floats)).ok());
  EXPECT_TRUE(context->set_input("x", std::as_bytes(std::span(floats))).ok());
  EXPECT_TRUE(context->set_input("x", fixed).ok());
  ASSERT_TRUE(context->run().ok());
  const TensorView y = context->output("y").value();
  EXPECT_EQ(y.as<float>()[7], 17);
  EXPECT_TRUE(y.as<int32_t>().empty());
  EXPECT_EQ(y.as<std::byte>().size(), 32u);
}

TEST(Api, TypesThatHoldElements) {
  EXPECT_TRUE(holds<float>(DataType::kFloat) && holds<const double>(DataType::kDouble));
  EXPECT_TRUE(holds<uint16_t>(DataType::kHalf) && holds<uint16_t>(DataType::kBFloat16));
  EXPECT_TRUE(holds<bool>(DataType::kBool) && holds<uint8_t>(DataType::kBool));
  EXPECT_TRUE(holds<long long>(DataType::kInt64) && holds<int64_t>(DataType::kInt64));
  EXPECT_TRUE(holds<uint32_t>(DataType::kUInt32) && holds<int16_t>(DataType::kInt16));
  EXPECT_FALSE(holds<int32_t>(DataType::kUInt32) || holds<int32_t>(DataType::kInt64));
  EXPECT_FALSE(holds<float>(DataType::kInt32) || holds<bool>(DataType::kInt8));
  EXPECT_FALSE(holds<char>(DataType::kInt8) || holds<std::byte>(DataType::kUndefined));
}

TEST(Api, ConstantResultsCanBeRead) {
  const auto context = Context::create(small_engine());
  ASSERT_TRUE(context.ok());
  EXPECT_EQ(context->engine().inputs().size(), 1u);
  const auto shape = context->input_shape("x");
  EXPECT_EQ(*shape, (Dims{2, 4}));
}

TEST(Api, AFailedRunLeavesNoOutputs) {
  auto context = Context::create(small_engine());
  ASSERT_TRUE(context.ok());
  const std::vector<float> x(8, 1), few(3, 1);
  ASSERT_TRUE(context->set_input("x", x).ok());
  ASSERT_TRUE(context->run().ok());
  ASSERT_TRUE(context->output("y").ok());
  ASSERT_TRUE(context->set_input("x", few).ok());
  ASSERT_FALSE(context->run().ok());
  EXPECT_EQ(context->output("y").status().message(),
            "output 'y' has no values before a run() that succeeds");
  ASSERT_TRUE(context->set_input("x", x).ok());
  ASSERT_TRUE(context->run().ok());
  EXPECT_TRUE(context->output("y").ok());
}

TEST(Api, ExplainsLayers) {
  const Inspector inspector(small_engine());
  const auto& layers = inspector.layers();
  const auto relu = std::find_if(layers.begin(), layers.end(), [](const LayerInfo& layer) {
    return layer.name.find("relu") != std::string::npos;
  });
  ASSERT_NE(relu, layers.end());
  EXPECT_FALSE(inspector.rewrites_of(relu->index).empty());
  const auto json = nlohmann::json::parse(inspector.explain_json(relu->index));
  EXPECT_EQ(json["Name"], relu->name);
  EXPECT_EQ(json["Rewrites"].size(), inspector.rewrites_of(relu->index).size());
  EXPECT_EQ(inspector.explain_json(999), "");
  EXPECT_TRUE(inspector.rewrites_of(-1).empty());
}

// The pass comes by twice, since another one of its stage changes something.
TEST(Api, WhatIsDeclinedTwiceIsToldOnce) {
  auto graph = ir::parse_graph(R"(graph "g" {
    input x: float[1, 1, 4, 4]
    constant w: float[1, 1, 1, 1] = [2]
    constant s: float[1, 1, 1, 1] = [3]
    p: float[1, 1, 6, 6] = Pad(x) {pre=[0, 0, 1, 1], post=[0, 0, 1, 1], value=1}
    c: float[1, 1, 6, 6] = Convolution(p, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    d: float[1, 1, 4, 4] = Convolution(x, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    y: float[1, 1, 4, 4] = ElementWise(d, s) {op=mul}
    output c
    output y
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto bytes = tuner::build(std::move(graph).value(), {});
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto engine = Engine::from_memory(*bytes);
  ASSERT_TRUE(engine.ok());
  const auto& stored = engine->impl().engine->record().rewrites;
  EXPECT_EQ(std::count_if(stored.begin(), stored.end(),
                          [](const ir::RewriteRecord& record) {
                            return record.action == ir::Action::kDecline &&
                                   record.pass == "PaddingFusion";
                          }),
            1);
  const std::vector<RewriteInfo> told = Inspector(*engine).rewrites();
  EXPECT_EQ(std::count_if(told.begin(), told.end(),
                          [](const RewriteInfo& record) {
                            return record.declined && record.pass == "PaddingFusion" &&
                                   record.reason == "value";
                          }),
            1);
  for (const RewriteInfo& record : told) EXPECT_EQ(record.declined, !record.reason.empty());
}

TEST(Api, MistakesAreNamed) {
  auto context = Context::create(small_engine());
  ASSERT_TRUE(context.ok());
  EXPECT_EQ(context->set_input("w", nullptr, 0).message(), "the engine has no input 'w'; it has x");
  EXPECT_EQ(context->output("x").status().message(), "the engine has no output 'x'; it has y, z");
  EXPECT_EQ(context->output("y").status().code(), ErrorCode::kInvalidArgument);  // before run()
  EXPECT_FALSE(context->run().ok());                                             // no input set
  EXPECT_FALSE(context->set_shape("x", Dims{9, 4}).ok());  // above the profile
  EXPECT_FALSE(context->set_shape("x", Dims{2, 5}).ok());  // against the model
  EXPECT_FALSE(context->set_shape("x", Dims{2}).ok());
  EXPECT_FALSE(context->set_shape("x", Dims(20, 1)).ok());
  const float few[3] = {};
  ASSERT_TRUE(context->set_shape("x", Dims{2, 4}).ok());
  const bool refused = !context->set_input("x", few, sizeof few).ok() || !context->run().ok();
  EXPECT_TRUE(refused);  // too few bytes
  EXPECT_EQ(Context::create(small_engine(), {.profile = 1}).status().message(),
            "optimization profile 1 does not exist: the engine has 1");
  EXPECT_EQ(Context::create(small_engine(), {.threads = -1}).status().code(),
            ErrorCode::kInvalidArgument);
}

TEST(Api, SavedAndLoadedEnginesAreTheSameBytes) {
  const Engine engine = small_engine();
  const auto file = temporary_file("e.engine");
  ASSERT_TRUE(engine.save(file).ok());
  auto loaded = Engine::load(file);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_EQ(loaded->serialize().size(), engine.serialize().size());
  EXPECT_EQ(
      std::memcmp(loaded->serialize().data(), engine.serialize().data(), engine.serialize().size()),
      0);
  EXPECT_EQ(loaded->info().file_bytes, std::filesystem::file_size(file));
  std::filesystem::resize_file(file, 100);
  EXPECT_EQ(Engine::load(file).status().code(), ErrorCode::kCorrupt);
  std::filesystem::remove(file);
  EXPECT_EQ(Engine::load(file).status().code(), ErrorCode::kIo);
  EXPECT_FALSE(engine.save("/nonexistent/folder/e").ok());
}

TEST(Api, ManyContextsOnOneEngineFromManyThreads) {
  const Engine engine = small_engine();
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      auto context = Context::create(engine, {.threads = 1});
      const std::vector<float> x(8, static_cast<float>(k));
      if (!context.ok() || !context->set_input("x", std::span<const float>(x)).ok()) return;
      for (int run = 0; run < 50; ++run) {
        if (!context->run().ok() ||
            context->output("y").value().as<float>()[7] != 2 * static_cast<float>(k) + 1)
          return;
      }
      ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

// A slice inside the network may be a view of the caller's input, its result may not.
TEST(Api, ResultsAreNotTheCallersInput) {
  auto graph = ir::parse_graph(R"ir(graph "g" {
    input x: float[600]
    input to: int64[1]
    constant from: int64[1] = [2]
    constant along: int64[1] = [0]
    y: float[?0n] = Slice(x, from, to, along)
    z: float[1, ?0n] = Shuffle(y) {has_reshape=true, reshape=[1, ?0n]}
    output z
  })ir");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  tuner::BuildOptions options;
  options.threads = 1;
  options.optimization_level = 0;
  auto bytes = tuner::build(std::move(graph).value(), options);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto context = Context::create(Engine::from_memory(bytes.value()).value(), {.threads = 1});
  ASSERT_TRUE(context.ok()) << context.status().message();
  std::vector<float> x(600);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k);
  for (const int64_t to : {500, 500, 30}) {
    x[3] = 3;
    ASSERT_TRUE(context->set_input("x", std::span<const float>(x)).ok());
    ASSERT_TRUE(context->set_input("to", std::span<const int64_t>(&to, 1)).ok());
    const Status status = context->run();
    ASSERT_TRUE(status.ok()) << status.message();
    x[3] = -1;
    const auto z = context->output("z").value();
    EXPECT_EQ(z.dims, (Dims{1, to - 2}));
    EXPECT_EQ(z.as<float>()[1], 3);
    EXPECT_EQ(z.as<float>()[to - 3], static_cast<float>(to - 1));
  }
}

TEST(Api, ProfileCountsEveryLayerOfEveryRun) {
  const Engine engine = small_engine();
  auto context = Context::create(engine, {.threads = 1});
  ASSERT_TRUE(context.ok());
  const std::vector<float> x(8, 1);
  ASSERT_TRUE(context->set_input("x", std::span<const float>(x)).ok());
  const Inspector inspector(engine);
  LayerProfile profile(inspector);
  context->set_profiler([&](const LayerTime& time) { profile.add(time); });
  for (int run = 0; run < 3; ++run) {
    ASSERT_TRUE(context->run().ok());
    profile.end_run();
  }
  context->set_profiler(nullptr);
  ASSERT_TRUE(context->run().ok());
  EXPECT_EQ(profile.runs(), 3);
  size_t running = 0;
  for (const LayerInfo& layer : inspector.layers()) running += layer.is_no_op ? 0 : 1;
  EXPECT_EQ(profile.rows().size(), running);
  double total = 0;
  for (const auto& row : profile.rows()) total += row.total_ms;
  EXPECT_NEAR(total, profile.total_ms(), 1e-9);
}

TEST(Api, InspectorShowsDynamicExtentsWithAContext) {
  const Engine engine = small_engine();
  const Inspector without(engine);
  const auto json = nlohmann::ordered_json::parse(without.to_json(Verbosity::kDetailed));
  EXPECT_EQ(json["Bindings"], (nlohmann::ordered_json{"x", "y", "z"}));
  EXPECT_EQ(json["Layers"][0]["Inputs"][0]["Dimensions"][0], -1);
  auto context = Context::create(engine, {.threads = 1});
  ASSERT_TRUE(context->output_shape("y").ok());
  const Inspector with(engine, *context);
  const auto known = nlohmann::ordered_json::parse(with.to_json(Verbosity::kDetailed));
  EXPECT_EQ(known["Layers"][0]["Inputs"][0]["Dimensions"][0], 2);
  EXPECT_EQ(with.layer_json(999), "");
  EXPECT_EQ(with.layers().size(), json["Layers"].size());
  std::vector<std::string> nodes;
  for (const LayerInfo& layer : with.layers())
    nodes.insert(nodes.end(), layer.source_nodes.begin(), layer.source_nodes.end());
  for (const char* node : {"Mul_0", "Add_1", "Relu_2", "Sum_3"}) {
    EXPECT_EQ(std::count(nodes.begin(), nodes.end(), node), 1)
        << node;  // fusions lose no provenance
  }
}

// Forced weights, what the inspector says of them, also of a saved engine.
TEST(Api, InspectorTellsOfSparseWeights) {
  auto graph = ir::parse_graph(R"(graph "sparse" {
    input x: float[2, 8]
    constant w: float[8, 4] = random(1)
    y: float[2, 4] = MatrixMultiply(x, w)
    output y
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  tuner::BuildOptions options;
  options.sparsity = tuner::Sparsity::kForce;
  options.optimization_level = 0;
  const auto bytes = tuner::build(std::move(graph).value(), options);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto engine = Engine::from_memory(bytes.value());
  ASSERT_TRUE(engine.ok());
  const Inspector inspector(*engine);
  const LayerSparsity& zeros = inspector.layers()[0].sparsity;
  EXPECT_EQ(zeros.weights, 32);
  EXPECT_EQ(zeros.nonzeros, 16);
  EXPECT_EQ(zeros.groups, 8);
  EXPECT_EQ(zeros.pattern, "2:4");
  EXPECT_FALSE(zeros.picked);
  EXPECT_FALSE(zeros.reason.empty());
  const auto layer = nlohmann::json::parse(inspector.layer_json(0));
  EXPECT_EQ(layer["HasSparseWeights"], 1);
  EXPECT_EQ(layer["Sparsity"]["KeptShare"], 0.5);
}

TEST(Api, ModelErrors) {
  EXPECT_EQ(Model::from_file("/nonexistent.onnx").status().code(), ErrorCode::kIo);
  const std::byte junk[] = {std::byte{1}, std::byte{2}};
  EXPECT_FALSE(Model::from_memory(junk).ok());
  EXPECT_FALSE(Engine::from_memory(junk).ok());
  EXPECT_FALSE(Engine::from_memory({}).ok());
}

TEST(Types, SizesAndText) {
  EXPECT_EQ(to_string(Dims{1, 3, 8}), "1x3x8");
  EXPECT_EQ(to_string(Dims{}), "scalar");
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, -1}), -1);
  EXPECT_EQ(element_count({2, 0}), 0);
  EXPECT_EQ(byte_size(DataType::kInt4, 3), 2u);
  EXPECT_EQ(byte_size(DataType::kDouble, 3), 24u);
  EXPECT_EQ(type_name(DataType::kBFloat16), "bfloat16");
}

constexpr const char* kModel = "examples/models/yolox_nano/model.onnx";

// Names of the layers' tactics, a line each.
std::string tactics_of(const camshaft_engine* engine) {
  char* json = nullptr;
  EXPECT_EQ(camshaft_engine_layers_json(engine, &json), CAMSHAFT_OK);
  std::string names;
  const nlohmann::json document = nlohmann::json::parse(json);
  for (const auto& layer : document["Layers"]) names += layer.value("TacticName", "") + "\n";
  camshaft_free(json);
  return names;
}

TEST(CApi, RunsAndReportsErrors) {
  const Engine built = small_engine();
  const auto bytes = built.serialize();
  camshaft_engine* engine = nullptr;
  ASSERT_EQ(camshaft_engine_from_memory(bytes.data(), bytes.size(), &engine), CAMSHAFT_OK)
      << camshaft_last_error();
  EXPECT_EQ(camshaft_engine_input_count(engine), 1u);
  EXPECT_EQ(camshaft_engine_output_count(engine), 2u);
  camshaft_tensor_info info;
  ASSERT_EQ(camshaft_engine_input(engine, 0, &info), CAMSHAFT_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.type, CAMSHAFT_FLOAT);
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.dims[0], -1);
  EXPECT_EQ(camshaft_engine_input(engine, 1, &info), CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_STREQ(camshaft_last_error(), "index 1 of 1");

  camshaft_context* context = nullptr;
  ASSERT_EQ(camshaft_context_create(engine, 1, 0, &context), CAMSHAFT_OK);
  const float x[4] = {1, 2, 3, -4};
  const int64_t dims[2] = {1, 4};
  ASSERT_EQ(camshaft_context_set_shape(context, "x", dims, 2), CAMSHAFT_OK)
      << camshaft_last_error();
  ASSERT_EQ(camshaft_context_set_input(context, "x", x, sizeof x), CAMSHAFT_OK);
  int calls = 0;
  ASSERT_EQ(
      camshaft_context_set_profiler(
          context, [](int32_t, const char*, double, void* user) { ++*static_cast<int*>(user); },
          &calls),
      CAMSHAFT_OK);
  ASSERT_EQ(camshaft_context_run(context), CAMSHAFT_OK) << camshaft_last_error();
  EXPECT_GT(calls, 0);
  const void* data = nullptr;
  ASSERT_EQ(camshaft_context_output(context, "z", &data, &info), CAMSHAFT_OK);
  EXPECT_EQ(info.dims[0], 1);
  EXPECT_EQ(*static_cast<const float*>(data), 15);
  EXPECT_EQ(camshaft_context_set_shape(context, "x", nullptr, 2), CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_EQ(camshaft_context_set_shape(context, "q", dims, 2), CAMSHAFT_INVALID_ARGUMENT);

  char* json = nullptr;
  ASSERT_EQ(camshaft_engine_layers_json(engine, &json), CAMSHAFT_OK);
  EXPECT_TRUE(nlohmann::json::accept(json));
  camshaft_free(json);
  camshaft_engine_destroy(engine);  // the context lives on
  EXPECT_EQ(camshaft_context_run(context), CAMSHAFT_OK);
  camshaft_context_destroy(context);
  camshaft_context_destroy(nullptr);
}

// What only the C++ API had: several profiles, layer types, shapes, explanations.
TEST(CApi, BuildsWithProfilesAndConstraints) {
  const std::string model = [] {
    std::ifstream in(kModel, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  camshaft_build_options options;
  camshaft_build_options_init(&options, sizeof options);
  options.optimization_level = 0;
  options.portable = 1;
  const camshaft_layer_type types[] = {{"Conv_*", CAMSHAFT_INT8}};
  options.layer_precisions = types;
  options.layer_precision_count = 1;
  options.precision_constraints = CAMSHAFT_CONSTRAINTS_OBEY;
  camshaft_engine* engine = nullptr;
  EXPECT_NE(camshaft_build_memory(model.data(), model.size(), &options, &engine), CAMSHAFT_OK);
  EXPECT_NE(std::string(camshaft_last_error()).find("Conv_"), std::string::npos)
      << camshaft_last_error();
  options.layer_precision_count = 0;
  options.precision_constraints = static_cast<camshaft_constraints>(7);
  EXPECT_EQ(camshaft_build_memory(model.data(), model.size(), &options, &engine),
            CAMSHAFT_INVALID_ARGUMENT);
  options.precision_constraints = CAMSHAFT_CONSTRAINTS_NONE;
  camshaft_shape_range range = {};
  range.input = "images";
  const int32_t profile = 99;
  options.shapes = &range;
  options.shape_profiles = &profile;
  options.shape_count = 1;
  EXPECT_EQ(camshaft_build_memory(model.data(), model.size(), &options, &engine),
            CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(camshaft_last_error()).find("profile 99"), std::string::npos);
  EXPECT_EQ(engine, nullptr);
}

TEST(CApi, ShapesAndExplanations) {
  const Engine built = small_engine(1, 2, 8);
  camshaft_engine* engine = nullptr;
  ASSERT_EQ(
      camshaft_engine_from_memory(built.serialize().data(), built.serialize().size(), &engine),
      CAMSHAFT_OK);
  EXPECT_EQ(camshaft_engine_profile_count(engine), 1u);
  camshaft_shape_range range;
  ASSERT_EQ(camshaft_engine_profile_shapes(engine, 0, "x", &range), CAMSHAFT_OK);
  EXPECT_STREQ(range.input, "x");
  EXPECT_EQ(range.rank, 2);
  EXPECT_EQ(range.max[0], 8);
  EXPECT_EQ(camshaft_engine_profile_shapes(engine, 1, "x", &range), CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_EQ(camshaft_engine_profile_shapes(engine, 0, "q", &range), CAMSHAFT_INVALID_ARGUMENT);
  camshaft_context* context = nullptr;
  ASSERT_EQ(camshaft_context_create(engine, 1, 0, &context), CAMSHAFT_OK);
  int64_t dims[CAMSHAFT_MAX_RANK] = {5, 4};
  int32_t rank = 0;
  ASSERT_EQ(camshaft_context_set_shape(context, "x", dims, 2), CAMSHAFT_OK);
  ASSERT_EQ(camshaft_context_output_shape(context, "z", dims, &rank), CAMSHAFT_OK);
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(dims[0], 5);
  EXPECT_EQ(dims[1], 1);
  ASSERT_EQ(camshaft_context_input_shape(context, "x", dims, &rank), CAMSHAFT_OK);
  EXPECT_EQ(dims[1], 4);
  EXPECT_EQ(camshaft_context_output_shape(context, "x", dims, &rank), CAMSHAFT_INVALID_ARGUMENT);
  char* json = nullptr;
  ASSERT_EQ(camshaft_engine_explain_json(engine, 0, &json), CAMSHAFT_OK);
  EXPECT_TRUE(nlohmann::json::parse(json).contains("Candidates"));
  camshaft_free(json);
  EXPECT_EQ(camshaft_engine_explain_json(engine, 99, &json), CAMSHAFT_INVALID_ARGUMENT);
  camshaft_context_destroy(context);
  camshaft_engine_destroy(engine);
}

TEST(CApi, NullsAndMissingFilesAreErrors) {
  camshaft_engine* engine = nullptr;
  EXPECT_EQ(camshaft_engine_load(nullptr, &engine), CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_EQ(camshaft_engine_load("/nonexistent.engine", &engine), CAMSHAFT_IO);
  EXPECT_NE(std::string(camshaft_last_error()).find("/nonexistent.engine"), std::string::npos);
  EXPECT_EQ(camshaft_build_file("/nonexistent.onnx", nullptr, &engine), CAMSHAFT_IO);
  camshaft_build_options options = {};
  EXPECT_EQ(camshaft_build_memory("x", 1, &options, &engine), CAMSHAFT_INVALID_MODEL);
  camshaft_build_options_init(&options, sizeof options);
  EXPECT_EQ(options.optimization_level, 3);
  EXPECT_EQ(options.struct_size, sizeof options);
  EXPECT_EQ(engine, nullptr);
  camshaft_engine_destroy(nullptr);
}

// A program compiled against a version without the last fields.
TEST(CApi, OlderOptionsAreNotOverrun) {
  constexpr size_t kOlder = offsetof(camshaft_build_options, int8);
  camshaft_build_options options;
  std::memset(&options, 0x55, sizeof options);
  camshaft_build_options_init(&options, kOlder);
  EXPECT_EQ(options.struct_size, kOlder);
  EXPECT_EQ(options.max_tactics, -1);
  EXPECT_EQ(options.int8, 0x55555555);
  EXPECT_EQ(options.allow_fp16, 0x55555555);
  camshaft_engine* engine = nullptr;
  ASSERT_EQ(camshaft_build_file(kModel, &options, &engine), CAMSHAFT_OK) << camshaft_last_error();
  EXPECT_EQ(tactics_of(engine).find("_i8"), std::string::npos);
  camshaft_engine_destroy(engine);
}

TEST(CApi, Sparsity) {
  camshaft_build_options options;
  camshaft_build_options_init(&options, sizeof options);
  EXPECT_EQ(options.sparsity, 0);
  options.sparsity = 3;
  camshaft_engine* engine = nullptr;
  EXPECT_EQ(camshaft_build_file(kModel, &options, &engine), CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(camshaft_last_error()), "sparsity 3 is not 0, 1 or 2");
  options.sparsity = 2;
  options.optimization_level = 1;
  ASSERT_EQ(camshaft_build_file(kModel, &options, &engine), CAMSHAFT_OK) << camshaft_last_error();
  camshaft_engine_destroy(engine);
}

TEST(CApi, Int8IsBuiltWithAndWithoutACache) {
  camshaft_build_options options;
  camshaft_build_options_init(&options, sizeof options);
  options.int8 = 1;
  options.calibration_cache_file = "/nonexistent.cache";
  camshaft_engine* engine = nullptr;
  EXPECT_EQ(camshaft_build_file(kModel, &options, &engine), CAMSHAFT_IO);
  EXPECT_NE(std::string(camshaft_last_error()).find("/nonexistent.cache"), std::string::npos);
  EXPECT_EQ(engine, nullptr);
  options.calibration_cache_file = nullptr;
  ASSERT_EQ(camshaft_build_file(kModel, &options, &engine), CAMSHAFT_OK) << camshaft_last_error();
  EXPECT_NE(tactics_of(engine).find("_i8i8"), std::string::npos) << tactics_of(engine);
  camshaft_engine_destroy(engine);
}

TEST(CApi, LogGoesToTheCallback) {
  std::string text;
  camshaft_set_log([](camshaft_severity, const char* line,
                      void* user) { *static_cast<std::string*>(user) += line; },
                   CAMSHAFT_LOG_VERBOSE, &text);
  small_engine();
  camshaft_set_log(nullptr, CAMSHAFT_LOG_INFO, nullptr);
  EXPECT_FALSE(text.empty());
}

}  // namespace
}  // namespace camshaft
