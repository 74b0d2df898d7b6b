// SPDX-License-Identifier: Apache-2.0
// camshaft run: one inference per data set, outputs shown, saved, and compared with what is
// expected.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "cli/statistics.h"
#include "cli/trace_export.h"

namespace camshaft::cli {
namespace {

struct Tolerance {
  double rtol = 1e-3;
  double atol = -1;  // negative: 1e-4 of the largest reference value
};

// "0.1 0.25 … (12 more)"
std::string sample(const std::vector<double>& values) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t k = 0; k < std::min(values.size(), kShown); ++k)
    text += fmt::format("{}{:.6g}", k > 0 ? " " : "", values[k]);
  return values.size() > kShown ? text + " …" : text;
}

double largest_finite(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

class Runner {
 public:
  Runner(const Options& options, const Engine& engine) : options_(options), engine_(engine) {
    tolerance_.rtol = options.number("rtol");
    if (options.has("atol")) tolerance_.atol = options.number("atol");
  }

  Status run_set(DataSet set, size_t number) {
    CAMSHAFT_ASSIGN(NamedShapes shapes, wanted_shapes(options_));
    for (const auto& [name, tensor] : set.inputs)
      if (tensor.has_shape && find_shape(shapes, name) == nullptr)
        shapes.emplace_back(name, tensor.dims);
    CAMSHAFT_ASSIGN(Context* const context, context_for(shapes));
    const bool any_random = set.inputs.size() < engine_.inputs().size();
    CAMSHAFT_ASSIGN(InputSet inputs, InputSet::create(*context, shapes, std::move(set.inputs)));
    std::string note;
    CAMSHAFT_TRY(inputs.try_run(*context, note));
    if (!note.empty()) warn(note);
    if (number > 0) fmt::print("\n");
    if (!set.source.empty()) fmt::print("{}\n", styled(set.source, Style::kBold));
    if (any_random)
      fmt::print("{}\n", styled("inputs not given are random, the same every time", Style::kDim));
    CAMSHAFT_TRY(report(*context, set.outputs));
    if (options_.has("save-outputs")) CAMSHAFT_TRY(save(*context, number));
    if (options_.has("trace") && number == 0) {
      CAMSHAFT_TRY(export_trace(*context, 5, options_.text("trace")));
      fmt::print("trace of 5 runs: {}\n", options_.text("trace"));
    }
    return ok_status();
  }

  // Whether all that was expected came; asking for a comparison without expectations is an error.
  Result<bool> conclude() const {
    const bool asked = options_.has("rtol") || options_.has("atol");
    if (compared_ == 0 && asked)
      return Status(ErrorCode::kInvalidArgument,
                    "there is nothing to compare with: give expected values with --expect or "
                    "--data");
    if (compared_ > 0)
      fmt::print("\ncompared {} of {} output{}: {}\n", compared_, outputs_,
                 outputs_ == 1 ? "" : "s",
                 failed_ == 0 ? "all as expected" : fmt::format("{} FAILED", failed_));
    return failed_ == 0;
  }

 private:
  // One context per optimization profile that the data sets need.
  Result<Context*> context_for(const NamedShapes& shapes) {
    const int profile = fitting_profile(engine_, shapes);
    auto found = contexts_.find(profile);
    if (found == contexts_.end()) {
      CAMSHAFT_ASSIGN(Context context, make_context(engine_, options_, shapes));
      found = contexts_.emplace(profile, std::move(context)).first;
    }
    return &found->second;
  }

  Status report(Context& context, NamedTensors& references) {
    Table table({{"output"},
                 {"type"},
                 {"shape"},
                 {"max abs", Align::kRight},
                 {"max rel", Align::kRight},
                 {"cosine", Align::kRight},
                 {"outside", Align::kRight},
                 {"result"}});
    Table plain({{"output"},
                 {"type"},
                 {"shape"},
                 {"min", Align::kRight},
                 {"max", Align::kRight},
                 {"mean", Align::kRight},
                 {"values"}});
    for (const TensorInfo& info : engine_.outputs()) {
      CAMSHAFT_ASSIGN(const TensorView view, context.output(info.name));
      ++outputs_;
      auto found = references.find(info.name);
      if (found == references.end()) {
        add_plain(plain, info, view);
      } else {
        add_comparison(table, info, view, found->second);
      }
    }
    if (!table.empty()) fmt::print("{}", table.text());
    if (!plain.empty()) fmt::print("{}", plain.text());
    return ok_status();
  }

  static void add_plain(Table& table, const TensorInfo& info, const TensorView& view) {
    const std::vector<double> values = to_doubles(view);
    const Summary summary = summarize(values, {});
    table.add({info.name, std::string(type_name(info.type)), to_string(view.dims),
               fmt::format("{:.6g}", summary.min), fmt::format("{:.6g}", summary.max),
               fmt::format("{:.6g}", summary.mean), sample(values)});
  }

  void add_comparison(Table& table, const TensorInfo& info, const TensorView& view,
                      HostTensor& reference) {
    ++compared_;
    const std::vector<std::string> head = {info.name, std::string(type_name(info.type)),
                                           to_string(view.dims)};
    if (!reference.has_shape) {
      reference.type = view.type;
      reference.dims = view.dims;
    }
    if (reference.dims != view.dims ||
        reference.bytes.size() != byte_size(reference.type, element_count(reference.dims))) {
      ++failed_;
      table.add({head[0], head[1], head[2], "", "", "", "",
                 "FAILED: expected shape " + to_string(reference.dims)},
                Style::kRed);
      return;
    }
    const std::vector<double> expected = to_doubles(reference.view());
    const double atol = tolerance_.atol >= 0 ? tolerance_.atol : 1e-4 * largest_finite(expected);
    const Difference difference = compare(to_doubles(view), expected, atol, tolerance_.rtol);
    const bool good = difference.outside == 0;
    failed_ += good ? 0 : 1;
    table.add(
        {head[0], head[1], head[2], fmt::format("{:.3g}", difference.max_absolute),
         fmt::format("{:.3g}", difference.max_relative), fmt::format("{:.7f}", difference.cosine),
         std::to_string(difference.outside), good ? "ok" : "FAILED"},
        good ? Style::kGreen : Style::kRed);
  }

  Status save(const Context& context, size_t number) {
    std::filesystem::path folder = options_.text("save-outputs");
    if (number > 0) folder /= fmt::format("{}", number);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return make_error(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
    const std::vector<TensorInfo>& outputs = engine_.outputs();
    const std::vector<std::string> files = file_names_of(outputs);
    for (size_t k = 0; k < outputs.size(); ++k) {
      CAMSHAFT_ASSIGN(const TensorView view, context.output(outputs[k].name));
      CAMSHAFT_TRY(write_npy(folder / (files[k] + ".npy"), view));
    }
    return ok_status();
  }

  const Options& options_;
  const Engine& engine_;
  Tolerance tolerance_;
  std::map<int, Context> contexts_;
  int outputs_ = 0, compared_ = 0, failed_ = 0;  // of all data sets
};

Result<bool> run_model(const Options& options) {
  Messages messages(options.has("verbose"));
  CAMSHAFT_TRY(check_writable(options.text("trace"), "--trace"));
  CAMSHAFT_ASSIGN(Network network, Network::open(options.positionals()[0]));
  CAMSHAFT_ASSIGN(std::vector<DataSet> sets, read_data(network, options, messages));
  CAMSHAFT_ASSIGN(const Engine engine, network.engine(options, sets, messages));
  Runner runner(options, engine);
  for (size_t k = 0; k < sets.size(); ++k) CAMSHAFT_TRY(runner.run_set(std::move(sets[k]), k));
  return runner.conclude();
}

}  // namespace

int run_command(std::span<char* const> args) {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  const std::vector<OptionRow> rows = with_input_rows({
      {"expect", OptionValue::kText, "NAME:FILE,…", "", "Outputs", kWorks,
       "values the outputs should have"},
      {"rtol", OptionValue::kNumber, "X", "1e-3", "Outputs", kWorks, "relative tolerance", "", 0,
       0},
      {"atol", OptionValue::kNumber, "X", "", "Outputs", kWorks,
       "absolute tolerance; default: 1e-4 of the largest expected value", "", 0, 0},
      {"save-outputs", OptionValue::kText, "DIR", "", "Outputs", kWorks,
       "write the outputs there as .npy", "", 'o'},
      {"trace", OptionValue::kText, "FILE", "", "Outputs", kWorks,
       "write a trace of some runs for profiler viewers"},
      profile_row(),
  });
  int code = 0;
  const auto options =
      parse_command("run", "MODEL.onnx|ENGINE [--data DIR] [options]", rows, args, 1, code);
  if (!options) return code;
  const Result<bool> good = run_model(*options);
  if (!good.ok()) return fail(good.status().message());
  return good.value() ? 0 : fail("an output is not what was expected");
}

}  // namespace camshaft::cli
