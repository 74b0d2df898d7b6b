// SPDX-License-Identifier: Apache-2.0
// Fields are taken as raw tokens and converted here, so that quoted numbers, NaN and bad escapes
// are no errors. A batch that simdjson refuses is read again event by event, the refused events
// repaired first.
#include "trace/event_parser.h"

#include <simdjson.h>

#include <cstring>
#include <unordered_map>

#include "trace/event_fields.h"
#include "trace/event_values.h"
#include "trace/json_text.h"
#include "trace/repair.h"

namespace camshaft::trace {

namespace ondemand = simdjson::ondemand;

struct EventParser::State {
  explicit State(Trace& target) : trace(target) {}

  Trace& trace;
  ondemand::parser parser;
  RawEvent raw;
  std::unordered_map<uint64_t, uint32_t> track_ids;
  std::string last_pid, last_tid;
  uint32_t last_track = 0;
  std::vector<StringId> list_texts;  // raw id → id of its Python form; 0: not yet known

  // Counts of everything a batch may add, to take a refused batch back.
  struct Mark {
    size_t events, host, python, runtime, device, collectives, memory, flows, labels;
    ReadReport report;
  };
  Mark mark() const {
    return {trace.events.size(),  trace.host.size(),   trace.python.size(),
            trace.runtime.size(), trace.device.size(), trace.collectives.size(),
            trace.memory.size(),  trace.flows.size(),  trace.labels.size(),
            trace.report};
  }
  void roll_back(const Mark& mark);

  bool read_object(ondemand::object object, const FieldTable& table, bool is_event);
  bool read_array(std::string& batch);
  void read_one_by_one(const std::string& batch);
  void add();
  void add_complete(EventKind kind);
  void add_instant(std::string_view name);
  void add_memory();
  void add_flow();
  uint32_t add_detail(EventKind& kind);
  uint32_t add_device_detail();
  uint32_t add_collective();
  StringId text_id(std::string_view token);
  StringId list_id(std::string_view token);
  uint32_t track_id();
};

void EventParser::State::roll_back(const Mark& to) {
  EventColumns& events = trace.events;
  events.start_ns.resize(to.events);
  events.duration_ns.resize(to.events);
  events.name.resize(to.events);
  events.track.resize(to.events);
  events.detail.resize(to.events);
  events.kind.resize(to.events);
  trace.host.resize(to.host);
  trace.python.resize(to.python);
  trace.runtime.resize(to.runtime);
  trace.device.resize(to.device);
  trace.collectives.resize(to.collectives);
  MemoryColumns& memory = trace.memory;
  memory.time_ns.resize(to.memory);
  memory.bytes.resize(to.memory);
  memory.address.resize(to.memory);
  memory.total_allocated.resize(to.memory);
  memory.total_reserved.resize(to.memory);
  memory.track.resize(to.memory);
  memory.device_type.resize(to.memory);
  memory.device_id.resize(to.memory);
  trace.flows.resize(to.flows);
  trace.labels.resize(to.labels);
  trace.report = to.report;
}

// Fills `raw` with the fields that `table` knows; false on broken JSON.
bool EventParser::State::read_object(ondemand::object object, const FieldTable& table,
                                     bool is_event) {
  for (auto entry : object) {
    ondemand::field field;
    if (std::move(entry).get(field)) return false;
    const char* key = field.key().raw();
    size_t length = 0;
    while (key[length] != '"') {
      if (key[length] == '\\') ++length;
      ++length;
    }
    const std::string_view name(key, length);
    if (is_event && name == "args") {
      ondemand::object arguments;
      if (field.value().get_object().get(arguments)) continue;
      if (!read_object(arguments, argument_fields(), false)) return false;
      continue;
    }
    const int wanted = table.find(name);
    if (wanted < 0) continue;
    ondemand::value value = field.value();
    std::string_view token = trimmed(value.raw_json_token());
    if (!token.empty() && (token[0] == '[' || token[0] == '{')) {
      if (token[0] == '[') {
        ondemand::array array;
        if (value.get_array().get(array) || array.raw_json().get(token)) return false;
      } else {
        ondemand::object inner;
        if (value.get_object().get(inner) || inner.raw_json().get(token)) return false;
      }
      token = trimmed(token);
    }
    raw.set(wanted, token);
  }
  return true;
}

bool EventParser::State::read_array(std::string& batch) {
  ondemand::document document;
  if (parser.iterate(batch.data(), batch.size(), batch.capacity()).get(document)) return false;
  ondemand::array array;
  if (document.get_array().get(array)) return false;
  for (auto element : array) {
    ondemand::value value;
    if (std::move(element).get(value)) return false;
    raw.present = 0;
    ondemand::object object;
    ++trace.report.events;
    if (value.get_object().get(object)) {
      ++trace.report.skipped_events;
      continue;
    }
    if (!read_object(object, event_fields(), true)) return false;
    add();
  }
  return true;
}

void EventParser::State::read_one_by_one(const std::string& batch) {
  std::string single;
  for_each_element(batch, [&](std::string_view event) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Mark before = mark();
      single.assign("[");
      if (attempt == 0)
        single.append(event);
      else
        append_repaired(single, event);
      single.push_back(']');
      single.reserve(single.size() + EventParser::padding());
      if (read_array(single)) {
        trace.report.repaired_events += attempt;
        return;
      }
      roll_back(before);
    }
    ++trace.report.events;
    ++trace.report.skipped_events;
  });
}

