// SPDX-License-Identifier: Apache-2.0
#include "base/topology.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/thread_pool.h"

namespace camshaft {
namespace {

namespace fs = std::filesystem;

// The kernel's files of a machine: processors 0 … cores-1 are the cores, the second threads of all
// cores follow, as on most servers.
class FakeMachine {
 public:
  FakeMachine(int sockets, int caches_per_socket, int cores_per_cache, int threads_per_core)
      : cores_(sockets * caches_per_socket * cores_per_cache), threads_(threads_per_core) {
    root_ = fs::path(testing::TempDir()) / fmt::format("camshaft_topology_{}_{}_{}_{}", sockets,
                                                       caches_per_socket, cores_per_cache,
                                                       threads_per_core);
    fs::remove_all(root_);
    write("node/online", fmt::format("0-{}", sockets - 1));
    for (int socket = 0; socket < sockets; ++socket)
      write(fmt::format("node/node{}/cpulist", socket),
            list(socket * cores_ / sockets, cores_ / sockets));
    for (int core = 0; core < cores_; ++core)
      for (int thread = 0; thread < threads_; ++thread) {
        const std::string cpu = fmt::format("cpu/cpu{}/", core + thread * cores_);
        write(cpu + "topology/thread_siblings_list", list(core, 1));
        write(cpu + "cache/index0/level", "1");
        write(cpu + "cache/index3/level", "3");
        write(cpu + "cache/index3/shared_cpu_list",
              list(core / cores_per_cache * cores_per_cache, cores_per_cache));
      }
  }
  ~FakeMachine() { fs::remove_all(root_); }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;

  Topology read(const std::vector<int>& allowed) const { return Topology::read(root_, allowed); }
  Topology read() const {
    std::vector<int> all(static_cast<size_t>(cores_ * threads_));
    std::iota(all.begin(), all.end(), 0);
    return read(all);
  }

