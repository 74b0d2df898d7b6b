// The few charts the page draws, in one place: ECharts with only the parts they need.
import { BarChart, LineChart, PieChart } from "echarts/charts";
import { DataZoomComponent, GridComponent, LegendComponent, TooltipComponent } from "echarts/components";
import { init, use, type EChartsType } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { h } from "./dom";
import { duration } from "./format";

use([BarChart, LineChart, PieChart, GridComponent, LegendComponent, TooltipComponent, DataZoomComponent, CanvasRenderer]);

// Colour-blind safe, readable on both grounds.
export const palette = ["#2f6fed", "#e8833a", "#1f9e89", "#c23b6d", "#8a63d2", "#c9a227", "#5aa9e6", "#7a8793", "#4c9f38", "#b5563c"];

const live = new Set<{ chart: EChartsType; element: HTMLElement }>();

/** Charts whose elements have left the page are let go; the rest follow the window's size. */
export function tidyCharts(resize = false): void {
  for (const entry of live) {
    if (!entry.element.isConnected) {
      entry.chart.dispose();
      live.delete(entry);
    } else if (resize) {
      entry.chart.resize();
    }
  }
}
window.addEventListener("resize", () => tidyCharts(true));

function text(): { color: string; muted: string; line: string } {
  const style = getComputedStyle(document.documentElement);
  return {
    color: style.getPropertyValue("--text").trim(),
    muted: style.getPropertyValue("--muted").trim(),
    line: style.getPropertyValue("--line").trim(),
  };
}

/** An element with a chart in it, drawn when it is on the page and has a size. */
function chart(label: string, height: number, option: () => object): HTMLElement {
  const element = h("div", { class: "chart", role: "img", "aria-label": label, style: `height:${height}px` });
  requestAnimationFrame(() => {
    if (!element.isConnected) return;
    tidyCharts();
    const drawn = init(element);
    drawn.setOption({ color: palette, animation: false, textStyle: { fontFamily: "inherit" }, ...option() });
    live.add({ chart: drawn, element });
  });
  return element;
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c] ?? c);
}

export interface Slice {
  name: string;
  value: number;
  itemStyle?: { color: string };
}

const restColor = "#aeb6c0";

/** The largest slices by name, the rest as one. */
export function pie(label: string, slices: Slice[], format: (value: number) => string = duration, legend = true): HTMLElement {
  const most = 9;
  const sorted = slices.filter((slice) => slice.value > 0).sort((a, b) => b.value - a.value);
  const shown = sorted.slice(0, most);
  const rest = sorted.slice(most).reduce((sum, slice) => sum + slice.value, 0);
  if (rest > 0) shown.push({ name: "everything else", value: rest, itemStyle: { color: restColor } });
  if (shown.length === 0) return h("p", { class: "empty" }, "Nothing recorded.");
  return chart(label, 260, () => ({
    tooltip: {
      formatter: (at: { name: string; value: number; percent: number }) =>
        `<div class="tip">${escaped(at.name)}</div><b>${format(at.value)}</b> · ${at.percent} %`,
      confine: true,
    },
    legend: {
      show: legend,
      orient: "vertical",
      right: 0,
      top: "middle",
      width: "50%",
      icon: "circle",
      itemWidth: 9,
      textStyle: { color: text().color, width: 210, overflow: "truncate", fontSize: 12 },
      tooltip: { show: true },
    },
    series: [
      {
        type: "pie",
        radius: ["46%", "78%"],
        center: [legend ? "24%" : "50%", "50%"],
        label: { show: false },
        itemStyle: { borderColor: "transparent", borderWidth: 1 },
        data: shown,
      },
    ],
  }));
}

/** One bar per step, divided into its parts. */
export function stackedSteps(names: string[], parts: string[], values: number[][]): HTMLElement {
  return chart("time of each step by part", 280, () => ({
    tooltip: { trigger: "axis", valueFormatter: (value: number) => duration(value), confine: true },
    legend: { top: 0, textStyle: { color: text().color }, icon: "circle", itemWidth: 9 },
    grid: { left: 64, right: 12, top: 40, bottom: names.length > 40 ? 56 : 30 },
    dataZoom: names.length > 40 ? [{ type: "slider", height: 16, bottom: 6 }, { type: "inside" }] : [],
    xAxis: { type: "category", data: names, name: "step", axisLabel: { color: text().muted } },
    yAxis: {
      type: "value",
      axisLabel: { color: text().muted, formatter: (value: number) => duration(value) },
      splitLine: { lineStyle: { color: text().line } },
    },
    series: parts.map((part, k) => ({
      name: part,
      type: "bar",
      stack: "step",
      barMaxWidth: 46,
      data: values.map((row) => row[k] ?? 0),
    })),
  }));
}

export interface Series {
  name: string;
  points: [number, number][];
}

/** Step curves over time, with a zoom. */
export function curves(label: string, series: Series[], xName: string, yFormat: (value: number) => string): HTMLElement {
  return chart(label, 300, () => ({
    tooltip: { trigger: "axis", valueFormatter: (value: number) => yFormat(value), confine: true },
    legend: { top: 0, textStyle: { color: text().color } },
    grid: { left: 78, right: 16, top: 40, bottom: 60 },
    dataZoom: [{ type: "slider", height: 16, bottom: 8 }, { type: "inside" }],
    xAxis: { type: "value", name: xName, nameLocation: "middle", nameGap: 24, axisLabel: { color: text().muted, formatter: (value: number) => String(Math.round(value * 10) / 10) }, min: "dataMin", max: "dataMax" },
    yAxis: {
      type: "value",
      axisLabel: { color: text().muted, formatter: (value: number) => yFormat(value) },
      splitLine: { lineStyle: { color: text().line } },
    },
    series: series.map((one) => ({
      name: one.name,
      type: "line",
      showSymbol: false,
      sampling: "lttb",
      areaStyle: { opacity: 0.12 },
      data: one.points,
    })),
  }));
}
