// The page in a real browser over a running `camshaft view`. Needs Node, web/node_modules and a Chromium; says why it is
// skipped where one is missing. CAMSHAFT_BIN: the program; CAMSHAFT_SCREENSHOTS: a folder for pictures of every view.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { sampleTrace } from "./sample_trace.mjs";

const root = new URL("../../", import.meta.url).pathname;
const program = process.env.CAMSHAFT_BIN ?? join(root, "build/release/bin/camshaft");
const chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

function loadPuppeteer() {
  try {
    return createRequire(join(root, "web/package.json"))("puppeteer-core");
  } catch {
    return undefined;
  }
}

const puppeteer = loadPuppeteer();
const reason = !existsSync(program) ? `${program} is not built` : !chromium ? "no Chromium here" : !puppeteer ? "web/node_modules is not installed (npm ci in web/)" : false;
if (reason) console.log(`page tests skipped: ${reason}`);

let server, browser, page, address, folder;
const problems = [];

async function show(hash) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await page.waitForFunction(() => !document.querySelector("main[aria-busy]") && document.querySelector("main")?.children.length > 0);
  await new Promise((done) => setTimeout(done, 400));
}

async function picture(name) {
  const target = process.env.CAMSHAFT_SCREENSHOTS;
  if (!target) return;
  mkdirSync(target, { recursive: true });
  await page.screenshot({ path: join(target, `${name}.png`), fullPage: true });
}

const text = () => page.$eval("main", (element) => element.innerText);

before(async () => {
  if (reason) return;
  folder = process.env.CAMSHAFT_TRACES ?? mkdtempSync(join(tmpdir(), "camshaft_page_"));
  if (!process.env.CAMSHAFT_TRACES) {
    mkdirSync(join(folder, "run & <one>"));
    writeFileSync(join(folder, "run & <one>", "worker0.pt.trace.json"), JSON.stringify(sampleTrace()));
    writeFileSync(join(folder, "run & <one>", "worker1.pt.trace.json.gz"), gzipSync(JSON.stringify(sampleTrace(5))));
    writeFileSync(join(folder, "run & <one>", "broken.pt.trace.json"), "no trace at all");
    mkdirSync(join(folder, "without device"));
    const op = { ph: "X", cat: "cpu_op", name: "aten::add", pid: 1, tid: 1, ts: 1, dur: 2 };
    writeFileSync(join(folder, "without device", "worker0.pt.trace.json"), JSON.stringify({ traceEvents: [op] }));
  }
  server = spawn(program, ["view", folder, "--port", "0", "--no-browser"], { stdio: ["ignore", "pipe", "inherit"] });
  address = await new Promise((found, failed) => {
    server.stdout.on("data", (data) => {
      const match = /http:\S+/.exec(String(data));
      if (match) found(match[0]);
    });
    server.on("exit", () => failed(new Error("the server ended")));
  });
  browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
  page = await browser.newPage();
  await page.setViewport({ width: 1360, height: 900 });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  await page.goto(address);
  await page.waitForSelector("main .card", { timeout: 30000 });
});

after(async () => {
  await browser?.close();
  if (server) {
    const ended = new Promise((done) => server.once("exit", (code) => done(code)));
    server.kill("SIGTERM");
    assert.equal(await ended, 0, "the server ends cleanly on SIGTERM");
  }
  if (folder && !process.env.CAMSHAFT_TRACES) rmSync(folder, { recursive: true });
});

test("overview shows steps, devices and findings", { skip: reason }, async () => {
  await new Promise((done) => setTimeout(done, 500));
  const seen = await text();
  for (const words of ["Where a step goes", "Average step", "Utilization", "Findings", "Launches", "of those launched one by one", "What the steps hung on"]) assert.ok(seen.includes(words), words);
  if (!process.env.CAMSHAFT_TRACES) assert.ok(seen.includes("Test <GPU>"), "names are shown as text, not as markup");
  assert.ok((await page.$$("main canvas")).length > 0, "a chart is drawn");
  await picture("overview");
});

test("files that cannot be read are named with their reason", { skip: reason || (process.env.CAMSHAFT_TRACES ? "other traces" : false) }, async () => {
  const seen = await page.$eval("#app", (element) => element.innerText);
  assert.match(seen, /One file was not read whole/);
  assert.match(seen, /broken\.pt\.trace\.json: no trace/);
});

