"""Generation with keys and values as inputs and outputs: `camshaft bench --decode`."""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="python3-onnx is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAMSHAFT = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin")) / "camshaft"
spec = importlib.util.spec_from_file_location("decoder", ROOT / "bench/decoder.py")
decoder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(decoder)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    sizes = argparse.Namespace(layers=2, width=64, heads=4, kv=2, inner=96, vocabulary=200, bits=4, block=32, level=0, seed=3, float=False, apart=False)
    file = tmp_path_factory.mktemp("decoder") / "m.onnx"
    onnx.save(decoder.Decoder(sizes).model(), str(file))
    return file


def decode(model, request, *more):
    return subprocess.run([str(CAMSHAFT), "bench", str(model), "--decode", request, "--threads", "1", "--level", "1", *more], capture_output=True, text=True)


def test_generates_what_onnx_runtime_generates(model):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    result = decode(model, "9,12", "--json")
    assert result.returncode == 0, result.stderr
    _, _, tokens = decoder.generate(decoder.Runtime(model, 1), 9, 12)
    assert json.loads(result.stdout)["tokens"] == tokens


def test_says_how_fast(model):
    result = decode(model, "9,12", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["steps"] == 12 and len(report["tokens"]) == 13
    assert 0 < report["planMs"] < report["tokenMs"]["median"]
    # Weights of 4 bits with a float for every 32: 5 bits; the keys and values of 15 tokens.
    weights = 2 * (64 * 128 + 64 * 64 + 3 * 64 * 96) + 64 * 200
    assert 0.6 * weights < report["weightBytes"] < 0.8 * weights
    assert report["cacheBytes"] == 2 * 2 * 2 * 15 * 16 * 4
    text = decode(model, "9,3").stdout
    for word in ("first token after", "tokens/s", "plan of a new length", "GB/s"):
        assert word in text


ROWS, HEADS, DEPTH, WORDS = 24, 2, 8, 50


def static_decoder(tokens, scatter):
    """One block of attention whose caches have ROWS rows; the network, and its scores for tokens with those before."""
    helper, value = onnx.helper, onnx.helper.make_tensor_value_info
    random = np.random.default_rng(2)
    width = HEADS * DEPTH
    weights = {name: random.standard_normal(shape, dtype=np.float32) for name, shape in
               {"words": (WORDS, width), "places": (ROWS, width), "wq": (width, width), "wk": (width, width), "wv": (width, width), "head": (width, WORDS)}.items()}
    caches = [1, HEADS, ROWS, DEPTH]
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["e"]), helper.make_node("Gather", ["places", "position_ids"], ["p"]), helper.make_node("Add", ["e", "p"], ["x"])]
    for name in "qkv":
        nodes += [helper.make_node("MatMul", ["x", f"w{name}"], [f"{name}2"]), helper.make_node("Reshape", [f"{name}2", "split"], [f"{name}3"]),
                  helper.make_node("Transpose", [f"{name}3"], [name], perm=[0, 2, 1, 3])]
    for name in "kv":
        if scatter == "TensorScatter":
            nodes.append(helper.make_node("TensorScatter", [f"past_{name}", name, "write_indices"], [f"present_{name}"], axis=2))
        else:  # as index_copy
            nodes += [helper.make_node("Reshape", ["position_ids", "rows4"], [f"at_{name}"]), helper.make_node("Shape", [name], [f"shape_{name}"]),
                      helper.make_node("Expand", [f"at_{name}", f"shape_{name}"], [f"to_{name}"]),
                      helper.make_node("ScatterElements", [f"past_{name}", f"to_{name}", name], [f"present_{name}"], axis=2)]
    nodes += [helper.make_node("Range", ["zero", "rows", "one"], ["row"]), helper.make_node("Unsqueeze", ["position_ids", "last"], ["at"]),
              helper.make_node("LessOrEqual", ["row", "at"], ["seen3"]), helper.make_node("Unsqueeze", ["seen3", "first"], ["seen"]),
              helper.make_node("Attention", ["q", "present_k", "present_v", "seen"], ["a"]), helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
              helper.make_node("Reshape", ["b", "join"], ["c"]), helper.make_node("MatMul", ["c", "head"], ["logits"])]
    constants = {"split": np.array([1, -1, HEADS, DEPTH]), "join": np.array([1, -1, width]), "zero": np.array(0), "rows": np.array(ROWS), "one": np.array(1),
                 "last": np.array([2]), "first": np.array([1]), "rows4": np.array([1, 1, -1, 1])}
    inputs = [value("input_ids", 7, [1, tokens]), value("position_ids", 7, [1, tokens])]
    inputs += [value("write_indices", 7, [1])] if scatter == "TensorScatter" else []
    inputs += [value(f"past_{name}", 1, caches) for name in "kv"]
    outputs = [value("logits", 1, [1, tokens, WORDS])] + [value(f"present_{name}", 1, caches) for name in "kv"]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(array, name) for name, array in {**weights, **constants}.items()])

    def scores(ids):
        x = weights["words"][ids] + weights["places"][:len(ids)]
        q, k, v = ((x @ weights[f"w{name}"]).reshape(-1, HEADS, DEPTH).swapaxes(0, 1) for name in "qkv")
        s = q[:, -1:] @ k.swapaxes(1, 2) / np.sqrt(DEPTH)
        p = np.exp(s - s.max(-1, keepdims=True))
        return ((p / p.sum(-1, keepdims=True)) @ v)[:, 0].reshape(-1) @ weights["head"]

    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11), scores


@pytest.mark.parametrize("tokens, scatter", [("n", "TensorScatter"), (1, "TensorScatter"), ("n", "ScatterElements"), (1, "ScatterElements")])
def test_static_caches_are_written_in_place(tmp_path, tokens, scatter):
    model, scores = static_decoder(tokens, scatter)
    onnx.save(model, str(tmp_path / "m.onnx"))
    result = decode(tmp_path / "m.onnx", "9,12", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    ids = [k % 97 % WORDS + 3 for k in range(9)]
    for token in report["tokens"]:
        assert token == np.argmax(scores(ids))
        ids.append(token)
    assert report["sharedCaches"] == report["caches"] == 2 and report["bufferBytes"] == 2 * ROWS * HEADS * DEPTH * 4
    result = decode(tmp_path / "m.onnx", "9,16")
    assert result.returncode != 0 and "the caches have 24 rows" in result.stderr


@pytest.mark.parametrize("request_, words", [("9", "PROMPT,STEPS"), ("0,3", "PROMPT,STEPS"), ("a,b", "PROMPT,STEPS")])
def test_bad_requests_are_named(model, request_, words):
    result = decode(model, request_)
    assert result.returncode != 0 and words in result.stderr


def test_other_networks_are_refused(tmp_path):
    helper = onnx.helper
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 1, [2, 3])], [value("y", 1, [2, 3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(tmp_path / "m.onnx"))
    result = decode(tmp_path / "m.onnx", "4,4")
    assert result.returncode != 0 and "past keys and values" in result.stderr
