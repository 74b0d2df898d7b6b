// SPDX-License-Identifier: Apache-2.0
// Values of a network's inputs and outputs in files and folders, read by one rule for all commands.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/tensor_files.h"

namespace camshaft::cli {

using NamedTensors = std::map<std::string, HostTensor>;

// Input values and expected outputs, by name.
struct DataSet {
  std::string source;  // the folder or file it came from
  NamedTensors inputs, outputs;
};

struct NetworkNames {
  std::vector<std::string> inputs, outputs;
};

// What becomes of an array that has no input's or output's name.
enum class UnknownArrays : uint8_t {
  kRefuse,  // it may be a misspelled expectation
  kSkip,    // labels beside the samples
};

// A tensor without a name of the network's is its lone input if it is alone in its file. Returns
// whether there was a place for it.
bool place(HostTensor tensor, bool is_alone, const NetworkNames& network, DataSet& set);

// Calls `visit` with every data set of `source` until it returns false. A source is
//   a folder of ONNX test data (input_N.pb, output_N.pb, or test_data_set_N folders of them),
//   a folder of .npz and .npy files, in order of their names, or one .npz, .npy or .pb file.
Status read_data_sets(const std::filesystem::path& source, const NetworkNames& network,
                      UnknownArrays unknown, const std::function<Result<bool>(DataSet)>& visit);

}  // namespace camshaft::cli
