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
constexpr OptionRow always(const char* section, const char* name, OptionValue value,
                           const char* help) {
  return {name, value, "…", "", section, OptionStatus::kAlways, help};
}
constexpr OptionRow no_effect(const char* section, const char* name, OptionValue value,
                              const char* help) {
  return {name, value, "…", "", section, OptionStatus::kNoEffect, help};
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
constexpr const char* kNoDla = "there is no DLA";
constexpr const char* kNoJit = "nothing is compiled while an engine is built";
constexpr const char* kNoPools = "there are no memory pools: kernels get the workspace they need";
constexpr const char* kTiles = "tiles are chosen by time, at every optimization level";
constexpr const char* kOneRuntime = "there is one runtime, outside of the engines";
constexpr const char* kNoStreams = "layers run one after the other, each on all threads";
constexpr const char* kNoPlugins = "there are no plugins";
constexpr const char* kInPlace = "inputs and outputs are used in place";
constexpr const char* kHostWeights = "weights are in host memory";
constexpr const char* kNoGraphs = "there are no CUDA graphs: a plan is prepared once per shape";
constexpr const char* kNoSafety = "there is no safety runtime";
constexpr const char* kSameFormat =
    "an engine is read by versions of the same engine format (docs/engine-format.md)";

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
    works(kBuild, "heuristic", kNone, "", "", "of 8.x: the same as --builderOptimizationLevel=2"),
    always(kBuild, "explicitPrecision", kNone, "precisions come from Q/DQ and the options below"),
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
    works(
        kBuild, "sparsity", kChoice, "disable|enable|force", "disable",
        "enable: time sparse tactics where weights are 2:4; force: overwrite weights so that they "
        "are, for timing only"),
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
    no_effect(kBuild, "memPoolSize", kText, kNoPools),
    no_effect(kBuild, "workspace", kText, kNoPools),
    works(kBuild, "minTiming", kInt, "N", "", "of 8.x: at least so many runs per tactic", 1),
    always(kBuild, "explicitBatch", kNone, "batches are dimensions of the inputs"),
    later(kBuild, "directIO", kNone, "an engine may reformat what enters and leaves it"),
    always(kBuild, "noTF32", kNone, "fp32 is never rounded to TF32"),
    no_effect(kBuild, "layerDeviceTypes", kText, "all layers run on the CPU"),
    always(kBuild, "decomposableAttentions", kText, "attentions are taken apart and fused again"),
    no_effect(kBuild, "allowGPUFallback", kNone, kNoDla),
    later(kBuild, "buildDLAStandalone", kNone, kNoDla),
    no_effect(kBuild, "uint8AsymmetricQuantizationDLA", kNone, kNoDla),
    no_effect(kBuild, "reportCapabilityDLA", kNone, kNoDla),
    no_effect(kBuild, "adjustForDLA", kNone, kNoDla),
    later(kBuild, "distributiveIndependence", kNone,
          "sums may be split differently for other batches"),
    no_effect(kBuild, "tacticSources", kText, "there are no CUDA libraries to choose from"),
    always(kBuild, "noCompilationCache", kNone, kNoJit),
    no_effect(kBuild, "tilingOptimizationLevel", kInt, kTiles),
    no_effect(kBuild, "l2LimitForTiling", kInt, kTiles),
    no_effect(kBuild, "maxAuxStreams", kInt, kNoStreams),
    no_effect(kBuild, "preview", kText, "these are features of TensorRT"),
    always(kBuild, "asyncFileReader", kNone, "engines are mapped, and read as they are used"),
    always(kBuild, "allowWeightStreaming", kNone, kHostWeights),
    later(kBuild, "versionCompatible", kNone, kSameFormat),
    {"vc", kNone, "", "", kBuild, OptionStatus::kLater, kSameFormat, ""},
    always(kBuild, "excludeLeanRuntime", kNone, kOneRuntime),
    no_effect(kBuild, "useRuntime", kText, kOneRuntime),
    no_effect(kBuild, "leanDLLPath", kText, kOneRuntime),
    works(kBuild, "portable", kNone, "", "",
          "an engine that runs on every x86-64 processor, larger by the constants it keeps"),
    works(
        kBuild, "dump-after", kText, "PASS,…", "",
        "write the text form of the graph behind these passes (docs/passes.md), or all that change "
        "something"),
    works(kBuild, "dump-to", kText, "DIR", "passes", "the folder for that; -: standard output"),
    works(kBuild, "hardwareCompatibilityLevel", kChoice, "none|sameComputeCapability|ampere+",
          "none", "ampere+: the same as --portable; else: for this instruction set or a later one"),
    works(kBuild, "runtimePlatform", kChoice, "SameAsBuild", "SameAsBuild",
          "the platform the engine is for"),
    no_effect(kBuild, "tempdir", kText, kNoJit),
    no_effect(kBuild, "tempfileControls", kText, kNoJit),
    no_effect(kBuild, "pluginInstanceNorm", kNone, "instance normalization is built in"),
    {"pi", kNone, "", "", kBuild, OptionStatus::kNoEffect, "", "pluginInstanceNorm"},
    no_effect(kBuild, "enablePluginOverride", kNone, kNoPlugins),
    later(kBuild, "safe", kNone, kNoSafety),
    later(kBuild, "restricted", kNone, kNoSafety),
    later(kBuild, "consistency", kNone, kNoSafety),
    later(kBuild, "dumpKernelText", kNone, kNoSafety),
    later(kBuild, "remoteAutoTuningConfig", kText,
          "engines are tuned on the machine that builds them"),
    always(kBuild, "cpuOnly", kNone, "everything runs on the CPU"),
    no_effect(kBuild, "monitorMemory", kNone, "--verbose tells what memory contexts take"),

    works(kSystem, "numThreads", kInt, "N", "",
          "threads to build for and to run with; default: all this process may use", 1),
    works(kSystem, "affinity", kChoice, "none|close|spread", "none",
          "threads stay on cores: of as few L3 caches as have them, or of all evenly"),
    no_effect(kSystem, "device", kInt, "there is one device, the CPU"),
    no_effect(kSystem, "useDLACore", kInt, kNoDla),
    always(kSystem, "ignoreParsedPluginLibs", kNone, kNoPlugins),
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
    no_effect(kInference, "exposeDMA", kNone, kInPlace),
    always(kInference, "noDataTransfers", kNone, kInPlace),
    no_effect(kInference, "includeDataTransfers", kNone, kInPlace),
    no_effect(kInference, "useCudaGraph", kNone, kNoGraphs),
    always(kInference, "noCudaGraph", kNone, kNoGraphs),
    always(kInference, "useManagedMemory", kNone, "there is one memory"),
    no_effect(kInference, "persistentCacheRatio", kNumber, "caches of CPUs cannot be reserved"),
    no_effect(kInference, "allocationStrategy", kText, "memory is planned for the shapes that run"),
    no_effect(kInference, "weightStreamingBudget", kText, kHostWeights),
    works(kInference, "batch", kInt, "N", "",
          "the batch of all inputs whose first dimension is dynamic, to build for and to run with",
          1),
    works(kInference, "maxBatch", kInt, "N", "",
          "build for batches from 1 to N, tuned for --batch (else N)", 1),
    later(kInference, "saveDebugTensors", kText, kDebugTensors),
    later(kInference, "saveAllDebugTensors", kText, kDebugTensors),

    works(kReporting, "verbose", kNone, "", "", "detailed log"),
    works(kReporting, "wording", kChoice, "camshaft|trtexec8|trtexec10", "camshaft",
          "whose words log and layer information are in: trtexec's are for scripts that look for "
          "them"),
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
