# SPDX-License-Identifier: Apache-2.0
"""Sequences of tensors inside a network, which are taken apart before import: against numpy."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

X = np.arange(24, dtype=np.float32).reshape(4, 6) - 7
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split()[0] + "_node", **attributes)


def number(name, value, type=INT64, extents=()):
    return helper.make_tensor(name, type, extents, np.ravel(value).tolist())


def value(name, type=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, type, shape)


def sequence(name):
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


TWO_FLOATS = number("two_floats", 2.0, FLOAT)
NUMBERS = [number("zero", 0), number("one", 1), number("two", 2), number("three", 3), number("minus_one", -1),
           number("yes", True, BOOL)]


@pytest.fixture
def save(tmp_path):
    def save(nodes, outputs, initializers=()):
        graph = helper.make_graph(nodes, "g", [value("x", FLOAT, ["rows", 6]), value("n", INT64, [])], outputs,
                                  NUMBERS + list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return save


@pytest.fixture
def run(camshaft, save, tmp_path):
    """Runs a network of x and n and compares its outputs with the expected ones."""
    def run(nodes, n=2, initializers=(), **expected):
        types = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64}
        save(nodes, [value(name, types[np.asarray(v).dtype]) for name, v in expected.items()], initializers)
        np.savez(tmp_path / "d.npz", x=X, n=np.int64(n), **expected)
        result = camshaft("run", "m.onnx", "--data", "d.npz", "--level", "1")
        assert result.code == 0, result.out + result.err
    return run


def refused(camshaft, save, reason, nodes, outputs):
    save(nodes, outputs)
    result = camshaft("run", "m.onnx")
    assert result.code == 1 and reason in result.err, result.out + result.err
    return result.err


def body(nodes, states, outputs):
    """The graph of a Loop: i and the condition, then the states."""
    return helper.make_graph(nodes + [node("Identity", "go", "go_on")], "body", [value("i", INT64, []), value("go", BOOL, [])] + states,
                             [value("go_on", BOOL, [])] + outputs)


def test_elements(run):
    made = [node("Neg", "x", "a"), node("Abs", "x", "b"), node("SequenceConstruct", "x a", "s"), node("SequenceInsert", "s b one", "t"),
            node("SequenceErase", "t zero", "u"), node("Identity", "u", "v")]
    run(made + [node("SequenceAt", "t two", "last"), node("SequenceAt", "v minus_one", "same"), node("SequenceLength", "t", "count"),
                node("ConcatFromSequence", "t", "wide", axis=1), node("ConcatFromSequence", "v", "tall", axis=-1, new_axis=1)],
        last=-X, same=-X, count=np.int64(3), wide=np.concatenate([X, abs(X), -X], 1), tall=np.stack([abs(X), -X], -1))
    # by an index that only running tells
    run(made + [node("SequenceAt", "t n", "picked")], n=-2, picked=abs(X))


def test_pieces(run):
    sizes = number("sizes", [1, 3, 2], INT64, [3])
    run([node("SplitToSequence", "x sizes", "s", axis=1), node("SequenceAt", "s one", "middle"), node("ConcatFromSequence", "s", "all", axis=1)],
        initializers=[sizes], middle=X[:, 1:4], all=X)
    four = number("four", 4)
    run([node("SplitToSequence", "x four", "s", axis=1), node("SequenceAt", "s zero", "first"), node("SequenceAt", "s one", "rest")],
        initializers=[four], first=X[:, :4], rest=X[:, 4:])
    for keeps in (0, 1):
        run([node("SplitToSequence", "x", "s", axis=1, keepdims=keeps), node("SequenceAt", "s n", "column"), node("SequenceLength", "s", "count"),
             node("ConcatFromSequence", "s", "back", axis=1, new_axis=1 - keeps)],
            n=3, column=X[:, 3:4] if keeps else X[:, 3], count=np.int64(6), back=X)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_list_that_a_loop_appends_to(run, rounds):
    step = [node("Gather", "x i", "row"), node("Add", "row total", "sum"), node("SequenceInsert", "list sum", "longer")]
    loop = node("Loop", "n yes start empty", "final rows",
                body=body(step, [value("total"), sequence("list")], [value("sum"), sequence("longer")]))
    start = number("start", [0.0] * 6, FLOAT, [6])
    sums = np.cumsum(X[:rounds], 0)
    run([node("SequenceEmpty", "", "empty"), loop, node("ConcatFromSequence", "rows", "y", axis=1, new_axis=1), node("SequenceLength", "rows", "count")],
        n=rounds, initializers=[start], final=X[:rounds].sum(0), y=sums.T, count=np.int64(rounds))


def test_two_elements_an_iteration_and_what_came_before(run):
    step = [node("Gather", "x i", "row"), node("Neg", "row", "negative"), node("SequenceInsert", "list row", "one_more"),
            node("SequenceInsert", "one_more negative", "two_more")]
    loop = node("Loop", "n yes first", "rows", body=body(step, [sequence("list")], [sequence("two_more")]))
    run([node("Gather", "x three", "head"), node("SequenceConstruct", "head", "first"), loop, node("SequenceAt", "rows two", "third"),
         node("ConcatFromSequence", "rows", "y", axis=0)], third=-X[0], y=np.concatenate([X[3], X[0], -X[0], X[1], -X[1]]))


def test_a_list_of_known_length(run):
    """[f(i) for i in range(3)], whose elements another loop replaces."""
    make = node("Loop", "three yes empty", "made", body=body([node("Gather", "x i", "row"), node("SequenceInsert", "list row", "longer")],
                                                            [sequence("list")], [sequence("longer")]))
    step = [node("SequenceAt", "list one", "a"), node("Neg", "a", "b"), node("SequenceErase", "list one", "rest"),
            node("SequenceInsert", "rest b one", "next")]
    loop = node("Loop", "n yes made", "states", body=body(step, [sequence("list")], [sequence("next")]))
    run([node("SequenceEmpty", "", "empty"), make, loop, node("ConcatFromSequence", "states", "y", axis=0, new_axis=1)], n=3,
        y=np.stack([X[0], -X[1], X[2]]))


def test_nested_loops_append_to_one_list(run):
    inside = body([node("Gather", "row j", "cell"), node("SequenceInsert", "inner_list cell", "inner_longer")], [sequence("inner_list")],
                  [sequence("inner_longer")])
    inside.input[0].name = "j"
    step = [node("Gather", "x i", "row"), node("SequenceInsert", "list total", "begun"), node("Loop", "three yes begun", "longer", body=inside)]
    loop = node("Loop", "n yes empty", "cells", body=body(step, [sequence("list")], [sequence("longer")]))
    run([node("SequenceEmpty", "", "empty"), loop, node("ConcatFromSequence", "cells", "y", axis=0, new_axis=1), node("SequenceLength", "cells", "count")],
        n=2, initializers=[number("total", 9.0, FLOAT)], y=np.array([9, *X[0, :3], 9, *X[1, :3]], np.float32), count=np.int64(8))


def test_names_of_outputs_that_nobody_wants(run):
    """Both Loops leave out their first output; the inner list is not the outer one."""
    negate = [node("SequenceAt", "rows k", "outer_row"), node("Neg", "outer_row", "minus"), node("SequenceInsert", "inner_list minus", "inner_longer"),
              node("Identity", "v", "w")]
    inside = body(negate, [value("v"), sequence("inner_list")], [value("w"), sequence("inner_longer")])
    inside.input[0].name = "k"
    step = [node("SequenceEmpty", "", "inner_empty"),
            helper.make_node("Loop", ["n", "yes", "start", "inner_empty"], ["", "negatives"], name="inner", body=inside),
            node("ConcatFromSequence", "negatives", "matrix", axis=0, new_axis=1), node("ReduceSum", "matrix", "sum", keepdims=0),
            node("SequenceInsert", "list sum", "longer"), node("Identity", "t", "u")]
    outer = body(step, [value("t"), sequence("list")], [value("u"), sequence("longer")])
    copy = body([node("Gather", "x i", "row"), node("SequenceInsert", "first_list row", "first_longer"), node("Identity", "a", "b")],
                [value("a"), sequence("first_list")], [value("b"), sequence("first_longer")])
    run([node("SequenceEmpty", "", "empty"), helper.make_node("Loop", ["n", "yes", "start", "empty"], ["", "rows"], name="first", body=copy),
         helper.make_node("Loop", ["n", "yes", "start", "empty"], ["", "sums"], name="outer", body=outer),
         node("ConcatFromSequence", "sums", "y", axis=0, new_axis=1)],
        initializers=[number("start", 0.0, FLOAT)], y=np.full(2, -X[:2].sum(), np.float32))


def test_a_loop_reads_what_the_iteration_before_appended(run):
    step = [node("SequenceAt", "list minus_one", "before"), node("SequenceAt", "rows i", "row"), node("Mul", "before two_floats", "twice"),
            node("Add", "twice row", "sum"), node("SequenceInsert", "list sum", "longer")]
    loop = node("Loop", "n yes first", "sums", body=body(step, [sequence("list")], [sequence("longer")]))
    a = 2 * X[3] + X[0]
    run([node("SplitToSequence", "x", "rows", axis=0, keepdims=0), node("Gather", "x three", "head"), node("SequenceConstruct", "head", "first"), loop,
         node("ConcatFromSequence", "sums", "y", axis=0, new_axis=1), node("SequenceAt", "sums minus_one", "last")],
        initializers=[number("two_floats", 2.0, FLOAT)], y=np.stack([X[3], a, 2 * a + X[1]]), last=2 * a + X[1])


def test_a_loop_replaces_the_elements_of_a_list(run):
    step = [node("SequenceAt", "list zero", "a"), node("SequenceAt", "list one", "b"), node("Gather", "x i", "row"), node("Add", "a row", "c"),
            node("SequenceErase", "list zero", "rest"), node("SequenceInsert", "rest c zero", "half"), node("Sub", "b c", "d"),
            node("SequenceErase", "half minus_one", "head"), node("SequenceInsert", "head d", "both"), node("SequenceInsert", "out d", "longer")]
    loop = node("Loop", "n yes first empty", "states rows",
                body=body(step, [sequence("list"), sequence("out")], [sequence("both"), sequence("longer")]))
    c0, c1 = X[3] + X[0], X[3] + X[0] + X[1]
    d0 = -X[3] - c0
    run([node("Gather", "x three", "p"), node("Neg", "p", "q"), node("SequenceConstruct", "p q", "first"), node("SequenceEmpty", "", "empty"), loop,
         node("SequenceAt", "states zero", "y"), node("SequenceAt", "states one", "z"), node("ConcatFromSequence", "rows", "w", axis=0, new_axis=1)],
        y=c1, z=d0 - c1, w=np.stack([d0, d0 - c1]))


@pytest.mark.parametrize("n", [1, 3])
def test_branches(run, n):
    yes = helper.make_graph([node("Neg", "x", "a"), node("SequenceConstruct", "a x", "s")], "yes", [], [sequence("s")])
    no = helper.make_graph([node("Abs", "x", "b"), node("SequenceConstruct", "x b", "t")], "no", [], [sequence("t")])
    first, second = (-X, X) if n > 2 else (X, abs(X))
    run([node("Greater", "n two", "large"), node("If", "large", "u", then_branch=yes, else_branch=no), node("ConcatFromSequence", "u", "y", axis=0)],
        n=n, y=np.concatenate([first, second]))


def test_what_cannot_be_taken_apart_is_refused(camshaft, save):
    made = [node("SequenceConstruct", "x x", "s")]
    refused(camshaft, save, "node y_node (SequenceInsert): sequences and optionals: an element is inserted at a position that is not known",
            made + [node("SequenceInsert", "s x n", "y"), node("SequenceLength", "y", "count")], [value("count", INT64)])
    refused(camshaft, save, "a network's output cannot be a sequence of pieces that only running tells",
            [node("SplitToSequence", "x two", "s", axis=0)], [sequence("s")])
    step = [node("Gather", "x i", "row"), node("SequenceConstruct", "row", "other")]
    refused(camshaft, save, "a sequence that its iterations do more with than append to",
            made + [node("Loop", "n yes s", "rows", body=body(step, [sequence("list")], [sequence("other")])), node("SequenceLength", "rows", "y")],
            [value("y", INT64)])
    step = [node("SequenceLength", "list", "k"), node("Gather", "x k", "row"), node("SequenceInsert", "list row", "longer")]
    message = refused(camshaft, save, "(SequenceLength): sequences and optionals: the length of a sequence that a loop makes",
                      made + [node("Loop", "n yes s", "rows", body=body(step, [sequence("list")], [sequence("longer")])),
                              node("ConcatFromSequence", "rows", "y", axis=0)], [value("y")])
    assert "1 part" in message
    yes = helper.make_graph([node("SequenceConstruct", "x", "s")], "yes", [], [sequence("s")])
    no = helper.make_graph([node("SequenceConstruct", "x x", "t")], "no", [], [sequence("t")])
    refused(camshaft, save, "its branches give sequences of different lengths",
            [node("Greater", "n two", "large"), node("If", "large", "u", then_branch=yes, else_branch=no), node("SequenceAt", "u zero", "y")],
            [value("y")])


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_list_that_a_loop_puts_elements_before(run, rounds):
    """Two in front and one behind in every iteration, around what was there."""
    step = [node("Gather", "x i", "row"), node("Neg", "row", "negative"), node("SequenceInsert", "list row zero", "one_more"),
            node("SequenceInsert", "one_more negative zero", "two_more"), node("Mul", "row two_floats", "twice"),
            node("SequenceInsert", "two_more twice", "three_more")]
    loop = node("Loop", "n yes first", "rows", body=body(step, [sequence("list")], [sequence("three_more")]))
    before = [part for i in range(rounds) for part in (X[i], -X[i])][::-1]
    run([node("Gather", "x three", "head"), node("SequenceConstruct", "head", "first"), loop, node("SequenceAt", "rows zero", "y"),
         node("ConcatFromSequence", "rows", "all", axis=0, new_axis=1)], n=rounds, initializers=[TWO_FLOATS],
        y=before[0] if rounds else X[3], all=np.stack([*before, X[3], *(2 * X[i] for i in range(rounds))]))


def test_elements_replaced_where_only_running_tells(run):
    """out = [start, start, start, start]; for i in range(n): out[n - 1 - i] = out[n - i] + x[i], of which only n is known when running"""
    extra = [node("Sub", "n i", "place"), node("Sub", "place one", "at"), node("SequenceAt", "list place", "a"), node("Gather", "x i", "row"),
             node("Add", "a row", "b"), node("SequenceErase", "list at", "rest"), node("SequenceInsert", "rest b at", "next")]
    loop = node("Loop", "n yes first", "out", body=body(extra, [sequence("list")], [sequence("next")]))
    a = X[3] + X[0]
    run([node("Gather", "x three", "p"), node("SequenceConstruct", "p p p p", "first"), loop, node("SequenceAt", "out n", "y"),
         node("ConcatFromSequence", "out", "all", axis=0, new_axis=1)], n=2, y=X[3], all=np.stack([a + X[1], a, X[3], X[3]]))
    made = node("Loop", "n yes empty", "made", body=body([node("Gather", "x i", "row"), node("SequenceInsert", "list row", "longer")],
                                                        [sequence("list")], [sequence("longer")]))
    backwards = node("Loop", "n yes made", "out", body=body(
        [node("Sub", "n i", "place"), node("Sub", "place one", "at"), node("Gather", "x i", "row"), node("SequenceErase", "list at", "rest"),
         node("SequenceInsert", "rest row at", "next")], [sequence("list")], [sequence("next")]))
    run([node("SequenceEmpty", "", "empty"), made, backwards, node("ConcatFromSequence", "out", "all", axis=0, new_axis=1),
         node("SequenceLength", "out", "count")], n=3, all=X[2::-1], count=np.int64(3))


@pytest.mark.parametrize("size, n", [(2, 1), (2, -1), (4, 0), (4, 1), (4, -1), (4, -2)])
def test_a_piece_that_only_running_tells(run, size, n):
    """Pieces of equal sizes and with a shorter one at the end; how many there are."""
    columns = [X[:, k:k + size] for k in range(0, 6, size)]
    run([node("SplitToSequence", "x size", "s", axis=1), node("SequenceAt", "s n", "y"), node("SequenceLength", "s", "count"),
         node("Identity", "n", "m"), node("Sub", "count m", "rest")],
        n=n, initializers=[number("size", size)], y=columns[n], count=np.int64(len(columns)), rest=np.int64(len(columns) - n))


def test_a_list_that_grows_at_its_start(run):
    """for k in range(0, 3, 2), as PyTorch counts: list.insert(0, list[0] * 2), which is more than a Loop's scan output can be."""
    inside = body([node("SequenceAt", "list zero", "a"), node("Mul", "a two_floats", "b"), node("SequenceInsert", "list b zero", "longer")],
                  [sequence("list")], [sequence("longer")])
    run([node("SequenceConstruct", "x", "first"), node("Ceil", "one_and_a_half", "float_count"), node("Cast", "float_count", "times", to=INT64),
         node("Loop", "times yes first", "list_at_end", body=inside),
         node("ConcatFromSequence", "list_at_end", "y", axis=0), node("SequenceLength", "list_at_end", "count")],
        initializers=[TWO_FLOATS, number("one_and_a_half", 1.5, FLOAT)], y=np.concatenate([4 * X, 2 * X, X]), count=np.int64(3))


