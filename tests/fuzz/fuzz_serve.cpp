// SPDX-License-Identifier: Apache-2.0
// Damaged HTTP requests and gRPC messages for a server that runs, built with a sanitizer for
// example: each is answered in the protocol or the connection is closed, none is left without, and
// the server goes on answering. Its folder of models has `linear`, as tests/serve makes it (x:
// FP32, rows of 4).
//
//   fuzz_serve http|grpc --port N [--count N] [--seed S]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <CLI/CLI.hpp>

#include "inference_service.pb.h"

namespace {

constexpr int kThreads = 8;
constexpr const char* kNoConnection = "no connection";

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

// How one was answered: "200", or "closed". `is_wrong`: not as the protocol has it.
struct Outcome {
  std::string name;
  bool is_wrong = false;
};

// The value of a field of a header, or -1.
int64_t field_of(std::string_view header, std::string_view name) {
  for (size_t at = 0; (at = header.find("\r\n", at)) != header.npos;) {
    at += 2;
    if (header.size() - at <= name.size() || header[at + name.size()] != ':') continue;
    if (!std::equal(
            name.begin(), name.end(), header.begin() + static_cast<ptrdiff_t>(at),
            [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); }))
      continue;
    return std::atoll(std::string(header.substr(at + name.size() + 1, 20)).c_str());
  }
  return -1;
}

// Everything a server sent, as answers one behind the other; each in full, unless the client has
// closed its side: then the last one may be cut off.
Outcome judge_http(std::string_view got) {
  if (got.empty()) return {"closed"};
  std::string first;
  while (!got.empty()) {
    if (!got.starts_with("HTTP/1.1 ") || got.size() < 12) return {"no HTTP", true};
    const std::string status(got.substr(9, 3));
    if (status < "100" || status > "599") return {"no status: " + status, true};
    if (first.empty() && status != "100") first = status;
    const size_t end = got.find("\r\n\r\n");
    if (end == got.npos) return {"no end of the header", true};
    const std::string_view header = got.substr(0, end);
    got.remove_prefix(end + 4);
    if (status == "100") continue;
    const int64_t length = field_of(header, "content-length");
    if (length < 0) return {"no Content-Length", true};
    if (static_cast<size_t>(length) > got.size()) return {"less than Content-Length", true};
    const std::string_view body = got.substr(0, static_cast<size_t>(length));
    if (status[0] >= '4' && length > 0 && !body.starts_with("{\"error\":\""))
      return {status + " without an error", true};
    got.remove_prefix(body.size());
  }
  return {first.empty() ? "100" : first};
}

