// SPDX-License-Identifier: Apache-2.0
#include "base/topology.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace camshaft {
namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// "0-3,8,10-11" as numbers; what is no such list is empty.
std::vector<int> numbers_of(std::string_view list) {
  std::vector<int> numbers;
  const char *at = list.data(), *end = at + list.size();
  while (at < end) {
    int first = 0, last = 0;
    const auto number = std::from_chars(at, end, first);
    if (number.ec != std::errc() || first < 0) return numbers;
    const char* after = number.ptr;
    last = first;
    if (after < end && *after == '-') {
      const auto range = std::from_chars(after + 1, end, last);
      if (range.ec != std::errc()) return numbers;
      after = range.ptr;
    }
    for (int k = first; k <= last; ++k) numbers.push_back(k);
    at = after < end ? after + 1 : end;
  }
  return numbers;
}

// The first processor of a list names what they share; -1: there is no such file.
int first_of(const fs::path& file) {
  const std::vector<int> numbers = numbers_of(line_of(file));
  return numbers.empty() ? -1 : numbers.front();
}

// Processors that share the L3 cache, by the first of them.
int cache_of(const fs::path& cpu) {
  for (int index = 0; index < 8; ++index) {
    const fs::path folder = cpu / "cache" / fmt::format("index{}", index);
    if (line_of(folder / "level") == "3") return first_of(folder / "shared_cpu_list");
  }
  return -1;
}

std::map<int, int> nodes_of_processors(const fs::path& root) {
  std::map<int, int> nodes;
  for (int node : numbers_of(line_of(root / "node" / "online")))
    for (int id : numbers_of(line_of(root / "node" / fmt::format("node{}", node) / "cpulist")))
      nodes[id] = node;
  return nodes;
}

// Values of a member become 0, 1, 2 … in the order they are met; how many there are.
int number_from_zero(std::vector<Topology::Processor>& processors,
                     int Topology::Processor::*member) {
  std::map<int, int> seen;
  for (Topology::Processor& processor : processors) {
    const int next = static_cast<int>(seen.size());
    processor.*member = seen.emplace(processor.*member, next).first->second;
  }
  return static_cast<int>(seen.size());
}

std::vector<int> allowed_processors() {
  std::vector<int> allowed;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int id = 0; id < CPU_SETSIZE; ++id)
      if (CPU_ISSET(id, &set)) allowed.push_back(id);
#endif
  if (allowed.empty()) allowed.push_back(0);
  return allowed;
}

// An L3 cache's processors: those with the fewest threads first, the first of every core before
// the second of any.
struct Cache {
  struct Seat {
    int threads, rank_in_core, processor;
  };
  std::vector<Seat> seats;
  int cores = 0, busy = 0, taken = 0;

  int free_cores() const { return std::max(0, cores - busy); }
  // How full it is with one thread more.
  double load() const { return (busy + taken + 1.0) / cores; }
};

std::vector<Cache> caches_of(const Topology& topology, std::span<const int> busy) {
  std::vector<Cache> caches(static_cast<size_t>(topology.caches));
  std::map<int, int> next_rank;  // of a core's processors
  for (const Topology::Processor& processor : topology.processors) {
    Cache& cache = caches[static_cast<size_t>(processor.cache)];
    const int threads = static_cast<int>(std::count(busy.begin(), busy.end(), processor.id));
    const int rank = next_rank[processor.core]++;
    cache.seats.push_back({threads, rank, processor.id});
    cache.busy += threads;
    cache.cores += rank == 0;
  }
  for (Cache& cache : caches)
    std::stable_sort(
        cache.seats.begin(), cache.seats.end(), [](const Cache::Seat& a, const Cache::Seat& b) {
          return std::pair(a.threads, a.rank_in_core) < std::pair(b.threads, b.rank_in_core);
        });
  return caches;
}

// The one cache that has free cores for all threads, else the first that have together, else all.
std::vector<Cache*> closest(std::vector<Cache>& caches, int threads) {
  for (Cache& cache : caches)
    if (cache.free_cores() >= threads) return {&cache};
  std::vector<Cache*> chosen;
  int cores = 0;
  for (Cache& cache : caches) {
    if (cache.free_cores() == 0) continue;
    chosen.push_back(&cache);
    cores += cache.free_cores();
    if (cores >= threads) return chosen;
  }
  chosen.clear();
  for (Cache& cache : caches) chosen.push_back(&cache);
  return chosen;
}