def unordered(nodes):
    """The same nodes, each before what it reads; those of graphs in them as well."""
    for each in nodes:
        for attribute in each.attribute:
            if attribute.HasField("g"):
                backwards = unordered(list(attribute.g.node))
                del attribute.g.node[:]
                attribute.g.node.extend(backwards)
    return nodes[::-1]


def test_nodes_in_any_order(run):
    step = [node("SequenceAt", "list zero", "a"), node("Gather", "x i", "row"), node("Add", "a row", "c"), node("SequenceErase", "list zero", "rest"),
            node("SequenceInsert", "rest c zero", "next"), node("SequenceInsert", "out c", "more"), node("Identity", "more", "longer")]
    loop = node("Loop", "n yes first empty", "states rows",
                body=body(step, [sequence("list"), sequence("out")], [sequence("next"), sequence("longer")]))
    run(unordered([node("Gather", "x three", "p"), node("SequenceConstruct", "p p", "first"), node("SequenceEmpty", "", "empty"), loop,
                   node("SequenceAt", "states zero", "y"), node("ConcatFromSequence", "rows", "w", axis=0, new_axis=1)]),
        y=X[3] + X[0] + X[1], w=np.stack([X[3] + X[0], X[3] + X[0] + X[1]]))


def inner_loop(index="k", first="list", result="next", count="two", extra=()):
    """for k in range(2): list[k] = list[k] * 2 + row"""
    step = [*extra, node("SequenceAt", f"inner_list {index}", "a"), node("Mul", "a two_floats", "b"), node("Add", "b row", "c"),
            node("SequenceErase", f"inner_list {index}", "rest"), node("SequenceInsert", f"rest c {index}", "changed")]
    inside = body(step, [sequence("inner_list")], [sequence("changed")])
    inside.input[0].name = "k"
    return node("Loop", f"{count} yes {first}", result, body=inside)


