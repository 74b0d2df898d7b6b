#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the server has to keep, on a machine that does nothing else: one command, a line per goal, exit code 1 where one is missed.

    bench/serve/goals.py [--seconds 10] [--goal-ms 20] [--requests 1000000]

A goal is measured in rounds that take turns; medians count. The load (bench/serve/serve_load.cpp) has the last processor to itself, the server the
others, or they share the only one. What is compared with `camshaft bench` at full batches: requests that carry a full batch, and single rows that
the server puts together; of networks that take from a hundredth of a millisecond to some milliseconds a row.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin"))
sys.path.insert(0, str(ROOT / "tests/cli"))
sys.path.insert(0, str(ROOT / "tests/serve"))
from conftest import add_model, linear_net, onnx, slow_net  # noqa: E402

processors = sorted(os.sched_getaffinity(0))
LOAD, SERVER = {processors[-1]}, set(processors[:-1]) or {processors[-1]}
THREADS = len(SERVER)


class Server:
    def __init__(self, folder, *options):
        words = [str(BIN / "camshaft-serve"), str(folder), "--http", "0", "--grpc", "-1", "--metrics", "0", "--threads", str(THREADS), *map(str, options)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, SERVER))
        self.ports = {}
        for line in self.process.stdout:
            if found := re.match(r"(HTTP|metrics) at http://127\.0\.0\.1:(\d+)", line):
                self.ports[found[1]] = int(found[2])
            if line == "ready\n":
                return
        sys.exit("the server has ended")

    def load(self, *words):
        out = subprocess.run([str(BIN / "serve_load"), "--port", str(self.ports["HTTP"]), *map(str, words)], capture_output=True, text=True,
                             preexec_fn=lambda: os.sched_setaffinity(0, LOAD))
        found = re.search(r"(\d+) answered, (\d+) errors in .*?: (\d+) requests/s, (\d+) rows/s; .* p99 ([\d.]+)", out.stdout)
        if not found:
            sys.exit(out.stdout + out.stderr)
        return dict(zip(("answered", "errors", "requests", "rows", "p99"), map(float, found.groups())))

    def processor_seconds(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    def resident(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["metrics"])
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return float(re.search(r"^process_resident_memory_bytes\S* ([\d.e+]+)", text, re.M)[1]) / 2**20

    def end(self):
        self.process.terminate()
        self.process.communicate()


def image_net(layers=8, width=32):
    """Convolutions over images of 64x64 with an open batch: about half a millisecond a row."""
    rng, nodes, constants, name, depth = np.random.default_rng(3), [], [], "x", 3
    for k in range(layers):
        strides = 2 if k == 0 else 1
        constants.append(onnx.tensor(f"w{k}", (rng.standard_normal((width, depth, 3, 3)) / (9 * depth) ** 0.5).astype(np.float32)))
        attributes = [onnx.ints_attribute("pads", [1] * 4), onnx.ints_attribute("strides", [strides] * 2), onnx.ints_attribute("kernel_shape", [3, 3])]
        nodes += [onnx.node("Conv", [name, f"w{k}"], [f"c{k}"], f"conv{k}", attributes), onnx.node("Relu", [f"c{k}"], [f"r{k}"], f"relu{k}")]
        name, depth = f"r{k}", width
    nodes.append(onnx.node("GlobalAveragePool", [name], ["y"], "mean"))
    return onnx.model(nodes, [onnx.value_info("x", ["batch", 3, 64, 64])], [onnx.value_info("y", ["batch", width, 1, 1])], constants)


def run_bench(model, shape, seconds):
    shapes = ["--shape", shape] + (["--opt-shapes", shape] if model.suffix == ".onnx" else []) if shape else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([str(BIN / "camshaft"), "bench", str(model), *shapes, "--duration", str(seconds), "--threads", str(THREADS), "--json"],
                         capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, SERVER)).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(out), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bench(model, shape, batch, seconds):
    """Rows per second of `camshaft bench`."""
    return batch * 1e3 / run_bench(model, shape, seconds)[0]["latencyMs"]["median"]


