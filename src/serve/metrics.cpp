// SPDX-License-Identifier: Apache-2.0
// Triton's metric names, so that dashboards and alerts need no change, and a few of our own
// (camshaft_…).
#include <unistd.h>

#include <fstream>

#include <fmt/format.h>

#include "serve/core.h"

namespace camshaft::serve {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c;
  }
  return out;
}

struct MetricRow {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const Model& model, const Counters& counters);
};

double us(uint64_t ns) {
  return static_cast<double>(ns / 1000);
}

constexpr MetricRow kMetrics[] = {
    {"nv_inference_request_success", "counter", "Number of successful inference requests",
     [](const Model&, const Counters& c) { return static_cast<double>(c.success.count); }},
    {"nv_inference_count", "counter", "Number of inferences performed (rows of batches)",
     [](const Model&, const Counters& c) { return static_cast<double>(c.inferences); }},
    {"nv_inference_exec_count", "counter", "Number of runs of the engine",
     [](const Model&, const Counters& c) { return static_cast<double>(c.executions); }},
    {"nv_inference_request_duration_us", "counter", "Cumulative inference request duration",
     [](const Model&, const Counters& c) { return us(c.success.ns); }},
    {"nv_inference_queue_duration_us", "counter", "Cumulative inference queuing duration",
     [](const Model&, const Counters& c) { return us(c.queue.ns); }},
    {"nv_inference_compute_input_duration_us", "counter", "Cumulative compute input duration",
     [](const Model&, const Counters& c) { return us(c.input.ns); }},
    {"nv_inference_compute_infer_duration_us", "counter", "Cumulative compute inference duration",
     [](const Model&, const Counters& c) { return us(c.infer.ns); }},
    {"nv_inference_compute_output_duration_us", "counter", "Cumulative compute output duration",
     [](const Model&, const Counters& c) { return us(c.output.ns); }},
    {"nv_inference_pending_request_count", "gauge", "Requests that wait to be run",
     [](const Model& model, const Counters&) { return static_cast<double>(model.waiting()); }},
    {"nv_model_load_duration_secs", "gauge", "How long loading the model took",
     [](const Model& model, const Counters&) { return model.load_seconds(); }},
};

struct Numbered {
  ModelPtr model;
  std::string labels;  // model="m",version="1"
  Counters counters;
};

void begin(std::string& text, const char* name, const char* type, const char* help) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void append_failures(std::string& text, const std::vector<Numbered>& models) {
  begin(text, "nv_inference_request_failure", "counter", "Number of failed inference requests");
  for (const Numbered& one : models)
    for (size_t k = 0; k < kFailureReasons; ++k)
      text += fmt::format("nv_inference_request_failure{{{},reason=\"{}\"}} {}\n", one.labels,
                          kFailureNames[k], one.counters.failures[k]);
}

// Quantiles of the latest requests.
void append_summary(std::string& text, const std::vector<Numbered>& models, const char* name,
                    const char* help, Window Counters::*window, Duration Counters::*total) {
  begin(text, name, "summary", help);
  for (const Numbered& one : models) {
    const std::vector<uint64_t> sorted = (one.counters.*window).sorted();
    for (const double quantile : {0.5, 0.9, 0.95, 0.99, 0.999}) {
      if (sorted.empty()) continue;
      const auto at = static_cast<size_t>(quantile * static_cast<double>(sorted.size() - 1) + 0.5);
      text +=
          fmt::format("{}{{{},quantile=\"{}\"}} {}\n", name, one.labels, quantile, us(sorted[at]));
    }
    const Duration& sum = one.counters.*total;
    text += fmt::format("{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, one.labels, us(sum.ns), name,
                        one.labels, sum.count);
  }
}

void append_batches(std::string& text, const std::vector<Numbered>& models) {
  begin(text, "camshaft_batch_size", "histogram", "Rows of the engine's runs");
  for (const Numbered& one : models) {
    uint64_t count = 0, rows = 0;
    for (const auto& [size, times] : one.counters.by_size) {
      count += times[1].count;
      rows += times[1].count * static_cast<uint64_t>(size);
      text +=
          fmt::format("camshaft_batch_size_bucket{{{},le=\"{}\"}} {}\n", one.labels, size, count);
    }
    text += fmt::format(
        "camshaft_batch_size_bucket{{{0},le=\"+Inf\"}} {1}\ncamshaft_batch_size_sum{{{0}}} "
        "{2}\ncamshaft_batch_size_count{{{0}}} {1}\n",
        one.labels, count, rows);
  }
}

void append_memory(std::string& text) {
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double total = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * page;
  const double free = static_cast<double>(::sysconf(_SC_AVPHYS_PAGES)) * page;
  begin(text, "nv_cpu_memory_total_bytes", "gauge", "CPU total memory (RAM), in bytes");
  text += fmt::format("nv_cpu_memory_total_bytes {:.0f}\n", total);
  begin(text, "nv_cpu_memory_used_bytes", "gauge", "CPU used memory (RAM), in bytes");
  text += fmt::format("nv_cpu_memory_used_bytes {:.0f}\n", total - free);
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  if (!(statm >> size >> resident)) return;
  begin(text, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
  text +=
      fmt::format("process_resident_memory_bytes {:.0f}\n", static_cast<double>(resident) * page);
}

}  // namespace

std::string metrics_text(const Core& core) {
  std::vector<Numbered> models;
  for (const ModelPtr& model : core.repository().loaded())
    models.push_back(
        {model,
         fmt::format("model=\"{}\",version=\"{}\"", escaped(model->name()), model->version()),
         model->statistics().counters()});
  std::string text;
  for (const MetricRow& row : kMetrics) {
    begin(text, row.name, row.type, row.help);
    for (const Numbered& one : models)
      text +=
          fmt::format("{}{{{}}} {}\n", row.name, one.labels, row.value(*one.model, one.counters));
  }
  append_failures(text, models);
  append_summary(text, models, "nv_inference_request_summary_us",
                 "Inference request duration of the latest requests", &Counters::request_window,
                 &Counters::success);
  append_summary(text, models, "nv_inference_queue_summary_us",
                 "Inference queuing duration of the latest requests", &Counters::queue_window,
                 &Counters::queue);
  append_batches(text, models);
  append_memory(text);
  return text;
}

}  // namespace camshaft::serve
