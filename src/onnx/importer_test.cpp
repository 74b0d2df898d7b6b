// SPDX-License-Identifier: Apache-2.0
// Files: what is read, and one clear error for everything that is broken.
#include "onnx/importer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/log.h"
#include "ir/graph.h"
#include "onnx/testing.h"

namespace camshaft::onnx_import {
namespace {

using namespace testing;  // NOLINT: the model writer
namespace fs = std::filesystem;

TestGraph small() {
  return TestGraph()
      .input("x", kFloat, {1, 3, 4, 4})
      .floats("w", {2, 3, 1, 1})
      .node("Conv", {"x", "w"}, {"t"}, {}, "conv")
      .node("Relu", {"t"}, {"y"}, {}, "relu")
      .output("y", kFloat);
}

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("camshaft_onnx_" + std::to_string(getpid()));
  TemporaryFolder() { fs::create_directories(path / "model"); }
  ~TemporaryFolder() { fs::remove_all(path); }
  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return path / name;
  }
};

std::string error_of(const std::string& bytes) {
  return import_bytes(as_bytes(bytes)).status().message();
}
std::string error_of(const TestGraph& graph, int64_t version = 17) {
  return error_of(model(graph, version));
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\n  lacks: " << part;
}

TEST(Importer, ReadsAFile) {
  const TemporaryFolder folder;
  const auto m = import_file(folder.write("model/m.onnx", model(small())));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(m.value().info.opset, 17);
  EXPECT_EQ(m.value().info.ir_version, 8);
  EXPECT_EQ(m.value().info.producer_name, "camshaft test");
  EXPECT_EQ(m.value().info.node_count, 2);
  EXPECT_EQ(m.value().graph->layers().size(), 2u);
  EXPECT_EQ(m.value().graph->outputs()[0]->name, "y");
}

TEST(Importer, FilesThatAreNoModels) {
  const TemporaryFolder folder;
  expect_in(import_file(folder.path / "missing.onnx").status().message(), "No such file");
  expect_in(import_file(folder.path).status().message(), "not a regular file");
  const std::pair<std::string, const char*> files[] = {
      {"", "the file is empty"},
      {"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"},
      {"PK\3\4 zip", "ZIP archive"},
      {"<!DOCTYPE html>", "HTML"},
      {Wire().number(1, 8).bytes, "has no graph"}};
  for (const auto& [bytes, reason] : files) {
    const Status status = import_file(folder.write("broken.onnx", bytes)).status();
    expect_in(status.message(), reason);
    expect_in(status.message(), "broken.onnx");
    EXPECT_EQ(status.code(), ErrorCode::kInvalidModel);
  }
}

TEST(Importer, EveryTruncationIsAnErrorOrAModel) {
  const std::string bytes = model(small());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto m = import_bytes(as_bytes(bytes.substr(0, size)));
    if (!m.ok()) {
      EXPECT_FALSE(m.status().message().empty());
    }
  }
}

// --- graphs that contradict themselves

