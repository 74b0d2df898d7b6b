"""Decoders as users export them, 50 tokens each: optimum's form (past_key_values inputs, Concat, keys repeated for the heads, dynamic axes) and that of onnxruntime-genai's
builder (MatMulNBits, GroupQueryAttention). `camshaft bench --decode` keeps past and present in one buffer; its tokens are those of any number of threads,
and of ONNX Runtime where that is installed. Weights are synthetic."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="python3-onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import decoder  # noqa: E402

CAMSHAFT = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin")) / "camshaft"
PROMPT, STEPS = 7, 50


class Exported:
    """Two layers of a decoder as PyTorch's exporter writes optimum's models: no operator knows of attention."""

    def __init__(self, layers=2, width=64, heads=4, kv=2, inner=96, vocabulary=500):
        self.layers, self.width, self.heads, self.kv, self.inner, self.vocabulary = layers, width, heads, kv, inner, vocabulary
        self.depth = width // heads
        self.random = np.random.default_rng(3)
        self.nodes, self.stored = [], []

    def store(self, name, values):
        self.stored.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weights(self, name, *shape):
        return self.store(name, (self.random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def norm(self, name, x):
        square = self.node("Mul", [x, x], name + ".square")
        mean = self.node("ReduceMean", [square], name + ".mean", axes=[-1], keepdims=1)
        root = self.node("Sqrt", [self.node("Add", [mean, "epsilon"], name + ".shifted")], name + ".root")
        return self.node("Mul", [self.node("Div", [x, root], name + ".normal"), self.weights(name + ".weight", self.width)], name)

    def by_heads(self, name, x, heads):
        split = self.node("Reshape", [x, self.store(name + ".shape", np.array([0, 0, heads, self.depth], np.int64))], name + ".split")
        return self.node("Transpose", [split], name, perm=[0, 2, 1, 3])

    def rotated(self, name, x):
        half = self.depth // 2
        parts = [name + ".a", name + ".b"]
        self.nodes.append(helper.make_node("Split", [x, self.store(name + ".halves", np.array([half, half], np.int64))], parts, name=name + ".parts", axis=3))
        turned = self.node("Concat", [self.node("Neg", [parts[1]], name + ".minus"), parts[0]], name + ".turned", axis=3)
        return self.node("Add", [self.node("Mul", [x, "cosines"], name + ".c"), self.node("Mul", [turned, "sines"], name + ".s")], name)

    def repeated(self, name, x):
        five = self.node("Unsqueeze", [x, self.store(name + ".axis", np.array([2], np.int64))], name + ".five")
        shape = self.node("Shape", [x], name + ".of")
        parts = [self.node("Gather", [shape, self.store(f"{name}.{k}", np.array([k], np.int64))], f"{name}.extent{k}", axis=0) for k in (0, 1, 2, 3)]
        group = self.store(name + ".group", np.array([self.heads // self.kv], np.int64))
        wide = self.node("Expand", [five, self.node("Concat", [*parts[:2], group, *parts[2:]], name + ".wide", axis=0)], name + ".expanded")
        return self.node("Reshape", [wide, self.store(name + ".joined", np.array([0, self.heads, -1, self.depth], np.int64))], name)

    def model(self):
        value = helper.make_tensor_value_info
        self.store("epsilon", np.float32(1e-6))
        self.store("one", np.float32(1))
        self.store("zero", np.float32(0))
        self.store("hidden", np.float32(-1e4))
        inputs = [value("input_ids", TensorProto.INT64, ["batch", "steps"]), value("attention_mask", TensorProto.INT64, ["batch", "total"]),
                  value("position_ids", TensorProto.INT64, ["batch", "steps"])]
        outputs = [value("logits", TensorProto.FLOAT, ["batch", "steps", self.vocabulary])]
        angles = np.outer(np.arange(256), 100.0 ** (-np.arange(0, self.depth, 2) / self.depth))
        angles = np.concatenate([angles, angles], 1)
        for name, table in (("cosines", np.cos(angles)), ("sines", np.sin(angles))):
            rows = self.node("Gather", [self.store(name + ".table", table.astype(np.float32)), "position_ids"], name + ".rows", axis=0)
            self.node("Unsqueeze", [rows, self.store(name + ".axis", np.array([1], np.int64))], name)
        # The mask: causality, and what is padding.
        total = self.node("Range", ["zero_64", self.node("Gather", [self.node("Shape", ["attention_mask"], "mask.shape"), self.store("index_1", np.int64(1))], "mask.total", axis=0), "one_64"],
                          "mask.keys")
        self.store("zero_64", np.int64(0))
        self.store("one_64", np.int64(1))
        query = self.node("Unsqueeze", ["position_ids", self.store("mask.axes", np.array([1, 3], np.int64))], "mask.queries")
        sees = self.node("LessOrEqual", [total, query], "mask.sees")
        padding = self.node("Unsqueeze", [self.node("Cast", ["attention_mask"], "mask.bool", to=TensorProto.BOOL), self.store("mask.padded", np.array([1, 2], np.int64))], "mask.padding")
        mask = self.node("Where", [self.node("And", [sees, padding], "mask.both"), "zero", "hidden"], "mask")
        x = self.node("Gather", [self.weights("table", self.vocabulary, self.width), "input_ids"], "embedded", axis=0)
        for k in range(self.layers):
            name = f"layers.{k}."
            y = self.norm(name + "norm1", x)
            product = lambda part, of, columns: self.node("MatMul", [of, self.weights(f"{name}{part}.w", of_width(of), columns)], name + part)  # noqa: E731, B023
            of_width = lambda of: self.inner if of.endswith("act") else self.width  # noqa: E731
            q = self.rotated(name + "q.r", self.by_heads(name + "q.h", product("q", y, self.width), self.heads))
            new = {"key": self.rotated(name + "k.r", self.by_heads(name + "k.h", product("k", y, self.kv * self.depth), self.kv)),
                   "value": self.by_heads(name + "v.h", product("v", y, self.kv * self.depth), self.kv)}
            seen = {}
            for part in ("key", "value"):
                shape = ["batch", self.kv, "past", self.depth]
                inputs.append(value(f"past_key_values.{k}.{part}", TensorProto.FLOAT, shape))
                outputs.append(value(f"present.{k}.{part}", TensorProto.FLOAT, ["batch", self.kv, "total", self.depth]))
                present = self.node("Concat", [f"past_key_values.{k}.{part}", new[part]], f"present.{k}.{part}", axis=2)
                seen[part] = self.repeated(name + part + ".all", present)
            turned = self.node("Transpose", [seen["key"]], name + "kt", perm=[0, 1, 3, 2])
            scores = self.node("Div", [self.node("MatMul", [q, turned], name + "scores"), self.store(name + "root", np.float32(np.sqrt(self.depth)))], name + "scaled")
            weights = self.node("Softmax", [self.node("Add", [scores, mask], name + "masked")], name + "weights", axis=-1)
            mixed = self.node("Transpose", [self.node("MatMul", [weights, seen["value"]], name + "mixed")], name + "steps", perm=[0, 2, 1, 3])
            joined = self.node("Reshape", [mixed, self.store(name + "joined", np.array([0, 0, self.width], np.int64))], name + "rows")
            x = self.node("Add", [x, product("o", joined, self.width)], name + "sum1")
            y = self.norm(name + "norm2", x)
            gate = product("gate", y, self.inner)
            silu = self.node("Mul", [gate, self.node("Sigmoid", [gate], name + "sigmoid")], name + "silu")
            act = self.node("Mul", [silu, product("up", y, self.inner)], name + "act")
            x = self.node("Add", [x, product("down", act, self.width)], name + "sum2")
        self.node("MatMul", [self.norm("norm", x), self.weights("head", self.width, self.vocabulary)], "logits")
        graph = helper.make_graph(self.nodes, "exported", inputs, outputs, self.stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def built(bits, apart=False):
    """The form of onnxruntime-genai's builder, by bench/decoder.py; `apart`: queries, keys and values of products of their own."""
    options = dict(layers=2, width=64, heads=4, kv=2, inner=96, vocabulary=500, bits=bits or 4, block=32, level=0, seed=1, float=bits == 0, apart=apart)
    return decoder.Decoder(type("Options", (), options)()).model()


