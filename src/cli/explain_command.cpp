// SPDX-License-Identifier: Apache-2.0
// camshaft explain: why an engine, or one of its layers, is as it is.
#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "camshaft/inspector.h"
#include "cli/commands.h"
#include "cli/float_comparison.h"
#include "cli/layer_text.h"
#include "cli/region_report.h"
#include "cli/session.h"

namespace camshaft::cli {
namespace {

void print_candidates(const LayerInfo& layer) {
  Table table({{""}, {"candidate"}, {"format"}, {"us", Align::kRight}, {"why not"}});
  std::map<std::string, std::vector<std::string>> refusals;
  for (const LayerCandidate& candidate : layer.candidates) {
    const std::string name = candidate.tactic.empty() ? "reference" : candidate.tactic;
    if (!candidate.chosen && !candidate.refusal.empty() && candidate.time_us <= 0) {
      refusals[candidate.refusal].push_back(name);
      continue;
    }
    table.add({candidate.chosen ? "*" : "", name, candidate.formats,
               microseconds_text(candidate.time_us), candidate.why_not},
              candidate.chosen ? Style::kGreen : Style::kPlain);
  }
  if (!table.empty()) fmt::print("\n{}", table.text());
  if (refusals.empty()) return;
  fmt::print("\n{}\n", styled("not possible here", Style::kBold));
  for (const auto& [reason, names] : refusals)
    fmt::print("  {}: {}\n", reason, fmt::join(names, ", "));
}

void print_tensors(const char* what, const std::vector<LayerTensor>& tensors) {
  for (const LayerTensor& tensor : tensors) {
    fmt::print("{}  {} {}, {}\n", what, tensor.name, to_string(tensor.dims), tensor.format);
  }
}

void print_inner_layers(const LayerInfo& layer) {
  Table table({{"inside", Align::kLeft, 72}, {"kind"}, {"tactic"}, {"body"}, {"output"}});
  for (const InnerLayer& inner : layer.inner)
    table.add({indented_name(inner), inner.type, tactic_text(inner), inner.body,
               shapes_text(inner.outputs)},
              inner.is_no_op ? Style::kDim : Style::kPlain);
  if (table.empty()) return;
  fmt::print("\n{}", table.text());
  fmt::print("`camshaft bench MODEL` times them: calls of a run, ms of all of these.\n");
}

void explain_layer(const Engine& engine, const Inspector& inspector, const LayerInfo& layer) {
  const EngineInfo& info = engine.info();
  fmt::print("{}\n", styled(layer.name, Style::kBold));
  fmt::print("kind    {}\n", layer.type);
  if (layer.is_no_op) {
    fmt::print("tactic  none: its output is a view of its input, nothing runs\n");
  } else if (layer.has_bodies()) {
    fmt::print("tactic  none of its own: it runs the layers of its bodies\n");
  } else {
    fmt::print("tactic  {}{}\n",
               !layer.tactic.empty() ? layer.tactic
               : layer.is_late       ? "looked for when it runs: only then its extents are known"
                                     : "reference kernel",
               layer.isa.empty() ? "" : " (" + layer.isa + ")");
  }
  if (layer.region >= 0)
    fmt::print("region  {} {}, there {} ({})\n", layer.region,
               inspector.regions()[static_cast<size_t>(layer.region)].name, layer.region_name,
               layer.region_type);
  if (!layer.arithmetic.empty()) fmt::print("sums    {}\n", layer.arithmetic);
  print_tensors("input ", layer.inputs);
  print_tensors("output", layer.outputs);
  if (layer.build_time_us > 0) {
    fmt::print("time    {:.1f} us when built", layer.build_time_us);
    const double peak = inspector.peak_gmacs() * layer.peak_factor * info.build_threads;
    if (layer.macs > 0 && peak > 0) {
      const double rate = layer.macs / layer.build_time_us / 1e3;
      fmt::print(", {:.1f} GMAC/s{}, {:.0f} % of {}", rate,
                 layer.counted_arithmetic.empty() ? "" : " of " + layer.counted_arithmetic,
                 rate / peak * 100,
                 layer.peak_factor == 1                   ? "peak"
                 : layer.precision == DataType::kBFloat16 ? "the bfloat16 peak"
                                                          : "the 8-bit peak");
    }
    if (layer.io_bytes > 0) fmt::print(", {:.1f} GB/s", layer.io_bytes / layer.build_time_us / 1e3);
    fmt::print("\n");
  }
  if (layer.macs > 0)
    fmt::print("work    {}MAC, {} touched\n", human_count(layer.macs),
               human_bytes(std::max(layer.io_bytes, 0.0)));
  for (const std::string& node : layer.source_nodes) fmt::print("from    {}\n", node);
  bool titled = false;
  for (const RewriteInfo& record : inspector.rewrites_of(layer.index)) {
    if (!titled) fmt::print("\n{}\n", styled("how it came about", Style::kBold));
    titled = true;
    fmt::print("  {}: {}{}\n", record.pass,
               record.declined ? "declined on " + record.layer + ": " : "", record.text);
  }
  print_inner_layers(layer);
  print_candidates(layer);
}

// "reader 12, limit 2", the most frequent first.
std::string reasons_text(const std::map<std::string, int>& counts) {
  std::vector<std::pair<std::string, int>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [reason, count] : order)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", reason, count);
  return text;
}

void print_pass_counts(const Inspector& inspector) {
  struct Counts {
    int done = 0, declined = 0;
    std::map<std::string, int> reasons;
  };
  std::map<std::string, Counts> counts;
  std::vector<std::string> order;
  for (const RewriteInfo& record : inspector.rewrites()) {
    if (!counts.contains(record.pass)) order.push_back(record.pass);
    Counts& of_pass = counts[record.pass];
    (record.declined ? of_pass.declined : of_pass.done) += 1;
    if (record.declined) of_pass.reasons[record.reason] += 1;
  }
  Table table({{"pass"}, {"applied", Align::kRight}, {"declined", Align::kRight}, {"because of"}});
  for (const std::string& pass : order) {
    const Counts& of_pass = counts[pass];
    table.add({pass, std::to_string(of_pass.done), std::to_string(of_pass.declined),
               reasons_text(of_pass.reasons)});
  }
  if (!table.empty()) fmt::print("\n{}", table.text());
}

// One line for each thing said, a few of one pass and reason: large networks decline hundreds.
void print_declined(const Inspector& inspector) {
  constexpr size_t kShown = 4;
  using Layers = std::vector<std::string>;
  std::map<std::pair<std::string, std::string>, std::map<std::string, Layers>> told;
  for (const RewriteInfo& record : inspector.rewrites())
    if (record.declined) told[{record.pass, record.reason}][record.text].push_back(record.layer);
  if (told.empty()) return;
  fmt::print("\n{}\n", styled("what was not done, and why", Style::kBold));
  for (const auto& [kind, texts] : told) {
    size_t shown = 0, left = 0;
    for (const auto& [text, layers] : texts) {
      if (++shown > kShown) {
        left += layers.size();
        continue;
      }
      fmt::print("  {}: {} ({}{})\n", kind.first, text, layers[0],
                 layers.size() > 1 ? fmt::format(" and {} more", layers.size() - 1) : "");
    }
    if (left > 0)
      fmt::print("  {}: {} more for the same kind of reason: {}\n", kind.first, left, kind.second);
  }
}

void print_passes(const Inspector& inspector) {
  print_pass_counts(inspector);
  print_declined(inspector);
}

bool is_slow(const LayerSummary& layer) {
  return tactic_text(layer) == "reference";
}

void print_slow_layers(const Inspector& inspector) {
  std::vector<std::string> slow;
  for (const LayerInfo& layer : inspector.layers()) {
    if (is_slow(layer)) slow.push_back(fmt::format("{} ({})", layer.name, layer.type));
    for (const InnerLayer& inner : layer.inner)
      if (is_slow(inner))
        slow.push_back(fmt::format("{} ({}), inside {}", inner.name, inner.type, layer.name));
  }
  if (slow.empty()) return;
  fmt::print("\n{}\n", styled("layers without a vector kernel", Style::kBold));
  for (const std::string& line : slow) fmt::print("  {}\n", line);
}

void explain_engine(const Engine& engine, const Inspector& inspector) {
  fmt::print("{}: {} layers\n",
             engine.info().model_name.empty() ? "engine" : engine.info().model_name,
             inspector.layers().size());
  for (const auto& [stage, count] : inspector.layer_counts())
    fmt::print("  {:5}  {}\n", count, stage);
  print_passes(inspector);
  print_slow_layers(inspector);
  print_region_list(inspector);
  print_conversions(inspector);
  fmt::print(
      "\n`camshaft explain ENGINE LAYER` tells about one layer: its name, a part of it, or its "
      "number.\n");
  if (!inspector.regions().empty())
    fmt::print("`camshaft explain ENGINE region0` opens a region.\n");
}

// By number, exact name (ours or the region's), source node, or part of a name; several matches are
// listed.
Result<const LayerInfo*> find_layer(const Inspector& inspector, const std::string& word) {
  const std::vector<LayerInfo>& layers = inspector.layers();
  size_t number = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == word.data() + word.size() && number < layers.size())
    return &layers[number];
  std::vector<const LayerInfo*> matches;
  for (const LayerInfo& layer : layers) {
    const bool is_source = std::find(layer.source_nodes.begin(), layer.source_nodes.end(), word) !=
                           layer.source_nodes.end();
    if (layer.name == word || is_source || (!word.empty() && layer.region_name == word))
      return &layer;
    if (layer.name.find(word) != std::string::npos) matches.push_back(&layer);
  }
  if (matches.size() == 1) return matches[0];
  if (matches.empty())
    return make_error(ErrorCode::kInvalidArgument, "no layer has '{}' in its name", word);
  std::string list;
  for (size_t k = 0; k < std::min<size_t>(matches.size(), 10); ++k)
    list += fmt::format("\n  {:4}  {}", matches[k]->index, matches[k]->name);
  return make_error(ErrorCode::kInvalidArgument,
                    "{} layers have '{}' in their name; which one?{}{}", matches.size(), word, list,
                    matches.size() > 10 ? "\n        …" : "");
}

