// SPDX-License-Identifier: Apache-2.0
// Windows of the timeline at the detail a screen shows. Events lie in lanes without overlaps, so a
// window costs time for its pixels, not for its events.
#pragma once

#include <string>
#include <vector>

#include "trace/trace.h"

namespace camshaft::trace {

struct Lane {
  uint32_t track = 0;
  uint32_t depth = 0;
  std::vector<uint32_t> events;  // in time order, none overlapping the next
};

struct Timeline {
  std::vector<Lane>
      lanes;  // tracks in order of first appearance, each from its outermost lane inwards
  int64_t first_ns = 0, last_ns = 0;
};

Timeline build_timeline(const Trace& trace);

struct TimelineBlock {
  int64_t start_ns = 0, end_ns = 0;
  uint32_t event = 0;  // the longest of those merged
  uint32_t count = 1;  // events in this block
};

struct TimelineWindow {
  struct Row {
    uint32_t lane = 0;
    std::vector<TimelineBlock> blocks;
  };
  std::vector<Row> rows;  // of lanes with anything in the window
  int64_t pixel_ns = 1;   // events closer than this are merged
};

// At most about `most_blocks` blocks: pixels grow until they fit. `first_lane` and `lanes` page
// through the lanes.
TimelineWindow timeline_window(const Trace& trace, const Timeline& timeline, int64_t start_ns,
                               int64_t end_ns, int64_t pixels, size_t first_lane, size_t lanes,
                               size_t most_blocks);

}  // namespace camshaft::trace
