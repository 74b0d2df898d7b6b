// SPDX-License-Identifier: Apache-2.0
// Fuzzing of the profiler: `reader` reads mutations of traces (plain and packed) and works out all
// there is of some of them, `routes` asks made-up requests of a store, `http` sends made-up bytes
// to a running server. A crash, a hang, a huge allocation or JSON that does not parse is a bug; on
// a fatal signal the input is left in fuzz_trace.crash.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "server/api.h"
#include "server/http_server.h"
#include "server/page_api.h"
#include "trace/byte_source.h"
#include "trace/gzip.h"
#include "trace/reader.h"
#include "trace/testing.h"

namespace {

using namespace camshaft;
using Clock = std::chrono::steady_clock;

const std::string* current = nullptr;
constexpr unsigned kHangSeconds = 20;

void keep_crash(int signal_number) {
  const int file = open("fuzz_trace.crash", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const bool kept =
      file >= 0 && current != nullptr && write(file, current->data(), current->size()) >= 0;
  _exit(kept ? 128 + signal_number : 127);
}

void catch_crashes() {
  static char stack[1 << 16];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGALRM}) {
    struct sigaction action {};
    action.sa_handler = keep_crash;
    action.sa_flags = SA_ONSTACK;
    sigaction(number, &action, nullptr);
  }
  signal(SIGPIPE, SIG_IGN);
}

std::string read_file(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Totals {
  long good = 0, refused = 0, bad = 0;
  double slowest_ms = 0;

  void time(Clock::time_point start) {
    const std::chrono::duration<double, std::milli> took = Clock::now() - start;
    slowest_ms = std::max(slowest_ms, took.count());
  }
};

void fuzz_reader(const std::vector<std::string>& seeds, long runs, uint32_t seed, long every,
                 Totals& totals) {
  trace::testing::Mutator mutator(seeds, seed);
  std::vector<std::string> packed;
  for (const std::string& text : seeds) packed.push_back(trace::gzip(text, 6));
  trace::testing::Mutator packed_mutator(packed, seed + 1);
  for (long run = 0; run < runs; ++run) {
    std::string text = run % 8 == 7 ? packed_mutator.next() : mutator.next();
    current = &text;
    alarm(kHangSeconds);
    const Clock::time_point start = Clock::now();
    auto read = trace::read_trace(*trace::memory_byte_source(text.data(), text.size()));
    ++(read.ok() ? totals.good : totals.refused);
    if (read.ok() && run % every == 0)
      trace::testing::exercise(std::make_shared<const trace::Trace>(std::move(read).value()));
    totals.time(start);
  }
}

class Requests {
 public:
  explicit Requests(uint32_t seed) : random_(seed) {}

  std::string word() {
    constexpr const char* kWords[] = {"run",
                                      "worker",
                                      "span",
                                      "exp_run",
                                      "exp_worker",
                                      "exp_span",
                                      "group_by",
                                      "op_name",
                                      "view",
                                      "path",
                                      "limit",
                                      "node",
                                      "start_ts",
                                      "end_ts",
                                      "sort",
                                      "order",
                                      "a",
                                      "worker0",
                                      "default",
                                      "b",
                                      "All",
                                      "Kernel",
                                      "Operation",
                                      "OperationAndInputShape",
                                      "aten::linear",
                                      "[]",
                                      "0",
                                      "-1",
                                      "0-1-0",
                                      "99999999999999999999",
                                      "9223372036854775807",
                                      "1e9",
                                      "MB",
                                      "KB",
                                      "ms",
                                      "GPU0",
                                      "CPU",
                                      "gpu",
                                      "mlu",
                                      "mlu-late",
                                      "dialect",
                                      "compat",
                                      "device",
                                      "search",
                                      "offset",
                                      "lane",
                                      "lanes",
                                      "pixels",
                                      "start",
                                      "end",
                                      "time_metric",
                                      "memory_metric",
                                      "input_shape",
                                      "",
                                      "host_total",
                                      "asc",
                                      "launch",
                                      "shape",
                                      "\xff\xfe",
                                      "..",
                                      "/etc/passwd",
                                      "%00",
                                      "Distributed",
                                      "Overview",
                                      "5000",
                                      "1"};
    return kWords[random_() % std::size(kWords)];
  }
  std::string path() {
    constexpr const char* kPaths[] = {"/runs",
                                      "/views",
                                      "/workers",
                                      "/spans",
                                      "/overview",
                                      "/operation",
                                      "/operation/table",
                                      "/operation/stack",
                                      "/kernel",
                                      "/kernel/table",
                                      "/kernel/tc_pie",
                                      "/trace",
                                      "/memory",
                                      "/memory_curve",
                                      "/memory_events",
                                      "/module",
                                      "/tree",
                                      "/distributed/gpuinfo",
                                      "/distributed/overlap",
                                      "/distributed/waittime",
                                      "/distributed/commops",
                                      "/diff",
                                      "/diffnode",
                                      "/operators",
                                      "/kernels",
                                      "/insights",
                                      "/timeline",
                                      "/ranks",
                                      "/state",
                                      "/critical_path",
                                      "/",
                                      "/x"};
    return kPaths[random_() % std::size(kPaths)];
  }
  server::Parameters parameters() {
    server::Parameters found;
    if (random_() % 8 != 0)
      for (const char* prefix : {"", "exp_"})
        found.insert({{std::string(prefix) + "run", random_() % 4 == 0 ? "b" : "a"},
                      {std::string(prefix) + "worker", random_() % 8 == 0 ? "worker1" : "worker0"},
                      {std::string(prefix) + "span", "default"}});
    if (random_() % 2 == 0) found.emplace("group_by", word());
    for (size_t k = random_() % 4; k > 0; --k) found.emplace(word(), word());
    return found;
  }
  size_t number() { return random_(); }

 private:
  std::mt19937 random_;
};

// Two runs, the second with two workers.
std::string make_folder(const std::vector<std::string>& seeds) {
  std::string folder = "/tmp/fuzz_trace_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return "";
  for (const char* run : {"a", "b"}) std::filesystem::create_directory(folder + "/" + run);
  std::ofstream(folder + "/a/worker0.pt.trace.json") << seeds[0];
  for (size_t k = 0; k < 2; ++k)
    std::ofstream(folder + "/b/worker" + std::to_string(k) + ".pt.trace.json")
        << seeds[k % seeds.size()];
  return folder;
}

bool is_json(const server::Answer& answer, const std::string& body) {
  return answer.status != 200 || answer.content_type != "application/json" ||
         !answer.trace_file.empty() || nlohmann::json::accept(body);
}

void fuzz_routes(const server::RunStore& store, long runs, uint32_t seed, Totals& totals) {
  Requests requests(seed);
  for (long run = 0; run < runs; ++run) {
    const std::string path = requests.path();
    const server::Parameters parameters = requests.parameters();
    std::string text = path;
    for (const auto& [name, value] : parameters) text += " " + name + "=" + value;
    current = &text;
    alarm(kHangSeconds);
    const Clock::time_point start = Clock::now();
    for (const bool page : {false, true}) {
      const server::Answer answer = page ? server::page_answer(store, path, parameters)
                                         : server::answer(store, path, parameters);
      std::string body = answer.body;
      if (answer.stream)
        answer.stream([&](std::string_view piece) {
          body += piece;
          return true;
        });
      ++(answer.status == 200 ? totals.good : totals.refused);
      if (answer.status < 500 && is_json(answer, body)) continue;
      ++totals.bad;
      std::printf("bad answer (status %d) to %s: %.200s\n", answer.status, text.c_str(),
                  body.c_str());
    }
    totals.time(start);
  }
}

// Sends `text`, reads what comes, says whether it was an answer.
bool talk(int port, const std::string& text) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool answered = false;
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    (void)!send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    shutdown(connection, SHUT_WR);
    char buffer[4096];
    for (ssize_t got; (got = recv(connection, buffer, sizeof buffer, 0)) > 0;)
      answered =
          answered || std::string_view(buffer, static_cast<size_t>(got)).substr(0, 5) == "HTTP/";
  }
  close(connection);
  return answered;
}

