// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "server/page_query.h"

namespace camshaft::server {
namespace {

using trace::JsonWriter;
using trace::Profile;

constexpr int64_t kMaxRows = 1000;  // of a table in one answer

bool contains_folded(std::string_view text, std::string_view folded_part) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; };
  return std::search(text.begin(), text.end(), folded_part.begin(), folded_part.end(), same) !=
         text.end();
}

std::string folded(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

// A table's columns by key, with how a row gives their value; rows are sorted by one of them.
template <class Row>
struct NumberColumn {
  const char* key;
  double (*value)(const Profile&, const Row&);
};

template <class Row, size_t N>
void write_page(JsonWriter& writer, const Profile& profile, const std::vector<Row>& rows,
                const NumberColumn<Row> (&columns)[N], const Query& query,
                const std::function<void(JsonWriter&, const Row&)>& write_labels,
                const std::function<bool(const Row&, std::string_view)>& matches) {
  const std::string search = folded(query.text("search"));
  std::vector<uint32_t> order;
  for (uint32_t k = 0; k < rows.size(); ++k)
    if (search.empty() || matches(rows[k], search)) order.push_back(k);
  const std::string sort = query.text("sort");
  for (const NumberColumn<Row>& column : columns) {
    if (sort != column.key) continue;
    const bool ascending = query.text("order") == "asc";
    std::vector<double> keys(rows.size());
    for (const uint32_t k : order) keys[k] = column.value(profile, rows[k]);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return ascending ? keys[a] < keys[b] : keys[a] > keys[b];
    });
  }
  const int64_t offset = query.integer("offset", 0, 0, int64_t{1} << 40),
                limit = query.integer("limit", 50, 1, kMaxRows);
  writer.integer("total", static_cast<int64_t>(order.size()))
      .integer("offset", offset)
      .key("rows")
      .begin_array();
  for (int64_t k = offset;
       k < std::min<int64_t>(static_cast<int64_t>(order.size()), offset + limit); ++k) {
    const Row& row = rows[order[k]];
    writer.begin_object();
    write_labels(writer, row);
    for (const NumberColumn<Row>& column : columns)
      writer.real(column.key, column.value(profile, row));
    writer.end_object();
  }
  writer.end_array();
}

using trace::KernelGroup;
using trace::OperatorGroup;

constexpr NumberColumn<OperatorGroup> kOperatorColumns[] = {
    {"calls",
     [](const Profile&, const OperatorGroup& row) { return static_cast<double>(row.calls); }},
    {"device_self",
     [](const Profile& p, const OperatorGroup& row) { return p.clock.to_us(row.device_self); }},
    {"device_total",
     [](const Profile& p, const OperatorGroup& row) { return p.clock.to_us(row.device_total); }},
    {"host_self",
     [](const Profile& p, const OperatorGroup& row) { return p.clock.to_us(row.host_self); }},
    {"host_total",
     [](const Profile& p, const OperatorGroup& row) { return p.clock.to_us(row.host_total); }},
    {"tc_percent",
     [](const Profile&, const OperatorGroup& row) {
       return row.device_total > 0 ? 100 * row.matrix_total / row.device_total : 0;
     }},
};

constexpr NumberColumn<KernelGroup> kKernelColumns[] = {
    {"calls",
     [](const Profile&, const KernelGroup& row) { return static_cast<double>(row.calls); }},
    {"total", [](const Profile& p, const KernelGroup& row) { return p.clock.to_us(row.total); }},
    {"mean", [](const Profile& p, const KernelGroup& row) { return p.clock.to_us(row.mean()); }},
    {"longest",
     [](const Profile& p, const KernelGroup& row) { return p.clock.to_us(row.longest); }},
    {"shortest",
     [](const Profile& p, const KernelGroup& row) { return p.clock.to_us(row.shortest); }},
    {"blocks_per_sm", [](const Profile&, const KernelGroup& row) { return row.mean_blocks; }},
    {"occupancy", [](const Profile&, const KernelGroup& row) { return row.mean_occupancy; }},
};

using trace::MemoryStat;

