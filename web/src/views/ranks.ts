// The same figures of every worker of a span, side by side.
import { api, type Selection } from "../api";
import { card, h } from "../dom";
import { bytes, count, digits, duration } from "../format";

/** A worker's figures; those of its only device under a name that other workers' only devices share. */
function comparable(facts: Record<string, number>): Record<string, number> {
  const device = /^((?:memory\.)?)(?:gpu|mlu|xpu|npu)\d+\./;
  const devices = new Set(Object.keys(facts).flatMap((name) => device.exec(name)?.[0].replace("memory.", "") ?? []));
  if (devices.size !== 1) return facts;
  return Object.fromEntries(Object.entries(facts).map(([name, value]) => [name.replace(device, "$1device."), value]));
}

/** The figure's name without its unit, and its value with it. */
function shown(name: string, value: number | undefined): string {
  if (value === undefined) return "–";
  if (name.endsWith("_us")) return duration(value);
  if (name.endsWith("_percent")) return `${digits(value)} %`;
  if (name.endsWith("_bytes")) return bytes(value);
  return Number.isInteger(value) ? count(value) : digits(value);
}
const label = (name: string) => name.replace(/_(us|percent|bytes)$/, (unit) => (unit === "_percent" ? " share" : "")).replaceAll("_", " ");

export async function ranksView(at: Selection): Promise<HTMLElement> {
  const { workers, collectives, ranks } = await api.ranks(at);
  const facts = workers.map((worker) => comparable(worker.facts));
  const names = [...new Set(facts.flatMap((one) => Object.keys(one)))].filter((name) => facts.some((one) => (one[name] ?? 0) !== 0));
  const rows = names.map((name) => {
    const values = facts.map((one) => one[name]);
    const known = values.filter((value) => value !== undefined);
    const least = Math.min(...known);
    const most = Math.max(...known);
    return h(
      "tr",
      {},
      h("th", { scope: "row", title: name }, label(name)),
      ...values.map((value) => h("td", { class: `number${known.length > 1 && value === most && most > least * 1.05 ? " high" : ""}` }, shown(name, value))),
      h("td", { class: "number muted" }, most > 0 && known.length > 1 ? `${(100 * (1 - least / most)).toFixed(1)} %` : ""),
    );
  });
  const figures = card(
    "Workers side by side",
    h(
      "div",
      { class: "scroll" },
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Figure"), ...workers.map((worker) => h("th", { scope: "col", class: "number" }, worker.worker)), ...(workers.length > 1 ? [h("th", { scope: "col", class: "number", title: "How far the least is below the most" }, "Spread")] : [h("th")]))), h("tbody", {}, ...rows)),
    ),
  );
  if (collectives === 0) return figures;
  const matched = card(
    `${count(collectives)} collectives seen on several workers`,
    h("p", { class: "muted" }, "Matched by process group and sequence number, else by operation and position. The last to arrive waits least; what the others took longer is their waiting."),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { "aria-label": "collectives" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Worker"), ...["Matched", "Here alone", "Came last", "Waiting", "Of the steps", "Transfer"].map((title) => h("th", { scope: "col", class: "number" }, title)), ...["Waits mostly for", "Busier than the others with"].map((title) => h("th", { scope: "col" }, title)))),
        h(
          "tbody",
          {},
          ...ranks.map((rank) =>
            h("tr", {}, h("th", { scope: "row" }, rank.worker), ...[count(rank.matched), count(rank.unmatched), count(rank.came_last), duration(rank.wait), `${digits(rank.wait_percent)} %`, duration(rank.transfer)].map((text) => h("td", { class: "number" }, text)), h("td", {}, rank.waits_for), h("td", {}, rank.busy_excess > 0 ? `${rank.busy_with} (${digits(rank.busy_percent)} % of its steps)` : "")),
          ),
        ),
      ),
    ),
  );
  return h("div", {}, matched, figures);
}
