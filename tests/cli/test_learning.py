# SPDX-License-Identifier: Apache-2.0
"""Classic estimators (ai.onnx.ml): trees, linear models, support vector machines, encoders, against their formulas in numpy."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

X = np.array([[1, -2, 3], [0, 0, 0], [-1, -2, -3], [4, 0, 0.25]], np.float32)
LABELS = [5, 9]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture
def run(camshaft, tmp_path):
    """Runs one node on X (or x) and compares with the expected outputs; integers exactly."""
    def run(op, expected, x=X, **attributes):
        outputs = [f"y{k}" for k in range(len(expected))]
        node = helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", name="n", **attributes)
        types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", types[x.dtype], ["rows", *x.shape[1:]])],
                                  [helper.make_tensor_value_info(n, types[e.dtype], None) for n, e in zip(outputs, expected)])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        (tmp_path / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
        np.savez(tmp_path / "d.npz", x=x, **dict(zip(outputs, expected)))
        result = camshaft("run", "m.onnx", "--data", "d.npz", "--rtol", "1e-5", "--atol", "1e-6", "--level", "1")
        assert result.code == 0, result.out + result.err
    return run


@pytest.fixture
def refused(camshaft, tmp_path):
    def refused(op, reason, **attributes):
        node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", name="n", **attributes)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        (tmp_path / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
        result = camshaft("run", "m.onnx")
        assert result.code == 1 and reason in result.err and f"node n ({op})" in result.err, result.out + result.err
    return refused


def floats(*values):
    return np.array(values, np.float32)


# x0 <= 0.5 ? node 1 : (x2 < 1 or NaN ? node 3 : node 4)
NODES = dict(nodes_treeids=[0] * 5, nodes_nodeids=[0, 1, 2, 3, 4], nodes_featureids=[0, 0, 2, 0, 0], nodes_values=[0.5, 0, 1, 0, 0],
             nodes_modes=["BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 3, 0, 0],
             nodes_falsenodeids=[2, 0, 4, 0, 0], nodes_missing_value_tracks_true=[0, 0, 1, 0, 0])
LEAF_OF_ROW = [4, 1, 1, 3]


def leaves(weights, what):
    """weights: {leaf: {target: weight}}."""
    rows = [(leaf, target, weight) for leaf, of in weights.items() for target, weight in of.items()]
    return {f"{what}_treeids": [0] * len(rows), f"{what}_nodeids": [r[0] for r in rows], f"{what}_ids": [r[1] for r in rows],
            f"{what}_weights": [r[2] for r in rows]}


def sums(weights, targets, rows=LEAF_OF_ROW):
    return np.array([[weights[leaf].get(t, 0) for t in range(targets)] for leaf in rows], np.float32)


WEIGHTS = {1: {0: -1.5, 1: 0.25}, 3: {0: 2.0}, 4: {0: 0.5, 1: 4.0}}


def test_regressor(run):
    y = sums(WEIGHTS, 2)
    run("TreeEnsembleRegressor", [y], n_targets=2, **NODES, **leaves(WEIGHTS, "target"))
    run("TreeEnsembleRegressor", [sigmoid(y + floats(0.5, -1))], n_targets=2, base_values=[0.5, -1.0], post_transform="LOGISTIC",
        **NODES, **leaves(WEIGHTS, "target"))


def test_not_a_number_takes_the_branch_it_is_given(run):
    x = np.array([[np.nan, 0, 5], [1, 0, np.nan]], np.float32)
    run("TreeEnsembleRegressor", [sums(WEIGHTS, 2, [4, 3])], x=x, n_targets=2, **NODES, **leaves(WEIGHTS, "target"))


@pytest.mark.parametrize("name", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_two_trees(run, name):
    first = {1: {0: -1.5}, 3: {0: 2.0}, 4: {0: 0.5}}
    second = {1: {0: 1.0}, 3: {0: -3.0}, 4: {0: 0.75}}
    nodes = {k: v + v for k, v in NODES.items()}
    nodes["nodes_treeids"] = [0] * 5 + [7] * 5
    both = {k: v + leaves(second, "target")[k] for k, v in leaves(first, "target").items()}
    both["target_treeids"] = [0] * 3 + [7] * 3
    pair = np.concatenate([sums(first, 1), sums(second, 1)], axis=1)
    reduced = {"SUM": pair.sum(1), "AVERAGE": pair.mean(1), "MIN": pair.min(1), "MAX": pair.max(1)}[name]
    run("TreeEnsembleRegressor", [reduced[:, None]], n_targets=1, aggregate_function=name, **nodes, **both)


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classifier(run, post):
    weights = {1: {0: -1.5, 2: 0.25}, 3: {1: 2.0, 0: -1.0}, 4: {0: 0.5, 1: 4.0, 2: 1.0}}
    y = sums(weights, 3)
    z = {"NONE": y, "SOFTMAX": softmax(y), "LOGISTIC": sigmoid(y)}[post]
    run("TreeEnsembleClassifier", [np.array([7, 3, 3, 7]), z], classlabels_int64s=[5, 7, 3], post_transform=post, **NODES,
        **leaves(weights, "class"))


def test_classes_without_a_leaf_are_not_chosen(run):
    weights = {1: {0: -1.5}, 3: {0: -1.0}, 4: {2: -0.5}}  # class 1 stays at 0, the largest score
    run("TreeEnsembleClassifier", [np.array([3, 5, 5, 5]), sums(weights, 3)], classlabels_int64s=[5, 7, 3], **NODES,
        **leaves(weights, "class"))


@pytest.mark.parametrize("weights, label, z", [
    ({1: 0.2, 3: 0.7, 4: 0.6}, lambda s: s > 0.5, lambda s: (1 - s, s)),  # probabilities: all positive
    ({1: -0.2, 3: 0.7, 4: 0.1}, lambda s: s > 0, lambda s: (-s, s)),      # margins
])
def test_one_class_of_two(run, weights, label, z):
    weights = {leaf: {0: w} for leaf, w in weights.items()}
    s = sums(weights, 1)[:, 0]
    run("TreeEnsembleClassifier", [np.where(label(s), LABELS[1], LABELS[0]), np.stack(z(s), 1).astype(np.float32)],
        classlabels_int64s=LABELS, **NODES, **leaves(weights, "class"))
    run("TreeEnsembleClassifier", [np.where(label(s), LABELS[1], LABELS[0]), np.stack([sigmoid(-s), sigmoid(s)], 1)],
        classlabels_int64s=LABELS, post_transform="LOGISTIC", **NODES, **leaves(weights, "class"))


def test_broken_trees_are_refused(refused):
    bad = {**NODES, "nodes_truenodeids": [1, 0, 0, 0, 0]}  # node 2 leads back to the root
    attributes = dict(n_targets=2, **leaves(WEIGHTS, "target"))
    for nodes, reason in [(bad, "node 0 is in no tree"), ({**NODES, "nodes_falsenodeids": [9, 0, 4, 0, 0]}, "is not there"),
                          ({**NODES, "nodes_values": [0.5]}, "lists of 5 and 1 nodes"),
                          ({**NODES, "nodes_modes": ["BRANCH_ODD"] + NODES["nodes_modes"][1:]}, "BRANCH_ODD")]:
        refused("TreeEnsembleRegressor", reason, **nodes, **attributes)


def test_too_few_features_are_an_error(camshaft, run):
    with pytest.raises(AssertionError, match="x has 2 features"):
        run("TreeEnsembleRegressor", [sums(WEIGHTS, 2)], x=X[:, :2].copy(), n_targets=2, **NODES, **leaves(WEIGHTS, "target"))


def test_linear_models(run):
    w, b = floats([0.3, 0.2, 0.1], [-0.5, 1, 0.25], [0.1, -1, 2]), floats(0.05, -0.5, 0.1)
    y = X @ w.T + b
    both = dict(coefficients=w.ravel().tolist(), intercepts=b.tolist())
    run("LinearRegressor", [y], targets=3, **both)
    labels = np.array([5, 9, 7])
    run("LinearClassifier", [labels[y.argmax(1)], softmax(y)], classlabels_ints=labels.tolist(), post_transform="SOFTMAX", **both)
    s = X @ w[0] + b[0]
    one = dict(coefficients=w[0].tolist(), intercepts=[float(b[0])], classlabels_ints=LABELS)
    run("LinearClassifier", [np.where(s > 0, 9, 5), np.stack([1 - s, s], 1)], **one)
    run("LinearClassifier", [np.where(s > 0, 9, 5), np.stack([sigmoid(-s), sigmoid(s)], 1)], post_transform="LOGISTIC", **one)


def test_support_vectors(run):
    rng = np.random.default_rng(3)
    v, c = rng.standard_normal((6, 3)).astype(np.float32), rng.standard_normal((2, 6)).astype(np.float32)
    gamma, coef0, degree = 0.5, 0.25, 2.0
    kernels = {"LINEAR": X @ v.T, "POLY": (gamma * X @ v.T + coef0) ** degree, "SIGMOID": np.tanh(gamma * X @ v.T + coef0),
               "RBF": np.exp(-gamma * ((X[:, None] - v[None]) ** 2).sum(-1))}
    common = dict(kernel_params=[gamma, coef0, degree], support_vectors=v.ravel().tolist())
    for name, k in kernels.items():
        run("SVMRegressor", [(k @ c[0] + 0.5)[:, None].astype(np.float32)], coefficients=c[0].tolist(), rho=[0.5], n_supports=6,
            kernel_type=name, **common)
    k = kernels["RBF"]
    rho = [0.1, -0.2, 0.3]
    parts = [slice(0, 1), slice(1, 3), slice(3, 6)]
    pairs, votes = [], np.zeros((4, 3))
    for p, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        s = k[:, parts[i]] @ c[j - 1, parts[i]] + k[:, parts[j]] @ c[i, parts[j]] + rho[p]
        pairs.append(s)
        votes[np.arange(4), np.where(s > 0, i, j)] += 1
    run("SVMClassifier", [np.array([5, 9, 7])[votes.argmax(1)], np.stack(pairs, 1).astype(np.float32)], classlabels_ints=[5, 9, 7],
        coefficients=c.ravel().tolist(), rho=rho, vectors_per_class=[1, 2, 3], kernel_type="RBF", **common)
    # Probabilities: ONNX Runtime 1.31's numbers.
    run("SVMClassifier", [np.array([5, 9, 7])[votes.argmax(1)], floats([0.2704986, 0.37341598, 0.35608545], [0.23792832, 0.48500174, 0.27707],
                                                                       [0.27245954, 0.37753704, 0.35000342], [0.45329472, 0.3631128, 0.18359248])],
        classlabels_ints=[5, 9, 7], prob_a=[-1.5, -2.0, -0.5], prob_b=[0.1, 0.3, -0.2], coefficients=c.ravel().tolist(), rho=rho,
        vectors_per_class=[1, 2, 3], kernel_type="RBF", **common)
    two = dict(common, support_vectors=v[:3].ravel().tolist(), coefficients=c[0, :3].tolist())
    run("SVMClassifier", [np.array([5, 9, 5, 5]), floats([0.5188411, 0.48115885], [0.45868623, 0.54131377], [0.512195, 0.487805],
                                                         [0.51447743, 0.48552254])],
        classlabels_ints=[5, 9], prob_a=[-1.5], prob_b=[0.1], rho=[0.1], vectors_per_class=[1, 2], kernel_type="RBF", **two)


def test_preparation(run):
    run("Scaler", [(X - floats(1, 2, 3)) * floats(0.5)], offset=[1.0, 2.0, 3.0], scale=[0.5])
    norms = {"L1": np.abs(X).sum(1), "L2": np.sqrt((X * X).sum(1)), "MAX": X.max(1)}
    for name, norm in norms.items():
        run("Normalizer", [X / np.where(norm == 0, 1, norm)[:, None]], norm=name)
    holes = np.array([[np.nan, 1, -1], [2, np.nan, -1]], np.float32)
    run("Imputer", [floats([7, 1, -1], [2, 8, -1])], x=holes, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))
    run("Imputer", [np.array([[3, 6], [5, 3]])], x=np.array([[3, 0], [5, 3]]), imputed_value_int64s=[4, 6], replaced_value_int64=0)
    run("Binarizer", [(X > 0.5).astype(np.float32)], threshold=0.5)
    run("FeatureVectorizer", [X], inputdimensions=[3])


def test_encoders(run, refused):
    x = np.array([[1, 4], [2, 1]])
    run("LabelEncoder", [floats([10, -1], [20, 10])], x=x, keys_int64s=[1, 2], values_floats=[10.0, 20.0], default_float=-1.0)
    run("LabelEncoder", [np.array([[7, 8], [-1, 7]])], x=floats([0.5, np.nan], [3, 0.5]), keys_floats=[0.5, float("nan")], values_int64s=[7, 8])
    run("OneHotEncoder", [floats([[1, 0], [0, 0]], [[0, 1], [1, 0]])], x=x, cats_int64s=[1, 2], zeros=1)
    with pytest.raises(AssertionError, match="4 is no category"):
        run("OneHotEncoder", [floats([[1, 0], [0, 0]], [[0, 1], [1, 0]])], x=x, cats_int64s=[1, 2], zeros=0)
    refused("LabelEncoder", "strings are not supported", keys_strings=["a"], values_int64s=[1])
    refused("DictVectorizer", "maps are not supported", int64_vocabulary=[0, 1])
    refused("ZipMap", "2 labels of 3 columns", classlabels_int64s=[0, 1])
    refused("SVMClassifier", "2 of prob_a and 1 of prob_b", classlabels_ints=[0, 1], support_vectors=[0.0] * 6, coefficients=[1.0, 1.0],
            rho=[0.0], vectors_per_class=[1, 1], prob_a=[1.0, 2.0], prob_b=[1.0])


def ml_model(nodes, outputs, initializers=()):
    nodes = [helper.make_node(op, inputs, made, domain="ai.onnx.ml" if op in ("ZipMap", "TreeEnsembleClassifier", "ArrayFeatureExtractor") else "",
                              name=made[0] + "_node", **attributes) for op, inputs, made, attributes in nodes]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])], outputs, initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


CLASS_WEIGHTS = {1: {0: -1.5, 2: 0.25}, 3: {1: 2.0, 0: -1.0}, 4: {0: 0.5, 1: 4.0, 2: 1.0}}
MAPS = onnx.ValueInfoProto(name="maps")
MAPS.type.sequence_type.elem_type.map_type.key_type = TensorProto.STRING
MAPS.type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT


# What skl2onnx makes of a classifier unless told otherwise: labels that are names, and a map per row.
@pytest.mark.parametrize("label", ["identity", "cast"])
def test_names_of_classes_are_positions_and_maps_are_rows(camshaft, tmp_path, label):
    names = ["setosa", "virginica", "versicolor"]
    last = ("Identity", ["label"], ["named"], {}) if label == "identity" else ("Cast", ["label"], ["named"], {"to": TensorProto.STRING})
    tree = ("TreeEnsembleClassifier", ["x"], ["label", "scores"], {"classlabels_strings": names, **NODES, **leaves(CLASS_WEIGHTS, "class")})
    zipped = ("ZipMap", ["scores"], ["maps"], {"classlabels_strings": names})
    outputs = [helper.make_tensor_value_info("named", TensorProto.STRING, None), MAPS]
    (tmp_path / "m.onnx").write_bytes(ml_model([last, zipped, tree], outputs))
    np.savez(tmp_path / "d.npz", x=X, named=np.array([1, 2, 2, 1]), maps=sums(CLASS_WEIGHTS, 3))
    result = camshaft("run", "m.onnx", "--data", "d.npz", "--level", "1")
    assert result.code == 0, result.out + result.err
    assert "named holds numbers instead of texts: positions, from 0, in the list setosa, virginica, versicolor" in result.err
    assert "maps is a tensor instead of maps, a row per sample with columns for setosa, virginica, versicolor" in result.err


def names_of_classes():
    return helper.make_tensor("names", TensorProto.STRING, [3], [b"c", b"a", b"b"])


def test_names_picked_from_a_list(camshaft, tmp_path):
    nodes = [("ArgMax", ["x"], ["best"], {"axis": 1, "keepdims": 0}), ("ArrayFeatureExtractor", ["names", "best"], ["row"], {}),
             ("Reshape", ["row", "shape"], ["label"], {})]
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [-1])
    (tmp_path / "m.onnx").write_bytes(ml_model(nodes, [helper.make_tensor_value_info("label", TensorProto.STRING, None)], [names_of_classes(), shape]))
    np.savez(tmp_path / "d.npz", x=X, label=X.argmax(1))
    result = camshaft("run", "m.onnx", "--data", "d.npz", "--level", "1")
    assert result.code == 0 and "in the list c, a, b" in result.err, result.out + result.err


# Positions of two lists do not tell whether texts are equal.
def test_texts_that_are_not_only_picked_are_refused(camshaft, tmp_path):
    nodes = [("ArgMax", ["x"], ["best"], {"axis": 1, "keepdims": 0}), ("Gather", ["names", "best"], ["label"], {}), ("Equal", ["label", "a"], ["y"], {})]
    wanted = helper.make_tensor("a", TensorProto.STRING, [1], [b"a"])
    (tmp_path / "m.onnx").write_bytes(ml_model(nodes, [helper.make_tensor_value_info("y", TensorProto.BOOL, None)], [names_of_classes(), wanted]))
    result = camshaft("run", "m.onnx")
    assert result.code == 1 and "element type STRING" in result.err, result.out + result.err