std::atomic<Affinity>& affinity_in_force() {
  static std::atomic<Affinity> affinity{[] {
    const char* wanted = std::getenv("CAMSHAFT_AFFINITY");
    if (!wanted) return Affinity::kNone;
    const Result<Affinity> parsed = parse_affinity(wanted);
    if (parsed.ok()) return *parsed;
    log(Severity::kWarning, "CAMSHAFT_AFFINITY={}: {}; threads are not kept anywhere", wanted,
        parsed.status().message());
    return Affinity::kNone;
  }()};
  return affinity;
}

}  // namespace

Topology Topology::read(const fs::path& root, std::span<const int> allowed) {
  Topology topology;
  const std::map<int, int> nodes = nodes_of_processors(root);
  for (int id : allowed) {
    const fs::path cpu = root / "cpu" / fmt::format("cpu{}", id);
    Processor processor{id, first_of(cpu / "topology" / "thread_siblings_list"), cache_of(cpu), 0};
    if (processor.core < 0) processor.core = id;
    if (const auto node = nodes.find(id); node != nodes.end()) processor.node = node->second;
    topology.processors.push_back(processor);
  }
  const auto key = [](const Processor& p) { return std::tuple(p.node, p.cache, p.core, p.id); };
  std::sort(topology.processors.begin(), topology.processors.end(),
            [&](const Processor& a, const Processor& b) { return key(a) < key(b); });
  number_from_zero(topology.processors, &Processor::core);
  topology.caches = number_from_zero(topology.processors, &Processor::cache);
  topology.nodes = number_from_zero(topology.processors, &Processor::node);
  return topology;
}

const Topology& machine_topology() {
  static const Topology topology = Topology::read("/sys/devices/system", allowed_processors());
  return topology;
}

Result<Affinity> parse_affinity(std::string_view word) {
  constexpr std::array<std::string_view, 3> words = {"none", "close", "spread"};
  for (size_t k = 0; k < words.size(); ++k)
    if (word == words[k]) return static_cast<Affinity>(k);
  return make_error(ErrorCode::kInvalidArgument,
                    "unknown affinity \"{}\", expected none, close or spread", word);
}

Affinity default_affinity() {
  return affinity_in_force().load(std::memory_order_relaxed);
}

void force_affinity(Affinity affinity) {
  affinity_in_force() = affinity;
}

PoolLayout make_layout(const Topology& topology, int threads, Affinity affinity,
                       std::span<const int> busy) {
  std::vector<Cache> caches = caches_of(topology, busy);
  const std::vector<Cache*> chosen =
      closest(caches, affinity == Affinity::kSpread ? std::numeric_limits<int>::max() : threads);
  for (int thread = 0; thread < threads && !chosen.empty(); ++thread)
    ++(*std::min_element(chosen.begin(), chosen.end(), [](const Cache* a, const Cache* b) {
        return a->load() < b->load();
      }))->taken;
  PoolLayout layout;
  int number = 0;
  for (const Cache* cache : chosen) {
    for (int k = 0; k < cache->taken; ++k) {
      layout.group.push_back(number);
      const size_t seat = static_cast<size_t>(k) % cache->seats.size();
      if (affinity != Affinity::kNone) layout.processor.push_back(cache->seats[seat].processor);
    }
    number += cache->taken > 0;
  }
  layout.group.resize(static_cast<size_t>(threads), 0);  // a machine without processors
  return layout;
}

#if defined(__linux__)
namespace {

// <linux/mempolicy.h>; libnuma would be a dependency for two calls.
constexpr int kDefaultPolicy = 0, kInterleave = 3;
constexpr int kMaxNodes = 64;

bool set_policy(int policy, uint64_t nodes) {
  return syscall(SYS_set_mempolicy, policy, nodes == 0 ? nullptr : &nodes,
                 nodes == 0 ? 0UL : static_cast<unsigned long>(kMaxNodes) + 1) == 0;
}

// All there are: the numbers of a Topology are not the kernel's.
uint64_t online_nodes() {
  uint64_t nodes = 0;
  for (int node : numbers_of(line_of("/sys/devices/system/node/online")))
    if (node < kMaxNodes) nodes |= uint64_t{1} << node;
  return nodes;
}

}  // namespace

InterleavedMemory::InterleavedMemory(const Topology& topology) {
  if (topology.nodes > 1) active_ = set_policy(kInterleave, online_nodes());
}

InterleavedMemory::~InterleavedMemory() {
  if (active_) set_policy(kDefaultPolicy, 0);
}
#else
InterleavedMemory::InterleavedMemory(const Topology&) {}
InterleavedMemory::~InterleavedMemory() = default;
#endif

}  // namespace camshaft
