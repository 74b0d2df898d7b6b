// The same figures of every worker of a span, side by side.
import { api, type Selection } from "../api";
import { card, h } from "../dom";
import { count, digits, duration } from "../format";

export async function ranksView(at: Selection): Promise<HTMLElement> {
  const { workers, collectives, ranks } = await api.ranks(at);
  const names = Object.keys(workers[0]?.facts ?? {}).filter((name) => workers.some((worker) => (worker.facts[name] ?? 0) !== 0));
  const rows = names.map((name) => {
    const values = workers.map((worker) => worker.facts[name] ?? 0);
    const least = Math.min(...values);
    const most = Math.max(...values);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      ...values.map((value) => h("td", { class: `number${workers.length > 1 && value === most && most > least * 1.05 ? " high" : ""}` }, Number.isInteger(value) ? String(value) : digits(value))),
      h("td", { class: "number muted" }, most > 0 && workers.length > 1 ? `${(100 * (1 - least / most)).toFixed(1)} %` : ""),
    );
  });
  const figures = card(
    "Workers side by side",
    h(
      "div",
      { class: "scroll" },
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Figure"), ...workers.map((worker) => h("th", { scope: "col", class: "number" }, worker.worker)), h("th", { scope: "col", class: "number" }, "spread"))), h("tbody", {}, ...rows)),
    ),
  );
  if (collectives === 0) return figures;
  const matched = card(
    `${count(collectives)} collectives seen on several workers`,
    h("p", { class: "muted" }, "Matched by process group and sequence number. The last to arrive waits least; what the others took longer is their waiting."),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { "aria-label": "collectives" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Worker"), ...["Matched", "Here alone", "Came last", "Waiting", "Transfer"].map((title) => h("th", { scope: "col", class: "number" }, title)))),
        h(
          "tbody",
          {},
          ...ranks.map((rank) =>
            h("tr", {}, h("th", { scope: "row" }, rank.worker), ...[count(rank.matched), count(rank.unmatched), count(rank.came_last), duration(rank.wait), duration(rank.transfer)].map((text) => h("td", { class: "number" }, text))),
          ),
        ),
      ),
    ),
  );
  return h("div", {}, matched, figures);
}
