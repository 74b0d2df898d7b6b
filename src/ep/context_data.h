// SPDX-License-Identifier: Apache-2.0
// Where engines that do not lie inside their ONNX file are: files beside it, or whatever the
// application's own functions make of their names (encrypted, in a database, somewhere else).
#pragma once

#include <string>

#include "camshaft/engine.h"
#include "ep/host.h"

namespace camshaft::ep {

struct ContextData {
  abi::ReadNamed reader = nullptr;
  abi::WriteNamed writer = nullptr;
  void* reader_state = nullptr;
  void* writer_state = nullptr;

  // What the session was given; nothing on a host that has no such functions.
  static Result<ContextData> of(const Host& host, const abi::SessionOptions* session);

  Result<Engine> read(const Host& host, const std::string& name) const;
  Status write(const Host& host, const std::string& name, const Engine& engine) const;
};

}  // namespace camshaft::ep
