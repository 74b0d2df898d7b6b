# SPDX-License-Identifier: Apache-2.0
"""Triton's own Python clients against the server, over HTTP and gRPC."""
import os
import queue
import subprocess

import numpy as np
import pytest

from conftest import add_model, linear_net, weights, Server, SIZE

http = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed (scripts/test_serve.sh installs it)")
grpc = pytest.importorskip("tritonclient.grpc", reason="tritonclient[grpc] is not installed (scripts/test_serve.sh installs it)")

X = np.arange(8, dtype=np.float32).reshape(2, 4) / 3


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    if request.param == "http":
        return http, http.InferenceServerClient(f"127.0.0.1:{server.ports['HTTP']}")
    if "gRPC" not in server.ports:
        pytest.skip("built without gRPC")
    return grpc, grpc.InferenceServerClient(f"127.0.0.1:{server.ports['gRPC']}")


def x_input(module, array=X):
    value = module.InferInput("x", list(array.shape), "FP32")
    value.set_data_from_numpy(array)
    return value


def test_state(client):
    _, c = client
    assert c.is_server_live() and c.is_server_ready() and c.is_model_ready("linear") and not c.is_model_ready("none")


def test_descriptions(client):
    module, c = client
    kinds = {} if module is http else {"as_json": True}
    assert "statistics" in c.get_server_metadata(**kinds)["extensions"]
    assert c.get_model_metadata("linear", **kinds)["inputs"][0]["name"] == "x"
    config = c.get_model_config("linear", **kinds)
    assert (config if module is http else config["config"])["max_batch_size"] == 16
    stats = c.get_inference_statistics("linear", **kinds)["model_stats"][0]
    assert stats["name"] == "linear"
    index = c.get_model_repository_index(**kinds)
    assert {"linear", "slow"} <= {one["name"] for one in (index if module is http else index["models"])}


def test_infer(client):
    module, c = client
    result = c.infer("linear", [x_input(module)], outputs=[module.InferRequestedOutput("y")], request_id="7")
    np.testing.assert_allclose(result.as_numpy("y"), X @ weights(), rtol=1e-5)
    assert (result.get_response()["id"] if module is http else result.get_response().id) == "7"
    top = c.infer("linear", [x_input(module)], outputs=[module.InferRequestedOutput("y", class_count=1)]).as_numpy("y")
    assert [int(row[0].split(b":")[1]) for row in top] == (X @ weights()).argmax(1).tolist()


def test_errors(client):
    module, c = client
    wrong = module.InferInput("x", [2, 4], "FP32")
    with pytest.raises(Exception, match="NOT_FOUND|404"):
        c.infer("none", [x_input(module)])
    wrong.set_data_from_numpy(X)
    wrong.set_shape([3, 4])
    with pytest.raises(Exception, match="takes 48"):
        c.infer("linear", [wrong])


def test_asynchronous(client):
    module, c = client
    if module is http:
        pending = [c.async_infer("linear", [x_input(module)]) for _ in range(20)]
        results = [one.get_result() for one in pending]
    else:
        done = queue.Queue()
        for _ in range(20):
            c.async_infer("linear", [x_input(module)], callback=lambda result, error: done.put((result, error)))
        results = [done.get(timeout=20) for _ in range(20)]
        assert not any(error for _, error in results)
        results = [result for result, _ in results]
    for result in results:
        np.testing.assert_allclose(result.as_numpy("y"), X @ weights(), rtol=1e-5)


def test_load_and_unload(client):
    _, c = client
    c.unload_model("lookup")
    assert not c.is_model_ready("lookup")
    c.load_model("lookup")
    assert c.is_model_ready("lookup")
    with pytest.raises(Exception):
        c.load_model("none")


def grpc_client(server):
    if "gRPC" not in server.ports:
        pytest.skip("built without gRPC")
    return grpc.InferenceServerClient(f"127.0.0.1:{server.ports['gRPC']}")


