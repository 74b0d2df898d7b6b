# SPDX-License-Identifier: Apache-2.0
"""The Open Inference Protocol over plain HTTP."""
import gzip
import json
import struct
import threading

import numpy as np
import pytest

from conftest import add_model, binary_request, linear_net, lookup_net, slow_net, table, weights, Server, SIZE

X = np.arange(8, dtype=np.float32).reshape(2, 4) / 3


def test_server_and_model_descriptions(server):
    about = server.ask("GET", "/v2").json
    assert about["name"] == "camshaft" and "binary_tensor_data" in about["extensions"]
    assert server.ask("GET", "/v2/health/live").status == 200
    assert server.ask("GET", "/v2/health/ready").status == 200
    assert server.ask("GET", "/v2/models/linear/ready").status == 200
    assert server.ask("GET", "/v2/models/linear/versions/1/ready").status == 200
    model = server.ask("GET", "/v2/models/linear").json
    assert model["versions"] == ["1"] and model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    config = server.ask("GET", "/v2/models/linear/config").json
    assert config["max_batch_size"] == 16 and config["input"][0]["dims"] == [4] and "dynamic_batching" in config


def test_infer_with_json(server):
    answer = server.infer("linear", X).json
    output = answer["outputs"][0]
    assert answer["model_name"] == "linear" and answer["model_version"] == "1"
    assert (output["name"], output["datatype"], output["shape"]) == ("y", "FP32", [2, 3])
    np.testing.assert_allclose(np.reshape(output["data"], (2, 3)), X @ weights(), rtol=1e-5)


def test_nested_data_and_id(server):
    body = {"id": "a\"b", "inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": X.tolist()}], "outputs": [{"name": "y"}]}
    answer = server.ask("POST", "/v2/models/linear/versions/1/infer", body).json
    assert answer["id"] == "a\"b"
    np.testing.assert_allclose(np.reshape(answer["outputs"][0]["data"], (2, 3)), X @ weights(), rtol=1e-5)


def test_binary_tensors(server):
    body, headers = binary_request(X)
    answer = server.ask("POST", "/v2/models/linear/infer", body, headers)
    length = int(answer.headers["Inference-Header-Content-Length"])
    output = json.loads(answer.body[:length])["outputs"][0]
    assert output["parameters"]["binary_data_size"] == 24 == len(answer.body) - length
    np.testing.assert_allclose(np.frombuffer(answer.body[length:], "f").reshape(2, 3), X @ weights(), rtol=1e-5)


def test_packed_body(server):
    body, headers = binary_request(X)
    plain = server.ask("POST", "/v2/models/linear/infer", body, headers)
    packed = server.ask("POST", "/v2/models/linear/infer", gzip.compress(body), {**headers, "Content-Encoding": "gzip"})
    assert packed.status == 200 and packed.body == plain.body
    damaged = server.ask("POST", "/v2/models/linear/infer", gzip.compress(body)[:-9], {**headers, "Content-Encoding": "gzip"})
    assert damaged.status == 400


def test_classification(server):
    body, headers = binary_request(X, outputs=[{"name": "y", "parameters": {"classification": 2, "binary_data": True}}])
    answer = server.ask("POST", "/v2/models/linear/infer", body, headers)
    length = int(answer.headers["Inference-Header-Content-Length"])
    output, rest, texts = json.loads(answer.body[:length])["outputs"][0], answer.body[length:], []
    while rest:
        count = struct.unpack("<I", rest[:4])[0]
        texts.append(rest[4:4 + count].decode())
        rest = rest[4 + count:]
    y = X @ weights()
    assert output["datatype"] == "BYTES" and output["shape"] == [2, 2]
    assert [int(text.split(":")[1]) for text in texts] == [int(k) for row in y for k in np.argsort(-row)[:2]]


