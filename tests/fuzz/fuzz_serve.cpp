// SPDX-License-Identifier: Apache-2.0
// Damaged HTTP requests and gRPC messages for a server that runs, built with a sanitizer for
// example: whatever it answers, it must go on answering. The server's folder of models has
// `linear`, as tests/serve makes it (x: FP32, rows of 4).
//
//   fuzz_serve http|grpc --port N [--count N] [--seed S]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <CLI/CLI.hpp>

#include "inference_service.pb.h"

namespace {

constexpr int kThreads = 8;

using Random = std::mt19937_64;
size_t below(Random& random, size_t n) {
  return n == 0 ? 0 : random() % n;
}

// Bytes changed, left out, repeated, put in, cut off.
void mutate(std::string& data, Random& random) {
  static const std::string kPieces[] = {"-1",
                                        "99999999999999999999",
                                        std::string(1, '\0'),
                                        "[[[[",
                                        "\"",
                                        "\r\n",
                                        "1e999",
                                        "\xff\xfe",
                                        "null",
                                        "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"};
  static constexpr int kTimes[] = {1, 1, 2, 5};
  const int times = kTimes[below(random, 4)];
  for (int k = 0; k < times && !data.empty(); ++k) {
    const size_t at = below(random, data.size());
    switch (below(random, 6)) {
      case 0:
        data[at] = static_cast<char>(random());
        break;
      case 1:
        data.erase(at, 1 + below(random, 40));
        break;
      case 2:
        data.insert(at, data.substr(below(random, data.size()), 1 + below(random, 60)));
        break;
      case 3:
        data.insert(at, kPieces[below(random, std::size(kPieces))]);
        break;
      case 4:
        data[at] = static_cast<char>(data[at] ^ (1 << below(random, 8)));
        break;
      default:
        data.resize(at);
    }
  }
}

std::string rows_of(int rows) {
  return std::string(static_cast<size_t>(rows) * 16, '\0');
}

std::vector<std::string> http_requests() {
  const auto post = [](const std::string& path, const std::string& more, const std::string& body) {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: "
        "{}\r\n{}\r\n{}",
        path, body.size(), more, body);
  };
  const std::string tensor = R"("name":"x","shape":[2,4],"datatype":"FP32")";
  const std::string binary =
      "{\"inputs\":[{" + tensor +
      R"(,"parameters":{"binary_data_size":32}}],"parameters":{"binary_data_output":true}})";
  const std::string json = "{\"id\":\"7\",\"inputs\":[{" + tensor +
                           R"(,"data":[1,2.5,-3,4e1,5,6,7,8]}],"outputs":[{"name":"y"}]})";
  const std::string infer = "/v2/models/linear/infer";
  return {post(infer, fmt::format("Inference-Header-Content-Length: {}\r\n", binary.size()),
               binary + rows_of(2)),
          post(infer, "Content-Type: application/json\r\n", json),
          fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "{:x}\r\n{}\r\n0\r\n\r\n",
                      infer, json.size(), json),
          "GET /v2/models/linear/batches?limit=3 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
          "GET /v2/models/linear/versions/1/stats HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
          post("/v2/repository/index", "", R"({"ready":true})")};
}

// What one answered: "200", "closed" or "no connection".
// Who closes its side takes no interest in answers that have to be computed.
std::string ask(int port, const std::string& data, uint32_t source, bool closes) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  // From many addresses of loopback: ports stay taken for a while.
  sockaddr_in from = {}, to = {};
  from.sin_family = to.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(0x7f010001u + source % 0xffffu);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  const timeval patience{10, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string answer = "no connection";
  if (::bind(socket, reinterpret_cast<sockaddr*>(&from), sizeof from) == 0 &&
      ::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
    (void)!::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (closes) ::shutdown(socket, SHUT_WR);
    char buffer[4096];
    std::string got;
    for (ssize_t n; (n = ::recv(socket, buffer, sizeof buffer, 0)) > 0;)
      if (got.size() < 16) got.append(buffer, static_cast<size_t>(n));
    answer = got.starts_with("HTTP/1.1 ") ? got.substr(9, 3) : got.empty() ? "closed" : "no HTTP";
  }
  ::close(socket);
  return answer;
}

std::vector<std::string> grpc_messages() {
  inference::ModelInferRequest raw;
  raw.set_model_name("linear");
  auto& x = *raw.add_inputs();
  x.set_name("x");
  x.set_datatype("FP32");
  x.add_shape(2);
  x.add_shape(4);
  inference::ModelInferRequest typed = raw;
  raw.add_raw_input_contents(rows_of(2));
  for (int k = 0; k < 8; ++k)
    typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(static_cast<float>(k));
  (*typed.mutable_parameters())["priority"].set_int64_param(1);
  typed.add_outputs()->set_name("y");
  return {raw.SerializeAsString(), typed.SerializeAsString()};
}

class Caller {
 public:
  explicit Caller(int port)
      : stub_(grpc::CreateChannel(fmt::format("127.0.0.1:{}", port),
                                  grpc::InsecureChannelCredentials())) {}
  std::string ask(const std::string& message) {
    const grpc::Slice slice(message);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer answer;
    grpc::Status status;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    auto call = stub_.PrepareUnaryCall(&context, "/inference.GRPCInferenceService/ModelInfer",
                                       request, &queue_);
    call->StartCall();
    call->Finish(&answer, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return std::to_string(status.error_code());
  }

 private:
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("damaged requests for a server that runs");
  std::string what;
  int port = 0;
  int64_t count = 1000;
  uint64_t seed = 1;
  app.add_option("what", what, "http or grpc")->required()->check(CLI::IsMember({"http", "grpc"}));
  app.add_option("--port", port)->required();
  app.add_option("--count", count);
  app.add_option("--seed", seed);
  CLI11_PARSE(app, argc, argv);

  const bool is_http = what == "http";
  const std::vector<std::string> good = is_http ? http_requests() : grpc_messages();
  std::atomic<int64_t> next = 0;
  std::atomic<bool> is_gone = false;
  std::mutex mutex;
  std::map<std::string, int64_t> answers;
  const auto work = [&] {
    std::map<std::string, int64_t> mine;
    Caller caller(port);
    int in_vain = 0;
    for (int64_t k; !is_gone && (k = next++) < count;) {
      Random random(seed * 1000003 + static_cast<uint64_t>(k));
      std::string data = good[below(random, good.size())];
      mutate(data, random);
      const std::string answer =
          is_http ? ask(port, data, static_cast<uint32_t>(k), true) : caller.ask(data);
      ++mine[answer];
      const bool failed =
          answer == "no connection" || (!is_http && answer == std::to_string(grpc::UNAVAILABLE));
      in_vain = failed ? in_vain + 1 : 0;
      if (in_vain > 50) is_gone = true;
    }
    const std::lock_guard lock(mutex);
    for (const auto& [answer, times] : mine) answers[answer] += times;
  };
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  int64_t all = 0;
  for (const auto& [answer, times] : answers) {
    fmt::print("{}: {}\n", answer, times);
    all += times;
  }
  fmt::print("{} of {} sent\n", all, count);
  // What is whole must still be answered.
  const std::string last = is_http ? ask(port, good[0], 0, false) : Caller(port).ask(good[0]);
  const bool is_well = !is_gone && last == (is_http ? "200" : "0");
  if (!is_well) fmt::print("error: the server does not answer any more: {}\n", last);
  return is_well ? 0 : 1;
}
