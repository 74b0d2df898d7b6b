# SPDX-License-Identifier: Apache-2.0
"""Damaged messages by the thousand (fuzz_serve), and that it would notice a server that does not speak the protocol."""
import os
import socket
import subprocess
import threading

import pytest

from conftest import BIN

COUNT = int(os.environ.get("CAMSHAFT_FUZZ_COUNT", 5000))


def fuzz(what, port, count):
    if not (BIN / "fuzz_serve").exists():
        pytest.skip(f"{BIN / 'fuzz_serve'} is not built: no gRPC")
    process = subprocess.run([str(BIN / "fuzz_serve"), what, "--port", str(port), "--count", str(count)], capture_output=True, text=True, timeout=600)
    return process.returncode, process.stdout + process.stderr


@pytest.mark.parametrize("what", ["http", "grpc"])
def test_damaged_messages(server, what):
    name = {"http": "HTTP", "grpc": "gRPC"}[what]
    if name not in server.ports:
        pytest.skip("the server was built without gRPC")
    code, text = fuzz(what, server.ports[name], COUNT)
    assert code == 0, text
    assert server.process.poll() is None


class Liar(threading.Thread):
    """Answers every connection with the same bytes, whatever it is asked."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer, self.socket = answer, socket.create_server(("127.0.0.1", 0), backlog=128)

    def run(self):
        while self.socket.fileno() >= 0:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return  # closed: the test is over
            with connection:
                connection.settimeout(10)
                try:
                    connection.recv(65536)
                    connection.sendall(self.answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                except OSError:
                    pass


@pytest.mark.parametrize("what, answer, word", [
    ("http", b"hello", "no HTTP"),
    ("http", b"HTTP/1.1 200 OK\r\n\r\n", "no Content-Length"),
    ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "less than Content-Length"),
    ("http", b"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno", "400 without an error"),
    ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more", "no HTTP"),
    ("grpc", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "does not answer"),
])
def test_what_is_not_the_protocol_is_noticed(what, answer, word):
    liar = Liar(answer)
    liar.start()
    code, text = fuzz(what, liar.socket.getsockname()[1], 8)
    liar.socket.close()
    assert code == 1 and word in text, text
