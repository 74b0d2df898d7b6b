// SPDX-License-Identifier: Apache-2.0
// `camshaft serve`: options, ports, signals, the end.
#include "serve/serve_command.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "api/engine_cache.h"
#include "base/cpu.h"
#include "base/topology.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "serve/http_server.h"

namespace camshaft::serve {
namespace {

using cli::OptionRow;
using cli::Options;
using cli::OptionStatus;
using cli::OptionValue;

constexpr OptionStatus kWorks = OptionStatus::kWorks;
constexpr const char* kPorts = "Ports";
constexpr const char* kModels = "Models";
constexpr const char* kBatches = "Batches and queues";
constexpr const char* kLimits = "Limits";
constexpr const char* kAccess = "Access";

constexpr OptionRow kOptions[] = {
    {"host", OptionValue::kText, "ADDRESS", "127.0.0.1", kPorts, kWorks,
     "address to listen on; anything but loopback is open to the network"},
    {"http", OptionValue::kInteger, "PORT", "8000", kPorts, kWorks,
     "port of HTTP/JSON; 0: any free one; -1: none", "", 0, -1},
    {"grpc", OptionValue::kInteger, "PORT", "8001", kPorts, kWorks,
     "port of gRPC; 0: any free one; -1: none", "", 0, -1},
    {"metrics", OptionValue::kInteger, "PORT", "8002", kPorts, kWorks,
     "port of Prometheus' /metrics; 0: any free one; -1: none", "", 0, -1},
    {"http-threads", OptionValue::kInteger, "N", "2", kPorts, kWorks,
     "threads that read and write connections", "", 0, 1},
    {"model-control-mode", OptionValue::kChoice, "explicit|none|poll", "explicit", kModels, kWorks,
     "explicit: clients may load and unload; none: they may not; poll: the folder is looked at for "
     "changes"},
    {"load-model", OptionValue::kText, "NAME", "", kModels, kWorks,
     "load this one when starting, and no other; may be repeated; default: all"},
    {"repository-poll-secs", OptionValue::kInteger, "N", "15", kModels, kWorks,
     "how often with --model-control-mode poll", "", 0, 1},
    {"threads", OptionValue::kInteger, "N", "0", kModels, kWorks,
     "threads that a model's instances share; 0: all this process may use", "", 't', 0},
    {"affinity", OptionValue::kChoice, "none|close|spread", "none", kModels, kWorks,
     "threads stay on cores: of as few L3 caches as have them, or of all evenly"},
    {"engine-cache", OptionValue::kText, "DIR", "", kModels, kWorks,
     "folder of built engines, 'none' for none; default: $CAMSHAFT_CACHE_DIR or ~/.cache/camshaft"},
    {"latency-goal-ms", OptionValue::kNumber, "MS", "0", kBatches, kWorks,
     "what a request may take: bounds batches and how long they wait to be filled; 0: no waiting, "
     "batches of what is there",
     "", 0, 0},
    {"default-max-batch-size", OptionValue::kInteger, "N", "16", kBatches, kWorks,
     "of models with an open batch and no config.pbtxt", "", 0, 1},
    {"queue-size", OptionValue::kInteger, "N", "4096", kBatches, kWorks,
     "requests that may wait for a model; more are refused (503, RESOURCE_EXHAUSTED)", "", 0, 1},
    {"measure-ms", OptionValue::kInteger, "MS", "1500", kBatches, kWorks,
     "time to measure batch sizes in when a model is loaded", "", 0, 0},
    {"max-body", OptionValue::kInteger, "MiB", "64", kLimits, kWorks, "of one request", "", 0, 1},
    {"max-memory", OptionValue::kInteger, "MiB", "1024", kLimits, kWorks,
     "of all requests that are being read or answered", "", 0, 1},
    {"max-connections", OptionValue::kInteger, "N", "1024", kLimits, kWorks, "of each HTTP port",
     "", 0, 1},
    {"exit-timeout-secs", OptionValue::kInteger, "N", "30", kLimits, kWorks,
     "after SIGTERM: how long to answer what was asked", "", 0, 0},
    {"token-file", OptionValue::kText, "FILE", "", kAccess, kWorks,
     "clients say the token in this file (Authorization: Bearer …); health needs none"},
    {"tls-cert", OptionValue::kText, "FILE", "", kAccess, kWorks,
     "certificate chain (PEM) for HTTPS and gRPC"},
    {"tls-key", OptionValue::kText, "FILE", "", kAccess, kWorks, "its private key (PEM)"},
    {"verbose", OptionValue::kNone, "", "", "Help", kWorks, "the library's log, too", "", 'v'},
    {"help", OptionValue::kNone, "", "", "Help", kWorks, "this text", "", 'h'},
};

// Lines on standard output, from any thread.
void say(const std::string& text) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

class LibraryLog : public Logger {
 public:
  explicit LibraryLog(bool verbose) {
    set_logger(this, verbose ? Severity::kVerbose : Severity::kWarning);
  }
  ~LibraryLog() override { set_logger(nullptr); }
  void log(Severity, std::string_view text) override { say(std::string(text)); }
};

Result<std::string> read_token(const std::string& file) {
  if (file.empty()) return std::string();
  std::ifstream stream(file);
  std::string token;
  stream >> token;
  if (token.empty()) return make_error(ErrorCode::kIo, "--token-file: {} holds no token", file);
  return token;
}

ModelOptions model_options(const Options& options) {
  ModelOptions model;
  model.threads = static_cast<int>(options.integer("threads"));
  model.latency_goal_ms = options.number("latency-goal-ms");
  model.queue_size = static_cast<size_t>(options.integer("queue-size"));
  model.default_max_batch = options.integer("default-max-batch-size");
  model.measure_ms = options.integer("measure-ms");
  const std::string cache = options.text("engine-cache");
  model.cache_folder = cache.empty()     ? api::EngineCache::default_folder()
                       : cache == "none" ? std::filesystem::path()
                                         : std::filesystem::path(cache);
  model.cache_limit = api::EngineCache::default_limit();
  model.say = say;
  return model;
}

class Server {
 public:
  Server(const Options& options, CoreOptions core) : options_(options), core_(std::move(core)) {}