TEST(Importer, BrokenGraphs) {
  const std::pair<TestGraph, const char*> cases[] = {
      {TestGraph().input("x", kFloat, {1}).node("Relu", {"nobody"}, {"y"}, {}, "r").output("y"),
       "node r (Relu): tensor \"nobody\" is not made by any node"},
      {TestGraph().input("x", kFloat, {1}).node("Relu", {"x"}, {"y"}).output("z"),
       "output \"z\" is not made"},
      {TestGraph()
           .input("x", kFloat, {1})
           .node("Relu", {"x"}, {"y"}, {}, "a")
           .node("Abs", {"x"}, {"y"}, {}, "b")
           .output("y"),
       "tensor \"y\" is made by two nodes: a and b"},
      {TestGraph()
           .input("x", kFloat, {1})
           .node("Add", {"x", "c"}, {"b"}, {}, "p")
           .node("Relu", {"b"}, {"c"}, {}, "q")
           .output("c"),
       "the nodes form a cycle"},
      {TestGraph().input("x", kFloat, {1}).node("Relu", {"x"}, {"y"}), "no outputs"},
      {TestGraph()
           .input("x", kFloat, {1})
           .input("x", kFloat, {2})
           .node("Relu", {"x"}, {"y"})
           .output("y"),
       "two inputs \"x\""},
      {TestGraph().floats("w", {1}).floats("w", {2}).node("Relu", {"w"}, {"y"}).output("y"),
       "two initializers \"w\""},
      {TestGraph().input("x", kFloat, {-5}).node("Relu", {"x"}, {"y"}).output("y"),
       "extent -5 is negative"},
      {TestGraph()
           .input("x", kFloat, {INT32_MAX, INT32_MAX, 9})
           .node("Relu", {"x"}, {"y"})
           .output("y"),
       "not believable"},
      {TestGraph().input("x", kFloat, {1}).node("Relu", {"x"}, {"y"}).output("y", kInt64),
       "declared as INT64, but is FLOAT"},
      {TestGraph().input("x", kFloat, {1}).node("Relu", {"x", "x"}, {"y"}).output("y"),
       "at most 1"},
      {TestGraph().input("x", kFloat, {1}).node("Add", {"x"}, {"y"}, {}, "sum").output("y"),
       "node sum (Add): input 1 is missing"},
      {TestGraph()
           .input("x", kFloat, {1})
           .node("LeakyRelu", {"x"}, {"y"}, {integer("alpha", 1)})
           .output("y"),
       "attribute alpha has the wrong type"},
      {TestGraph()
           .input("x", kFloat, {1})
           .node("Relu", {"x"}, {"y"}, {integer("speed", 1)})
           .output("y"),
       "attribute speed is not known"},
      {TestGraph().input("x", kString, {1}).node("Relu", {"x"}, {"y"}).output("y"),
       "input \"x\": element type STRING"},
      {TestGraph().input("x", 77, {1}).node("Relu", {"x"}, {"y"}).output("y"),
       "77 is not an element type"},
  };
  for (const auto& [graph, reason] : cases) expect_in(error_of(graph), reason);
}

TEST(Importer, UnsortedNodesAreSorted) {
  const auto m = import_bytes(as_bytes(model(TestGraph()
                                                 .input("x", kFloat, {1})
                                                 .node("Relu", {"b"}, {"y"})
                                                 .node("Neg", {"a"}, {"b"})
                                                 .node("Abs", {"x"}, {"a"})
                                                 .output("y"))));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(m.value().graph->layers()[0]->name, "Abs_2");
}

TEST(Importer, BrokenTensors) {
  const auto with = [](const Wire& tensor) {
    return error_of(TestGraph()
                        .input("x", kFloat, {4})
                        .initializer(tensor)
                        .node("Add", {"x", "w"}, {"y"}, {}, "sum")
                        .output("y"));
  };
  expect_in(with(raw_tensor<float>("w", kFloat, {4}, {1, 2, 3})),
            "node sum (Add): initializer \"w\": raw data has 12 bytes, the shape needs 16");
  expect_in(with(tensor("w", kFloat, {4})), "0 elements are stored, the shape has 4");
  expect_in(with(tensor("w", kFloat, {-1})), "extent -1 is negative");
  expect_in(with(tensor("w", kFloat, {1 << 30, 1 << 30, 1 << 30})), "not believable");
  expect_in(with(tensor("w", kFloat, {1 << 29})),
            "0 elements are stored");  // 2 GB are claimed, none are there
  expect_in(with(tensor("w", 0, {1})), "0 is not an element type");
  expect_in(with(tensor("w", kFloat, {1, 1, 1, 1, 1, 1, 1, 1, 1})), "9 dimensions");
  expect_in(with(tensor("w", kString, {1})), "element type STRING");
}

