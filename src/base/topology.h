// SPDX-License-Identifier: Apache-2.0
// Which processors share a core, an L3 cache, a node of memory, and where a pool's threads belong.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace camshaft {

// Numbers of cores, caches and nodes count from 0 and mean nothing else: equal ones are the same.
struct Topology {
  struct Processor {
    int id = 0;  // the kernel's
    int core = 0, cache = 0, node = 0;
  };
  std::vector<Processor> processors;  // by node, cache, core, id
  int caches = 0, nodes = 0;

  // From the kernel's files (Documentation/ABI/stable/sysfs-devices-system-cpu) below `root`, of
  // the processors `allowed`. What a file does not tell is shared by all.
  static Topology read(const std::filesystem::path& root, std::span<const int> allowed);
};

// Of the processors this process could use when it was first asked.
const Topology& machine_topology();

// Where threads are kept. kNone: wherever the kernel puts them.
enum class Affinity : uint8_t {
  kNone,
  kClose,   // one a core, on as few L3 caches as have the cores, evenly
  kSpread,  // one a core, over all L3 caches evenly
};
Result<Affinity> parse_affinity(std::string_view word);  // "none", "close", "spread"

// CAMSHAFT_AFFINITY, kNone without it; an unknown word is reported once and ignored.
Affinity default_affinity();
void force_affinity(Affinity affinity);  // what default_affinity() gives from now on

// A pool's workers in groups that share an L3 cache. Groups of unpinned workers are a guess.
struct PoolLayout {
  std::vector<int> group;      // of every worker, ascending from 0
  std::vector<int> processor;  // that a worker stays on; empty: any
};
// A core's second thread is taken only when every chosen cache's cores have one each. `busy`:
// processors that threads of other pools are kept on, as often as they are; they come last.
PoolLayout make_layout(const Topology& topology, int threads, Affinity affinity,
                       std::span<const int> busy = {});

// While it lives, on machines of several nodes, memory this thread touches first lies on all nodes
// in turn: weights, which every thread reads.
class InterleavedMemory {
 public:
  explicit InterleavedMemory(const Topology& topology = machine_topology());
  ~InterleavedMemory();
  InterleavedMemory(const InterleavedMemory&) = delete;
  InterleavedMemory& operator=(const InterleavedMemory&) = delete;
  bool active() const { return active_; }

 private:
  bool active_ = false;
};

}  // namespace camshaft