void fuzz_http(server::RunStore& store, long runs, uint32_t seed, Totals& totals) {
  server::HttpOptions options;
  options.port = 0;
  server::HttpServer http(store, options);
  if (!http.bind().ok()) return;
  std::thread serving([&] { http.serve(); });
  Requests requests(seed);
  const std::string good =
      "GET /api/state HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  trace::testing::Mutator mutator(
      {good,
       "GET /data/plugin/pytorch_profiler/overview?run=a&worker=worker0&span=default HTTP/1.1\r\n"
       "Host: 127.0.0.1\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
       "POST /api/state HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\nConnection: close\r\n"
       "Content-Type: application/x-www-form-urlencoded\r\n\r\na=b&c=d%20&e=ffffffff",
       "GET /app.js HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-100,5-\r\nConnection: close\r\n"
       "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
      seed);
  for (long run = 0; run < runs; ++run) {
    std::string text = mutator.next();
    current = &text;
    alarm(kHangSeconds);
    const Clock::time_point start = Clock::now();
    ++(talk(http.port(), text) ? totals.good : totals.refused);
    totals.time(start);
  }
  if (!talk(http.port(), good)) {
    ++totals.bad;
    std::puts("the server does not answer any more");
  }
  http.stop();
  serving.join();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Fuzzes the profiler's reader, routes or server.");
  std::string what;
  std::vector<std::string> files;
  long runs = 100000, every = 10;
  uint32_t seed = 1;
  app.add_option("what", what)->required()->check(CLI::IsMember({"reader", "routes", "http"}));
  app.add_option("seeds", files, "traces to mutate or serve; none: a made-up one")
      ->check(CLI::ExistingFile);
  app.add_option("--runs", runs, "How many inputs");
  app.add_option("--seed", seed, "Of the random numbers");
  app.add_option("--analyze-every", every, "reader: work out all of every so-manieth input")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  catch_crashes();
  std::vector<std::string> seeds;
  for (const std::string& file : files) seeds.push_back(read_file(file));
  if (seeds.empty()) seeds.push_back(trace::testing::sample_trace());
  Totals totals;
  if (what == "reader") {
    fuzz_reader(seeds, runs, seed, every, totals);
  } else {
    const std::string folder = make_folder(seeds);
    server::StoreOptions options;
    options.rescan_seconds = 0;
    server::RunStore store({folder}, options);
    store.start();
    store.wait();
    what == "routes" ? fuzz_routes(store, runs, seed, totals)
                     : fuzz_http(store, runs, seed, totals);
    std::filesystem::remove_all(folder);
  }
  std::printf("%s: %ld inputs, %ld answered, %ld refused, %ld bad, slowest %.1f ms\n", what.c_str(),
              runs, totals.good, totals.refused, totals.bad, totals.slowest_ms);
  return totals.bad == 0 ? 0 : 1;
}
