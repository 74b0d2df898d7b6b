// Where the steps' time went, what the devices did, what to do about it.
import { api, type Device, type Insights, type Overview, type Selection } from "../api";
import { palette, pie, stackedSteps } from "../charts";
import { card, h } from "../dom";
import { bytes, count, duration, inTheMiddle, percent } from "../format";

function tile(label: string, value: string, note = ""): HTMLElement {
  return h("div", { class: "tile" }, h("span", { class: "label" }, label), h("strong", {}, value), note ? h("small", {}, note) : null);
}

function bar(parts: { name: string; value: number; color: string }[]): HTMLElement {
  const whole = parts.reduce((sum, part) => sum + part.value, 0);
  return h(
    "div",
    { class: "divided", role: "img", "aria-label": parts.map((part) => `${part.name} ${percent(part.value, whole)}`).join(", ") },
    ...parts
      .filter((part) => part.value > 0)
      .map((part) =>
        h("span", {
          style: `flex-grow:${part.value};background:${part.color}`,
          title: `${part.name}: ${duration(part.value)} (${percent(part.value, whole)})`,
        }),
      ),
  );
}

function gauge(label: string, share: number | undefined, hint: string): HTMLElement | null {
  if (share === undefined) return null;
  const value = Math.round(share * 1000) / 10;
  return h(
    "div",
    { class: "gauge", title: hint },
    h("span", {}, label),
    h("meter", { min: 0, max: 100, value, "aria-label": label }),
    h("b", {}, `${value} %`),
  );
}

function deviceCard(device: Device): HTMLElement {
  const idle = device.idle;
  return card(
    `Device ${device.id}${device.name ? ` · ${device.name}` : ""}`,
    device.memory_bytes || device.compute
      ? h("p", { class: "muted" }, [device.memory_bytes ? bytes(device.memory_bytes) : "", device.compute ? `compute ${device.compute}` : ""].filter(Boolean).join(" · "))
      : null,
    gauge("Utilization", device.utilization, "Share of the steps during which at least one kernel ran"),
    gauge("Est. SM efficiency", device.sm_efficiency, "Share of the multiprocessors that had blocks to run, over the steps"),
    gauge("Est. occupancy", device.occupancy, "Active warps against the most a multiprocessor holds, weighted by kernel time"),
    gauge("Kernel time with Tensor Cores", device.tensor_cores, "Of the time of all kernels but collectives, by their names"),
    (device.tensor_cores_unknown ?? 0) >= 0.001 ? h("p", { class: "muted" }, `${percent(device.tensor_cores_unknown ?? 0, 1)} of kernel time is unknown: names that do not tell`) : null,
    idle
      ? h(
          "div",
          { class: "idle" },
          bar([
            { name: "busy", value: idle.busy, color: palette[0] ?? "" },
            { name: "waiting for the host", value: idle.host_wait, color: palette[1] ?? "" },
            { name: "between queued kernels", value: idle.kernel_wait, color: palette[5] ?? "" },
            { name: "other idle time", value: idle.other, color: palette[7] ?? "" },
          ]),
          h("p", { class: "muted" }, `waits for the host ${duration(idle.host_wait)}, between queued kernels ${duration(idle.kernel_wait)}`),
        )
      : null,
  );
}

function stepCard(overview: Overview): HTMLElement {
  const shown = overview.parts.map((name, k) => ({ name, k })).filter(({ k }) => (overview.average[k] ?? 0) > 0);
  const rows = shown.map(({ name, k }, at) =>
    h(
      "tr",
      {},
      h("td", {}, h("i", { class: "dot", style: `background:${palette[at % palette.length]}` }), name),
      h("td", { class: "number" }, duration(overview.average[k] ?? 0)),
      h("td", { class: "number" }, percent(overview.average[k] ?? 0, overview.average_step)),
    ),
  );
  return card(
    "Where a step goes",
    h(
      "div",
      { class: "beside" },
      pie(
        "average step by part",
        shown.map(({ name, k }, at) => ({ name, value: overview.average[k] ?? 0, itemStyle: { color: palette[at % palette.length] ?? "" } })),
        duration,
        false, // the table beside it is the legend
      ),
      h("table", { class: "plain" }, h("tbody", {}, ...rows, h("tr", { class: "sum" }, h("td", {}, "Average step"), h("td", { class: "number" }, duration(overview.average_step)), h("td")))),
    ),
  );
}

