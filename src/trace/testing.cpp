// SPDX-License-Identifier: Apache-2.0
#include "trace/testing.h"

#include <cstdlib>

#include <fmt/format.h>

#include "trace/byte_source.h"
#include "trace/cross_rank.h"
#include "trace/diff.h"
#include "trace/distributed.h"
#include "trace/insights.h"
#include "trace/reader.h"
#include "trace/timeline.h"
#include "trace/views.h"

namespace camshaft::trace::testing {
namespace {

class Events {
 public:
  void add(std::string_view category, std::string_view name, std::string_view where, int ts,
           int dur, const std::string& args) {
    raw(fmt::format(R"("ph":"X","cat":"{}","name":"{}",{},"ts":{}.25,"dur":{}.5,"args":{{{}}})",
                    category, name, where, ts, dur, args));
  }
  void raw(const std::string& fields) { text += (text.empty() ? "{" : ",\n{") + fields + "}"; }
  std::string text;
};

constexpr std::string_view kMain = R"("pid":1,"tid":1)", kBack = R"("pid":1,"tid":"2")",
                           kStream = R"("pid":0,"tid":7)";

void add_launch(Events& events, int id, int ts, const char* category, const char* call,
                const char* kernel, int device) {
  events.add(category, call, kMain, ts, 5,
             fmt::format(R"("External id":{},"correlation":{})", id, 1000 + id));
  events.add(
      "kernel", kernel, kStream, ts + 8, 20,
      fmt::format(
          R"("External id":{},"correlation":{},"device":{},"stream":7,"grid":[8,1,1],"block":[128,1,1],)"
          R"("registers per thread":32,"shared memory":0,"blocks per SM":0.5,"est. achieved occupancy %":40)",
          id, 1000 + id, device));
}

void add_step(Events& events, int step) {
  const int t = 1000 + step * 1000, id = step * 20;
  events.add("user_annotation", fmt::format("ProfilerStep#{}", 4 + step), kMain, t, 900, "");
  events.add("gpu_user_annotation", fmt::format("ProfilerStep#{}", 4 + step), kStream, t + 20, 800,
             "");
  events.add("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", kMain, t + 5,
             50, fmt::format(R"("External id":{})", id + 1));
  events.add(
      "python_function", "nn.Module: Net_0", kMain, t + 60, 300,
      fmt::format(R"("Python id":{},"Python parent id":{},"Python module id":0)", id + 1, id));
  events.add("python_function", "model.py(12): forward", kMain, t + 61, 290,
             fmt::format(R"("Python id":{},"Python parent id":{})", id + 2, id + 1));
  events.add(
      "python_function", "nn.Module: Linear_1", kMain, t + 62, 200,
      fmt::format(R"("Python id":{},"Python parent id":{},"Python module id":1)", id + 3, id + 2));
  events.add(
      "cpu_op", "aten::linear", kMain, t + 65, 100,
      fmt::format(
          R"("External id":{},"Input Dims":[[32,64],[64,64],[]],"Input type":["float","float",""],"Call stack":"a.py(1): f;b.py(2): g","Sequence number":{})",
          id + 2, step));
  events.add("cpu_op", "aten::addmm", kMain, t + 70, 60,
             fmt::format(R"("External id":{},"Input Dims":[[64],[32,64],[64,64]])", id + 3));
  add_launch(events, id + 3, t + 75, "cuda_runtime", "cudaLaunchKernel", "sm80_xmma_gemm_f16", 0);
  events.add("cpu_op", "aten::relu", kMain, t + 180, 60,
             fmt::format(R"("External id":{},"Input Dims":[[32,64]])", id + 4));
  add_launch(events, 900 + id, t + 190, "cuda_driver", "cuLaunchKernel", "triton_relu", 1);
  events.add("cuda_runtime", "cudaGraphLaunch", kMain, t + 370, 10,
             fmt::format(R"("External id":0,"correlation":{})", 5000 + id));
  for (int k = 0; k < 2; ++k)
    events.add("kernel", "graph_node", kStream, t + 385 + 10 * k, 9,
               fmt::format(R"("correlation":{},"device":0,"stream":7)", 5000 + id));
  events.add("gpu_memcpy", "Memcpy HtoD", kStream, t + 420, 10,
             fmt::format(R"("correlation":{},"device":0,"stream":7,"bytes":4096)", 6000 + id));
  events.add("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", kBack, t + 450, 100,
             fmt::format(R"("External id":{})", id + 6));
  events.add(
      "cpu_op", "nccl:all_reduce", kMain, t + 600, 50,
      fmt::format(R"("External id":{},"Input Dims":[[1024]],"Input type":["float"])", id + 7));
  events.add(
      "kernel", "ncclDevKernel_AllReduce_Sum_f32", kStream, t + 640, 80,
      fmt::format(
          R"("External id":{},"device":0,"stream":9,"Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,"dtype":"Float","Group size":2,"Process Group Name":"0","Process Group Description":"default_pg","Process Group Ranks":"[0, 1]","Seq":{})",
          id + 7, step));
  events.add("cpu_op", "Optimizer.step#SGD.step", kMain, t + 700, 100,
             fmt::format(R"("External id":{})", id + 8));
  events.raw(
      fmt::format(R"("ph":"s","cat":"fwdbwd","name":"fwdbwd","id":{},"pid":1,"tid":1,"ts":{}.25)",
                  step, t + 70));
  events.raw(fmt::format(
      R"("ph":"f","cat":"fwdbwd","name":"fwdbwd","id":{},"pid":1,"tid":"2","ts":{}.25,"bp":"e")",
      step, t + 455));
  for (int k = 0; k < 4; ++k)
    events.raw(fmt::format(
        R"("ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":{}.25,"args":{{"Device Type":{},"Device Id":{},"Addr":{},"Bytes":{},"Total Allocated":{},"Total Reserved":1048576}})",
        t + 72 + 100 * k, k == 3 ? 0 : 1, k == 3 ? -1 : 0, 4096 + k % 2, k % 2 == 0 ? 512 : -512,
        2048 + step * 1024 + k * 256));
}

// Numbers and words that have gone wrong somewhere before.
constexpr std::string_view kTokens[] = {"0",
                                        "-1",
                                        "1e308",
                                        "-1e308",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "18446744073709551615",
                                        "4e15",
                                        "0.0001",
                                        "NaN",
                                        "N/A",
                                        "null",
                                        "true",
                                        "\"\"",
                                        "[]",
                                        "{}",
                                        "[[[[",
                                        "]]]]",
                                        "{\"ph\":\"X\"",
                                        "}",
                                        "{",
                                        "\"",
                                        "\\",
                                        "\\u0000",
                                        "\\ud800",
                                        "\x01",
                                        "\xff",
                                        ",",
                                        ":",
                                        "\"ph\"",
                                        "\"ts\":",
                                        "\"dur\":1e15,",
                                        "\"args\":{",
                                        "ProfilerStep#",
                                        "nccl:all_reduce",
                                        "\"cat\":\"kernel\",",
                                        "\"cat\":\"cpu_op\",",
                                        "\"device\":63,",
                                        "\"device\":-5,",
                                        "\"External id\":0,",
                                        "\"tid\":\"\",",
                                        "2147483648",
                                        "-2147483649",
                                        "1125899906842624"};

}  // namespace

