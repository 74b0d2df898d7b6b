// SPDX-License-Identifier: Apache-2.0
// Writes the text form of the graph (docs/ir-text.md, long constants left out) as passes leave it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "passes/pass_table.h"

namespace camshaft::passes {

class GraphDump {
 public:
  // Of these passes, or of "all" that change something, to files of this folder; "-": to standard
  // output. A name that no pass has is an error.
  static Result<GraphDump> create(const std::vector<std::string>& names,
                                  const std::filesystem::path& folder);

  Status original(const ir::Graph& graph);
  // A pass that ran and changed nothing is written only if it was named, and once.
  Status after(const Pass& pass, int edits, const ir::Graph& graph);

 private:
  Status write(const std::string& title, const ir::Graph& graph);

  std::filesystem::path folder_;
  bool all_ = false;
  std::vector<const Pass*> passes_, seen_;
  int written_ = 0;
};

}  // namespace camshaft::passes
