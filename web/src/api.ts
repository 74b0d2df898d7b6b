// The server's own routes (src/server/page_api.cpp) and those of the TensorBoard plugin.

export interface Selection {
  run: string;
  worker: string;
  span: string;
}

export interface State {
  loading: boolean;
  files: number;
  done: number;
  failed: number;
  bytes: number;
  bytes_done: number;
  messages: string[];
  runs: { name: string; profiles: { worker: string; span: string; views: string[] }[] }[];
}

export interface Device {
  id: number;
  name?: string;
  memory_bytes?: number;
  compute?: string;
  utilization: number;
  sm_efficiency?: number;
  occupancy?: number;
  tensor_cores?: number;
  tensor_cores_unknown?: number;
  idle?: { span: number; busy: number; host_wait: number; kernel_wait: number; other: number };
}

export interface Overview {
  parts: string[];
  average: number[];
  average_step: number;
  steps_from: string;
  steps_note: string;
  step_count: number;
  steps: [string, ...number[]][];
  devices: Device[];
  findings: { id: string; text: string; value: number }[];
  facts: Record<string, number>;
  note: string;
  file: string;
}

export type Row = Record<string, string | number | boolean>;
export interface Page {
  total: number;
  offset: number;
  rows: Row[];
}

export interface Insights {
  causes: { op: string; idle: number; gaps: number }[];
  collectives: { name: string; group: string; calls: number; group_size: number; total: number; exposed: number; bytes: number }[];
  memory: { device: string; peak: number; reserved: number; capacity: number; at_peak: [string, number][] }[];
  critical_span: number;
  critical: { kind: "kernel" | "launch" | "queue" | "host"; name: string; total: number; count: number }[];
  launches: Record<string, number>;
}

export interface Ranks {
  workers: { worker: string; rank: number; facts: Record<string, number> }[];
  collectives: number; // matched on at least two workers
  ranks: {
    worker: string;
    matched: number;
    unmatched: number;
    came_last: number;
    wait: number;
    wait_percent: number; // of the steps
    transfer: number;
    waits_for: string;
    busy_with: string; // what its steps have more of than the others'
    busy_percent: number;
    busy_excess: number;
  }[];
}

export interface TimelineWindow {
  length: number;
  lanes: number;
  pixel: number;
  names: string[];
  // start, length (ns after the first event), name, kind, events merged
  rows: { lane: number; track: string; depth: number; blocks: [number, number, number, number, number][] }[];
}

export interface MemoryCurve {
  metadata: { default_device: string; devices: string[]; peaks: Record<string, string>; first_ts: number };
  rows: Record<string, [number, number, number][]>;
}

export interface StackTable {
  data: { call_stack: string; calls: number; host_self_duration: number; device_self_duration?: number }[];
}

async function get<T>(path: string, parameters: Record<string, string | number>): Promise<T> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) query.set(name, String(value));
  const response = await fetch(`${path}?${query}`);
  if (!response.ok) throw new Error((await response.text()) || `${response.status}`);
  return (await response.json()) as T;
}

const plugin = "data/plugin/pytorch_profiler";

export const api = {
  state: () => get<State>("api/state", {}),
  overview: (at: Selection) => get<Overview>("api/overview", { ...at }),
  insights: (at: Selection) => get<Insights>("api/insights", { ...at }),
  operators: (at: Selection, query: Record<string, string | number>) => get<Page>("api/operators", { ...at, ...query }),
  kernels: (at: Selection, query: Record<string, string | number>) => get<Page>("api/kernels", { ...at, ...query }),
  memory: (at: Selection, query: Record<string, string | number>) =>
    get<Page & { devices: string[] }>("api/memory", { ...at, ...query }),
  timeline: (at: Selection, query: Record<string, number>) => get<TimelineWindow>("api/timeline", { ...at, ...query }),
  ranks: (at: Selection) => get<Ranks>("api/ranks", { ...at }),
  memoryCurve: (at: Selection) => get<MemoryCurve>(`${plugin}/memory_curve`, { ...at, time_metric: "ms", memory_metric: "B" }),
  stacks: (at: Selection, op: string, byShape: boolean, shape: string) =>
    get<StackTable>(`${plugin}/operation/stack`, {
      ...at,
      op_name: op,
      group_by: byShape ? "OperationAndInputShape" : "Operation",
      input_shape: shape,
    }),
};