def test_stream_keeps_its_order(server):
    c, got = grpc_client(server), queue.Queue()
    c.start_stream(lambda result, error: got.put((result, error)))
    for k in range(300):
        c.async_stream_infer("none" if k == 7 else "linear", [x_input(grpc, X + k)], request_id=str(k))
    answers = [got.get(timeout=20) for _ in range(300)]
    c.stop_stream()
    assert [k for k, (_, error) in enumerate(answers) if error] == [7]
    assert [result.get_response().id for result, error in answers if not error] == [str(k) for k in range(300) if k != 7]
    np.testing.assert_allclose(answers[9][0].as_numpy("y"), (X + 9) @ weights(), rtol=1e-5)


def test_typed_contents_and_deadline(server):
    from tritonclient.grpc import service_pb2, service_pb2_grpc
    import grpc as wire
    grpc_client(server)
    stub = service_pb2_grpc.GRPCInferenceServiceStub(wire.insecure_channel(f"127.0.0.1:{server.ports['gRPC']}"))
    message = service_pb2.ModelInferRequest(model_name="linear")
    message.inputs.add(name="x", datatype="FP32", shape=[2, 4]).contents.fp32_contents.extend(X.ravel().tolist())
    answer = stub.ModelInfer(message)
    np.testing.assert_allclose(np.frombuffer(answer.raw_output_contents[0], "f").reshape(2, 3), X @ weights(), rtol=1e-5)
    indices = service_pb2.ModelInferRequest(model_name="lookup")
    indices.inputs.add(name="i", datatype="INT64", shape=[1]).contents.int64_contents.append(99)
    with pytest.raises(wire.RpcError):
        stub.ModelInfer(indices)
    slow = service_pb2.ModelInferRequest(model_name="slow", raw_input_contents=[np.zeros((256, SIZE), "f").tobytes()])
    slow.inputs.add(name="x", datatype="FP32", shape=[256, SIZE])
    with pytest.raises(wire.RpcError) as late:
        stub.ModelInfer(slow, timeout=1e-3)
    assert late.value.code() == wire.StatusCode.DEADLINE_EXCEEDED


def test_mutated_messages(server):
    """Bytes that are no message, or a wrong one: a status, never the end of the server."""
    import random

    from tritonclient.grpc import service_pb2
    import grpc as wire
    grpc_client(server)
    channel = wire.insecure_channel(f"127.0.0.1:{server.ports['gRPC']}")
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    message = service_pb2.ModelInferRequest(model_name="linear", raw_input_contents=[X.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=[2, 4])
    good, rng, codes = message.SerializeToString(), random.Random(int(os.environ.get("CAMSHAFT_FUZZ_SEED", 5))), set()
    for _ in range(int(os.environ.get("CAMSHAFT_FUZZ_COUNT", 2000))):
        data = bytearray(good)
        for _ in range(rng.choice((1, 2, 4))):
            at = rng.randrange(len(data))
            data[at:at + rng.randrange(0, 3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(0, 3)))
        try:
            call(bytes(data), timeout=20)
            codes.add("ok")
        except wire.RpcError as error:
            codes.add(error.code().name)
    assert server.process.poll() is None and {"ok", "INVALID_ARGUMENT"} <= codes
    assert codes <= {"ok", "INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "UNIMPLEMENTED", "UNAVAILABLE"}


def test_grpc_token_and_tls(tmp_path, cache):
    import grpc as wire
    add_model(tmp_path, "linear", linear_net())
    (tmp_path / "token").write_text("secret")
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                           "subjectAltName=DNS:localhost", "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")],
                          capture_output=True)
    if made.returncode != 0:
        pytest.skip("no openssl to make a certificate with")
    server = Server(tmp_path, cache, "--token-file", tmp_path / "token", "--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem")
    grpc_client(server)
    credentials = wire.ssl_channel_credentials((tmp_path / "cert.pem").read_bytes())
    c = grpc.InferenceServerClient(f"localhost:{server.ports['gRPC']}", ssl=True, creds=credentials)
    assert c.is_server_ready()
    with pytest.raises(Exception, match="UNAUTHENTICATED"):
        c.infer("linear", [x_input(grpc)])
    result = c.infer("linear", [x_input(grpc)], headers={"authorization": "Bearer secret"})
    np.testing.assert_allclose(result.as_numpy("y"), X @ weights(), rtol=1e-5)
    c.close()
    assert server.end() == 0
