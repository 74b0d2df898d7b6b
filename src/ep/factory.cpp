// SPDX-License-Identifier: Apache-2.0
// What ONNX Runtime finds in the library: a factory that claims the processor.
#include <memory>

#include "base/cpu.h"
#include "base/log.h"
#include "camshaft/version.h"
#include "ep/context_node.h"
#include "ep/provider.h"

namespace camshaft::ep {
namespace {

// The library's records, in ONNX Runtime's log.
class HostLog : public Logger {
 public:
  HostLog(const Host& host, const abi::Logger* logger) : host_(host), logger_(logger) {}
  void log(Severity severity, std::string_view text) override {
    const int level = severity <= Severity::kError     ? abi::kLogError
                      : severity == Severity::kWarning ? abi::kLogWarning
                                                       : abi::kLogInfo;
    host_.log(logger_, level, "Camshaft: " + std::string(text));
  }

 private:
  const Host& host_;
  const abi::Logger* logger_;
};

class Factory : public abi::EpFactory {
 public:
  Factory(std::unique_ptr<Host> host, const abi::Logger* logger);

 private:
  static const Host& host_of(EpFactory* factory) { return *static_cast<Factory*>(factory)->host_; }
  static abi::Status* refuse_graphics(EpFactory* factory) {
    return host_of(factory).give(
        make_error(ErrorCode::kUnsupported, "there are no graphics devices here"));
  }
  Status claim(const abi::HardwareDevice* const* devices, size_t count, abi::EpDevice** claimed,
               size_t most, size_t* claimed_count);
  Status make(const abi::SessionOptions* session, const abi::Logger* logger, abi::Ep** ep);
  Result<std::map<std::string, std::string>> entries(const abi::SessionOptions* session) const;