constexpr NumberColumn<MemoryStat> kMemoryColumns[] = {
    {"calls", [](const Profile&, const MemoryStat& row) { return static_cast<double>(row.calls); }},
    {"self_kept",
     [](const Profile&, const MemoryStat& row) { return static_cast<double>(row.self_kept); }},
    {"kept", [](const Profile&, const MemoryStat& row) { return static_cast<double>(row.kept); }},
    {"self_allocations",
     [](const Profile&, const MemoryStat& row) {
       return static_cast<double>(row.self_allocations);
     }},
    {"self_allocated",
     [](const Profile&, const MemoryStat& row) { return static_cast<double>(row.self_allocated); }},
    {"allocated",
     [](const Profile&, const MemoryStat& row) { return static_cast<double>(row.allocated); }},
};

}  // namespace

Answer page_operators(const Query& query, const Run&, const ProfileEntry& entry) {
  const Profile& profile = *entry.profile();
  const bool by_shape = query.text("group") == "shape";
  JsonWriter writer;
  const auto& names = profile.operators.by_name;
  writer.begin_object().boolean("has_device", profile.has_device_work);
  writer.boolean("has_tensor_cores",
                 std::any_of(names.begin(), names.end(), [](const OperatorGroup& row) {
                   return row.tc_eligible || row.matrix_total > 0;
                 }));
  write_page<OperatorGroup>(
      writer, profile, by_shape ? profile.operators.by_shape : profile.operators.by_name,
      kOperatorColumns, query,
      [&](JsonWriter& out, const OperatorGroup& row) {
        out.text("name", shortened(profile.trace.strings[row.name]));
        if (by_shape) out.text("shape", shortened(profile.trace.strings[row.shapes]));
        out.boolean("has_stack", row.has_call_stack).boolean("tc_eligible", row.tc_eligible);
      },
      [&](const OperatorGroup& row, std::string_view part) {
        return contains_folded(profile.trace.strings[row.name], part) ||
               (by_shape && contains_folded(profile.trace.strings[row.shapes], part));
      });
  writer.end_object();
  return page_json(writer);
}

Answer page_kernels(const Query& query, const Run&, const ProfileEntry& entry) {
  const Profile& profile = *entry.profile();
  const bool by_launch = query.text("group") == "launch";
  JsonWriter writer;
  writer.begin_object();
  writer.boolean("has_blocks", profile.kernels.has_blocks)
      .boolean("has_occupancy", profile.kernels.has_occupancy);
  const auto op_of = [&](const KernelGroup& row) {
    return trace::operator_label(profile.trace, row);
  };
  write_page<KernelGroup>(
      writer, profile, by_launch ? profile.kernels.by_properties : profile.kernels.by_name,
      kKernelColumns, query,
      [&](JsonWriter& out, const KernelGroup& row) {
        const std::string_view name = profile.trace.strings[row.name];
        out.text("name", shortened(name))
            .text("tensor_cores",
                  trace::matrix_use_word(trace::matrix_use(name, profile.semantics)));
        if (!by_launch) return;
        out.text("op", shortened(op_of(row))).text("grid", profile.trace.strings[row.grid]);
        out.text("block", profile.trace.strings[row.block]).integer("registers", row.registers);
        out.integer("shared_memory", row.shared_memory);
      },
      [&](const KernelGroup& row, std::string_view part) {
        return contains_folded(profile.trace.strings[row.name], part) ||
               (by_launch && contains_folded(op_of(row), part));
      });
  writer.end_object();
  return page_json(writer);
}

Answer page_memory(const Query& query, const Run&, const ProfileEntry& entry) {
  const Profile& profile = *entry.profile();
  const auto tables =
      trace::memory_stats(profile.trace, profile.clock, profile.semantics, profile.forest,
                          profile.memory, trace::moved_away(profile), {});
  JsonWriter writer;
  writer.begin_object().key("devices").begin_array();
  for (const std::string& device : profile.memory.devices) writer.text(device);
  writer.end_array();
  const auto device =
      std::find(profile.memory.devices.begin(), profile.memory.devices.end(), query.text("device"));
  const bool known = device != profile.memory.devices.end();
  write_page<MemoryStat>(
      writer, profile,
      known ? tables[device - profile.memory.devices.begin()] : std::vector<MemoryStat>(),
      kMemoryColumns, query,
      [&](JsonWriter& out, const MemoryStat& row) {
        out.text("name", shortened(profile.trace.strings[row.name]));
      },
      [&](const MemoryStat& row, std::string_view part) {
        return contains_folded(profile.trace.strings[row.name], part);
      });
  writer.end_object();
  return page_json(writer);
}

}  // namespace camshaft::server
