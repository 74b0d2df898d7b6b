// SPDX-License-Identifier: Apache-2.0
// Engine files: round trip of every attribute, and one clear error for anything damaged.
#include "engine/engine.h"

#include <cstring>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "engine/file_format.h"
#include "engine/hash.h"
#include "ir/kind_traits.h"

namespace camshaft::engine {
namespace {

// Gives every field of an attribute struct a value unlike its default.
struct Scrambler {
  std::mt19937& generator;
  int below(int n) { return static_cast<int>(generator() % n); }
  void operator()(const char*, bool& f) { f = !f; }
  void operator()(const char*, int64_t& f) { f = below(1000) - 500; }
  void operator()(const char*, float& f) { f = static_cast<float>(below(1000)) / 7; }
  void operator()(const char*, double& f) { f = below(1000) / 7.0; }
  void operator()(const char*, std::string& f) { f = "text" + std::to_string(below(100)); }
  void operator()(const char*, ir::Ints& f) { f = {below(9), -below(9), below(9)}; }
  void operator()(const char*, std::vector<float>& f) { f = {0.5f, static_cast<float>(below(9))}; }
  void operator()(const char*, std::vector<std::string>& f) { f = {"a", "", "b"}; }
  void operator()(const char*, ir::Shape& f) { f = {ir::Dim(3), ir::Dim::symbol(0), ir::Dim(0)}; }
  void operator()(const char*, ir::DataType& f) { f = ir::DataType::kHalf; }
  void operator()(const char*, ir::Program& f) {
    f.num_inputs = 2;
    const int sum = ir::append(f, ir::PointOp::kAdd, 0, 1);
    ir::append(f, ir::PointOp::kClip, sum, -1, -1, 0, 6);
  }
  void operator()(const char*, std::vector<ir::GenericAttribute>& f) {
    f = {{"axis", {1, 2}, {0.5f}, "text"}, {"", {}, {}, ""}};
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(const char*, E& f) { f = static_cast<E>(1); }
};

PlanTensor tensor(std::string name, TensorRole role, ir::Shape shape) {
  PlanTensor t;
  t.name = std::move(name);
  t.type = ir::DataType::kFloat;
  t.role = role;
  t.shape = shape;
  return t;
}

// One layer of every kind with scrambled attributes, and a small dataflow with views, a constant
// and a body.
EngineParts sample(uint32_t seed) {
  std::mt19937 generator(seed);
  EngineParts parts;
  Plan& plan = parts.plan;
  plan.name = "sample";
  const ir::Dim batch = plan.symbols.input("batch");
  plan.symbols.mul(batch, 4);
  plan.tensors = {tensor("x", TensorRole::kInput, {batch, 8, 4, 4}),
                  tensor("y", TensorRole::kOutput, {batch, 8, 4, 4}),
                  tensor("w", TensorRole::kConstant, {8, 8}),
                  tensor("part", TensorRole::kActivation, {batch, 2, 4, 4})};
  plan.tensors[2].data_bytes = 256;
  plan.tensors[3].parent = 0;
  plan.tensors[3].parent_axis = 1;
  plan.tensors[3].parent_offset = ir::Dim(4);
  plan.tensors[3].scale = {0.5f, 0.25f};
  plan.tensors[3].zero_point = {128, -1};
  plan.tensors[3].value = std::vector<ir::Dim>{batch, ir::Dim(7)};
  for (size_t kind = 0; kind < ir::kLayerKinds; ++kind) {
    PlanStep step;
    step.layer.kind = static_cast<ir::LayerKind>(kind);
    step.layer.name = "layer " + std::to_string(kind);
    step.layer.attrs = ir::default_attrs(step.layer.kind);
    Scrambler scrambler{generator};
    std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, scrambler); }, step.layer.attrs);
    step.layer.onnx_nodes = {"node", std::to_string(kind)};
    if (kind == 0) step.inputs = {0, 2, kNoTensor}, step.outputs = {1};
    step.tactic = kind % 2 ? "some_tactic" : "";
    step.tactic_version = kind;
    step.isa = kind % 2 ? Isa::kAvx2 : Isa::kScalar;
    step.tactic_value = 0x1234567890abcdefull + kind;
    step.candidates = {{"a", "linear", 1.5, "", true}, {"b", "", 0, "groups > 1", false}};
    step.build_time_us = 2.25;
    step.threads = kind % 3;
    const bool control = step.layer.kind == ir::LayerKind::kIf ||
                         step.layer.kind == ir::LayerKind::kLoop ||
                         step.layer.kind == ir::LayerKind::kScan;
    for (int b = 0; control && b < (step.layer.kind == ir::LayerKind::kIf ? 2 : 1); ++b) {
      Plan body;
      body.name = "body";
      body.symbols.input("batch");
      step.bodies.push_back(std::make_shared<const Plan>(std::move(body)));
    }
    plan.steps.push_back(std::move(step));
  }
  plan.inputs = {0};
  plan.outputs = {1};
  plan.regions = {{"{ForeignNode[a...b]}",
                   {0, 1},
                   "because",
                   {{0, kNoStep, "an input"}},
                   {{2, 2, "another kind"}}}};
  parts.weights.add(1000, [&](std::byte* to) {
    for (int k = 0; k < 1000; ++k) to[k] = static_cast<std::byte>(generator());
  });
  parts.profiles = {{{"x", {1, 8, 4, 4}, {2, 8, 4, 4}, {4, 8, 4, 4}}}};
  parts.record.rewrites = {
      {ir::Action::kDecline, "Pass", {"layer", "other"}, 7, "because", ir::Reason::kCost}};
  parts.record.layer_counts = {{"After dead-layer removal", 12}};
  parts.record.cpu_fingerprint = "cpu";
  parts.record.peak_gmacs = 66.5;
  parts.record.bf16_peak_gmacs = 133;
  parts.verbosity = Verbosity::kLayerNamesOnly;
  return parts;
}

