// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline.h"

#include <algorithm>

namespace camshaft::trace {
namespace {

// Python itself stops at 1000 frames. What lies deeper shares the last lane.
constexpr size_t kMostLanes = 1024;

}  // namespace

Timeline build_timeline(const Trace& trace) {
  Timeline timeline;
  const size_t count = trace.events.size();
  if (count == 0) return timeline;
  timeline.first_ns = trace.events.start_ns.front();
  timeline.last_ns = timeline.first_ns;
  struct Open {
    std::vector<int64_t> ends;      // of the event at each depth
    std::vector<uint32_t> lane_of;  // index of the lane at each depth
  };
  std::vector<Open> tracks(trace.tracks.size());
  std::vector<Lane> lanes;
  for (uint32_t event = 0; event < count; ++event) {
    Open& open = tracks[trace.events.track[event]];
    const int64_t start = trace.events.start_ns[event], end = trace.end_ns(event);
    timeline.last_ns = std::max(timeline.last_ns, end);
    size_t depth = open.ends.size();
    while (depth > 0 && open.ends[depth - 1] <= start)
      --depth;  // the first lane whose last event is over
    depth = std::min(depth, kMostLanes - 1);
    open.ends.resize(depth + 1);
    open.ends[depth] = end;
    if (open.lane_of.size() <= depth) {
      open.lane_of.push_back(static_cast<uint32_t>(lanes.size()));
      lanes.push_back({trace.events.track[event], static_cast<uint32_t>(depth), {}});
    }
    lanes[open.lane_of[depth]].events.push_back(event);
  }
  for (const Open& open : tracks)
    for (const uint32_t lane : open.lane_of) {
      lanes[lane].events.shrink_to_fit();
      timeline.lanes.push_back(std::move(lanes[lane]));
    }
  return timeline;
}

namespace {

void fill_row(const Trace& trace, const Lane& lane, int64_t start_ns, int64_t end_ns,
              int64_t pixel_ns, std::vector<TimelineBlock>& blocks) {
  const auto starts_before = [&](int64_t time) {
    return std::partition_point(lane.events.begin(), lane.events.end(), [&](uint32_t event) {
      return trace.events.start_ns[event] < time;
    });
  };
  auto at = starts_before(start_ns);
  if (at != lane.events.begin() && trace.end_ns(*(at - 1)) > start_ns) --at;
  while (at != lane.events.end() && trace.events.start_ns[*at] < end_ns) {
    const int64_t start = trace.events.start_ns[*at], end = trace.end_ns(*at);
    TimelineBlock block{start, end, *at, 1};
    if (end - start >= pixel_ns) {
      ++at;
    } else {  // everything that begins inside this pixel becomes one block
      auto next = std::partition_point(at, lane.events.end(), [&](uint32_t event) {
        return trace.events.start_ns[event] < start + pixel_ns;
      });
      // The last of them may be a long one: it stands for itself.
      if (next - at > 1 &&
          trace.end_ns(*(next - 1)) - trace.events.start_ns[*(next - 1)] >= pixel_ns)
        --next;
      if (next == at) ++next;
      block.count = static_cast<uint32_t>(next - at);
      block.end_ns = trace.end_ns(*(next - 1));
      at = next;
    }
    blocks.push_back(block);
  }
}

}  // namespace

TimelineWindow timeline_window(const Trace& trace, const Timeline& timeline, int64_t start_ns,
                               int64_t end_ns, int64_t pixels, size_t first_lane, size_t lanes,
                               size_t most_blocks) {
  TimelineWindow window;
  window.pixel_ns = std::max<int64_t>(1, (end_ns - start_ns) / std::max<int64_t>(1, pixels));
  for (;; window.pixel_ns *= 2) {
    size_t blocks = 0;
    window.rows.clear();
    for (size_t lane = first_lane; lane < std::min(timeline.lanes.size(), first_lane + lanes);
         ++lane) {
      TimelineWindow::Row row{static_cast<uint32_t>(lane), {}};
      fill_row(trace, timeline.lanes[lane], start_ns, end_ns, window.pixel_ns, row.blocks);
      blocks += row.blocks.size();
      if (!row.blocks.empty()) window.rows.push_back(std::move(row));
      if (blocks > most_blocks) break;
    }
    if (blocks <= most_blocks || window.pixel_ns > end_ns - start_ns) return window;
  }
}

}  // namespace camshaft::trace
