// SPDX-License-Identifier: Apache-2.0
// The C++ API in one screen: build an engine from an ONNX file, run it, show the first outputs and
// the slowest layer. usage: run_cpp MODEL.onnx
#include <algorithm>
#include <cstdio>
#include <vector>

#include "camshaft/builder.h"
#include "camshaft/context.h"
#include "camshaft/inspector.h"

namespace {

int fail(const camshaft::Status& status) {
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return 1;
}

// Zeros of the right size for every input; dynamic extents have taken the values of the
// optimization profile.
camshaft::Status set_zeros(camshaft::Context& context,
                           std::vector<std::vector<std::byte>>& memory) {
  for (const camshaft::TensorInfo& input : context.engine().inputs()) {
    const auto dims = context.input_shape(input.name);
    if (!dims.ok()) return dims.status();
    memory.emplace_back(camshaft::byte_size(input.type, camshaft::element_count(dims.value())));
    const camshaft::Status status =
        context.set_input(input.name, memory.back().data(), memory.back().size());
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL.onnx\n", argv[0]);
    return 1;
  }
  auto model = camshaft::Model::from_file(argv[1]);
  if (!model.ok()) return fail(model.status());
  auto engine = camshaft::build(std::move(model).value());
  if (!engine.ok()) return fail(engine.status());
  auto context = camshaft::Context::create(*engine);
  if (!context.ok()) return fail(context.status());

  std::vector<std::vector<std::byte>> memory;
  camshaft::Status status = set_zeros(*context, memory);
  const camshaft::Inspector inspector(*engine);
  camshaft::LayerProfile profile(inspector);
  context->set_profiler([&](const camshaft::LayerTime& time) { profile.add(time); });
  if (status.ok()) status = context->run();
  if (!status.ok()) return fail(status);

  for (const camshaft::TensorInfo& output : engine->outputs()) {
    const auto view = context->output(output.name);
    if (!view.ok()) return fail(view.status());
    std::printf("%s %s", output.name.c_str(), camshaft::to_string(view.value().dims).c_str());
    if (view.value().type == camshaft::DataType::kFloat) {
      const auto values = view.value().as<float>();
      for (size_t k = 0; k < std::min<size_t>(values.size(), 4); ++k) std::printf(" %g", values[k]);
    }
    std::printf("\n");
  }
  const auto rows = profile.rows();
  const auto slowest = std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.total_ms < b.total_ms;
  });
  if (slowest != rows.end())
    std::printf("slowest of %zu layers: %s, %.3f ms\n", rows.size(), slowest->name.c_str(),
                slowest->total_ms);
  return 0;
}
