"""The operators that ONNX Runtime's own optimizer writes when it saves a model, in small models of one operator each: `camshaft run` against numpy in
double precision, and numpy against ONNX Runtime where it is installed, which then saves a whole network, too."""

import itertools
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="python3-onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from transformer_operators_test import CAMSHAFT, ISAS, ROOT, Case, close, floats, run  # noqa: E402

random = np.random.default_rng(11)
SCALE = np.float32(0.0625)


def codes(kind, *shape):
    limits = np.iinfo(kind)
    return random.integers(limits.min, limits.max + 1, shape).astype(kind)


def unsaturated(*shape):
    """Weights of which ONNX Runtime saturates no sum of two products on processors without VNNI."""
    return random.integers(-60, 61, shape).astype(np.int8)


# --- references

ACTIVATIONS = {
    "Relu": ([], lambda y: np.maximum(y, 0)),
    "Sigmoid": ([], lambda y: 1 / (1 + np.exp(-y))),
    "Tanh": ([], np.tanh),
    "LeakyRelu": ([0.25], lambda y: np.where(y < 0, 0.25 * y, y)),
    "Clip": ([-0.5, 0.75], lambda y: np.clip(y, -0.5, 0.75)),
    "HardSigmoid": ([0.3, 0.4], lambda y: np.clip(0.3 * y + 0.4, 0, 1)),
}


