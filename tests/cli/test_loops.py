# SPDX-License-Identifier: Apache-2.0
"""Loops as exporters of imperative code write them, against numpy."""
import json
import re

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


def loop_with_branches(rounds):
    """A state goes through Sin in the first two of the rounds, through Cos after them."""
    def value(name, type, shape):
        return helper.make_tensor_value_info(name, type, shape)
    def branch(op):
        return helper.make_graph([helper.make_node(op, ["s"], ["out"], name=op.lower())], op + "_branch", [], [value("out", TensorProto.FLOAT, [4, 6])])
    body = helper.make_graph(
        [helper.make_node("Less", ["i", "two"], ["early"], name="early"),
         helper.make_node("If", ["early"], ["branched"], name="branches", then_branch=branch("Sin"), else_branch=branch("Cos")),
         helper.make_node("Softmax", ["branched"], ["next_s"], name="softmax", axis=-1), helper.make_node("Identity", ["c"], ["goes_on"])],
        "rounds", [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("s", TensorProto.FLOAT, [4, 6])],
        [value("goes_on", TensorProto.BOOL, []), value("next_s", TensorProto.FLOAT, [4, 6])])
    numbers = [helper.make_tensor("rounds", TensorProto.INT64, [], [rounds]), helper.make_tensor("two", TensorProto.INT64, [], [2]),
               helper.make_tensor("true", TensorProto.BOOL, [], [True])]
    nodes = [helper.make_node("Loop", ["rounds", "true", "x"], ["last"], name="loop", body=body), helper.make_node("Exp", ["last"], ["y"], name="exp")]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [4, 6])], [value("y", TensorProto.FLOAT, [4, 6])], numbers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


@pytest.fixture
def looping(tmp_path):
    (tmp_path / "m.onnx").write_bytes(loop_with_branches(5).SerializeToString())


def test_layers_inside_are_profiled(camexec, looping, tmp_path):
    assert camexec("--onnx=m.onnx", "--saveEngine=m.engine", "--duration=0", "--exportProfile=p.json", "--dumpProfile").code == 0
    rows = json.loads((tmp_path / "p.json").read_text())[1:]
    loop = next(row for row in rows if row["name"] == "loop")
    calls = {row["name"]: row["calls"] for row in loop["layers"]}
    assert {name: calls[name] for name in ("PWN(sin)", "PWN(cos)", "softmax", "branches")} == {"PWN(sin)": 2, "PWN(cos)": 3, "softmax": 5, "branches": 5}
    assert abs(sum(row["percentage"] for row in rows) - 100) < 0.1
    inside = sum(row["averageMs"] for row in loop["layers"] if row["name"] not in ("PWN(sin)", "PWN(cos)"))
    assert 0 < inside < loop["averageMs"]
    text = camexec("--loadEngine=m.engine", "--duration=0", "--dumpProfile").out
    assert re.search(r"   loop\n.*     early ×5\n.*     branches ×5\n.*       PWN\(sin\) ×2\n", text), text


def test_layers_inside_are_told(camshaft, looping, tmp_path):
    text = camshaft("bench", "m.onnx", "--duration", "0", "--layers", "4").out
    assert re.search(r"loop .* its body", text) and re.search(r"  softmax ×5 .*softmax", text), text
    assert camshaft("build", "m.onnx", "-o", "m.engine").code == 0
    text = camshaft("explain", "m.engine", "loop").out
    assert "none of its own" in text and re.search(r"\n  branches +If +its body +rounds", text) and re.search(r"\n    PWN\(sin\) .* Sin_branch", text), text
    slow = camshaft("explain", "m.engine").out
    assert "loop (Loop)" not in slow, slow


def test_a_trace_shows_what_a_loop_ran(camshaft, looping, tmp_path):
    assert camshaft("run", "m.onnx", "--trace", "t.json").code == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    spans = {name: [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "cpu_op" and e["name"] == name] for name in ("loop", "PWN(cos)", "softmax")}
    assert len(spans["PWN(cos)"]) == 3 * len(spans["loop"]) and len(spans["softmax"]) == 5 * len(spans["loop"])
    assert all(any(first <= start and end <= last + 0.1 for first, last in spans["loop"]) for start, end in spans["PWN(cos)"])
    assert not any(e.get("cat") == "kernel" and e["args"]["Layer"] == "loop" for e in events)


