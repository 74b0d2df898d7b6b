// A table whose pages, order and search live on the server.
import type { Page, Row } from "./api";
import { debounced, h } from "./dom";
import { count } from "./format";

export interface TableColumn {
  key: string;
  title: string;
  numeric?: boolean;
  hint?: string;
  show?: (row: Row) => Node | string;
}

export interface TableOptions {
  label: string;
  columns: TableColumn[];
  sort: string;
  load: (query: Record<string, string | number>) => Promise<Page>;
  /** What opens below a row when it is clicked. */
  detail?: (row: Row) => Promise<Node> | undefined;
}

const pageSize = 50;

export function pagedTable(options: TableOptions): HTMLElement {
  let sort = options.sort;
  let order = "desc";
  let search = "";
  let offset = 0;
  let request = 0;

  const body = h("tbody");
  const status = h("span", { class: "status", role: "status" });
  const back = h("button", { type: "button", onclick: () => move(-pageSize) }, "‹ Back");
  const next = h("button", { type: "button", onclick: () => move(pageSize) }, "More ›");
  const box = h("input", { type: "search", placeholder: "Search", "aria-label": `Search ${options.label}` });
  box.addEventListener(
    "input",
    debounced(() => {
      search = box.value;
      offset = 0;
      void refresh();
    }, 150),
  );

  const heads = options.columns.map((column) => {
    if (!column.numeric) return h("th", { scope: "col", title: column.hint }, column.title);
    const button = h("button", { type: "button", class: "sort", title: column.hint }, column.title);
    const head = h("th", { scope: "col", class: "number" }, button);
    button.addEventListener("click", () => {
      order = sort === column.key && order === "desc" ? "asc" : "desc";
      sort = column.key;
      offset = 0;
      void refresh();
    });
    return head;
  });

  function move(by: number): void {
    offset = Math.max(0, offset + by);
    void refresh();
  }

  function addRow(row: Row): void {
    const cells = options.columns.map((column) =>
      h("td", { class: column.numeric ? "number" : "" }, column.show ? column.show(row) : String(row[column.key] ?? "")),
    );
    const line = h("tr", {}, ...cells);
    body.append(line);
    if (!options.detail) return;
    let open: HTMLElement | undefined;
    line.classList.add("opens");
    line.tabIndex = 0;
    const toggle = async (): Promise<void> => {
      if (open) {
        open.remove();
        open = undefined;
        return;
      }
      const content = options.detail?.(row);
      if (!content) return;
      const cell = h("td", { colspan: options.columns.length }, "…");
      open = h("tr", { class: "detail" }, cell);
      line.after(open);
      try {
        cell.replaceChildren(await content);
      } catch (error) {
        cell.replaceChildren(String(error));
      }
    };
    line.addEventListener("click", () => void toggle());
    line.addEventListener("keydown", (event) => {
      if (event.key === "Enter") void toggle();
    });
  }

  async function refresh(): Promise<void> {
    const mine = ++request;
    try {
      const page = await options.load({ sort, order, search, offset, limit: pageSize });
      if (mine !== request) return; // a newer one is on its way
      body.replaceChildren();
      page.rows.forEach(addRow);
      status.textContent =
        page.total === 0
          ? search === "" ? "Nothing recorded." : "Nothing matches."
          : `${count(offset + 1)}–${count(Math.min(offset + pageSize, page.total))} of ${count(page.total)}`;
      back.disabled = offset === 0;
      next.disabled = offset + pageSize >= page.total;
    } catch (error) {
      status.textContent = String(error);
    }
    options.columns.forEach((column, k) => {
      if (column.numeric)
        heads[k]?.setAttribute("aria-sort", column.key !== sort ? "none" : order === "desc" ? "descending" : "ascending");
    });
  }

  void refresh();
  return h(
    "div",
    { class: "paged" },
    h("div", { class: "bar" }, box, status, back, next),
    h("div", { class: "scroll" }, h("table", { "aria-label": options.label }, h("thead", {}, h("tr", {}, ...heads)), body)),
  );
}

/** A choice between a few ways to see something. */
export function choice(label: string, names: Record<string, string>, chosen: string, change: (name: string) => void): HTMLElement {
  const select = h(
    "select",
    { "aria-label": label },
    ...Object.entries(names).map(([value, title]) => h("option", { value, selected: value === chosen }, title)),
  );
  select.addEventListener("change", () => change(select.value));
  return h("label", { class: "choice" }, label, select);
}
