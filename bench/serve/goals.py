#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the server has to keep, on a machine that does nothing else: one command, a line per goal, exit code 1 where one is missed.

    bench/serve/goals.py [--seconds 10] [--goal-ms 20] [--requests 1000000]

A goal is measured in rounds that take turns; medians count. The load (bench/serve/serve_load.cpp) has the last processor to itself, the server the
others, or they share the only one.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin"))
sys.path.insert(0, str(ROOT / "tests/cli"))
sys.path.insert(0, str(ROOT / "tests/serve"))
from conftest import add_model, linear_net, slow_net  # noqa: E402

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
        found = re.search(r"(\d+) errors in .*?: (\d+) requests/s, (\d+) rows/s; .* p99 ([\d.]+)", out.stdout)
        if not found:
            sys.exit(out.stdout + out.stderr)
        return dict(zip(("errors", "requests", "rows", "p99"), map(float, found.groups())))

    def resident(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["metrics"])
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return float(re.search(r"^process_resident_memory_bytes\S* ([\d.e+]+)", text, re.M)[1]) / 2**20

    def end(self):
        self.process.terminate()
        self.process.communicate()


def bench(model, batch, seconds):
    """Rows per second of `camshaft bench`."""
    out = subprocess.run([str(BIN / "camshaft"), "bench", str(model), "--shape", f"x:{batch}x1024", "--opt-shapes", f"x:{batch}x1024", "--duration", str(seconds),
                          "--threads", str(THREADS), "--json"], capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, SERVER)).stdout
    return batch * 1e3 / json.loads(out)["latencyMs"]["median"]


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
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = pathlib.Path(folder) / "models"
        add_model(models, "linear", linear_net())
        add_model(models, "two", slow_net(2))
        each = args.seconds / args.rounds

        server = Server(models)
        shares = []
        for _ in range(args.rounds):
            served = server.load("two", "--connections", 64, "--seconds", each)["rows"]
            shares.append(served / bench(models / "two/1/model.onnx", 16, each))
        verdict("full batches", statistics.median(shares) >= 0.9,
                f"{statistics.median(shares):.2f} of camshaft bench's rows/s at batches of 16 ({', '.join(f'{share:.2f}' for share in shares)})")
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
