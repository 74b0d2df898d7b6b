// SPDX-License-Identifier: Apache-2.0
#include "serve/http_api.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include "serve/proto_json.h"
#include "server/http_routes.h"

namespace camshaft::serve {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr size_t kMostConfigBytes = size_t{1} << 20;

HttpAnswer json_answer(const Json& json) {
  HttpAnswer answer;
  answer.text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return answer;
}

HttpAnswer empty(int status) {
  HttpAnswer answer;
  answer.status = status;
  return answer;
}

HttpAnswer not_found() {
  return http_error(404, "Not Found: there is nothing at this address");
}

HttpAnswer wrong_method(const char* right) {
  return http_error(405, fmt::format("this address takes {}", right));
}

// "/v2/models/m/infer" as {"v2", "models", "m", "infer"}.
Words words_of(std::string_view path) {
  Words words;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    words.push_back(server::url_decoded(path.substr(0, end), false));
    path.remove_prefix(end);
  }
  if (!words.empty() && words.back().empty()) words.pop_back();
  return words;
}

HttpAnswer described(const std::optional<Error>& error, const google::protobuf::Message& message) {
  return error ? http_error(*error) : json_answer(to_json(message));
}

size_t wanted_count(const std::string& query) {
  const auto parameters = server::query_parameters(query);
  const auto found = parameters.find("limit");
  if (found == parameters.end()) return 50;
  size_t count = 50;
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

class Call {
 public:
  Call(Core& core, size_t most_bytes, HttpRequest&& request, HttpReply reply)
      : core_(core),
        most_bytes_(most_bytes),
        request_(std::move(request)),
        reply_(std::move(reply)) {
    const size_t question = std::min(request_.target.find('?'), request_.target.size());
    words_ = words_of(std::string_view(request_.target).substr(0, question));
    query_ = request_.target.substr(std::min(question + 1, request_.target.size()));
  }

  void answer() {
    if (request_.target.empty() || request_.target[0] != '/') return reply_(not_found());
    if (!request_.encoding.empty() && request_.encoding != "identity") {
      std::string body;
      if (request_.encoding != "gzip" && request_.encoding != "deflate")
        return reply_(http_error(415, "Content-Encoding is gzip or deflate"));
      if (auto error = unpack(request_.body.text(), most_bytes_, body))
        return reply_(http_error(*error));
      request_.body = Body(body);
    }
    if (words_.empty() || words_[0] != "v2") return reply_(not_found());
    if (words_.size() == 1) return get([] { return json_answer(to_json(Core::metadata())); });
    if (words_[1] == "health") return health();
    if (words_[1] == "models") return models();
    if (words_[1] == "repository") return repository();
    reply_(not_found());
  }

 private:
  template <class Function>
  void get(const Function& function) {
    reply_(request_.method == "GET" || request_.method == "HEAD" ? function()
                                                                 : wrong_method("GET"));
  }

  void health() {
    if (words_.size() != 3) return reply_(not_found());
    if (words_[2] == "live") return get([] { return empty(200); });
    if (words_[2] == "ready") return get([this] { return empty(core_.is_ready() ? 200 : 503); });
    reply_(not_found());
  }

  // /v2/models/stats, /v2/models/M[/versions/V][/WHAT]
  void models() {
    if (words_.size() == 3 && words_[2] == "stats")
      return get([this] { return statistics("", ""); });
    if (words_.size() < 3) return reply_(not_found());
    const std::string name = words_[2];
    std::string version;
    size_t at = 3;
    if (words_.size() > 4 && words_[3] == "versions") {
      version = words_[4];
      at = 5;
    }
    if (words_.size() > at + 1) return reply_(not_found());
    const std::string what = words_.size() > at ? words_[at] : "";
    if (what == "infer") return infer(name, version);
    get([&] { return describe(name, version, what); });
  }

  HttpAnswer describe(const std::string& name, const std::string& version,
                      const std::string& what) {
    if (what.empty()) {
      inference::ModelMetadataResponse metadata;
      return described(core_.model_metadata(name, version, metadata), metadata);
    }
    if (what == "config") {
      ModelConfig config;
      return described(core_.model_config(name, version, config), config);
    }
    if (what == "stats") return statistics(name, version);
    ModelPtr model;
    const auto error = core_.repository().find(name, version, model);
    if (what == "ready") return error ? http_error(*error) : empty(200);
    if (what == "batches")
      return error ? http_error(*error) : json_answer(model->batches(wanted_count(query_)));
    return not_found();
  }

  HttpAnswer statistics(const std::string& name, const std::string& version) {
    inference::ModelStatisticsResponse statistics;
    return described(core_.statistics(name, version, statistics), statistics);
  }

  void infer(const std::string& name, const std::string& version) {
    if (request_.method != "POST") return reply_(wrong_method("POST"));
    auto request = std::make_shared<Request>();
    auto all_binary = false;
    ModelPtr model;
    if (auto error = core_.repository().find(name, version, model))
      return reply_(http_error(*error));
    if (auto error = read_inference(request_.body, request_.json_bytes, *request, all_binary))
      return reply_(http_error(*error));
    request->is_abandoned = std::move(request_.is_abandoned);
    // The request holds its own answer's function until that is called: no more than a pointer to
    // it.
    request->done = [request = std::weak_ptr<Request>(request), model, all_binary,
                     reply = reply_](Answer&& answer) {
      const RequestPtr asked = request.lock();
      reply(write_inference(*model, *asked, all_binary, std::move(answer)));
    };
    if (auto error = core_.infer(name, version, request, model)) reply_(http_error(*error));
  }

  // /v2/repository/index, /v2/repository/models/M/load|unload
  void repository() {
    if (words_.size() == 3 && words_[2] == "index") {
      if (request_.method != "POST") return reply_(wrong_method("POST"));
      return reply_(index());
    }
    if (words_.size() != 5 || words_[2] != "models") return reply_(not_found());
    if (request_.method != "POST") return reply_(wrong_method("POST"));
    const auto done = [reply = reply_](const std::optional<Error>& error) {
      reply(error ? http_error(*error) : empty(200));
    };
    if (words_[4] == "unload") return core_.unload(words_[3], done);
    if (words_[4] != "load") return reply_(not_found());
    std::string config;
    if (const auto error = load_config(config)) return reply_(http_error(*error));
    core_.load(words_[3], config, done);
  }

  Json body_object() const {
    if (request_.body.size() > kMostConfigBytes) return nullptr;
    return request_.body.empty()
               ? Json::object()
               : Json::parse(request_.body.text(), nullptr, /*allow_exceptions=*/false);
  }

  HttpAnswer index() const {
    const Json body = body_object();
    if (!body.is_object()) return http_error(400, "the request is not a JSON object");
    const auto ready = body.find("ready");
    const bool only_ready = ready != body.end() && ready->is_boolean() && ready->get<bool>();
    return json_answer(to_json(core_.repository().index(only_ready))["models"]);
  }

  std::optional<Error> load_config(std::string& config) const {
    const Json body = body_object();
    if (!body.is_object()) return Error{Failure::kInvalid, "the request is not a JSON object"};
    const auto parameters = body.find("parameters");
    if (parameters == body.end()) return std::nullopt;
    if (!parameters->is_object()) return Error{Failure::kInvalid, "'parameters' must be an object"};
    for (const auto& [name, value] : parameters->items()) {
      if (name != "config")
        return Error{Failure::kUnsupported,
                     fmt::format("load: the parameter '{}' is not supported: models come from the "
                                 "repository's folder",
                                 name.substr(0, 100))};
      if (value.is_object())
        config = value.dump();
      else if (value.is_string())
        config = value.get<std::string>();
      else
        return Error{Failure::kInvalid, "load: the parameter 'config' is JSON"};
    }
    return std::nullopt;
  }

  Core& core_;
  size_t most_bytes_;
  HttpRequest request_;
  HttpReply reply_;
  Words words_;
  std::string query_;
};

}  // namespace