std::string sample_trace() {
  Events events;
  for (int step = 0; step < 2; ++step) add_step(events, step);
  events.add("Trace", "PyTorch Profiler (0)", R"("pid":"Traces","tid":"PyTorch Profiler")", 900,
             2500, "\"Op count\":0");
  return R"({"schemaVersion":1,"deviceProperties":[{"id":0,"name":"Test <GPU>","totalGlobalMem":17179869184,)"
         R"("computeMajor":8,"computeMinor":0,"numSms":108},{"id":1,"name":"Second"}],)"
         R"("distributedInfo":{"backend":"nccl","rank":0,"world_size":2},"traceEvents":[)" +
         events.text + R"(],"traceName":"a]b"})";
}

std::shared_ptr<const Trace> read_text(const std::string& text) {
  auto trace = read_trace(*memory_byte_source(text.data(), text.size()));
  if (!trace.ok()) return nullptr;
  return std::make_shared<const Trace>(std::move(trace).value());
}

std::unique_ptr<Profile> profile_of(const std::string& text, const Semantics& semantics) {
  return analyze(read_text(text), semantics);
}

namespace {

size_t exercise_views(const Profile& p) {
  size_t bytes = to_json(overview(p, 1)).size();
  for (const bool by_shape : {false, true})
    bytes += to_json(operation_pies(p, by_shape)).size() +
             to_json(operation_table(p, by_shape)).size() +
             to_json(operation_stacks(p, by_shape, "aten::linear", "[]")).size();
  bytes += to_json(kernel_pie(p)).size() + to_json(kernel_table(p)).size() +
           to_json(kernel_table_by_properties(p)).size() + to_json(tensor_core_pie(p)).size();
  MemoryRequest request;
  bytes += memory_stats_json(p, request).size() + memory_curve_json(p, request).size() +
           memory_events_json(p, request).size() + modules_json(p).size();
  for (const size_t limit : {size_t{0}, size_t{20}})
    write_tree(p, {kNoRow, limit}, [&](std::string_view piece) {
      bytes += piece.size();
      return true;
    });
  write_counters(p, [&](std::string_view piece) {
    bytes += piece.size();
    return true;
  });
  const DiffNode node = diff_profiles(p, p);
  bytes += diff_json(node).size() + diff_node_json(node, "0-1").size();
  const std::vector<const Profile*> workers{&p, &p};
  bytes += has_distributed_view(workers) ? 1 : 0;
  bytes += device_info_json(workers).size() + overlap_json(workers).size() +
           wait_time_json(workers).size() + collectives_json(workers).size();
  return bytes;
}

}  // namespace

