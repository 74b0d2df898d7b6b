// SPDX-License-Identifier: Apache-2.0
#include "trace/call_stacks.h"

#include <map>

namespace camshaft::trace {
namespace {

bool is_python_frame(const Trace& trace, uint32_t event) {
  const EventKind kind = trace.events.kind[event];
  return kind == EventKind::kPythonFunction || kind == EventKind::kModule;
}

// Their names hold addresses ("<built-in method add of Tensor object at 0x7f…>"): equal places
// would differ.
bool is_builtin(std::string_view name) {
  return !name.empty() && name.front() == '<';
}

bool can_have_stack(const Trace& trace, uint32_t event) {
  const EventKind kind = trace.events.kind[event];
  return kind == EventKind::kOperator || kind == EventKind::kAnnotation;
}

struct OpenFrame {
  int64_t end_ns = 0;
  uint32_t stack = 0;
};

}  // namespace

uint32_t CallStacks::frame(uint32_t caller, StringId name) {
  const auto [place, is_new] =
      ids_.try_emplace(uint64_t{caller} << 32 | name, static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back({caller, name});
  return place->second;
}

std::string CallStacks::text(const Trace& trace, uint32_t stack) const {
  std::string text;
  for (; stack != 0; stack = frames_[stack].caller) {
    if (!text.empty()) text += ';';
    text += trace.strings[frames_[stack].name];
  }
  return text;
}

CallStacks find_call_stacks(const Trace& trace, const Semantics& semantics) {
  CallStacks stacks;
  stacks.of_host_row_.assign(trace.host.size(), 0);
  std::map<std::pair<StringId, StringId>, std::vector<OpenFrame>> threads;
  std::vector<std::vector<OpenFrame>*> open_of_track;
  for (const Track& track : trace.tracks) open_of_track.push_back(&threads[{track.pid, track.tid}]);
  const EventColumns& events = trace.events;
  for (uint32_t event = 0; event < events.size(); ++event) {
    const bool is_frame = !semantics.loses() && is_python_frame(trace, event);
    if (!is_frame && !can_have_stack(trace, event)) continue;
    std::vector<OpenFrame>& open = *open_of_track[events.track[event]];
    while (!open.empty() && open.back().end_ns <= events.start_ns[event]) open.pop_back();
    const uint32_t around = open.empty() ? 0 : open.back().stack;
    if (is_frame) {
      if (!is_builtin(trace.name_of(event)))
        open.push_back({trace.end_ns(event), stacks.frame(around, events.name[event])});
      continue;
    }
    const StringId recorded = trace.host[events.detail[event]].call_stack;
    stacks.of_host_row_[events.detail[event]] = recorded != 0 ? stacks.frame(0, recorded) : around;
  }
  return stacks;
}

}  // namespace camshaft::trace
