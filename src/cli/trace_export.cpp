// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_export.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <unistd.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include "base/pool_recorder.h"
#include "camshaft/inspector.h"
#include "camshaft/version.h"
#include "cli/tensor_files.h"

namespace camshaft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Step {
  int64_t start_ns = 0, end_ns = 0;
  std::vector<LayerTime> layers;
  std::vector<PoolSpan> spans;  // of all layers, by start
};

int64_t end_ns(const LayerTime& time) {
  return time.start_ns + static_cast<int64_t>(time.microseconds * 1e3);
}

int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

const char* torch_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return "float";
    case DataType::kHalf:
      return "c10::Half";
    case DataType::kBFloat16:
      return "c10::BFloat16";
    case DataType::kDouble:
      return "double";
    case DataType::kInt8:
      return "signed char";
    case DataType::kUInt8:
      return "unsigned char";
    case DataType::kInt16:
      return "short";
    case DataType::kInt32:
      return "int";
    case DataType::kInt64:
      return "long int";
    case DataType::kBool:
      return "bool";
    default:
      return "";
  }
}

// Timestamps are microseconds with nanosecond decimals after the trace's first event.
double microseconds(int64_t ns, int64_t base_ns) {
  return static_cast<double>(ns - base_ns) / 1e3;
}

void add_work(Json& args, const LayerInfo& layer, double microseconds) {
  if (layer.macs > 0) {
    args["FLOPs"] = static_cast<int64_t>(2 * layer.macs);
    args["GMAC/s"] = microseconds > 0 ? layer.macs / microseconds / 1e3 : 0;
  }
  if (layer.io_bytes > 0) args["Bytes"] = static_cast<int64_t>(layer.io_bytes);
}

Json layer_event(const LayerSummary& layer, const LayerTime& time, int64_t base_ns,
                 int external_id) {
  Json dims = Json::array();
  Json types = Json::array();
  for (const LayerTensor& input : layer.inputs) {
    dims.push_back(input.dims);
    types.push_back(torch_type(input.type));
  }
  Json args = {{"External id", external_id}, {"Input Dims", dims},
               {"Input type", types},        {"Layer Type", layer.type},
               {"Tactic", layer.tactic},     {"Source Nodes", layer.source_nodes}};
  return {{"ph", "X"},
          {"cat", "cpu_op"},
          {"name", layer.name},
          {"pid", getpid()},
          {"tid", getpid()},
          {"ts", microseconds(time.start_ns, base_ns)},
          {"dur", time.microseconds},
          {"args", args}};
}

// Worker 0 is the thread that runs the layers.
int thread_of(int worker) {
  return getpid() + worker;
}

// What the threads did of a layer; a layer that was not shared is its own thread's work from end to
// end. Parts of a share that follow each other are one.
std::vector<PoolSpan> layer_spans(const Step& step, const LayerTime& time) {
  constexpr int64_t kApart = 1000;
  std::vector<PoolSpan> list;
  const int64_t end = end_ns(time);
  const auto first = std::lower_bound(
      step.spans.begin(), step.spans.end(), time.start_ns,
      [](const PoolSpan& span, int64_t start_ns) { return span.start_ns < start_ns; });
  for (auto at = first; at != step.spans.end() && at->start_ns < end; ++at) {
    PoolSpan span = *at;
    span.end_ns = std::min(span.end_ns, end);
    const auto before = std::find_if(list.rbegin(), list.rend(), [&](const PoolSpan& known) {
      return known.worker == span.worker;
    });
    if (before != list.rend() && span.start_ns - before->end_ns < kApart)
      before->end_ns = std::max(before->end_ns, span.end_ns);
    else
      list.push_back(span);
  }
  if (list.empty()) list.push_back({0, time.start_ns, end});
  return list;
}

// The call that connects a layer with its kernels, and the kernels.
void add_kernels(const LayerSummary& layer, const std::vector<PoolSpan>& spans, int64_t base_ns,
                 int external_id, std::vector<Json>& events) {
  events.push_back({{"ph", "X"},
                    {"cat", "runtime"},
                    {"name", "run kernel"},
                    {"pid", getpid()},
                    {"tid", getpid()},
                    {"ts", microseconds(spans.front().start_ns, base_ns)},
                    {"dur", 0},
                    {"args", {{"External id", external_id}, {"correlation", external_id}}}});
  for (const PoolSpan& span : spans)
    events.push_back({{"ph", "X"},
                      {"cat", "kernel"},
                      {"name", layer.tactic.empty() ? layer.type : layer.tactic},
                      {"pid", getpid()},
                      {"tid", thread_of(span.worker)},
                      {"ts", microseconds(span.start_ns, base_ns)},
                      {"dur", microseconds(span.end_ns, span.start_ns)},
                      {"args",
                       {{"External id", external_id},
                        {"correlation", external_id},
                        {"stream", span.worker},
                        {"Layer", layer.name}}}});
}

Json metadata(const char* kind, const std::string& name, int thread) {
  return {{"ph", "M"},     {"name", kind}, {"pid", getpid()},
          {"tid", thread}, {"ts", 0},      {"args", {{"name", name}}}};
}

