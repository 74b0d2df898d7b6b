// SPDX-License-Identifier: Apache-2.0
// Random graphs, interpreter against engines (CONTRIBUTING.md, "Random graphs"). Work is done in a
// child process: when one crashes or hangs, its graph is a failure like any other, and the next
// child goes on behind it.
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "fuzz/graphs/differential.h"
#include "fuzz/graphs/minimize.h"
#include "fuzz/graphs/random_case.h"
#include "kernels/kernel.h"
#include "passes/pipeline.h"
#include "tuner/specialize.h"

// What nobody has written reads as NaN. Half of the time went into the memory that is kept back
// after it is freed, 256 MB of it: a megabyte stays in the cache.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:detect_leaks=0:max_malloc_fill_size=1073741824:malloc_fill_byte=255:"
         "malloc_context_size=4:quarantine_size_mb=1:thread_local_quarantine_size_kb=64";
}
extern "C" const char* __ubsan_default_options() {
  return "abort_on_error=1:halt_on_error=1:print_stacktrace=1";
}

namespace {

using namespace camshaft;
using namespace camshaft::fuzz;
using Clock = std::chrono::steady_clock;

// Of processor time, and of waiting: on a busy machine the former takes many times as long.
constexpr unsigned kBusySeconds = 120, kHangSeconds = 1800;

using Variants = std::function<std::vector<Variant>(uint64_t seed)>;

// Seen by parent and child.
struct Shared {
  uint64_t seed;
  size_t variant;
  bool generating;
};
Shared* shared = nullptr;

struct Report {
  uint64_t seed = 0;
  std::string what, text;
};

std::string signal_name(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exit {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return signal == SIGALRM || signal == SIGPROF ? "hang" : fmt::format("crash {}", signal);
}

// Ends the process, by a signal, unless it is called again in time.
void stop_if_it_hangs() {
  alarm(kHangSeconds);
  const itimerval busy = {.it_interval = {}, .it_value = {.tv_sec = kBusySeconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &busy, nullptr);
}

// Runs `work` in a child, which writes to a pipe; gives what it wrote and how it ended.
template <class Work>
std::pair<std::string, int> in_child(const Work& work) {
  int ends[2];
  std::fflush(stdout);
  if (pipe(ends) != 0) std::exit(3);
  const pid_t child = fork();
  if (child < 0) std::exit(3);
  if (child == 0) {
    close(ends[0]);
    work(ends[1]);
    std::fflush(stdout);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {std::move(text), status};
}

void send(int pipe, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(pipe, text.data() + done, text.size() - done);
    if (count <= 0) _exit(4);
    done += static_cast<size_t>(count);
  }
}

// The class of the failure of `test`; empty: none.
std::string failure_of(const Case& test, const std::vector<Variant>& variants, std::string* text) {
  const auto [found, status] = in_child([&](int pipe) {
    if (!text)  // the parent knows already
      if (!freopen("/dev/null", "w", stderr)) _exit(4);
    stop_if_it_hangs();
    if (const auto failure = find_failure(test, variants))
      send(pipe, failure->what + "\n" + to_string(failure->variant) + ": " + failure->text);
  });
  if (status != 0) return signal_name(status);
  const size_t line = found.find('\n');
  if (line == std::string::npos) return "";
  if (text) *text = found.substr(line + 1);
  return found.substr(0, line);
}

std::string quoted(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Graphs [first, last); a line per failure, then what was covered.
void work(uint64_t first, uint64_t last, const Variants& variants_of, int pipe) {
  for (uint64_t seed = first; seed < last; ++seed) {
    shared->seed = seed;
    shared->generating = true;
    stop_if_it_hangs();
    const Case test = random_case(seed);
    shared->generating = false;
    if (const auto failure = find_failure(test, variants_of(seed)))
      send(pipe, fmt::format("fail {} {} | {}: {}\n", seed, failure->what,
                             to_string(failure->variant), quoted(failure->text)));
  }
  const Coverage& c = coverage();
  std::string text;
  for (const auto* map : {&c.tactics, &c.passes, &c.kinds, &maker_counts()}) {
    const char* name = map == &c.tactics  ? "tactic"
                       : map == &c.passes ? "pass"
                       : map == &c.kinds  ? "kind"
                                          : "maker";
    for (const auto& [key, count] : *map) text += fmt::format("{} {} {}\n", name, count, key);
  }
  text += fmt::format("total {} engines\ntotal {} executions\ntotal {} outputs\n", c.engines,
                      c.executions, c.outputs);
  text += fmt::format("total {} outputs within what rounding may do\n", c.loose);
  text += fmt::format("total {} outputs that rounding decides\n", c.unsettled);
  text += fmt::format("total {} graphs refused by the oracle\n", c.refused);
  text += fmt::format("total {} runs of inputs that may contradict each other\n", c.strays_run);
  text += fmt::format("total {} of such that were refused\n", c.strays_refused);
  send(pipe, text);
}

using Counts = std::map<std::string, std::map<std::string, long>>;

void read_lines(const std::string& text, std::vector<Report>& failures, Counts& counts) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "fail") {
      Report report;
      words >> report.seed;
      std::getline(words, report.what, '|');
      std::getline(words, report.text);
      while (!report.what.empty() && report.what.back() == ' ') report.what.pop_back();
      while (!report.what.empty() && report.what.front() == ' ') report.what.erase(0, 1);
      failures.push_back(report);
      std::printf("seed %llu: %s:%s\n", static_cast<unsigned long long>(report.seed),
                  report.what.c_str(), report.text.c_str());
      std::fflush(stdout);
    } else {
      long count = 0;
      std::string key;
      words >> count;
      std::getline(words, key);
      counts[first][key.empty() ? key : key.substr(1)] += count;
    }
  }
}

// Everything, chunk by chunk: what a child that crashes has covered is lost with it.
std::vector<Report> run_all(uint64_t seed, uint64_t count, const Variants& variants_of,
                            uint64_t chunk, size_t most_failures, Counts& counts) {
  std::vector<Report> failures;
  for (uint64_t next = seed; next < seed + count && failures.size() < most_failures;) {
    const uint64_t last = std::min(next + chunk, seed + count);
    const auto [text, status] = in_child([&](int pipe) { work(next, last, variants_of, pipe); });
    read_lines(text, failures, counts);
    if (status == 0) {
      next = last;
      continue;
    }
    Report report{shared->seed, signal_name(status), shared->generating ? "while generating" : ""};
    std::printf("seed %llu: %s %s\n", static_cast<unsigned long long>(report.seed),
                report.what.c_str(), report.text.c_str());
    failures.push_back(report);
    next = shared->seed + 1;
  }
  return failures;
}

void print_counts(const Counts& counts, bool all) {
  const auto section = [&](const char* name) -> const std::map<std::string, long>& {
    static const std::map<std::string, long> none;
    const auto found = counts.find(name);
    return found == counts.end() ? none : found->second;
  };
  for (const auto& [what, count] : section("total")) std::printf("%ld %s\n", count, what.c_str());
  const auto& kinds = section("kind");
  size_t met = 0;
  std::string missing;
  for (int k = 0; k < static_cast<int>(ir::LayerKind::kGeneric); ++k) {
    const std::string name(ir::kind_name(static_cast<ir::LayerKind>(k)));
    kinds.count(name) ? ++met : (missing += " " + name, met);
  }
  std::printf("%zu of %d layer kinds, %zu Generic operators; not met:%s\n", met,
              static_cast<int>(ir::LayerKind::kGeneric), kinds.size() - met,
              missing.empty() ? " none" : missing.c_str());
  size_t known = 0, ran = 0;
  std::string idle;
  for (int k = 0; k < static_cast<int>(ir::LayerKind::kGeneric); ++k)
    for (const kernels::Tactic* tactic : kernels::tactics_for(static_cast<ir::LayerKind>(k))) {
      const std::string name = fmt::format("{} {}", tactic->name, isa_name(tactic->isa));
      ++known;
      section("tactic").count(name) ? ++ran : (idle += "\n  " + name, ran);
    }
  std::printf("%zu of %zu tactics ran, %zu passes applied\n", ran, known, section("pass").size());
  if (!all) return;
  std::printf("tactics that did not:%s\n", idle.c_str());
  for (const char* name : {"kind", "maker", "pass", "tactic"})
    for (const auto& [key, count] : section(name))
      std::printf("%s %s: %ld\n", name, key.c_str(), count);
}

Result<Case> read_case(const std::string& file) {
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream.good() && text.empty())
    return make_error(ErrorCode::kInvalidArgument, "cannot read {}", file);
  return parse_case(text);
}

