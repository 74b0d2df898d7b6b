"""The operators that exporters of transformers write (com.microsoft, blocked DequantizeLinear), in small models of one operator each: `camshaft run`
against numpy in double precision, and against ONNX Runtime where it is installed."""

import os
import pathlib
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="python3-onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAMSHAFT = pathlib.Path(os.environ.get("CAMSHAFT_BIN", ROOT / "build/release/bin")) / "camshaft"
ISAS = ["scalar", "avx2", "avx512"]
KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int32): TensorProto.INT32,
         np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8, np.dtype(np.bool_): TensorProto.BOOL}

random = np.random.default_rng(7)


def floats(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


class Case:
    """One node with its inputs (fed or stored), and what it should give."""

    def __init__(self, operator, fed, stored, expected, domain="com.microsoft", opset=21, inputs=None, tolerance=2e-5, runtime=True, outputs=None, **attributes):
        self.operator, self.fed, self.stored, self.expected = operator, fed, stored, expected
        self.domain, self.opset, self.tolerance, self.runtime, self.attributes = domain, opset, tolerance, runtime, attributes
        self.inputs = inputs if inputs is not None else [*fed, *stored]
        self.outputs = outputs or list(expected)

    def model(self):
        tensors = [value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value, name) for name, value in self.stored.items()]
        for tensor, name in zip(tensors, self.stored):
            tensor.name = name
        nodes = self.nodes()
        graph = helper.make_graph(nodes, "g",
                                  [helper.make_tensor_value_info(name, KINDS[value.dtype], value.shape) for name, value in self.fed.items()],
                                  [helper.make_tensor_value_info(name, KINDS[np.asarray(value).dtype] if np.asarray(value).dtype != np.float64 else TensorProto.FLOAT,
                                                                 np.shape(value)) for name, value in self.expected.items()],
                                  tensors)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def nodes(self):
        return [helper.make_node(self.operator, self.inputs, self.outputs, domain=self.domain, **self.attributes)]


class Product(Case):
    """x times dequantized weights."""

    def nodes(self):
        dequantize = helper.make_node("DequantizeLinear", ["codes", "scales"] + (["zeros"] if "zeros" in self.stored else []), ["w"], **self.attributes)
        return [dequantize, helper.make_node("MatMul", ["x", "w"], ["y"])]


# --- references

def erf(x):
    from math import erf as one
    return np.vectorize(one)(np.asarray(x, np.float64))


def gelu(x):
    x = np.asarray(x, np.float64)
    return x * 0.5 * (1 + erf(x / np.sqrt(2)))


def gelu_tanh(x):
    x = np.asarray(x, np.float64)
    return x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def layer_norm(x, gamma, beta, epsilon):
    x = np.asarray(x, np.float64)
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered ** 2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def rms_norm(x, gamma, epsilon):
    x = np.asarray(x, np.float64)
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + epsilon) * gamma


