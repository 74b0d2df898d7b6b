// SPDX-License-Identifier: Apache-2.0
// Where in the program each operator was called: as the trace says, else by the Python frames that
// were open on its thread.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "trace/semantics.h"
#include "trace/trace.h"

namespace camshaft::trace {

class CallStacks {
 public:
  // Of an operator or annotation; 0: none.
  uint32_t of(const Trace& trace, uint32_t event) const {
    return of_host_row_[trace.events.detail[event]];
  }
  // Frames from the innermost outwards with ';' between them, as PyTorch records them.
  std::string text(const Trace& trace, uint32_t stack) const;

  friend CallStacks find_call_stacks(const Trace& trace, const Semantics& semantics);

 private:
  struct Frame {
    uint32_t caller = 0;
    StringId name = 0;
  };
  uint32_t frame(uint32_t caller, StringId name);

  std::vector<Frame> frames_{{}};
  std::unordered_map<uint64_t, uint32_t> ids_;  // caller and name → frame
  std::vector<uint32_t> of_host_row_;
};

CallStacks find_call_stacks(const Trace& trace, const Semantics& semantics);

}  // namespace camshaft::trace
