# SPDX-License-Identifier: Apache-2.0
"""Ranges, sizes and scales that are inputs: known when the network runs, others in every run."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402


def value(name, type, shape):
    return helper.make_tensor_value_info(name, type, shape)


def run(camshaft, tmp_path, nodes, inputs, sets, numbers=()):
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None)], list(numbers))
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    data = []
    for k, arrays in enumerate(sets):
        np.savez(tmp_path / f"{k}.npz", **arrays)
        data += ["--data", f"{k}.npz"]
    result = camshaft("run", "m.onnx", *data)
    assert result.code == 0, result.out + result.err


X = np.random.default_rng(3).standard_normal((2, 5, 24, 32)).astype(np.float32)


# Of an input, where one piece is a view; of what a layer made, where it is a copy.
@pytest.mark.parametrize("of", ["x", "made"])
def test_slices(camshaft, tmp_path, of):
    ranges = [((0, 0), (2, 5), (0, 1), (1, 1)), ((1, 2), (2, 4), (0, 1), (1, 1)), ((-1, -1), (-9, -100), (2, 3), (-2, -3)), ((1, -3), (2**62, 2**62), (0, 1), (1, 1)),
              ((1, 0), (2, 24), (0, 2), (1, 1)), ((3, 3), (3, 9), (1, 2), (1, 1)), ((1, 2), (2, 4), (0, 1), (1, 1)), ((0, 4), (1, 20), (0, 2), (1, 3))]
    sets = []
    for starts, ends, axes, steps in ranges:
        index = [slice(None)] * 4
        for start, end, axis, step in zip(starts, ends, axes, steps):
            index[axis] = slice(start, None if step < 0 and end < -X.shape[axis] else end, step)
        y = np.abs(X if of == "x" else np.sin(X))[tuple(index)]
        sets.append({"x": X, "y": np.ascontiguousarray(y), **{name: np.array(v, dtype=np.int64) for name, v in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))}})
    nodes = [helper.make_node("Sin", ["x"], ["made"]), helper.make_node("Slice", [of, "starts", "ends", "axes", "steps"], ["part"]), helper.make_node("Abs", ["part"], ["y"])]
    run(camshaft, tmp_path, nodes if of == "made" else nodes[1:],
        [value("x", TensorProto.FLOAT, X.shape)] + [value(name, TensorProto.INT64, [2]) for name in ("starts", "ends", "axes", "steps")], sets)


def repeated(times):
    return X.repeat(times[2], 2).repeat(times[3], 3)


@pytest.mark.parametrize("told", ["sizes", "scales"])
def test_resizes(camshaft, tmp_path, told):
    sets = []
    for times in ((1, 1, 2, 3), (1, 1, 1, 1), (1, 1, 4, 1), (1, 1, 2, 3)):
        told_value = np.array(X.shape, dtype=np.int64) * times if told == "sizes" else np.array(times, dtype=np.float32)
        sets.append({"x": X, told: told_value, "y": repeated(times)})
    node = helper.make_node("Resize", ["x", "", "", "sizes"] if told == "sizes" else ["x", "", "scales"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    run(camshaft, tmp_path, [node], [value("x", TensorProto.FLOAT, X.shape), value(told, TensorProto.INT64 if told == "sizes" else TensorProto.FLOAT, [4])], sets)


# Of constants, of inputs, and of what a layer makes.
@pytest.mark.parametrize("of", ["constants", "inputs", "made"])
@pytest.mark.parametrize("name", ["float", "double", "int16", "int32", "int64"])
def test_numbers_in_a_range(camshaft, tmp_path, of, name):
    names = ("start", "limit", "delta")
    type, kind = getattr(TensorProto, name.upper()), np.dtype({"float": "float32", "double": "float64"}.get(name, name))
    steps = [(0, 1, 0.3), (0.1, -0.75, -0.25), (0, 1e-9, 1e-10), (5, 0, 1)] if kind.kind == "f" else [(0, 7, 2), (100, -30, -9), (3, 3, 1)]
    for case in (steps if of == "constants" else [None]):
        sets = [{**{name: kind.type(v) for name, v in zip(names, step)}, "y": np.arange(*(kind.type(v) for v in step), dtype=kind).astype(np.float32)} for step in ([case] if case else steps)]
        for arrays in sets:  # numpy's own count is of doubles: the standard's is ceil((limit - start) / delta)
            start, limit, delta = (float(arrays[name]) for name in names)
            arrays["y"] = (start + np.arange(max(np.ceil((limit - start) / delta), 0)) * delta).astype(kind).astype(np.float32)
        nodes = [helper.make_node("Range", list(names), ["r"]), helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT)]
        if of == "made":
            nodes[0] = helper.make_node("Range", ["start", "limit", "twice"], ["r"])
            nodes = [helper.make_node("Cast", ["delta"], ["wide"], to=TensorProto.DOUBLE), helper.make_node("Neg", ["wide"], ["less"]), helper.make_node("Neg", ["less"], ["same"]),
                     helper.make_node("Cast", ["same"], ["twice"], to=type)] + nodes
        numbers = [helper.make_tensor(name, type, [], [float(sets[0][name]) if kind.kind == "f" else int(sets[0][name])]) for name in names] if of == "constants" else []
        inputs = [value("unused", TensorProto.FLOAT, [1])] if of == "constants" else [value(name, type, []) for name in names]
        if of == "constants":
            sets = [{"unused": np.zeros(1, np.float32), "y": sets[0]["y"]}]
        run(camshaft, tmp_path, nodes, inputs, sets, numbers)


def test_ranges_of_unequal_length_are_one_error(camshaft, tmp_path):
    nodes = [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"], name="cut")]
    inputs = [value("x", TensorProto.FLOAT, X.shape), value("starts", TensorProto.INT64, ["N"]), value("ends", TensorProto.INT64, ["M"]), value("axes", TensorProto.INT64, ["K"])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None)])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    np.savez(tmp_path / "d.npz", x=X, starts=np.array([0, 0]), ends=np.array([1]), axes=np.array([0]))
    result = camshaft("run", "m.onnx", "--data", "d.npz", "--min-shapes", "starts:1,ends:1,axes:1", "--opt-shapes", "starts:1,ends:1,axes:1", "--max-shapes", "starts:4,ends:4,axes:4")
    assert result.code == 1 and "differ in length" in result.err and "cut" in result.err, result.out + result.err