# Of two states a and b and a row of x: what the next iteration gets.
GROWTHS = {
    "behind": (lambda a, b, row: (np.concatenate([a, row]), b), ["Concat(a,row)", "b"]),
    "both": (lambda a, b, row: (np.concatenate([a, row]), np.concatenate([b, row, row])), ["Concat(a,row)", "Concat(b,row,row)"]),
    "crossed": (lambda a, b, row: (np.concatenate([b, row]), np.concatenate([a, row])), ["Concat(b,row)", "Concat(a,row)"]),
    "before": (lambda a, b, row: (np.concatenate([row, a]), b), ["Concat(row,a)", "b"]),
    "and a reader": (lambda a, b, row: (np.concatenate([a, row]), np.concatenate([b, a.max(0, keepdims=True)])), ["Concat(a,row)", "Concat(b,largest)"]),
    "and itself": (lambda a, b, row: (np.concatenate([a, row]), a), ["Concat(a,row)", "a"]),
    "one for two": (lambda a, b, row: (np.concatenate([a, row]),) * 2, ["Concat(a,row)", "same"]),
    "behind itself": (lambda a, b, row: (np.concatenate([a, a])[:300], b), ["Slice(doubled)", "b"]),
}


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("late", [False, True])
def test_states_that_grow(camshaft, tmp_path, growth, late):
    def value(name, type, shape):
        return helper.make_tensor_value_info(name, type, shape)
    reference, (next_a, next_b) = GROWTHS[growth]
    nodes = [helper.make_node("Gather", ["x", "i"], ["g"], axis=0), helper.make_node("Unsqueeze", ["g", "zeros"], ["plain"])]
    if late:  # only running tells how many rows: all that are not zero, which is one
        nodes += [helper.make_node("ReduceMax", ["plain"], ["peak"], axes=[1], keepdims=0), helper.make_node("NonZero", ["peak"], ["where"]),
                  helper.make_node("Squeeze", ["where", "zeros"], ["chosen"]), helper.make_node("Gather", ["plain", "chosen"], ["row"], axis=0)]
    else:
        nodes.append(helper.make_node("Identity", ["plain"], ["row"]))
    nodes += [helper.make_node("ReduceMax", ["a"], ["largest"], axes=[0])] if growth == "and a reader" else []
    if growth == "behind itself":
        nodes.append(helper.make_node("Concat", ["a", "a"], ["doubled"], axis=0))
    outputs = []
    for result, text in zip(("next_a", "next_b"), (next_a, next_b)):
        if text.startswith("Concat"):
            nodes.append(helper.make_node("Concat", text[7:-1].split(","), [result], axis=0))
        elif text.startswith("Slice"):
            nodes.append(helper.make_node("Slice", ["doubled", "zeros", "most"], [result]))
        elif text == "same":
            outputs.append("next_a")
            continue
        else:
            nodes.append(helper.make_node("Identity", [text], [result]))
        outputs.append(result)
    body = helper.make_graph(nodes + [helper.make_node("Identity", ["c"], ["goes_on"])], "body",
                             [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("a", TensorProto.FLOAT, None), value("b", TensorProto.FLOAT, None)],
                             [value("goes_on", TensorProto.BOOL, [])] + [value(name, TensorProto.FLOAT, None) for name in outputs])
    numbers = [helper.make_tensor("true", TensorProto.BOOL, [], [True]), helper.make_tensor("zeros", TensorProto.INT64, [1], [0]),
               helper.make_tensor("most", TensorProto.INT64, [1], [300])]
    inputs = [value("x", TensorProto.FLOAT, ["N", 512]), value("n", TensorProto.INT64, []), value("a0", TensorProto.FLOAT, ["A", 512]), value("b0", TensorProto.FLOAT, ["B", 512])]
    graph = helper.make_graph([helper.make_node("Loop", ["n", "true", "a0", "b0"], ["y", "z"], name="loop", body=body)], "g", inputs,
                              [value("y", TensorProto.FLOAT, None), value("z", TensorProto.FLOAT, None)], numbers)
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7).SerializeToString())
    random = np.random.default_rng(1)
    data = []
    for k, (rounds, first) in enumerate(((7, 3), (0, 4), (9, 3), (7, 3), (5, 1))):
        x = np.abs(random.standard_normal((9, 512))).astype(np.float32) + 1
        a0, b0 = (random.standard_normal((first, 512)).astype(np.float32) for _ in range(2))
        a, b = a0, b0
        for i in range(rounds):
            a, b = reference(a, b, x[i:i + 1])
        np.savez(tmp_path / f"{k}.npz", x=x, n=np.int64(rounds), a0=a0, b0=b0, y=a, z=b)
        data += ["--data", f"{k}.npz"]
    result = camshaft("run", "m.onnx", *data, "--min-shapes", "x:9x512,a0:1x512,b0:1x512", "--opt-shapes", "x:9x512,a0:3x512,b0:3x512", "--max-shapes", "x:9x512,a0:4x512,b0:4x512")
    assert result.code == 0, result.out + result.err
