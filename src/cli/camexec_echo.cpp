// SPDX-License-Identifier: Apache-2.0
// What camexec prints before it works: its options, the device, the model.
#include <unistd.h>

#include <fmt/format.h>

#include "base/cpu.h"
#include "cli/camexec_report.h"
#include "kernels/probe.h"

namespace camshaft::cli {
namespace {

const char* enabled(bool value) {
  return value ? "Enabled" : "Disabled";
}

std::string shape_list(const NamedShapes& shapes) {
  std::string out;
  for (const auto& [name, dims] : shapes)
    out += (out.empty() ? "" : ",") + name + ":" + to_string(dims);
  return out;
}

std::string layer_types(const std::vector<LayerTypeRequest>& requests) {
  std::string out;
  for (const LayerTypeRequest& request : requests)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", request.layer,
                       request.type == DataType::kInt8       ? "int8"
                       : request.type == DataType::kBFloat16 ? "bf16"
                       : request.type == DataType::kHalf     ? "fp16"
                                                             : "fp32");
  return out;
}

void print_build_options(Console& console, const LogWords& words, const CamexecOptions& camexec) {
  const Options& options = camexec.options;
  console.section("Build Options");
  if (options.has("loadEngine")) {
    console.info("");
    return;
  }
  console.info("Max batch: explicit batch");
  console.info("Memory Pools: {}", words.is_trtexec()
                                       ? "workspace: default, dlaSRAM: default, dlaLocalDRAM: "
                                         "default, dlaGlobalDRAM: default"
                                       : "default");
  console.info("minTiming: {}", options.has("minTiming") ? options.text("minTiming") : "1");
  console.info("avgTiming: {}", options.text("avgTiming"));
  const bool int8 = options.has("int8") || options.has("best");
  console.info("Precision: FP32{}{}{}", camexec.fp16 ? "+FP16" : "", camexec.bf16 ? "+BF16" : "",
               int8 ? "+INT8" : "");
  console.info("LayerPrecisions: {}", layer_types(camexec.layer_precisions));
  console.info("LayerOutputTypes: {}", layer_types(camexec.layer_output_types));
  console.info("PrecisionConstraints: {}", options.text("precisionConstraints"));
  console.info("Calibration: {}", options.has("calib")  ? options.text("calib")
                                  : options.has("int8") ? "Dynamic"
                                                        : "");
  console.info("Refit: Disabled");
  console.info("Sparsity: {}", camexec.sparsity == Sparsity::kForce    ? "Forced"
                               : camexec.sparsity == Sparsity::kEnable ? "Enabled"
                                                                       : "Disabled");
  console.info("Safe mode: Disabled");
  console.info("DirectIO mode: Disabled");
  console.info("Restricted mode: Disabled");
  console.info("{}: {}", words.is_8() ? "Build only" : "Skip inference",
               enabled(options.has("skipInference")));
  console.info("Save engine: {}", options.text("saveEngine"));
  console.info("Load engine: ");
  console.info("Profiling verbosity: {}", camexec.verbosity);
  console.info("Tactic sources: Using default tactic sources");
  console.info("timingCacheMode: {}", options.has("noBuilderCache")    ? "disable"
                                      : options.has("timingCacheFile") ? "global"
                                                                       : "local");
  console.info("timingCacheFile: {}", options.text("timingCacheFile"));
  console.info("errorOnTimingCacheMiss: {}", enabled(options.has("errorOnTimingCacheMiss")));
  console.info("MaxTactics: {}", options.text("maxTactics"));
  console.info("BuilderOptimizationLevel: {}",
               options.has("heuristic") ? "2" : options.text("builderOptimizationLevel"));
  console.info("Input(s)s format: fp32:CHW");
  console.info("Output(s)s format: fp32:CHW");
  bool any_shapes = false;
  for (size_t k = 0; k < camexec.profiles.size(); ++k) {
    const ProfileShapes& shapes = camexec.profiles[k];
    if (shapes.empty()) continue;
    any_shapes = true;
    console.info("Input build shape (profile {}): min={} opt={} max={}", k, shape_list(shapes.min),
                 shape_list(shapes.opt), shape_list(shapes.max));
  }
  if (!any_shapes) console.info("Input build shapes: model");
  if (words.is_trtexec()) console.info("Input calibration shapes: model");
}

void print_inference_options(Console& console, const LogWords& words,
                             const CamexecOptions& camexec) {
  const Options& options = camexec.options;
  console.section("Inference Options");
  console.info("Batch: Explicit");
  if (camexec.shapes.empty()) console.info("Input inference shapes: model");
  for (const auto& [name, dims] : camexec.shapes)
    console.info("Input inference shape: {}={}", name, to_string(dims));
  console.info("Iterations: {}", options.text("iterations"));
  console.info("Duration: {}s (+ {}ms warm up)", options.text("duration"), options.text("warmUp"));
  console.info("Sleep time: {}ms", options.text("sleepTime"));
  console.info("Idle time: {}ms", options.text("idleTime"));
  console.info("{}: {}", words.is_8() ? "Streams" : "Inference Streams",
               options.text("infStreams"));
  if (words.is_trtexec()) console.info("ExposeDMA: Disabled");
  console.info("Data transfers: Disabled");
  console.info("Spin-wait: {}", enabled(options.has("useSpinWait")));
  console.info("Multithreading: {}", enabled(options.has("threads")));
  if (words.is_trtexec()) console.info("CUDA Graph: Disabled");
  console.info("Separate profiling: {}", enabled(options.has("separateProfileRun")));
  console.info("Time Deserialize: {}", enabled(options.has("timeDeserialize")));
  if (words.is_trtexec()) console.info("Time Refit: Disabled");
  console.info("Optimization Profile Index: {}", options.text("useProfile"));
  console.info("Inputs:");
  for (const auto& [name, file] : camexec.pairs[0].inputs) console.info("{}<-{}", name, file);
}

void print_reporting_options(Console& console, const LogWords& words,
                             const CamexecOptions& camexec) {
  const Options& options = camexec.options;
  console.section("Reporting Options");
  console.info("Verbose: {}", enabled(options.has("verbose")));
  console.info("Averages: {} inferences", options.text("avgRuns"));
  console.info("{}: {}", words.is_8() ? "Percentile" : "Percentiles", options.text("percentile"));
  if (words.is_trtexec()) console.info("Dump refittable layers:Disabled");
  console.info("Dump output: {}", enabled(options.has("dumpOutput")));
  console.info("Profile: {}", enabled(options.has("dumpProfile")));
  console.info("Export timing to JSON file: {}", options.text("exportTimes"));
  console.info("Export output to JSON file: {}", options.text("exportOutput"));
  console.info("Export profile to JSON file: {}", options.text("exportProfile"));
}

}  // namespace