  Status open(MakeFrontEnd grpc) {
    CAMSHAFT_ASSIGN(token_, read_token(options_.text("token-file")));
    const std::string certificate = options_.text("tls-cert");
    const std::string key = options_.text("tls-key");
    if (certificate.empty() != key.empty())
      return make_error(ErrorCode::kInvalidArgument, "--tls-cert and --tls-key belong together");
    if (!certificate.empty()) {
      CAMSHAFT_ASSIGN(tls_, tls_context(certificate, key));
    }
    const size_t most_bytes = static_cast<size_t>(options_.integer("max-body")) << 20;
    CAMSHAFT_TRY(
        open_http(http_, "http", [this, most_bytes](HttpRequest&& request, HttpReply reply) {
          answer_inference(core_, most_bytes, std::move(request), std::move(reply));
        }));
    CAMSHAFT_TRY(open_http(metrics_, "metrics", [this](HttpRequest&& request, HttpReply reply) {
      answer_metrics(core_, request, reply);
    }));
    if (options_.integer("grpc") < 0) return ok_status();
    if (grpc == nullptr) {
      if (options_.has("grpc"))
        return make_error(ErrorCode::kUnsupported,
                          "--grpc: this program was built without gRPC (libgrpc++-dev and "
                          "protobuf-compiler-grpc, then cmake again)");
      cli::warn("built without gRPC: HTTP only");
      return ok_status();
    }
    GrpcOptions grpc_options;
    grpc_options.host = options_.text("host");
    grpc_options.port = static_cast<int>(options_.integer("grpc"));
    grpc_options.token = token_;
    grpc_options.certificate = certificate;
    grpc_options.key = key;
    grpc_options.message_bytes = most_bytes;
    grpc_options.all_message_bytes = static_cast<size_t>(options_.integer("max-memory")) << 20;
    grpc_ = grpc(core_, grpc_options);
    return grpc_->start();
  }

  void start() {
    const std::string scheme = tls_ ? "https" : "http";
    const std::string host = options_.text("host");
    const auto shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
    if (http_) {
      http_->start();
      say(fmt::format("HTTP at {}://{}:{}/v2", scheme, shown, http_->port()));
    }
    if (grpc_) say(fmt::format("gRPC at {}:{}", shown, grpc_->port()));
    if (metrics_) {
      metrics_->start();
      say(fmt::format("metrics at {}://{}:{}/metrics", scheme, shown, metrics_->port()));
    }
    load();
  }

