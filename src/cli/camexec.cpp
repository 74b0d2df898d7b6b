// SPDX-License-Identifier: Apache-2.0
#include "cli/camexec.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/cpu.h"
#include "base/topology.h"
#include "camshaft/builder.h"
#include "camshaft/inspector.h"
#include "camshaft/version.h"
#include "cli/bindings.h"
#include "cli/camexec_options.h"
#include "cli/camexec_report.h"
#include "cli/memory_meter.h"
#include "cli/session.h"
#include "cli/trace_export.h"
#include "cli/wording.h"

namespace camshaft::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double mebibytes(size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

// One run of the program: the parts in the order they happen.
class Camexec {
 public:
  Camexec(Console& console, CamexecOptions& camexec)
      : console_(console),
        camexec_(camexec),
        options_(camexec.options),
        words_(words_of(camexec.options.text("wording"))) {}

  Status run() {
    print_options(console_, words_, camexec_);
    console_.info("");
    print_device(console_);
    console_.info("");
    console_.info("{}{}", words_.version_line, CAMSHAFT_VERSION);
    print_warnings();
    CAMSHAFT_TRY(check_files(camexec_));
    if (options_.has("timeDeserialize") && options_.has("loadEngine")) return time_deserialize();
    CAMSHAFT_ASSIGN(Engine engine, options_.has("loadEngine") ? load() : build());
    if (options_.has("dumpOptimizationProfile")) print_profiles(console_, engine);
    if (options_.has("skipInference")) {
      CAMSHAFT_TRY(report_layers(engine, nullptr));
      console_.info("Skipped inference phase since --skipInference is added.");
      return ok_status();
    }
    return infer(engine);
  }

 private:
  void print_warnings() {
    if (!camexec_.always.empty()) console_.info("Always so: {}", fmt::join(camexec_.always, ", "));
    if (!camexec_.no_effect.empty())
      console_.warning("Without effect here: {}", fmt::join(camexec_.no_effect, ", "));
    for (const std::string& warning : camexec_.warnings) console_.warning("{}", warning);
  }

  int threads() const { return static_cast<int>(options_.integer("numThreads")); }

  Result<Engine> load() {
    const std::string file = options_.text("loadEngine");
    const Clock::time_point start = Clock::now();
    CAMSHAFT_ASSIGN(Engine engine, Engine::load(file));
    console_.info("Engine loaded in {:g} sec.", seconds_since(start));
    if (words_.is_trtexec())
      console_.info("Engine deserialized in {:g} sec.", seconds_since(start));
    console_.info("Loaded engine with size: {:g} MiB", mebibytes(engine.info().file_bytes));
    if (!engine.info().same_cpu) {
      console_.warning(
          "The engine was tuned on another machine ({}, or other caches or instruction set): it "
          "runs, but not at its best",
          engine.info().cpu_model);
    }
    if (camexec_.max_batch > 0)
      console_.warning("--maxBatch has no effect: the engine's profiles are what it was built for");
    CAMSHAFT_TRY(fit_options(engine.inputs(), engine.outputs()));
    return engine;
  }

  Status time_deserialize() {
    constexpr int kRepeats = 10;
    const std::string file = options_.text("loadEngine");
    std::vector<double> ms;
    for (int k = 0; k < kRepeats; ++k) {
      const Clock::time_point start = Clock::now();
      CAMSHAFT_ASSIGN(const Engine engine, Engine::load(file));
      ms.push_back(seconds_since(start) * 1e3);
    }
    console_.info("Deserialization took {:g} ms the first time, {:g} ms in the median of {}", ms[0],
                  summarize(ms, {}).median, kRepeats);
    return ok_status();
  }

  Result<Model> parse() {
    const std::string file = options_.text("onnx");
    console_.info("Start parsing network model{}", words_.is_8() ? "" : ".");
    const Clock::time_point start = Clock::now();
    CAMSHAFT_ASSIGN(Model model, Model::from_file(file));
    print_model_info(console_, words_, file, model.info());
    console_.info("{}{}", words_.finished,
                  words_.is_8() ? "" : fmt::format("{:g}", seconds_since(start)));
    return model;
  }

  // What the options ask of the network's inputs and outputs.
  Status fit_options(const std::vector<TensorInfo>& inputs,
                     const std::vector<TensorInfo>& outputs) {
    CAMSHAFT_TRY(check_io_formats(options_, "inputIOFormats", inputs));
    CAMSHAFT_TRY(check_io_formats(options_, "outputIOFormats", outputs));
    for (const ReferencePair& pair : camexec_.pairs)
      for (const auto& [name, file] : pair.outputs)
        CAMSHAFT_TRY(check_name(name, names_of(outputs), "--loadRefOutputs", "output"));
    return apply_batch(camexec_, inputs);
  }

  Result<BuildOptions> build_options(const Model& model) {
    CAMSHAFT_TRY(fit_options(model.inputs(), model.outputs()));
    BuildOptions build;
    std::vector<std::string> warnings;
    CAMSHAFT_ASSIGN(build.profiles, make_profiles(camexec_.profiles, model.inputs(), warnings));
    for (const std::string& warning : warnings) console_.warning("{}", warning);
    build.threads = threads();
    build.optimization_level = options_.has("heuristic")
                                   ? 2
                                   : static_cast<int>(options_.integer("builderOptimizationLevel"));
    build.avg_timing =
        static_cast<int>(std::max(options_.integer("avgTiming"), options_.integer("minTiming")));
    build.portable =
        options_.has("portable") || options_.text("hardwareCompatibilityLevel") == "ampere+";
    if (options_.has("dump-after"))
      build.dump_after = split_outside_quotes(options_.text("dump-after"), ',');
    if (options_.has("dump-to")) build.dump_to = options_.text("dump-to");
    build.max_tactics = static_cast<int>(options_.integer("maxTactics"));
    build.timing_cache = options_.text("timingCacheFile");
    build.use_timing_cache = !options_.has("noBuilderCache");
    build.error_on_timing_cache_miss = options_.has("errorOnTimingCacheMiss");
    build.int8 = camexec_.int8;
    build.strongly_typed = options_.has("stronglyTyped");
    build.bf16 = camexec_.bf16;
    build.fp16 = camexec_.fp16;
    if (camexec_.int8) build.calibration_cache = options_.text("calib");
    build.layer_precisions = camexec_.layer_precisions;
    build.layer_output_types = camexec_.layer_output_types;
    build.precision_constraints = camexec_.precision_constraints;
    build.sparsity = camexec_.sparsity;
    build.verbosity = static_cast<Verbosity>(camexec_.verbosity);
    build.progress = [this](const char* phase, int done, int total) {
      if (!console_.is_verbose()) console_.progress().update(phase, done, total);
      return !interrupted();
    };
    return build;
  }

  Result<Engine> build() {
    MemoryMeter memory(console_, words_);
    CAMSHAFT_ASSIGN(Model model, parse());
    memory.report("parsing the network");
    CAMSHAFT_ASSIGN(const BuildOptions build_options, this->build_options(model));
    const Clock::time_point start = Clock::now();
    BuildStatistics statistics;
    Result<Engine> engine = camshaft::build(std::move(model), build_options, &statistics);
    console_.progress().clear();
    CAMSHAFT_TRY(engine.status());
    memory.report("building the engine");
    console_.info("Engine built in {:g} sec.", seconds_since(start));
    console_.verbose("Graph optimization {:g} s, tactic timing {:g} s: {}",
                     statistics.graph_seconds, statistics.timing_seconds, timing_text(statistics));
    console_.info("Created engine with size: {:g} MiB", mebibytes(engine->info().file_bytes));
    if (options_.has("saveEngine")) {
      CAMSHAFT_TRY(engine->save(options_.text("saveEngine")));
      console_.info("Saved engine to {}", options_.text("saveEngine"));
    }
    return engine;
  }

  // Where only names are asked for, a region is one line.
  std::vector<std::string> layer_lines(const Inspector& inspector, Verbosity verbosity) const {
    std::vector<std::string> lines;
    for (const LayerInfo& layer : inspector.layers()) {
      const bool in_region = layer.region >= 0 && verbosity == Verbosity::kLayerNamesOnly;
      if (!in_region)
        lines.push_back(inspector.layer_line(layer.index, words_.wording));
      else if (inspector.regions()[static_cast<size_t>(layer.region)].layers[0] == layer.index)
        lines.push_back(inspector.region_line(layer.region, words_.wording));
    }
    return lines;
  }

  Status report_layers(const Engine& engine, const Context* context) {
    const Inspector inspector =
        context != nullptr ? Inspector(engine, *context) : Inspector(engine);
    const auto verbosity = static_cast<Verbosity>(camexec_.verbosity);
    if (console_.is_verbose()) {
      std::string text = "Engine Layer Information:";
      for (const std::string& line : layer_lines(inspector, verbosity)) text += "\n" + line;
      console_.verbose("{}", text);
    }
    if (options_.has("dumpLayerInfo")) {
      console_.info("Layer Information:");
      std::string text = inspector.to_text(verbosity, words_.wording);
      if (text.ends_with('\n')) text.pop_back();
      console_.info("{}", text);
    }
    if (options_.has("exportLayerInfo")) {
      CAMSHAFT_TRY(write_file(options_.text("exportLayerInfo"),
                              inspector.to_json(verbosity, words_.wording)));
    }
    return ok_status();
  }

  Status create_contexts(const Engine& engine) {
    const int streams = static_cast<int>(options_.integer("infStreams"));
    ContextOptions context_options;
    context_options.profile = static_cast<int>(options_.integer("useProfile"));
    context_options.threads =
        threads() > 0 ? threads() : std::max(1, default_num_threads() / streams);
    if (options_.has("useSpinWait")) context_options.spin_us = 1000000;
    if (options_.has("noSpinWait")) context_options.spin_us = 0;
    for (int k = 0; k < streams; ++k) {
      CAMSHAFT_ASSIGN(Context context, Context::create(engine, context_options));
      contexts_.push_back(std::move(context));
    }
    return ok_status();
  }

  Status bind(InputSet& inputs) {
    for (const std::string& converted : inputs.notes()) console_.warning("{}", converted);
    CAMSHAFT_TRY(check_profile(contexts_[0].engine(),
                               static_cast<int>(options_.integer("useProfile")), inputs.shapes(),
                               "--useProfile="));
    std::string note;
    CAMSHAFT_TRY(inputs.try_run(contexts_[0], note));
    if (!note.empty()) console_.warning("{}", note);
    for (size_t k = 1; k < contexts_.size(); ++k) CAMSHAFT_TRY(inputs.bind(contexts_[k]));
    for (size_t k = 0; k < inputs.tensors().size(); ++k) {
      const HostTensor& tensor = inputs.tensors()[k];
      if (inputs.is_random(k)) {
        console_.info("Using random values for input {}", tensor.name);
      } else {
        console_.info("Using values loaded from {} for input {}", file_of_input(tensor.name),
                      tensor.name);
      }
      print_binding("Input", tensor.name, tensor.dims);
    }
    for (const TensorInfo& info : contexts_[0].engine().outputs()) {
      CAMSHAFT_ASSIGN(const Dims dims, contexts_[0].output_shape(info.name));
      print_binding("Output", info.name, dims);
    }
    return ok_status();
  }

  void print_binding(const char* side, const std::string& name, const Dims& dims) {
    if (words_.is_8())
      console_.info("Created {} binding for {} with dimensions {}",
                    *side == 'I' ? "input" : "output", name, to_string(dims));
    else
      console_.info("{} binding for {} with dimensions {} is created.", side, name,
                    to_string(dims));
  }

  std::string file_of_input(const std::string& name) const {
    for (const auto& [input, file] : camexec_.pairs[0].inputs) {
      if (input == name) return file;
    }
    return "";
  }

  LoopOptions loop_options() {
    LoopOptions loop;
    loop.iterations = options_.integer("iterations");
    loop.warm_up_ms = options_.number("warmUp");
    loop.duration_s = options_.number("duration");
    loop.sleep_ms = options_.number("sleepTime");
    loop.idle_ms = options_.number("idleTime");
    loop.progress = [this](double elapsed, double total) {
      if (total > 2) {
        console_.progress().update("measuring", static_cast<int64_t>(elapsed * 1e3),
                                   static_cast<int64_t>(total * 1e3));
      }
    };
    return loop;
  }

  Result<LoopResult> measure() {
    Result<LoopResult> result = run_loop(contexts_, loop_options());
    console_.progress().clear();
    return result;
  }

  // The performance run, and the layer times of the same run or of a second one.
  Status measure_all(const Engine& engine) {
    const bool wants_profile = options_.has("dumpProfile") || options_.has("exportProfile");
    const bool separate = options_.has("separateProfileRun");
    const Inspector inspector(engine, contexts_[0]);
    LayerProfile profile(inspector);
    if (!wants_profile || separate) {
      CAMSHAFT_TRY(measure_times());
    }
    if (!wants_profile) return ok_status();
    contexts_[0].set_profiler([&](const LayerTime& time) { profile.add(time); }, true);
    console_.info("Starting inference{}", separate ? " with the layer profiler" : "");
    CAMSHAFT_ASSIGN(const LoopResult result, measure_profiled(profile));
    contexts_[0].set_profiler(nullptr);
    if (!separate) {
      print_counts(result);
      console_.info(
          "{} not reported: reading the clock after every layer adds to them. Use "
          "--separateProfileRun to get both.",
          words_.is_trtexec() ? "The e2e network timing is" : "End-to-end times are");
    }
    return report_profile(profile);
  }

  Result<LoopResult> measure_profiled(LayerProfile& profile) {
    // Warm-up runs are dropped: the profile starts over when they are done.
    LoopOptions loop = loop_options();
    bool warm = loop.warm_up_ms <= 0;
    const Clock::time_point start = Clock::now();
    loop.stop = [&, warm_up_ms = loop.warm_up_ms]() mutable {
      if (warm) {
        profile.end_run();
      } else if (seconds_since(start) * 1e3 >= warm_up_ms) {
        warm = true;
        profile.clear();
      }
      return false;
    };
    Result<LoopResult> result = run_loop(std::span<Context>(contexts_.data(), 1), loop);
    console_.progress().clear();
    return result;
  }

  void print_counts(const LoopResult& result) {
    console_.info("Warmup completed {} queries over {} ms", result.warm_up_queries,
                  options_.text("warmUp"));
    console_.info("Timing trace has {} queries over {:g} s", result.queries.size(),
                  result.wall_seconds);
  }

  Status measure_times() {
    console_.info("Starting inference");
    CAMSHAFT_ASSIGN(const LoopResult result, measure());
    print_counts(result);
    console_.info("");
    print_trace(console_, words_, result.queries, options_.integer("avgRuns"));
    print_summary(console_, words_, result, camexec_.percentiles,
                  static_cast<int>(contexts_.size()));
    print_explanations(console_, words_);
    if (options_.has("exportTimes"))
      return write_file(options_.text("exportTimes"), times_json(result.queries));
    return ok_status();
  }

  Status report_profile(const LayerProfile& profile) {
    if (options_.has("dumpProfile")) {
      std::string text = words_.is_8() ? profile_text_8(profile) : profile.to_text();
      text.pop_back();
      console_.info("");
      // One record per line, as trtexec prints it.
      for (size_t first = 0; first <= text.size();) {
        const size_t end = std::min(text.find('\n', first), text.size());
        console_.info("{}", text.substr(first, end - first));
        first = end + 1;
      }
    }
    if (options_.has("exportProfile"))
      return write_file(options_.text("exportProfile"), profile.to_json());
    return ok_status();
  }

  Status report_outputs(const InputSet& inputs) {
    Context& context = contexts_[0];
    CAMSHAFT_TRY(context.run());
    if (options_.has("dumpOutput")) {
      CAMSHAFT_ASSIGN(const std::string text, outputs_text(context));
      console_.info("{}", text);
    }
    if (options_.has("exportOutput")) {
      CAMSHAFT_ASSIGN(const std::string text, outputs_json(context));
      CAMSHAFT_TRY(write_file(options_.text("exportOutput"), text));
    }
    if (!options_.has("dumpRawBindingsToFile")) return ok_status();
    const Engine& engine = context.engine();
    const std::vector<std::string> input_files = file_names_of(engine.inputs());
    for (size_t k = 0; k < inputs.tensors().size(); ++k)
      CAMSHAFT_TRY(dump_raw(".", input_files[k], "input", inputs.tensors()[k].view()));
    const std::vector<std::string> output_files = file_names_of(engine.outputs());
    for (size_t k = 0; k < output_files.size(); ++k) {
      CAMSHAFT_ASSIGN(const TensorView view, context.output(engine.outputs()[k].name));
      CAMSHAFT_TRY(dump_raw(".", output_files[k], "output", view));
    }
    return ok_status();
  }

  // What stays in memory while the engine is there, and what every context adds.
  void print_memory(const Engine& engine) {
    console_.verbose("Total per-runner host persistent memory is {}", engine.info().weight_bytes);
    console_.verbose("Total Activation Memory: {}", contexts_[0].activation_bytes());
    console_.verbose("Activation memory: {:g} MiB, workspace: {:g} MiB per context",
                     mebibytes(contexts_[0].activation_bytes()),
                     mebibytes(contexts_[0].workspace_bytes()));
  }

  Status infer(const Engine& engine) {
    MemoryMeter memory(console_, words_);
    CAMSHAFT_TRY(create_contexts(engine));
    memory.report("IExecutionContext creation");
    CAMSHAFT_ASSIGN(NamedTensors given, read_inputs(camexec_.pairs[0]));
    CAMSHAFT_ASSIGN(InputSet inputs,
                    InputSet::create(contexts_[0], camexec_.shapes, std::move(given)));
    CAMSHAFT_TRY(bind(inputs));
    print_memory(engine);
    CAMSHAFT_TRY(report_layers(engine, &contexts_[0]));
    CAMSHAFT_TRY(measure_all(engine));
    if (options_.has("exportTrace")) {
      constexpr int kSteps = 5;
      CAMSHAFT_TRY(export_trace(contexts_[0], kSteps, options_.text("exportTrace")));
      console_.info("Trace of {} runs written to {}", kSteps, options_.text("exportTrace"));
    }
    CAMSHAFT_TRY(report_outputs(inputs));
    return check_references(console_, camexec_, contexts_[0]);
  }

  Console& console_;
  CamexecOptions& camexec_;
  const Options& options_;
  const LogWords& words_;
  std::vector<Context> contexts_;
};

// "&&&& RUNNING Camshaft.camexec [Camshaft v100] # camexec --onnx=m.onnx"
void banner(const LogWords& words, const char* state, std::span<char* const> line) {
  fmt::print("{} # {}\n", banner_head(words, state), fmt::join(line.begin(), line.end(), " "));
  std::fflush(stdout);
}

int print_plan_version(Console& console, const LogWords& words, const Options& options) {
  const auto engine = Engine::load(options.text("loadEngine"));
  if (!engine.ok()) {
    console.error("{}", engine.status().message());
    return 1;
  }
  console.info("{}{}", words.version_line, engine.value().info().builder_version);
  return 0;
}

}  // namespace

