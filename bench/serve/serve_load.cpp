// SPDX-License-Identifier: Apache-2.0
// Load on an inference server over HTTP from many connections, and how it stood it: requests per
// second and latencies. Closed loop (every connection asks again when it is answered), or open
// (--rate: requests are due at even distances whatever the answers do, and their latency counts
// from when they were due).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <boost/asio.hpp>
#include <nlohmann/json.hpp>

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

namespace {

struct Plan {
  std::string host = "127.0.0.1", path, model;
  int port = 8000, connections = 8, rows = 1;
  int64_t requests = 0;  // 0: by time
  double seconds = 5, rate = 0;
  size_t raw_bytes = 0;  // not 0: a body of so many zeros to `path`, whatever server it is
};

struct Tally {
  std::vector<float> us;
  int64_t errors = 0, sent = 0;
  std::string first_error;
};

std::string head(const Plan& plan, const char* method, const std::string& path,
                 const std::string& more, size_t bytes) {
  return fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{}\r\n", method, path,
                     plan.host, bytes, more);
}

class Load;

// One connection; asks when the load says so.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(Load& load, asio::io_context& network) : load_(load), socket_(network) {}
  void start();
  void ask(Clock::time_point due);

 private:
  void connect();
  void send();
  void read();
  void take(size_t header_end);
  void failed(const std::string& why);

  Load& load_;
  tcp::socket socket_;
  std::string answer_;
  Clock::time_point due_;
};

class Load {
 public:
  Load(Plan plan, std::string request)
      : plan_(std::move(plan)), request_(std::move(request)), timer_(network_) {}

  Tally run() {
    start_ = Clock::now();
    end_ = start_ + std::chrono::microseconds(static_cast<int64_t>(plan_.seconds * 1e6));
    for (int k = 0; k < plan_.connections; ++k) {
      clients_.push_back(std::make_shared<Client>(*this, network_));
      clients_.back()->start();
    }
    if (plan_.rate > 0) pace();
    network_.run();
    return std::move(tally_);
  }

  void ready(const std::shared_ptr<Client>& client) {
    if (plan_.rate > 0) {
      if (waiting_.empty()) return idle_.push_back(client);
      const Clock::time_point due = waiting_.front();
      waiting_.pop_front();
      return client->ask(due);
    }
    if (!may_send()) return;
    ++tally_.sent;
    client->ask(Clock::now());
  }

  void answered(double us) { tally_.us.push_back(static_cast<float>(us)); }
  void failed(const std::string& why) {
    if (tally_.errors++ == 0) tally_.first_error = why;
  }
  const std::string& request() const { return request_; }
  const Plan& plan() const { return plan_; }

 private:
  bool may_send() const {
    return plan_.requests > 0 ? tally_.sent < plan_.requests : Clock::now() < end_;
  }

  void pace() {
    const auto gap =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / plan_.rate));
    while (start_ + gap * tally_.sent <= Clock::now()) {
      if (!may_send()) return network_.stop();
      const Clock::time_point due = start_ + gap * tally_.sent++;
      if (idle_.empty()) {
        waiting_.push_back(due);
      } else {
        const auto client = idle_.front();
        idle_.pop_front();
        client->ask(due);
      }
    }
    timer_.expires_at(start_ + gap * tally_.sent);
    timer_.async_wait([this](error_code) { pace(); });
  }

  Plan plan_;
  std::string request_;
  asio::io_context network_{1};
  asio::steady_timer timer_;
  std::vector<std::shared_ptr<Client>> clients_;
  std::deque<std::shared_ptr<Client>> idle_;
  std::deque<Clock::time_point> waiting_;
  Clock::time_point start_, end_;
  Tally tally_;
};

void Client::start() {
  connect();
}

void Client::connect() {
  const tcp::endpoint to(asio::ip::make_address(load_.plan().host),
                         static_cast<unsigned short>(load_.plan().port));
  socket_.async_connect(to, [self = shared_from_this()](error_code error) {
    if (error) return self->load_.failed("connect: " + error.message());
    self->socket_.set_option(tcp::no_delay(true));
    self->load_.ready(self);
  });
}

void Client::ask(Clock::time_point due) {
  due_ = due;
  asio::async_write(socket_, asio::buffer(load_.request()),
                    [self = shared_from_this()](error_code error, size_t) {
                      if (error) return self->failed("write: " + error.message());
                      self->read();
                    });
}

void Client::read() {
  asio::async_read_until(socket_, asio::dynamic_buffer(answer_), "\r\n\r\n",
                         [self = shared_from_this()](error_code error, size_t count) {
                           if (error) return self->failed("read: " + error.message());
                           self->take(count);
                         });
}