TEST(Importer, TypedFields) {
  const auto value = [](const Wire& tensor, ir::DataType type) -> std::vector<std::byte> {
    const auto m = import_bytes(as_bytes(
        model(TestGraph().initializer(tensor).node("Identity", {"w"}, {"y"}).output("y"))));
    EXPECT_TRUE(m.ok()) << m.status().message();
    if (!m.ok()) return {};
    const ir::Tensor& w = *m.value().graph->layers()[0]->inputs[0];
    EXPECT_EQ(w.type, type);
    return {w.constant->view.begin(), w.constant->view.end()};
  };
  EXPECT_EQ(
      value(Wire(tensor("w", kHalf, {2})).number(5, 0x3c00).number(5, 0x4000), ir::DataType::kHalf)
          .size(),
      4u);
  EXPECT_EQ(value(Wire(tensor("w", kInt8, {1})).number(5, -3), ir::DataType::kInt8)[0],
            std::byte{0xfd});
  EXPECT_EQ(value(Wire(tensor("w", kBool, {2})).number(5, 7).number(5, 0), ir::DataType::kBool)[0],
            std::byte{1});
  EXPECT_EQ(value(Wire(tensor("w", kInt64, {1})).number(7, -1), ir::DataType::kInt64).size(), 8u);
  EXPECT_EQ(value(Wire(tensor("w", 12, {1})).number(11, 5), ir::DataType::kUInt32).size(), 4u);
  EXPECT_EQ(value(Wire(tensor("w", 21, {3})).number(5, 0x21).number(5, 0x03), ir::DataType::kUInt4)
                .size(),
            2u);
}

// --- external data

Wire external(const std::string& location, const std::string& offset, const std::string& length) {
  Wire wire = tensor("w", kFloat, {4});
  wire.message(13, Wire().text(1, "location").text(2, location));
  if (!offset.empty()) wire.message(13, Wire().text(1, "offset").text(2, offset));
  if (!length.empty()) wire.message(13, Wire().text(1, "length").text(2, length));
  return wire.number(14, 1);
}

TEST(Importer, ExternalData) {
  const TemporaryFolder folder;
  const float weights[] = {0, 1, 2, 3, 4, 5};
  folder.write("model/w.bin", std::string(reinterpret_cast<const char*>(weights), sizeof weights));
  folder.write("secret.bin", std::string(64, 's'));
  fs::create_symlink(folder.path / "secret.bin", folder.path / "model" / "link.bin");
  const auto load = [&](const Wire& tensor) {
    return import_file(folder.write("model/m.onnx", model(TestGraph()
                                                              .input("x", kFloat, {4})
                                                              .initializer(tensor)
                                                              .node("Add", {"x", "w"}, {"y"})
                                                              .output("y"))));
  };
  const auto m = load(external("w.bin", "8", "16"));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(m.value().graph->layers()[0]->inputs[1]->values<float>()[0], 2.0f);
  const std::pair<Wire, const char*> cases[] = {
      {external("w.bin", "12", "16"), "16 bytes at offset 12 are not there"},
      {external("w.bin", "0", "12"), "length 12, but the shape needs 16"},
      {external("w.bin", "-4", ""), "offset \"-4\" is not a number"},
      {external("w.bin", "99999999999999999999", ""), "is not a number"},
      {external("../secret.bin", "", ""), "outside the model's directory"},
      {external((folder.path / "secret.bin").string(), "", ""), "outside the model's directory"},
      {external("link.bin", "", ""), "outside the model's directory"},
      {external("none.bin", "", ""), "No such file"},
      {external("", "", ""), "without a location"},
  };
  for (const auto& [tensor, reason] : cases) expect_in(load(tensor).status().message(), reason);
  expect_in(error_of(TestGraph()
                         .input("x", kFloat, {4})
                         .initializer(external("w.bin", "", ""))
                         .node("Add", {"x", "w"}, {"y"})
                         .output("y")),
            "external data is not allowed");
}

// --- versions, unsupported parts, log

TEST(Importer, UnsupportedPartsAreListedTogether) {
  const std::string message = error_of(TestGraph()
                                           .input("x", kFloat, {1})
                                           .node("Foo", {"x"}, {"a"}, {}, "first")
                                           .node("Relu", {"a"}, {"b"})
                                           .node("Bar", {"b"}, {"c"}, {}, "second")
                                           .node("SequenceEmpty", {}, {"s"}, {}, "third")
                                           .output("c")
                                           .output("s"));
  expect_in(message, "3 parts of the model are not supported");
  expect_in(message, "node first (Foo): operator Foo is not known");
  expect_in(message, "node second (Bar)");
  expect_in(message, "node third (SequenceEmpty): sequences and optionals: a network's output");
}