  std::unique_ptr<Host> host_;
  HostLog log_;
};

Factory::Factory(std::unique_ptr<Host> host, const abi::Logger* logger)
    : EpFactory{}, host_(std::move(host)), log_(*host_, logger) {
  set_logger(&log_, Severity::kWarning);
  version = host_->version;
  get_name = [](const EpFactory*) { return kEpName; };
  get_vendor = [](const EpFactory*) { return "Camshaft"; };
  get_vendor_id = [](const EpFactory*) -> uint32_t { return 0; };
  get_version = [](const EpFactory*) { return CAMSHAFT_VERSION; };
  get_supported_devices = [](EpFactory* self, const abi::HardwareDevice* const* devices,
                             size_t count, abi::EpDevice** claimed, size_t most,
                             size_t* claimed_count) {
    return guarded(host_of(self), [&] {
      return static_cast<Factory*>(self)->claim(devices, count, claimed, most, claimed_count);
    });
  };
  create_ep = [](EpFactory* self, const abi::HardwareDevice* const*,
                 const abi::KeyValuePairs* const*, size_t, const abi::SessionOptions* session,
                 const abi::Logger* session_logger, abi::Ep** ep) {
    return guarded(host_of(self),
                   [&] { return static_cast<Factory*>(self)->make(session, session_logger, ep); });
  };
  release_ep = [](EpFactory*, abi::Ep* ep) { delete static_cast<Provider*>(ep); };
  validate_compiled_model = [](EpFactory* self, const abi::HardwareDevice* const*, size_t,
                               const char* info, int* compatibility) {
    return guarded(host_of(self), [&] {
      *compatibility = judge_compatibility(info != nullptr ? info : "");
      return ok_status();
    });
  };

  // The host's own memory is all that is used.
  create_allocator = [](EpFactory*, const abi::MemoryInfo*, const abi::KeyValuePairs*,
                        abi::Allocator** allocator) -> abi::Status* {
    *allocator = nullptr;
    return nullptr;
  };
  release_allocator = [](EpFactory*, abi::Allocator*) {};
  create_data_transfer = [](EpFactory*, abi::DataTransferImpl** transfer) -> abi::Status* {
    *transfer = nullptr;
    return nullptr;
  };
  is_stream_aware = [](const EpFactory*) { return false; };
  create_stream = [](EpFactory*, const abi::MemoryDevice*, const abi::KeyValuePairs*,
                     abi::SyncStreamImpl** stream) -> abi::Status* {
    *stream = nullptr;
    return nullptr;
  };
  incompatibility_details = [](EpFactory*, const abi::HardwareDevice*,
                               abi::IncompatibilityDetails*) -> abi::Status* { return nullptr; };
  create_resource_importer = [](EpFactory*, const abi::EpDevice*,
                                abi::ExternalResourceImporter** importer) -> abi::Status* {
    *importer = nullptr;
    return nullptr;
  };
  custom_op_domain_count = [](EpFactory*, size_t* count) -> abi::Status* {
    *count = 0;
    return nullptr;
  };
  custom_op_domains = [](EpFactory*, abi::CustomOpDomain**, size_t) -> abi::Status* {
    return nullptr;
  };
  init_graphics = [](EpFactory* self, const abi::EpDevice*, const void*) {
    return refuse_graphics(self);
  };
  deinit_graphics = [](EpFactory* self, const abi::EpDevice*) { return refuse_graphics(self); };
  select_best_candidate = [](EpFactory*, const abi::HardwareDevice*,
                             const abi::KeyValuePairs* const*, size_t, const abi::SessionOptions*,
                             size_t* selected) -> abi::Status* {
    *selected = 0;
    return nullptr;
  };
}

Status Factory::claim(const abi::HardwareDevice* const* devices, size_t count,
                      abi::EpDevice** claimed, size_t most, size_t* claimed_count) {
  *claimed_count = 0;
  for (size_t k = 0; k < count && *claimed_count < most; ++k) {
    if (host_->api(abi::api::kDeviceType, devices[k]) != abi::kCpu) continue;
    abi::KeyValuePairs* metadata = nullptr;
    host_->api(abi::api::kCreatePairs, &metadata);
    host_->api(abi::api::kAddPair, metadata, "isa", std::string(isa_name(active_isa())).c_str());
    const Status status = host_->take(host_->ep_api(abi::ep_api::kCreateEpDevice, this, devices[k],
                                                    metadata, nullptr, &claimed[*claimed_count]));
    host_->api(abi::api::kReleasePairs, metadata);
    CAMSHAFT_TRY(status);
    ++*claimed_count;
  }
  return ok_status();
}

Result<std::map<std::string, std::string>> Factory::entries(
    const abi::SessionOptions* session) const {
  CAMSHAFT_ASSIGN(abi::KeyValuePairs* const pairs,
                  host_->get<abi::KeyValuePairs*>(abi::api::kConfigEntries, session));
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  host_->api(abi::api::kPairs, pairs, &keys, &values, &count);
  std::map<std::string, std::string> result;
  for (size_t k = 0; k < count; ++k) result[keys[k]] = values[k];
  host_->api(abi::api::kReleasePairs, pairs);
  return result;
}

Status Factory::make(const abi::SessionOptions* session, const abi::Logger* logger, abi::Ep** ep) {
  CAMSHAFT_ASSIGN(const auto given, entries(session));
  CAMSHAFT_ASSIGN(const Options options, read_options(given));
  CAMSHAFT_ASSIGN(const ContextData context_data, ContextData::of(*host_, session));
  *ep = new Provider(*host_, logger, options, context_data);
  return ok_status();
}

}  // namespace

abi::Status* create_factories(const char*, const void* api_base, const abi::Logger* logger,
                              abi::EpFactory** factories, size_t most, size_t* count) {
  *count = 0;
  abi::Status* refusal = nullptr;
  std::unique_ptr<Host> host = Host::negotiate(api_base, &refusal);
  if (!host || most == 0) return refusal;
  const Host& negotiated = *host;
  return guarded(negotiated, [&] {
    factories[0] = new Factory(std::move(host), logger);
    *count = 1;
    return ok_status();
  });
}

// The factory stays: sessions that outlive the registration look at what it holds.
abi::Status* release_factory(abi::EpFactory*) {
  set_logger(nullptr);
  return nullptr;
}

}  // namespace camshaft::ep
