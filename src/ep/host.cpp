// SPDX-License-Identifier: Apache-2.0
#include "ep/host.h"

#include <algorithm>
#include <cstdlib>

namespace camshaft::ep {
namespace {

// "1.31.1" is interface version 31.
uint32_t interface_version(const std::string& text) {
  const size_t dot = text.find('.');
  if (dot == std::string::npos || text.substr(0, dot) != "1") return 0;
  return static_cast<uint32_t>(std::strtoul(text.c_str() + dot + 1, nullptr, 10));
}

}  // namespace

std::unique_ptr<Host> Host::negotiate(const void* api_base, abi::Status** refusal) {
  const abi::Table base(api_base);
  auto host = std::make_unique<Host>();
  host->version_text = base(abi::base::kVersionText);
  host->offered = interface_version(host->version_text);
  host->version = std::min(host->offered, abi::kNewest);
  host->api = abi::Table(base(abi::base::kGetApi, host->version));
  if (!host->api) return nullptr;
  if (host->version < abi::kOldest) {
    const std::string text =
        fmt::format("Camshaft's execution provider needs ONNX Runtime 1.{} or later, this is {}",
                    abi::kOldest, host->version_text);
    *refusal = host->api(abi::api::kCreateStatus, abi::kNotImplemented, text.c_str());
    return nullptr;
  }
  host->ep_api = abi::Table(host->api(abi::api::kEpApi));
  host->editor = abi::Table(host->api(abi::api::kModelEditor));
  return host;
}

Status Host::take(abi::Status* status) const {
  if (status == nullptr) return ok_status();
  Status taken(ErrorCode::kInternal,
               std::string("ONNX Runtime: ") + api(abi::api::kErrorMessage, status));
  api(abi::api::kReleaseStatus, status);
  return taken;
}

abi::Status* Host::give(const Status& status) const {
  if (status.ok()) return nullptr;
  const int code =
      status.code() == ErrorCode::kInvalidArgument ? abi::kInvalidArgument : abi::kFail;
  return api(abi::api::kCreateStatus, code, ("Camshaft: " + status.message()).c_str());
}

void Host::log(const abi::Logger* logger, int level, const std::string& text) const {
  if (logger == nullptr) return;
  // A record that cannot be written is nobody's error.
  (void)take(api(abi::api::kLogMessage, logger, level, text.c_str(), "camshaft", 0, "Camshaft"));
}

}  // namespace camshaft::ep
