// SPDX-License-Identifier: Apache-2.0
// One row per route; the rows say which parameters must be there, so that errors are the same
// everywhere.
#include "server/api.h"

#include <algorithm>
#include <functional>
#include <set>

#include "server/query.h"
#include "trace/diff.h"
#include "trace/distributed.h"
#include "trace/views.h"

namespace camshaft::server {
namespace {

using trace::JsonWriter;
using trace::Profile;
using ProfilePtr = std::shared_ptr<const Profile>;

constexpr int64_t kTreeNodes = 6000;     // of /tree in one answer, about a megabyte
constexpr int64_t kDiffBytes = 3 << 20;  // of /diff, packed a fifteenth of it

constexpr const char* kViewOrder[] = {"Overview",    "Operator", "Kernel", "Trace",
                                      "Distributed", "Memory",   "Module", "Lightning"};

Answer json(std::string body, bool always_gzip = false) {
  Answer answer;
  answer.body = std::move(body);
  answer.always_gzip = always_gzip;
  return answer;
}

Answer list(const std::vector<std::string>& values) {
  JsonWriter writer;
  writer.begin_array();
  for (const std::string& value : values) writer.text(value);
  writer.end_array();
  return json(writer.take());
}

struct Request : Query {
  const RunStore& store;
};

bool parse_dialect(const std::string& name, trace::Dialect& dialect) {
  if (name == "gpu")
    dialect = trace::Dialect::kGpu;
  else if (name == "mlu")
    dialect = trace::Dialect::kMlu;
  else if (name == "mlu-late")
    dialect = trace::Dialect::kMluLate;
  else
    return false;
  return true;
}

// The entry in the dialect and mode that the request or the server chose.
ProfilePtr choose_profile(const ProfileEntry& entry, const Request& request) {
  trace::Semantics semantics = entry.profile()->semantics;
  if (request.has("dialect")) parse_dialect(request.text("dialect"), semantics.dialect);
  if (request.has("compat")) semantics.original = request.text("compat") != "0";
  return entry.profile(semantics);
}

std::vector<ProfilePtr> span_workers(const Run& run, const std::string& span,
                                     const Request& request) {
  std::vector<ProfilePtr> workers;
  for (const auto& [key, entry] : run.entries)
    if (key.second == span) workers.push_back(choose_profile(*entry, request));
  return workers;
}

std::vector<const Profile*> pointers(const std::vector<ProfilePtr>& workers) {
  std::vector<const Profile*> plain;
  for (const ProfilePtr& worker : workers) plain.push_back(worker.get());
  return plain;
}

bool is_distributed(const Run& run, const std::string& span, const Request& request) {
  return trace::has_distributed_view(pointers(span_workers(run, span, request)));
}

Answer runs(const Request& request) {
  JsonWriter writer;
  writer.begin_object().key("runs").begin_array();
  for (const std::string& name : request.store.run_names()) writer.text(name);
  writer.end_array().boolean("loading", request.store.state().loading()).end_object();
  return json(writer.take());
}

Answer views(const Request& request, const Run& run) {
  std::set<std::string> present;
  for (const auto& [key, entry] : run.entries)
    for (std::string& name : trace::view_names(*entry->profile())) present.insert(std::move(name));
  for (const std::string& span : run.spans())
    if (is_distributed(run, span, request)) present.insert("Distributed");
  std::vector<std::string> ordered;
  for (const char* name : kViewOrder)
    if (present.count(name) > 0) ordered.push_back(name);
  return list(ordered);
}

Answer workers(const Request& request, const Run& run) {
  const std::string view = request.text("view");
  if (view == "Distributed") {
    for (const std::string& span : run.spans())
      if (is_distributed(run, span, request)) return list({"All"});
    return list({});
  }
  std::set<std::string> names;
  for (const auto& [key, entry] : run.entries) {
    const std::vector<std::string> own = trace::view_names(*entry->profile());
    if (std::find(own.begin(), own.end(), view) != own.end()) names.insert(key.first);
  }
  return list({names.begin(), names.end()});
}

Answer spans(const Request& request, const Run& run) {
  const std::string worker = request.text("worker");
  std::set<std::string> names;
  for (const auto& [key, entry] : run.entries)
    if (key.first == worker || (worker == "All" && is_distributed(run, key.second, request)))
      names.insert(key.second);
  if (names.empty()) return failure(404, "no such worker: " + worker);
  return list({names.begin(), names.end()});
}

bool by_shape(const Request& request) {
  return request.text("group_by") == "OperationAndInputShape";
}

Answer overview(const Request&, const Run& run, const Profile& profile) {
  return json(trace::to_json(trace::overview(profile, run.workers().size())));
}
Answer operation(const Request& request, const Run&, const Profile& profile) {
  return json(trace::to_json(trace::operation_pies(profile, by_shape(request))));
}
Answer operation_table(const Request& request, const Run&, const Profile& profile) {
  return json(trace::to_json(trace::operation_table(profile, by_shape(request))));
}
Answer operation_stack(const Request& request, const Run&, const Profile& profile) {
  const auto stacks = trace::operation_stacks(profile, by_shape(request), request.text("op_name"),
                                              request.text("input_shape"));
  if (stacks.rows.empty()) return failure(404, "no call stacks of " + request.text("op_name"));
  return json(trace::to_json(stacks));
}
Answer kernel(const Request&, const Run&, const Profile& profile) {
  return json(trace::to_json(trace::kernel_pie(profile)));
}
Answer kernel_table(const Request& request, const Run&, const Profile& profile) {
  return json(trace::to_json(request.text("group_by") == "Kernel"
                                 ? trace::kernel_table(profile)
                                 : trace::kernel_table_by_properties(profile)));
}
Answer tc_pie(const Request&, const Run&, const Profile& profile) {
  return json(trace::to_json(trace::tensor_core_pie(profile)));
}

// Window and units of a memory route; false when a word is wrong.
bool memory_request(const Request& request, const Profile& profile, trace::MemoryRequest& out) {
  for (const auto& [name, bound] :
       {std::pair{"start_ts", &out.window.start}, std::pair{"end_ts", &out.window.end}}) {
    int64_t us = 0;
    if (!request.has(name)) continue;
    if (!parse_whole(request.text(name), us) || std::abs(us) > 9'000'000'000'000'000) return false;
    *bound = profile.clock.point_from_us(us);
  }
  out.time_metric = request.text("time_metric", "ms");
  out.memory_metric = request.text("memory_metric");
  return trace::known_metrics(out);
}

template <std::string (*kView)(const Profile&, const trace::MemoryRequest&)>
Answer memory_route(const Request& request, const Run&, const Profile& profile) {
  trace::MemoryRequest wanted;
  if (!memory_request(request, profile, wanted))
    return failure(400, "a time or unit is not understood");
  return json(kView(profile, wanted), true);
}

Answer module(const Request&, const Run&, const Profile& profile) {
  if (!profile.has_modules) return failure(404, "this profile has no modules");
  return json(trace::modules_json(profile), true);
}
// For answers that are written after the request's own hold on the profile is gone.
ProfilePtr kept_profile(const Request& request, const Run& run) {
  return choose_profile(*run.find(request.text("worker"), request.text("span")), request);
}

// Whole as the original sends it, but in pieces; by default only as much as a page can take in.
Answer tree(const Request& request, const Run& run, const Profile& profile) {
  int64_t limit = profile.semantics.original ? 0 : kTreeNodes, root = -1;
  if ((request.has("limit") && !parse_whole(request.text("limit"), limit)) ||
      (request.has("node") && !parse_whole(request.text("node"), root)))
    return failure(400, "limit and node are whole numbers");
  if (root >= static_cast<int64_t>(profile.forest.nodes.size()))
    return failure(404, "there is no such node");
  const trace::TreeRequest wanted{root < 0 ? trace::kNoRow : static_cast<uint32_t>(root),
                                  static_cast<size_t>(std::max<int64_t>(0, limit))};
  Answer answer;
  answer.always_gzip = true;
  answer.stream = [kept = kept_profile(request, run), wanted](const trace::TextSink& sink) {
    return trace::write_tree(*kept, wanted, sink);
  };
  return answer;
}

// A recording whose end is stamped a day and more behind its start has a broken stamp; the original
// counts a day in milliseconds.
bool has_broken_end(const Profile& profile) {
  const trace::Trace& from = profile.trace;
  const int64_t limit_ns = (profile.semantics.original ? 86'400 : 86'400'000) * int64_t{1'000'000};
  return from.iteration_start_ns != trace::kNoId && from.window_end_ns != trace::kNoId &&
         std::abs(static_cast<double>(from.window_end_ns) -
                  static_cast<double>(from.iteration_start_ns)) > static_cast<double>(limit_ns);
}

Answer trace_file(const Request& request, const Run& run, const Profile& profile) {
  Answer answer;
  answer.always_gzip = true;
  answer.trace_file = profile.name;
  answer.profile = kept_profile(request, run);
  if (has_broken_end(profile)) answer.left_out = "Record Window End";
  if (!profile.has_kernels) return answer;
  answer.counters = [kept = answer.profile](const trace::TextSink& sink) {
    return trace::write_counters(*kept, sink);
  };
  return answer;
}

template <std::string (*kView)(const std::vector<const Profile*>&)>
Answer distributed_route(const Request& request, const Run& run) {
  const auto workers = span_workers(run, request.text("span"), request);
  if (!trace::has_distributed_view(pointers(workers)))
    return failure(404, "there is no distributed view of this span");
  return json(kView(pointers(workers)));
}

ProfilePtr find_profile(const Request& request, const char* run, const char* worker,
                        const char* span) {
  const auto found = request.store.run(request.text(run));
  const ProfileEntry* entry =
      found ? found->find(request.text(worker), request.text(span)) : nullptr;
  return entry == nullptr ? nullptr : choose_profile(*entry, request);
}

Answer diff_route(const Request& request, bool one_node) {
  const ProfilePtr left = find_profile(request, "run", "worker", "span");
  const ProfilePtr right = find_profile(request, "exp_run", "exp_worker", "exp_span");
  if (left == nullptr || right == nullptr) return failure(404, "no such profile");
  const auto root = request.store.diff(left, right);
  if (!one_node) {
    int64_t limit = left->semantics.original ? 0 : kDiffBytes;
    if (request.has("limit") && !parse_whole(request.text("limit"), limit))
      return failure(400, "limit is a whole number of bytes");
    return json(trace::diff_json(*root, static_cast<size_t>(std::max<int64_t>(0, limit))), true);
  }
  std::string node = trace::diff_node_json(*root, request.text("path", "0"));
  if (node.empty()) return failure(404, "no node at path " + request.text("path", "0"));
  return json(std::move(node), true);
}

Answer diff(const Request& request) {
  return diff_route(request, false);
}
Answer diff_node(const Request& request) {
  return diff_route(request, true);
}

using StoreRoute = Answer (*)(const Request&);
using RunRoute = Answer (*)(const Request&, const Run&);
using ProfileRoute = Answer (*)(const Request&, const Run&, const Profile&);

struct Route {
  const char* path;
  std::vector<const char*> required;
  StoreRoute of_store = nullptr;
  RunRoute of_run = nullptr;
  ProfileRoute of_profile = nullptr;
};

const std::vector<Route>& routes() {
  static const std::vector<const char*> kProfile{"run", "worker", "span"}, kSpan{"run", "span"};
  static const std::vector<const char*> kDiff{"run",     "worker",     "span",
                                              "exp_run", "exp_worker", "exp_span"};
  static const std::vector<Route> table{
      {"/runs", {}, runs, nullptr, nullptr},
      {"/views", {"run"}, nullptr, views, nullptr},
      {"/workers", {"run", "view"}, nullptr, workers, nullptr},
      {"/spans", {"run", "worker"}, nullptr, spans, nullptr},
      {"/overview", kProfile, nullptr, nullptr, overview},
      {"/operation", {"run", "worker", "span", "group_by"}, nullptr, nullptr, operation},
      {"/operation/table",
       {"run", "worker", "span", "group_by"},
       nullptr,
       nullptr,
       operation_table},
      {"/operation/stack",
       {"run", "worker", "span", "group_by", "op_name"},
       nullptr,
       nullptr,
       operation_stack},
      {"/kernel", kProfile, nullptr, nullptr, kernel},
      {"/kernel/table", kProfile, nullptr, nullptr, kernel_table},
      {"/kernel/tc_pie", kProfile, nullptr, nullptr, tc_pie},
      {"/trace", kProfile, nullptr, nullptr, trace_file},
      {"/memory", kProfile, nullptr, nullptr, memory_route<trace::memory_stats_json>},
      {"/memory_curve", kProfile, nullptr, nullptr, memory_route<trace::memory_curve_json>},
      {"/memory_events", kProfile, nullptr, nullptr, memory_route<trace::memory_events_json>},
      {"/module", kProfile, nullptr, nullptr, module},
      {"/tree", kProfile, nullptr, nullptr, tree},
      {"/distributed/gpuinfo", kSpan, nullptr, distributed_route<trace::device_info_json>, nullptr},
      {"/distributed/mluinfo", kSpan, nullptr, distributed_route<trace::device_info_json>, nullptr},
      {"/distributed/overlap", kSpan, nullptr, distributed_route<trace::overlap_json>, nullptr},
      {"/distributed/waittime", kSpan, nullptr, distributed_route<trace::wait_time_json>, nullptr},
      {"/distributed/commops", kSpan, nullptr, distributed_route<trace::collectives_json>, nullptr},
      {"/diff", kDiff, diff, nullptr, nullptr},
      {"/diffnode", kDiff, diff_node, nullptr, nullptr},
  };
  return table;
}

}  // namespace

Answer failure(int status, std::string message) {
  Answer answer;
  answer.status = status;
  answer.body = std::move(message);
  answer.content_type = "text/plain; charset=utf-8";
  return answer;
}

Answer answer(const RunStore& store, const std::string& path, const Parameters& parameters) {
  const auto& table = routes();
  const auto route = std::find_if(table.begin(), table.end(),
                                  [&](const Route& known) { return path == known.path; });
  if (route == table.end()) return failure(404, "no such route: " + path);
  const Request request{{parameters}, store};
  for (const char* name : route->required)
    if (!request.has(name))
      return failure(400, std::string("the parameter ") + name + " is missing");
  trace::Dialect dialect;
  if (request.has("dialect") && !parse_dialect(request.text("dialect"), dialect))
    return failure(400, "dialect must be gpu, mlu or mlu-late");
  if (route->of_store != nullptr) return route->of_store(request);
  const auto run = store.run(request.text("run"));
  if (run == nullptr) return failure(404, "no such run: " + request.text("run"));
  if (route->of_run != nullptr) return route->of_run(request, *run);
  const ProfileEntry* entry = run->find(request.text("worker"), request.text("span"));
  if (entry == nullptr) return failure(404, "no profile of this worker and span");
  return route->of_profile(request, *run, *choose_profile(*entry, request));
}

}  // namespace camshaft::server
