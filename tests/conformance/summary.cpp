// SPDX-License-Identifier: Apache-2.0
#include "conformance/summary.h"

#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>
#include <nlohmann/json.hpp>

namespace camshaft::testing {
namespace {

struct Count {
  int passed = 0, total = 0;
  void add(bool pass) {
    passed += pass;
    ++total;
  }
};

bool is_plain(const onnx::TypeProto& type) {
  static const std::set<int> kPlain = {1, 2, 3, 6, 7, 9, 10, 11};
  return type.has_tensor_type() && kPlain.contains(type.tensor_type().elem_type());
}

// "node/test_celu_expanded" → "node/test_celu": the case whose function body it is.
std::string without_expansion(const std::string& name) {
  const size_t at = name.find("_expanded");
  return at == std::string::npos ? name : name.substr(0, at);
}

// The part of a reason before its colon: "type", "sequence" …
std::string category(const Case& test) {
  if (test.status.ok()) return "passed";
  if (test.reason.empty()) return "not listed";
  return test.reason.substr(0, test.reason.find(':'));
}

struct Peer {
  std::set<std::string> failed;  // tried, and wrong or not loaded
};

Peer read_peer(const std::filesystem::path& file) {
  Peer peer;
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (json.is_discarded()) return peer;
  if (const auto fails = json.find("fails"); fails != json.end())
    for (const auto& name : *fails) peer.failed.insert("node/" + name.get<std::string>());
  if (const auto errors = json.find("err"); errors != json.end())
    for (auto error = errors->begin(); error != errors->end(); ++error)
      peer.failed.insert("node/" + error.key());
  return peer;
}

}  // namespace

ModelFacts facts_of(const std::filesystem::path& file) {
  ModelFacts facts;
  onnx::ModelProto model;
  std::ifstream stream(file, std::ios::binary);
  if (!model.ParseFromIstream(&stream)) return facts;
  if (model.graph().node_size() == 1) facts.op = model.graph().node(0).op_type();
  const auto add = [&](const onnx::ValueInfoProto& value) {
    facts.plain = facts.plain && is_plain(value.type());
    facts.only_tensors = facts.only_tensors && value.type().has_tensor_type();
  };
  for (const auto& input : model.graph().input()) add(input);
  for (const auto& output : model.graph().output()) add(output);
  return facts;
}

void print_summary(const std::vector<Case>& cases, const std::filesystem::path& peer_file,
                   const std::filesystem::path& markdown) {
  std::map<std::string, Count> by_kind, by_operator;
  std::map<std::string, int> by_category;
  std::map<std::string, std::string> operator_of;
  Count ours, theirs;
  const Peer peer = peer_file.empty() ? Peer{} : read_peer(peer_file);
  std::vector<ModelFacts> facts;
  for (const Case& test : cases) {
    facts.push_back(test.kind == "node" ? facts_of(test.model) : ModelFacts{});
    if (!facts.back().op.empty() && test.name.find("_expanded") == std::string::npos)
      operator_of[test.name] = facts.back().op;
  }
  for (size_t k = 0; k < cases.size(); ++k) {
    const Case& test = cases[k];
    by_kind[test.kind].add(test.status.ok());
    ++by_category[category(test)];
    if (test.kind != "node") continue;
    if (facts[k].plain) {
      ours.add(test.status.ok());
      theirs.add(!peer.failed.contains(test.name));
    }
    const auto found = operator_of.find(without_expansion(test.name));
    by_operator[found != operator_of.end() ? found->second : "(several)"].add(test.status.ok());
  }
  for (const auto& [kind, count] : by_kind)
    fmt::print("{:<18} {:>5} of {:>5} passed\n", kind, count.passed, count.total);
  for (const auto& [reason, count] : by_category) fmt::print("  {:<24} {:>5}\n", reason, count);
  if (!peer_file.empty())
    fmt::print("node tests on plain types: {} of {} passed here, {} there\n", ours.passed,
               ours.total, theirs.passed);
  if (markdown.empty()) return;
  std::ofstream file(markdown);
  file << "| operator | passed | cases |\n|---|---|---|\n";
  for (const auto& [op, count] : by_operator)
    file << fmt::format("| {} | {} | {} |\n", op, count.passed, count.total);
}

}  // namespace camshaft::testing
