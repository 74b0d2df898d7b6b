// SPDX-License-Identifier: Apache-2.0
// Keys and values in one buffer: the same bits as in two, and only the new rows are written.
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

// Two heads of keys for four of queries; keys come in as products leave them.
constexpr const char* kDecoder = R"(graph "g" {
    symbols batch, past, fresh
    input past_k: float[batch, 2, past, 8]
    input past_v: float[batch, 2, past, 8]
    input q: float[batch, 4, fresh, 8]
    input k: float[batch, fresh, 2, 8]
    input v: float[batch, 2, fresh, 8]
    kt: float[batch, 2, fresh, 8] = Shuffle(k) {first_transpose=[0, 2, 1, 3]}
    present_k: float[batch, 2, (past + fresh), 8] = Concatenation(past_k, kt) {axis=2}
    present_v: float[batch, 2, (past + fresh), 8] = Concatenation(past_v, v) {axis=2}
    y: float[batch, 4, fresh, 8] = Attention(q, present_k, present_v) {right_window=0, first_query=[past]}
    output y
    output present_k
    output present_v
  })";

engine::Profile profile(int64_t batch) {
  const auto range = [&](const char* name, ir::Extents extents, size_t past, size_t fresh) {
    engine::ShapeRange r{name, extents, extents, extents};
    if (past) r.min[past] = 0, r.opt[past] = 20, r.max[past] = 700;
    if (fresh) r.min[fresh] = 1, r.opt[fresh] = 1, r.max[fresh] = 700;
    return r;
  };
  return {range("past_k", {batch, 2, 1, 8}, 2, 0), range("past_v", {batch, 2, 1, 8}, 2, 0),
          range("q", {batch, 4, 1, 8}, 0, 2), range("k", {batch, 1, 2, 8}, 0, 1),
          range("v", {batch, 2, 1, 8}, 0, 2)};
}

// One sequence through an engine: `fresh` rows a step.
class Sequence {
 public:
  Sequence(const std::shared_ptr<const engine::Engine>& engine, int64_t batch, int64_t capacity,
           int threads)
      : batch_(batch), capacity_(capacity) {
    runtime::ContextOptions options;
    options.threads = threads;
    auto context = runtime::Context::create(engine, options);
    EXPECT_TRUE(context.ok()) << context.status().message();
    context_ = std::move(*context);
    for (auto& rows : shared_) rows.assign(batch * 2 * capacity * 8, kUntouched);
    for (auto& rows : apart_) rows.clear();
  }

  static constexpr float kUntouched = -77;

  runtime::Context& context() { return *context_; }
  std::vector<float>& buffer(int k) { return shared_[k]; }

  Status share() {
    for (int k = 0; k < 2; ++k)
      CAMSHAFT_TRY(context_->set_cache(k, shared_[k].data(), shared_[k].size() * sizeof(float)));
    return ok_status();
  }

  Status step(int64_t fresh, uint32_t seed, bool shared, std::vector<float>& y) {
    const ir::Extents extents[] = {{batch_, 2, past_, 8},
                                   {batch_, 2, past_, 8},
                                   {batch_, 4, fresh, 8},
                                   {batch_, fresh, 2, 8},
                                   {batch_, 2, fresh, 8}};
    std::vector<TestTensor> inputs;
    for (int k = 0; k < 5; ++k) {
      CAMSHAFT_TRY(context_->set_input_extents(k, extents[k]));
      inputs.push_back(random_tensor(extents[k], seed + static_cast<uint32_t>(k)));
      if (k < 2 && !shared)
        CAMSHAFT_TRY(context_->set_input(k, apart_[k].data(), apart_[k].size() * sizeof(float)));
      if (k >= 2)
        CAMSHAFT_TRY(context_->set_input(k, inputs[k].bytes.data(), inputs[k].bytes.size()));
    }
    CAMSHAFT_TRY(context_->execute());
    const auto* values = static_cast<const float*>(context_->output_data(0));
    y.assign(values, values + batch_ * 4 * fresh * 8);
    past_ += fresh;
    for (int k = 0; k < 2 && !shared; ++k) {
      const auto* present = static_cast<const float*>(context_->output_data(1 + k));
      apart_[k].assign(present, present + batch_ * 2 * past_ * 8);
    }
    return ok_status();
  }