void answer_inference(Core& core, size_t most_bytes, HttpRequest&& request, HttpReply reply) {
  Call(core, most_bytes, std::move(request), std::move(reply)).answer();
}

void answer_metrics(const Core& core, const HttpRequest& request, const HttpReply& reply) {
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path != "/metrics") return reply(not_found());
  if (request.method != "GET" && request.method != "HEAD") return reply(wrong_method("GET"));
  HttpAnswer answer;
  answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
  answer.text = metrics_text(core);
  reply(std::move(answer));
}

bool is_health(const std::string& target) {
  return target == "/v2/health/live" || target == "/v2/health/ready";
}

std::optional<Error> unpack(std::string_view packed, size_t most_bytes, std::string& body) {
  z_stream stream{};
  constexpr int kEitherForm = 15 + 32;
  if (::inflateInit2(&stream, kEitherForm) != Z_OK)
    return Error{Failure::kInternal, "the body could not be unpacked"};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::vector<char> piece(size_t{64} << 10);
  int state = Z_OK;
  while (state == Z_OK && body.size() <= most_bytes) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = ::inflate(&stream, Z_NO_FLUSH);
    body.append(piece.data(), piece.size() - stream.avail_out);
  }
  ::inflateEnd(&stream);
  if (body.size() > most_bytes)
    return Error{Failure::kInvalid,
                 fmt::format("the unpacked body is larger than {} bytes", most_bytes)};
  if (state != Z_STREAM_END) return Error{Failure::kInvalid, "the packed body is damaged"};
  return std::nullopt;
}

}  // namespace camshaft::serve
