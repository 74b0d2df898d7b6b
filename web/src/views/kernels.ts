// Kernels: a pie of the largest and the whole table.
import { api, type Selection } from "../api";
import { pie } from "../charts";
import { card, h } from "../dom";
import { count, digits, duration } from "../format";
import { choice, pagedTable, type TableColumn } from "../table";

interface KernelFlags {
  has_blocks: boolean;
  has_occupancy: boolean;
}

function time(key: string, title: string): TableColumn {
  return { key, title, numeric: true, show: (row) => duration(row[key] as number) };
}

function table(at: Selection, byLaunch: boolean, flags: KernelFlags): HTMLElement {
  const columns: TableColumn[] = [
    { key: "name", title: "Kernel", show: (row) => h("span", { class: "name kernel", title: row.name as string }, row.tensor_cores === "yes" ? h("small", { class: "badge before", title: "runs on Tensor Cores" }, "TC") : null, row.name as string) },
  ];
  if (byLaunch)
    columns.push(
      { key: "op", title: "Operator", show: (row) => h("span", { class: "name" }, row.op as string) },
      { key: "grid", title: "Grid" },
      { key: "block", title: "Block" },
    );
  columns.push(
    { key: "calls", title: "Calls", numeric: true, show: (row) => count(row.calls as number) },
    time("total", "Total"),
    time("mean", "Mean"),
    time("longest", "Longest"),
    time("shortest", "Shortest"),
  );
  if (flags.has_blocks) columns.push({ key: "blocks_per_sm", title: "Blocks/SM", numeric: true, hint: "Mean, weighted by time", show: (row) => digits(row.blocks_per_sm as number) });
  if (flags.has_occupancy) columns.push({ key: "occupancy", title: "Occupancy", numeric: true, hint: "Estimated, mean weighted by time", show: (row) => `${digits(row.occupancy as number)} %` });
  return pagedTable({
    label: "kernels",
    columns,
    sort: "total",
    load: (query) => api.kernels(at, { ...query, group: byLaunch ? "launch" : "name" }),
  });
}

export async function kernelsView(at: Selection): Promise<HTMLElement> {
  const largest = await api.kernels(at, { sort: "total", limit: 300 });
  const flags = largest as unknown as KernelFlags;
  const holder = h("div");
  const show = (group: string) => holder.replaceChildren(table(at, group === "launch", flags));
  show("name");
  const slices = largest.rows.map((row) => ({ name: row.name as string, value: row.total as number }));
  const byUse = (use: string) => largest.rows.filter((row) => row.tensor_cores === use).reduce((sum, row) => sum + (row.total as number), 0);
  const withCores = byUse("yes");
  return h(
    "div",
    {},
    h(
      "div",
      { class: "grid" },
      card("Kernel time", pie("kernel time by kernel", slices)),
      // Nothing to show on devices without them, or with kernels whose names do not tell.
      withCores > 0 ? card("Tensor Cores", pie("kernel time with and without Tensor Cores", [{ name: "with Tensor Cores", value: withCores }, { name: "without", value: byUse("no") }, { name: "names do not tell", value: byUse("unknown") }])) : null,
    ),
    card("Kernels", choice("Rows", { name: "by name", launch: "by operator and launch" }, "name", show), holder),
  );
}
