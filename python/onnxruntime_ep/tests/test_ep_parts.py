# SPDX-License-Identifier: Apache-2.0
"""What is taken of networks that cannot be taken whole, and of control flow."""
import numpy as np
import pytest
from ep_models import (NAME, TensorProto, assert_whole, assigned, cache_folder, cpu_run, helper, model, onnx, open_session, since,  # noqa: F401
                       value)

CPU = "CPUExecutionProvider"


def chain(names, first, last):
    """Elementwise nodes one after another."""
    ops = ["Neg", "Abs", "Relu", "Exp"]
    values = [first, *(f"{name}_out" for name in names[:-1]), last]
    return [helper.make_node(ops[k % 4], [values[k]], [values[k + 1]], name) for k, name in enumerate(names)]


def with_strings():
    """a → text → back in the middle: operators on strings are nobody's but ONNX Runtime's."""
    nodes = [*chain(["a1", "a2", "a3"], "x", "a"), helper.make_node("Cast", ["a"], ["s"], "to_text", to=TensorProto.STRING),
             helper.make_node("Cast", ["s"], ["b"], "from_text", to=TensorProto.FLOAT), *chain(["b1", "b2", "b3"], "b", "y")]
    return model(nodes, [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])


def test_parts_around_what_is_not_supported(capfd):
    session = open_session(with_strings())
    logged = capfd.readouterr().err
    x = np.array([1, -2, 3], "f")
    np.testing.assert_allclose(session.run(None, {"x": x})[0], cpu_run(with_strings(), {"x": x})[0], rtol=1e-5)
    assert "takes 6 of 8 nodes" in logged and "node to_text (Cast): s: element type STRING" in logged
    parts = assigned(session)
    if parts is not None:
        assert sorted(map(sorted, parts[NAME])) == [["a1", "a2", "a3"], ["b1", "b2", "b3"]]
        left = sorted(name for part in parts[CPU] for name in part)
        assert left == ["from_text", "to_text"]
        assert all(f"node {name} (" in logged for name in left)


def test_short_parts_are_left_and_said(capfd):
    session = open_session(with_strings(), min_nodes=4)
    logged = capfd.readouterr().err
    assert "takes 0 of 8 nodes" in logged and "there are only 3 of the 4 such nodes" in logged
    x = np.array([1, -2, 3], "f")
    np.testing.assert_allclose(session.run(None, {"x": x})[0], cpu_run(with_strings(), {"x": x})[0], rtol=1e-5)


def test_outputs_of_parts_are_used_twice():
    nodes = [*chain(["a1", "a2", "a3"], "x", "a"), helper.make_node("Cast", ["a"], ["s"], "to_text", to=TensorProto.STRING),
             helper.make_node("Cast", ["s"], ["b"], "from_text", to=TensorProto.FLOAT), helper.make_node("Add", ["a", "b"], ["c"], "add"),
             *chain(["c1", "c2"], "c", "y")]
    network = model(nodes, [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, [2, 3]), value("a", TensorProto.FLOAT, [2, 3])])
    x = np.random.default_rng(1).standard_normal((2, 3)).astype("f")
    session = open_session(network)
    for result, expected in zip(session.run(None, {"x": x}), cpu_run(network, {"x": x})):
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def branch(name, nodes, output):
    return helper.make_graph(nodes, name, [], [value(output, TensorProto.FLOAT, None)])


def if_network(strings=False):
    then_nodes = [helper.make_node("Mul", ["a", "x"], ["t"], "then_mul")]
    if strings:
        then_nodes = [helper.make_node("Cast", ["a"], ["s"], "to_text", to=TensorProto.STRING),
                      helper.make_node("Cast", ["s"], ["t0"], "from_text", to=TensorProto.FLOAT), *chain(["t1", "t2", "t3"], "t0", "t")]
    else_nodes = [helper.make_node("Sub", ["a", "w"], ["e"], "else_sub")]
    nodes = [helper.make_node("Relu", ["x"], ["a"], "relu"),
             helper.make_node("If", ["c"], ["i"], "choose", then_branch=branch("then", then_nodes, "t"), else_branch=branch("else", else_nodes, "e")),
             helper.make_node("Abs", ["i"], ["y"], "abs")]
    return model(nodes, [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, [4])],
                 {"w": np.arange(4, dtype="f")})


@pytest.mark.parametrize("truth", [False, True])
def test_if_is_one_with_what_surrounds_it(truth):
    session = open_session(if_network())
    assert_whole(session)
    feed = {"c": np.array(truth), "x": np.array([1, -2, 3, -4], "f")}
    np.testing.assert_allclose(session.run(None, feed)[0], cpu_run(if_network(), feed)[0], rtol=1e-6)


@pytest.mark.parametrize("truth", [False, True])
def test_a_branch_that_cannot_be_taken_is_taken_in_parts(truth):
    session = open_session(if_network(strings=True), min_nodes=1)
    feed = {"c": np.array(truth), "x": np.array([1, -2, 3, -4], "f")}
    np.testing.assert_allclose(session.run(None, feed)[0], cpu_run(if_network(strings=True), feed)[0], rtol=1e-6)


def test_loop_is_one():
    body = helper.make_graph([helper.make_node("Add", ["v", "x"], ["v2"], "add"), helper.make_node("Identity", ["go"], ["go2"], "keep"),
                              helper.make_node("Mul", ["v2", "v2"], ["scan"], "square")], "body",
                             [value("k", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, [3])],
                             [value("go2", TensorProto.BOOL, []), value("v2", TensorProto.FLOAT, [3]), value("scan", TensorProto.FLOAT, [3])])
    network = model([helper.make_node("Loop", ["n", "", "x"], ["last", "all"], "loop", body=body)],
                    [value("n", TensorProto.INT64, []), value("x", TensorProto.FLOAT, [3])],
                    [value("last", TensorProto.FLOAT, [3]), value("all", TensorProto.FLOAT, ["n", 3])])
    session = open_session(network)
    assert_whole(session)
    for count in (0, 1, 5):
        feed = {"n": np.array(count), "x": np.array([1, 2, 3], "f")}
        for result, expected in zip(session.run(None, feed), cpu_run(network, feed)):
            np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_functions_of_the_model():
    square = helper.make_function("mine", "Square", ["p"], ["q"], [helper.make_node("Mul", ["p", "p"], ["q"], "mul")], [helper.make_opsetid("", 17)])
    graph = helper.make_graph([helper.make_node("Square", ["x"], ["s"], "square", domain="mine"), helper.make_node("Relu", ["s"], ["y"], "relu")],
                              "g", [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)], functions=[square], ir_version=8)
    session = open_session(network)
    np.testing.assert_array_equal(session.run(None, {"x": np.array([1, -2, 3], "f")})[0], [1, 4, 9])
