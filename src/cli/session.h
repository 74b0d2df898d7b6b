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
#include "cli/bindings.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace camshaft::cli {

// Rows every command that builds or runs takes: shapes, threads, timing cache, level, verbose,
// help.
std::vector<OptionRow> with_common_rows(std::vector<OptionRow> rows);
// Rows of commands that run on inputs: data, input, shape, random.
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

// Input values and expected outputs, by name; a reference without a name has its position.
struct DataSet {
  std::string source;  // the folder or file it came from
  NamedTensors inputs, outputs;
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

 private:
  std::filesystem::path file_;
  std::optional<Model> model_;
  std::optional<Engine> engine_;
};

// The data sets of a folder of ONNX test data: input_N.pb and output_N.pb, or test_data_set_N
// folders of them.
Result<std::vector<DataSet>> read_test_folder(const std::filesystem::path& folder,
                                              const std::vector<std::string>& inputs,
                                              const std::vector<std::string>& outputs);

// The data sets of --data (ONNX test folders, .npz) and --input; one empty set if neither is given.
Result<std::vector<DataSet>> read_data(const Network& network, const Options& options);

Result<Context> make_context(const Engine& engine, const Options& options);

}  // namespace camshaft::cli