def rotate(x, cosine, sine, positions, heads, interleaved=False, rotated=0):
    """x [B, T, H * D]"""
    batch, steps, width = x.shape
    x = np.asarray(x, np.float64).reshape(batch, steps, heads, width // heads)
    size = rotated or x.shape[-1]
    c, s = cosine[positions][:, :, None, :], sine[positions][:, :, None, :]
    y = x.copy()
    a, b = (x[..., 0:size:2], x[..., 1:size:2]) if interleaved else (x[..., :size // 2], x[..., size // 2:size])
    real, imaginary = a * c - b * s, a * s + b * c
    if interleaved:
        y[..., 0:size:2], y[..., 1:size:2] = real, imaginary
    else:
        y[..., :size // 2], y[..., size // 2:size] = real, imaginary
    return y.reshape(batch, steps, width)


def pack(codes, bits):
    """Codes along the last axis, low bits first."""
    per_byte = 8 // bits
    missing = -codes.shape[-1] % per_byte
    codes = np.concatenate([codes, np.zeros((*codes.shape[:-1], missing), codes.dtype)], -1)
    codes = codes.reshape(*codes.shape[:-1], -1, per_byte).astype(np.uint8)
    return sum(codes[..., k] << (k * bits) for k in range(per_byte)).astype(np.uint8)


# --- cases

def matmul_bits(rows, n, k, bits, block, zeros=None, level=0, bias=False, runtime=True, sorts=False):
    blocks = -(-k // block)
    group = random.permutation(np.arange(k) // block) if sorts else np.arange(k) // block
    codes = random.integers(0, 1 << bits, (n, blocks, block))
    codes.reshape(n, -1)[:, k:] = 0
    scales = (0.01 + 0.02 * random.random((n, blocks))).astype(np.float32)
    zero = np.full((n, blocks), 1 << (bits - 1), np.float64)
    stored = {"codes": pack(codes, bits), "scales": scales.reshape(-1)}
    inputs = ["x", "codes", "scales"]
    if zeros == "packed":
        zero = random.integers(0, 1 << bits, (n, blocks))
        stored["zeros"] = pack(zero, bits).reshape(-1)
    if zeros == "float":
        zero = (np.float32((1 << (bits - 1)) + random.uniform(-1, 1, (n, blocks)))).astype(np.float32)
        stored["zeros"] = zero
    if sorts:
        stored["groups"] = group.astype(np.int32)
    inputs += ["zeros" if zeros else "", "groups" if sorts else "", "bias" if bias else ""]
    while not inputs[-1]:
        inputs.pop()
    x = floats(*rows, k)
    weights = (codes.reshape(n, -1)[:, :k] - np.asarray(zero, np.float64)[:, group]) * scales[:, group]
    y = x.astype(np.float64) @ weights.T
    if bias:
        stored["bias"] = floats(n)
        y = y + stored["bias"]
    # int8 rows: every element may be wrong by half a step of 1/127.
    tolerance = 2e-5 if level != 4 else 0.2 * float(np.abs(weights).sum(1).max()) / 254 / max(1, float(np.abs(y).max()))
    return Case("MatMulNBits", {"x": x}, stored, {"y": y}, inputs=inputs, tolerance=tolerance, runtime=runtime, N=n, K=k, bits=bits, block_size=block, accuracy_level=level)


FLOAT4 = [0, 0.0052083333, 2 / 3, 1, 1 / 3, 0.5, 1 / 6, 0.25]
NORMAL4 = [-1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0,
           0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1]


def matmul_bnb4(rows, n, k, kind, block):
    """Codes of [n, k] in a row, two a byte with the first above, blocks that go on across rows."""
    x, codes = floats(*rows, k), random.integers(0, 16, n * k)
    largest = np.abs(floats((n * k + block - 1) // block)) + np.float32(0.1)
    table = np.array([FLOAT4 + [-v for v in FLOAT4], NORMAL4][kind])
    weights = (table[codes] * np.repeat(largest, block)[:n * k]).reshape(n, k)
    if codes.size % 2:
        codes = np.append(codes, 0)
    packed = (codes[0::2] << 4 | codes[1::2]).astype(np.uint8)
    return Case("MatMulBnb4", {"x": x}, {"w": packed, "s": largest}, {"y": x.astype(np.float64) @ weights.T}, K=k, N=n, block_size=block, quant_type=kind)


def dequantized(kind, shape, axis, block, zeros, rows=3):
    """x [rows, K] times weights [K, N]; blocks along axis 0, or one scale per column."""
    signed, bits = kind.startswith("int"), int(kind.lstrip("uint"))
    low = -(1 << (bits - 1)) if signed else 0
    codes = random.integers(low, low + (1 << bits), shape)
    scale_shape = (-(-shape[0] // block), shape[1]) if block else (shape[1],) if axis is not None else ()
    scales = (0.01 + 0.02 * random.random(scale_shape)).astype(np.float32)
    zero = random.integers(low, low + (1 << bits), scale_shape) if zeros else np.zeros(scale_shape)
    type_ = getattr(TensorProto, kind.upper())
    spread = (lambda v: np.repeat(v, block, 0)[:shape[0]]) if block else (lambda v: v)
    weights = (codes - spread(np.asarray(zero))) * spread(scales.astype(np.float64))
    stored = {"codes": helper.make_tensor("codes", type_, shape, codes.flatten().tolist()), "scales": scales}
    if zeros:
        stored["zeros"] = helper.make_tensor("zeros", type_, scale_shape, zero.flatten().tolist())
    x = floats(rows, shape[0])
    attributes = {"axis": axis if axis is not None else 1}
    if block:
        attributes["block_size"] = block
    return Product("DequantizeLinear", {"x": x}, stored, {"y": x.astype(np.float64) @ weights}, **attributes)


def gather_quantized(bits, kind, zeros):
    rows, width, block = 11, 64, 16
    codes = random.integers(0, 1 << bits, (rows, width))
    scales = floats(rows, width // block)
    indices = np.array([[3, 0, 10], [7, 7, 1]], np.int64)
    centre = (1 << (bits - 1)) if kind == "packed" else 0
    zero = random.integers(0, 1 << bits, (rows, width // block)) if zeros else np.full((rows, width // block), centre)
    attributes = {"block_size": block, "gather_axis": 0, "quantize_axis": 1}
    if kind == "packed":
        stored = {"data": pack(codes, bits)}
        attributes["bits"] = bits
        if zeros:
            stored["zeros"] = pack(zero, bits)
    else:
        offset = 8 if kind == "int4" else 0
        type_ = TensorProto.INT4 if kind == "int4" else TensorProto.UINT4
        stored = {"data": helper.make_tensor("data", type_, codes.shape, (codes - offset).flatten().tolist())}
        zero = zero + (0 if zeros else offset)
        if zeros:
            stored["zeros"] = helper.make_tensor("zeros", type_, zero.shape, (zero - offset).flatten().tolist())
    stored["scales"] = scales
    values = (codes.reshape(rows, -1, block) - zero[..., None]) * scales[..., None].astype(np.float64)
    inputs = ["data", "indices", "scales"] + (["zeros"] if zeros else [])
    return Case("GatherBlockQuantized", {"indices": indices}, stored, {"y": values.reshape(rows, width)[indices]}, inputs=inputs, **attributes)


def rotary(heads_first, interleaved, offset, rotated=0):
    batch, steps, heads, depth = 2, 5, 3, 8
    half = (rotated or depth) // 2
    cosine, sine = floats(20, half), floats(20, half)
    positions = np.array([4], np.int64) if offset else random.integers(0, 20, (batch, steps)).astype(np.int64)
    x = floats(batch, steps, heads * depth)
    rows = np.arange(4, 4 + steps)[None].repeat(batch, 0) if offset else positions
    y = rotate(x, cosine, sine, rows, heads, interleaved, rotated)
    if heads_first:
        x = np.ascontiguousarray(x.reshape(batch, steps, heads, depth).transpose(0, 2, 1, 3))
        y = y.reshape(batch, steps, heads, depth).transpose(0, 2, 1, 3)
    attributes = {"interleaved": int(interleaved)}
    if rotated:
        attributes.update(num_heads=heads, rotary_embedding_dim=rotated)
    return Case("RotaryEmbedding", {"x": x, "positions": positions}, {"cosine": cosine, "sine": sine}, {"y": y}, inputs=["x", "positions", "cosine", "sine"], **attributes)


def embed():
    batch, steps, width = 2, 6, 16
    words, places, segments, gamma, beta = floats(30, width), floats(12, width), floats(2, width), floats(width), floats(width)
    ids, kinds = random.integers(0, 30, (batch, steps)).astype(np.int32), random.integers(0, 2, (batch, steps)).astype(np.int32)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    total = words[ids].astype(np.float64) + places[:steps] + segments[kinds]
    return Case("EmbedLayerNormalization", {"ids": ids, "kinds": kinds, "mask": mask},
                {"words": words, "places": places, "segments": segments, "gamma": gamma, "beta": beta},
                {"y": layer_norm(total, gamma, beta, 1e-12), "lengths": np.array([4, 6], np.int32)},
                inputs=["ids", "kinds", "words", "places", "segments", "gamma", "beta", "mask"], epsilon=1e-12)


def skip_norm(simplified, bias):
    x, skip, gamma, beta, extra = floats(2, 3, 24), floats(2, 3, 24), floats(24), floats(24), floats(24)
    total = x.astype(np.float64) + skip + (extra if bias else 0)
    stored = {"gamma": gamma}
    inputs = ["x", "skip", "gamma"]
    if not simplified:
        stored["beta"] = beta
        inputs.append("beta")
    if bias:
        stored["bias"] = extra
        inputs.append("bias")
    y = rms_norm(total, gamma, 1e-5) if simplified else layer_norm(total, gamma, beta, 1e-5)
    return Case("SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization", {"x": x, "skip": skip}, stored, {"y": y, "sum": total},
                inputs=inputs, outputs=["y", "", "", "sum"], epsilon=1e-5)


def grouped(packed, steps, past, window=-1, cap=0.0, capacity=0, counts=None):
    """`past`: tokens in the cache, of each item of the batch; `capacity`: rows of the buffer they lie in; `counts`: new tokens of each item, the others are padding."""
    pasts = past if isinstance(past, list) else [past]
    counts = counts or [steps] * len(pasts)
    batch, heads, kv, depth, total = len(pasts), 4, 2, 16, max(pasts) + steps
    rows = max(capacity, max(pasts))
    q, k, v = floats(batch, steps, heads * depth), floats(batch, steps, kv * depth), floats(batch, steps, kv * depth)
    past_k, past_v = floats(batch, kv, rows, depth), floats(batch, kv, rows, depth)
    for item, count in enumerate(pasts):
        past_k[item, :, count:] = past_v[item, :, count:] = 0
    cosine, sine = floats(64, depth // 2), floats(64, depth // 2)
    at = np.array(pasts)[:, None] + np.arange(steps)[None]
    by_heads = lambda t, n: t.reshape(batch, -1, n, depth).transpose(0, 2, 1, 3)  # noqa: E731
    rq, rk = by_heads(rotate(q, cosine, sine, at, heads), heads), by_heads(rotate(k, cosine, sine, at, kv), kv)
    keys, values = np.zeros((2, batch, kv, max(rows, total), depth))
    keys[:, :, :rows], values[:, :, :rows] = past_k, past_v
    for item, count in enumerate(pasts):
        keys[item, :, count:count + steps], values[item, :, count:count + steps] = rk[item], by_heads(v, kv)[item]
    scores = rq @ keys.repeat(heads // kv, 1).transpose(0, 1, 3, 2) / np.sqrt(depth)
    if cap:
        scores = cap * np.tanh(scores / cap)
    key, query = np.arange(keys.shape[2])[None, None, None, :], at[:, None, :, None]
    hidden = key > query
    if window > 0:
        hidden = hidden | (key <= query - window)
    weights = np.exp(np.where(hidden, -np.inf, scores))
    y = ((weights / weights.sum(-1, keepdims=True)) @ values.repeat(heads // kv, 1)).transpose(0, 2, 1, 3).reshape(batch, steps, -1)
    for item, count in enumerate(counts):  # of padding nothing is said
        y[item, count:] = np.nan
        keys[item, :, pasts[item] + count:pasts[item] + steps] = values[item, :, pasts[item] + count:pasts[item] + steps] = np.nan
    fed = {"q": np.concatenate([q, k, v], -1)} if packed else {"q": q, "k": k, "v": v}
    fed.update(past_k=past_k, past_v=past_v, lengths=np.array([p + c - 1 for p, c in zip(pasts, counts)], np.int32), total=np.array(total, np.int32))
    inputs = ["q", "" if packed else "k", "" if packed else "v", "past_k", "past_v", "lengths", "total", "cosine", "sine"]
    return Case("GroupQueryAttention", fed, {"cosine": cosine, "sine": sine}, {"y": y, "present_k": keys, "present_v": values}, inputs=inputs,
                num_heads=heads, kv_num_heads=kv, do_rotary=1, local_window_size=window, softcap=cap)


NIBBLES = hasattr(TensorProto, "INT4")  # onnx 1.16


def test_types_of_four_bits():
    if not NIBBLES:
        pytest.skip(f"onnx {onnx.__version__} has no 4-bit types: 10 cases are left out")


def cases():
    x, b = floats(2, 3, 24), floats(24)
    found = {
        "gelu": Case("Gelu", {"x": 3 * x}, {}, {"y": gelu(3 * x)}),
        "bias_gelu": Case("BiasGelu", {"x": x}, {"b": b}, {"y": gelu(x + b)}),
        "fast_gelu": Case("FastGelu", {"x": 3 * x}, {}, {"y": gelu_tanh(3 * x)}),
        "fast_gelu_bias": Case("FastGelu", {"x": x}, {"b": b}, {"y": gelu_tanh(x + b)}),
        "quick_gelu": Case("QuickGelu", {"x": x}, {}, {"y": x / (1 + np.exp(-1.5 * x.astype(np.float64)))}, alpha=1.5),
        "simplified_norm": Case("SimplifiedLayerNormalization", {"x": x}, {"b": b}, {"y": rms_norm(x, b, 1e-6)}, domain="", epsilon=1e-6, axis=-1),
        "embed_norm": embed(),
    }
    for simplified in (False, True):
        for bias in (False, True):
            found[f"skip_norm_{'rms' if simplified else 'layer'}{'_bias' if bias else ''}"] = skip_norm(simplified, bias)
    for bits in (4, 8):
        for zeros in (False, True):
            found[f"gather_packed_{bits}{'_zeros' if zeros else ''}"] = gather_quantized(bits, "packed", zeros)
    for kind in ("int4", "uint4") if NIBBLES else ():
        for zeros in (False, True):
            found[f"gather_{kind}{'_zeros' if zeros else ''}"] = gather_quantized(4, kind, zeros)
    for heads_first in (False, True):
        for interleaved in (False, True):
            found[f"rotary_{int(heads_first)}{int(interleaved)}"] = rotary(heads_first, interleaved, False)
    found["rotary_offset"] = rotary(False, False, True)
    found["rotary_part"] = rotary(False, False, False, rotated=4)
    for packed in (False, True):
        found[f"grouped_prompt_{int(packed)}"] = grouped(packed, 6, 0)
        found[f"grouped_step_{int(packed)}"] = grouped(packed, 1, 9)
    found["grouped_chunk"] = grouped(True, 3, 5)
    found["grouped_window"] = grouped(True, 8, 0, window=3)
    found["grouped_cap"] = grouped(False, 4, 0, cap=2.0)
    found["grouped_buffer"] = grouped(True, 1, 9, capacity=24)
    found["grouped_buffer_full"] = grouped(False, 1, 23, capacity=24)
    found["grouped_buffer_prompt"] = grouped(True, 6, 0, capacity=24)
    found["grouped_buffer_window"] = grouped(True, 1, 9, window=4, capacity=24)
    found["grouped_items"] = grouped(True, 1, [9, 4, 7])
    found["grouped_items_buffer"] = grouped(True, 1, [9, 4, 7], capacity=16)
    found["grouped_items_window"] = grouped(False, 1, [9, 2, 7], window=3, capacity=16)
    found["grouped_items_prompt"] = grouped(True, 5, [0, 0], capacity=16, counts=[5, 3])
    for block in (16, 32, 64, 128, 256):
        found[f"bits4_{block}"] = matmul_bits((1,), 40, 200, 4, block)
        found[f"bits4_{block}_zeros"] = matmul_bits((3,), 40, 256, 4, block, zeros="packed")
    found["bits4_batch"] = matmul_bits((2, 5), 33, 128, 4, 32, bias=True)
    found["bits4_floats"] = matmul_bits((2, 5), 33, 128, 4, 32, zeros="float")
    found["bits4_prompt"] = matmul_bits((40,), 70, 128, 4, 32)
    found["bits8"] = matmul_bits((3,), 40, 128, 8, 32)
    found["bits8_zeros"] = matmul_bits((3,), 40, 128, 8, 32, zeros="packed")
    found["bits2"] = matmul_bits((3,), 40, 128, 2, 32, runtime=False)
    found["bits4_level4"] = matmul_bits((1,), 40, 256, 4, 32, level=4)
    found["bits4_level4_prompt"] = matmul_bits((20,), 40, 256, 4, 64, zeros="packed", level=4)
    found["bits4_sorted"] = matmul_bits((2, 5), 40, 256, 4, 32, sorts=True)
    found["bits4_sorted_part"] = matmul_bits((1,), 40, 200, 4, 64, sorts=True, bias=True)
    # ONNX Runtime 1.32 takes 8 for every zero point where there is a g_idx; its documentation has one per group.
    found["bits4_sorted_zeros"] = matmul_bits((1,), 40, 200, 4, 64, zeros="packed", sorts=True, bias=True, runtime=False)
    found["bits8_sorted"] = matmul_bits((3,), 40, 128, 8, 32, sorts=True, runtime=False)
    for kind in (0, 1):
        found[f"bnb4_{kind}"] = matmul_bnb4((3,), 40, 128, kind, 64)
        found[f"bnb4_{kind}_odd"] = matmul_bnb4((2, 5), 33, 31, kind, 16)
    for kind in ("int4", "uint4", "int8", "uint8") if NIBBLES else ("int8", "uint8"):
        found[f"blocked_{kind}"] = dequantized(kind, (128, 48), 0, 32, False)
        found[f"blocked_{kind}_zeros"] = dequantized(kind, (128, 48), 0, 32, True)
        found[f"columns_{kind}"] = dequantized(kind, (96, 48), 1, 0, True)
    found["tensor_int8"] = dequantized("int8", (96, 48), None, 0, False)
    p, q = floats(7, 24), floats(5, 24)
    squares = ((p[:, None].astype(np.float64) - q[None]) ** 2).sum(2)
    found["distances"] = Case("CDist", {"p": p, "q": q}, {}, {"y": np.sqrt(squares)}, metric="euclidean")
    found["squared_distances"] = Case("CDist", {"p": p}, {"q": q}, {"y": squares})
    return found


CASES = cases()


def close(got, wanted, tolerance):
    wanted = np.asarray(wanted)
    if got.shape != wanted.shape:
        return False
    told = ~np.isnan(wanted)  # of the rest nothing is said
    got, wanted = got[told].astype(np.float64), wanted[told]
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    return np.abs(got - wanted).max(initial=0) <= tolerance * scale


def run(file, feeds, folder, isa):
    arguments = []
    for name, value in feeds.items():
        np.save(folder / f"{name}.npy", value)
        arguments += ["--input", f"{name}:{folder / (name + '.npy')}"]
    command = [str(CAMSHAFT), "run", str(file), *arguments, "--save-outputs", str(folder / "out"), "--threads", "2"]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CAMSHAFT_ISA": isa})
    assert result.returncode == 0, result.stderr
    return {path.stem: np.load(path) for path in (folder / "out").rglob("*.npy")}


def check(case, isa, folder):
    file = folder / "m.onnx"
    onnx.save(case.model(), str(file))
    outputs = run(file, case.fed, folder, isa)
    for output, wanted in case.expected.items():
        assert close(outputs[output], wanted, case.tolerance), f"{output}: {np.abs(outputs[output] - wanted).max()}"


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_gives_what_numpy_gives(name, isa, tmp_path):
    check(CASES[name], isa, tmp_path)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_reference_is_onnx_runtimes(name):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    case = CASES[name]
    if not case.runtime:
        pytest.skip("ONNX Runtime has no such kernel on the CPU")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL  # else dequantized weights multiply int8 rows
    session = runtime.InferenceSession(case.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    for (output, wanted), got in zip(case.expected.items(), session.run(list(case.expected), case.fed)):
        assert close(got, wanted, max(case.tolerance, 1e-4)), output


def test_weights_stay_codes(tmp_path):
    """A product of 4-bit weights keeps 4 bits in the engine, and says so."""
    case = matmul_bits((1,), 512, 2048, 4, 32)
    file, engine = tmp_path / "m.onnx", tmp_path / "m.engine"
    onnx.save(case.model(), str(file))
    subprocess.run([str(CAMSHAFT), "build", str(file), "-o", str(engine), "--level", "0"], check=True, capture_output=True)
    assert engine.stat().st_size < 512 * 2048 * 0.75
    text = subprocess.run([str(CAMSHAFT), "inspect", str(engine)], check=True, capture_output=True, text=True).stdout
    assert "matmul_nbits" in text


@pytest.mark.parametrize("change, words", [({"N": 41}, "N, K and block_size"), ({"bits": 3}, "weights of 3 bits"), ({"block_size": 7}, "block_size 7")])
def test_what_does_not_fit_is_named(change, words, tmp_path):
    case = matmul_bits((1,), 40, 256, 4, 32)
    case.attributes.update(change)
    file = tmp_path / "m.onnx"
    onnx.save(case.model(), str(file))
    result = subprocess.run([str(CAMSHAFT), "build", str(file), "-o", str(tmp_path / "m.engine")], capture_output=True, text=True)
    assert result.returncode != 0 and words in result.stderr
    assert "MatMulNBits" in result.stderr


def test_groups_of_unequal_size_are_refused(tmp_path):
    case = matmul_bits((1,), 40, 256, 4, 32)
    case.stored["groups"] = np.asarray(np.arange(256) // 32, np.int32)
    case.stored["groups"][0] = 1
    case.inputs = ["x", "codes", "scales", "", "groups"]
    file = tmp_path / "m.onnx"
    onnx.save(case.model(), str(file))
    result = subprocess.run([str(CAMSHAFT), "build", str(file), "-o", str(tmp_path / "m.engine")], capture_output=True, text=True)
    assert result.returncode != 0 and "g_idx: group 0 has 31 weights" in result.stderr


@pytest.mark.parametrize("change, words", [({"total": 8, "lengths": 11}, "continues|goes on|there is room"), ({"lengths": 30}, "goes on at row 30 of a past of 9")],
                         ids=["more rows than the present has", "an item longer than its past"])
def test_lengths_that_do_not_fit_are_refused(change, words, tmp_path):
    case = grouped(True, 1, 9)
    for name, value in change.items():
        case.fed[name] = np.full_like(case.fed[name], value)
    file = tmp_path / "m.onnx"
    onnx.save(case.model(), str(file))
    arguments = []
    for name, value in case.fed.items():
        np.save(tmp_path / f"{name}.npy", value)
        arguments += ["--input", f"{name}:{tmp_path / (name + '.npy')}"]
    result = subprocess.run([str(CAMSHAFT), "run", str(file), *arguments], capture_output=True, text=True)
    assert result.returncode == 1 and any(word in result.stderr for word in words.split("|")), result.stderr