std::vector<std::byte> file_of(EngineParts parts) {
  const GrowingBytes file = serialize(std::move(parts));
  return {file.begin(), file.end()};
}

void repair_checksums(std::vector<std::byte>& bytes) {
  FileHeader header = read_header(bytes.data());
  header.plan_hash = hash_bytes(std::span(bytes).subspan(header.plan_offset, header.plan_bytes));
  header.weights_hash =
      hash_chunks(std::span(bytes).subspan(header.weights_offset, header.weights_bytes), 1);
  header.header_hash = hash_of(header);
  write_header(header, bytes.data());
}

std::string refusal_with(std::vector<std::byte> bytes, uint32_t format_version, uint32_t layout) {
  FileHeader header = read_header(bytes.data());
  header.format_version = format_version;
  header.layout = layout;
  write_header(header, bytes.data());
  repair_checksums(bytes);
  const auto loaded = Engine::load(bytes);
  return loaded.ok() ? "" : loaded.status().message();
}

TEST(EngineFile, KeepsEverything) {
  const EngineParts parts = sample(1);
  const auto loaded = Engine::load(serialize(sample(1)));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Engine& engine = *loaded.value();
  const Plan& plan = engine.plan();
  ASSERT_EQ(plan.steps.size(), parts.plan.steps.size());
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const PlanStep &a = plan.steps[k], &b = parts.plan.steps[k];
    EXPECT_TRUE(ir::equal(a.layer.attrs, b.layer.attrs)) << ir::kind_name(b.layer.kind);
    EXPECT_EQ(a.layer.onnx_nodes, b.layer.onnx_nodes);
    EXPECT_EQ(a.inputs, b.inputs);
    EXPECT_EQ(a.tactic, b.tactic);
    EXPECT_EQ(a.tactic_value, b.tactic_value);
    EXPECT_EQ(a.isa, b.isa);
    EXPECT_EQ(a.bodies.size(), b.bodies.size());
    ASSERT_EQ(a.candidates.size(), 2u);
    EXPECT_EQ(a.candidates[1].refusal, "groups > 1");
    EXPECT_EQ(a.threads, b.threads);
  }
  ASSERT_EQ(plan.tensors.size(), 4u);
  EXPECT_EQ(plan.tensors[3].parent_offset, ir::Dim(4));
  EXPECT_EQ(plan.tensors[3].scale, (std::vector<float>{0.5f, 0.25f}));
  EXPECT_EQ(plan.tensors[3].zero_point, (std::vector<int32_t>{128, -1}));
  EXPECT_EQ(plan.tensors[3].value, parts.plan.tensors[3].value);
  EXPECT_EQ(plan.symbols.to_string(ir::Dim::symbol(1)),
            parts.plan.symbols.to_string(ir::Dim::symbol(1)));
  EXPECT_TRUE(std::ranges::equal(engine.weights(), parts.weights.section()));
  EXPECT_EQ(engine.profiles()[0][0].max, parts.profiles[0][0].max);
  EXPECT_EQ(engine.record().rewrites, parts.record.rewrites);
  EXPECT_EQ(engine.record().peak_gmacs, 66.5);
  EXPECT_EQ(engine.record().bf16_peak_gmacs, 133);
  EXPECT_EQ(engine.verbosity(), Verbosity::kLayerNamesOnly);
  ASSERT_EQ(plan.regions.size(), 1u);
  const Region &region = plan.regions[0], &stored = parts.plan.regions[0];
  EXPECT_EQ(region.name, stored.name);
  EXPECT_EQ(region.steps, stored.steps);
  EXPECT_EQ(region.reason, stored.reason);
  ASSERT_EQ(region.before.size(), 1u);
  EXPECT_EQ(region.before[0].step, kNoStep);
  EXPECT_EQ(region.before[0].reason, "an input");
  ASSERT_EQ(region.after.size(), 1u);
  EXPECT_EQ(region.after[0].tensor, 2);
  EXPECT_EQ(region.after[0].step, 2);
}

