// SPDX-License-Identifier: Apache-2.0
// When a sparse tactic is picked, by times written into the timing cache.
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "engine/sparsity_outcome.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

constexpr const char* kProduct = R"(
graph "product" {
  input x: float[64, 64]
  constant w: float[64, 48] = random(1)
  y: float[64, 48] = MatrixMultiply "product"(x, w)
  output y
}
)";

class SparsityMargin : public testing::Test {
 protected:
  SparsityMargin() {
    options_.sparsity = Sparsity::kForce;
    options_.threads = 1;
    options_.timing_cache_file = path_.string();
    std::filesystem::remove(path_);
  }
  ~SparsityMargin() override { std::filesystem::remove(path_); }

  // Every dense tactic takes 100 us, every sparse one `sparse_us`.
  void write_times(const std::string& sparse_us) {
    std::stringstream lines, edited;
    lines << std::ifstream(path_).rdbuf();
    for (std::string line; std::getline(lines, line);) {
      const size_t last = line.rfind('\t');
      const bool is_sparse = engine::is_sparse_tactic(line.substr(0, last));
      if (last != std::string::npos)
        line = line.substr(0, last + 1) + (is_sparse ? sparse_us : "100");
      sparse_lines_ += is_sparse;
      edited << line << '\n';
    }
    std::ofstream(path_) << edited.str();
  }

  // Sparse tactics are not in the cache; dense ones take `dense_us`.
  void keep_dense_times(const std::string& dense_us) {
    std::stringstream lines, edited;
    lines << std::ifstream(path_).rdbuf();
    for (std::string line; std::getline(lines, line);) {
      const size_t last = line.rfind('\t');
      if (engine::is_sparse_tactic(line)) continue;
      edited << (last == std::string::npos ? line : line.substr(0, last + 1) + dense_us) << '\n';
    }
    std::ofstream(path_) << edited.str();
  }

  engine::SparsityOutcome built() {
    const auto engine = engine_of(graph_of(kProduct), options_);
    return engine ? engine::sparsity_outcome(engine->plan().steps.at(0))
                  : engine::SparsityOutcome();
  }

  engine::SparsityOutcome built(const std::string& sparse_us) {
    options_.error_on_timing_cache_miss = false;
    built();
    write_times(sparse_us);
    EXPECT_GT(sparse_lines_, 0);
    options_.error_on_timing_cache_miss = true;
    return built();
  }

  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("margin_{}.cache", getpid());
  BuildOptions options_;
  int sparse_lines_ = 0;
};

TEST_F(SparsityMargin, TiesAreDense) {
  const engine::SparsityOutcome outcome = built("100");
  EXPECT_TRUE(outcome.eligible);
  EXPECT_FALSE(outcome.picked);
  EXPECT_EQ(outcome.reason, "the dense tactic is faster");
}

TEST_F(SparsityMargin, LittleFasterIsDense) {
  const engine::SparsityOutcome outcome = built("95");
  EXPECT_FALSE(outcome.picked);
  EXPECT_EQ(outcome.reason, "within the margin: 5.3 % faster, taken from 7 % on");
  EXPECT_EQ(outcome.dense_us, 100);
  EXPECT_EQ(outcome.sparse_us, 95);
}

TEST_F(SparsityMargin, FasterIsSparse) {
  const engine::SparsityOutcome outcome = built("92");
  EXPECT_TRUE(outcome.picked);
  EXPECT_EQ(outcome.reason, "");
}

// What the cache knows is timed beside what is new: a time of a disturbed run goes,
TEST_F(SparsityMargin, KnownTimesAreTakenAgainBesideNewOnes) {
  built();
  keep_dense_times("1000000");
  const engine::SparsityOutcome outcome = built();
  EXPECT_LT(outcome.dense_us, 1e5);
  EXPECT_LT(outcome.sparse_us, 1e5);
}

// one that cannot be reached now stays.
TEST_F(SparsityMargin, KnownTimesStayWhereNowIsSlower) {
  built();
  keep_dense_times("0.001");
  const engine::SparsityOutcome outcome = built();
  EXPECT_FALSE(outcome.picked);
  EXPECT_NEAR(outcome.dense_us, 0.001, 1e-6);
}

}  // namespace
}  // namespace camshaft::tuner
