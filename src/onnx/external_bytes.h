// SPDX-License-Identifier: Apache-2.0
// The bytes that a tensor's external_data entries name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onnx/tensor_data.h"

namespace camshaft::onnx_import {

using ExternalEntries = std::vector<std::pair<std::string, std::string>>;

struct ExternalBytes {
  std::shared_ptr<const MappedFile> file;  // keeps the bytes alive
  std::span<const std::byte> bytes;
};

// What the entries (location, offset, length) name: `wanted` bytes, else as many as they say, else
// all to the end of the file. Only files that `external` allows.
Result<ExternalBytes> external_bytes(ExternalData& external, const ExternalEntries& entries,
                                     std::optional<size_t> wanted);

}  // namespace camshaft::onnx_import
