// Chooses run, worker, span and view; all of it stands in the address, so a link shows the same.
import { api, type Selection, type State } from "./api";
import { tidyCharts } from "./charts";
import { h } from "./dom";
import { bytes } from "./format";
import "./style.css";
import { kernelsView } from "./views/kernels";
import { memoryView } from "./views/memory";
import { operatorsView } from "./views/operators";
import { overviewView } from "./views/overview";
import { ranksView } from "./views/ranks";
import { timelineView } from "./views/timeline";

interface View {
  title: string;
  needs?: string; // a view of the plugin that the profile must have
  make: (at: Selection) => Promise<HTMLElement>;
}

const views: Record<string, View> = {
  overview: { title: "Overview", make: overviewView },
  operators: { title: "Operators", make: operatorsView },
  kernels: { title: "Kernels", needs: "Kernel", make: kernelsView },
  timeline: { title: "Timeline", make: timelineView },
  memory: { title: "Memory", needs: "Memory", make: memoryView },
  ranks: { title: "Workers", make: ranksView },
};

let state: State | undefined;
let shown = "";

const pickers = h("div", { class: "pickers" });
const tabs = h("nav", { "aria-label": "Views" });
const main = h("main", { id: "main" });
const progress = h("div", { class: "progress", role: "status" });
const problems = h("div", {});
let told = "";

/** Files that could not be read, or not to their end, with the reason of each. */
function drawProblems(): void {
  const messages = state?.messages ?? [];
  const key = JSON.stringify(messages);
  if (key === told) return;
  told = key;
  const title = `${messages.length === 1 ? "One file was" : `${messages.length} files were`} not read whole`;
  problems.replaceChildren(
    ...(messages.length === 0 ? [] : [h("details", { class: "notice", open: state?.runs.length === 0 || messages.length < 4 }, h("summary", {}, title), h("ul", {}, ...messages.map((message) => h("li", {}, message))))]),
  );
}

function readAddress(): { at: Partial<Selection>; view: string } {
  const parameters = new URLSearchParams(location.hash.slice(1));
  return {
    at: { run: parameters.get("run") ?? undefined, worker: parameters.get("worker") ?? undefined, span: parameters.get("span") ?? undefined },
    view: parameters.get("view") ?? "overview",
  };
}

function go(at: Partial<Selection>, view: string): void {
  const parameters = new URLSearchParams({ view });
  for (const [name, value] of Object.entries(at)) if (value !== undefined) parameters.set(name, value);
  location.hash = parameters.toString();
}

function picker(label: string, values: string[], chosen: string, change: (value: string) => void): HTMLElement {
  const select = h("select", { "aria-label": label }, ...values.map((value) => h("option", { value, selected: value === chosen }, value)));
  select.addEventListener("change", () => change(select.value));
  return h("label", {}, h("span", {}, label), select);
}

const unique = (values: string[]) => [...new Set(values)];

/** The wanted profile, or the nearest that exists. */
function resolve(wanted: Partial<Selection>): { at: Selection; views: string[] } | undefined {
  const run = state?.runs.find((one) => one.name === wanted.run) ?? state?.runs[0];
  if (!run) return undefined;
  const profile =
    run.profiles.find((one) => one.worker === wanted.worker && one.span === wanted.span) ??
    run.profiles.find((one) => one.worker === wanted.worker) ??
    run.profiles[0];
  return profile && { at: { run: run.name, worker: profile.worker, span: profile.span }, views: profile.views };
}

function drawHeader(at: Selection, available: string[], view: string): void {
  const run = state?.runs.find((one) => one.name === at.run);
  const profiles = run?.profiles ?? [];
  pickers.replaceChildren(
    picker("Run", state?.runs.map((one) => one.name) ?? [], at.run, (value) => go({ run: value }, view)),
    picker("Worker", unique(profiles.map((one) => one.worker)), at.worker, (value) => go({ ...at, worker: value }, view)),
    picker("Span", unique(profiles.filter((one) => one.worker === at.worker).map((one) => one.span)), at.span, (value) => go({ ...at, span: value }, view)),
  );
  tabs.replaceChildren(
    ...Object.entries(views)
      .filter(([, one]) => !one.needs || available.includes(one.needs))
      .map(([name, one]) =>
        h("a", { href: `#${new URLSearchParams({ view: name, ...at })}`, "aria-current": name === view ? "page" : undefined }, one.title),
      ),
  );
}

async function draw(): Promise<void> {
  const { at: wanted, view } = readAddress();
  const found = resolve(wanted);
  if (!found) {
    main.replaceChildren(
      h("p", { class: "empty" }, state?.loading ? "Reading traces…" : (state?.failed ?? 0) > 0 ? "None of the files here could be read: see the reasons above." : "No traces here. Camshaft looks for files named *.pt.trace.json, also packed as .gz, .zst or .zip."),
    );
    return;
  }
  const name = view in views ? view : "overview";
  drawHeader(found.at, found.views, name);
  const key = JSON.stringify([found.at, name]);
  if (key === shown) return;
  shown = key;
  document.title = `${views[name]?.title} · ${found.at.run} · Camshaft`;
  const needs = views[name]?.needs;
  if (needs && !found.views.includes(needs)) {
    main.replaceChildren(h("p", { class: "empty" }, `This trace has nothing for the view “${views[name]?.title}”.`));
    return;
  }
  main.setAttribute("aria-busy", "true");
  try {
    const content = await views[name]?.make(found.at);
    if (shown === key && content) main.replaceChildren(content);
  } catch (error) {
    if (shown === key) main.replaceChildren(h("p", { class: "notice" }, `This could not be loaded: ${String(error)}`));
  }
  main.removeAttribute("aria-busy");
  tidyCharts();
}

async function poll(): Promise<void> {
  try {
    state = await api.state();
    const share = state.bytes > 0 ? (100 * state.bytes_done) / state.bytes : 0;
    progress.hidden = !state.loading;
    progress.textContent = state.loading ? `Reading ${state.files - state.done} of ${state.files} files: ${share.toFixed(0)} % of ${bytes(state.bytes)}` : "";
    drawProblems();
    await draw();
  } catch {
    progress.hidden = false;
    progress.textContent = "The server does not answer.";
  }
  window.setTimeout(() => void poll(), state?.loading ? 500 : 5000);
}

document.getElementById("app")?.append(
  h("header", {}, h("a", { class: "brand", href: "#" }, "Camshaft", h("small", {}, "profiler")), pickers, progress),
  tabs,
  problems,
  main,
);
window.addEventListener("hashchange", () => void draw());
void poll();
