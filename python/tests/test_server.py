# SPDX-License-Identifier: Apache-2.0
"""`camshaft serve` from the wheel camshaft-server."""
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

camshaft_server = pytest.importorskip("camshaft_server")


def test_the_command_becomes_the_server(tmp_path, matmul):
    proto, weights = matmul
    folder = tmp_path / "models/net/1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    command = [sys.executable, "-m", "camshaft", "serve", str(tmp_path / "models"), "--http", "0", "--grpc", "0", "--metrics", "-1", "--measure-ms", "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert os.path.exists(camshaft_server.get_program_path())
        said, port = "", None
        for line in process.stdout:
            said += line
            if found := re.match(r"HTTP at http://127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
            if line == "ready\n":
                break
        assert port and "gRPC at" in said, said
        assert os.readlink(f"/proc/{process.pid}/exe") == os.path.realpath(camshaft_server.get_program_path())
        x = np.random.default_rng(0).standard_normal((3, 16)).astype("f")
        body = {"inputs": [{"name": "x", "shape": [3, 16], "datatype": "FP32", "data": x.ravel().tolist()}]}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/net/infer", json.dumps(body).encode(), timeout=60) as answer:
            outputs = {tensor["name"]: np.reshape(tensor["data"], tensor["shape"]) for tensor in json.load(answer)["outputs"]}
        np.testing.assert_allclose(outputs["y"], x @ weights, rtol=1e-4, atol=1e-4)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_help_lists_it_and_without_the_wheel_says_where_it_is():
    listed = subprocess.run([sys.executable, "-m", "camshaft", "help"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^\s+serve\s", listed, re.M)
    hidden = "import sys; sys.modules['camshaft_server'] = None; sys.argv = ['camshaft', 'serve', '.']; from camshaft.programs import camshaft; sys.exit(camshaft())"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install camshaft-server" in done.stderr