StringId EventParser::State::text_id(std::string_view token) {
  const std::string_view text = unquoted(token);
  if (text.empty()) return 0;
  if (std::memchr(text.data(), '\\', text.size()) == nullptr) return trace.strings.intern(text);
  return trace.strings.intern(unescape(text));
}

StringId EventParser::State::list_id(std::string_view token) {
  if (token.empty()) return 0;
  const StringId id = trace.strings.intern(token);
  if (id >= list_texts.size()) list_texts.resize(id + 1, 0);
  if (list_texts[id] == 0) {
    const StringId text = trace.strings.intern(python_text(token));
    list_texts[id] = text;
  }
  return list_texts[id];
}

uint32_t EventParser::State::track_id() {
  const std::string_view tid = raw[kTid];
  if (!trace.tracks.empty() && raw[kPid] == last_pid && tid == last_tid)
    return last_track;  // runs of events of one thread are long
  last_pid = raw[kPid];
  last_tid = tid;
  const bool is_number = !tid.empty() && tid.front() != '"';
  const uint64_t key =
      uint64_t{text_id(raw[kPid])} << 32 | uint64_t{text_id(tid)} << 1 | (is_number ? 1 : 0);
  const auto [place, is_new] =
      track_ids.try_emplace(key, static_cast<uint32_t>(trace.tracks.size()));
  if (is_new)
    trace.tracks.push_back({static_cast<StringId>(key >> 32),
                            static_cast<StringId>((key & 0xffffffff) >> 1), is_number});
  return last_track = place->second;
}

void EventParser::State::add() {
  const std::string_view phase = unquoted(raw[kPhase]);
  if (phase.size() != 1) return;
  switch (phase[0]) {
    case 'X': {
      const std::string_view category = unquoted(raw[kCategory]);
      return add_complete(kind_of_category(category));
    }
    case 'i':
    case 'I':
      return add_instant(unquoted(raw[kName]));
    case 's':
    case 'f':
      return add_flow();
    case 'M':
      if (unquoted(raw[kName]) == "thread_name" && raw.has(kLabel))
        trace.labels.push_back({text_id(raw[kPid]), text_id(raw[kTid]), text_id(raw[kLabel])});
      return;
    default:
      return;
  }
}

void EventParser::State::add_complete(EventKind kind) {
  int64_t start = 0, duration = 0;
  bool integral = true;
  const bool has_start = parse_nanoseconds(raw[kTime], start, integral);
  const bool has_duration = parse_nanoseconds(raw[kDuration], duration, integral);
  if (!has_start || !raw.has(kName)) {
    ++trace.report.incomplete_events;
    return;
  }
  if (!has_duration) {
    ++trace.report.incomplete_events;
    duration = 0;
  }
  if (!integral) trace.integral_times = false;
  EventColumns& events = trace.events;
  events.start_ns.push_back(start);
  events.duration_ns.push_back(duration);
  events.name.push_back(text_id(raw[kName]));
  events.track.push_back(track_id());
  events.detail.push_back(add_detail(kind));
  events.kind.push_back(kind);
}

template <class Row>
uint32_t append(std::vector<Row>& table, Row row) {
  table.push_back(row);
  return static_cast<uint32_t>(table.size() - 1);
}

uint32_t EventParser::State::add_detail(EventKind& kind) {
  const int64_t external_id = integer_or(raw[kExternalId], kNoId);
  switch (kind) {
    case EventKind::kOperator:
    case EventKind::kAnnotation:
    case EventKind::kGpuAnnotation:
    case EventKind::kPythonOp:
      return append(trace.host,
                    HostDetail{external_id, list_id(raw[kInputDims]), list_id(raw[kInputTypes]),
                               text_id(raw[kCallStack]), add_collective()});
    case EventKind::kPythonFunction: {
      const int64_t module = integer_or(raw[kPythonModule], kNoId);
      if (module != kNoId) kind = EventKind::kModule;
      return append(trace.python, PythonDetail{integer_or(raw[kPythonId], kNoId),
                                               integer_or(raw[kPythonParent], kNoId), module});
    }
    case EventKind::kRuntime:
    case EventKind::kDriver:
      return append(trace.runtime,
                    RuntimeDetail{external_id, integer_or(raw[kCorrelation], kNoId)});
    case EventKind::kKernel:
    case EventKind::kMemcpy:
    case EventKind::kMemset:
      return add_device_detail();
    default:
      return 0;
  }
}