std::string refusal_of_region(Region region) {
  EngineParts parts = sample(1);
  parts.plan.regions.push_back(std::move(region));
  const auto loaded = Engine::load(serialize(std::move(parts)));
  return loaded.ok() ? "" : loaded.status().message();
}

TEST(EngineFile, RegionsShareNoLayersAndNameOnlyWhatThereIs) {
  const int steps = static_cast<int>(sample(1).plan.steps.size());
  EXPECT_EQ(refusal_of_region({"r", {2, 3}, "", {}, {}}), "");
  EXPECT_NE(refusal_of_region({"r", {}, "", {}, {}}), "");
  EXPECT_NE(refusal_of_region({"r", {1, 2}, "", {}, {}}), "") << "layer 1 is in the first region";
  EXPECT_NE(refusal_of_region({"r", {3, 2}, "", {}, {}}), "") << "not in order";
  EXPECT_NE(refusal_of_region({"r", {2, steps}, "", {}, {}}), "");
  EXPECT_NE(refusal_of_region({"r", {2}, "", {{-1, 0, ""}}, {}}), "") << "no tensor";
  EXPECT_NE(refusal_of_region({"r", {2}, "", {}, {{0, steps, ""}}}), "");
}

TEST(EngineFile, SameBytesForTheSameParts) {
  EXPECT_EQ(file_of(sample(2)), file_of(sample(2)));
}

TEST(EngineFile, EveryTruncationIsRefused) {
  const std::vector<std::byte> bytes = file_of(sample(3));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto loaded = Engine::load(std::span(bytes).first(size));
    ASSERT_FALSE(loaded.ok()) << size;
    ASSERT_EQ(loaded.status().code(), ErrorCode::kCorrupt);
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(Engine::load(longer).ok());
}

