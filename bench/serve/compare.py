# SPDX-License-Identifier: Apache-2.0
"""`camshaft serve` beside ONNX Runtime and OpenVINO in FastAPI: same models, same load, in turns.

    python bench/serve/compare.py NAME=MODEL.onnx=1x3x224x224 ... [--connections 1,8,32] [--rounds 3] [--seconds 2] [--peers onnxruntime,openvino]

Needs fastapi, uvicorn, httptools, uvloop and the peers. Prints a Markdown table: requests per second and median and 99th
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
CAMSHAFT_PORT = 18100  # the peers have those behind it


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
    parser.add_argument("--peers", default="onnxruntime,openvino", help="engines behind FastAPI")
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
        servers = [subprocess.Popen([str(BIN / "camshaft"), "serve", folder, "--http", str(CAMSHAFT_PORT), "--grpc", "-1", "--metrics", "-1",
                                     *args.option], stdout=subprocess.DEVNULL)]
        peers = {name: CAMSHAFT_PORT + 1 + k for k, name in enumerate(args.peers.split(","))}
        for name, port in peers.items():
            servers.append(subprocess.Popen([sys.executable, "-m", "uvicorn", "fastapi_peer:app", "--port", str(port), "--no-access-log",
                                             "--log-level", "warning"], cwd=pathlib.Path(__file__).parent,
                                            env={**os.environ, "ENGINE": name, "MODELS": json.dumps(models)}))
        try:
            wait(CAMSHAFT_PORT, "/v2/health/ready")
            for port in peers.values():
                wait(port, "/ready")
            heads = ["Model", "Connections", "Camshaft req/s", "p50 ms", "p99 ms"]
            for name in peers:
                heads += [f"FastAPI + {name} req/s", "p50 ms", "p99 ms", "Ratio"]
            print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
            for name, (_, shape) in models.items():
                size = 4
                for extent in shape:
                    size *= extent
                for connections in args.connections.split(","):
                    common = ["--connections", connections, "--seconds", args.seconds]
                    rounds = [[load(name, "--port", CAMSHAFT_PORT, *common),
                               *(load("--path", f"/infer/{name}", "--raw-bytes", size, "--port", port, *common) for port in peers.values())]
                              for _ in range(args.rounds)]
                    ours, *others = (sorted(column)[len(column) // 2] for column in zip(*rounds))
                    cells = [name, connections, f"{ours[0]:.0f}", f"{ours[1]:.2f}", f"{ours[2]:.2f}"]
                    for k, other in enumerate(others):
                        ratio = statistics.median(turn[0][0] / turn[k + 1][0] for turn in rounds)
                        cells += [f"{other[0]:.0f}", f"{other[1]:.2f}", f"{other[2]:.2f}", f"{ratio:.2f}"]
                    print(f"| {' | '.join(cells)} |", flush=True)
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                server.wait(30)


if __name__ == "__main__":
    main()
