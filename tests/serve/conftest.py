# SPDX-License-Identifier: Apache-2.0
"""A server of its own for each test module, over small models, and a client without dependencies."""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import tiny_onnx as onnx  # noqa: E402

BIN = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin"))
SIZE = 1024  # of the slow model's square weights


def weights():
    return np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


def table():
    return np.arange(40, dtype=np.float32).reshape(10, 4)


def linear_net():
    """y[batch, 3] = x[batch, 4] @ w"""
    return onnx.model([onnx.node("MatMul", ["x", "w"], ["y"], "product")], [onnx.value_info("x", ["batch", 4])],
                      [onnx.value_info("y", ["batch", 3])], [onnx.tensor("w", weights())])


def lookup_net():
    """y[batch, 4] = table[i[batch]]: an index may be out of range."""
    return onnx.model([onnx.node("Gather", ["t", "i"], ["y"], "lookup")], [onnx.value_info("i", ["batch"], onnx.INT64)],
                      [onnx.value_info("y", ["batch", 4])], [onnx.tensor("t", table())])


def slow_net(steps=4):
    """Some milliseconds for every hundred rows."""
    nodes, constants, name = [], [], "x"
    rng = np.random.default_rng(2)
    for step in range(steps):
        constants.append(onnx.tensor(f"w{step}", (rng.standard_normal((SIZE, SIZE)) / 32).astype(np.float32)))
        target = "y" if step == steps - 1 else f"h{step}"
        nodes.append(onnx.node("MatMul", [name, f"w{step}"], [target], f"product{step}"))
        name = target
    return onnx.model(nodes, [onnx.value_info("x", ["batch", SIZE])], [onnx.value_info("y", ["batch", SIZE])], constants)


def add_model(repository, name, net, config=None, version=1):
    folder = repository / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(net)
    if config is not None:
        (repository / name / "config.pbtxt").write_text(config)


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


class Server:
    """`camshaft serve` as a process; ready when it is made."""

    def __init__(self, repository, cache, *options, waits=True, ports=("0", "0", "0")):
        if not (BIN / "camshaft").exists():
            pytest.skip(f"{BIN / 'camshaft'} is not built")
        words = ["--engine-cache", str(cache), "--measure-ms", "200", "--http", ports[0], "--grpc", ports[1], "--metrics", ports[2]]
        self.process = subprocess.Popen([str(BIN / "camshaft"), "serve", str(repository), *words, *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.log, self.ports, self.is_tls = [], {}, False
        self.is_told = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        if waits:
            self.wait_for("ready")

    def _read(self):
        for line in self.process.stdout:
            with self.is_told:
                self.log.append(line.rstrip("\n"))
                found = re.match(r"(HTTP|gRPC|metrics) at (?:(https?)://)?127\.0\.0\.1:(\d+)", line)
                if found:
                    self.ports[found[1]] = int(found[3])
                    self.is_tls |= found[2] == "https"
                self.is_told.notify_all()
        with self.is_told:
            self.log.append("<end>")
            self.is_told.notify_all()

    def wait_for(self, line, seconds=60):
        with self.is_told:
            found = self.is_told.wait_for(lambda: line in self.log or "<end>" in self.log, seconds)
            assert found and line in self.log, "\n".join(self.log)

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.ports["HTTP"], timeout=timeout)

    def ask(self, method, path, body=None, headers=None, connection=None):
        connection = connection or self.connect()
        connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers or {})
        return Answer(connection.getresponse())

    def infer(self, model, array, name="x", datatype="FP32", connection=None, **parameters):
        body = {"inputs": [{"name": name, "shape": list(array.shape), "datatype": datatype, "data": array.ravel().tolist()}]}
        if parameters:
            body["parameters"] = parameters
        return self.ask("POST", f"/v2/models/{model}/infer", body, connection=connection)

    def metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["metrics"], timeout=60)
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()

    def end(self, kind=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(kind)
        return self.process.wait(60)


def binary_request(array, name="x", outputs=None):
    """Body and headers of a request whose tensor comes as bytes."""
    head = {"inputs": [{"name": name, "shape": list(array.shape), "datatype": "FP32", "parameters": {"binary_data_size": array.nbytes}}],
            "parameters": {"binary_data_output": True}}
    if outputs:
        head["outputs"] = outputs
    text = json.dumps(head).encode()
    return text + array.tobytes(), {"Inference-Header-Content-Length": str(len(text)), "Content-Type": "application/octet-stream"}


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    add_model(folder, "linear", linear_net())
    add_model(folder, "lookup", lookup_net())
    add_model(folder, "slow", slow_net(), """
        max_batch_size: 256
        dynamic_batching { default_queue_policy { max_queue_size: 8 } priority_levels: 2 default_priority_level: 2 }
        input { name: "x" data_type: TYPE_FP32 dims: 1024 }
    """)
    return folder


@pytest.fixture(scope="module")
def server(repository, cache):
    server = Server(repository, cache)
    yield server
    assert server.end() == 0, "\n".join(server.log)


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