@pytest.mark.parametrize("rounds", [1, 3])
def test_an_inner_loop_goes_over_the_elements(run, rounds):
    """for i in range(n): for k in range(2): states[k] = 2 * states[k] + x[i]"""
    outer = node("Loop", "n yes first", "states", body=body([node("Gather", "x i", "row"), inner_loop()], [sequence("list")], [sequence("next")]))
    p, q = X[3], X[2]
    for i in range(rounds):
        p, q = 2 * p + X[i], 2 * q + X[i]
    run([node("Gather", "x three", "p"), node("Gather", "x two", "q"), node("SequenceConstruct", "p q", "first"), outer,
         node("SequenceAt", "states zero", "y"), node("SequenceAt", "states one", "z")], n=rounds, initializers=[TWO_FLOATS], y=p, z=q)


def test_positions_counted_backwards_by_the_length(run):
    """for k in range(len(list)): list[len(list) - 1 - k] = ..., of elements of different shapes"""
    extra = [node("SequenceLength", "inner_list", "count"), node("Sub", "count one", "end"), node("Sub", "end k", "at")]
    run([node("Gather", "x three", "p"), node("Identity", "x", "q"), node("Gather", "x zero", "row"), node("SequenceConstruct", "p q", "first"),
         node("SequenceLength", "first", "how_many"), inner_loop("at", "first", "states", "how_many", extra), node("SequenceAt", "states zero", "y"),
         node("SequenceAt", "states one", "z")], initializers=[TWO_FLOATS], y=2 * X[3] + X[0], z=2 * X + X[0])


