// SPDX-License-Identifier: Apache-2.0
#include "cli/samples.h"

#include <algorithm>
#include <cstring>

#include "cli/session.h"
#include "cli/statistics.h"

namespace camshaft::cli {
namespace {

using kernels::Value;
using quantize::Sample;

std::vector<std::string> names_of(const std::vector<ir::Tensor*>& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const ir::Tensor* tensor : tensors) names.push_back(tensor->name);
  return names;
}

Status bad(const std::string& source, std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument, "{}: {}", source, why);
}

// The tensor with the input's type: floats from whatever numbers the file holds.
Result<HostTensor> converted(HostTensor tensor, ir::DataType wanted, const std::string& source) {
  if (!tensor.has_shape) return bad(source, "raw bytes have no shape: use .npy or .npz");
  const auto type = static_cast<DataType>(wanted);
  if (tensor.type == type) return tensor;
  if (type != DataType::kFloat)
    return make_error(ErrorCode::kInvalidArgument, "{}: the network wants {}, the file has {}",
                      source, type_name(type), type_name(tensor.type));
  const std::vector<double> numbers = to_doubles(tensor.view());
  const std::vector<float> floats(numbers.begin(), numbers.end());
  tensor.type = DataType::kFloat;
  tensor.bytes.resize(floats.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), floats.data(), tensor.bytes.size());
  return tensor;
}

// The tensor cut along its first dimension into what the network takes at once.
Result<std::vector<Value>> pieces(HostTensor tensor, const ir::Tensor& input,
                                  const std::string& source) {
  Dims& dims = tensor.dims;
  if (input.has_rank && dims.size() + 1 == input.shape.size()) dims.insert(dims.begin(), 1);
  if (dims.size() > ir::kMaxRank || (input.has_rank && dims.size() != input.shape.size()))
    return bad(source, fmt::format("values of shape {} do not fit input \"{}\"", to_string(dims),
                                   input.name));
  int64_t count = 1;
  if (input.has_rank && dims.size() > 1) {
    const ir::Dim batch = input.shape[0];
    const int64_t step = batch.is_known() ? std::max<int64_t>(batch.extent(), 1) : 1;
    if (dims[0] > step && dims[0] % step == 0) count = dims[0] / step;
    if (count > 1) dims[0] = step;
  }
  const ir::Extents extents(dims.begin(), dims.end());
  const size_t bytes = tensor.bytes.size() / static_cast<size_t>(count);
  std::vector<Value> values;
  for (int64_t k = 0; k < count; ++k) {
    const auto first = tensor.bytes.begin() + k * static_cast<int64_t>(bytes);
    CAMSHAFT_ASSIGN(Value value, kernels::make_value(input.type, extents,
                                                     {first, first + static_cast<int64_t>(bytes)}));
    values.push_back(std::move(value));
  }
  return values;
}

class Reader {
 public:
  Reader(const ir::Graph& graph, size_t most) : graph_(graph), most_(most) {}

  Status read(const std::filesystem::path& source) {
    std::error_code error;
    if (std::filesystem::is_directory(source, error)) return read_folder(source);
    if (!std::filesystem::exists(source, error))
      return bad(source.string(), "there is no such file");
    return read_file(source);
  }

  std::vector<Sample> take() { return std::move(samples_); }

 private:
  bool full() const { return most_ > 0 && samples_.size() >= most_; }

  Status read_folder(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    bool is_test_data = false;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      is_test_data = is_test_data || name.starts_with("test_data_set_") ||
                     (name.starts_with("input_") && name.ends_with(".pb"));
      const std::string ending = entry.path().extension().string();
      if (ending == ".npy" || ending == ".npz") files.push_back(entry.path());
    }
    if (is_test_data) return read_test_data(folder);
    if (files.empty())
      return bad(folder.string(), "no .npz, .npy, input_N.pb or test_data_set_N in it");
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      if (full()) break;
      CAMSHAFT_TRY(read_file(file));
    }
    return ok_status();
  }

  Status read_test_data(const std::filesystem::path& folder) {
    CAMSHAFT_ASSIGN(std::vector<DataSet> sets, read_test_folder(folder, names_of(graph_.inputs()),
                                                                names_of(graph_.outputs())));
    for (DataSet& set : sets) {
      if (full()) break;
      Sample sample;
      for (auto& [name, tensor] : set.inputs) {
        const ir::Extents extents(tensor.dims.begin(), tensor.dims.end());
        CAMSHAFT_ASSIGN(sample[name], kernels::make_value(static_cast<ir::DataType>(tensor.type),
                                                          extents, std::move(tensor.bytes)));
      }
      CAMSHAFT_TRY(quantize::check_sample(graph_, sample).with_context(set.source));
      samples_.push_back(std::move(sample));
    }
    return ok_status();
  }

  const ir::Tensor* input_for(const std::string& name, size_t tensors) const {
    for (const ir::Tensor* input : graph_.inputs())
      if (input->name == name) return input;
    return tensors == 1 && graph_.inputs().size() == 1 ? graph_.inputs()[0] : nullptr;
  }

  Status read_file(const std::filesystem::path& file) {
    std::vector<HostTensor> tensors;
    if (file.extension() == ".npz") {
      CAMSHAFT_ASSIGN(tensors, read_npz(file));
    } else if (file.extension() == ".npy" || file.extension() == ".pb") {
      CAMSHAFT_ASSIGN(HostTensor tensor, read_tensor(file));
      tensors.push_back(std::move(tensor));
    } else {
      return bad(file.string(), "samples are folders, .npz, .npy or .pb files");
    }
    std::map<std::string, std::vector<Value>> values;
    size_t count = 1;
    for (HostTensor& tensor : tensors) {
      const ir::Tensor* input = input_for(tensor.name, tensors.size());
      if (input == nullptr) continue;  // labels, expected outputs
      CAMSHAFT_ASSIGN(tensor, converted(std::move(tensor), input->type, file.string()));
      CAMSHAFT_ASSIGN(values[input->name], pieces(std::move(tensor), *input, file.string()));
      count = std::max(count, values[input->name].size());
    }
    return add(file, values, count);
  }

  Status add(const std::filesystem::path& file,
             const std::map<std::string, std::vector<Value>>& values, size_t count) {
    for (size_t k = 0; k < count && !full(); ++k) {
      Sample sample;
      for (const auto& [name, list] : values) {
        if (list.size() != count && list.size() != 1)
          return bad(file.string(), fmt::format("input \"{}\" has {} samples, another has {}", name,
                                                list.size(), count));
        sample[name] = list[list.size() == 1 ? 0 : k];
      }
      CAMSHAFT_TRY(quantize::check_sample(graph_, sample).with_context(file.string()));
      samples_.push_back(std::move(sample));
    }
    return ok_status();
  }

  const ir::Graph& graph_;
  size_t most_;
  std::vector<Sample> samples_;
};

}  // namespace

Result<std::vector<Sample>> read_samples(const ir::Graph& graph,
                                         const std::vector<std::string>& sources, size_t most) {
  Reader reader(graph, most);
  for (const std::string& source : sources) CAMSHAFT_TRY(reader.read(source));
  return reader.take();
}

}  // namespace camshaft::cli
