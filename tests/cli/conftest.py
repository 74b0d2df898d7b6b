# SPDX-License-Identifier: Apache-2.0
"""Programs under test and the small networks they are fed."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tiny_onnx as onnx  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin"))


class Result:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    @property
    def lines(self):
        return self.out.splitlines()


def run(program, *words, cwd=None, env=None):
    if not (BIN / program).exists():
        pytest.skip(f"{BIN / program} is not built")
    process = subprocess.run([str(BIN / program), *map(str, words)], capture_output=True, text=True, timeout=300, cwd=cwd,
                             env={**os.environ, **(env or {})})
    return Result(process)


@pytest.fixture
def camexec(tmp_path):
    return lambda *words, **kw: run("camexec", *words, cwd=kw.pop("cwd", tmp_path), **kw)


@pytest.fixture
def camshaft(tmp_path):
    return lambda *words, **kw: run("camshaft", *words, cwd=kw.pop("cwd", tmp_path), **kw)


def weights():
    rng = np.random.default_rng(1)
    return (rng.standard_normal((8, 3, 3, 3)).astype(np.float32), rng.standard_normal(8).astype(np.float32))


def conv_net(batch=1):
    """Conv 3x3 + bias -> Relu, named as an exporter would; `batch` may be a symbol."""
    w, b = weights()
    nodes = [onnx.node("Conv", ["x", "w", "b"], ["c"], "conv1", [onnx.ints_attribute("pads", [1, 1, 1, 1]),
                                                                onnx.ints_attribute("kernel_shape", [3, 3])]),
             onnx.node("Relu", ["c"], ["y"], "relu1")]
    return onnx.model(nodes, [onnx.value_info("x", [batch, 3, 16, 16])], [onnx.value_info("y", [batch, 8, 16, 16])],
                      [onnx.tensor("w", w), onnx.tensor("b", b)])


def conv_reference(x):
    w, b = weights()
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.zeros((x.shape[0], 8, 16, 16)) + b[None, :, None, None]
    for kh in range(3):
        for kw in range(3):
            y += np.einsum("ncij,oc->noij", padded[:, :, kh:kh + 16, kw:kw + 16], w[:, :, kh, kw])
    return np.maximum(y, 0).astype(np.float32)


@pytest.fixture
def conv_file(tmp_path):
    path = tmp_path / "conv.onnx"
    path.write_bytes(conv_net())
    return path


@pytest.fixture
def dynamic_file(tmp_path):
    path = tmp_path / "dynamic.onnx"
    path.write_bytes(conv_net("batch"))
    return path


@pytest.fixture
def example_input():
    return np.random.default_rng(2).standard_normal((1, 3, 16, 16)).astype(np.float32)