void print_options(Console& console, const LogWords& words, const CamexecOptions& camexec) {
  const Options& options = camexec.options;
  console.section("Model Options");
  console.info("Format: {}", options.has("onnx") ? "ONNX" : "*");
  console.info("Model: {}", options.text("onnx"));
  console.info("Output:");
  print_build_options(console, words, camexec);
  console.section("System Options");
  console.info("Device: {}", words.is_trtexec() ? "0" : "CPU");
  if (words.is_trtexec()) console.info("DLACore:");
  console.info("Threads: {}", options.has("numThreads") ? options.text("numThreads")
                                                        : std::to_string(default_num_threads()));
  console.info("Plugins:");
  print_inference_options(console, words, camexec);
  print_reporting_options(console, words, camexec);
}

void print_device(Console& console) {
  const CpuInfo& cpu = cpu_info();
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  console.section("Device Information");
  console.info("Selected Device: {}", cpu.model);
  console.info("Instruction Set: {}{}", isa_name(active_isa()),
               active_isa() == cpu.best_isa
                   ? ""
                   : fmt::format(" (this machine has {})", isa_name(cpu.best_isa)));
  const auto tell = [](Isa isa, Feature feature) {
    return has_feature(isa, feature) ? "yes" : "no";
  };
  console.info("Extensions: VNNI {}, AVX-VNNI {}, BF16 {}, AMX {}",
               tell(Isa::kAvx512, Feature::kVnni), tell(Isa::kAvx2, Feature::kVnni),
               tell(Isa::kAvx512, Feature::kBf16), tell(Isa::kAvx512, Feature::kAmx));
  console.info("Usable Processors: {}", cpu.usable_processors);
  console.info("L1 Data Cache: {} KiB", cpu.l1d_bytes >> 10);
  console.info("L2 Cache: {} KiB", cpu.l2_bytes >> 10);
  console.info("L3 Cache: {} MiB", cpu.l3_bytes >> 20);
  console.info("Device Global Memory: {:.0f} MiB", memory / (1 << 20));
  console.info("Peak FP32 Rate: {:.1f} GMAC/s per thread (measured now)",
               kernels::measure_fma_peak(active_isa()));
}

void print_model_info(Console& console, const LogWords& words, const std::string& file,
                      const ModelInfo& info) {
  // Of trtexec these are lines of the library.
  const auto line = [&](std::string text) {
    words.is_trtexec() ? console.log(Severity::kInfo, text) : console.info("{}", text);
  };
  constexpr const char* kRule = "----------------------------------------------------------------";
  line(kRule);
  line(fmt::format("Input filename:   {}", file));
  line(fmt::format("ONNX IR version:  0.0.{}", info.ir_version));
  line(fmt::format("Opset version:    {}", info.opset));
  line(fmt::format("Producer name:    {}", info.producer_name));
  line(fmt::format("Producer version: {}", info.producer_version));
  line(fmt::format("Domain:           {}", info.domain));
  line(fmt::format("Model version:    {}", info.model_version));
  line(fmt::format("Doc string:       {}", info.doc_string));
  line(kRule);
}

void print_profiles(Console& console, const Engine& engine) {
  for (size_t k = 0; k < engine.profiles().size(); ++k) {
    for (const ShapeRange& range : engine.profiles()[k]) {
      console.info("Model input {} (profile {}): min={}, opt={}, max={}", range.input, k,
                   to_string(range.min), to_string(range.opt), to_string(range.max));
    }
  }
}

}  // namespace camshaft::cli
