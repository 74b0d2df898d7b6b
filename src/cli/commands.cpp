// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#include "cli/sparsify_command.h"

#include <fmt/core.h>

#include "camshaft/version.h"

namespace camshaft::cli {
namespace {

constexpr Command kCommands[] = {
    {"build", "MODEL.onnx [-o ENGINE]", "optimize and tune a network, write an engine",
     build_command},
    {"run", "MODEL|ENGINE [--data DIR]", "run on given inputs, compare with expected outputs",
     run_command},
    {"bench", "MODEL|ENGINE", "latency, throughput and percent of this machine's peak",
     bench_command},
    {"inspect", "ENGINE [--json]", "the layers: kind, time, tactic, format, shape",
     inspect_command},
    {"explain", "ENGINE [LAYER]", "why a layer is as it is: passes, candidates, refusals",
     explain_command},
    {"quantize", "MODEL.onnx --data DIR [-o FILE]",
     "calibrate on real data, write the network with Q/DQ or a calibration cache",
     quantize_command},
    {"sparsify", "MODEL.onnx [-o FILE]", "make weights 2:4, by magnitude or with calibration data",
     sparsify_command},
    {"verify", "MODEL.onnx [--data DIR]",
     "errors of every tensor, int8 or engine; which layers to keep in float", verify_command},
    {"trace", "summary|ops|kernels|… FILE…",
     "what a PyTorch profiler trace says, as text, JSON or CSV, with conditions for CI",
     trace_command},
    {"view", "FOLDER|FILE… [--port N]", "the profiler's page over the traces of a folder",
     view_command},
    {"version", "", "print the version", version_command},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

int version_command(std::span<char* const>) {
  fmt::print("camshaft {}\n", CAMSHAFT_VERSION);
  return 0;
}

}  // namespace camshaft::cli