WRONG = [
    (b"", 400, "no JSON"), (b"{", 400, "not JSON"), (b"[]", 400, "not a JSON object"), (b"{}", 400, "'inputs'"),
    ({"inputs": []}, 400, "0 inputs are given"),
    ({"inputs": [{"name": "z", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}, 400, "no input 'z'"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP64", "data": [1, 2, 3, 4]}]}, 400, "is FP64"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "BYTES", "data": ["a"]}]}, 400, "not known"),
    ({"inputs": [{"name": "x", "shape": [1, 5], "datatype": "FP32", "data": [1, 2, 3, 4, 5]}]}, 400, "has the shape"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3]}]}, 400, "12 bytes"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4, 5]}]}, 400, "more than 4"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, "4"]}]}, 400, "no FP32"),
    ({"inputs": [{"name": "x", "shape": [17, 4], "datatype": "FP32", "data": [0] * 68}]}, 400, "batch of 17"),
    ({"inputs": [{"name": "x", "shape": [0, 4], "datatype": "FP32", "data": []}]}, 400, "batch of 0"),
    ({"inputs": [{"name": "x", "shape": [-1, 4], "datatype": "FP32", "data": []}]}, 400, "at least 0"),
    ({"inputs": [{"name": "x", "shape": [2 ** 40, 2 ** 40], "datatype": "FP32", "data": []}]}, 400, "too large"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}]}, 400, "0 bytes that are left"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"shared_memory_region": "r"}}]}, 501, "shared memory"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0] * 4}], "outputs": [{"name": "q"}]}, 400, "no output 'q'"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0] * 4}] * 2}, 400, "2 inputs are given"),
    ({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0] * 4}], "parameters": {"sequence_id": 3}}, 501, "sequences"),
]


@pytest.mark.parametrize("body, status, text", WRONG, ids=[text for _, _, text in WRONG])
def test_what_is_wrong_with_a_request_is_said(server, body, status, text):
    answer = server.ask("POST", "/v2/models/linear/infer", body)
    assert answer.status == status and text in answer.json["error"]


def test_addresses_that_are_not_there(server):
    for path, status in (("/", 404), ("/v3", 404), ("/v2/models/none", 404), ("/v2/models/linear/versions/7", 404),
                         ("/v2/models/linear/what", 404), ("/v2/models/..%2Flinear", 404), ("/v2/models/linear/infer", 405)):
        answer = server.ask("GET", path)
        assert answer.status == status and answer.json["error"], path


def test_values_that_json_cannot_carry(server):
    big = np.full((1, 4), 3e38, np.float32)
    answer = server.infer("linear", big)
    assert answer.status == 400 and "binary" in answer.json["error"]


