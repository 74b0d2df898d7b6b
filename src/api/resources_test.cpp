// SPDX-License-Identifier: Apache-2.0
// Memory and threads that the system does not give are errors, wherever it stops giving: the
// allocations of the calling thread, and new threads, fail on demand here.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <new>

#include <gtest/gtest.h>

#include "api/impl.h"
#include "camshaft/builder.h"
#include "camshaft/c_api.h"
#include "tuner/builder.h"

namespace {

thread_local int64_t allocations_left = -1;  // negative: any number
std::atomic<bool> threads_fail{false};

void* allocate(size_t bytes) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(bytes);
}

}  // namespace

// Not inlined: the compiler would see new meet free().
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* const memory = allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return threads_fail ? EAGAIN : create(thread, attributes, start, argument);
}

namespace camshaft {
namespace {

constexpr const char* kGraph = R"(graph "small" {
  symbols batch
  input x: float[batch, 4]
  constant two: float[1] = fill(2)
  a: float[batch, 4] = ElementWise "scale"(x, two) {op=mul} from "Mul_0"
  y: float[batch, 4] = Activation "relu"(a) {op=relu} from "Relu_1"
  output y
})";

Engine small_engine() {
  tuner::BuildOptions options;
  options.threads = 1;
  options.optimization_level = 0;
  options.profiles = {{{"x", {1, 4}, {2, 4}, {8, 4}}}};
  return Engine::from_memory(tuner::build(ir::parse_graph(kGraph).value(), options).value())
      .value();
}

// Runs `action` with 0, 1, 2, 3, 4, 6, 9 … allocations until it succeeds; returns how often it
// failed. What it returns must be an error then.
template <class Action>
int failures_of(const Action& action) {
  for (int64_t allowed = 0, failures = 0;; allowed += 1 + allowed / 2, ++failures) {
    allocations_left = allowed;
    const Status status = action();
    allocations_left = -1;
    if (status.ok()) return static_cast<int>(failures);
    EXPECT_EQ(status.code(), ErrorCode::kResources);
    EXPECT_EQ(status.message(), "out of memory");
  }
}

TEST(Resources, MemoryThatIsNotThereIsAnError) {
  const Engine engine = small_engine();
  const std::vector<std::byte> bytes(engine.serialize().begin(), engine.serialize().end());
  EXPECT_GT(failures_of([&] { return Engine::from_memory(bytes).status(); }), 5);
  EXPECT_GT(failures_of([&] { return Context::create(engine, {.threads = 1}).status(); }), 5);
  auto context = Context::create(engine, {.threads = 1});
  ASSERT_TRUE(context.ok());
  const std::vector<float> x(4, 1);
  ASSERT_TRUE(context->set_input("x", x).ok());
  const Dims dims = {1, 4};
  failures_of([&]() -> Status {
    const Status set = context->set_shape("x", dims);
    return set.ok() ? context->run() : set;
  });
  EXPECT_EQ(context->output("y").value().as<float>()[0], 2);
}

TEST(Resources, BuildingSurvivesToo) {
  std::ifstream in("examples/models/yolox_nano/model.onnx", std::ios::binary);
  const std::string model(std::istreambuf_iterator<char>(in), {});
  const auto bytes = std::as_bytes(std::span(model));
  EXPECT_GT(failures_of([&] { return Model::from_memory(bytes).status(); }), 10);
  BuildOptions options;
  options.threads = 1;
  options.optimization_level = 0;
  EXPECT_GT(failures_of([&]() -> Status {
              const int64_t left = allocations_left;
              allocations_left = -1;  // the model itself is not what this is about
              auto imported = Model::from_memory(bytes);
              allocations_left = left;
              return build(std::move(imported).value(), options).status();
            }),
            10);
}

TEST(Resources, ThreadsThatAreNotThereAreAnError) {
  const Engine engine = small_engine();
  threads_fail = true;
  const Status status = Context::create(engine, {.threads = 4}).status();
  threads_fail = false;
  EXPECT_EQ(status.code(), ErrorCode::kResources);
  EXPECT_NE(status.message().find("the system refused"), std::string::npos) << status.message();
  EXPECT_TRUE(Context::create(engine, {.threads = 4}).ok());
}

TEST(Resources, TheCApiGivesCodes) {
  const Engine engine = small_engine();
  const auto bytes = engine.serialize();
  camshaft_engine* loaded = nullptr;
  allocations_left = 3;
  const camshaft_status status = camshaft_engine_from_memory(bytes.data(), bytes.size(), &loaded);
  allocations_left = -1;
  EXPECT_EQ(status, CAMSHAFT_RESOURCES);
  EXPECT_EQ(loaded, nullptr);
}

}  // namespace
}  // namespace camshaft