uint32_t EventParser::State::add_device_detail() {
  DeviceDetail row;
  row.external_id = integer_or(raw[kExternalId], kNoId);
  row.correlation = integer_or(raw[kCorrelation], kNoId);
  row.bytes = quantity_or(raw[kByteCount], 0);
  row.device = static_cast<int32_t>(integer_or(raw[kDevice], -1));
  row.stream = text_id(raw[kStream]);
  if (!is_null(raw[kGrid])) row.grid = list_id(raw[kGrid]);
  if (!is_null(raw[kBlock])) row.block = list_id(raw[kBlock]);
  row.registers = static_cast<int32_t>(integer_or(raw[kRegisters], 0));
  row.shared_memory = quantity_or(raw[kSharedMemory], 0);
  row.blocks_per_sm = real_or(raw[kBlocksPerSm], -1);
  row.occupancy = real_or(raw[kOccupancy], -1);
  if (raw.has(kKernelType)) row.kernel_type = text_id(raw[kKernelType]);
  if (raw.has(kDim)) {
    row.dim = list_id(raw[kDim]);
  } else if (raw.has(kDimX)) {
    std::string dims = "[";
    dims.append(raw[kDimX])
        .append(", ")
        .append(raw[kDimY])
        .append(", ")
        .append(raw[kDimZ])
        .append("]");
    row.dim = trace.strings.intern(dims);
  }
  if (raw.has(kTaskTopology)) row.task_topology = text_id(raw[kTaskTopology]);
  if (raw.has(kTaskTopologyNode)) row.task_topology_node = text_id(raw[kTaskTopologyNode]);
  row.collective = add_collective();
  return append(trace.device, row);
}

uint32_t EventParser::State::add_collective() {
  if (!raw.has(kCollectiveName)) return kNoRow;
  return append(trace.collectives,
                CollectiveDetail{text_id(raw[kCollectiveName]), text_id(raw[kGroupName]),
                                 text_id(raw[kGroupDescription]), text_id(raw[kGroupRanks]),
                                 text_id(raw[kElementType]), quantity_or(raw[kInElements], 0),
                                 quantity_or(raw[kOutElements], 0), quantity_or(raw[kGroupSize], 0),
                                 integer_or(raw[kSequence], kNoId)});
}

void EventParser::State::add_instant(std::string_view name) {
  if (name == "[memory]") return add_memory();
  const bool is_end = name == "Record Window End";
  if (!is_end && name.substr(0, 16) != "Iteration Start:") return;
  int64_t time = 0;
  bool integral = true;
  if (parse_nanoseconds(raw[kTime], time, integral))
    (is_end ? trace.window_end_ns : trace.iteration_start_ns) = time;
}

void EventParser::State::add_memory() {
  int64_t time = 0;
  bool integral = true;
  if (!parse_nanoseconds(raw[kTime], time, integral)) {
    ++trace.report.incomplete_events;
    return;
  }
  if (!integral) trace.integral_times = false;
  MemoryColumns& memory = trace.memory;
  memory.time_ns.push_back(time);
  memory.bytes.push_back(quantity_or(raw[kBytes], 0));
  memory.address.push_back(static_cast<uint64_t>(integer_or(raw[kAddress], 0)));
  memory.total_allocated.push_back(quantity_or(raw[kTotalAllocated], kNoId));
  memory.total_reserved.push_back(quantity_or(raw[kTotalReserved], kNoId));
  memory.track.push_back(track_id());
  memory.device_type.push_back(static_cast<int16_t>(integer_or(raw[kDeviceType], -1)));
  memory.device_id.push_back(static_cast<int16_t>(integer_or(raw[kDeviceId], -1)));
}

void EventParser::State::add_flow() {
  const std::string_view category = unquoted(raw[kCategory]);
  if (category != "fwdbwd" && category != "forward_backward") return;
  FlowEvent flow;
  bool integral = true;
  if (!parse_nanoseconds(raw[kTime], flow.time_ns, integral) ||
      !parse_integer(raw[kFlowId], flow.id))
    return;
  flow.is_start = unquoted(raw[kPhase]) == "s";
  trace.flows.push_back(flow);
}

EventParser::EventParser(Trace& trace) : state_(std::make_unique<State>(trace)) {}
EventParser::~EventParser() = default;

size_t EventParser::padding() {
  return simdjson::SIMDJSON_PADDING;
}

void EventParser::parse(std::string& batch) {
  const State::Mark before = state_->mark();
  if (state_->read_array(batch)) return;
  state_->roll_back(before);
  state_->read_one_by_one(batch);
}

}  // namespace camshaft::trace
