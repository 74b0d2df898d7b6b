// SPDX-License-Identifier: Apache-2.0
// ONNX's own test cases through the interpreter or through complete engines. Every case must pass
// or stand in the list of expected failures with its reason; a listed case that passes is an error
// too.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "conformance/cases.h"
#include "conformance/summary.h"

namespace camshaft::testing {
namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path data, expected, peer, markdown;
  std::string filter;
  bool engine = false, list = false, verbose = false, update = false;
  int shard = 0, shards = 1;
};

// One line of the list: "case interpreter|engine|both reason".
struct Expected {
  std::string mode, reason;
};
using ExpectedList = std::map<std::string, Expected>;

ExpectedList read_expected(const fs::path& path) {
  ExpectedList list;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, mode, reason;
    words >> name >> mode;
    std::getline(words >> std::ws, reason);
    if (name.empty() || name[0] == '#') continue;
    list[name] = {mode, reason};
  }
  return list;
}

// The reason why a case may fail in this mode, or null.
const std::string* allowed(const ExpectedList& list, const std::string& name, Mode mode) {
  const auto found = list.find(name);
  if (found == list.end()) return nullptr;
  const std::string& stated = found->second.mode;
  return stated == "both" || stated == (mode == Mode::kEngine ? "engine" : "interpreter")
             ? &found->second.reason
             : nullptr;
}

// "light" networks are flat files whose input is i/n for element i of n.
Result<std::vector<DataSet>> light_data(const fs::path& model) {
  DataSet set;
  const fs::path output = model.parent_path() / (model.stem().string() + "_output_0.pb");
  CAMSHAFT_ASSIGN(onnx_import::StoredTensor expected, onnx_import::read_tensor_file(output));
  set.outputs.push_back(std::move(expected));
  CAMSHAFT_ASSIGN(const auto graph, import_model(model));
  for (const ir::Tensor* tensor : graph->inputs()) {
    onnx_import::StoredTensor input;
    input.name = tensor->name;
    input.type = tensor->type;
    for (const ir::Dim dim : tensor->shape)
      input.extents.push_back(dim.is_known() ? dim.extent() : 1);
    const int64_t count = ir::element_count(input.extents);
    std::vector<float> values(count);
    for (int64_t k = 0; k < count; ++k)
      values[k] = static_cast<float>(static_cast<double>(k) / static_cast<double>(count));
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    input.bytes.assign(bytes, bytes + values.size() * sizeof(float));
    set.inputs.push_back(std::move(input));
  }
  return std::vector<DataSet>{std::move(set)};
}

