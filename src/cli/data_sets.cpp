// SPDX-License-Identifier: Apache-2.0
#include "cli/data_sets.h"

#include <algorithm>

#include <fmt/format.h>

namespace camshaft::cli {
namespace {

using std::filesystem::path;

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "a/b/input_12.pb" -> 12 for prefix "input_"; -1: not of that form.
int file_number(const path& file, const std::string& prefix) {
  const std::string stem = file.stem().string();
  if (file.extension() != ".pb" || !stem.starts_with(prefix)) return -1;
  const std::string digits = stem.substr(prefix.size());
  if (digits.empty() || digits.size() > 6 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return -1;
  return std::stoi(digits);
}

Status read_numbered(const path& folder, const std::string& prefix,
                     const std::vector<std::string>& names, NamedTensors& tensors) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const int number = file_number(entry.path(), prefix);
    if (number < 0) continue;
    CAMSHAFT_ASSIGN(HostTensor tensor, read_tensor(entry.path()));
    // The number is the position; a stored name that the network has wins.
    const bool named = is_in(names, tensor.name);
    if (!named && static_cast<size_t>(number) >= names.size()) {
      return make_error(ErrorCode::kInvalidArgument, "{}: the network has only {} of these",
                        entry.path().string(), names.size());
    }
    tensors[named ? tensor.name : names[static_cast<size_t>(number)]] = std::move(tensor);
  }
  if (error) return make_error(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  return ok_status();
}

bool is_array_file(const path& file) {
  return file.extension() == ".npy" || file.extension() == ".npz";
}

struct Folder {
  std::vector<path> sets;    // test_data_set_N, or the folder itself where it has input_N.pb
  std::vector<path> arrays;  // .npy and .npz
};

Result<Folder> look_into(const path& source) {
  Folder folder;
  bool has_numbered = false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(source, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name.starts_with("test_data_set_"))
      folder.sets.push_back(entry.path());
    has_numbered |=
        file_number(entry.path(), "input_") >= 0 || file_number(entry.path(), "output_") >= 0;
    if (is_array_file(entry.path())) folder.arrays.push_back(entry.path());
  }
  if (error) return make_error(ErrorCode::kIo, "{}: {}", source.string(), error.message());
  if (folder.sets.empty() && has_numbered) folder.sets.push_back(source);
  std::sort(folder.sets.begin(), folder.sets.end());
  std::sort(folder.arrays.begin(), folder.arrays.end());
  return folder;
}

Result<DataSet> read_test_set(const path& folder, const NetworkNames& network) {
  DataSet set{folder.string(), {}, {}};
  CAMSHAFT_TRY(read_numbered(folder, "input_", network.inputs, set.inputs));
  CAMSHAFT_TRY(read_numbered(folder, "output_", network.outputs, set.outputs));
  if (set.inputs.empty() && set.outputs.empty())
    return make_error(ErrorCode::kInvalidArgument, "{}: no input_N.pb or output_N.pb in it",
                      folder.string());
  return set;
}

Result<DataSet> read_array_file(const path& file, const NetworkNames& network,
                                UnknownArrays unknown) {
  std::vector<HostTensor> tensors;
  if (file.extension() == ".npz") {
    CAMSHAFT_ASSIGN(tensors, read_npz(file));
  } else {
    CAMSHAFT_ASSIGN(HostTensor tensor, read_tensor(file));
    if (!tensor.has_shape)
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: raw bytes have no shape: data is a folder, .npz, .npy or .pb",
                        file.string());
    tensors.push_back(std::move(tensor));
  }
  DataSet set{file.string(), {}, {}};
  const bool is_alone = tensors.size() == 1;
  for (HostTensor& tensor : tensors) {
    const std::string name = tensor.name;
    if (place(std::move(tensor), is_alone, network, set)) continue;
    if (unknown == UnknownArrays::kSkip && !is_alone) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: the network has no input or output '{}'; its inputs are {}",
                      file.string(), name, fmt::join(network.inputs, ", "));
  }
  return set;
}

}  // namespace

bool place(HostTensor tensor, bool is_alone, const NetworkNames& network, DataSet& set) {
  std::string name = tensor.name;
  if (is_in(network.outputs, name) && !is_in(network.inputs, name)) {
    set.outputs[name] = std::move(tensor);
    return true;
  }
  if (!is_in(network.inputs, name)) {
    if (!is_alone || network.inputs.size() != 1) return false;
    name = network.inputs[0];
  }
  set.inputs[name] = std::move(tensor);
  return true;
}

Status read_data_sets(const path& source, const NetworkNames& network, UnknownArrays unknown,
                      const std::function<Result<bool>(DataSet)>& visit) {
  std::error_code error;
  if (!std::filesystem::exists(source, error))
    return make_error(ErrorCode::kIo, "{}: there is no such file or folder", source.string());
  if (!std::filesystem::is_directory(source, error)) {
    CAMSHAFT_ASSIGN(DataSet set, read_array_file(source, network, unknown));
    return visit(std::move(set)).status();
  }
  CAMSHAFT_ASSIGN(const Folder folder, look_into(source));
  const bool is_test_data = !folder.sets.empty();
  const std::vector<path>& files = is_test_data ? folder.sets : folder.arrays;
  if (files.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: no .npz, .npy, input_N.pb or test_data_set_N in it", source.string());
  for (const path& file : files) {
    CAMSHAFT_ASSIGN(DataSet set, is_test_data ? read_test_set(file, network)
                                              : read_array_file(file, network, unknown));
    CAMSHAFT_ASSIGN(const bool more, visit(std::move(set)));
    if (!more) break;
  }
  return ok_status();
}

}  // namespace camshaft::cli
