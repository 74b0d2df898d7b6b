// SPDX-License-Identifier: Apache-2.0
#include "tuner/problem.h"

#include <fmt/ranges.h>

#include "ir/infer.h"
#include "ir/kind_traits.h"

namespace camshaft::tuner {
namespace {

using ir::Format;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

bool has_data_rank(const Tensor* tensor) {
  return tensor && tensor->has_rank && tensor->shape.size() >= 3;
}

struct TextWriter {
  std::string& text;
  template <class T>
  void operator()(const char* name, const T& field) {
    text += ' ';
    text += name;
    text += '=';
    write(field);
  }
  template <class T>
  void write(const T& field) {
    if constexpr (std::is_enum_v<T>)
      text += ir::enum_name(field);
    else
      text += fmt::format("{}", field);
  }
  void write(const ir::Ints& field) { text += fmt::format("{}", fmt::join(field, ",")); }
  void write(const std::vector<float>& field) { text += fmt::format("{}", fmt::join(field, ",")); }
  void write(const std::vector<std::string>& field) {
    text += fmt::format("{}", fmt::join(field, ","));
  }
  void write(const ir::Program& field) { text += field.empty() ? "none" : ir::to_string(field); }
  void write(const ir::Shape& field) {
    for (const ir::Dim dim : field) text += fmt::format("{},", dim.is_known() ? dim.extent() : -1);
  }
  void write(const std::vector<ir::GenericAttribute>& field) {
    for (const ir::GenericAttribute& a : field)
      text += fmt::format("{}:{}:{}:{};", a.name, fmt::join(a.ints, ","), fmt::join(a.floats, ","),
                          a.text);
  }
};

void append_tensor(std::string& key, const kernels::ProblemTensor& t) {
  if (!t.present) {
    key += " -";
    return;
  }
  key += fmt::format(
      " {}[{}]{}{}{}", ir::type_name(t.type), fmt::join(t.extents.begin(), t.extents.end(), "x"),
      t.format == Format::kChannelLast ? "cl" : "", t.constant ? "c" : "", t.dense ? "" : "s");
}

std::optional<runtime::TensorSource> source_of(const Tensor* tensor, Format format,
                                               const runtime::Bindings& bindings) {
  runtime::TensorSource source;
  if (!tensor) return source;
  const std::optional<ir::Extents> extents =
      tensor->has_rank ? runtime::extents_of(tensor->shape, bindings) : std::nullopt;
  if (!extents) return std::nullopt;
  source.tensor = {true, tensor->type, format, *extents, tensor->constant.get()};
  return source;
}

}  // namespace

std::string to_string(const Formats& formats) {
  const auto place = [](Format format, ir::DataType type) {
    std::string text(ir::format_name(format));
    if (type != ir::DataType::kUndefined) text += fmt::format(" {}", ir::type_name(type));
    return text;
  };
  std::string from = place(formats.input, formats.input_type);
  const std::string to = place(formats.output, formats.output_type);
  return from == to ? from : from + " -> " + to;
}

namespace {

bool is_float_activation(const Tensor* tensor) {
  return tensor && !tensor->is_constant() && tensor->type == ir::DataType::kFloat;
}

}  // namespace

bool has_data_tensor(const Layer& layer) {
  for (size_t k = 0; k < layer.inputs.size(); ++k)
    if (is_data_input(layer, k) && !formats_coincide(*layer.inputs[k])) return true;
  for (size_t k = 0; k < layer.outputs.size(); ++k)
    if (is_data_output(layer, k) && !formats_coincide(*layer.outputs[k])) return true;
  return false;
}

std::vector<Formats> formats_of(kernels::FormatRule rule) {
  using kernels::FormatRule;
  constexpr Formats kLinearOnly = {Format::kLinear, Format::kLinear};
  constexpr Formats kChannelLastOnly = {Format::kChannelLast, Format::kChannelLast};
  constexpr Formats kToChannelLast = {Format::kLinear, Format::kChannelLast};
  constexpr Formats kToLinear = {Format::kChannelLast, Format::kLinear};
  switch (rule) {
    case FormatRule::kLinear:
      return {kLinearOnly};
    case FormatRule::kChannelLast:
      return {kChannelLastOnly};
    case FormatRule::kLinearToChannelLast:
      return {kToChannelLast};
    case FormatRule::kChannelLastToLinear:
      return {kToLinear};
    case FormatRule::kSame:
      return {kLinearOnly, kChannelLastOnly};
    case FormatRule::kAny:
      return {kLinearOnly, kChannelLastOnly, kToChannelLast, kToLinear};
  }
  return {kLinearOnly};
}

bool is_stored_input(const Layer& layer, size_t k) {
  return is_float_activation(layer.inputs[k]);
}

bool is_stored_output(const Layer& layer, size_t k) {
  return is_float_activation(layer.outputs[k]);
}

bool is_data_input(const Layer& layer, size_t k) {
  const Tensor* tensor = layer.inputs[k];
  if (!has_data_rank(tensor)) return false;
  if (k == 0) return layer.kind != LayerKind::kGather || !tensor->is_constant();
  const ir::KindTraits& traits = ir::traits_of(layer.kind);
  if (traits.data_inputs == ir::DataInputs::kFirst) return false;
  if (traits.data_inputs == ir::DataInputs::kAndEpilogue && k < traits.epilogue.first_operand)
    return false;
  return !layer.outputs.empty() && layer.outputs[0] && layer.outputs[0]->has_rank &&
         layer.outputs[0]->shape.size() == tensor->shape.size();
}

bool is_data_output(const Layer& layer, size_t k) {
  return has_data_rank(layer.outputs[k]);
}

bool formats_coincide(const Tensor& tensor) {
  if (!tensor.has_rank || tensor.shape.size() < 3) return true;
  if (tensor.shape[1] == ir::Dim(1)) return true;
  for (size_t d = 2; d < tensor.shape.size(); ++d)
    if (tensor.shape[d] != ir::Dim(1)) return false;
  return true;
}

LayerProblem make_problem(const Layer& layer, const Formats& formats,
                          const runtime::Bindings& bindings, int threads) {
  const auto input = [&](size_t k) {
    auto source = source_of(layer.inputs[k],
                            is_data_input(layer, k) ? formats.input : Format::kLinear, bindings);
    if (source && formats.input_type != ir::DataType::kUndefined && is_stored_input(layer, k))
      source->tensor.type = formats.input_type;
    return source;
  };
  const auto output = [&](size_t k) {
    auto source = source_of(layer.outputs[k],
                            is_data_output(layer, k) ? formats.output : Format::kLinear, bindings);
    if (source && formats.output_type != ir::DataType::kUndefined && is_stored_output(layer, k))
      source->tensor.type = formats.output_type;
    return source;
  };
  return runtime::build_problem(layer, layer.inputs.size(), layer.outputs.size(), bindings, threads,
                                [&](runtime::Side side, size_t k) {
                                  return side == runtime::Side::kInputs ? input(k) : output(k);
                                });
}

bool has_guessed_extents(const Layer& layer) {
  for (const auto* side : {&layer.inputs, &layer.outputs})
    for (const Tensor* tensor : *side) {
      if (!tensor) continue;
      if (!tensor->has_rank) return true;
      for (const ir::Dim dim : tensor->shape)
        if (tensor->graph->symbols().depends_on_runtime(dim)) return true;
    }
  return false;
}

Result<std::vector<ir::InferOutput>> infer_problem(const Layer& layer, const LayerProblem& made,
                                                   const runtime::Bindings& bindings) {
  ir::SymbolTable numbers;  // every extent is a number: symbols stand for negative values only
  std::vector<ir::InferInput> inputs;
  for (size_t k = 0; k < layer.inputs.size(); ++k) {
    const Tensor* tensor = layer.inputs[k];
    inputs.push_back(tensor ? ir::infer_input(tensor, numbers) : ir::InferInput());
    if (!tensor) continue;
    inputs.back().shape.assign(made.problem.inputs[k].extents.begin(),
                               made.problem.inputs[k].extents.end());
    if (inputs.back().value && !tensor->is_constant())  // of the graph's symbols
      for (ir::Dim& dim : *inputs.back().value) dim = numbers.constant(bindings.value(dim));
  }
  return ir::infer(*made.layer, inputs, numbers);
}

bool agrees_with_inference(const Layer& layer, const LayerProblem& made,
                           const runtime::Bindings& bindings) {
  const auto outputs = infer_problem(layer, made, bindings);
  if (!outputs.ok()) return false;
  for (size_t k = 0; k < layer.outputs.size(); ++k) {
    if (!layer.outputs[k]) continue;
    const ir::InferOutput& output = outputs.value()[k];
    const ir::Extents& extents = made.problem.outputs[k].extents;
    if (output.shape.size() != extents.size()) return false;
    for (size_t d = 0; d < extents.size(); ++d)
      if (output.shape[d].is_known() && output.shape[d].extent() != extents[d]) return false;
  }
  return true;
}

std::string problem_key(const kernels::Problem& problem) {
  std::string key(ir::kind_name(problem.layer->kind));
  TextWriter writer{key};
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, writer); },
             problem.layer->attrs);
  key += " in";
  for (const kernels::ProblemTensor& t : problem.inputs) append_tensor(key, t);
  key += " out";
  for (const kernels::ProblemTensor& t : problem.outputs) append_tensor(key, t);
  key += fmt::format(" threads={}", problem.threads);
  return key;
}

}  // namespace camshaft::tuner