// The variant that fails, alone; of all ways the one.
std::vector<Variant> failing_variants(const Case& test, const std::vector<Variant>& all,
                                      const std::string& what) {
  constexpr int kMostWays = 200;
  for (Variant variant : all) {
    if (failure_of(test, {variant}, nullptr) != what) continue;
    if (variant.way != kAllWays) return {variant};
    for (variant.way = 0; variant.way < kMostWays; ++variant.way)
      if (failure_of(test, {variant}, nullptr) == what) return {variant};
  }
  return all;
}

void minimize_and_print(Case test, const std::vector<Variant>& all, const std::string& what) {
  const std::vector<Variant> variants = failing_variants(test, all, what);
  const Case small = minimize(std::move(test), [&](const Case& smaller) {
    return failure_of(smaller, variants, nullptr) == what;
  });
  std::string text;
  failure_of(small, variants, &text);
  const std::string plan =
      in_child([&](int pipe) { send(pipe, plan_of(small, variants[0])); }).first;
  std::printf("# %s: %s\n%s%s\n", what.c_str(), text.c_str(), plan.c_str(), to_text(small).c_str());
  std::fflush(stdout);
}

// The graph after the optimizer's passes, for who looks for the pass that is wrong.
void print_optimized(const Case& test) {
  const Case copy = clone(test);
  const std::vector<engine::Profile> profiles = profiles_of(copy);
  tuner::specialize(*copy.graph, profiles);
  passes::PassRecord record;
  const Status status = passes::optimize(*copy.graph, record);
  for (const ir::RewriteRecord& r : record.rewrites)
    if (r.action != ir::Action::kRunning && r.action != ir::Action::kDecline)
      std::printf("# %s: %s\n", r.pass.c_str(), r.text.c_str());
  std::printf("%s%s\n", status.message().c_str(), ir::to_text(*copy.graph, true).c_str());
}

