// The timeline: the server sends what fits the screen; dragging moves, the wheel and W/S zoom, A/D move.
import { api, type Selection, type TimelineWindow } from "../api";
import { debounced, h } from "../dom";
import { count, duration } from "../format";

const rowHeight = 18;
const labelWidth = 190;
const lanesShown = 400;
const hint = "Drag to move, Shift and wheel or W and S to zoom, A and D to move, double-click for everything.";
const kindColors = ["#2f6fed", "#8a63d2", "#b39ddb", "#5aa9e6", "#9aa5b1", "#1f9e89", "#c9a227", "#d8b74a", "#e8833a", "#c23b6d", "#d97aa0", "#7a8793", "#a9b4bf"];

export async function timelineView(at: Selection): Promise<HTMLElement> {
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "timeline of all threads and streams" });
  const info = h("p", { class: "muted timeline-info", role: "status" }, hint);
  const holder = h("div", { class: "timeline" }, canvas);
  let window_: TimelineWindow | undefined;
  let start = 0;
  let end = 0;
  let request = 0;
  let hover: string | undefined;

  const width = () => Math.max(100, holder.clientWidth - labelWidth);

  async function load(): Promise<void> {
    const mine = ++request;
    const query: Record<string, number> = { pixels: Math.round(width()), lanes: lanesShown };
    if (end > 0) Object.assign(query, { start: Math.round(start), end: Math.round(end) });
    const loaded = await api.timeline(at, query);
    if (mine !== request) return;
    window_ = loaded;
    if (end === 0) end = loaded.length;
    draw();
  }
  const loadSoon = debounced(() => void load(), 60);

  function draw(): void {
    if (!window_) return;
    const ratio = devicePixelRatio || 1;
    const height = Math.max(120, window_.rows.length * rowHeight + 24);
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(holder.clientWidth * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    if (!pen) return;
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const muted = style.getPropertyValue("--muted").trim();
    pen.clearRect(0, 0, holder.clientWidth, height);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const scale = width() / (end - start);
    drawRuler(pen, scale, muted, style.getPropertyValue("--line").trim(), height);
    window_.rows.forEach((row, k) => {
      const top = 24 + k * rowHeight;
      pen.fillStyle = muted;
      if (row.depth === 0) pen.fillText(row.track, 6, top + rowHeight / 2, labelWidth - 12);
      for (const [from, length, name, kind, merged] of row.blocks) {
        const left = labelWidth + (from - start) * scale;
        const x = Math.max(labelWidth, left);
        const w = Math.max(1, left + length * scale - x);
        if (x > holder.clientWidth) continue;
        pen.globalAlpha = merged > 1 ? 0.55 : 1;
        pen.fillStyle = kindColors[kind] ?? muted;
        pen.fillRect(x, top + 1, w, rowHeight - 2);
        pen.globalAlpha = 1;
        if (w > 40 && merged === 1) {
          pen.save();
          pen.beginPath();
          pen.rect(x, top, w - 3, rowHeight);
          pen.clip();
          pen.fillStyle = "#fff";
          pen.fillText(window_?.names[name] ?? "", x + 4, top + rowHeight / 2);
          pen.restore();
        }
      }
    });
  }

  function drawRuler(pen: CanvasRenderingContext2D, scale: number, muted: string, line: string, height: number): void {
    const raw = (end - start) / 8;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * (raw / power >= 5 ? 5 : raw / power >= 2 ? 2 : 1);
    for (let time = Math.ceil(start / step) * step; time < end; time += step) {
      const x = labelWidth + (time - start) * scale;
      pen.fillStyle = line;
      pen.fillRect(x, 0, 1, height);
      pen.fillStyle = muted;
      pen.fillText(duration(time / 1000), x + 3, 10);
    }
  }

  function zoom(factor: number, around: number): void {
    if (!window_) return;
    const length = Math.min(window_.length, Math.max(100, (end - start) * factor));
    const share = (around - start) / (end - start);
    start = Math.min(Math.max(0, around - share * length), window_.length - length);
    end = start + length;
    draw();
    loadSoon();
  }
  function shift(by: number): void {
    if (!window_) return;
    const length = end - start;
    start = Math.min(Math.max(0, start + by), window_.length - length);
    end = start + length;
    draw();
    loadSoon();
  }
  const timeAt = (x: number) => start + ((x - labelWidth) / width()) * (end - start);

  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && Math.abs(event.deltaX) > Math.abs(event.deltaY)) shift((event.deltaX / width()) * (end - start));
      else if (event.ctrlKey || event.altKey || event.shiftKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.offsetX));
      else return;
      event.preventDefault();
    },
    { passive: false },
  );
  canvas.addEventListener("dblclick", () => {
    start = 0;
    end = window_?.length ?? 0;
    void load();
  });
  canvas.addEventListener("keydown", (event) => {
    const middle = (start + end) / 2;
    const key = event.key.toLowerCase();
    if (key === "w" || key === "+") zoom(0.7, middle);
    else if (key === "s" || key === "-") zoom(1.4, middle);
    else if (key === "a" || key === "arrowleft") shift(-(end - start) / 5);
    else if (key === "d" || key === "arrowright") shift((end - start) / 5);
    else return;
    event.preventDefault();
  });
  let dragged: number | undefined;
  canvas.addEventListener("pointerdown", (event) => {
    dragged = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => (dragged = undefined));
  canvas.addEventListener("pointermove", (event) => {
    if (dragged !== undefined) {
      shift(((dragged - event.offsetX) / width()) * (end - start));
      dragged = event.offsetX;
      return;
    }
    const row = window_?.rows[Math.floor((event.offsetY - 24) / rowHeight)];
    const time = timeAt(event.offsetX);
    const slack = (end - start) / width();
    const block = row?.blocks.find(([from, length]) => time >= from - slack && time <= from + length + slack);
    const text = block && window_ ? (block[4] > 1 ? `${count(block[4])} events, ${duration(block[1] / 1000)}` : `${window_.names[block[2]]} · ${duration(block[1] / 1000)} at ${duration(block[0] / 1000)}`) : undefined;
    if (text === hover) return;
    hover = text;
    info.textContent = text ?? hint;
  });
  new ResizeObserver(() => loadSoon()).observe(holder);
  requestAnimationFrame(() => void load());
  const button = (title: string, act: () => void) => h("button", { type: "button", onclick: act }, title);
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Timeline"),
    h("div", { class: "bar" }, button("Zoom in", () => zoom(0.5, (start + end) / 2)), button("Zoom out", () => zoom(2, (start + end) / 2)), button("Everything", () => zoom(1e9, 0)), info),
    holder,
  );
}