void Client::take(size_t header_end) {
  std::string header = answer_.substr(0, header_end);
  std::transform(header.begin(), header.end(), header.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const size_t field = header.find("content-length:");
  const size_t length =
      field == header.npos ? 0 : std::strtoull(header.c_str() + field + 15, nullptr, 10);
  const size_t all = header_end + length;
  const auto done = [self = shared_from_this(), all](error_code error, size_t) {
    if (error) return self->failed("read: " + error.message());
    const bool is_good = self->answer_.compare(9, 3, "200") == 0;
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - self->due_).count();
    if (is_good) self->load_.answered(us);
    if (!is_good) self->load_.failed(self->answer_.substr(0, 300));
    const bool is_last = self->answer_.find("Connection: close") < all;
    self->answer_.erase(0, all);
    if (is_last) return self->failed("the server closes the connection");
    self->load_.ready(self);
  };
  if (answer_.size() >= all) return done({}, 0);
  asio::async_read(socket_, asio::dynamic_buffer(answer_),
                   asio::transfer_exactly(all - answer_.size()), done);
}

void Client::failed(const std::string& why) {
  load_.failed(why);
}

// A blocking GET.
Json get(const Plan& plan, const std::string& path) {
  asio::io_context network;
  tcp::socket socket(network);
  socket.connect({asio::ip::make_address(plan.host), static_cast<unsigned short>(plan.port)});
  asio::write(socket, asio::buffer(head(plan, "GET", path, "Connection: close\r\n", 0)));
  std::string text;
  error_code error;
  asio::read(socket, asio::dynamic_buffer(text), error);
  return Json::parse(text.substr(text.find("\r\n\r\n") + 4));
}

size_t size_of(const std::string& type) {
  if (type == "FP64" || type == "INT64" || type == "UINT64") return 8;
  if (type == "FP32" || type == "INT32" || type == "UINT32") return 4;
  return type == "FP16" || type == "BF16" || type == "INT16" || type == "UINT16" ? 2 : 1;
}

// Zeros of the model's shapes as binary tensors; open extents are `rows`.
std::string inference(const Plan& plan) {
  const Json model = get(plan, "/v2/models/" + plan.model);
  Json request = {{"parameters", {{"binary_data_output", true}}}};
  size_t bytes = 0;
  for (const Json& input : model.at("inputs")) {
    size_t size = size_of(input.at("datatype"));
    Json shape = Json::array();
    for (const int64_t extent : input.at("shape").get<std::vector<int64_t>>()) {
      shape.push_back(extent < 0 ? plan.rows : extent);
      size *= shape.back().get<size_t>();
    }
    request["inputs"].push_back({{"name", input.at("name")},
                                 {"datatype", input.at("datatype")},
                                 {"shape", shape},
                                 {"parameters", {{"binary_data_size", size}}}});
    bytes += size;
  }
  const std::string json = request.dump();
  return head(plan, "POST", "/v2/models/" + plan.model + "/infer",
              fmt::format("Inference-Header-Content-Length: {}\r\n", json.size()),
              json.size() + bytes) +
         json + std::string(bytes, '\0');
}

int report(const Plan& plan, Tally tally, double seconds) {
  std::sort(tally.us.begin(), tally.us.end());
  const auto quantile = [&](double q) {
    return tally.us.empty()
               ? 0.0
               : tally.us[static_cast<size_t>(q * static_cast<double>(tally.us.size() - 1))] / 1e3;
  };
  fmt::print(
      "{} answered, {} errors in {:.2f} s: {:.0f} requests/s, {:.0f} rows/s; ms p50 {:.3f} p90 "
      "{:.3f} p99 {:.3f} max {:.3f}\n",
      tally.us.size(), tally.errors, seconds, static_cast<double>(tally.us.size()) / seconds,
      static_cast<double>(tally.us.size()) * plan.rows / seconds, quantile(0.5), quantile(0.9),
      quantile(0.99), quantile(1));
  if (tally.errors > 0) fmt::print("first error: {}\n", tally.first_error);
  return tally.errors > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  CLI::App app("load on an inference server over HTTP");
  app.add_option("model", plan.model, "its name on a server of the Open Inference Protocol");
  app.add_option("--port", plan.port);
  app.add_option("--connections", plan.connections);
  app.add_option("--rows", plan.rows, "of the batch of each request");
  app.add_option("--seconds", plan.seconds);
  app.add_option("--requests", plan.requests, "so many instead of for a time");
  app.add_option("--rate", plan.rate,
                 "requests per second, due at even distances; 0: as fast as answers come");
  app.add_option("--path", plan.path, "another server: where to post --raw-bytes zeros");
  app.add_option("--raw-bytes", plan.raw_bytes);
  CLI11_PARSE(app, argc, argv);
  try {
    const std::string request =
        plan.raw_bytes > 0
            ? head(plan, "POST", plan.path, "", plan.raw_bytes) + std::string(plan.raw_bytes, '\0')
            : inference(plan);
    Load load(plan, request);
    const Clock::time_point start = Clock::now();
    Tally tally = load.run();
    return report(plan, std::move(tally),
                  std::chrono::duration<double>(Clock::now() - start).count());
  } catch (const std::exception& error) {
    fmt::print(stderr, "serve_load: {}\n", error.what());
    return 1;
  }
}
