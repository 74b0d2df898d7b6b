// SPDX-License-Identifier: Apache-2.0
// `camshaft view`: the profiler's page and the plugin's routes over the traces of a folder.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "server/http_server.h"

namespace camshaft::cli {
namespace {

constexpr OptionRow kViewOptions[] = {
    {"host", OptionValue::kText, "ADDRESS", "127.0.0.1", "Serving", OptionStatus::kWorks,
     "address to listen on; anything but loopback is open to the network"},
    {"port", OptionValue::kInteger, "N", "6006", "Serving", OptionStatus::kWorks,
     "port; 0: any free one", "", 0, 0},
    {"path_prefix", OptionValue::kText, "/PATH", "", "Serving", OptionStatus::kWorks,
     "put before every address"},
    {"no-browser", OptionValue::kNone, "", "", "Serving", OptionStatus::kWorks,
     "do not open a browser"},
    {"compat", OptionValue::kNone, "", "", "Analysis", OptionStatus::kWorks,
     "read traces as the original plugin did, defects included"},
    {"clock", OptionValue::kChoice, "exact|plugin", "exact", "Analysis", OptionStatus::kWorks,
     "plugin: times as doubles of microseconds, as the original kept them, to compare with its "
     "answers"},
    {"dialect", OptionValue::kChoice, "auto|gpu|mlu|mlu-late", "auto", "Analysis",
     OptionStatus::kWorks, "whose vocabulary the plugin's routes speak"},
    {"rescan", OptionValue::kInteger, "SECONDS", "10", "Reading", OptionStatus::kWorks,
     "look for new files this often; 0: never", "", 0, 0},
    {"threads", OptionValue::kInteger, "N", "0", "Reading", OptionStatus::kWorks,
     "files read at once; 0: one per core", "", 0, 0},
    {"memory", OptionValue::kInteger, "MiB", "0", "Reading", OptionStatus::kWorks,
     "memory for files being read; 0: half of what is free", "", 0, 0},
    {"help", OptionValue::kNone, "", "", "Help", OptionStatus::kWorks, "this text", "", 'h'},
};

server::StoreOptions store_options(const Options& options) {
  server::StoreOptions store;
  store.original = options.has("compat");
  store.plugin_clock = options.text("clock") == "plugin";
  const std::string dialect = options.text("dialect");
  store.force_dialect = dialect != "auto";
  if (dialect == "mlu") store.dialect = trace::Dialect::kMlu;
  if (dialect == "mlu-late") store.dialect = trace::Dialect::kMluLate;
  store.rescan_seconds = static_cast<int>(options.integer("rescan"));
  store.threads = static_cast<int>(options.integer("threads"));
  store.memory_budget = static_cast<uint64_t>(options.integer("memory")) << 20;
  return store;
}

// Opens the page without waiting for the browser; silent where there is none.
void open_browser(const std::string& address) {
  if (!is_terminal(stdout) ||
      (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr))
    return;
  const pid_t child = ::fork();
  if (child != 0) return;
  ::setsid();
  if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(127);
  ::execlp("xdg-open", "xdg-open", address.c_str(), static_cast<char*>(nullptr));
  ::_exit(127);
}

// Says what is being read until all is there.
void report_progress(const server::RunStore& store, const std::atomic<bool>& stop) {
  ProgressLine line;
  std::set<std::string> told;
  for (;;) {
    const server::LoadState state = store.state();
    for (const std::string& message : state.messages) {
      if (!told.insert(message).second) continue;
      line.clear();
      warn(message);
    }
    if (!state.loading() || stop) break;
    line.update("reading traces", static_cast<int64_t>(state.bytes_done),
                static_cast<int64_t>(state.bytes));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  line.clear();
}

int serve(const Options& options) {
  // Signals are taken by one thread that waits for them; every other thread is started with them
  // blocked.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  server::RunStore store(options.positionals(), store_options(options));
  server::HttpOptions http;
  http.host = options.text("host");
  http.port = static_cast<int>(options.integer("port"));
  http.path_prefix = options.text("path_prefix");
  server::HttpServer server(store, http);
  if (const Status bound = server.bind(); !bound.ok()) return fail(bound.message());
  store.start();
  std::thread serving([&] { server.serve(); });
  fmt::print("Camshaft profiler at {} (Ctrl-C ends it)\n", server.address());
  std::fflush(stdout);
  if (!options.has("no-browser")) open_browser(server.address());
  std::atomic<bool> stop{false};
  std::thread reporting([&] { report_progress(store, stop); });
  int signal = 0;
  ::sigwait(&signals, &signal);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // a second one ends the program at once
  stop = true;
  server.stop();
  serving.join();
  reporting.join();
  return 0;
}

}  // namespace

int view_command(std::span<char* const> args) {
  auto options = Options::parse(kViewOptions, args, {false, 64});
  if (!options.ok()) return fail(options.status().message());
  if (options->has("help") || options->positionals().empty()) {
    fmt::print("usage: camshaft view FOLDER|FILE… [OPTIONS]\n\n{}", options_help(kViewOptions));
    return options->has("help") ? 0 : 1;
  }
  for (const std::string& path : options->positionals())
    if (!std::filesystem::exists(path))
      return fail(fmt::format("{}: no such file or folder", path));
  return serve(*options);
}

}  // namespace camshaft::cli
