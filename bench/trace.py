#!/usr/bin/env python3
"""How fast `camshaft view` has a trace ready, what memory it takes and how long every request lasts.

    bench/trace.py TRACE.pt.trace.json[.gz]|FOLDER ... [--program build/release/bin/camshaft] [--rounds 3] [--json out.json]
    bench/trace.py --sample SAMPLE.pt.trace.json.gz --megabytes 1000,3000        # makes the traces with make_trace, measures, deletes them

Ready: from the start of the program until /runs says loading: false. Memory: the process's own high-water mark (VmHWM), and its
anonymous part. A request is timed with its body read to the end, as a browser asks for it (gzip accepted); the best and the worst of
--rounds are kept. Routes of the plugin are asked without paging, the page's own with the page's windows."""

import argparse
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOUNT = "/data/plugin/pytorch_profiler"

PLUGIN = [
    "overview?", "operation?group_by=Operation&", "operation?group_by=OperationAndInputShape&", "operation/table?group_by=Operation&",
    "operation/table?group_by=OperationAndInputShape&", "operation/stack?group_by=Operation&op_name=aten::conv2d&", "kernel?",
    "kernel/table?group_by=Kernel&", "kernel/table?group_by=KernelNameAndOpName&", "kernel/tc_pie?", "memory?", "memory_curve?",
    "memory_events?", "tree?", "diff?", "diffnode?",
]
PAGE = [
    "overview?", "operators?", "operators?group=shape&search=conv&sort=host_total&", "operators?limit=1000&group=shape&", "kernels?",
    "kernels?group=launch&limit=1000&", "insights?", "memory?device=GPU0&", "timeline?", "timeline?start=100000000&end=200000000&pixels=4000&",
    "timeline?start=100000000&end=101000000&", "ranks?",
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/camshaft"))
    parser.add_argument("--make-trace", default=str(ROOT / "build/release/bin/make_trace"))
    parser.add_argument("--sample")
    parser.add_argument("--megabytes", default="1000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trace-route", action="store_true", help="also time /trace, which sends the whole file")
    parser.add_argument("--options", default="", help="more options of camshaft view")
    parser.add_argument("--json")
    return parser.parse_args()


def memory_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {key: int(re.search(key + r":\s+(\d+)", text).group(1)) * 1024 for key in ("VmHWM", "VmRSS", "RssAnon")}


class Client:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def get(self, path):
        start = time.perf_counter()
        self.connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = self.connection.getresponse()
        body = answer.read()
        return time.perf_counter() - start, answer.status, body


def measure(trace, arguments):
    trace = pathlib.Path(trace)
    files = sorted(trace.rglob("*.json*")) if trace.is_dir() else [trace]
    size = sum(file.stat().st_size for file in files)
    for file in files:  # warm: the disk is not what is measured
        with open(file, "rb") as stream:
            while stream.read(1 << 24):
                pass
    start = time.perf_counter()
    server = subprocess.Popen([arguments.program, "view", str(trace), "--port", "0", "--no-browser", *arguments.options.split()],
                              stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r":(\d+)/", server.stdout.readline()).group(1))
        bound = time.perf_counter() - start
        client = Client(port)
        while json.loads(client.get(MOUNT + "/runs")[2])["loading"]:
            time.sleep(0.005)
        ready = time.perf_counter() - start
        cpu = sum(os.times()[2:4])
        peak = memory_of(server.pid)
        requests = ask(client, arguments, len(files))
        after = memory_of(server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    del cpu
    return {"trace": str(trace), "bytes": size, "bound_s": bound, "ready_s": ready, "peak_bytes": peak["VmHWM"], "peak_after_bytes": after["VmHWM"],
            "resident_bytes": after["VmRSS"], "exit_code": server.returncode, "requests": requests}


def ask(client, arguments, workers):
    state = json.loads(client.get("/api/state")[2])
    run = state["runs"][0]
    profile = run["profiles"][0]
    which = urllib.parse.urlencode({"run": run["name"], "worker": profile["worker"], "span": profile["span"]})
    other = urllib.parse.urlencode({"exp_run": run["name"], "exp_worker": profile["worker"], "exp_span": profile["span"]})
    paths = [f"{MOUNT}/{route}{which}&{other}" for route in PLUGIN] + [f"/api/{route}{which}&{other}" for route in PAGE]
    if arguments.trace_route:
        paths.append(f"{MOUNT}/trace?{which}")
    rows = []
    for path in paths:
        times = [client.get(path) for _ in range(arguments.rounds)]
        import gzip
        body = times[-1][2]
        plain = len(gzip.decompress(body)) if body[:2] == b"\x1f\x8b" else len(body)
        rows.append({"path": re.sub(r"&?(exp_)?(run|worker|span)=[^&]*", "", path), "status": times[0][1], "first_ms": times[0][0] * 1000,
                     "best_ms": min(t[0] for t in times) * 1000, "wire_bytes": len(body), "bytes": plain})
    return rows


def report(result):
    mb = result["bytes"] / 1e6
    print(f"{result['trace']}: {mb:.0f} MB")
    print(f"  ready in {result['ready_s']:.2f} s ({mb / result['ready_s']:.0f} MB/s), listening after {result['bound_s'] * 1000:.0f} ms")
    print(f"  memory: peak {result['peak_bytes'] / 1e6:.0f} MB ({result['peak_bytes'] / result['bytes']:.2f} of the JSON) when ready, "
          f"{result['peak_after_bytes'] / 1e6:.0f} MB after all requests, then {result['resident_bytes'] / 1e6:.0f} MB resident")
    print(f"  {'request':70} {'status':>6} {'first ms':>9} {'best ms':>9} {'KB sent':>9} {'KB':>9}")
    for row in result["requests"]:
        mark = " <--" if row["status"] == 200 and (row["first_ms"] > 50 or row["wire_bytes"] > 1e6) else ""
        print(f"  {row['path']:70} {row['status']:6} {row['first_ms']:9.1f} {row['best_ms']:9.1f} {row['wire_bytes'] / 1e3:9.1f} {row['bytes'] / 1e3:9.1f}{mark}")


def main():
    arguments = parse_arguments()
    results = []
    for trace in arguments.traces:
        results.append(measure(trace, arguments))
        report(results[-1])
    if arguments.sample:
        for megabytes in arguments.megabytes.split(","):
            with tempfile.TemporaryDirectory(prefix="camshaft_bench_") as folder:
                trace = f"{folder}/worker0.pt.trace.json"
                subprocess.run([arguments.make_trace, arguments.sample, trace, "--megabytes", megabytes], check=True)
                os.sync()  # else the disk is still being written while the first rounds read
                results.append(measure(trace, arguments))
                report(results[-1])
    if not results:
        sys.exit("nothing to measure: name traces or --sample")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
