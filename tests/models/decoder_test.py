"""Generation with keys and values as inputs and outputs: `camshaft bench --decode`."""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess

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
