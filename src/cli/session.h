// SPDX-License-Identifier: Apache-2.0
// What the subcommands of `camshaft` share: common options, engines from .onnx or engine files,
// messages, inputs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "camshaft/builder.h"
#include "camshaft/engine.h"
#include "camshaft/inspector.h"
#include "cli/bindings.h"
#include "cli/data_sets.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace camshaft::cli {

// Rows every command that builds or runs takes: shapes, threads, timing cache, level, verbose,
// help.
std::vector<OptionRow> with_common_rows(std::vector<OptionRow> rows);
OptionRow profile_row();  // of commands that run engines
// Rows of commands that run on inputs: data, input, shape.
std::vector<OptionRow> with_input_rows(std::vector<OptionRow> rows);

// Parses, answers --help, prints errors. Empty: done, with `code`.
std::optional<Options> parse_command(const char* name, const char* usage,
                                     const std::vector<OptionRow>& rows,
                                     std::span<char* const> args, size_t max_positionals,
                                     int& code);

// Prints the library's warnings (and with --verbose all of its log) on standard error while it
// lives.
class Messages : public Logger {
 public:
  explicit Messages(bool verbose);
  ~Messages() override;
  void log(Severity severity, std::string_view text) override;
  ProgressLine& progress() { return progress_; }

 private:
  bool verbose_;
  ProgressLine progress_;
};

// An .onnx file imported, or an engine file loaded: opened once, so that data can be matched with
// its inputs before it is built.
class Network {
 public:
  static Result<Network> open(const std::filesystem::path& file);

  const std::filesystem::path& file() const { return file_; }
  bool is_model() const { return model_.has_value(); }
  const std::vector<TensorInfo>& inputs() const {
    return model_ ? model_->inputs() : engine_->inputs();
  }
  const std::vector<TensorInfo>& outputs() const {
    return model_ ? model_->outputs() : engine_->outputs();
  }

  // The engine: built (with progress) or the loaded one. `data` gives shapes to dynamic inputs
  // where no options do: the profile spans them all, tuned for the first. To be called once.
  Result<Engine> engine(const Options& options, const std::vector<DataSet>& data,
                        Messages& messages, BuildStatistics* statistics = nullptr);
  // The same with these optimization profiles, where it is built.
  Result<Engine> engine_for(const Options& options, std::vector<OptimizationProfile> profiles,
                            Messages& messages, BuildStatistics* statistics = nullptr);
  // A model is built as if it had no Q/DQ.
  void drop_quantization() { drops_quantization_ = true; }

 private:
  std::filesystem::path file_;
  std::optional<Model> model_;
  std::optional<Engine> engine_;
  bool drops_quantization_ = false;
};

// All of `notes`, or the first ones and how many more: a thousand files converted are one fact.
void print_notes(Messages& messages, const std::vector<std::string>& notes);

// The data sets of --data, and of --input and --expect, which go to the first; one empty set if
// none of them is given. Values are of the network's element types.
Result<std::vector<DataSet>> read_data(const Network& network, const Options& options,
                                       Messages& messages);

// The sentence under a table of rates that count more than is multiplied.
inline constexpr const char* kCountedArithmetic =
    "* of direct or dense arithmetic, or all keys: Winograd, sparse tactics and attention of given "
    "lengths multiply less, so it may be above 100 % of the peak";

std::vector<std::string> names_of(const std::vector<TensorInfo>& infos);

// "775 tactics timed, 738 more times from alike layers, 0 from the timing cache": where a build's
// times came from.
std::string timing_text(const BuildStatistics& statistics);

// The shapes of --shape, which may be given several times.
Result<NamedShapes> wanted_shapes(const Options& options);

// A context of --profile, else of the first profile that takes `shapes`; of several streams each
// has its share of the processors.
Result<Context> make_context(const Engine& engine, const Options& options,
                             const NamedShapes& shapes = {}, int streams = 1);

}  // namespace camshaft::cli
