// SPDX-License-Identifier: Apache-2.0
#include "ep/context_data.h"

namespace camshaft::ep {

Result<ContextData> ContextData::of(const Host& host, const abi::SessionOptions* session) {
  ContextData data;
  if (host.offered < abi::ep_api::kContextDataSince) return data;
  abi::ContextConfig* config = nullptr;
  CAMSHAFT_TRY(host.take(host.ep_api(abi::ep_api::kContextConfig, session, &config)));
  Status status =
      host.take(host.ep_api(abi::ep_api::kContextReader, config, &data.reader, &data.reader_state));
  if (status.ok())
    status = host.take(
        host.ep_api(abi::ep_api::kContextWriter, config, &data.writer, &data.writer_state));
  host.ep_api(abi::ep_api::kReleaseContextConfig, config);
  CAMSHAFT_TRY(status);
  return data;
}

Result<Engine> ContextData::read(const Host& host, const std::string& name) const {
  CAMSHAFT_ASSIGN(abi::Allocator* const allocator,
                  host.get<abi::Allocator*>(abi::api::kDefaultAllocator));
  void* bytes = nullptr;
  size_t size = 0;
  CAMSHAFT_TRY(host.take(reader(reader_state, name.c_str(), allocator, &bytes, &size)));
  Result<Engine> engine = Engine::from_memory({static_cast<const std::byte*>(bytes), size});
  if (bytes != nullptr) CAMSHAFT_TRY(host.call(abi::api::kFree, allocator, bytes));
  return engine;
}

Status ContextData::write(const Host& host, const std::string& name, const Engine& engine) const {
  const std::span<const std::byte> bytes = engine.serialize();
  return host.take(writer(writer_state, name.c_str(), bytes.data(), bytes.size()));
}

}  // namespace camshaft::ep
