# SPDX-License-Identifier: Apache-2.0
"""`camshaft serve` beside ONNX Runtime in FastAPI: same models, same load, in turns.

    python bench/serve/compare.py NAME=MODEL.onnx=1x3x224x224 ... [--connections 1,8,32] [--rounds 3] [--seconds 2]

Needs fastapi, uvicorn, httptools, uvloop, onnxruntime. Prints a Markdown table: requests per second and median and 99th
percentile latencies of the round with the median throughput.
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
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin"))
CAMSHAFT_PORT, OTHER_PORT = 18100, 18101


def wait(port, path):
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"nothing at port {port}")


def load(*words):
    out = subprocess.run([str(BIN / "serve_load"), *map(str, words)], capture_output=True, text=True)
    found = re.search(r"(\d+) errors in .*?: (\d+) requests/s.* p50 ([\d.]+) .* p99 ([\d.]+)", out.stdout)
    if out.returncode or not found:
        sys.exit(out.stdout + out.stderr)
    return tuple(map(float, found.groups()[1:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--connections", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--option", action="append", default=[], help="of camshaft serve")
    args = parser.parse_args()
    models = {}
    with tempfile.TemporaryDirectory() as folder:
        for text in args.models:
            name, file, shape = text.split("=")
            models[name] = [str(pathlib.Path(file).resolve()), [int(extent) for extent in shape.split("x")]]
            place = pathlib.Path(folder) / name / "1"
            place.mkdir(parents=True)
            (place / "model.onnx").symlink_to(models[name][0])
        servers = [
            subprocess.Popen([str(BIN / "camshaft"), "serve", folder, "--http", str(CAMSHAFT_PORT), "--grpc", "-1", "--metrics", "-1",
                              *args.option], stdout=subprocess.DEVNULL),
            subprocess.Popen([sys.executable, "-m", "uvicorn", "fastapi_onnxruntime:app", "--port", str(OTHER_PORT), "--no-access-log",
                              "--log-level", "warning"], cwd=pathlib.Path(__file__).parent, env={**os.environ, "MODELS": json.dumps(models)})]
        try:
            wait(CAMSHAFT_PORT, "/v2/health/ready")
            wait(OTHER_PORT, "/ready")
            print("| Model | Connections | Camshaft req/s | p50 ms | p99 ms | FastAPI + ONNX Runtime req/s | p50 ms | p99 ms | Ratio |\n|---|---|---|---|---|---|---|---|---|")
            for name, (_, shape) in models.items():
                size = 4
                for extent in shape:
                    size *= extent
                for connections in args.connections.split(","):
                    common = ["--connections", connections, "--seconds", args.seconds]
                    rows = [(load(name, "--port", CAMSHAFT_PORT, *common),
                             load("--path", f"/infer/{name}", "--raw-bytes", size, "--port", OTHER_PORT, *common)) for _ in range(args.rounds)]
                    ours, others = (sorted(column)[len(column) // 2] for column in zip(*rows))
                    ratio = statistics.median(a[0] / b[0] for a, b in rows)
                    print(f"| {name} | {connections} | {ours[0]:.0f} | {ours[1]:.2f} | {ours[2]:.2f} | {others[0]:.0f} | {others[1]:.2f} | {others[2]:.2f} | {ratio:.2f} |", flush=True)
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                server.wait(30)


if __name__ == "__main__":
    main()
