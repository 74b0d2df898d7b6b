// Operators: pies of the largest, and the whole table with call stacks.
import { api, type Row, type Selection } from "../api";
import { pie } from "../charts";
import { card, h } from "../dom";
import { count, duration } from "../format";
import { choice, pagedTable, type TableColumn } from "../table";

function time(key: string, title: string, hint: string): TableColumn {
  return { key, title, numeric: true, hint, show: (row) => duration(row[key] as number) };
}

async function stacks(at: Selection, row: Row, byShape: boolean): Promise<Node> {
  const table = await api.stacks(at, row.name as string, byShape, (row.shape as string | undefined) ?? "");
  return h(
    "div",
    { class: "stacks" },
    ...table.data.map((entry) =>
      h(
        "details",
        { open: table.data.length === 1 },
        h("summary", {}, `${count(entry.calls)} calls · host self ${duration(entry.host_self_duration)}${entry.device_self_duration === undefined ? "" : ` · device self ${duration(entry.device_self_duration)}`}`),
        h("ol", {}, ...entry.call_stack.split(";").map((frame) => h("li", {}, frame))),
      ),
    ),
  );
}

async function pies(at: Selection): Promise<HTMLElement> {
  const [device, host] = await Promise.all([
    api.operators(at, { sort: "device_self", limit: 200 }),
    api.operators(at, { sort: "host_self", limit: 200 }),
  ]);
  const slices = (rows: Row[], key: string) => rows.map((row) => ({ name: row.name as string, value: row[key] as number }));
  return h(
    "div",
    { class: "grid" },
    device.rows.some((row) => (row.device_self as number) > 0) ? card("Device self time", pie("device self time by operator", slices(device.rows, "device_self"))) : null,
    card("Host self time", pie("host self time by operator", slices(host.rows, "host_self"))),
  );
}

interface OperatorFlags {
  has_device: boolean;
  has_tensor_cores: boolean;
}

function table(at: Selection, byShape: boolean, { has_device: hasDevice, has_tensor_cores: hasTensorCores }: OperatorFlags): HTMLElement {
  const columns: TableColumn[] = [
    { key: "name", title: "Operator", show: (row) => h("span", { class: "name" }, row.name as string, row.has_stack ? h("small", { class: "badge" }, "stacks") : null) },
  ];
  if (byShape) columns.push({ key: "shape", title: "Input shapes", show: (row) => h("code", {}, row.shape as string) });
  columns.push({ key: "calls", title: "Calls", numeric: true, show: (row) => count(row.calls as number) });
  if (hasDevice)
    columns.push(
      time("device_self", "Device self", "Kernels, copies and fills this operator launched itself"),
      time("device_total", "Device total", "The same with all operators it called"),
    );
  columns.push(
    time("host_self", "Host self", "Without the operators and runtime calls inside it"),
    time("host_total", "Host total", "With everything inside it"),
  );
  if (hasDevice && hasTensorCores)
    columns.push({ key: "tc_percent", title: "Tensor Cores", numeric: true, hint: "Of its device time", show: (row) => ((row.device_total as number) > 0 ? `${(row.tc_percent as number).toFixed(0)} %` : row.tc_eligible ? "eligible" : "") });
  return pagedTable({
    label: "operators",
    columns,
    sort: hasDevice ? "device_self" : "host_self",
    load: (query) => api.operators(at, { ...query, group: byShape ? "shape" : "name" }),
    detail: (row) => (row.has_stack ? stacks(at, row, byShape) : undefined),
  });
}

export async function operatorsView(at: Selection): Promise<HTMLElement> {
  const first = (await api.operators(at, { limit: 1 })) as unknown as OperatorFlags;
  const holder = h("div");
  const show = (group: string) => holder.replaceChildren(table(at, group === "shape", first));
  show("name");
  return h(
    "div",
    {},
    await pies(at),
    card("Operators", choice("Rows", { name: "by name", shape: "by name and input shapes" }, "name", show), holder),
  );
}