def test_a_loop_over_parameters_of_different_shapes(run):
    """for k in range(2): y = y @ weights[k], what every iteration gives stacked; a name of the body is used outside as well"""
    inside = body([node("SequenceAt", "weights k", "w"), node("MatMul", "v w", "u"), node("ReduceSum", "w", "sum", keepdims=0)],
                  [value("v")], [value("u"), value("sum")])
    inside.input[0].name = "k"
    a, b = np.arange(12, dtype=np.float32).reshape(6, 2) - 5, np.arange(6, dtype=np.float32).reshape(2, 3)
    run([node("Relu", "x", "w"), node("SequenceConstruct", "first second", "weights"),
         helper.make_node("Loop", ["two", "", "x"], ["y", "sums"], name="loop", body=inside)],
        initializers=[number("first", a, FLOAT, a.shape), number("second", b, FLOAT, b.shape)], y=X @ a @ b, sums=np.array([a.sum(), b.sum()]), w=np.maximum(X, 0))


@pytest.fixture
def run_functions(camshaft, tmp_path):
    def run(nodes, functions, n=2, initializers=(), **expected):
        types = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64}
        graph = helper.make_graph(nodes, "g", [value("x", FLOAT, ["rows", 6]), value("n", INT64, [])],
                                  [value(name, types[np.asarray(v).dtype]) for name, v in expected.items()], NUMBERS + list(initializers))
        model = helper.make_model(graph, functions=functions, ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("local", 1)])
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        np.savez(tmp_path / "d.npz", x=X, n=np.int64(n), **expected)
        result = camshaft("run", "m.onnx", "--data", "d.npz", "--level", "1")
        assert result.code == 0, result.out + result.err
    return run