function insightCards(insights: Insights, hasDevices: boolean): HTMLElement[] {
  const cards: HTMLElement[] = [];
  const launches = insights.launches;
  if (hasDevices && (launches.launches ?? 0) > 0)
    cards.push(
      card(
        "Launches",
        h(
          "div",
          { class: "tiles" },
          tile("calls", count(launches.launches ?? 0)),
          tile("median delay", duration(launches.delay_median ?? 0), "call to start of its work"),
          tile("95 % delay", duration(launches.delay_p95 ?? 0)),
          tile("kernels under 10 µs", percent(launches.short_kernels ?? 0, launches.kernels ?? 0)),
          tile("shorter than their call", percent(launches.launch_bound ?? 0, launches.single_kernels ?? 0), "of those launched one by one"),
          (launches.graph_launches ?? 0) > 0 ? tile("graph launches", count(launches.graph_launches ?? 0), `${count(launches.graph_kernels ?? 0)} kernels`) : null,
        ),
      ),
    );
  const causes = insights.causes.filter((cause) => cause.idle > 0).slice(0, 8);
  if (causes.length > 0)
    cards.push(
      card(
        "The device waited before",
        h(
          "table",
          { class: "plain" },
          h("tbody", {}, ...causes.map((cause) => h("tr", {}, h("td", { class: "name" }, cause.op), h("td", { class: "number" }, duration(cause.idle)), h("td", { class: "number muted" }, `${count(cause.gaps)}×`)))),
        ),
      ),
    );
  if (insights.critical.length > 0)
    cards.push(
      card(
        "What the steps hung on",
        h("p", { class: "muted" }, "The critical path: back from the end of the steps, from each piece of work to what it waited for. Candidates: a trace does not show every dependency."),
        h(
          "table",
          { class: "plain" },
          h(
            "tbody",
            {},
            ...insights.critical.slice(0, 8).map((part) =>
              h("tr", {}, h("td", { class: "name", title: part.name }, inTheMiddle(part.name, 60)), h("td", { class: "muted" }, part.kind), h("td", { class: "number" }, duration(part.total)), h("td", { class: "number muted" }, percent(part.total, insights.critical_span))),
            ),
          ),
        ),
      ),
    );
  if (insights.collectives.length > 0)
    cards.push(
      card(
        "Collectives",
        h(
          "div",
          { class: "scroll" },
          h(
            "table",
            {},
            h("thead", {}, h("tr", {}, ...["Name", "Group", "Calls", "Time", "Exposed", "Bytes"].map((title, k) => h("th", { scope: "col", class: k > 1 ? "number" : "" }, title)))),
            h(
              "tbody",
              {},
              ...insights.collectives.slice(0, 20).map((use) =>
                h("tr", {}, h("td", { class: "name" }, use.name), h("td", {}, use.group), h("td", { class: "number" }, count(use.calls)), h("td", { class: "number" }, duration(use.total)), h("td", { class: "number" }, duration(use.exposed)), h("td", { class: "number" }, use.bytes > 0 ? bytes(use.bytes) : "–")),
              ),
            ),
          ),
        ),
      ),
    );
  return cards;
}

export async function overviewView(at: Selection): Promise<HTMLElement> {
  const [overview, insights] = await Promise.all([api.overview(at), api.insights(at)]);
  const shown = overview.parts.map((_, k) => k).filter((k) => overview.steps.some((step) => (step[k + 1] as number) > 0));
  return h(
    "div",
    { class: "grid" },
    overview.note ? h("p", { class: "notice wide" }, overview.note) : null,
    h(
      "div",
      { class: "tiles wide" },
      tile("average step", duration(overview.average_step)),
      tile("steps", count(overview.step_count), overview.steps_from === "ProfilerStep" || overview.steps_from === "" ? overview.steps_note : `of “${overview.steps_from}”`),
      tile("kernel time", duration(overview.facts["kernels.total_us"] ?? 0), `${count(overview.facts["kernels.calls"] ?? 0)} kernels`),
      tile("events", count(overview.facts["events"] ?? 0)),
    ),
    stepCard(overview),
    overview.findings.length > 0
      ? card("Findings", h("ul", { class: "findings" }, ...overview.findings.map((finding) => h("li", {}, finding.text))))
      : card("Findings", h("p", { class: "empty" }, "Nothing stands out.")),
    ...overview.devices.map(deviceCard),
    ...insightCards(insights, overview.devices.length > 0),
    overview.steps.length > 1
      ? h(
          "div",
          { class: "wide" },
          card(
            "Steps",
            stackedSteps(
              overview.steps.map((step) => step[0]),
              shown.map((k) => overview.parts[k] ?? ""),
              overview.steps.map((step) => shown.map((k) => step[k + 1] as number)),
            ),
          ),
        )
      : null,
  );
}
