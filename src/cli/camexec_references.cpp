// SPDX-License-Identifier: Apache-2.0
// Reference outputs: every --refPair's inputs run, its outputs compared.
#include "cli/bindings.h"
#include "cli/camexec_report.h"
#include "cli/statistics.h"

namespace camshaft::cli {
namespace {

Status compare_output(Console& console, const Options& options, Context& context,
                      const std::string& name, const std::string& file, size_t pair, bool& passed) {
  CAMSHAFT_ASSIGN(HostTensor reference, read_tensor(file));
  CAMSHAFT_ASSIGN(const TensorView actual, context.output(name));
  if (!reference.has_shape) {
    reference.type = actual.type;
    reference.dims = actual.dims;
  }
  if (reference.dims != actual.dims ||
      reference.bytes.size() != byte_size(reference.type, element_count(reference.dims))) {
    return make_error(ErrorCode::kInvalidArgument,
                      "reference for output '{}' ({}) has {} bytes of shape {}, the output has "
                      "shape {}",
                      name, file, reference.bytes.size(), to_string(reference.dims),
                      to_string(actual.dims));
  }
  const std::string algorithm = options.text("accuracyAlgorithm");
  const Difference difference = compare(to_doubles(actual), to_doubles(reference.view()),
                                        options.number("atol"), options.number("rtol"));
  const double loss = accuracy_loss(difference, algorithm);
  const double threshold = options.number("accuracyThreshold");
  const bool good = loss <= threshold;
  console.info("Accuracy of output {} (pair {}): {} loss {:g}, threshold {:g}: {}", name, pair,
               algorithm, loss, threshold, good ? "passed" : "FAILED");
  passed = passed && good;
  return ok_status();
}

}  // namespace

Result<NamedTensors> read_inputs(const ReferencePair& pair) {
  NamedTensors tensors;
  for (const auto& [name, file] : pair.inputs) {
    CAMSHAFT_ASSIGN(tensors[name], read_tensor(file));
  }
  return tensors;
}

Status check_references(Console& console, const CamexecOptions& camexec, Context& context) {
  bool passed = true;
  for (size_t k = 0; k < camexec.pairs.size(); ++k) {
    const ReferencePair& pair = camexec.pairs[k];
    if (pair.outputs.empty()) continue;
    CAMSHAFT_ASSIGN(NamedTensors given, read_inputs(pair));
    CAMSHAFT_ASSIGN(const InputSet inputs,
                    InputSet::create(context, camexec.shapes, std::move(given)));
    CAMSHAFT_TRY(inputs.bind(context));
    CAMSHAFT_TRY(context.run());
    for (const auto& [name, file] : pair.outputs)
      CAMSHAFT_TRY(compare_output(console, camexec.options, context, name, file, k, passed));
  }
  if (!passed)
    return Status(ErrorCode::kInvalidArgument,
                  "an output differs from its reference by more than the threshold");
  return ok_status();
}

}  // namespace camshaft::cli
