// SPDX-License-Identifier: Apache-2.0
// The table of camexec's options. Order is the order of --help.
#include "cli/camexec_options.h"

namespace camshaft::cli {
namespace {

constexpr OptionValue kNone = OptionValue::kNone;
constexpr OptionValue kText = OptionValue::kText;
constexpr OptionValue kInt = OptionValue::kInteger;
constexpr OptionValue kNumber = OptionValue::kNumber;
constexpr OptionValue kChoice = OptionValue::kChoice;

constexpr OptionRow works(const char* section, const char* name, OptionValue value,
                          const char* form, const char* fallback, const char* help,
                          double least = -1e18) {
  return {name, value, form, fallback, section, OptionStatus::kWorks, help, "", 0, least};
}
constexpr OptionRow alias(const char* section, const char* name, OptionValue value,
                          const char* of) {
  return {name, value, "…", "", section, OptionStatus::kWorks, "", of};
}
constexpr OptionRow gpu_only(const char* section, const char* name, OptionValue value,
                             const char* help) {
  return {name, value, "…", "", section, OptionStatus::kGpuOnly, help};
}
constexpr OptionRow later(const char* section, const char* name, OptionValue value,
                          const char* help) {
  return {name, value, "…", "", section, OptionStatus::kLater, help};
}
constexpr OptionRow removed(const char* name, OptionValue value, const char* help) {
  return {name, value, "…", "", "Removed", OptionStatus::kRemoved, help};
}

constexpr const char* kModel = "Model Options";
constexpr const char* kBuild = "Build Options";
constexpr const char* kSystem = "System Options";
constexpr const char* kInference = "Inference Options";
constexpr const char* kReporting = "Reporting Options";
constexpr const char* kTuning = "Tuning Options";
constexpr const char* kHelp = "Help";

constexpr const char* kReduced = "fp32, fp16, bf16 and int8 are the precisions of this version";
constexpr const char* kCalibShapes =
    "camexec reads calibration caches; camshaft quantize makes them from data of any shape";
constexpr const char* kRefit = "refitting weights comes with a later release";
constexpr const char* kDebugTensors = "debug tensors come with a later release";
constexpr const char* kPlugins = "plugins come with a later release";
constexpr const char* kRoutes = "searching build settings comes with a later release";
constexpr const char* kNoDla = "DLA";

constexpr OptionRow kRows[] = {
    works(kModel, "onnx", kText, "FILE", "", "ONNX model"),

    works(kBuild, "minShapes", kText, "SPEC", "",
          "profile minimum, name:1x3x224x224,…; a name may hold one *"),
    works(kBuild, "optShapes", kText, "SPEC", "",
          "profile optimum: what kernels are tuned for; alone: min = max = opt"),
    works(kBuild, "maxShapes", kText, "SPEC", "", "profile maximum"),
    works(kBuild, "profile", kInt, "N", "",
          "the shapes that follow belong to optimization profile N", 0),
    works(kBuild, "inputIOFormats", kText, "SPEC", "fp32:chw",
          "formats of inputs; this version: row major (chw) only"),
    works(kBuild, "outputIOFormats", kText, "SPEC", "fp32:chw",
          "formats of outputs; this version: row major (chw) only"),
    works(kBuild, "avgTiming", kInt, "N", "8", "runs averaged per tactic", 1),
    works(kBuild, "builderOptimizationLevel", kChoice, "0|1|2|3|4|5", "3",
          "0: first legal tactic, untimed … 5: time all"),
    works(kBuild, "maxTactics", kInt, "N", "-1", "timed tactics per layer; -1: as the level says",
          -1),
    works(kBuild, "timingCacheFile", kText, "FILE", "", "read tactic times from it, add new ones"),
    works(kBuild, "noBuilderCache", kNone, "", "", "no timing cache at all"),
    works(kBuild, "errorOnTimingCacheMiss", kNone, "", "", "fail if a time is not in the cache"),
    works(kBuild, "saveEngine", kText, "FILE", "", "write the engine"),
    works(kBuild, "loadEngine", kText, "FILE", "", "read an engine instead of building one"),
    works(kBuild, "getPlanVersionOnly", kNone, "", "",
          "print the version that built --loadEngine and stop"),
    works(kBuild, "skipInference", kNone, "", "",
          "stop after building (layer information is still written)"),
    alias(kBuild, "buildOnly", kNone, "skipInference"),
    works(kBuild, "profilingVerbosity", kChoice, "layer_names_only|detailed|none|default|verbose",
          "",
          "what the inspector tells; default layer_names_only, detailed when layer information is "
          "exported or dumped"),
    alias(kBuild, "nvtxMode", kChoice, "profilingVerbosity"),
    works(kBuild, "stronglyTyped", kNone, "", "",
          "types come from the network, which rounds as they say; --fp16, --bf16 and --int8 then "
          "have no "
          "effect"),
    works(kBuild, "fp16", kNone, "", "",
          "float layers may compute on half and store activations so, where that is faster"),
    works(kBuild, "bf16", kNone, "", "",
          "float layers may compute in bfloat16 and store activations so, where that is faster"),
    works(kBuild, "int8", kNone, "", "",
          "int8 for networks without Q/DQ: scales from --calib, else made up (for timing only)"),
    works(kBuild, "best", kNone, "", "",
          "the fastest of all precisions there are: fp16, bf16, and int8 where the network or "
          "--calib gives scales"),
    works(kBuild, "calib", kText, "FILE", "",
          "calibration cache to read scales from (camshaft quantize --cache writes one)"),
    works(kBuild, "precisionConstraints", kChoice, "none|prefer|obey", "none",
          "what --layerPrecisions and --layerOutputTypes do: nothing, warn, or fail naming the "
          "layer"),
    works(kBuild, "layerPrecisions", kText, "SPEC", "",
          "what layers compute in, layer:fp32|fp16|bf16|int8,…; a name may hold one *"),
    works(kBuild, "layerOutputTypes", kText, "SPEC", "",
          "what layers write, layer:fp32|fp16|bf16|int8,…; a name may hold one *"),
    works(kBuild, "sparsity", kChoice, "disable|enable|force", "disable",
          "2:4 sparse tactics; this version: disable"),
    later(kBuild, "fp8", kNone, kReduced),
    later(kBuild, "int4", kNone, kReduced),
    later(kBuild, "minShapesCalib", kText, kCalibShapes),
    later(kBuild, "optShapesCalib", kText, kCalibShapes),
    later(kBuild, "maxShapesCalib", kText, kCalibShapes),
    later(kBuild, "calibProfile", kInt, kCalibShapes),
    later(kBuild, "refit", kNone, kRefit),
    later(kBuild, "stripWeights", kNone, kRefit),
    later(kBuild, "stripAllWeights", kNone, kRefit),
    later(kBuild, "weightless", kNone, kRefit),
    later(kBuild, "refitFromOnnx", kText, kRefit),
    later(kBuild, "markDebug", kText, kDebugTensors),
    later(kBuild, "markUnfusedTensorsAsDebugTensors", kNone, kDebugTensors),
    gpu_only(kBuild, "memPoolSize", kText, "memory pools"),
    gpu_only(kBuild, "workspace", kText, "memory pool of 8.x"),
    gpu_only(kBuild, "minTiming", kInt, "minimum timing runs of 8.x: see --avgTiming"),
    gpu_only(kBuild, "explicitBatch", kNone, "always so"),
    gpu_only(kBuild, "directIO", kNone, "no reformats at the network boundary"),
    gpu_only(kBuild, "noTF32", kNone, "fp32 is never rounded to TF32 here"),
    gpu_only(kBuild, "layerDeviceTypes", kText, "devices per layer"),
    gpu_only(kBuild, "decomposableAttentions", kText, "attention decomposition"),
    gpu_only(kBuild, "allowGPUFallback", kNone, kNoDla),
    gpu_only(kBuild, "buildDLAStandalone", kNone, kNoDla),
    gpu_only(kBuild, "uint8AsymmetricQuantizationDLA", kNone, kNoDla),
    gpu_only(kBuild, "reportCapabilityDLA", kNone, kNoDla),
    gpu_only(kBuild, "adjustForDLA", kNone, kNoDla),
    gpu_only(kBuild, "distributiveIndependence", kNone,
             "the same order of operations for every batch element"),
    gpu_only(kBuild, "tacticSources", kText, "CUDA libraries"),
    gpu_only(kBuild, "noCompilationCache", kNone, "JIT code"),
    gpu_only(kBuild, "tilingOptimizationLevel", kInt, "L2 tiling"),
    gpu_only(kBuild, "l2LimitForTiling", kInt, "L2 tiling"),
    gpu_only(kBuild, "maxAuxStreams", kInt, "auxiliary streams"),
    gpu_only(kBuild, "preview", kText, "preview features"),
    gpu_only(kBuild, "asyncFileReader", kNone, "engines are mapped"),
    gpu_only(kBuild, "allowWeightStreaming", kNone, "weights are in host memory"),
    gpu_only(kBuild, "versionCompatible", kNone, "engines hold data, no code"),
    {"vc", kNone, "", "", kBuild, OptionStatus::kGpuOnly, "", "versionCompatible"},
    gpu_only(kBuild, "excludeLeanRuntime", kNone, "lean runtime"),
    gpu_only(kBuild, "useRuntime", kText, "full, lean or dispatch runtime"),
    gpu_only(kBuild, "leanDLLPath", kText, "lean runtime"),
    gpu_only(kBuild, "hardwareCompatibilityLevel", kText, "engines run on every CPU"),
    gpu_only(kBuild, "runtimePlatform", kText, "cross-platform builds"),
    gpu_only(kBuild, "tempdir", kText, "JIT files"),
    gpu_only(kBuild, "tempfileControls", kText, "JIT files"),
    gpu_only(kBuild, "pluginInstanceNorm", kNone, "instance normalization is built in"),
    {"pi", kNone, "", "", kBuild, OptionStatus::kGpuOnly, "", "pluginInstanceNorm"},
    gpu_only(kBuild, "enablePluginOverride", kNone, "plugins"),
    gpu_only(kBuild, "safe", kNone, "safety runtime"),
    gpu_only(kBuild, "restricted", kNone, "safety runtime"),
    gpu_only(kBuild, "consistency", kNone, "safety runtime"),
    gpu_only(kBuild, "dumpKernelText", kNone, "safety runtime"),
    gpu_only(kBuild, "remoteAutoTuningConfig", kText, "remote tuning"),
    gpu_only(kBuild, "cpuOnly", kNone, "always so"),
    gpu_only(kBuild, "monitorMemory", kNone, "memory monitor"),

    works(kSystem, "numThreads", kInt, "N", "",
          "threads to build for and to run with; default: all this process may use", 1),
    gpu_only(kSystem, "device", kInt, "CUDA device"),
    gpu_only(kSystem, "useDLACore", kInt, kNoDla),
    gpu_only(kSystem, "ignoreParsedPluginLibs", kNone, "plugins"),
    later(kSystem, "staticPlugins", kText, kPlugins),
    later(kSystem, "dynamicPlugins", kText, kPlugins),
    later(kSystem, "plugins", kText, kPlugins),
    later(kSystem, "setPluginsToSerialize", kText, kPlugins),
    later(kSystem, "safetyPlugins", kText, kPlugins),

    works(kInference, "shapes", kText, "SPEC", "",
          "shapes to run with; also the build profile if none is given"),
    works(kInference, "loadInputs", kText, "SPEC", "",
          "values, name:file,…: raw little endian, .npy or .pb; else random"),
    works(kInference, "iterations", kInt, "N", "10", "at least N queries", 0),
    works(kInference, "warmUp", kNumber, "MS", "200", "milliseconds before timing starts", 0),
    works(kInference, "duration", kNumber, "S", "3",
          "at least S seconds; -1: until interrupted (Ctrl-C still reports)", -1),
    works(kInference, "sleepTime", kNumber, "MS", "0", "gap between launch and compute", 0),
    works(kInference, "idleTime", kNumber, "MS", "0", "gap between queries", 0),
    works(kInference, "infStreams", kInt, "N", "1",
          "contexts that run at the same time, each in its own thread", 1),
    alias(kInference, "streams", kInt, "infStreams"),
    works(kInference, "threads", kNone, "", "", "one thread per stream: always so here"),
    works(kInference, "useSpinWait", kNone, "", "", "worker threads wait actively between layers"),
    works(kInference, "noSpinWait", kNone, "", "", "worker threads sleep as soon as they are idle"),
    works(kInference, "separateProfileRun", kNone, "", "",
          "measure layers in a second run, so that end-to-end times are clean"),
    works(kInference, "useProfile", kInt, "N", "0", "optimization profile to run with", 0),
    works(kInference, "timeDeserialize", kNone, "", "", "time reading the engine and stop"),
    later(kInference, "timeRefit", kNone, kRefit),
    works(kInference, "loadRefOutputs", kText, "SPEC", "",
          "expected outputs, name:file,…: compared after the run"),
    works(kInference, "refPair", kInt, "N", "",
          "the inputs and reference outputs that follow are pair N", 0),
    works(kInference, "accuracyAlgorithm", kChoice, "l0|l1|l2|lInf|cos", "l0",
          "l0: share of elements outside atol + rtol |ref|; l1, l2: mean (squared) error; lInf: "
          "largest; cos: 1 - cosine"),
    works(kInference, "atol", kNumber, "X", "1e-5", "absolute tolerance of l0", 0),
    works(kInference, "rtol", kNumber, "X", "1e-5", "relative tolerance of l0", 0),
    works(kInference, "accuracyThreshold", kNumber, "X", "",
          "fail above this loss; needed with --loadRefOutputs", 0),
    gpu_only(kInference, "exposeDMA", kNone, "transfers"),
    gpu_only(kInference, "noDataTransfers", kNone, "inputs and outputs are used in place"),
    gpu_only(kInference, "includeDataTransfers", kNone, "inputs and outputs are used in place"),
    gpu_only(kInference, "useCudaGraph", kNone, "CUDA graphs"),
    gpu_only(kInference, "noCudaGraph", kNone, "CUDA graphs"),
    gpu_only(kInference, "useManagedMemory", kNone, "unified memory"),
    gpu_only(kInference, "persistentCacheRatio", kNumber, "L2 persistence"),
    gpu_only(kInference, "allocationStrategy", kText, "memory is planned for the actual shapes"),
    gpu_only(kInference, "weightStreamingBudget", kText, "weights are in host memory"),
    gpu_only(kInference, "batch", kInt, "implicit batch of 7.x: see --shapes"),
    gpu_only(kInference, "maxBatch", kInt, "implicit batch of 7.x: see --maxShapes"),
    later(kInference, "saveDebugTensors", kText, kDebugTensors),
    later(kInference, "saveAllDebugTensors", kText, kDebugTensors),

    works(kReporting, "verbose", kNone, "", "", "detailed log"),
    works(kReporting, "avgRuns", kInt, "N", "10", "queries per line of the trace", 1),
    works(kReporting, "percentile", kText, "P1,P2", "90,95,99",
          "percentiles to report; 0: best, 100: worst"),
    works(kReporting, "dumpOutput", kNone, "", "", "print the outputs"),
    works(kReporting, "dumpRawBindingsToFile", kNone, "", "",
          "write inputs and outputs as <name>.<input|output>.<dims>.<type>.raw"),
    works(kReporting, "dumpProfile", kNone, "", "", "print per-layer times"),
    works(kReporting, "exportProfile", kText, "FILE", "", "write per-layer times as JSON"),
    works(kReporting, "dumpLayerInfo", kNone, "", "", "print layer information"),
    works(kReporting, "exportLayerInfo", kText, "FILE", "", "write layer information as JSON"),
    works(kReporting, "dumpOptimizationProfile", kNone, "", "",
          "print the shape ranges of every input"),
    works(kReporting, "exportTimes", kText, "FILE", "", "write the times of every query as JSON"),
    works(kReporting, "exportOutput", kText, "FILE", "", "write the outputs as JSON"),
    works(kReporting, "exportTrace", kText, "FILE", "",
          "write a trace of some runs for profiler viewers (layers as events)"),
    later(kReporting, "dumpRefit", kNone, kRefit),

    later(kTuning, "tuneBuildRoutes", kText, kRoutes),
    later(kTuning, "tuneBuildRouteFile", kText, kRoutes),
    later(kTuning, "tuningSearch", kText, kRoutes),
    later(kTuning, "tuningCacheFile", kText, kRoutes),
    later(kTuning, "tuningTimeOut", kNumber, kRoutes),
    later(kTuning, "continue", kNone, kRoutes),
    later(kTuning, "saveAllEngines", kNone, kRoutes),
    later(kTuning, "dryRun", kNone, kRoutes),
    later(kTuning, "helpBuildRoute", kText, kRoutes),
    later(kTuning, "setBuildRoute", kText, kRoutes),

    {"help", kNone, "", "", kHelp, OptionStatus::kWorks, "print this and stop", "", 'h'},

    removed("model", kText, "Caffe models: convert to ONNX"),
    removed("deploy", kText, "Caffe models: convert to ONNX"),
    removed("uff", kText, "UFF models: convert to ONNX"),
    removed("uffInput", kText, "UFF models: convert to ONNX"),
    removed("uffNHWC", kNone, "UFF models: convert to ONNX"),
    removed("output", kText, "outputs are those of the ONNX model"),
};

}  // namespace

std::span<const OptionRow> camexec_rows() {
  return kRows;
}

}  // namespace camshaft::cli
