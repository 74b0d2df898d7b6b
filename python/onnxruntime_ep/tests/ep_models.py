# SPDX-License-Identifier: Apache-2.0
"""Small networks and sessions for the tests of the execution provider."""
import os
import pathlib
import re

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime", reason="no onnxruntime here: the execution provider is not tested")
ep = pytest.importorskip("onnxruntime_ep_camshaft", reason="onnxruntime_ep_camshaft is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

VERSION = tuple(int(part) for part in re.findall(r"\d+", ort.__version__)[:2])
if VERSION < (1, 23):
    pytest.skip(f"onnxruntime {ort.__version__} has no plugin interface: 1.23 is needed", allow_module_level=True)

NAME = ep.get_ep_name()
ROOT = pathlib.Path(__file__).resolve().parents[3]
since = lambda minor, what: pytest.mark.skipif(VERSION < (1, minor), reason=f"onnxruntime {ort.__version__}: {what} since 1.{minor}")  # noqa: E731

ort.register_execution_provider_library("camshaft", ep.get_library_path())


def devices():
    return [device for device in ort.get_ep_devices() if device.ep_name == NAME]


def session_options(threads=1, **entries):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in entries.items():
        options.add_session_config_entry(key.replace("__", "."), value)
    return options


def open_session(model, options=None, **ep_options):
    """A session of this provider, that does not fall back."""
    options = options or session_options()
    ep_options = {"optimization_level": "0", **ep_options}
    options.add_provider_for_devices(devices(), {key: str(value) for key, value in ep_options.items()})
    session = ort.InferenceSession(as_source(model), options, enable_fallback=0)
    session.disable_fallback()
    assert session.get_providers()[0] == NAME
    return session


def cpu_run(model, feed):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(as_source(model), options, providers=["CPUExecutionProvider"]).run(None, feed)


def as_source(model):
    return model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)


def assigned(session):
    """Provider name to the names of its nodes; None where the version does not tell."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    result = {}
    for part in session.get_provider_graph_assignment_info():
        result.setdefault(part.ep_name, []).append([node.name for node in part.get_nodes()])
    return result


def assert_whole(session):
    parts = assigned(session)
    assert parts is None or (set(parts) == {NAME} and len(parts[NAME]) == 1), parts


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def conv_relu(shape=(1, 3, 8, 8)):
    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype("f")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"], "relu")]
    return model(nodes, [value("x", TensorProto.FLOAT, list(shape))], [value("y", TensorProto.FLOAT, None)], {"w": weights})


def image(*shape):
    return np.random.default_rng(3).standard_normal(shape or (1, 3, 8, 8)).astype("f")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    # The library reads the environment of the process.
    monkeypatch.setitem(os.environ, "CAMSHAFT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"
