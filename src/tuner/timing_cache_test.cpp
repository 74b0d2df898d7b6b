// SPDX-License-Identifier: Apache-2.0
#include "tuner/timing_cache.h"

#include <fstream>
#include <sstream>

#include <unistd.h>

#include "tuner/random_graph.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

struct TemporaryFile {
  std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / fmt::format("timing_{}.cache", getpid());
  TemporaryFile() { std::filesystem::remove(path); }
  ~TemporaryFile() { std::filesystem::remove(path); }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  std::string read() const {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
};

TEST(TimingCache, KeepsTimesPerMachine) {
  const TemporaryFile file;
  TimingCache here("cpu a"), there("cpu b");
  here.insert("tactic/avx2/1\tproblem", 12.3456);
  ASSERT_STATUS_OK(here.save(file.path));
  there.insert("tactic/avx2/1\tproblem", 99);
  ASSERT_STATUS_OK(there.save(file.path));  // merges
  TimingCache again("cpu a");
  ASSERT_STATUS_OK(again.load(file.path));
  EXPECT_EQ(again.size(), 2u);
  EXPECT_EQ(again.find("tactic/avx2/1\tproblem"), 12.346);
  EXPECT_EQ(again.find("tactic/avx2/2\tproblem"), std::nullopt);  // another version of the kernel
}

TEST(TimingCache, DamageIsAMissAndForeignFilesAreLeftAlone) {
  const TemporaryFile file;
  TimingCache cache("cpu");
  cache.insert("key", 1);
  ASSERT_STATUS_OK(cache.save(file.path));
  file.write(file.read() + "half a line\ncpu\tother\tnot a number\ncpu\tthird\t-5\n");
  TimingCache again("cpu");
  ASSERT_STATUS_OK(again.load(file.path));
  EXPECT_EQ(again.size(), 1u);
  file.write("my thesis\n");
  EXPECT_EQ(again.load(file.path).code(), ErrorCode::kCorrupt);
  EXPECT_FALSE(again.save(file.path).ok());
  EXPECT_EQ(file.read(), "my thesis\n");
  EXPECT_TRUE(TimingCache("cpu").load("/nonexistent/file").ok());
}

TEST(TimingCache, FullCacheGivesTheSameBytesWithoutTiming) {
  const TemporaryFile file;
  BuildOptions options;
  options.timing_cache_file = file.path.string();
  options.threads = 1;
  BuildStatistics first, second;
  const auto cold = build(random_graph(11, 12, false), options, &first);
  ASSERT_STATUS_OK(cold.status());
  options.error_on_timing_cache_miss = true;
  const auto warm = build(random_graph(11, 12, false), options, &second);
  ASSERT_STATUS_OK(warm.status());
  EXPECT_EQ(cold.value(), warm.value());
  EXPECT_GT(first.timed_tactics, 0);
  EXPECT_EQ(second.timed_tactics, 0);
  options.threads = 2;  // other problems
  EXPECT_FALSE(build(random_graph(11, 12, false), options).ok());
}

}  // namespace
}  // namespace camshaft::tuner