size_t exercise(const std::shared_ptr<const Trace>& trace) {
  size_t bytes = trace->bytes();
  for (int mode = 0; mode < 4; ++mode) {
    Semantics semantics;
    semantics.original = mode % 2 == 1;
    semantics.dialect = mode < 2    ? dialect_of(*trace)
                        : mode == 2 ? Dialect::kMluLate
                                    : Dialect::kMlu;
    const auto profile = analyze(trace, semantics);
    bytes += exercise_views(*profile);
    if (mode != 0) continue;
    bytes += match_collectives({profile.get(), profile.get()}).ranks.size();
    const Insights insights = find_insights(*profile);
    bytes += metrics(*profile, insights).size() + view_names(*profile).size();
  }
  const Timeline timeline = build_timeline(*trace);
  for (const int64_t pixels : {10, 2000})
    bytes += timeline_window(*trace, timeline, timeline.first_ns, timeline.last_ns + 1, pixels, 0,
                             1000, 10000)
                 .rows.size();
  return bytes;
}

void Mutator::change_number(std::string& text) {
  const size_t from = text.find_first_of("0123456789", below(text.size()));
  if (from == text.npos) return;
  const size_t end = std::min(text.find_first_not_of("0123456789.eE", from), text.size());
  text.replace(from, end - from, kTokens[below(std::size(kTokens))]);
}

void Mutator::change_once(std::string& text) {
  if (text.empty()) return;
  const size_t at = below(text.size()), length = 1 + below(below(4) == 0 ? 400 : 12);
  switch (below(9)) {
    case 0:
      text[at] = static_cast<char>(random_());
      return;
    case 1:
      text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      return;
    case 2:
      text.erase(at, length);
      return;
    case 3:
      text.insert(at, std::string(text.substr(below(text.size()), length)));
      return;
    case 4:
      text.insert(at, kTokens[below(std::size(kTokens))]);
      return;
    case 5: {  // a whole event more, from any seed
      const std::string& from = seeds_[below(seeds_.size())];
      const size_t start = from.find("{\"ph\"", below(from.size()));
      const size_t end = start == from.npos ? start : from.find("}}", start);
      const size_t place = text.find("{\"ph\"", at);
      if (end != from.npos && place != text.npos)
        text.insert(place, from.substr(start, end + 2 - start) + ",");
      return;
    }
    case 6:
      if (below(20) == 0) text.resize(at);
      return;
    default:
      change_number(text);
  }
}

std::string Mutator::next() {
  std::string text = seeds_[below(seeds_.size())];
  for (size_t changes = 1 + below(8); changes > 0; --changes) change_once(text);
  return text;
}

}  // namespace camshaft::trace::testing
