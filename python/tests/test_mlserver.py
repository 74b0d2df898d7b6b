# SPDX-License-Identifier: Apache-2.0
"""MLServer with our runtime, as its command starts it. `scripts/test_extra.sh mlserver` has MLServer."""
import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

pytest.importorskip("mlserver")


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Server:
    def __init__(self, folder):
        self.http, grpc, metrics = free_ports(3)
        (folder / "settings.json").write_text(json.dumps({"host": "127.0.0.1", "http_port": self.http, "grpc_port": grpc, "metrics_port": metrics,
                                                          "parallel_workers": 0}))
        command = pathlib.Path(sys.executable).parent / "mlserver"
        self.process = subprocess.Popen([str(command), "start", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ask(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", json.dumps(body).encode() if body is not None else None,
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.ask("/v2/models/net/ready")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        self.end()
        pytest.fail(self.process.stdout.read())

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


@pytest.fixture
def server(tmp_path, matmul, monkeypatch):
    monkeypatch.setenv("CAMSHAFT_CACHE_DIR", str(tmp_path / "engines"))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(matmul[0].SerializeToString())
    settings = {"name": "net", "implementation": "camshaft.mlserver.CamshaftRuntime",
                "parameters": {"uri": "./model.onnx", "extra": {"threads": 1, "max_batch_size": 8, "measure_ms": 100, "optimization_level": 0}}}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    server = Server(folder)
    server.wait()
    yield server
    server.end()


def request(x):
    return {"id": "q", "inputs": [{"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.ravel().tolist()}]}


def test_inference_metadata_batches_and_errors(server, matmul):
    weights = matmul[1]
    status, told = server.ask("/v2/models/net")
    assert status == 200 and told["inputs"][0]["name"] == "x" and told["inputs"][0]["shape"] == [-1, 16]
    assert [tensor["name"] for tensor in told["outputs"]] == ["y", "z"]
    xs = [np.random.default_rng(k).standard_normal((1 + k % 3, 16)).astype("f") for k in range(200)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda x: server.ask("/v2/models/net/infer", request(x)), xs))
    for x, (status, answer) in zip(xs, answers):
        assert status == 200 and answer["id"] == "q"
        y, z = (np.array(tensor["data"], "f").reshape(tensor["shape"]) for tensor in answer["outputs"])
        np.testing.assert_allclose(y, x @ weights, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(z, abs(x), rtol=1e-6)
    status, told = server.ask("/v2/models/net/batches")
    assert status == 200 and told["batches"] and all(record["why"] and record["rows"] <= 8 for record in told["batches"])
    assert server.ask("/v2/models/net/infer", {**request(xs[0]), "outputs": [{"name": "z"}]})[1]["outputs"][0]["name"] == "z"
    for wrong in ({"inputs": [{"name": "x", "shape": [1, 15], "datatype": "FP32", "data": [0] * 15}]},
                  {"inputs": [{"name": "x", "shape": [9, 16], "datatype": "FP32", "data": [0] * 144}]},
                  {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0] * 3}]},
                  {"inputs": [{"name": "w", "shape": [1], "datatype": "FP32", "data": [0]}]},
                  {**request(xs[0]), "outputs": [{"name": "none"}]}):
        status, told = server.ask("/v2/models/net/infer", wrong)
        assert status == 400 and told["error"], wrong
    assert server.ask("/v2/models/net/infer", request(xs[0]))[0] == 200
    assert os.listdir(os.environ["CAMSHAFT_CACHE_DIR"])  # the next start maps it