TEST(EngineFile, EveryChangedByteIsNoticed) {
  std::vector<std::byte> bytes = file_of(sample(4));
  std::mt19937 generator(5);
  for (size_t k = 0; k < bytes.size(); ++k) {
    const std::byte old = bytes[k];
    bytes[k] ^= static_cast<std::byte>(1 << (generator() % 8));
    ASSERT_EQ(Engine::load(bytes).status().code(), ErrorCode::kCorrupt) << k;
    bytes[k] = old;
  }
}

// Behind a right checksum, any plan must be refused or safe to look at.
TEST(EngineFile, MalformedPlansAreRefused) {
  const std::vector<std::byte> good = file_of(sample(6));
  const FileHeader header = read_header(good.data());
  std::mt19937 generator(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = good;
    for (int flips = 1 + generator() % 3; flips > 0; --flips) {
      std::byte& byte = bytes[header.plan_offset + generator() % header.plan_bytes];
      byte = generator() % 2 ? static_cast<std::byte>(generator())
                             : byte ^ static_cast<std::byte>(1 << (generator() % 8));
    }
    repair_checksums(bytes);
    refused += !Engine::load(bytes).ok();
  }
  EXPECT_GT(refused, 1000);
}

// A field or an enum's value that changes makes another layout, and that is refused.
TEST(EngineFile, OtherFormatsAndLayoutsAreRefusedWithOneLine) {
  const std::vector<std::byte> bytes = file_of(sample(8));
  const std::string layout = stored_layout();
  EXPECT_EQ(refusal_with(bytes, kFormatVersion, layout_hash(layout)), "");
  EXPECT_EQ(refusal_with(bytes, 1, layout_hash(layout)),
            fmt::format("engine format 1, this version reads {}: build the engine again",
                        kFormatVersion));
  const std::pair<const char*, const char*> changes[] = {
      {"FoldedHeader{is_folded:i4 low:f4", "FoldedHeader{is_folded:i8 low:f4"},  // a size
      {"multiplier:i4 addend:i4", "addend:i4 multiplier:i4"},                    // an order
      {"op:e2 a:i2", "op:e2 a:i2 d:i2"},                                         // a field more
      {" groups:int", " groups:ints"},                                           // an attribute
      {"hard_swish ", "hard_swish new_op "},                                     // a value
  };
  for (const auto& [from, to] : changes) {
    std::string changed = layout;
    ASSERT_NE(changed.find(from), std::string::npos) << from << " in\n" << layout;
    changed.replace(changed.find(from), std::strlen(from), to);
    const std::string message = refusal_with(bytes, kFormatVersion, layout_hash(changed));
    EXPECT_NE(message.find("build the engine again"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(EngineFile, ForeignAndNewerFilesGetTheirOwnMessage) {
  std::vector<std::byte> bytes = file_of(sample(8));
  const std::string text = "ONNX is something else altogether, and long enough to be a header.";
  EXPECT_NE(
      Engine::load(std::as_bytes(std::span(text))).status().message().find("not a Camshaft engine"),
      std::string::npos);
  FileHeader header = read_header(bytes.data());
  header.format_version = kFormatVersion + 1;
  write_header(header, bytes.data());
  EXPECT_NE(Engine::load(bytes).status().message().find("build the engine again"),
            std::string::npos);
  EXPECT_EQ(Engine::load("/nonexistent/engine").status().code(), ErrorCode::kIo);
}

TEST(EngineFile, SaveIsAllOrNothing) {
  const auto folder = std::filesystem::path(testing::TempDir());
  const std::vector<std::byte> bytes = file_of(sample(9));
  ASSERT_TRUE(save(bytes, folder / "sample.engine").ok());
  const auto loaded = Engine::load(folder / "sample.engine");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded.value()->file_bytes(), bytes.size());
  EXPECT_EQ(save(bytes, folder / "no_such_folder" / "x.engine").code(), ErrorCode::kIo);
  std::filesystem::remove(folder / "sample.engine");
}

}  // namespace
}  // namespace camshaft::engine
