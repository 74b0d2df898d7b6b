// SPDX-License-Identifier: Apache-2.0
#include "cli/samples.h"

#include <algorithm>

#include "cli/conversion.h"
#include "cli/data_sets.h"

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
  Reader(const ir::Graph& graph, size_t most, std::vector<std::string>& notes)
      : graph_(graph), most_(most), notes_(notes) {}

  Status read(const std::filesystem::path& source) {
    const NetworkNames names{names_of(graph_.inputs()), names_of(graph_.outputs())};
    return read_data_sets(source, names, UnknownArrays::kSkip, [&](DataSet set) -> Result<bool> {
      CAMSHAFT_TRY(add_set(std::move(set)));
      return !full();
    });
  }

  std::vector<Sample> take() { return std::move(samples_); }

 private:
  bool full() const { return most_ > 0 && samples_.size() >= most_; }

  Status add_set(DataSet set) {
    // ONNX test data has the network's own shapes; arrays may hold many samples.
    const bool may_be_cut = !std::filesystem::is_directory(set.source);
    std::map<std::string, std::vector<Value>> values;
    size_t count = 1;
    for (const ir::Tensor* input : graph_.inputs()) {
      const auto found = set.inputs.find(input->name);
      if (found == set.inputs.end()) continue;  // check_sample() names it
      HostTensor& tensor = found->second;
      const std::string what = fmt::format("{}: input '{}'", set.source, input->name);
      CAMSHAFT_TRY(convert(tensor, static_cast<DataType>(input->type), what));
      if (!tensor.note.empty()) notes_.push_back(tensor.note);
      if (may_be_cut) {
        CAMSHAFT_ASSIGN(values[input->name], pieces(std::move(tensor), *input, set.source));
      } else {
        const ir::Extents extents(tensor.dims.begin(), tensor.dims.end());
        CAMSHAFT_ASSIGN(Value value,
                        kernels::make_value(input->type, extents, std::move(tensor.bytes)));
        values[input->name].push_back(std::move(value));
      }
      count = std::max(count, values[input->name].size());
    }
    return add(set.source, values, count);
  }

  Status add(const std::string& source, const std::map<std::string, std::vector<Value>>& values,
             size_t count) {
    for (size_t k = 0; k < count && !full(); ++k) {
      Sample sample;
      for (const auto& [name, list] : values) {
        if (list.size() != count && list.size() != 1)
          return bad(source, fmt::format("input \"{}\" has {} samples, another has {}", name,
                                         list.size(), count));
        sample[name] = list[list.size() == 1 ? 0 : k];
      }
      CAMSHAFT_TRY(quantize::check_sample(graph_, sample).with_context(source));
      samples_.push_back(std::move(sample));
    }
    return ok_status();
  }

  const ir::Graph& graph_;
  size_t most_;
  std::vector<std::string>& notes_;
  std::vector<Sample> samples_;
};

}  // namespace

Result<std::vector<Sample>> read_samples(const ir::Graph& graph,
                                         const std::vector<std::string>& sources, size_t most,
                                         std::vector<std::string>& notes) {
  Reader reader(graph, most, notes);
  for (const std::string& source : sources) CAMSHAFT_TRY(reader.read(source));
  return reader.take();
}

}  // namespace camshaft::cli