// Who closes its side takes no interest in answers that have to be computed.
Outcome ask(int port, const std::string& data, uint32_t source, bool closes) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  // From many addresses of loopback: ports stay taken for a while.
  sockaddr_in from = {}, to = {};
  from.sin_family = to.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(0x7f010001u + source % 0xffffu);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  const timeval patience{10, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  Outcome outcome{kNoConnection};
  if (::bind(socket, reinterpret_cast<sockaddr*>(&from), sizeof from) == 0 &&
      ::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
    (void)!::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (closes) ::shutdown(socket, SHUT_WR);
    char buffer[4096];
    std::string got;
    ssize_t n = 0;
    while ((n = ::recv(socket, buffer, sizeof buffer, 0)) > 0)
      got.append(buffer, static_cast<size_t>(n));
    const bool is_silent = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    outcome = is_silent ? Outcome{"neither answered nor closed", true} : judge_http(got);
  }
  ::close(socket);
  return outcome;
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

// A message that can be read, with fields that are wrong: most of those whose bytes are damaged
// cannot.
std::string with_wrong_fields(const std::string& good, Random& random) {
  static constexpr int64_t kNumbers[] = {0,         1,        2, 3, -1, 4096, int64_t{1} << 40,
                                         INT64_MIN, INT64_MAX};
  static const char* const kTypes[] = {"FP32", "FP16", "INT64", "BOOL", "BYTES", "", "FP32 "};
  const auto number = [&] { return kNumbers[below(random, std::size(kNumbers))]; };
  inference::ModelInferRequest message;
  message.ParseFromString(good);
  auto& input = *message.mutable_inputs(0);
  const size_t times = 1 + below(random, 2);
  for (size_t k = 0; k < times; ++k) switch (below(random, 10)) {
      case 0:
        input.set_shape(static_cast<int>(below(random, 2)), number());
        break;
      case 1:
        input.add_shape(number());
        break;
      case 2:
        input.set_datatype(kTypes[below(random, std::size(kTypes))]);
        break;
      case 3: {
        std::string& name =
            *(below(random, 2) == 0 ? input.mutable_name() : message.mutable_model_name());
        mutate(name, random);
        for (char& c : name) c = static_cast<char>(c & 0x7f);  // else it cannot be read
        break;
      }
      case 4:
        message.add_raw_input_contents(std::string(below(random, 70), '\1'));
        break;
      case 5:
        if (message.raw_input_contents_size() > 0)
          mutate(*message.mutable_raw_input_contents(0), random);
        break;
      case 6:
        input.mutable_contents()->add_int64_contents(number());
        break;
      case 7:
        *message.add_inputs() = input;
        break;
      case 8:
        (*message.mutable_parameters())[below(random, 2) == 0 ? "priority" : "timeout"]
            .set_int64_param(number());
        break;
      default: {
        auto& output = *message.add_outputs();
        output.set_name(below(random, 2) == 0 ? "y" : "z");
        (*output.mutable_parameters())["classification"].set_int64_param(number());
      }
    }
  return message.SerializeAsString();
}

class Caller {
 public:
  explicit Caller(int port)
      : stub_(grpc::CreateChannel(fmt::format("127.0.0.1:{}", port),
                                  grpc::InsecureChannelCredentials())) {}
  Outcome ask(const std::string& message) {
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
    return judge(status, answer);
  }

 private:
  // A message of the protocol, or one of the errors a request may meet, in words.
  static Outcome judge(const grpc::Status& status, const grpc::ByteBuffer& answer) {
    const std::string name = std::to_string(status.error_code());
    switch (status.error_code()) {
      case grpc::OK: {
        grpc::Slice bytes;
        inference::ModelInferResponse message;
        const bool is_whole =
            answer.DumpToSingleSlice(&bytes).ok() &&
            message.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())) &&
            message.model_name() == "linear" &&
            message.outputs_size() == message.raw_output_contents_size();
        return {is_whole ? name : "0 without an answer", !is_whole};
      }
      case grpc::INTERNAL:  // also gRPC's own word for a message that cannot be read
      case grpc::INVALID_ARGUMENT:
      case grpc::NOT_FOUND:
      case grpc::UNIMPLEMENTED:
      case grpc::RESOURCE_EXHAUSTED:
      case grpc::UNAVAILABLE:
        // gRPC itself says no word about a message it cannot read.
        return {name, status.error_message().empty() && status.error_code() != grpc::UNIMPLEMENTED};
      case grpc::DEADLINE_EXCEEDED:  // of the request's own timeout; else it is this client's
                                     // patience
        if (status.error_message().starts_with("Request timeout expired")) return {name};
        return {"not answered", true};
      default:
        return {name + ": " + status.error_message(), true};
    }
  }

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
  std::map<std::string, int64_t> answers, wrong;
  const auto work = [&] {
    std::map<std::string, int64_t> mine, not_mine;
    Caller caller(port);
    int in_vain = 0;
    for (int64_t k; !is_gone && (k = next++) < count;) {
      Random random(seed * 1000003 + static_cast<uint64_t>(k));
      std::string data = good[below(random, good.size())];
      if (!is_http && below(random, 2) == 0)
        data = with_wrong_fields(data, random);
      else
        mutate(data, random);
      const Outcome outcome =
          is_http ? ask(port, data, static_cast<uint32_t>(k), true) : caller.ask(data);
      ++mine[outcome.name];
      if (outcome.is_wrong) not_mine.try_emplace(outcome.name, k);
      const bool failed = outcome.name == kNoConnection ||
                          (!is_http && outcome.name == std::to_string(grpc::UNAVAILABLE));
      in_vain = failed ? in_vain + 1 : 0;
      if (in_vain > 50) is_gone = true;
    }
    const std::lock_guard lock(mutex);
    for (const auto& [answer, times] : mine) answers[answer] += times;
    wrong.merge(not_mine);
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
  const Outcome last = is_http ? ask(port, good[0], 0, false) : Caller(port).ask(good[0]);
  const bool is_well = !is_gone && last.name == (is_http ? "200" : "0");
  if (!is_well) fmt::print("error: the server does not answer any more: {}\n", last.name);
  for (const auto& [answer, k] : wrong)
    fmt::print("error: not as the protocol has it: {} (message {} of seed {})\n", answer, k, seed);
  return is_well && wrong.empty() && !answers.contains(kNoConnection) ? 0 : 1;
}