int replay(const std::vector<std::string>& files, const Variants& variants_of, bool minimizes,
           bool prints) {
  int failures = 0;
  for (const std::string& file : files) {
    Result<Case> test = read_case(file);
    if (!test.ok()) {
      std::printf("%s: %s\n", file.c_str(), test.status().message().c_str());
      ++failures;
      continue;
    }
    if (prints) print_optimized(*test);
    std::string text;
    const std::vector<Variant> variants = variants_of(1);
    const std::string what = failure_of(*test, variants, &text);
    if (what.empty()) continue;
    ++failures;
    std::printf("%s: %s: %s\n", file.c_str(), what.c_str(), text.c_str());
    if (minimizes) minimize_and_print(clone(*test), variants, what);
  }
  std::printf("%zu graphs, %d failures\n", files.size(), failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Random graphs through the interpreter and through engines.");
  uint64_t seed = 1, count = 1000, chunk = 1000;
  size_t most_failures = 20;
  int rounds = 1;
  bool minimizes = false, prints = false, shows_all = false, forces = false;
  std::vector<std::string> files;
  app.add_option("--seed", seed, "Number of the first graph");
  app.add_option("--count", count, "How many graphs");
  app.add_option("--rounds", rounds, "Engines of random choices per instruction set and graph");
  app.add_flag("--all-ways", forces,
               "Instead: every way to run every layer in turn, on every instruction set, with one "
               "and two threads");
  app.add_option("--most-failures", most_failures, "Stop after these");
  app.add_flag("--minimize", minimizes, "Make every failing graph smaller and print it");
  app.add_flag("--print", prints,
               "Print the graphs only; with --replay: as the passes leave them, too");
  app.add_flag("--coverage", shows_all, "List every tactic, pass, kind and maker with its count");
  app.add_option("--replay", files, "Graphs in text form to test instead");
  CLI11_PARSE(app, argc, argv);
  const Variants variants_of = [&](uint64_t number) {
    return forces ? all_ways_for(number) : variants_for(number, rounds);
  };
  mallopt(M_PERTURB, 1);  // fresh memory is 0xFE: -1.7e38 as a float
  shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (!files.empty()) {
    std::vector<std::string> all;
    for (const std::string& file : files)
      if (std::filesystem::is_directory(file))
        for (const auto& entry : std::filesystem::directory_iterator(file))
          all.push_back(entry.path());
      else
        all.push_back(file);
    std::sort(all.begin(), all.end());
    return replay(all, variants_of, minimizes, prints);
  }
  if (prints) {
    for (uint64_t k = seed; k < seed + count; ++k)
      std::printf("# seed %llu\n%s\n", static_cast<unsigned long long>(k),
                  to_text(random_case(k)).c_str());
    return 0;
  }
  const Clock::time_point start = Clock::now();
  Counts counts;
  const std::vector<Report> failures =
      run_all(seed, count, variants_of, chunk, most_failures, counts);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  for (const Report& report : failures)
    if (minimizes && report.text != "while generating")
      minimize_and_print(random_case(report.seed), variants_of(report.seed), report.what);
  std::printf("%llu graphs in %.1f s, %zu failures\n", static_cast<unsigned long long>(count),
              seconds.count(), failures.size());
  print_counts(counts, shows_all);
  return failures.empty() ? 0 : 1;
}
