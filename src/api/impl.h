// SPDX-License-Identifier: Apache-2.0
// What stands behind the public handles, and the conversions between public and internal types.
#pragma once

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "camshaft/context.h"
#include "camshaft/engine.h"
#include "camshaft/inspector.h"
#include "camshaft/types.h"
#include "engine/engine.h"
#include "runtime/context.h"

namespace camshaft {

struct Engine::Impl {
  std::shared_ptr<const engine::Engine> engine;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<OptimizationProfile> profiles;
  EngineInfo info;
};

struct Context::Impl {
  Engine engine;
  std::unique_ptr<runtime::Context> context;
  std::vector<Dims> input_dims;  // as set, or the profile's opt shape
  bool has_run = false;
};

namespace api {

// What `body` returns, a Status or a Result; an error where it throws: no exception crosses the
// library's border.
template <class Body>
auto guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::kResources, "out of memory");
  } catch (const std::length_error&) {
    return Status(ErrorCode::kResources, "out of memory");
  } catch (const std::system_error& error) {
    return Status(ErrorCode::kResources, std::string("the system refused: ") + error.what());
  } catch (const std::exception& error) {
    return Status(ErrorCode::kInternal, error.what());
  }
}

Engine wrap_engine(std::shared_ptr<const engine::Engine> engine);
TensorInfo tensor_info(std::string name, ir::DataType type, bool has_rank, const ir::Shape& shape,
                       const ir::SymbolTable& symbols);

inline DataType to_public(ir::DataType type) {
  return static_cast<DataType>(type);
}
inline ir::DataType to_internal(DataType type) {
  return static_cast<ir::DataType>(type);
}
inline Dims to_public(const ir::Extents& extents) {
  return Dims(extents.begin(), extents.end());
}
// Ranks above ir::kMaxRank are the caller's to refuse.
inline ir::Extents to_internal(std::span<const int64_t> dims) {
  return ir::Extents(dims.begin(), dims.end());
}

}  // namespace api
}  // namespace camshaft
