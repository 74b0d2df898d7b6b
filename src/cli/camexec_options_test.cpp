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
                                           "heuristic",
                                           "explicitPrecision",
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
                                           "affinity",
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
    if (row.status == OptionStatus::kNoEffect || row.status == OptionStatus::kAlways) {
      ASSERT_TRUE(parsed.ok()) << word << ": " << parsed.status().message();
      const auto& said =
          row.status == OptionStatus::kAlways ? parsed.value().always : parsed.value().no_effect;
      ASSERT_EQ(said.size(), 1u) << word;
      EXPECT_EQ(said[0].find(std::string("--") + row.name + " ("), 0u) << said[0];
      EXPECT_GT(said[0].size(), std::string(row.name).size() + 10) << "no reason: " << said[0];
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
  EXPECT_EQ(error({"--onnx=m", "--sparsity=some"}),
            "--sparsity: 'some' is not one of disable|enable|force");
  EXPECT_EQ(error({"--onnx=m", "--batch=2", "--shapes=x:2"}),
            "--batch and --shapes exclude each other");
  EXPECT_EQ(error({"--onnx=m", "--batch=4", "--maxBatch=2"}), "--batch=4 is above --maxBatch=2");
  EXPECT_EQ(error({"--onnx=m", "--optShapes=x:1", "--optShapes=y:2"}), "");
  EXPECT_EQ(error({"--onnx=m", "--optShapes=x:1", "--optShapes=x:2"}),
            "--optShapes: 'x' was given two shapes, 1 and 2");
  EXPECT_EQ(error({"--onnx=m", "--fp8"}),
            "--fp8 is not in this version: fp32, fp16, bf16 and int8 are the precisions of this "
            "version");
  EXPECT_EQ(error({"--onnx=m", "--iteration=3"}),
            "unknown option --iteration; did you mean --iterations?");
  EXPECT_EQ(error({"--onnx=m", "--duration=-0.5"}), "--duration: seconds, or -1 for no end");
}

TensorInfo tensor(std::string name, DataType type, Dims dims) {
  TensorInfo info;
  info.name = std::move(name);
  info.type = type;
  info.dims = std::move(dims);
  return info;
}

TEST(CamexecOptions, BatchIsAppliedWhereItIsDynamic) {
  const std::vector<TensorInfo> inputs = {tensor("x", DataType::kFloat, {-1, 3}),
                                          tensor("size", DataType::kInt64, {2})};
  CamexecOptions camexec = parse({"--onnx=m", "--batch=4", "--maxBatch=8"}).value();
  ASSERT_TRUE(apply_batch(camexec, inputs).ok());
  EXPECT_EQ(camexec.shapes, (NamedShapes{{"x", {4, 3}}}));
  ASSERT_EQ(camexec.profiles.size(), 1u);
  EXPECT_EQ(camexec.profiles[0].min, (NamedShapes{{"x", {1, 3}}}));
  EXPECT_EQ(camexec.profiles[0].max, (NamedShapes{{"x", {8, 3}}}));

  const std::vector<TensorInfo> fixed = {tensor("x", DataType::kFloat, {1, 3})};
  CamexecOptions eight = parse({"--onnx=m", "--batch=8"}).value();
  EXPECT_EQ(apply_batch(eight, fixed).message(),
            "--batch=8: input 'x' has the fixed shape 1x3: export the model with a dynamic batch, "
            "or run it as it is");
  CamexecOptions one = parse({"--onnx=m", "--batch=1"}).value();
  EXPECT_TRUE(apply_batch(one, fixed).ok());
  const std::vector<TensorInfo> wild = {tensor("x", DataType::kFloat, {-1, -1})};
  CamexecOptions many = parse({"--onnx=m", "--batch=2"}).value();
  EXPECT_NE(apply_batch(many, wild).message().find("use --shapes=x:"), std::string::npos);
}

TEST(CamexecOptions, IoFormatsAreTheNetworksOwn) {
  const std::vector<TensorInfo> inputs = {tensor("x", DataType::kFloat, {1}),
                                          tensor("ids", DataType::kInt64, {1})};
  const auto check = [&](const std::string& spec) {
    const auto parsed = parse({"--onnx=m", "--inputIOFormats=" + spec});
    return check_io_formats(parsed.value().options, "inputIOFormats", inputs).message();
  };
  EXPECT_EQ(check("fp32:chw,int64:chw"), "");
  EXPECT_EQ(check("chw"), "");
  EXPECT_EQ(check("fp16:chw+fp32:chw,int64:chw"), "");
  EXPECT_NE(check("int8:chw,int64:chw").find("'x' is float"), std::string::npos);
  EXPECT_NE(check("fp32:chw").find("'ids' is int64"), std::string::npos);
  EXPECT_NE(check("fp32:chw32,int64:chw").find("only row major"), std::string::npos);
  EXPECT_NE(check("fp33:chw,int64:chw").find("'fp33' is not a type"), std::string::npos);
  EXPECT_NE(check("chw,chw,chw").find("3 formats for 2 tensors"), std::string::npos);
}

TEST(CamexecOptions, Sparsity) {
  EXPECT_EQ(parse({"--onnx=m"})->sparsity, Sparsity::kDisable);
  EXPECT_EQ(parse({"--onnx=m", "--sparsity=enable"})->sparsity, Sparsity::kEnable);
  EXPECT_EQ(parse({"--onnx=m", "--sparsity=force"})->sparsity, Sparsity::kForce);
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
