// SPDX-License-Identifier: Apache-2.0
// Imports mutations of the given models, or of small ones of its own. A crash, a hang or a huge
// allocation is a bug: on a fatal signal the mutation that was being imported is written to
// fuzz_onnx.crash.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <fstream>

#include <CLI/CLI.hpp>

#include "ir/graph.h"
#include "onnx/importer.h"
#include "onnx/testing_models.h"

namespace {

using namespace camshaft;
using Clock = std::chrono::steady_clock;

std::string read_file(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Totals {
  long accepted = 0, refused = 0, unverified = 0;
  double slowest_ms = 0;
};

const std::string* current = nullptr;

void keep_crash(int signal_number) {
  const int file = open("fuzz_onnx.crash", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const bool kept =
      file >= 0 && current != nullptr && write(file, current->data(), current->size()) >= 0;
  _exit(kept ? 128 + signal_number : 127);
}

void import_one(const std::string& bytes, Totals& totals) {
  current = &bytes;
  const Clock::time_point start = Clock::now();
  const Result<onnx_import::ImportedModel> model =
      onnx_import::import_bytes(onnx_import::testing::as_bytes(bytes));
  const std::chrono::duration<double, std::milli> time = Clock::now() - start;
  totals.slowest_ms = std::max(totals.slowest_ms, time.count());
  ++(model.ok() ? totals.accepted : totals.refused);
  if (!model.ok()) return;
  const Status verified = ir::verify(*model.value().graph);
  if (verified.ok()) return;
  ++totals.unverified;
  std::printf("imported, but does not verify: %s\n", verified.message().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Imports mutations of ONNX models.");
  std::vector<std::string> files;
  long runs = 0;
  double seconds = 0;
  uint32_t seed = 1;
  size_t memory_mib = 4096;
  app.add_option("models", files, "ONNX files to mutate; none: small models that are built in")
      ->check(CLI::ExistingFile);
  app.add_option("--runs", runs, "How many mutations; else 100000, where no --seconds are given");
  app.add_option("--seconds", seconds, "Stop after this long");
  app.add_option("--seed", seed, "Of the random numbers");
  app.add_option("--memory", memory_mib,
                 "MiB of address space; 0: no limit (sanitizers need that)");
  CLI11_PARSE(app, argc, argv);
  if (memory_mib > 0) {
    const rlimit limit{memory_mib << 20, memory_mib << 20};
    setrlimit(RLIMIT_AS, &limit);
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  // On a stack of its own: too deep a recursion must be caught, too.
  static char stack[1 << 16];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  for (int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) {
    struct sigaction action {};
    action.sa_handler = keep_crash;
    action.sa_flags = SA_ONSTACK;
    sigaction(number, &action, nullptr);
  }
  std::vector<std::string> models;
  for (const std::string& file : files) models.push_back(read_file(file));
  if (models.empty()) models = onnx_import::testing::small_models();
  std::vector<onnx_import::testing::Mutator> mutators;
  for (const std::string& model : models) mutators.emplace_back(model, seed++);
  if (runs == 0) runs = seconds > 0 ? LONG_MAX : 100000;
  Totals totals;
  const Clock::time_point start = Clock::now();
  const auto is_over = [&] {
    return seconds > 0 && Clock::now() - start > std::chrono::duration<double>(seconds);
  };
  long run = 0;
  for (; run < runs && !is_over(); ++run) {
    const std::string bytes = mutators[run % mutators.size()].mutate();
    import_one(bytes, totals);
  }
  std::printf(
      "%ld mutations: %ld models, %ld errors, %ld models that do not verify; slowest %.1f ms\n",
      run, totals.accepted, totals.refused, totals.unverified, totals.slowest_ms);
  return totals.unverified == 0 ? 0 : 1;
}
