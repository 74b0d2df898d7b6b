// SPDX-License-Identifier: Apache-2.0
// Tensors in files: NPY, NPZ (stored or deflated), ONNX TensorProto (.pb) and raw little-endian
// bytes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "camshaft/types.h"

namespace camshaft::cli {

struct HostTensor {
  std::string name;  // of a .pb or .npz entry; may be empty
  DataType type = DataType::kUndefined;
  bool has_shape = true;  // false: raw bytes, which fit any shape of their size
  Dims dims;
  std::vector<std::byte> bytes;
  std::string note = {};  // what was converted while reading; the reader's caller prints it

  TensorView view() const { return {type, dims, bytes.data()}; }
};

// By the name's ending: .npy, .pb, anything else is raw. Pictures are refused: how their pixels
// become numbers is the network's business. Big-endian NPY becomes little-endian, with a note.
Result<HostTensor> read_tensor(const std::filesystem::path& file);
Result<std::vector<HostTensor>> read_npz(const std::filesystem::path& file);
Result<HostTensor> parse_npy(std::span<const std::byte> bytes, const std::string& what);

// Written to a temporary beside `file`, then renamed; what is no regular file (/dev/stdout, a pipe)
// is written as it is. bfloat16 has no NPY type and is stored as
// uint16.
Status write_npy(const std::filesystem::path& file, const TensorView& view);
Status write_file(const std::filesystem::path& file, std::span<const std::byte> bytes);
Status write_file(const std::filesystem::path& file, const std::string& text);
Result<std::vector<std::byte>> read_file(const std::filesystem::path& file);
// An error where `file` could not be written or read later: said before the work, not after it.
// Empty names are fine.
Status check_writable(const std::filesystem::path& file, std::string_view option);
Status check_readable(const std::filesystem::path& file, std::string_view option);

// A tensor name as a file name: '/' and other separators become '_'.
std::string file_name_of(const std::string& tensor_name);
// The same of several tensors, no two alike: "a/b" and "a:b" become "a_b" and "a_b_2".
std::vector<std::string> file_names_of(const std::vector<TensorInfo>& tensors);

}  // namespace camshaft::cli