Json annotation(const std::string& name, int64_t start_ns, int64_t end_ns, int64_t base_ns,
                int external_id) {
  return {{"ph", "X"},
          {"cat", "user_annotation"},
          {"name", name},
          {"pid", getpid()},
          {"tid", getpid()},
          {"ts", microseconds(start_ns, base_ns)},
          {"dur", microseconds(end_ns, start_ns)},
          {"args", {{"External id", external_id}}}};
}

std::string line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// One event per line.
std::string trace_document(const std::vector<LayerInfo>& layers, const std::vector<Step>& steps,
                           int threads) {
  const int64_t base_ns = steps.front().start_ns;
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  std::vector<Json> events = {metadata("process_name", "camshaft", 0),
                              metadata("thread_name", "inference", getpid())};
  for (int worker = 1; worker < threads; ++worker)
    events.push_back(
        metadata("thread_name", "worker " + std::to_string(worker), thread_of(worker)));
  int external_id = 0;
  for (size_t k = 0; k < steps.size(); ++k) {
    const std::string name = "ProfilerStep#" + std::to_string(k);
    events.push_back(annotation(name, steps[k].start_ns, steps[k].end_ns, base_ns, ++external_id));
    int64_t latest_end_ns = 0;
    // `work`: of a layer whose extents are known here, not to its body only.
    const auto add_layer = [&](const LayerSummary& layer, const LayerInfo* work, LayerTime time) {
      // Its time leaves out what reading the clock inside took: events nest nevertheless.
      if (layer.has_bodies() && latest_end_ns > end_ns(time))
        time.microseconds = static_cast<double>(latest_end_ns - time.start_ns) / 1e3;
      latest_end_ns = std::max(latest_end_ns, end_ns(time));
      events.push_back(layer_event(layer, time, base_ns, ++external_id));
      if (work) add_work(events.back()["args"], *work, time.microseconds);
      // Where a body ran, the kernels are its layers'.
      if (!layer.has_bodies())
        add_kernels(layer, layer_spans(steps[k], time), base_ns, external_id, events);
    };
    for (const LayerTime& time : steps[k].layers) {
      const LayerInfo& layer = layers[static_cast<size_t>(time.layer)];
      if (time.inner < 0)
        add_layer(layer, &layer, time);
      else
        add_layer(layer.inner[static_cast<size_t>(time.inner)], nullptr, time);
    }
  }
  const Json head = {{"schemaVersion", 1},
                     {"deviceProperties", Json::array()},
                     {"record_shapes", 1},
                     {"with_flops", 1},
                     {"producer", "camshaft " CAMSHAFT_VERSION},
                     {"displayTimeUnit", "ms"},
                     {"baseTimeNanoseconds", now.count() - (steady_ns() - base_ns)}};
  std::string out = line(head);
  out.pop_back();
  out += ",\n\"traceEvents\": [";
  for (size_t k = 0; k < events.size(); ++k) out += (k > 0 ? ",\n" : "\n") + line(events[k]);
  return out + "\n]}\n";
}

Status write_compressed(const std::filesystem::path& file, const std::string& text) {
  const std::string temporary = file.string() + ".tmp";
  gzFile stream = gzopen(temporary.c_str(), "wb6");
  if (stream == nullptr) return make_error(ErrorCode::kIo, "{}: cannot be written", file.string());
  const bool written = gzwrite(stream, text.data(), static_cast<unsigned>(text.size())) ==
                       static_cast<int>(text.size());
  const bool closed = gzclose(stream) == Z_OK;
  std::error_code error;
  if (written && closed) std::filesystem::rename(temporary, file, error);
  if (written && closed && !error) return ok_status();
  std::filesystem::remove(temporary, error);
  return make_error(ErrorCode::kIo, "{}: cannot be written", file.string());
}

}  // namespace

Status export_trace(Context& context, int steps, const std::filesystem::path& file) {
  std::vector<Step> recorded(static_cast<size_t>(steps));
  CAMSHAFT_TRY(context.run());
  PoolRecorder recorder;
  Step* current = nullptr;
  // Of the layers inside loops the first of a run will do: a loop may turn many thousand times.
  constexpr size_t kMostEvents = 20000;
  context.set_profiler(
      [&](const LayerTime& time) {
        if (time.inner < 0 || current->layers.size() < kMostEvents) current->layers.push_back(time);
      },
      true);
  Status status;
  for (Step& step : recorded) {
    current = &step;
    step.start_ns = steady_ns();
    status = context.run();
    step.end_ns = steady_ns();
    step.spans = recorder.take();
    std::sort(step.spans.begin(), step.spans.end(),
              [](const PoolSpan& a, const PoolSpan& b) { return a.start_ns < b.start_ns; });
    if (!status.ok()) break;
  }
  context.set_profiler(nullptr);
  CAMSHAFT_TRY(status);
  const Inspector inspector(context.engine(), context);
  const std::string text = trace_document(inspector.layers(), recorded, context.threads());
  return file.extension() == ".gz" ? write_compressed(file, text) : write_file(file, text);
}

}  // namespace camshaft::cli
