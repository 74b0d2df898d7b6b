// SPDX-License-Identifier: Apache-2.0
// An engine: a network optimized for a machine. Immutable and cheap to copy (a shared handle); any
// number of contexts, on any threads, may run the same one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "camshaft/types.h"

namespace camshaft {

struct EngineInfo {
  std::string model_name;       // the ONNX graph's name
  std::string builder_version;  // of the Camshaft that built it
  std::string cpu_model;        // of the machine it was tuned on
  bool same_cpu = true;         // this machine is of that kind; false: it runs, tuned for another
  int build_threads = 1;        // the thread count its tactics were timed with
  int layer_count = 0;
  size_t file_bytes = 0;
  size_t weight_bytes = 0;
  double peak_gmacs =
      0;  // FMA peak of one thread, 1e9 multiply-adds/s, measured while building; 0: not measured
  double read_gbytes = 0;  // memory read rate of one thread, 1e9 bytes/s, likewise
  Verbosity verbosity = Verbosity::kDetailed;
};

class CAMSHAFT_API Engine {
 public:
  // Maps an engine file. kIo: cannot be read; kCorrupt: damaged, not an engine, or from a newer
  // version.
  static Result<Engine> load(const std::filesystem::path& file);
  // The same from memory; the bytes are copied.
  static Result<Engine> from_memory(std::span<const std::byte> bytes);
  // The same from memory that `owner` keeps alive and nobody changes: shared memory, for example.
  // Used where it lies if it is aligned to 64 bytes, copied otherwise.
  static Result<Engine> from_shared_memory(std::span<const std::byte> bytes,
                                           std::shared_ptr<const void> owner);

  // The engine file's bytes, valid as long as any copy of this engine.
  std::span<const std::byte> serialize() const;
  // Writes a temporary beside `file` and renames it: a failed write leaves nothing.
  Status save(const std::filesystem::path& file) const;

  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  // Null: no input or output of that name.
  const TensorInfo* find(std::string_view name) const;
  const std::vector<OptimizationProfile>& profiles() const;
  const EngineInfo& info() const;

  // For the library itself.
  struct Impl;
  explicit Engine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace camshaft