MODELS = {"optimum": lambda: Exported().model(), "genai_floats": lambda: built(0), "genai_4_bits": lambda: built(4), "genai_4_bits_apart": lambda: built(4, True)}


@pytest.fixture(params=sorted(MODELS), scope="module")
def file(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "decoder.onnx"
    onnx.save(MODELS[request.param](), str(path))
    return path


def decode(file, threads, **environment):
    command = [str(CAMSHAFT), "bench", str(file), "--decode", f"{PROMPT},{STEPS}", "--threads", str(threads), "--level", "0", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_one_buffer_each_and_the_same_tokens_with_any_threads(file):
    runs = [decode(file, threads) for threads in (1, 2, 4)]
    assert all(len(run["tokens"]) == STEPS + 1 and run["tokens"] == runs[0]["tokens"] for run in runs)
    assert len(set(runs[0]["tokens"])) > 3  # else every step gives the same whatever it reads
    assert runs[0]["caches"] == runs[0]["sharedCaches"] == 4


@pytest.mark.parametrize("isa", ["scalar", "avx2"])
def test_other_instruction_sets_agree(file, isa):
    assert decode(file, 2, CAMSHAFT_ISA=isa)["tokens"][:20] == decode(file, 2)["tokens"][:20]


def test_kernels_stay_within_their_views(file):
    assert decode(file, 2, CAMSHAFT_CHECK_VIEWS="2")["tokens"] == decode(file, 2)["tokens"]


def test_onnx_runtime_generates_the_same(file):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    theirs = decoder.Runtime(file, 1)
    theirs.start()
    first, _, tokens = decoder.generate(theirs, PROMPT, STEPS)
    assert decode(file, 1)["tokens"] == tokens
