// SPDX-License-Identifier: Apache-2.0
// Developer tool: what the passes make of models. optimizer_report [--text] [--log] [--before]
// model.onnx …
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "onnx/importer.h"
#include "passes/pipeline.h"

namespace {

using namespace camshaft;

struct PrintLogger : Logger {
  void log(Severity, std::string_view text) override { fmt::print("{}\n", text); }
};

std::string kinds_of(const ir::Graph& graph) {
  std::map<std::string, int> counts;
  for (const auto& layer : graph.layers()) {
    std::string kind(ir::kind_name(layer->kind));
    if (const auto* generic = std::get_if<ir::GenericAttrs>(&layer->attrs))
      kind += ":" + generic->op_type;
    ++counts[kind];
  }
  std::string text;
  for (const auto& [kind, count] : counts) text += fmt::format(" {} {}", kind, count);
  return text;
}

int report(const std::string& file, bool text, bool before) {
  Result<onnx_import::ImportedModel> model = onnx_import::import_file(file);
  if (!model.ok()) {
    fmt::print("{}: {}\n", file, model.status().message());
    return 1;
  }
  ir::Graph& graph = *model.value().graph;
  if (before) fmt::print("{}", ir::to_text(graph, true));
  const size_t imported = graph.layers().size();
  passes::PassRecord record;
  Status status = passes::optimize(graph, record);
  if (status.ok()) status = ir::verify(graph);
  if (!status.ok()) fmt::print("{}: {}\n", file, status.message());
  fmt::print("{}: {} nodes, {} layers -> {}:{}\n", file, model.value().info.node_count, imported,
             graph.layers().size(), kinds_of(graph));
  if (text) fmt::print("{}", ir::to_text(graph, true));
  return !status.ok();
}

}  // namespace

int main(int argc, char** argv) {
  bool text = false, before = false;
  int failures = 0;
  PrintLogger logger;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--text")
      text = true;
    else if (word == "--before")
      before = true;
    else if (word == "--log")
      set_logger(&logger, Severity::kVerbose);
    else
      failures += report(word, text, before);
  }
  return failures != 0;
}
