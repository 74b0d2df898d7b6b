// SPDX-License-Identifier: Apache-2.0
#include "cli/camexec_options.h"

#include <set>

#include <gtest/gtest.h>

namespace camshaft::cli {
namespace {

Result<CamexecOptions> parse(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse_camexec(pointers);
}

std::string error(std::vector<std::string> words) {
  return parse(std::move(words)).status().message();
}

// Every option of trtexec 8.4-10.16 and 11.x has a row.
TEST(CamexecTable, HasTheWholeSurface) {
  static constexpr const char* kNames[] = {"onnx",
                                           "minShapes",
                                           "optShapes",
                                           "maxShapes",
                                           "profile",
                                           "minShapesCalib",
                                           "optShapesCalib",
                                           "maxShapesCalib",
                                           "calibProfile",
                                           "inputIOFormats",
                                           "outputIOFormats",
                                           "memPoolSize",
                                           "directIO",
                                           "fp16",
                                           "bf16",
                                           "int8",
                                           "fp8",
                                           "int4",
                                           "best",
                                           "stronglyTyped",
                                           "noTF32",
                                           "precisionConstraints",
                                           "layerPrecisions",
                                           "layerOutputTypes",
                                           "calib",
                                           "sparsity",
                                           "layerDeviceTypes",
                                           "decomposableAttentions",
                                           "useDLACore",
                                           "allowGPUFallback",
                                           "buildDLAStandalone",
                                           "uint8AsymmetricQuantizationDLA",
                                           "reportCapabilityDLA",
                                           "adjustForDLA",
                                           "distributiveIndependence",
                                           "avgTiming",
                                           "minTiming",
                                           "builderOptimizationLevel",
                                           "maxTactics",
                                           "tacticSources",
                                           "timingCacheFile",
                                           "noBuilderCache",
                                           "noCompilationCache",
                                           "errorOnTimingCacheMiss",
                                           "tilingOptimizationLevel",
                                           "l2LimitForTiling",
                                           "maxAuxStreams",
                                           "preview",
                                           "saveEngine",
                                           "loadEngine",
                                           "asyncFileReader",
                                           "getPlanVersionOnly",
                                           "skipInference",
                                           "buildOnly",
                                           "profilingVerbosity",
                                           "refit",
                                           "stripWeights",
                                           "stripAllWeights",
                                           "weightless",
                                           "refitFromOnnx",
                                           "allowWeightStreaming",
                                           "versionCompatible",
                                           "vc",
                                           "excludeLeanRuntime",
                                           "useRuntime",
                                           "leanDLLPath",
                                           "hardwareCompatibilityLevel",
                                           "runtimePlatform",
                                           "tempdir",
                                           "tempfileControls",
                                           "pluginInstanceNorm",
                                           "pi",
                                           "enablePluginOverride",
                                           "markDebug",
                                           "markUnfusedTensorsAsDebugTensors",
                                           "safe",
                                           "restricted",
                                           "consistency",
                                           "dumpKernelText",
                                           "remoteAutoTuningConfig",
                                           "cpuOnly",
                                           "monitorMemory",
                                           "device",
                                           "staticPlugins",
                                           "dynamicPlugins",
                                           "setPluginsToSerialize",
                                           "plugins",
                                           "ignoreParsedPluginLibs",
                                           "safetyPlugins",
                                           "shapes",
                                           "loadInputs",
                                           "iterations",
                                           "warmUp",
                                           "duration",
                                           "sleepTime",
                                           "idleTime",
                                           "infStreams",
                                           "streams",
                                           "exposeDMA",
                                           "noDataTransfers",
                                           "includeDataTransfers",
                                           "useSpinWait",
                                           "noSpinWait",
                                           "useCudaGraph",
                                           "noCudaGraph",
                                           "separateProfileRun",
                                           "useManagedMemory",
                                           "threads",
                                           "timeDeserialize",
                                           "timeRefit",
                                           "persistentCacheRatio",
                                           "useProfile",
                                           "allocationStrategy",
                                           "weightStreamingBudget",
                                           "saveDebugTensors",
                                           "saveAllDebugTensors",
                                           "loadRefOutputs",
                                           "refPair",
                                           "accuracyAlgorithm",
                                           "atol",
                                           "rtol",
                                           "accuracyThreshold",
                                           "tuneBuildRoutes",
                                           "tuneBuildRouteFile",
                                           "tuningSearch",
                                           "tuningCacheFile",
                                           "tuningTimeOut",
                                           "saveAllEngines",
                                           "dryRun",
                                           "helpBuildRoute",
                                           "setBuildRoute",
                                           "verbose",
                                           "avgRuns",
                                           "percentile",
                                           "dumpRefit",
                                           "dumpOutput",
                                           "dumpRawBindingsToFile",
                                           "dumpProfile",
                                           "exportProfile",
                                           "dumpLayerInfo",
                                           "exportLayerInfo",
                                           "dumpOptimizationProfile",
                                           "exportTimes",
                                           "exportOutput",
                                           "help",
                                           "model",
                                           "deploy",
                                           "uff",
                                           "uffInput",
                                           "uffNHWC",
                                           "output",
                                           "numThreads",
                                           "exportTrace"};
  std::set<std::string> rows;
  for (const OptionRow& row : camexec_rows())
    EXPECT_TRUE(rows.insert(row.name).second) << row.name << " twice";
  for (const char* name : kNames) EXPECT_TRUE(rows.count(name)) << name;
}

TEST(CamexecTable, AliasesPointAtRows) {
  std::set<std::string> names;
  for (const OptionRow& row : camexec_rows()) names.insert(row.name);
  for (const OptionRow& row : camexec_rows()) {
    EXPECT_TRUE(*row.alias_of == 0 || names.count(row.alias_of)) << row.name;
  }
}

// Whatever its status, each row does what the status promises.
TEST(CamexecTable, EveryRowBehavesAsItsStatusSays) {
  for (const OptionRow& row : camexec_rows()) {
    if (row.status == OptionStatus::kWorks) continue;
    std::string word = std::string("--") + row.name;
    if (row.value == OptionValue::kText) word += "=x";
    if (row.value == OptionValue::kInteger || row.value == OptionValue::kNumber) word += "=1";
    const auto parsed = parse({"--onnx=m", word});
    if (row.status == OptionStatus::kGpuOnly) {
      ASSERT_TRUE(parsed.ok()) << word << ": " << parsed.status().message();
      EXPECT_EQ(parsed.value().gpu_only, std::vector<std::string>{std::string("--") + row.name});
    } else {
      EXPECT_EQ(parsed.status().code(), ErrorCode::kUnsupported) << word;
      EXPECT_NE(parsed.status().message().find(std::string("--") + row.name), std::string::npos);
    }
  }
}

TEST(Camexec, Defaults) {
  const auto parsed = parse({"--onnx=m.onnx"});
  ASSERT_TRUE(parsed.ok());
  const Options& options = parsed.value().options;
  EXPECT_EQ(options.integer("iterations"), 10);
  EXPECT_EQ(options.number("warmUp"), 200);
  EXPECT_EQ(options.number("duration"), 3);
  EXPECT_EQ(options.integer("avgRuns"), 10);
  EXPECT_EQ(options.integer("avgTiming"), 8);
  EXPECT_EQ(options.integer("maxTactics"), -1);
  EXPECT_EQ(parsed.value().percentiles, (std::vector<double>{90, 95, 99}));
  EXPECT_EQ(parsed.value().verbosity, 0);
  EXPECT_TRUE(parsed.value().profiles.empty());
}

TEST(Camexec, ExportingLayersImpliesDetailedUnlessSaid) {
  EXPECT_EQ(parse({"--onnx=m", "--exportLayerInfo=l"}).value().verbosity, 2);
  EXPECT_EQ(parse({"--onnx=m", "--exportLayerInfo=l", "--profilingVerbosity=layer_names_only"})
                .value()
                .verbosity,
            0);
  EXPECT_EQ(parse({"--onnx=m", "--profilingVerbosity=none"}).value().verbosity, 1);
  EXPECT_EQ(parse({"--onnx=m", "--nvtxMode=verbose"}).value().verbosity, 2);
}

TEST(Camexec, ShapesGoToTheProfileBeforeThem) {
  const auto parsed =
      parse({"--onnx=m", "--optShapes=x:1", "--profile=2", "--minShapes=x:2", "--maxShapes=x:3"});
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed.value().profiles.size(), 3u);
  EXPECT_EQ(parsed.value().profiles[0].opt[0].second, Dims{1});
  EXPECT_TRUE(parsed.value().profiles[1].empty());
  EXPECT_EQ(parsed.value().profiles[2].max[0].second, Dims{3});
}

TEST(Camexec, InferenceShapesAloneAreBuiltFor) {
  const auto parsed = parse({"--onnx=m", "--shapes='a:b':4x2"});
  ASSERT_EQ(parsed.value().profiles.size(), 1u);
  EXPECT_EQ(parsed.value().profiles[0].opt[0], (std::pair<std::string, Dims>("a:b", {4, 2})));
}

TEST(Camexec, ReferencePairs) {
  const auto parsed =
      parse({"--onnx=m", "--loadInputs='x:0':a.bin,y:b.npy", "--loadRefOutputs=z:c.bin",
             "--refPair=1", "--loadInputs=x:d", "--loadRefOutputs=z:e", "--accuracyThreshold=0.1"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  ASSERT_EQ(parsed.value().pairs.size(), 2u);
  EXPECT_EQ(parsed.value().pairs[0].inputs[0],
            (std::pair<std::string, std::string>("x:0", "a.bin")));
  EXPECT_EQ(parsed.value().pairs[1].outputs[0].second, "e");
}

TEST(Camexec, ContradictionsAreErrors) {
  EXPECT_EQ(error({}), "give a model: --onnx=FILE or --loadEngine=FILE");
  EXPECT_EQ(error({"--onnx=m", "--loadEngine=e"}), "--onnx and --loadEngine exclude each other");
  EXPECT_EQ(error({"--loadEngine=e", "--saveEngine=f"}),
            "--loadEngine and --saveEngine exclude each other");
  EXPECT_EQ(error({"--onnx=m", "--loadRefOutputs=z:c"}),
            "--loadRefOutputs needs --accuracyThreshold=X");
  EXPECT_EQ(error({"--onnx=m", "--profilingVerbosity=detailed", "--profilingVerbosity=none"}),
            "--profilingVerbosity was given twice");
  EXPECT_EQ(error({"--onnx=m", "--sparsity=force"}),
            "--sparsity=force is not in this version: sparse tactics come with a later release");
  EXPECT_NE(error({"--onnx=m", "--inputIOFormats=fp16:chw"}).find("not in this version"),
            std::string::npos);
  EXPECT_EQ(error({"--onnx=m", "--inputIOFormats=fp32:chw,int64:chw"}), "");
  EXPECT_EQ(error({"--onnx=m", "--fp8"}),
            "--fp8 is not in this version: fp32, fp16, bf16 and int8 are the precisions of this "
            "version");
  EXPECT_EQ(error({"--onnx=m", "--iteration=3"}),
            "unknown option --iteration; did you mean --iterations?");
  EXPECT_EQ(error({"--onnx=m", "--duration=-0.5"}), "--duration: seconds, or -1 for no end");
}

TEST(CamexecOptions, LayerTypesFollowTheLastColon) {
  const auto parsed = parse({"--onnx=m", "--int8", "--precisionConstraints=obey",
                             "--layerPrecisions=a/b:0:fp32,'x,y':int8,*:fp32"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const CamexecOptions& options = parsed.value();
  ASSERT_EQ(options.layer_precisions.size(), 3u);
  EXPECT_EQ(options.layer_precisions[0].layer, "a/b:0");
  EXPECT_EQ(options.layer_precisions[1].layer, "x,y");
  EXPECT_EQ(options.layer_precisions[1].type, DataType::kInt8);
  EXPECT_EQ(options.precision_constraints, PrecisionConstraints::kObey);
  EXPECT_TRUE(options.int8);
  EXPECT_NE(error({"--onnx=m", "--layerPrecisions=a:fp8"}).find("not in this version"),
            std::string::npos);
  EXPECT_EQ(error({"--onnx=m", "--layerPrecisions=a:fp16"}), "layer \"a\": half needs --fp16");
  EXPECT_EQ(error({"--onnx=m", "--fp16", "--layerPrecisions=a:fp16"}), "");
  EXPECT_NE(error({"--onnx=m", "--layerOutputTypes=a"}).find("layer:type"), std::string::npos);
}

TEST(CamexecOptions, ReducedPrecisions) {
  EXPECT_TRUE(parse({"--onnx=m", "--bf16"}).value().bf16);
  EXPECT_FALSE(parse({"--onnx=m", "--bf16"}).value().fp16);
  EXPECT_TRUE(parse({"--onnx=m", "--best"}).value().bf16);
  EXPECT_TRUE(parse({"--onnx=m", "--best"}).value().fp16);
  EXPECT_FALSE(parse({"--onnx=m", "--fp16", "--stronglyTyped"}).value().fp16);
}

TEST(CamexecOptions, BestIsInt8OnlyWithScales) {
  EXPECT_FALSE(parse({"--onnx=m", "--best"}).value().int8);
  EXPECT_TRUE(parse({"--onnx=m", "--best", "--calib=c"}).value().int8);
  EXPECT_FALSE(parse({"--onnx=m", "--int8", "--stronglyTyped"}).value().int8);
  EXPECT_EQ(parse({"--onnx=m", "--calib=c"}).value().warnings.size(), 1u);
}

}  // namespace
}  // namespace camshaft::cli
