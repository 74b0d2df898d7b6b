# SPDX-License-Identifier: Apache-2.0
"""Many connections, the end under load, and what a killed server leaves."""
import http.client
import json
import signal
import threading
import time

import numpy as np

from conftest import add_model, binary_request, linear_net, weights, wait_until, Server


def test_many_connections(server):
    """200 connections, 20 requests each: no error, every answer its own."""
    failures = []

    def client(k):
        connection = server.connect()
        x = np.full((1, 4), k, np.float32)
        body, headers = binary_request(x)
        for _ in range(20):
            answer = server.ask("POST", "/v2/models/linear/infer", body, headers, connection)
            got = np.frombuffer(answer.body[int(answer.headers.get("Inference-Header-Content-Length", 0)):], "f")
            if answer.status != 200 or not np.allclose(got, (x @ weights())[0], rtol=1e-5):
                failures.append((k, answer.status))

    threads = [threading.Thread(target=client, args=(k,)) for k in range(200)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert not failures


class Load(threading.Thread):
    """Asks over and over and notes how each request went."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ends, self.seen = port, False, []

    def run(self):
        connection = None
        body, headers = binary_request(np.ones((1, 4), np.float32))
        while not self.ends:
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                connection.request("POST", "/v2/models/linear/infer", body, headers)
                response = connection.getresponse()
                response.read()
                self.seen.append(response.status)
                if response.getheader("Connection") == "close":
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                self.seen.append(type(error).__name__)
                connection = None
                time.sleep(0.01)


def test_sigterm_answers_what_was_asked(tmp_path, cache):
    """A drained server leaves no request unanswered: after its end only new connections fail."""
    add_model(tmp_path, "linear", linear_net())
    server = Server(tmp_path, cache)
    loads = [Load(server.ports["HTTP"]) for _ in range(8)]
    [load.start() for load in loads]
    wait_until(lambda: all(len(load.seen) > 20 for load in loads))
    assert server.end() == 0
    assert server.log[-2:] == ["ended", "<end>"] or "ended" in server.log
    for load in loads:
        load.ends = True
    [load.join() for load in loads]
    for load in loads:
        # An idle connection may be closed just as its next request is sent: clients try those again.
        assert set(load.seen) <= {200, "ConnectionRefusedError", "RemoteDisconnected", "ConnectionResetError", "BrokenPipeError"}


def test_kill_and_restart_under_load(tmp_path, cache):
    """kill -9: clients see errors while the server is down, and none before or after."""
    add_model(tmp_path, "linear", linear_net())
    server = Server(tmp_path, cache)
    port = server.ports["HTTP"]
    loads = [Load(port) for _ in range(8)]
    [load.start() for load in loads]
    wait_until(lambda: all(len(load.seen) > 20 for load in loads))
    assert all(status == 200 for load in loads for status in load.seen)
    server.end(signal.SIGKILL)
    wait_until(lambda: all(load.seen[-1] != 200 for load in loads))
    again = Server(tmp_path, cache, ports=(str(port), "0", "0"))
    marks = [len(load.seen) for load in loads]
    wait_until(lambda: all(len(load.seen) > mark + 20 for load, mark in zip(loads, marks)))
    for load in loads:
        load.ends = True
    [load.join() for load in loads]
    for load, mark in zip(loads, marks):
        assert all(status == 200 for status in load.seen[mark + 2:])  # one may have been under way as it became ready
    assert not any("building" in line for line in again.log)  # the engine came from the cache
    assert again.end() == 0


def test_a_damaged_cached_engine_is_built_again(tmp_path):
    add_model(tmp_path / "models", "linear", linear_net())
    cache = tmp_path / "engines"
    assert Server(tmp_path / "models", cache).end() == 0
    for file in cache.iterdir():
        file.write_bytes(file.read_bytes()[:100])
    server = Server(tmp_path / "models", cache)
    assert any("built again" in line for line in server.log) and any("building" in line for line in server.log)
    assert server.infer("linear", np.zeros((1, 4), np.float32)).status == 200
    assert server.end() == 0


def test_polling_follows_the_folder(tmp_path, cache):
    server = Server(tmp_path, cache, "--model-control-mode", "poll", "--repository-poll-secs", 1)
    add_model(tmp_path, "late", linear_net())
    wait_until(lambda: server.ask("GET", "/v2/models/late/ready").status == 200)
    (tmp_path / "late" / "1" / "model.onnx").unlink()
    (tmp_path / "late" / "1").rmdir()
    (tmp_path / "late").rmdir()
    wait_until(lambda: server.ask("GET", "/v2/models/late/ready").status == 404)
    assert server.end() == 0


def test_requests_leave_memory_flat(server):
    def resident():
        return next(int(line.split()[-1]) for line in server.metrics().splitlines() if line.startswith("process_resident_memory_bytes"))

    connection = server.connect()
    body = json.dumps({"inputs": [{"name": "x", "shape": [16, 4], "datatype": "FP32", "data": [0.5] * 64}]})
    for _ in range(300):
        server.ask("POST", "/v2/models/linear/infer", body, connection=connection)
    before = resident()
    for _ in range(3000):
        server.ask("POST", "/v2/models/linear/infer", body, connection=connection)
    assert resident() - before < 4 << 20