Status explain(const Options& options) {
  Messages messages(options.has("verbose"));
  CAMSHAFT_ASSIGN(Network network, Network::open(options.positionals()[0]));
  CAMSHAFT_ASSIGN(const Engine engine, network.engine(options, {}, messages));
  CAMSHAFT_ASSIGN(Context context, make_context(engine, options));
  for (const TensorInfo& output : engine.outputs()) (void)context.output_shape(output.name);
  const Inspector inspector(engine, context);
  if (options.has("float")) return compare_with_float(inspector, options, messages);
  if (options.positionals().size() < 2) {
    explain_engine(engine, inspector);
    return ok_status();
  }
  if (const RegionInfo* region = find_region(inspector, options.positionals()[1])) {
    explain_region(inspector, *region);
    return ok_status();
  }
  CAMSHAFT_ASSIGN(const LayerInfo* layer, find_layer(inspector, options.positionals()[1]));
  explain_layer(engine, inspector, *layer);
  return ok_status();
}

}  // namespace

int explain_command(std::span<char* const> args) {
  int code = 0;
  const std::vector<OptionRow> rows = with_common_rows({
      {"float", OptionValue::kText, "ENGINE|MODEL.onnx", "", "Comparison", OptionStatus::kWorks,
       "the same network in float (a model with Q/DQ is built without them): which layers are in "
       "more pieces here, and what each costs"},
  });
  const auto options =
      parse_command("explain", "ENGINE|MODEL.onnx [LAYER|REGION]", rows, args, 2, code);
  if (!options) return code;
  const Status status = explain(*options);
  return status.ok() ? 0 : fail(status.message());
}

}  // namespace camshaft::cli
