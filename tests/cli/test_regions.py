# SPDX-License-Identifier: Apache-2.0
"""Transformer blocks as one region, and what 8 bits cost beside the float form: a small BERT, and the seed's where it lies beside us."""
import importlib.util
import json
import pathlib
import re

import numpy as np
import pytest

pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

SEEDS = pathlib.Path("/work/shared/tools/gen_seed_models.py")
ROWS, WIDTH, HEADS = 6, 32, 2


class Net:
    def __init__(self):
        self.nodes, self.constants, self.random = [], {}, np.random.default_rng(1)

    def constant(self, name, values):
        self.constants[name] = np.asarray(values)
        return name

    def op(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name + "_out"], name, **attributes))
        return name + "_out"

    def quantized(self, x, name, axis=None):
        scale = np.full(WIDTH, 0.02, "f") if axis == 1 else np.float32(0.03)
        scale, zero = self.constant(name + "/s", scale), self.constant(name + "/z", np.zeros(scale.shape, np.int8))
        extra = {} if axis is None else {"axis": axis}
        return self.op("DequantizeLinear", [self.op("QuantizeLinear", [x, scale, zero], name + "/QuantizeLinear", **extra), scale, zero],
                       name + "/DequantizeLinear", **extra)

    def linear(self, x, name, qdq):
        w = self.constant(name + ".weight", (self.random.standard_normal((WIDTH, WIDTH)) / 6).astype("f"))
        if qdq:
            x, w = self.quantized(x, name + "/in"), self.quantized(w, name + "/weight", 1)
        y = self.op("MatMul", [x, w], name + "/MatMul")
        return self.op("Add", [y, self.constant(name + ".bias", self.random.standard_normal(WIDTH).astype("f"))], name + "/Add")

    def norm(self, x, name):
        return self.op("LayerNormalization", [x, self.constant(name + ".w", np.ones(WIDTH, "f"))], name + "/LayerNormalization", axis=-1)

    def block(self, x, name, qdq):
        inner, outer = [1, ROWS, HEADS, WIDTH // HEADS], [1, ROWS, WIDTH]
        inner, outer = self.constant("inner", np.int64(inner)), self.constant("outer", np.int64(outer))
        heads = [self.op("Transpose", [self.op("Reshape", [self.linear(x, f"{name}/{part}", qdq), inner], f"{name}/{part}/Reshape")],
                         f"{name}/{part}/Transpose", perm=[0, 2, 3, 1] if part == "key" else [0, 2, 1, 3]) for part in ("query", "key", "value")]
        scores = self.op("Softmax", [self.op("MatMul", heads[:2], name + "/scores/MatMul")], name + "/Softmax", axis=-1)
        y = self.op("Transpose", [self.op("MatMul", [scores, heads[2]], name + "/MatMul")], name + "/Transpose", perm=[0, 2, 1, 3])
        y = self.linear(self.op("Reshape", [y, outer], name + "/Reshape"), name + "/dense", qdq)
        return self.norm(self.op("Add", [y, x], name + "/Add"), name + "/layernorm")


def bert(qdq=False):
    """Embedding, two blocks of attention, a product that ends in a search."""
    net = Net()
    table = net.constant("table", net.random.standard_normal((50, WIDTH)).astype("f"))
    x = net.norm(net.op("Gather", [table, "ids"], "/embedding/Gather"), "/norm")
    for name in ("/layers.0", "/layers.1"):
        x = net.block(x, name, qdq)
    net.op("ArgMax", [net.linear(x, "/score", False)], "/best", axis=-1)
    graph = helper.make_graph(net.nodes, "bert", [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, ROWS])],
                              [helper.make_tensor_value_info("/best_out", TensorProto.INT64, [1, ROWS, 1])],
                              [numpy_helper.from_array(array, name) for name, array in net.constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


REGION = "{ForeignNode[/embedding/Gather.../score/Add]}"


@pytest.fixture
def engines(camshaft, tmp_path):
    """Untimed: what times decide (formats, so reformats, too) is the same every time."""
    for name, qdq in (("float", False), ("int8", True)):
        (tmp_path / f"{name}.onnx").write_bytes(bert(qdq))
        result = camshaft("build", f"{name}.onnx", "-o", f"{name}.engine", "--level", "0")
        assert result.code == 0, result.err


def test_layer_information(camexec, engines, tmp_path):
    def layers(*words):
        result = camexec("--loadEngine=float.engine", "--skipInference", "--exportLayerInfo=l.json", *words)
        assert result.code == 0, result.err
        return json.loads((tmp_path / "l.json").read_text()), result

    names, log = layers("--profilingVerbosity=layer_names_only", "--verbose")
    assert names["Layers"] == [REGION, "/best"] and set(names) == {"Layers", "Bindings"}
    assert f"Layer(Myelin): {REGION}, Tactic: 0x0000000000000000, ids (Int64[1,6]) -> " in log.out
    detailed, _ = layers("--profilingVerbosity=detailed")
    assert detailed["Regions"][0]["Name"] == REGION
    assert detailed["Regions"][0]["After"] == [{"Tensor": "/score/Add_out", "Layer": "/best", "Reason": "ArgMinMax: searches"}]
    inner = [layer for layer in detailed["Layers"] if layer.get("Region") == REGION]
    assert [layer["RegionLayer"]["Name"].rsplit("_", 1)[1] for layer in inner] == [str(k) for k in range(len(inner))]
    assert all("_myl0_" in layer["RegionLayer"]["Name"] for layer in inner)
    assert {layer["RegionLayer"]["LayerType"] for layer in inner} == {"kgen", "gemm", "NoOp"}
    gemms = [layer for layer in inner if layer["RegionLayer"]["LayerType"] == "gemm"]
    assert any(re.fullmatch(r"/layers_1/dense/MatMul_myl0_\d+", layer["RegionLayer"]["Name"]) for layer in gemms)
    assert all("[ONNX Layer: /" in layer["Metadata"] for layer in gemms)
    assert [layer["Name"] for layer in detailed["Layers"] if "Region" not in layer] == ["/best"]


def test_profiles_keep_the_inner_layers(camexec, engines, tmp_path):
    result = camexec("--loadEngine=float.engine", "--iterations=3", "--duration=0", "--warmUp=0", "--exportProfile=p.json")
    assert result.code == 0, result.err
    rows = json.loads((tmp_path / "p.json").read_text())[1:]
    assert any("/layers.1/dense/MatMul" in row["name"] for row in rows) and all("ForeignNode" not in row["name"] for row in rows)


def test_explain_opens_a_region(camshaft, engines):
    for word in (REGION, "region0", "ForeignNode"):
        text = camshaft("explain", "float.engine", word).out
        assert text.startswith(REGION) and "where it begins\n  ids: an input of the network" in text
        assert re.search(r"where it ends\n  /score/Add_out: /best \(\d+\), ArgMinMax: searches", text)
        assert "_gemm_mha_v2_myl0_" in text and "2 attention" in text
    assert f"region0 {REGION}" in camshaft("explain", "float.engine").out
    layer = camshaft("explain", "float.engine", "/layers.0/dense/MatMul").out
    there = re.search(rf"region  0 {re.escape(REGION)}, there (/layers_0/dense/MatMul_myl0_\d+) \(gemm\)", layer)
    # The peak is measured each time, so the percentage may differ by one.
    by_name, by_region = (re.sub(r"\d+ % of peak", "", text) for text in (layer, camshaft("explain", "float.engine", there[1]).out))
    assert by_name == by_region


def test_inspect_has_a_row_for_a_region(camshaft, engines):
    table = camshaft("inspect", "float.engine", "--regions").out
    assert REGION in table and "/layers.0" not in table and "/best" in table
    assert json.loads(camshaft("inspect", "float.engine", "--json", "--verbosity", "names").out)["Layers"] == [REGION, "/best"]
    assert "--regions is of the table" in camshaft("inspect", "float.engine", "--regions", "--json").err


def test_what_is_in_more_pieces_than_in_float(camshaft, engines):
    assert "Q and DQ run as layers of their own" in camshaft("explain", "int8.engine").out
    for other in ("float.engine", "float.onnx", "int8.onnx"):  # the last one is built without its Q/DQ
        text = camshaft("explain", "int8.engine", "--float", other, "--level", "0").out
        more = text.split("slower than in float")[0]
        assert "in more pieces than in float" in more and "2 times alike" in more
        assert re.search(r"in float  1 layer, [\d.]+ us\n +[\d.]+ us  MatrixMultiply: /layers.0/query/MatMul", more)
        assert re.search(r"here +2 layers, [\d.]+ us\n +[\d.]+ us  Reformat: /layers.0/query/in/QuantizeLinear", more)
        assert re.search(r"in float  \d+ layers, [\d.]+ us\n  here      \d+ layers, [\d.]+ us: [\d.]+ x as fast\n  \d+ pieces more", text)
    same = camshaft("explain", "float.engine", "--float", "float.engine").out
    assert "in more pieces than in float\n  none" in same and "by more than 8 %\n  none" in same and "  0 pieces more" in same


def test_times_of_a_region_and_beside_float(camshaft, engines):
    region = camshaft("explain", "float.onnx", "region0").out
    assert float(re.search(r"time    ([\d.]+) us when built", region)[1]) > 0
    text = camshaft("explain", "int8.onnx", "--float", "float.onnx").out
    sums = re.search(r"in float  \d+ layers, ([\d.]+) us\n  here      \d+ layers, ([\d.]+) us", text)
    assert float(sums[1]) > 0 and float(sums[2]) > 0


def test_another_network_is_no_float_form(camshaft, engines, tmp_path, conv_file):
    result = camshaft("explain", "int8.engine", "--float", conv_file)
    assert result.code == 1 and "another network?" in result.err


def test_convolution_networks_have_no_regions(camshaft, conv_file):
    camshaft("build", conv_file, "-o", "e.engine")
    document = json.loads(camshaft("inspect", "e.engine", "--json").out)
    assert "Regions" not in document and all("Region" not in layer for layer in document["Layers"])
    assert "regions" not in camshaft("explain", "e.engine").out


@pytest.mark.skipif(not SEEDS.exists(), reason="the seeds' generator is not beside this tree")
def test_the_bert_of_the_seed_is_one_layer_by_name(camexec, camshaft, tmp_path):
    spec = importlib.util.spec_from_file_location("gen_seed_models", SEEDS)
    seeds = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(seeds)
    seeds.bert12(str(tmp_path / "bert.onnx"), False)
    result = camexec("--onnx=bert.onnx", "--saveEngine=bert.engine", "--skipInference", "--builderOptimizationLevel=0",
                     "--exportLayerInfo=l.json", "--profilingVerbosity=layer_names_only")
    assert result.code == 0, result.err
    assert json.loads((tmp_path / "l.json").read_text())["Layers"] == ["{ForeignNode[/encoder/embedding/Gather.../match_model/Squeeze]}"]
    layers = json.loads(camshaft("inspect", "bert.engine", "--json").out)["Layers"]
    names = [layer["RegionLayer"]["Name"] for layer in layers]
    assert sum(name.startswith("_gemm_mha_v2_myl0_") for name in names) == 12
    dense = next(layer for layer in layers if "/encoder/layers.11/mha/output/dense/MatMul" in layer["SourceNodes"])
    assert dense["RegionLayer"]["Name"].startswith("/encoder/layers_11/mha/output/dense/MatMul_myl0_")
    assert "[ONNX Layer: /encoder/layers.11/mha/output/dense/MatMul]" in dense["Metadata"]
