// SPDX-License-Identifier: Apache-2.0
#include "grpc/grpc_server.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>

#include "base/status.h"
#include "grpc/grpc_messages.h"
#include "grpc/grpc_stream.h"
#include "inference_service.grpc.pb.h"

namespace camshaft::serve {
namespace {

using Context = ::grpc::CallbackServerContext;
using Reactor = ::grpc::ServerUnaryReactor;

constexpr int kMostStreams = 4096;  // calls of one connection at a time
constexpr int kMostMetadata = 16 << 10;

class Service : public inference::GRPCInferenceService::CallbackService {
 public:
  Service(Core& core, std::string token) : core_(core), token_(std::move(token)) {}

  Reactor* ServerLive(Context* context, const inference::ServerLiveRequest*,
                      inference::ServerLiveResponse* response) override {
    response->set_live(true);
    return finished(context, std::nullopt);
  }

  Reactor* ServerReady(Context* context, const inference::ServerReadyRequest*,
                       inference::ServerReadyResponse* response) override {
    response->set_ready(core_.is_ready());
    return finished(context, std::nullopt);
  }

  Reactor* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* response) override {
    return answer(context, [&]() -> std::optional<Error> {
      ModelPtr model;
      response->set_ready(!core_.repository().find(request->name(), request->version(), model));
      return std::nullopt;
    });
  }

  Reactor* ServerMetadata(Context* context, const inference::ServerMetadataRequest*,
                          inference::ServerMetadataResponse* response) override {
    return answer(context, [&]() -> std::optional<Error> {
      *response = Core::metadata();
      return std::nullopt;
    });
  }

  Reactor* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* response) override {
    return answer(context, [&] {
      return core_.model_metadata(request->name(), request->version(), *response);
    });
  }

  Reactor* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override {
    return answer(context, [&] {
      return core_.model_config(request->name(), request->version(), *response->mutable_config());
    });
  }

  Reactor* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                           inference::ModelStatisticsResponse* response) override {
    return answer(context,
                  [&] { return core_.statistics(request->name(), request->version(), *response); });
  }

  Reactor* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                           inference::RepositoryIndexResponse* response) override {
    return answer(context, [&]() -> std::optional<Error> {
      *response = core_.repository().index(request->ready());
      return std::nullopt;
    });
  }

  Reactor* RepositoryModelLoad(Context* context,
                               const inference::RepositoryModelLoadRequest* request,
                               inference::RepositoryModelLoadResponse*) override {
    if (!may_enter(*context)) return refused(context);
    std::string config;
    for (const auto& [name, value] : request->parameters()) {
      if (name != "config" || !value.has_string_param())
        return finished(context,
                        Error{Failure::kUnsupported,
                              fmt::format("load: the parameter '{}' is not supported: models come "
                                          "from the repository's folder",
                                          name)});
      config = value.string_param();
    }
    Reactor* reactor = context->DefaultReactor();
    core_.load(request->model_name(), config, [reactor](const std::optional<Error>& error) {
      reactor->Finish(error ? grpc_status(*error) : ::grpc::Status::OK);
    });
    return reactor;
  }

  Reactor* RepositoryModelUnload(Context* context,
                                 const inference::RepositoryModelUnloadRequest* request,
                                 inference::RepositoryModelUnloadResponse*) override {
    if (!may_enter(*context)) return refused(context);
    Reactor* reactor = context->DefaultReactor();
    core_.unload(request->model_name(), [reactor](const std::optional<Error>& error) {
      reactor->Finish(error ? grpc_status(*error) : ::grpc::Status::OK);
    });
    return reactor;
  }

  Reactor* ModelInfer(Context* context, const inference::ModelInferRequest* message,
                      inference::ModelInferResponse* response) override {
    if (!may_enter(*context)) return refused(context);
    ModelPtr model;
    auto request = std::make_shared<Request>();
    auto memory = std::make_shared<std::deque<std::vector<std::byte>>>();
    auto error = core_.repository().find(message->model_name(), message->model_version(), model);
    if (!error) error = read_inference(*message, *memory, *request);
    if (error) return finished(context, error);
    request->keeper = memory;
    request->is_abandoned = [context] { return context->IsCancelled(); };
    Reactor* reactor = context->DefaultReactor();
    // The call, and with it messages and context, lives until Finish.
    request->done = [reactor, response, model,
                     weak = std::weak_ptr<Request>(request)](Answer&& answer) {
      auto failed = answer.error;
      if (!failed) failed = write_inference(*model, *weak.lock(), answer, *response);
      reactor->Finish(failed ? grpc_status(*failed) : ::grpc::Status::OK);
    };
    if (auto refusal = core_.infer(message->model_name(), "", request, model))
      reactor->Finish(grpc_status(*refusal));
    return reactor;
  }

  StreamReactor* ModelStreamInfer(Context* context) override {
    if (!may_enter(*context)) return make_refused_stream(unauthenticated());
    return make_stream(core_, *context);
  }

 private:
  static ::grpc::Status unauthenticated() {
    return {::grpc::StatusCode::UNAUTHENTICATED,
            "the token is missing or wrong (metadata authorization: Bearer TOKEN)"};
  }

  bool may_enter(const Context& context) const {
    if (token_.empty()) return true;
    const auto given = context.client_metadata().find("authorization");
    const std::string wanted = "Bearer " + token_;
    return given != context.client_metadata().end() && given->second.size() == wanted.size() &&
           CRYPTO_memcmp(given->second.data(), wanted.data(), wanted.size()) == 0;
  }

  static Reactor* refused(Context* context) {
    Reactor* reactor = context->DefaultReactor();
    reactor->Finish(unauthenticated());
    return reactor;
  }

  static Reactor* finished(Context* context, const std::optional<Error>& error) {
    Reactor* reactor = context->DefaultReactor();
    reactor->Finish(error ? grpc_status(*error) : ::grpc::Status::OK);
    return reactor;
  }

  template <class Function>
  Reactor* answer(Context* context, const Function& function) {
    return may_enter(*context) ? finished(context, function()) : refused(context);
  }

  Core& core_;
  std::string token_;
};