  // The buffer holds what the outputs that lie apart hold, and nothing else was touched.
  void expect_same_rows(const Sequence& other) const {
    for (int k = 0; k < 2; ++k)
      for (int64_t head = 0; head < batch_ * 2; ++head)
        for (int64_t at = 0; at < capacity_ * 8; ++at) {
          const float expected =
              at < past_ * 8 ? other.apart_[k][head * past_ * 8 + at] : kUntouched;
          ASSERT_EQ(shared_[k][head * capacity_ * 8 + at], expected)
              << k << ' ' << head << ' ' << at;
        }
  }

 private:
  int64_t batch_, capacity_, past_ = 0;
  std::unique_ptr<runtime::Context> context_;
  std::vector<float> shared_[2], apart_[2];
};

TEST(Caches, OneBufferGivesTheSameBits) {
  for (const int64_t batch : {1, 3}) {
    BuildOptions options;
    options.optimization_level = 0;
    options.profiles = {profile(batch)};
    const auto engine = engine_of(graph_of(kDecoder), options);
    ASSERT_TRUE(engine);
    for (const int threads : {1, 2}) {
      Sequence apart(engine, batch, 0, 1), shared(engine, batch, 640, threads);
      ASSERT_EQ(shared.context().caches().size(), 2U);
      ASSERT_STATUS_OK(shared.share());
      uint32_t seed = 1;
      for (const int64_t fresh : {9, 1, 1, 600, 1, 5, 1}) {
        std::vector<float> expected, found;
        ASSERT_STATUS_OK(apart.step(fresh, seed, false, expected));
        ASSERT_STATUS_OK(shared.step(fresh, seed, true, found));
        ASSERT_EQ(found, expected) << fresh;
        seed += 10;
      }
      shared.expect_same_rows(apart);
    }
  }
}

TEST(Caches, RowsBeyondTheBufferAreRefused) {
  BuildOptions options;
  options.optimization_level = 0;
  options.profiles = {profile(1)};
  const auto engine = engine_of(graph_of(kDecoder), options);
  ASSERT_TRUE(engine);
  Sequence sequence(engine, 1, 10, 1);
  ASSERT_STATUS_OK(sequence.share());
  std::vector<float> y;
  ASSERT_STATUS_OK(sequence.step(9, 1, true, y));
  ASSERT_STATUS_OK(sequence.step(1, 2, true, y));
  const Status status = sequence.step(1, 3, true, y);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("11 rows in a buffer for 10"), std::string::npos)
      << status.message();
  EXPECT_FALSE(sequence.context().set_cache(2, y.data(), 4).ok());
  EXPECT_FALSE(sequence.context().set_cache(0, nullptr, 0).ok());
  auto* odd = reinterpret_cast<std::byte*>(sequence.buffer(0).data()) + 1;
  EXPECT_FALSE(sequence.context().set_cache(0, odd, 64).ok());
}

// Input and output given apart again: the buffer is no longer used.
TEST(Caches, BindingsOfTheirOwnEndIt) {
  BuildOptions options;
  options.optimization_level = 0;
  options.profiles = {profile(1)};
  const auto engine = engine_of(graph_of(kDecoder), options);
  ASSERT_TRUE(engine);
  Sequence apart(engine, 1, 10, 1), both(engine, 1, 10, 1);
  ASSERT_STATUS_OK(both.share());
  std::vector<float> expected, found;
  ASSERT_STATUS_OK(apart.step(3, 1, false, expected));
  ASSERT_STATUS_OK(both.step(3, 1, false, found));
  EXPECT_EQ(found, expected);
  for (const float value : both.buffer(0)) ASSERT_EQ(value, Sequence::kUntouched);
}

// Who else reads keys would meet the gaps between heads.
TEST(Caches, OtherReadersForbidOneBuffer) {
  BuildOptions options;
  options.optimization_level = 0;
  const auto engine = engine_of(graph_of(R"(graph "g" {
    input past: float[1, 2, 6, 8]
    input k: float[1, 2, 1, 8]
    input q: float[1, 2, 1, 8]
    present: float[1, 2, 7, 8] = Concatenation(past, k) {axis=2}
    s: float[1, 2, 7, 8] = SoftMax(present) {axis=3, last_axis=3}
    y: float[1, 2, 1, 8] = Attention(q, present, s)
    output y
    output present
  })"),
                                options);
  ASSERT_TRUE(engine);
  auto context = runtime::Context::create(engine);
  ASSERT_STATUS_OK(context.status());
  EXPECT_TRUE((*context)->caches().empty());
}

}  // namespace
}  // namespace camshaft::tuner