int camexec(std::span<char* const> words) {
  auto parsed = parse_camexec(words.empty() ? words : words.subspan(1));
  if (parsed.ok() && parsed.value().options.has("help")) {
    fmt::print("{}", options_help(camexec_rows()));
    return 0;
  }
  const LogWords& spoken = words_of(parsed.ok() ? parsed.value().options.text("wording") : "");
  banner(spoken, "RUNNING", words);
  Console console(parsed.ok() && parsed.value().options.has("verbose"), spoken.library);
  int code = 1;
  if (!parsed.ok()) {
    console.error("{} (--help lists all options)", parsed.status().message());
  } else if (parsed.value().options.has("getPlanVersionOnly")) {
    code = print_plan_version(console, spoken, parsed.value().options);
  } else {
    set_logger(&console, console.is_verbose() ? Severity::kVerbose : Severity::kInfo);
    const Options& options = parsed.value().options;
    if (options.has("affinity")) force_affinity(parse_affinity(options.text("affinity")).value());
    install_interrupt_handler();
    const Status status = Camexec(console, parsed.value()).run();
    set_logger(nullptr);
    if (!status.ok()) console.error("{}", status.message());
    code = status.ok() ? 0 : 1;
  }
  banner(spoken, code == 0 ? "PASSED" : "FAILED", words);
  return code;
}

}  // namespace camshaft::cli