def function(name, inputs, outputs, nodes, attributes=()):
    return helper.make_function("local", name, inputs.split(), outputs.split(), nodes,
                                [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)], list(attributes))


def test_sequences_inside_functions(run_functions):
    """One makes and reads a list, with an attribute of the call; another takes a list and gives one; a third calls both."""
    join = node("ConcatFromSequence", "s", "joined")
    join.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="along", type=onnx.AttributeProto.INT))
    twice = function("Twice", "a", "joined", [node("Neg", "a", "b"), node("SequenceConstruct", "a b", "s"), join], ["along"])
    half = node("Constant", "", "half", value=number("", 0.5, FLOAT))
    longer = function("Longer", "s t", "longer", [half, node("Mul", "t half", "b"), node("SequenceInsert", "s b", "longer")])
    both = function("Both", "a", "y z", [node("SequenceEmpty", "", "s"), node("Longer", "s a", "one", domain="local"),
                                         node("Abs", "a", "b"), node("Longer", "one b", "two", domain="local"),
                                         node("ConcatFromSequence", "two", "y", axis=0), node("Twice", "y", "z", domain="local", along=1)])
    y = np.concatenate([X, abs(X)]) / 2
    run_functions([node("Both", "x", "y z", domain="local"), node("Twice", "x", "w", domain="local", along=0)], [twice, longer, both],
                  y=y, z=np.concatenate([y, -y], 1), w=np.concatenate([X, -X]))