Result<std::string> read_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream.is_open() || stream.bad())
    return make_error(ErrorCode::kIo, "{} cannot be read", file);
  return text;
}

class GrpcServer : public FrontEnd {
 public:
  GrpcServer(Core& core, GrpcOptions options)
      : options_(std::move(options)), service_(core, options_.token) {}
  ~GrpcServer() override { stop(std::chrono::system_clock::now()); }

  Status start() override {
    CAMSHAFT_ASSIGN(const auto credentials, make_credentials());
    ::grpc::ServerBuilder builder;
    const bool is_v6 = options_.host.find(':') != std::string::npos;
    const std::string address =
        fmt::format("{}{}{}:{}", is_v6 ? "[" : "", options_.host, is_v6 ? "]" : "", options_.port);
    builder.AddListeningPort(address, credentials, &port_);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(
        std::min<size_t>(options_.message_bytes, std::numeric_limits<int>::max())));
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMostMetadata);
    ::grpc::ResourceQuota quota("camshaft");
    quota.Resize(options_.all_message_bytes);
    builder.SetResourceQuota(quota);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0)
      return make_error(ErrorCode::kIo, "--grpc: cannot listen on {}", address);
    return ok_status();
  }

  int port() const override { return port_; }

  void stop(std::chrono::system_clock::time_point deadline) override {
    if (!server_) return;
    server_->Shutdown(deadline);
    server_->Wait();
    server_.reset();
  }

 private:
  Result<std::shared_ptr<::grpc::ServerCredentials>> make_credentials() const {
    if (options_.certificate.empty()) return ::grpc::InsecureServerCredentials();
    ::grpc::SslServerCredentialsOptions ssl;
    CAMSHAFT_ASSIGN(const std::string certificate, read_file(options_.certificate));
    CAMSHAFT_ASSIGN(const std::string key, read_file(options_.key));
    ssl.pem_key_cert_pairs.push_back({key, certificate});
    return ::grpc::SslServerCredentials(ssl);
  }

  GrpcOptions options_;
  Service service_;
  std::unique_ptr<::grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

std::unique_ptr<FrontEnd> make_grpc_server(Core& core, const GrpcOptions& options) {
  return std::make_unique<GrpcServer>(core, options);
}

}  // namespace camshaft::serve