def test_one_bad_request_does_not_spoil_its_batch(server):
    """Indices out of range fail where they run: alone, though other requests were in the batch."""
    statuses = {}

    def ask(k):
        index = np.array([99 if k == 3 else k], np.int64)
        answer = server.infer("lookup", index, "i", "INT64")
        statuses[k] = (answer.status, answer.json)

    for _ in range(5):
        threads = [threading.Thread(target=ask, args=(k,)) for k in range(8)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        assert statuses[3][0] >= 400 and "error" in statuses[3][1]
        for k in set(range(8)) - {3}:
            assert statuses[k][0] == 200 and statuses[k][1]["outputs"][0]["data"] == table()[k].tolist()


def test_statistics_batches_and_metrics_agree(repository, cache):
    server = Server(repository, cache, "--load-model", "linear")
    for rows in (1, 2, 2):
        server.infer("linear", np.zeros((rows, 4), np.float32))
    server.infer("linear", np.zeros((1, 5), np.float32))  # refused before it is counted
    stats = server.ask("GET", "/v2/models/linear/stats").json["model_stats"][0]
    assert stats["inference_count"] == 5 and stats["execution_count"] == 3
    assert stats["inference_stats"]["success"]["count"] == 3 and stats["inference_stats"]["queue"]["ns"] > 0
    assert [(one["batch_size"], one["compute_infer"]["count"]) for one in stats["batch_stats"]] == [(1, 1), (2, 2)]
    batches = server.ask("GET", "/v2/models/linear/batches").json
    assert [one["rows"] for one in batches["batches"]] == [2, 2, 1] and all(one["why"] for one in batches["batches"])
    assert batches["largest_batch"] == 16 and all(one["us"] > 0 for one in batches["times"])
    metrics = server.metrics()
    assert 'nv_inference_request_success{model="linear",version="1"} 3' in metrics
    assert 'nv_inference_count{model="linear",version="1"} 5' in metrics
    assert 'camshaft_batch_size_count{model="linear",version="1"} 3' in metrics
    assert server.ask("GET", "/v2/models/slow/ready").status == 404  # not among --load-model
    assert server.end() == 0


def test_repository_calls(tmp_path, cache):
    add_model(tmp_path, "a", linear_net())
    add_model(tmp_path, "b", lookup_net(), "max_batch_size: 4\nmetric_tags { key: 'k' value: 'v' }\n")
    add_model(tmp_path, "bad", b"not a model")
    add_model(tmp_path, "worse", linear_net(), "max_batch_size: {")
    server = Server(tmp_path, cache)
    assert any("metric_tags" in line for line in server.log)  # an unknown field is reported, not fatal
    index = {one["name"]: one for one in server.ask("POST", "/v2/repository/index").json}
    assert index["a"]["state"] == "READY" and index["bad"]["state"] == "UNAVAILABLE" and "protobuf" in index["bad"]["reason"]
    assert "config.pbtxt:1" in index["worse"]["reason"]
    assert len(server.ask("POST", "/v2/repository/index", {"ready": True}).json) == 2
    assert server.ask("POST", "/v2/repository/models/a/unload").status == 200
    assert server.ask("GET", "/v2/models/a/ready").status == 503
    assert server.infer("a", X).status == 503
    add_model(tmp_path, "a", linear_net(), version=2)
    assert server.ask("POST", "/v2/repository/models/a/load").status == 200
    assert server.ask("GET", "/v2/models/a").json["versions"] == ["2"]
    override = {"parameters": {"config": json.dumps({"max_batch_size": 3, "version_policy": {"all": {}}})}}
    assert server.ask("POST", "/v2/repository/models/a/load", override).status == 200
    assert server.ask("GET", "/v2/models/a").json["versions"] == ["1", "2"]
    assert server.ask("GET", "/v2/models/a/config").json["max_batch_size"] == 3
    assert server.ask("POST", "/v2/repository/models/none/load").status == 404
    assert server.ask("POST", "/v2/repository/models/bad/load").status == 400
    assert server.ask("POST", "/v2/repository/models/a/load", {"parameters": {"file:1/model.onnx": "x"}}).status == 501
    assert server.end() == 0


def test_versions_share_nothing_but_their_name(tmp_path, cache):
    add_model(tmp_path, "m", linear_net(), "version_policy { specific { versions: 1 versions: 3 } }\n", 1)
    add_model(tmp_path, "m", lookup_net(), version=3)
    server = Server(tmp_path, cache, "--model-control-mode", "none")
    assert server.ask("GET", "/v2/models/m/versions/1").json["inputs"][0]["name"] == "x"
    assert server.ask("GET", "/v2/models/m").json["inputs"][0]["name"] == "i"  # the highest version
    assert server.ask("POST", "/v2/repository/models/m/unload").status == 503
    assert server.end() == 0


def slow_rows(rows=256):
    return np.random.default_rng(3).standard_normal((rows, SIZE)).astype(np.float32)


def ask_slow(server, answers, key, **parameters):
    body, headers = binary_request(slow_rows())
    if parameters:
        length = int(headers["Inference-Header-Content-Length"])
        head = json.loads(body[:length])
        head["parameters"].update(parameters)
        text = json.dumps(head).encode()
        body, headers["Inference-Header-Content-Length"] = text + body[length:], str(len(text))
    answers[key] = server.ask("POST", "/v2/models/slow/infer", body, headers)


def test_what_waits_is_put_together(server):
    """Small requests that come while large ones run are one batch, and each gets its own rows."""
    answers, reference = {}, {}
    small = slow_rows(4)

    def ask(k):
        body, headers = binary_request(small[k:k + 1])
        answer = server.ask("POST", "/v2/models/slow/infer", body, headers)
        assert answer.status == 200
        answers[k] = answer.body[int(answer.headers["Inference-Header-Content-Length"]):]

    for k in range(4):
        ask(k)
        reference[k] = answers[k]
    for _ in range(50):  # until the clients are quick enough to meet the large ones
        threads = [threading.Thread(target=ask_slow, args=(server, {}, k)) for k in range(4)]
        threads += [threading.Thread(target=ask, args=(k,)) for k in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        for k in range(4):
            np.testing.assert_allclose(np.frombuffer(answers[k], "f"), np.frombuffer(reference[k], "f"), rtol=1e-4, atol=1e-4)
        if max(one["requests"] for one in server.ask("GET", "/v2/models/slow/batches?limit=8").json["batches"]) > 1:
            return
    pytest.fail("no two requests were ever in one batch")


def test_full_queues_refuse(server):
    for _ in range(50):  # until the clients are quick enough to fill it
        answers = {}
        threads = [threading.Thread(target=ask_slow, args=(server, answers, k)) for k in range(24)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        refused = [answer for answer in answers.values() if answer.status != 200]
        assert len(refused) < 24
        for answer in refused:
            assert answer.status == 503 and "queue" in answer.json["error"] and answer.headers["Retry-After"]
        if refused:
            return
    pytest.fail("the queue was never full")


def test_requests_that_waited_too_long_are_refused(server):
    for _ in range(50):  # until one has to wait
        answers = {}
        threads = [threading.Thread(target=ask_slow, args=(server, answers, k), kwargs={"timeout": 1000} if k % 2 else {}) for k in range(6)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        assert all(answers[k].status == 200 for k in (0, 2, 4))
        late = [answers[k] for k in (1, 3, 5) if answers[k].status != 200]
        assert all(answer.status == 503 and "timeout" in answer.json["error"] for answer in late)
        if late:
            return
    pytest.fail("none was refused")


def test_abandoned_requests_do_not_run(server):
    def cancelled():
        return sum(int(line.split()[-1]) for line in server.metrics().splitlines() if 'model="slow"' in line and "CANCELED" in line)

    before = cancelled()
    body, headers = binary_request(slow_rows())
    for _ in range(50):  # until one leaves while another runs
        threads = [threading.Thread(target=ask_slow, args=(server, {}, k)) for k in range(2)]
        [thread.start() for thread in threads]
        for _ in range(3):
            connection = server.connect()
            connection.request("POST", "/v2/models/slow/infer", body, headers)
            connection.close()
        [thread.join() for thread in threads]
        if cancelled() > before:
            return
    pytest.fail("every abandoned request was run")


def test_priorities_are_the_models(server):
    """Which goes first is request_queue_test.cpp's matter."""
    answers = {}
    for priority in (1, 2, 3):
        ask_slow(server, answers, priority, priority=priority)
    assert [answers[priority].status for priority in (1, 2, 3)] == [200, 200, 400]
    assert "priority" in answers[3].json["error"]


def test_instances_and_latency_goal(tmp_path, cache):
    add_model(tmp_path, "m", slow_net(1), """max_batch_size: 64 dynamic_batching {} instance_group { count: 2 }
        parameters { key: "latency_goal_ms" value { string_value: "40" } }
        model_warmup { name: "one" batch_size: 2 inputs { key: "x" value { dims: 1024 data_type: TYPE_FP32 random_data: true } } }""")
    server = Server(tmp_path, cache)
    x = np.ones((1, SIZE), np.float32)
    answers = []

    def ask():
        connection = server.connect()
        for _ in range(20):
            answers.append(server.infer("m", x, connection=connection).status)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert answers == [200] * 120
    about = server.ask("GET", "/v2/models/m/batches?limit=500").json
    assert about["instances"] == 2 and about["latency_goal_ms"] == 40
    assert sum(one["rows"] for one in about["batches"]) == 120
    assert {one["instance"] for one in about["batches"]} <= {0, 1}
    assert server.end() == 0