  // Until SIGTERM or SIGINT; then until what was asked is answered.
  void run(const sigset_t& signals) {
    const bool polls = options_.text("model-control-mode") == "poll";
    const timespec period{polls ? options_.integer("repository-poll-secs") : 3600, 0};
    for (;;) {
      const int signal = ::sigtimedwait(&signals, nullptr, &period);
      if (signal == SIGTERM || signal == SIGINT) break;
      if (signal < 0 && polls) core_.repository().rescan();
    }
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // a second one ends the program at once
    end();
  }

 private:
  Status open_http(std::unique_ptr<HttpServer>& server, const char* name,
                   std::function<void(HttpRequest&&, HttpReply)> answer) {
    if (options_.integer(name) < 0) return ok_status();
    HttpServerOptions http;
    http.host = options_.text("host");
    http.port = static_cast<int>(options_.integer(name));
    http.token = token_;
    http.tls = tls_;
    http.limits.body_bytes = static_cast<size_t>(options_.integer("max-body")) << 20;
    http.limits.all_body_bytes =
        std::max(static_cast<size_t>(options_.integer("max-memory")) << 20, http.limits.body_bytes);
    http.limits.connections = static_cast<size_t>(options_.integer("max-connections"));
    http.threads = server == metrics_ ? 1 : static_cast<int>(options_.integer("http-threads"));
    http.answer = std::move(answer);
    server = std::make_unique<HttpServer>(std::move(http));
    return server->bind().with_context(fmt::format("--{}", name));
  }

  void load() {
    const std::vector<std::string> names = options_.all("load-model");
    const bool all = names.empty() || names[0] == "*";
    if (all) {
      core_.repository().load_all([](const std::optional<Error>&) { say("ready"); });
      return;
    }
    core_.repository().load_these(names, [](const std::optional<Error>&) { say("ready"); });
  }

  void end() {
    const auto limit = std::chrono::seconds(options_.integer("exit-timeout-secs"));
    say(fmt::format("ending: answering what was asked, for {} s at most", limit.count()));
    const Clock::time_point deadline = Clock::now() + limit;
    core_.drain();
    if (http_) http_->drain();
    std::thread grpc([&] {
      if (grpc_) grpc_->stop(std::chrono::system_clock::now() + limit);
    });
    while (http_ && http_->has_connections() && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const bool is_late = Clock::now() >= deadline;
    if (is_late) core_.repository().stop(true);
    grpc.join();
    core_.repository().stop(true);
    if (http_) http_->stop();
    if (metrics_) metrics_->stop();
    say(is_late ? "ended: some requests were not answered in time" : "ended");
  }

  const Options& options_;
  std::string token_;
  std::shared_ptr<boost::asio::ssl::context> tls_;
  Core core_;
  std::unique_ptr<HttpServer> http_, metrics_;
  std::unique_ptr<FrontEnd> grpc_;
};

int serve(const Options& options, MakeFrontEnd grpc) {
  // Large answers come and go: their memory is to stay in the process.
  ::mallopt(M_MMAP_THRESHOLD, 64 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // of all threads: run() waits for them
  const LibraryLog log(options.has("verbose"));
  CoreOptions core;
  for (const std::string& folder : options.positionals()) core.folders.emplace_back(folder);
  core.model = model_options(options);
  core.allows_control = options.text("model-control-mode") != "none";
  Server server(options, std::move(core));
  if (const Status status = server.open(grpc); !status.ok()) return cli::fail(status.message());
  server.start();
  server.run(signals);
  return 0;
}

}  // namespace

int serve_command(std::span<char* const> args, MakeFrontEnd grpc) {
  auto options = Options::parse(kOptions, args, {false, 64});
  if (!options.ok()) return cli::fail(options.status().message());
  if (options->has("help") || options->positionals().empty()) {
    fmt::print(
        "usage: camshaft serve REPOSITORY… [OPTIONS]\n\nA repository is a folder of models: "
        "MODEL/1/model.onnx or model.engine,\nMODEL/config.pbtxt (Triton's, may be absent).\n\n{}",
        cli::options_help(kOptions));
    return options->has("help") ? 0 : 1;
  }
  for (const std::string& folder : options->positionals())
    if (!std::filesystem::is_directory(folder))
      return cli::fail(fmt::format("{}: no such folder", folder));
  if (options->has("affinity")) force_affinity(parse_affinity(options->text("affinity")).value());
  return serve(*options, grpc);
}

}  // namespace camshaft::serve