std::vector<Case> find_cases(const Options& options) {
  std::vector<Case> cases;
  for (const char* kind : {"node", "simple", "pytorch-converted", "pytorch-operator", "light"}) {
    if (!fs::exists(options.data / kind)) continue;
    for (const auto& entry : fs::directory_iterator(options.data / kind)) {
      const bool light = entry.path().extension() == ".onnx";
      const fs::path model = light ? entry.path() : entry.path() / "model.onnx";
      if (!fs::exists(model)) continue;
      const std::string name = fmt::format("{}/{}", kind, entry.path().stem().string());
      if (name.find(options.filter) != std::string::npos)
        cases.push_back({name, kind, model, {}, {}});
    }
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  std::vector<Case> mine;
  for (size_t k = 0; k < cases.size(); ++k)
    if (static_cast<int>(k) % options.shards == options.shard) mine.push_back(cases[k]);
  return mine;
}

// Values of a generator that only agrees in distribution: type and extents are compared.
bool is_random(const std::string& name) {
  return name.find("bernoulli") != std::string::npos;
}

Status run_case(const Case& test, Mode mode) {
  const bool light = test.kind == "light";
  CAMSHAFT_ASSIGN(const std::vector<DataSet> sets,
                  light ? light_data(test.model) : load_data_sets(test.model.parent_path()));
  if (sets.empty()) return make_error(ErrorCode::kIo, "no data sets");
  for (const DataSet& set : sets) {
    CAMSHAFT_ASSIGN(const std::vector<kernels::Value> outputs, run_model(test.model, set, mode));
    if (outputs.size() != set.outputs.size())
      return make_error(ErrorCode::kInternal, "{} outputs instead of {}", outputs.size(),
                        set.outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k)
      if (const std::string difference =
              compare(set.outputs[k], outputs[k], {}, !is_random(test.name));
          !difference.empty())
        return make_error(ErrorCode::kInternal, "output {}: {}", k, difference);
  }
  return ok_status();
}

// A first reason for a newly listed failure, in one line; the words before the colon are its
// category.
std::string first_reason(const Case& test) {
  if (!facts_of(test.model).only_tensors) return "sequence: sequence or optional inputs or outputs";
  std::string text = test.status.message();
  for (char& c : text)
    if (c == '\n') c = ' ';
  if (const size_t path = text.find(".onnx: "); path != std::string::npos)
    text = text.substr(path + 7);
  if (const size_t path = text.find(".pb: "); path != std::string::npos)
    text = text.substr(path + 5);
  if (const size_t phrase = text.find("1 part of the model is not supported:"); phrase == 0)
    text = text.substr(40);
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  const char* category = "numbers";
  if (says("not known")) category = "operator";
  if (says("element type") || says("STRING")) category = "type";
  if (says("Sequence") || says("Optional")) category = "sequence";
  if (says("run time") || says("before it runs")) category = "run time";
  return fmt::format("{}: {}", category, text);
}

// Runs everything in both modes and writes the list anew, keeping the reasons it has.
int update(const Options& options) {
  const ExpectedList old = read_expected(options.expected);
  ExpectedList list;
  for (const Mode mode : {Mode::kInterpreter, Mode::kEngine}) {
    for (Case& test : find_cases(options)) {
      test.status = run_case(test, mode);
      if (test.status.ok()) continue;
      Expected& line = list[test.name];
      line.mode = !line.mode.empty() ? "both" : mode == Mode::kEngine ? "engine" : "interpreter";
      const auto known = old.find(test.name);
      if (line.reason.empty())
        line.reason = known != old.end() ? known->second.reason : first_reason(test);
    }
  }
  std::ofstream file(options.expected);
  file << "# Cases that may fail, the mode they fail in, and why; written by conformance --update, "
          "reasons edited by hand.\n";
  for (const auto& [name, line] : list)
    file << fmt::format("{} {} {}\n", name, line.mode, line.reason);
  fmt::print("{} cases listed\n", list.size());
  return 0;
}

int run(const Options& options) {
  if (options.data.empty() || !fs::exists(options.data / "node")) {
    fmt::print("skipped: no ONNX test data at '{}' (1 suite)\n", options.data.string());
    return 77;
  }
  if (options.update) return update(options);
  const Mode mode = options.engine ? Mode::kEngine : Mode::kInterpreter;
  const ExpectedList expected = read_expected(options.expected);
  std::vector<Case> cases = find_cases(options);
  std::vector<std::string> regressions, surprises;
  for (Case& test : cases) {
    if (options.verbose) fmt::print("{}\n", test.name), std::cout.flush();
    test.status = run_case(test, mode);
    const std::string* reason = allowed(expected, test.name, mode);
    if (options.list && !test.status.ok()) fmt::print("{}  {}\n", test.name, test.status.message());
    if (reason) test.reason = *reason;
    if (!test.status.ok() && !reason)
      regressions.push_back(fmt::format("{}: {}", test.name, test.status.message()));
    if (test.status.ok() && reason) surprises.push_back(test.name);
  }
  print_summary(cases, options.peer, options.markdown);
  for (const std::string& text : regressions) fmt::print("FAILED {}\n", text);
  for (const std::string& name : surprises)
    fmt::print("PASSED although listed as an expected failure: {}\n", name);
  if (!surprises.empty()) fmt::print("run conformance --update to take them off the list\n");
  return regressions.empty() && surprises.empty() ? 0 : 1;
}

}  // namespace
}  // namespace camshaft::testing

int main(int argc, char** argv) {
  camshaft::testing::Options options;
  CLI::App app("Runs ONNX's backend test data.");
  app.add_option("--data", options.data, "folder that holds node/, simple/, …");
  app.add_option("--expected", options.expected, "list of expected failures");
  app.add_option("--peer", options.peer,
                 "JSON of the node tests another runtime fails, to count its passes beside ours");
  app.add_option("--markdown", options.markdown, "write the table by operator to this file");
  app.add_option("--filter", options.filter, "only cases whose name contains this");
  app.add_option("--shard", options.shard, "run every --shards-th case from this one");
  app.add_option("--shards", options.shards);
  app.add_flag("--engine", options.engine,
               "build and run an engine for every case instead of interpreting it");
  app.add_flag("--update", options.update,
               "run both modes and write the list of expected failures anew");
  app.add_flag("--list", options.list, "print every failure with its message, listed or not");
  app.add_flag("--verbose", options.verbose, "print every case before it runs");
  CLI11_PARSE(app, argc, argv);
  return camshaft::testing::run(options);
}