def convolve(x, w, bias, stride):
    """[N, C, H, W] with [M, C, h, w], one row and column of zeros around."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = w.shape[2:]
    rows, columns = (x.shape[2] - height) // stride + 1, (x.shape[3] - width) // stride + 1
    y = np.zeros((x.shape[0], w.shape[0], rows, columns))
    for i, j in itertools.product(range(height), range(width)):
        part = x[:, :, i:i + stride * rows:stride, j:j + stride * columns:stride]
        y += np.einsum("nchw,mc->nmhw", part, w[:, :, i, j].astype(np.float64))
    return y + bias.astype(np.float64)[:, None, None]


def quantized(y, zero):
    return np.clip(np.rint(y / SCALE) + zero, 0, 255).astype(np.uint8)


# --- cases


def fused_conv(activation, adds):
    x, w, bias, z = floats(2, 3, 6, 7), floats(4, 3, 3, 3), floats(4), floats(2, 4, 3, 4)
    parameters, function = ACTIVATIONS[activation]
    y = function(convolve(x, w, bias, 2) + (z if adds else 0))
    attributes = {"activation": activation, "pads": [1, 1, 1, 1], "strides": [2, 2]} | ({"activation_params": parameters} if parameters else {})
    return Case("FusedConv", {"x": x} | ({"z": z} if adds else {}), {"w": w, "b": bias}, {"y": y}, inputs=["x", "w", "b"] + (["z"] if adds else []), **attributes)


def fused_gemm(activation, attributes, function):
    a, b, c = floats(5, 7), floats(7, 6), floats(6)
    y = function(0.5 * a.astype(np.float64) @ b + 2 * c.astype(np.float64))
    return Case("FusedGemm", {"a": a}, {"b": b, "c": c}, {"y": y}, activation=activation, alpha=0.5, beta=2.0, **attributes)


def fused_matmul(trans_a, trans_b, batch_a, batch_b, operator="FusedMatMul"):
    """Batches of [2, 3]; [M, 2, 3, K] where the batch follows the rows."""
    def operand(rows, columns, transposes, moves_batch):
        value = floats(2, 3, rows, columns)
        stored = np.swapaxes(value, 2, 3) if transposes else value
        return value.astype(np.float64), np.ascontiguousarray(np.moveaxis(stored, 2, 0) if moves_batch else stored)
    (a, given_a), (b, given_b) = operand(5, 4, trans_a, batch_a), operand(4, 6, trans_b, batch_b)
    attributes = {"transA": trans_a, "transB": trans_b, "alpha": 0.125} | ({"transBatchA": batch_a, "transBatchB": batch_b} if batch_a or batch_b else {})
    return Case(operator, {"a": given_a, "b": given_b}, {}, {"y": 0.125 * a @ b}, **attributes)


def channel_last_conv():
    x, w, bias = codes(np.uint8, 1, 6, 5, 3), unsaturated(4, 3, 3, 3), random.integers(-900, 900, 4).astype(np.int32)
    y = convolve((x.astype(np.float64) - 120).transpose(0, 3, 1, 2), w, bias, 1) * SCALE / 64
    stored = {"xs": SCALE, "xz": np.uint8(120), "w": w, "ws": np.float32(1 / 64), "wz": np.int8(0), "ys": SCALE, "yz": np.uint8(100), "b": bias}
    return Case("QLinearConv", {"x": x}, stored, {"y": quantized(y, 100).transpose(0, 2, 3, 1)}, channels_last=1, pads=[1, 1, 1, 1])


def channel_last_pooling(operator):
    x = codes(np.uint8, 2, 6, 4, 5)
    if operator == "NhwcMaxPool":
        y = x.reshape(2, 3, 2, 2, 2, 5).max((2, 4))
        return Case(operator, {"x": x}, {}, {"y": y}, kernel_shape=[2, 2], strides=[2, 2])
    stored = {"xs": SCALE, "xz": np.uint8(120), "ys": SCALE, "yz": np.uint8(100)}
    real = (x.astype(np.float64) - 120) * SCALE
    if operator == "QLinearGlobalAveragePool":
        return Case(operator, {"x": x}, stored, {"y": quantized(real.mean((1, 2), keepdims=True), 100)}, channels_last=1, tolerance=1 / 255)
    y = quantized(real.reshape(2, 3, 2, 2, 2, 5).mean((2, 4)), 100)
    return Case(operator, {"x": x}, stored, {"y": y}, channels_last=1, kernel_shape=[2, 2], strides=[2, 2], tolerance=1 / 255)


def quantized_where():
    x, y, chosen = codes(np.uint8, 4, 6), codes(np.uint8, 4, 6), random.integers(0, 2, (4, 6)).astype(np.bool_)
    real = np.where(chosen, (x.astype(np.float64) - 10) * 0.125, (y.astype(np.float64) - 20) * 0.25)
    stored = {"xs": np.float32(0.125), "xz": np.uint8(10), "ys": np.float32(0.25), "yz": np.uint8(20), "zs": SCALE, "zz": np.uint8(100)}
    return Case("QLinearWhere", {"c": chosen, "x": x, "y": y}, stored, {"z": quantized(real, 100)}, inputs=["c", "x", "xs", "xz", "y", "ys", "yz", "zs", "zz"])


def dynamic_product(bias):
    a, b, scales, added = floats(5, 16), unsaturated(16, 6), (floats(6) * 0.01 + 0.02).astype(np.float32), floats(6)
    low, high = min(a.min(), 0), max(a.max(), 0)
    scale = np.float32((high - low) / np.float32(255))
    zero = np.rint(-low / scale)
    rows = (np.clip(np.rint(a / scale) + zero, 0, 255) - zero) * np.float64(scale)
    y = rows @ (b * scales.astype(np.float64)) + (added if bias else 0)
    return Case("DynamicQuantizeMatMul", {"a": a}, {"b": b, "s": scales, "z": np.zeros(6, np.int8)} | ({"bias": added} if bias else {}), {"y": y})


def asymmetric_codes(x):
    """Codes, scale and zero point as DynamicQuantizeLinear gives them."""
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.float32((high - low) / np.float32(255))
    zero = np.uint8(np.rint(-low / scale))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class DynamicCase(Case):
    """Behind DynamicQuantizeLinear of x."""

    def nodes(self):
        return [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]), *super().nodes()]


def quantized_attention(dynamic, kind, per_column, masks):
    heads, width, depth = 2, 8, 6
    x, bias = floats(2, 5, depth), floats(3 * width)
    weights = unsaturated(depth, 3 * width) if kind == np.int8 else codes(np.uint8, depth, 3 * width)
    scales = (floats(3 * width) * 0.002 + 0.01).astype(np.float32) if per_column else np.float32(0.01)
    zero = np.int8(0) if kind == np.int8 else np.uint8(121)
    given, scale, at = asymmetric_codes(x)
    qkv = (given.astype(np.float64) - at) * np.float64(scale) @ ((weights.astype(np.float64) - zero) * scales) + bias
    q, k, v = (part.reshape(2, 5, heads, width // heads).transpose(0, 2, 1, 3) for part in np.split(qkv, 3, axis=-1))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(width // heads)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    if masks:
        scores = scores + np.where(mask, 0, -10000.0)[:, None, None, :]
    y = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(2, 5, width)
    stored = {"w": weights, "b": bias, "ws": scales, "wz": np.full(3 * width, zero, weights.dtype) if per_column else zero}
    if not dynamic:
        stored |= {"qs": scale, "qz": at}
    return (DynamicCase if dynamic else Case)("QAttention", ({"x": x} if dynamic else {"q": given}) | ({"m": mask} if masks else {}), stored, {"y": y},
                                              inputs=["q", "w", "b", "qs", "ws", "m" if masks else "", "qz", "wz"], num_heads=heads)


def attention_with_past(quantized, present):
    """Causal, behind three steps of a past in one tensor [2, B, H, T, D]."""
    heads, width, depth = 2, 8, 6
    x, bias, past = floats(2, 4, depth), floats(3 * width), floats(2, 2, heads, 3, width // heads)
    weights, scale = unsaturated(depth, 3 * width), np.float32(0.01)
    given, unit, at = asymmetric_codes(x)
    rows = (given.astype(np.float64) - at) * np.float64(unit) if quantized else x.astype(np.float64)
    qkv = rows @ (weights * np.float64(scale)) + bias
    q, k, v = (part.reshape(2, 4, heads, width // heads).transpose(0, 2, 1, 3) for part in np.split(qkv, 3, axis=-1))
    k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    seen = np.arange(7)[None, :] <= np.arange(4)[:, None] + 3
    y = (softmax(np.where(seen, q @ k.swapaxes(2, 3) / np.sqrt(width // heads), -np.inf)) @ v).transpose(0, 2, 1, 3).reshape(2, 4, width)
    expected = {"y": y} | ({"present": np.stack([k, v])} if present else {})
    if quantized:
        return Case("QAttention", {"q": given, "past": past}, {"w": weights, "b": bias, "us": unit, "ws": scale, "uz": at, "wz": np.int8(0)}, expected,
                    inputs=["q", "w", "b", "us", "ws", "", "uz", "wz", "past"], outputs=["y", "present"], num_heads=heads, unidirectional=1)
    return Case("Attention", {"x": x, "past": past}, {"w": (weights * scale).astype(np.float32), "b": bias}, expected, inputs=["x", "w", "b", "", "past"],
                outputs=["y", "present"], num_heads=heads, unidirectional=1)


def attention_with_scores(mask, added):
    batch, heads, depth, steps, length = 2, 3, 8, 3, 5
    fed = {"q": floats(batch, steps, heads * depth), "k": floats(batch, length, heads * depth), "v": floats(batch, length, heads * depth)}
    q, k, v = (fed[name].astype(np.float64).reshape(batch, -1, heads, depth).transpose(0, 2, 1, 3) for name in "qkv")
    scores = q @ k.swapaxes(2, 3) / np.sqrt(depth)
    if mask:
        fed["m"] = np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)
        scores = scores + np.where(fed["m"], 0, -10000.0)[:, None, None]
    if added:
        fed["a"] = floats(1, heads, steps, length)
        scores = scores + fed["a"]
    y = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, steps, heads * depth)
    return Case("MultiHeadAttention", fed, {}, {"y": y, "s": scores}, inputs=["q", "k", "v", "", "m" if mask else "", "a" if added else ""],
                outputs=["y", "", "", "s"], num_heads=heads)


def decoder_step(bias=False, mask=False, added=False, beams=0, packed=False, buffer=True):
    """One new token of each of four sequences, behind four that buffers of nine hold."""
    batch, heads, depth, past, room = 4, 3, 8, 4, 9
    width = heads * depth

    def by_heads(x):
        return x.reshape(batch, 1, heads, depth).transpose(0, 2, 1, 3)

    fed = {"q": floats(batch, 1, width), "k": floats(batch, 1, width), "v": floats(batch, 1, width)}
    rows = room if buffer else past
    fed |= {"pk": floats(batch, heads, rows, depth), "pv": floats(batch, heads, rows, depth)}
    fed |= {"n": np.array([past], np.int32)} if buffer else {}
    q, k, v = (fed[name].astype(np.float64) for name in "qkv")
    if packed:
        fed = {"q": np.concatenate([fed["q"], fed["k"], fed["v"]], 2)} | {name: x for name, x in fed.items() if name not in "qkv"}
    stored = {"b": floats(3 * width)} if bias else {}
    if bias:
        q, k, v = (x + part for x, part in zip((q, k, v), np.split(stored["b"], 3)))
    present = [np.concatenate([fed[name][:, :, :past], by_heads(x)], 2) for name, x in (("pk", k), ("pv", v))]
    whole = [fed["pk"].astype(np.float64), fed["pv"].astype(np.float64)]
    for buffered, seen in zip(whole, present):
        buffered[:, :, : past + 1] = seen[:, :, :rows]
    expected = {"pk2": whole[0], "pv2": whole[1]} if buffer else {"pk2": present[0], "pv2": present[1]}
    if beams:
        fed |= {"width": np.array([beams], np.int32), "from": random.integers(0, beams, (batch // beams, beams, room)).astype(np.int32)}
        fed["from"][:, :, past:] = 77
        came = np.arange(batch)[:, None] // beams * beams + fed["from"].reshape(batch, room)[:, :past]
        for seen in present:
            seen[:, :, :past] = seen[came, :, np.arange(past)].transpose(0, 2, 1, 3)
    scores = by_heads(q) @ present[0].swapaxes(2, 3) / np.sqrt(depth)
    if mask:
        fed["m"] = np.array([[1] * 5, [0, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1] * 5], np.int32)
        scores = scores + np.where(fed["m"], 0, -10000.0)[:, None, None]
    if added:
        fed["a"] = floats(1, heads, 1, past + 1)
        scores = scores + fed["a"]
    y = (softmax(scores) @ present[1]).transpose(0, 2, 1, 3).reshape(batch, 1, width)
    names = ["q", "k", "v", "m", "a", "pk", "pv", "n", "width", "from", "b"]
    return Case("DecoderMaskedMultiHeadAttention", fed, stored, {"y": y} | expected, inputs=[name if name in fed or name in stored else "" for name in names],
                outputs=["y", "pk2", "pv2"], num_heads=heads, past_present_share_buffer=int(buffer))


def decoder_step_over_encoder(bias, mask, scores):
    batch, heads, depth, length = 2, 3, 8, 5
    width = heads * depth
    fed = {"q": floats(batch, 1, width), "k": floats(batch, heads, length, depth), "v": floats(batch, heads, length, depth)}
    stored = {"b": floats(3 * width)} if bias else {}
    q = (fed["q"] + (stored["b"][:width] if bias else 0)).astype(np.float64).reshape(batch, 1, heads, depth).transpose(0, 2, 1, 3)
    plain = q @ fed["k"].swapaxes(2, 3) / np.sqrt(depth)
    if mask:
        fed["m"] = np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)
        plain = plain + np.where(fed["m"], 0, -10000.0)[:, None, None]
    y = (softmax(plain) @ fed["v"]).transpose(0, 2, 1, 3).reshape(batch, 1, width)
    return Case("DecoderMaskedMultiHeadAttention", fed, stored, {"y": y} | ({"s": plain} if scores else {}),
                inputs=["q", "k", "v", "m" if mask else "", *[""] * 6, "b" if bias else ""], outputs=["y", "", "", "s"] if scores else ["y"], num_heads=heads,
                output_qk=int(scores))


def quantized_embedding(segments):
    words, positions, kinds = (codes(np.uint8, rows, 16) for rows in (20, 12, 2))
    gamma, beta = codes(np.uint8, 16), codes(np.uint8, 16)
    ids, of_kind = random.integers(0, 20, (2, 7)).astype(np.int32), random.integers(0, 2, (2, 7)).astype(np.int32)
    scale = {name: np.float32(value) for name, value in zip(("s2", "s3", "s4", "s5", "s6"), (0.01, 0.02, 0.005, 0.01, 0.003))}
    zero = {name: np.uint8(value) for name, value in zip(("z2", "z3", "z4", "z5", "z6"), (128, 100, 3, 0, 77))}

    def real(table, k):
        return (table.astype(np.float64) - zero[f"z{k}"]) * scale[f"s{k}"]
    total = real(words, 2)[ids] + real(positions, 3)[:7]
    if segments:
        total = total + real(kinds, 4)[of_kind]
    centered = total - total.mean(-1, keepdims=True)
    y = centered / np.sqrt(centered.var(-1, keepdims=True) + 1e-12) * real(gamma, 5) + real(beta, 6)
    stored = {"t2": words, "t3": positions, "t4": kinds, "t5": gamma, "t6": beta} | scale | zero
    names = ["ids", "kinds", "t2", "t3", "t4", "t5", "t6", "", "s2", "s3", "s4", "s5", "s6", "z2", "z3", "z4", "z5", "z6"]
    if not segments:
        names = ["" if name in ("kinds", "t4", "s4", "z4") else name for name in names]
        stored = {name: value for name, value in stored.items() if name not in ("t4", "s4", "z4")}
    return Case("QEmbedLayerNormalization", {"ids": ids} | ({"kinds": of_kind} if segments else {}), stored, {"y": y, "none": np.zeros(2, np.int32)},
                inputs=names, epsilon=1e-12)


def cases():
    found = {f"conv_{name}_{int(adds)}": fused_conv(name, adds) for name in ACTIVATIONS for adds in (False, True)}
    found["gemm_relu"] = fused_gemm("Relu", {}, lambda y: np.maximum(y, 0))
    found["gemm_leaky"] = fused_gemm("LeakyRelu", {"activation_alpha": 0.25}, lambda y: np.where(y < 0, 0.25 * y, y))
    found["gemm_tanh_zeros"] = fused_gemm("Tanh", {"activation_alpha": 0.0, "activation_beta": 0.0, "activation_gamma": 0.0}, np.tanh)
    for flags in itertools.product((0, 1), repeat=4):
        found["matmul_" + "".join(map(str, flags))] = fused_matmul(*flags)
    found["transpose_matmul"] = fused_matmul(1, 0, 0, 0, "TransposeMatMul")
    found["conv_channels_last"] = channel_last_conv()
    for operator in ("NhwcMaxPool", "QLinearGlobalAveragePool", "QLinearAveragePool"):
        found[operator] = channel_last_pooling(operator)
    found["where"] = quantized_where()
    found["dynamic_product"], found["dynamic_product_bias"] = dynamic_product(False), dynamic_product(True)
    for dynamic, kind, per_column, masks in itertools.product((False, True), (np.int8, np.uint8), (False, True), (False, True)):
        if not (kind == np.uint8 and per_column):
            found[f"attention_{'dynamic' if dynamic else 'static'}_{kind.__name__}_{int(per_column)}{int(masks)}"] = quantized_attention(dynamic, kind, per_column, masks)
    for quantized, present in itertools.product((False, True), repeat=2):
        found[f"attention_past_{int(quantized)}{int(present)}"] = attention_with_past(quantized, present)
    for choice in ("", "bias", "mask", "added", "bias mask added", "packed", "packed bias", "beams", "beams mask bias", "joined", "joined mask"):
        given = {word: True for word in choice.split() if word not in ("beams", "joined")}
        found["decoder_" + choice.replace(" ", "_")] = decoder_step(beams=2 if "beams" in choice else 0, buffer="joined" not in choice, **given)
    for mask, added in itertools.product((False, True), repeat=2):
        found[f"attention_scores_{int(mask)}{int(added)}"] = attention_with_scores(mask, added)
    for flags in itertools.product((False, True), repeat=3):
        found["decoder_over_encoder_" + "".join(str(int(flag)) for flag in flags)] = decoder_step_over_encoder(*flags)
    found["embedding"], found["embedding_segments"] = quantized_embedding(False), quantized_embedding(True)
    return found


CASES = cases()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_gives_what_numpy_gives(name, isa, tmp_path):
    case = CASES[name]
    onnx.save(case.model(), str(tmp_path / "m.onnx"))
    got = run(tmp_path / "m.onnx", case.fed, tmp_path, isa)
    for output, wanted in case.expected.items():
        assert close(got[output], wanted, case.tolerance), np.abs(got[output].astype(np.float64) - wanted).max()


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_reference_is_onnx_runtimes(name):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    case = CASES[name]
    try:
        session = runtime.InferenceSession(case.model().SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        pytest.skip("ONNX Runtime has no such kernel on the CPU")
    if name.startswith(("decoder_packed", "decoder_joined")):
        pytest.skip("ONNX Runtime's kernel refuses its own operator's form")
    for (output, wanted), got in zip(case.expected.items(), session.run(list(case.expected), case.fed)):
        assert close(got, wanted, max(case.tolerance, 1e-4)), output


def test_the_layout_of_one_machine_is_refused(tmp_path):
    node = helper.make_node("Conv", ["x", "w"], ["y"], domain="com.microsoft.nchwc")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 16, 8, 8))], [numpy_helper.from_array(floats(16, 3, 1, 1), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft.nchwc", 1)], ir_version=10),
              str(tmp_path / "m.onnx"))
    result = subprocess.run([str(CAMSHAFT), "build", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.engine")], capture_output=True, text=True)
    assert result.returncode == 1 and 'save it at level "extended"' in result.stderr


def test_a_network_that_onnx_runtime_saved(tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    original, saved = ROOT / "examples/models/yolox_nano/model.onnx", tmp_path / "saved.onnx"
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(saved)
    session = runtime.InferenceSession(str(original), options, providers=["CPUExecutionProvider"])
    assert "FusedConv" in {node.op_type for node in onnx.load(str(saved)).graph.node}
    feed = {session.get_inputs()[0].name: (random.uniform(0, 255, session.get_inputs()[0].shape)).astype(np.float32)}
    for (output, got) in run(saved, feed, tmp_path, "avx2").items():
        assert close(got, session.run([output], feed)[0], 1e-3), output
