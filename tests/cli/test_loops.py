# SPDX-License-Identifier: Apache-2.0
"""Loops as exporters of imperative code write them, against numpy."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

X = np.arange(12, dtype=np.float32).reshape(2, 6) - 3


def while_loop(i_shape, initial, condition):
    """A row of x, doubled, is the state `last` after every pass; before the first it is a placeholder of another rank."""
    def value(name, type, shape):
        return helper.make_tensor_value_info(name, type, shape)
    body = helper.make_graph(
        [helper.make_node("Gather", ["x", "k"], ["row"], name="row"), helper.make_node("Add", ["row", "row"], ["next_last"], name="twice"),
         helper.make_node("Add", ["k", "one"], ["next_k"], name="count"), helper.make_node("Less", ["next_k", "two"], ["goes_on"], name="test")],
        "body", [value("i", TensorProto.INT64, i_shape), value("c", TensorProto.BOOL, []), value("last", TensorProto.FLOAT, [6]),
                 value("k", TensorProto.INT64, [])],
        [value("goes_on", TensorProto.BOOL, []), value("next_last", TensorProto.FLOAT, [6]), value("next_k", TensorProto.INT64, [])])
    nodes = [helper.make_node("Less", ["zero", "two"], ["starts"], name="starts")] if condition == "computed" else []
    nodes += [helper.make_node("Loop", ["most", "starts", "nothing", "zero"], ["last_row", "passes"], name="loop", body=body),
              helper.make_node("Softmax", ["last_row"], ["y"], name="softmax", axis=-1)]
    numbers = [helper.make_tensor(name, TensorProto.INT64, [], [n]) for name, n in (("zero", 0), ("one", 1), ("two", 2))]
    numbers += [helper.make_tensor("most", TensorProto.INT64, [1], [1024]), helper.make_tensor("nothing", TensorProto.FLOAT, np.shape(initial), np.ravel(initial))]
    if condition == "constant":
        numbers.append(helper.make_tensor("starts", TensorProto.BOOL, [], [True]))
    inputs = [value("x", TensorProto.FLOAT, [2, 6])] + ([value("starts", TensorProto.BOOL, [])] if condition == "input" else [])
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None), value("passes", TensorProto.INT64, None)], numbers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


@pytest.mark.parametrize("i_shape", [[], [1]])
@pytest.mark.parametrize("condition", ["constant", "computed"])
def test_a_placeholder_of_another_rank(camshaft, tmp_path, i_shape, condition):
    (tmp_path / "m.onnx").write_bytes(while_loop(i_shape, 0.0, condition).SerializeToString())
    e = np.exp(2 * X[1] - (2 * X[1]).max())
    np.savez(tmp_path / "d.npz", x=X, y=e / e.sum(), passes=np.int64(2))
    result = camshaft("run", "m.onnx", "--data", "d.npz")
    assert result.code == 0, result.out + result.err


def test_a_loop_that_may_not_start_has_no_rank(camshaft, tmp_path):
    (tmp_path / "m.onnx").write_bytes(while_loop([], 0.0, "input").SerializeToString())
    np.savez(tmp_path / "d.npz", x=X, starts=np.bool_(True))
    result = camshaft("run", "m.onnx", "--data", "d.npz")
    assert result.code == 1 and 'node softmax (Softmax): the rank of input "last_row" is not known before it runs' in result.err, result.err