def test_a_function_called_in_a_loop(run_functions):
    """The list a Loop appends to goes through a function, whose own Loop has inner names."""
    inside = body([node("Gather", "x i", "row")], [], [value("row")])
    add = function("Append", "s x", "longer", [node("Constant", "", "two", value=number("", 2)), node("Constant", "", "yes", value=number("", True, BOOL)),
                                               node("Loop", "two yes", "rows", body=inside), node("ReduceSum", "rows", "sum", keepdims=0),
                                               node("SequenceInsert", "s sum", "longer")])
    loop = node("Loop", "n yes empty", "sums", body=body([node("Append", "list x", "more", domain="local")], [sequence("list")], [sequence("more")]))
    run_functions([node("SequenceEmpty", "", "empty"), loop, node("ConcatFromSequence", "sums", "y", axis=0, new_axis=1)], [add], n=3,
                  y=np.full(3, X[:2].sum(), np.float32))


def test_what_is_refused_inside_a_loop_is_told(camshaft, save):
    step = [node("SequenceInsert", "list x i", "longer")]
    message = refused(camshaft, save, "(Loop): sequences and optionals: a sequence that its iterations do more with than append to",
                      [node("SequenceConstruct", "x x", "s"), node("Loop", "n yes s", "rows", body=body(step, [sequence("list")], [sequence("longer")])),
                       node("SequenceLength", "rows", "y")], [value("y", INT64)])
    assert '("list" becomes "longer", by node longer_node (SequenceInsert))' in message
    assert "inside: node longer_node (SequenceInsert): an element is inserted at a position that is not known" in message


