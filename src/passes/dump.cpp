// SPDX-License-Identifier: Apache-2.0
#include "passes/dump.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "base/log.h"

namespace camshaft::passes {

Result<GraphDump> GraphDump::create(const std::vector<std::string>& names,
                                    const std::filesystem::path& folder) {
  GraphDump dump;
  dump.folder_ = folder;
  for (const std::string& name : names) {
    if (name == "all") {
      dump.all_ = true;
      continue;
    }
    CAMSHAFT_ASSIGN(const Pass* pass, find_pass(name));
    dump.passes_.push_back(pass);
  }
  if (folder == "-") return dump;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return make_error(ErrorCode::kIo, "{}: cannot make the folder: {}", folder.string(),
                      error.message());
  return dump;
}

Status GraphDump::original(const ir::Graph& graph) {
  return all_ ? write("Original", graph) : ok_status();
}

Status GraphDump::after(const Pass& pass, int edits, const ir::Graph& graph) {
  const bool named = std::find(passes_.begin(), passes_.end(), &pass) != passes_.end();
  const bool is_new = std::find(seen_.begin(), seen_.end(), &pass) == seen_.end();
  if (edits > 0 ? !named && !all_ : !named || !is_new) return ok_status();
  if (is_new) seen_.push_back(&pass);
  return write(std::string(pass.name), graph);
}

Status GraphDump::write(const std::string& title, const ir::Graph& graph) {
  const std::string text = ir::to_text(graph, true);
  if (folder_ == "-") {
    fmt::print("# {}: {} layers\n{}", title, graph.layers().size(), text);
    return ok_status();
  }
  const std::filesystem::path file = folder_ / fmt::format("{:03}-{}.txt", written_++, title);
  std::ofstream stream(file, std::ios::binary);
  stream << "# " << title << ": " << graph.layers().size() << " layers\n" << text;
  stream.close();
  if (!stream) return make_error(ErrorCode::kIo, "{}: cannot be written", file.string());
  log(Severity::kVerbose, "{}: {} layers, see {}", title, graph.layers().size(), file.string());
  return ok_status();
}

}  // namespace camshaft::passes
