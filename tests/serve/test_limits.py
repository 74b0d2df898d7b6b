# SPDX-License-Identifier: Apache-2.0
"""Hostile input, limits, access."""
import http.client
import os
import random
import socket
import ssl
import subprocess
import time

import numpy as np
import pytest

from conftest import add_model, binary_request, linear_net, Server

X = np.zeros((1, 4), np.float32)
COUNT = int(os.environ.get("CAMSHAFT_FUZZ_COUNT", 3000))  # mutated requests; CAMSHAFT_FUZZ_SEED: others


def raw(server, data, wait=5, port="HTTP", closes=True):
    """What comes back for these bytes, until the server closes or stays silent. Who closes takes no interest in answers that
    have to be computed."""
    with socket.create_connection(("127.0.0.1", server.ports[port]), timeout=wait) as connection:
        out = b""
        try:
            connection.sendall(data)
            if closes:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                out += piece
        except OSError:
            pass
        return out


def request_bytes():
    body, headers = binary_request(X)
    lines = [f"{name}: {value}" for name, value in {**headers, "Host": "127.0.0.1", "Content-Length": len(body)}.items()]
    return ("POST /v2/models/linear/infer HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + body


def mutated(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(6)
        if kind == 0:
            data[at:at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del data[at:at + rng.randrange(1, 40)]
        elif kind == 2:
            data[at:at] = data[rng.randrange(len(data)):][:rng.randrange(1, 60)] if data else b""
        elif kind == 3:
            data[at:at] = rng.choice((b"-1", b"99999999999999999999", b"\0", b"[[[[", b'"', b"\r\n", b"1e999", b"\xff\xfe", b"null"))
        elif kind == 4:
            data[at:at + 1] = bytes([data[at] ^ 1 << rng.randrange(8)]) if data else b""
        else:
            data = data[:at]
    return bytes(data)


def test_mutated_requests(server):
    rng = random.Random(int(os.environ.get("CAMSHAFT_FUZZ_SEED", 7)))
    good, answered = request_bytes(), 0
    for _ in range(COUNT):
        answer = raw(server, mutated(good, rng))
        assert answer == b"" or answer.startswith(b"HTTP/1.1 "), answer[:100]
        answered += answer.startswith(b"HTTP/1.1 ")
        assert server.process.poll() is None, "\n".join(server.log)
    assert answered > COUNT / 2
    assert server.infer("linear", X).status == 200


def test_what_is_no_http(server):
    assert raw(server, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" * 20).startswith(b"HTTP/1.1 400")
    assert raw(server, b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 100000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
    assert raw(server, b"POST /v2/models/linear/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n").startswith(b"HTTP/1.1 413")
    assert raw(server, b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", port="metrics").startswith(b"HTTP/1.1 200")


def test_chunks_pipelines_and_expectations(server):
    body, headers = binary_request(X)
    head = f"POST /v2/models/linear/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {headers['Inference-Header-Content-Length']}\r\n"
    chunked = (head + f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n").encode() + body + b"\r\n0\r\n\r\n"
    assert raw(server, chunked * 3, 1, closes=False).count(b"HTTP/1.1 200 OK") == 3
    expecting = (head + f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
    answer = raw(server, expecting, 1, closes=False)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


def test_pages_of_other_sites_are_refused(server):
    assert server.ask("POST", "/v2/repository/models/linear/unload", headers={"Origin": "http://example.org"}).status == 403
    assert server.ask("GET", "/v2", headers={"Host": "example.org"}).status == 403
    assert server.infer("linear", X).status == 200


def test_bounds_of_bodies_memory_and_connections(tmp_path, cache):
    add_model(tmp_path, "linear", linear_net())
    server = Server(tmp_path, cache, "--max-body", 1, "--max-memory", 2, "--max-connections", 4)
    assert server.ask("POST", "/v2/models/linear/infer", b" " * (1 << 20)).status == 400
    assert server.ask("POST", "/v2/models/linear/infer", b" " * ((1 << 20) + 1)).status == 413
    open_head = b"POST /v2/models/linear/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n"
    holders = [socket.create_connection(("127.0.0.1", server.ports["HTTP"])) for _ in range(2)]
    for holder in holders:
        holder.sendall(open_head)
    time.sleep(0.3)
    assert server.infer("linear", X).status == 503  # two bodies of 1 MiB are announced
    for holder in holders:
        holder.close()
    time.sleep(0.3)
    assert server.infer("linear", X).status == 200
    idle = [socket.create_connection(("127.0.0.1", server.ports["HTTP"])) for _ in range(4)]
    time.sleep(0.3)
    assert raw(server, request_bytes()).startswith(b"HTTP/1.1 503")
    for connection in idle:
        connection.close()
    time.sleep(0.3)
    assert server.infer("linear", X).status == 200
    assert server.end() == 0


def test_token_and_tls(tmp_path, cache):
    add_model(tmp_path, "linear", linear_net())
    (tmp_path / "token").write_text("secret-7\n")
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout",
                           str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")], capture_output=True)
    if made.returncode != 0:
        pytest.skip("no openssl to make a certificate with")
    server = Server(tmp_path, cache, "--token-file", tmp_path / "token", "--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem")
    assert server.is_tls
    context = ssl._create_unverified_context()

    def ask(path, **headers):
        connection = http.client.HTTPSConnection("127.0.0.1", server.ports["HTTP"], context=context, timeout=20)
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status

    assert ask("/v2/health/ready") == 200
    assert ask("/v2") == 401 and ask("/v2", Authorization="Bearer secret-8") == 401 and ask("/v2", Authorization="secret-7") == 401
    assert ask("/v2", Authorization="Bearer secret-7") == 200
    assert b"200 OK" not in raw(server, request_bytes())  # plain text to a TLS port
    assert server.end() == 0


def test_options_that_are_wrong(camshaft_once, tmp_path):
    assert "no such folder" in camshaft_once("serve", tmp_path / "none")
    assert "usage: camshaft serve" in camshaft_once("serve", "--help", code=0)
    assert "belong together" in camshaft_once("serve", tmp_path, "--tls-cert", "x", "--http", 0, "--grpc", -1, "--metrics", -1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert "another program listens there" in camshaft_once("serve", tmp_path, "--http", port, "--grpc", -1, "--metrics", -1)


@pytest.fixture
def camshaft_once():
    from conftest import BIN

    def run(*words, code=1):
        process = subprocess.run([str(BIN / "camshaft"), *map(str, words)], capture_output=True, text=True, timeout=60)
        assert process.returncode == code, process.stderr
        return process.stdout + process.stderr

    return run
