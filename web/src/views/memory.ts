// Memory: curves, what was held at the peak, and who allocated it.
import { api, type Selection } from "../api";
import { curves, pie } from "../charts";
import { card, h } from "../dom";
import { bytes, count } from "../format";
import { choice, pagedTable, type TableColumn } from "../table";

function size(key: string, title: string, hint: string): TableColumn {
  return { key, title, numeric: true, hint, show: (row) => bytes(row[key] as number) };
}

function table(at: Selection, device: string): HTMLElement {
  return pagedTable({
    label: "allocations",
    columns: [
      { key: "name", title: "Operator", show: (row) => h("span", { class: "name" }, row.name as string) },
      { key: "calls", title: "Calls", numeric: true, show: (row) => count(row.calls as number) },
      { key: "self_allocations", title: "Allocations", numeric: true, show: (row) => count(row.self_allocations as number) },
      size("self_allocated", "Allocated itself", "Bytes it asked for, without counting what was freed"),
      size("allocated", "With operators inside", "The same with all operators it called"),
      size("self_kept", "Kept itself", "Of what it allocated itself: not freed when the trace ends"),
      size("kept", "Kept with inside", "The same with all operators it called"),
    ],
    sort: "self_allocated",
    load: (query) => api.memory(at, { ...query, device }),
  });
}

export async function memoryView(at: Selection): Promise<HTMLElement> {
  const [curve, insights, first] = await Promise.all([api.memoryCurve(at), api.insights(at), api.memory(at, { limit: 1 })]);
  const drawn = Object.entries(curve.rows).map(([device, rows]) =>
    h(
      "div",
      { class: "wide" },
      card(
        `${device} over time`,
        curves(
          `memory of ${device}`,
          [
            { name: "allocated", points: rows.map((row) => [row[0], row[1]]) },
            { name: "reserved", points: rows.map((row) => [row[0], row[2]]) },
          ],
          "ms since the start",
          bytes,
        ),
      ),
    ),
  );
  const peaks = insights.memory
    .filter((use) => use.at_peak.length > 0 && use.peak > 1 << 20)
    .map((use) =>
      card(
        `${use.device} at its peak: ${bytes(use.peak)}${use.capacity > 0 ? ` of ${bytes(use.capacity)}` : ""}`,
        pie(`memory of ${use.device} at its peak by purpose`, use.at_peak.map(([name, value]) => ({ name, value })), bytes),
      ),
    );
  const holder = h("div");
  const device = first.devices.find((name) => name !== "CPU") ?? first.devices[0] ?? "";
  const show = (name: string) => holder.replaceChildren(table(at, name));
  show(device);
  return h(
    "div",
    {},
    drawn.length === 0 ? h("p", { class: "notice" }, "This trace has allocations without totals: curves need PyTorch 1.10 or newer.") : null,
    h("div", { class: "grid" }, ...drawn, ...peaks),
    card("Allocations by operator", choice("Device", Object.fromEntries(first.devices.map((name) => [name, name])), device, show), holder),
  );
}