test("operators sort, search and open call stacks", { skip: reason }, async () => {
  const at = await page.evaluate(() => Object.fromEntries(new URLSearchParams(document.querySelector("nav a")?.getAttribute("href")?.slice(1) ?? "")));
  await show(new URLSearchParams({ ...at, view: "operators" }).toString());
  await page.waitForSelector("table[aria-label=operators] tbody tr");
  const rows = () => page.$$eval("table[aria-label=operators] tbody tr:not(.detail)", (list) => list.map((row) => row.innerText));
  const before_ = await rows();
  assert.ok(before_.length > 1);
  await picture("operators");
  await page.type("input[type=search]", process.env.CAMSHAFT_TRACES ? "aten::" : "LINEAR");
  await page.waitForFunction((n) => document.querySelectorAll("table[aria-label=operators] tbody tr").length !== n || n > 3, {}, before_.length);
  await new Promise((done) => setTimeout(done, 400));
  const found = await rows();
  assert.ok(found.length > 0 && found.every((row) => row.toLowerCase().includes("aten::")), found.join("|"));
  if (!process.env.CAMSHAFT_TRACES) {
    assert.equal(found.length, 1);
    await page.click("table[aria-label=operators] tbody tr");
    await page.waitForSelector(".stacks li");
    assert.ok((await text()).includes("model.py(12): forward"));
  }
});

test("kernels list with Tensor Core marks, by launch too", { skip: reason }, async () => {
  const at = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  await show(new URLSearchParams({ ...at, view: "kernels" }).toString());
  await page.waitForSelector("table[aria-label=kernels] tbody tr");
  await picture("kernels");
  await page.select("select[aria-label=Rows]", "launch");
  await page.waitForFunction(() => document.querySelector("table[aria-label=kernels] thead")?.textContent.includes("Grid"));
  await page.waitForSelector("table[aria-label=kernels] tbody tr");
  if (!process.env.CAMSHAFT_TRACES) assert.ok((await text()).includes("[8, 1, 1]"));
});

test("timeline draws and zooms", { skip: reason }, async () => {
  const at = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  await show(new URLSearchParams({ ...at, view: "timeline" }).toString());
  const painted = () => page.$eval(".timeline canvas", (canvas) => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let k = 3; k < data.length; k += 4) count += data[k] > 0 ? 1 : 0;
    return count;
  });
  await page.waitForFunction(() => document.querySelector(".timeline canvas")?.width > 300);
  await new Promise((done) => setTimeout(done, 500));
  const first = await painted();
  assert.ok(first > 2000, `${first} pixels`);
  await picture("timeline");
  await page.focus(".timeline canvas");
  await page.keyboard.press("w");
  await page.keyboard.press("w");
  await new Promise((done) => setTimeout(done, 500));
  assert.notEqual(await painted(), first);
  await picture("timeline_zoomed");
});

test("memory and workers", { skip: reason }, async () => {
  const at = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  if (await page.$('nav a[href*="view=memory"]')) {
    await show(new URLSearchParams({ ...at, view: "memory" }).toString());
    assert.ok(/GPU0 over time|without totals/.test(await text()));
    await picture("memory");
  }
  await show(new URLSearchParams({ ...at, view: "ranks" }).toString());
  const average = await page.$eval('th[title="step.average_us"]', (head) => head.parentElement.innerText);
  assert.match(average, /step\.average\s+[\d.]+ (ns|µs|ms|s)\b/);
  if (!process.env.CAMSHAFT_TRACES) assert.ok((await text()).includes("2 collectives seen on several workers"));
  await picture("workers");
});

test("small screens have no sideways scrolling", { skip: reason }, async () => {
  const at = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  await page.setViewport({ width: 390, height: 800 });
  await show(new URLSearchParams({ ...at, view: "overview" }).toString());
  const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(inner <= outer + 1, `${inner} > ${outer}`);
  await picture("small");
});

test("a view that the trace has nothing for says so", { skip: reason }, async () => {
  if (process.env.CAMSHAFT_TRACES) return;
  await show(new URLSearchParams({ run: "without device", worker: "worker0", span: "default", view: "memory" }).toString());
  assert.match(await text(), /nothing for the view “Memory”/);
});

test("nothing went wrong in the browser", { skip: reason }, () => assert.deepEqual(problems, []));

test("only this machine's own names are answered, and only the page's own files", { skip: reason }, async () => {
  const { request } = await import("node:http");
  const status = (path, headers) => new Promise((done) => request(new URL(address).origin, { path, headers }, (answer) => { answer.resume(); done(answer.statusCode); }).end());
  assert.equal(await status("/", { Host: "evil.example" }), 403);
  assert.equal(await status("/", {}), 200);
  for (const path of ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/app.js/../x", "/data/plugin/pytorch_profiler/../x", "//etc/passwd"])
    assert.equal(await status(path, {}), 404, path);
});