 private:
  std::string list(int first, int count) const {
    std::string text;
    for (int thread = 0; thread < threads_; ++thread)
      text += fmt::format("{}{}-{}", thread == 0 ? "" : ",", first + thread * cores_,
                          first + count - 1 + thread * cores_);
    return text;
  }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  fs::path root_;
  int cores_, threads_;
};

std::vector<int> group_sizes(const PoolLayout& layout) {
  std::vector<int> sizes;
  for (int group : layout.group) {
    if (static_cast<size_t>(group) == sizes.size()) sizes.push_back(0);
    ++sizes.back();
  }
  return sizes;
}

using Sizes = std::vector<int>;

TEST(Topology, ReadsTheKernelsFiles) {
  const FakeMachine machine(2, 4, 8, 2);
  const Topology topology = machine.read();
  ASSERT_EQ(topology.processors.size(), 128U);
  EXPECT_EQ(topology.caches, 8);
  EXPECT_EQ(topology.nodes, 2);
  for (const Topology::Processor& processor : topology.processors) {
    const int core = processor.id % 64;
    EXPECT_EQ(processor.core, core);
    EXPECT_EQ(processor.cache, core / 8);
    EXPECT_EQ(processor.node, core / 32);
  }
}

TEST(Topology, OnlyOfAllowedProcessors) {
  const FakeMachine machine(2, 4, 8, 2);
  const Topology topology = machine.read({9, 10, 40, 73});
  ASSERT_EQ(topology.processors.size(), 4U);
  EXPECT_EQ(topology.caches, 2);
  EXPECT_EQ(topology.nodes, 2);
  EXPECT_EQ(topology.processors[0].core, topology.processors[1].core);  // 9 and 73
}

// Containers show little of it: everything is one group then.
TEST(Topology, WithoutFilesAllIsShared) {
  const std::vector<int> allowed = {0, 1, 5};
  const Topology topology = Topology::read("/nonexistent", allowed);
  EXPECT_EQ(topology.processors.size(), 3U);
  EXPECT_EQ(topology.caches, 1);
  EXPECT_EQ(topology.nodes, 1);
  EXPECT_EQ(group_sizes(make_layout(topology, 7, Affinity::kNone)), Sizes{7});
}

TEST(PoolLayout, CloseTakesAsFewCachesAsHaveTheCoresEvenly) {
  const FakeMachine machine(2, 4, 8, 2);
  const Topology topology = machine.read();
  const auto close = [&](int threads) {
    return group_sizes(make_layout(topology, threads, Affinity::kClose));
  };
  EXPECT_EQ(close(5), Sizes{5});
  EXPECT_EQ(close(8), Sizes{8});
  EXPECT_EQ(close(9), (Sizes{5, 4}));
  EXPECT_EQ(close(20), (Sizes{7, 7, 6}));
  EXPECT_EQ(close(64), Sizes(8, 8));
  EXPECT_EQ(close(128), Sizes(8, 16));
}

TEST(PoolLayout, SpreadTakesAllEvenly) {
  const FakeMachine machine(2, 4, 8, 2);
  const Topology topology = machine.read();
  EXPECT_EQ(group_sizes(make_layout(topology, 16, Affinity::kSpread)), Sizes(8, 2));
  EXPECT_EQ(group_sizes(make_layout(topology, 3, Affinity::kSpread)), Sizes(3, 1));
}

TEST(PoolLayout, EveryCoreBeforeASecondThread) {
  const FakeMachine machine(2, 4, 8, 2);
  const Topology topology = machine.read();
  for (Affinity affinity : {Affinity::kClose, Affinity::kSpread})
    for (int threads : {1, 8, 33, 64}) {
      const PoolLayout layout = make_layout(topology, threads, affinity);
      std::set<int> cores;
      for (int processor : layout.processor) cores.insert(processor % 64);
      EXPECT_EQ(cores.size(), static_cast<size_t>(threads));
    }
  const PoolLayout all = make_layout(topology, 128, Affinity::kClose);
  EXPECT_EQ(std::set<int>(all.processor.begin(), all.processor.end()).size(), 128U);
}

TEST(PoolLayout, OtherPoolsAreNotMet) {
  const FakeMachine machine(1, 2, 4, 1);
  const Topology topology = machine.read();
  std::vector<int> busy;
  for (int pool = 0; pool < 4; ++pool) {
    const PoolLayout layout = make_layout(topology, 2, Affinity::kClose, busy);
    EXPECT_EQ(group_sizes(layout), Sizes{2});
    busy.insert(busy.end(), layout.processor.begin(), layout.processor.end());
  }
  EXPECT_EQ(std::set<int>(busy.begin(), busy.end()).size(), 8U);
  // Nothing is free any more: evenly over all.
  EXPECT_EQ(group_sizes(make_layout(topology, 2, Affinity::kClose, busy)), (Sizes{1, 1}));
}

TEST(PoolLayout, UnpinnedWorkersStayNowhere) {
  const FakeMachine machine(1, 2, 4, 1);
  const PoolLayout layout = make_layout(machine.read(), 8, Affinity::kNone);
  EXPECT_TRUE(layout.processor.empty());
  EXPECT_EQ(group_sizes(layout), (Sizes{4, 4}));
}

TEST(Affinity, Words) {
  EXPECT_EQ(parse_affinity("none").value(), Affinity::kNone);
  EXPECT_EQ(parse_affinity("close").value(), Affinity::kClose);
  EXPECT_EQ(parse_affinity("spread").value(), Affinity::kSpread);
  EXPECT_FALSE(parse_affinity("compact").ok());
}

// This machine's processors, whichever they are: threads that are kept there run.
TEST(Affinity, KeptPoolsRun) {
  const Affinity before = default_affinity();
  force_affinity(Affinity::kClose);
  {
    ThreadPool first(3), second(2);
    std::vector<std::atomic<int>> hits(500);
    for (ThreadPool* pool : {&first, &second})
      pool->parallel_ranges(500, [&](int, int64_t from, int64_t to) {
        for (int64_t k = from; k < to; ++k) hits[static_cast<size_t>(k)]++;
      });
    for (const auto& hit : hits) EXPECT_EQ(hit.load(), 2);
  }
  force_affinity(before);
}

TEST(InterleavedMemory, OnlyWhereThereAreNodes) {
  Topology one;
  one.nodes = 1;
  EXPECT_FALSE(InterleavedMemory(one).active());
  // Allowed or not (containers may forbid the call), memory is there.
  Topology two;
  two.nodes = 2;
  const InterleavedMemory interleaved(two);
  const std::vector<int> touched(1 << 20, 1);
  EXPECT_EQ(std::accumulate(touched.begin(), touched.end(), 0), 1 << 20);
}

}  // namespace
}  // namespace camshaft
