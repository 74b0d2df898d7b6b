// The few charts the page draws, in one place: ECharts with only the parts they need.
import { BarChart, LineChart, PieChart } from "echarts/charts";
import { DataZoomComponent, GridComponent, LegendComponent, TooltipComponent } from "echarts/components";
import { init, use, type EChartsType } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { h } from "./dom";
import { duration, inTheMiddle } from "./format";

use([BarChart, LineChart, PieChart, GridComponent, LegendComponent, TooltipComponent, DataZoomComponent, CanvasRenderer]);

// Colour-blind safe, readable on both grounds.
export const palette = ["#2f6fed", "#e8833a", "#1f9e89", "#c23b6d", "#8a63d2", "#c9a227", "#5aa9e6", "#7a8793", "#4c9f38", "#b5563c"];

const live = new Set<{ chart: EChartsType; element: HTMLElement; option: (width: number) => object }>();
const narrow = 430; // pixels: below this a legend stands under its chart

/** Charts whose elements have left the page are let go; the rest follow the window's size. */
export function tidyCharts(resize = false): void {
  for (const entry of live) {
    if (!entry.element.isConnected) {
      entry.chart.dispose();
      live.delete(entry);
    } else if (resize) {
      entry.chart.resize();
      entry.chart.setOption({ ...entry.option(entry.element.clientWidth) });
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
function chart(label: string, height: number, option: (width: number) => object): HTMLElement {
  const element = h("div", { class: "chart", role: "img", "aria-label": label, style: `height:${height}px` });
  requestAnimationFrame(() => {
    if (!element.isConnected) return;
    tidyCharts();
    const drawn = init(element);
    drawn.setOption({ color: palette, animation: false, textStyle: { fontFamily: "system-ui, sans-serif" }, ...option(element.clientWidth) });
    live.add({ chart: drawn, element, option });
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
  const legendWidth = (width: number) => (width < narrow ? 150 : Math.min(700, width - 290));
  return chart(label, 260, (width) => ({
    tooltip: {
      formatter: (at: { name: string; value: number; percent: number }) =>
        `<div class="tip">${escaped(at.name)}</div><b>${format(at.value)}</b> · ${at.percent} %`,
      confine: true,
    },
    legend: {
      show: legend,
      type: width < narrow ? "scroll" : "plain",
      orient: width < narrow ? "horizontal" : "vertical",
      ...(width < narrow ? { left: 0, right: 0, bottom: 0, top: "auto" } : { left: 260, right: "auto", top: "middle", bottom: "auto" }),
      icon: "circle",
      itemWidth: 9,
      formatter: (name: string) => inTheMiddle(name, Math.floor(legendWidth(width) / 7)),
      textStyle: { color: text().color, width: legendWidth(width), overflow: "truncate", fontSize: 12 },
      tooltip: { show: true },
    },
    series: [
      {
        type: "pie",
        radius: legend ? (width < narrow ? [46, 78] : [60, 100]) : ["46%", "78%"],
        center: legend ? [width < narrow ? "50%" : 120, width < narrow ? 100 : "50%"] : ["50%", "50%"],
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

/** The distance of about five lines up to `most` that are whole in units of 1024. */
function binaryInterval(most: number): number {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, most)) / Math.log(1024)));
  const raw = most / unit / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((one) => one * power >= raw) ?? 10;
  return Math.max(1, step * power * unit);
}

/** Step curves of bytes over time, with a zoom. */
export function curves(label: string, series: Series[], xName: string, yFormat: (value: number) => string): HTMLElement {
  return chart(label, 300, () => ({
    tooltip: { trigger: "axis", valueFormatter: (value: number) => yFormat(value), confine: true },
    legend: { top: 0, textStyle: { color: text().color } },
    grid: { left: 78, right: 16, top: 40, bottom: 60 },
    dataZoom: [{ type: "slider", height: 16, bottom: 8 }, { type: "inside" }],
    xAxis: { type: "value", name: xName, nameLocation: "middle", nameGap: 24, axisLabel: { color: text().muted, formatter: (value: number) => String(Math.round(value * 10) / 10) }, min: "dataMin", max: "dataMax" },
    yAxis: {
      type: "value",
      interval: binaryInterval(series.reduce((most, one) => one.points.reduce((high, point) => Math.max(high, point[1]), most), 0)),
      axisLabel: { color: text().muted, formatter: (value: number) => yFormat(value) },
      splitLine: { lineStyle: { color: text().line } },
    },
    series: series.map((one) => ({
      name: one.name,
      type: "line",
      step: "end",
      showSymbol: false,
      areaStyle: { opacity: 0.12 },
      data: one.points,
    })),
  }));
}