TEST(Importer, UnsupportedPartsAreToldByNode) {
  const TestGraph graph = TestGraph()
                              .input("x", kFloat, {1, 2})
                              .node("Relu", {"x"}, {"a"}, {}, "fine")
                              .node("Foo", {"x"}, {"b"}, {}, "unknown")
                              .node("Transpose", {"a"}, {"c"}, {ints("perm", {5, 0})}, "wrong")
                              .node("Relu", {"b"}, {"d"}, {}, "after")
                              .output("c")
                              .output("d");
  std::vector<UnsupportedPart> parts;
  const auto refused = import_bytes(as_bytes(model(graph)), {}, {nullptr, &parts});
  EXPECT_EQ(refused.status().code(), ErrorCode::kUnsupported);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].node, 1);
  expect_in(parts[0].text, "node unknown (Foo): operator Foo is not known");
  EXPECT_EQ(parts[1].node, 2);  // contradicts itself: an error without the list
  expect_in(parts[1].text, "node wrong (Transpose): ");
  EXPECT_EQ(import_bytes(as_bytes(model(graph))).status().code(), ErrorCode::kInvalidModel);
}

TEST(Importer, OutputsThatAreInputsOrConstants) {
  const auto m = import_bytes(as_bytes(model(TestGraph()
                                                 .input("x", kFloat, {2})
                                                 .floats("w", {3})
                                                 .node("Relu", {"x"}, {"y"})
                                                 .output("x")
                                                 .output("w")
                                                 .output("y")
                                                 .output("y"))));
  ASSERT_TRUE(m.ok()) << m.status().message();
  const ir::Graph& graph = *m.value().graph;
  EXPECT_TRUE(ir::verify(graph).ok()) << ir::verify(graph).message();
  EXPECT_EQ(graph.outputs()[1]->name, "w");
  EXPECT_EQ(graph.outputs()[1]->shape, (ir::Shape{3}));
  for (const ir::Tensor* output : graph.outputs()) EXPECT_NE(output->producer, nullptr);
}

TEST(Importer, InitializersAmongTheInputs) {
  const auto m = import_bytes(as_bytes(model(TestGraph()
                                                 .input("x", kFloat, {2})
                                                 .input("w", kFloat, {2})
                                                 .floats("w", {2})
                                                 .node("Add", {"x", "w"}, {"y"})
                                                 .output("y"))));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(m.value().graph->inputs().size(), 1u);
}

TEST(Importer, LogLines) {
  struct Recorder : Logger {
    std::string text;
    void log(Severity, std::string_view line) override { text += std::string(line) + "\n"; }
  } recorder;
  set_logger(&recorder, Severity::kVerbose);
  const auto m = import_bytes(as_bytes(model(small())));
  set_logger(nullptr);
  ASSERT_TRUE(m.ok());
  for (const char* line :
       {"Parsing node: conv [Conv]\n", "Searching for input: x\n",
        "conv [Conv] inputs: [x -> (1, 3, 4, 4)[FLOAT]], [w -> (2, 3, 1, 1)[FLOAT]], \n",
        "Registering layer: conv for ONNX node: conv\n",
        "Registering tensor: t for ONNX tensor: t\n",
        "conv [Conv] outputs: [t -> (1, 2, 4, 4)[FLOAT]], \n"})
    expect_in(recorder.text, line);
}

TEST(Importer, TensorFiles) {
  const TemporaryFolder folder;
  const auto stored =
      read_tensor_file(folder.write("input_0.pb", floats_tensor("x", {2, 1}, {5, 6}).bytes));
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_EQ(stored.value().name, "x");
  EXPECT_EQ(stored.value().extents, (ir::Extents{2, 1}));
  EXPECT_EQ(stored.value().bytes.size(), 8u);
  expect_in(read_tensor_file(folder.write("bad.pb", "not a tensor")).status().message(), "bad.pb");
}

}  // namespace
}  // namespace camshaft::onnx_import
