# SPDX-License-Identifier: Apache-2.0
"""Small networks, a cache folder of each test's own."""
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
YOLOX = ROOT / "examples/models/yolox_nano/model.onnx"
PHOTO = ROOT / "examples/data/photo.png"


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAMSHAFT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=min(10, onnx.IR_VERSION))


@pytest.fixture
def conv():
    """Conv 3x3 and Relu, 1x3x8x8 to 1x4x8x8."""
    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype("f")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv1", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"], "relu1")]
    return model(nodes, [value("x", TensorProto.FLOAT, [1, 3, 8, 8])], [value("y", TensorProto.FLOAT, [1, 4, 8, 8])], {"w": weights})


@pytest.fixture
def matmul():
    """y = x @ w, batch x 16 to batch x 8; also z = |x|."""
    weights = np.random.default_rng(2).standard_normal((16, 8)).astype("f")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product"), helper.make_node("Abs", ["x"], ["z"], "abs")]
    proto = model(nodes, [value("x", TensorProto.FLOAT, ["batch", 16])],
                  [value("y", TensorProto.FLOAT, ["batch", 8]), value("z", TensorProto.FLOAT, ["batch", 16])], {"w": weights})
    return proto, weights


def identity(dtype, shape=("n", 4), opset=21):
    node = helper.make_node("Identity", ["x"], ["y"], "same")
    return model([node], [value("x", dtype, list(shape))], [value("y", dtype, list(shape))], opset=opset)


@pytest.fixture
def image():
    return np.random.default_rng(3).standard_normal((1, 3, 8, 8)).astype("f")
