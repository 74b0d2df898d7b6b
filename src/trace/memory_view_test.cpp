// SPDX-License-Identifier: Apache-2.0
#include "trace/memory_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trace/testing.h"
#include "trace/views.h"

namespace camshaft::trace {
namespace {

std::string range(const char* category, const char* name, int ts, int dur) {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":1,"ts":{},"dur":{}}})",
                     category, name, ts, dur);
}
std::string record(int ts, int address, int bytes) {
  return fmt::format(
      R"({{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":{},"args":{{"Device Type":1,)"
      R"("Device Id":0,"Addr":{},"Bytes":{},"Total Allocated":4096,"Total Reserved":8192}}}})",
      ts, address, bytes);
}

// A step with a tensor made in it, in its loader and in an operator; the operator's is freed.
std::string allocations() {
  return "[" + range("user_annotation", "ProfilerStep#6", 0, 1000) + "," +
         range("cpu_op", "aten::empty", 10, 5) + "," + record(12, 1, 512) + "," +
         range("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 100) +
         "," + range("cpu_op", "aten::empty", 110, 5) + "," + record(112, 2, 1024) + "," +
         range("cpu_op", "aten::add", 300, 100) + "," + range("cpu_op", "aten::empty", 310, 5) +
         "," + record(312, 3, 2048) + "," + record(350, 3, -2048) + "]";
}

std::vector<std::string> names(bool original) {
  Semantics semantics;
  semantics.original = original;
  const auto profile = testing::profile_of(allocations(), semantics);
  std::vector<std::string> list;
  const auto lists = memory_events(profile->trace, profile->clock, semantics, profile->forest,
                                   profile->memory, moved_away(*profile), {});
  for (const Allocation& entry : lists.at(0)) list.push_back(entry.op);
  return list;
}

// To the plugin, steps and loaders are operators that "aten::empty" is named after.
TEST(MemoryView, EmptyIsNamedAfterWhatIsAboveIt) {
  EXPECT_EQ(names(true),
            (std::vector<std::string>{
                "aten::add (aten::empty)", "ProfilerStep#6 (aten::empty)",
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ (aten::empty)"}));
  EXPECT_EQ(names(false),
            (std::vector<std::string>{"aten::add (aten::empty)", "aten::empty", "aten::empty"}));
}

TEST(MemoryView, KeptIsWhatIsNotFreed) {
  const auto profile = testing::profile_of(allocations());
  const auto tables = memory_stats(profile->trace, profile->clock, profile->semantics,
                                   profile->forest, profile->memory, {}, {});
  for (const MemoryStat& stat : tables.at(0)) {
    const bool is_empty = profile->trace.strings[stat.name] == "aten::empty";
    EXPECT_EQ(stat.self_kept, is_empty ? 512 + 1024 : 0) << profile->trace.strings[stat.name];
    EXPECT_EQ(stat.self_allocated, is_empty ? 512 + 1024 + 2048 : 0);
  }
}

}  // namespace
}  // namespace camshaft::trace