def bench_per_processor_second(model, shape, batch, seconds):
    """Rows of `camshaft bench` per second of a processor: of an engine, and the difference of two runs, so that only runs count."""
    engine = model.with_suffix(".engine")
    if not engine.exists():
        shapes = [word for kind in ("min", "opt", "max") for word in (f"--{kind}-shapes", shape)] if shape else []
        subprocess.run([str(BIN / "camshaft"), "build", str(model), "-o", str(engine), "--threads", str(THREADS), *shapes], capture_output=True, check=True)
    (short, of_short), (long, of_long) = run_bench(engine, shape, 0.2), run_bench(engine, shape, 0.2 + seconds)
    return batch * (long["runs"] - short["runs"]) / (of_long - of_short)


# Name, batch, its shape in `camshaft bench`, and how it is asked: (words, connections, rows of a request).
FULL = 16
SERVED = [
    ("two", FULL, f"x:{FULL}x1024", [("requests of full batches", 4, FULL), ("single rows", 64, 1)]),
    ("image", FULL, f"x:{FULL}x3x64x64", [("requests of full batches", 4, FULL), ("single rows", 64, 1)]),
    ("yolox_nano", 1, "", [("its batch of 1", 4, 1)]),
]


def full_batches(server, models, rounds, each, by_processor):
    unit = "rows per processor second" if by_processor else "rows/s"
    for name, batch, shape, ways in SERVED:
        model = models / name / "1/model.onnx"
        shares, best = {words: [] for words, _, _ in ways}, []
        for _ in range(rounds):
            best.append((bench_per_processor_second if by_processor else bench)(model, shape, batch, each))
            for words, connections, rows in ways:
                before = server.processor_seconds()
                served = server.load(name, "--connections", connections, "--rows", rows, "--seconds", each)
                rate = served["answered"] * rows / (server.processor_seconds() - before) if by_processor else served["rows"]
                shares[words].append(rate / best[-1])
        for words, found in shares.items():
            verdict(f"{name}, {words}", statistics.median(found) >= 0.9,
                    f"{statistics.median(found):.2f} of camshaft bench's {statistics.median(best):.0f} {unit} at batches of {batch} "
                    f"({', '.join(f'{share:.2f}' for share in found)})")


missed = []


def verdict(name, kept, text):
    print(f"{'kept  ' if kept else 'MISSED'} {name}: {text}", flush=True)
    if not kept:
        missed.append(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--goal-ms", type=float, default=20)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--processor-time", action="store_true",
                        help="full batches by what a row takes of a processor: nearly the same on a machine that others use, too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = pathlib.Path(folder) / "models"
        add_model(models, "linear", linear_net())
        add_model(models, "two", slow_net(2))
        add_model(models, "image", image_net())
        (models / "yolox_nano/1").mkdir(parents=True)
        shutil.copy(ROOT / "examples/models/yolox_nano/model.onnx", models / "yolox_nano/1/model.onnx")
        each = args.seconds / args.rounds

        server = Server(models)
        full_batches(server, models, args.rounds, each, args.processor_time)
        first = server.load("linear", "--connections", 200, "--requests", args.requests // 10)
        before = server.resident()
        rest = server.load("linear", "--connections", 200, "--requests", args.requests - args.requests // 10)
        grown = server.resident() - before
        verdict(f"{args.requests} requests", first["errors"] + rest["errors"] == 0 and grown < 4,
                f"{first['errors'] + rest['errors']:.0f} errors from 200 connections, memory {before:.1f} MiB and {grown:+.1f}, {rest['requests']:.0f} requests/s")
        server.end()

        server = Server(models, "--latency-goal-ms", args.goal_ms)
        most = statistics.median(server.load("two", "--connections", 64, "--seconds", each)["requests"] for _ in range(3))
        tails = [server.load("two", "--connections", 256, "--rate", 0.7 * most, "--seconds", max(each, 2))["p99"] for _ in range(args.rounds)]
        verdict("latency goal", statistics.median(tails) <= args.goal_ms,
                f"p99 {statistics.median(tails):.1f} ms ({', '.join(f'{tail:.1f}' for tail in tails)}) at 70 % of {most:.0f} requests/s, goal {args.goal_ms:.0f} ms")
        server.end()
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