@pytest.fixture
def run_sequence(camshaft, save, tmp_path):
    """Runs a network whose output s is a sequence; gives what is said of it."""
    def run_sequence(nodes, **expected):
        save(nodes, [sequence("s"), value("last")])
        np.savez(tmp_path / "d.npz", x=X, n=np.int64(3), **expected)
        result = camshaft("run", "m.onnx", "--data", "d.npz", "--level", "1")
        assert result.code == 0, result.out + result.err
        return result.err
    return run_sequence


def test_a_sequence_that_leaves_is_its_elements(run_sequence):
    made = [node("Neg", "x", "a"), node("SequenceConstruct", "x a", "t"), node("SequenceInsert", "t x one", "s"), node("Abs", "a", "last")]
    assert "s is 3 tensors instead of a sequence of them: s_0 to s_2" in run_sequence(made, s_0=X, s_1=X, s_2=-X, last=abs(X))
    made += [node("Identity", "a", "s_1")]
    assert "s__0 to s__2" in run_sequence(made, s__0=X, s__1=X, s__2=-X, last=abs(X))


def test_a_sequence_of_a_loop_leaves_stacked(run_sequence):
    step = [node("Gather", "x i", "row"), node("SequenceInsert", "list row", "longer")]
    made = [helper.make_node("SequenceEmpty", [], ["e"], name="e_node"),
            node("Loop", "n yes e", "s", body=body(step, [sequence("list")], [sequence("longer")])), node("Abs", "x", "last")]
    assert "s is one tensor instead of a sequence: its elements, stacked" in run_sequence(made, s=X[:3], last=abs(X))


def mapped(inputs, outputs, nodes, elements, results):
    return node("SequenceMap", inputs, outputs, body=helper.make_graph(nodes, "body", [value(e) for e in elements], [value(r) for r in results]))


def test_a_graph_for_every_element(run):
    """The second input is a sequence of as many, the third a tensor for all of them."""
    made = [node("Neg", "x", "a"), node("Gather", "x three", "row"), node("SequenceConstruct", "x row", "s"), node("SequenceConstruct", "a row", "t")]
    step = [node("Mul", "p q", "product"), node("Add", "product r", "sum"), node("Abs", "q", "size")]
    run(made + [mapped("s t two_floats", "sums sizes", step, "pqr", ["sum", "size"]), node("SequenceAt", "sums zero", "first"),
                node("SequenceAt", "sizes one", "second"), node("SequenceLength", "sums", "count")],
        initializers=[TWO_FLOATS], first=2 - X * X, second=abs(X[3]), count=np.int64(2))


@pytest.mark.parametrize("rounds", [1, 4])
def test_a_graph_for_rows_only_running_counts(run, rounds):
    loop = node("Loop", "n yes empty", "rows", body=body([node("Gather", "x i", "row"), node("SequenceInsert", "list row", "longer")],
                                                         [sequence("list")], [sequence("longer")]))
    run([node("SequenceEmpty", "", "empty"), loop, mapped("rows x", "sums", [node("Add", "p q", "sum")], "pq", ["sum"]),
         node("ConcatFromSequence", "sums", "y", axis=0)], n=rounds, y=np.concatenate([row + X for row in X[:rounds]]))
    # of none
    run([node("SequenceEmpty", "", "empty"), mapped("empty", "none", [node("Neg", "p", "m")], "p", ["m"]), node("SequenceLength", "none", "count")],
        count=np.int64(0))


def test_a_graph_for_pieces(run):
    run([node("SplitToSequence", "x two", "s", axis=1), mapped("s", "t", [node("Neg", "p", "m")], "p", ["m"]),
         node("ConcatFromSequence", "t", "y", axis=1)], y=-X)


def test_a_graph_for_every_element_of_what_is_no_sequence(camshaft, save):
    refused(camshaft, save, "sequences and optionals", [mapped("x", "s", [node("Neg", "p", "m")], "p", ["m"]),
                                                                    node("SequenceAt", "s zero", "y")], [value("y")])
