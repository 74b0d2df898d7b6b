"""Mixtures of experts (com.microsoft.MoE, QMoE) in small models of one operator each: `camshaft run` against numpy in double precision, and numpy against
ONNX Runtime where it is installed and its CPU kernel runs them."""

import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="python3-onnx is not installed")
from transformer_operators_test import CAMSHAFT, ISAS, Case, check, close, floats, gelu_tanh, pack  # noqa: E402

random = np.random.default_rng(23)
EXPERTS, WIDTH, HIDDEN = 6, 64, 96


# --- references

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def swiglu(g, v, alpha=1.0, beta=0.0, limit=np.inf, late=False):
    g, v = (g if late else np.minimum(g, limit)), np.clip(v, -limit, limit) + beta
    g = g * sigmoid(alpha * g)
    return (np.minimum(g, limit) if late else g) * v


SIMPLE = {"relu": lambda x: np.maximum(x, 0), "gelu": gelu_tanh, "silu": lambda x: x * sigmoid(x), "identity": lambda x: x,
          "relu2": lambda x: np.maximum(x, 0) ** 2}


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def best(row, k):
    """Of equal logits the last expert comes first, as in ONNX Runtime."""
    return sorted(range(len(row)), key=lambda e: (-row[e], -e))[:k]


def mixer(row):
    """SparseMixer as it is inferred with: two experts, each with its share among those at most 2 % below."""
    scores, shares, chosen = row.copy(), [], []
    for _ in range(2):
        top = int(scores.argmax())
        far = (scores[top] - row) / np.maximum(np.abs(row), scores[top]) > 0.02
        shares.append(softmax(np.where(far, -np.inf, scores))[top])
        chosen.append(top)
        scores[top] = -np.inf
    return chosen, shares


def shares_of(row, k, way, weights):
    chosen = best(row, k)
    if way == "mixer":
        return mixer(row)
    if way in ("weights", "normalized weights"):
        shares = weights[chosen]
        return chosen, shares / shares.sum() if way != "weights" else shares
    return chosen, softmax(row)[chosen] if way == "all" else softmax(row[chosen])


def mixture(x, logits, k, way, up, up_bias, down, down_bias, activation, weights=None):
    rows = np.asarray(x, np.float64).reshape(-1, x.shape[-1])
    y = np.zeros_like(rows)
    for r, row in enumerate(rows):
        for e, share in zip(*shares_of(logits[r].astype(np.float64), k, way, None if weights is None else weights[r].astype(np.float64))):
            y[r] += share * (down[e] @ activation(up[e] @ row + up_bias[e]) + down_bias[e])
    return y.reshape(x.shape)


# --- weights

class Fc:
    """Weights [experts, n, k], as they are multiplied (real) and as the node has them."""

    def __init__(self, n, k, bits=0, block=0, zeros=False, bias=True):
        self.bias = floats(EXPERTS, n) if bias else None
        self.addend = self.bias if bias else np.zeros((EXPERTS, n))
        self.scales = self.zeros = None
        if bits == 0:
            self.codes = floats(EXPERTS, n, k) * np.float32(2 / np.sqrt(k))
            self.real = self.codes.astype(np.float64)
            return
        blocks = k // block if block else 1
        codes = random.integers(0, 1 << bits, (EXPERTS, n, k))
        scales = random.uniform(0.2, 1, (EXPERTS, n, blocks)).astype(np.float32) * np.float32(4 / np.sqrt(k) / (1 << bits))
        points = random.integers(0, 1 << bits, (EXPERTS, n, blocks)) if zeros else np.full((EXPERTS, n, blocks), 1 << (bits - 1))
        self.real = (codes - np.repeat(points, k // blocks, -1)) * np.repeat(scales.astype(np.float64), k // blocks, -1)
        self.codes = pack(codes, bits)
        self.scales = scales if block else scales[..., 0]
        if zeros:
            self.zeros = pack(points, bits) if block else pack(points[..., 0], bits)


def node(operator, fed, optional, expected, **attributes):
    """`optional`: (name, value or None), in the order of the inputs behind the fed ones."""
    names = [*fed][:2] + [name if value is not None else "" for name, value in optional]
    fed = fed | {name: value for name, value in optional if name in ("router_weights",) and value is not None}
    while names[-1] == "":
        names.pop()
    return Case(operator, fed, {n: v for n, v in optional if v is not None and n not in fed}, {"y": expected}, inputs=names, **attributes)


def split(h, layout):
    return (h[..., 0::2], h[..., 1::2]) if layout == 1 else (h[..., :h.shape[-1] // 2], h[..., h.shape[-1] // 2:])


def moe(kind="relu", rows=(5,), k=2, normalizes=1, bits=0, block=0, zeros=False, bias=True, fusion=0, third=False, router=False, mixes=False, down_bits=None,
        runtime=True, logits=None, tolerance=2e-5, **extra):
    attributes = dict(k=k, activation_type=kind, normalize_routing_weights=normalizes) | extra
    gated = kind in ("swiglu", "geglu")
    parameters = dict(alpha=extra.get("activation_alpha", 1.0), beta=extra.get("activation_beta", 0.0), limit=extra.get("swiglu_limit", np.inf),
                      late=bool(extra.get("swiglu_limit_after_activation", 0)))
    combine = (lambda g, v: swiglu(g, v, **parameters)) if kind == "swiglu" else (lambda g, v: gelu_tanh(g) * v) if kind == "geglu" else (lambda g, v: SIMPLE[kind](g) * v)
    up = Fc(HIDDEN * (2 if fusion else 1), WIDTH, bits, block, zeros, bias)
    down = Fc(WIDTH, HIDDEN, bits if down_bits is None else down_bits, block, zeros, bias)
    gate = Fc(HIDDEN, WIDTH, bits, block, zeros, bias) if third else None
    if gated or fusion:
        attributes["swiglu_fusion"] = fusion
    real, addend = up.real, up.addend
    if third:
        real, addend = np.concatenate([up.real, gate.real], 1), np.concatenate([up.addend, gate.addend], 1)
    activation = (lambda h: combine(*split(h, fusion or 2))) if third or fusion else SIMPLE[kind]
    x = floats(*rows, WIDTH)
    count = int(np.prod(rows))
    logits = (3 * floats(count, EXPERTS)) if logits is None else logits
    weights = np.abs(floats(count, EXPERTS)) if router else None
    way = "mixer" if mixes else ("normalized weights" if normalizes else "weights") if router else "chosen" if normalizes or bits else "all"
    if mixes:
        attributes["use_sparse_mixer"] = 1
    expected = mixture(x, logits, k, way, real, addend, down.real, down.addend, activation, weights)
    fed = {"x": x, "logits": logits}
    if bits == 0:
        optional = [("fc1", up.codes), ("fc1_bias", up.bias), ("fc2", down.codes), ("fc2_bias", down.bias)]
        optional += [("fc3", gate.codes), ("fc3_bias", gate.bias)] if third else []
        return node("MoE", fed, optional, expected, runtime=runtime, tolerance=tolerance, **attributes)
    attributes |= dict(expert_weight_bits=bits) | (dict(block_size=block) if block else {})
    if down_bits is not None:
        attributes["fc2_expert_weight_bits"] = down_bits
    third_fc = [("fc3", gate.codes), ("fc3_scales", gate.scales), ("fc3_bias", gate.bias)] if third else [("fc3", None)] * 3
    optional = [("fc1", up.codes), ("fc1_scales", up.scales), ("fc1_bias", up.bias), ("fc2", down.codes), ("fc2_scales", down.scales), ("fc2_bias", down.bias),
                *third_fc, ("fc1_zeros", up.zeros), ("fc2_zeros", down.zeros), ("fc3_zeros", gate.zeros if third else None), ("router_weights", weights)]
    return node("QMoE", fed, optional, expected, runtime=runtime, tolerance=tolerance, **attributes)


GPT_OSS = dict(kind="swiglu", fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=1.5)
TIES = random.integers(0, 3, (9, EXPERTS)).astype(np.float32)

CASES = {
    **{f"moe {kind}, normalized {n}": moe(kind, normalizes=n) for kind in ("relu", "gelu", "silu", "identity") for n in (0, 1)},
    "moe without bias, three dimensions": moe("silu", rows=(2, 3), bias=False),
    "moe of one row": moe("silu", rows=(1,), k=1),
    "moe of many rows": moe("silu", rows=(70,), k=3),
    "moe of all experts": moe("silu", k=EXPERTS),
    "moe swiglu interleaved": moe("swiglu", fusion=1),
    "moe as gpt-oss": moe(**GPT_OSS),
    "moe swiglu in halves": moe("swiglu", fusion=2, runtime=False),
    "moe swiglu of fc3": moe("swiglu", third=True, runtime=False),
    "moe silu times fc3": moe("silu", third=True, runtime=False),
    "moe geglu": moe("geglu", fusion=2, runtime=False),
    "moe relu2": moe("relu2", runtime=False),
    "moe swiglu limited late": moe("swiglu", fusion=1, swiglu_limit=0.5, swiglu_limit_after_activation=1, runtime=False),
    "moe sparse mixer": moe("silu", third=True, mixes=True, normalizes=0, runtime=False, rows=(40,)),
    "moe of equal logits": moe("identity", rows=(9,), logits=TIES, k=3),
    **{f"qmoe of {bits} bits, block {block}{', zero points' * zeros}": moe(**GPT_OSS, bits=bits, block=block, zeros=zeros, runtime=not (bits != 4 and block in (16, 32)))
       for bits in (2, 4, 8) for block in (0, 16, 32) for zeros in (False, True)},
    "qmoe of one row": moe(**GPT_OSS, bits=4, block=32, rows=(1,), k=4),
    "qmoe of many rows": moe(**GPT_OSS, bits=4, block=32, rows=(3, 70), k=3),
    "qmoe not normalized": moe(**GPT_OSS, bits=4, block=32, normalizes=0),
    "qmoe, shares of their own": moe(**GPT_OSS, bits=4, block=32, router=True, normalizes=0),
    "qmoe, normalized shares of their own": moe(**GPT_OSS, bits=4, block=32, router=True),
    "qmoe silu": moe("silu", bits=4, block=32),
    "qmoe gelu": moe("gelu", bits=8, bias=False),
    "qmoe swiglu in halves": moe("swiglu", fusion=2, bits=4, block=32, runtime=False),
    "qmoe silu times fc3": moe("silu", third=True, bits=4, block=16, zeros=True, runtime=False),
    "qmoe of 4 and 8 bits": moe(**GPT_OSS, bits=4, down_bits=8, block=32, runtime=False),
    "qmoe of equal logits": moe("identity", rows=(9,), logits=TIES, k=2, bits=4, block=32),
    "qmoe at accuracy level 4": moe(**GPT_OSS, bits=4, block=32, accuracy_level=4, tolerance=2e-2),
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_gives_what_numpy_gives(name, isa, tmp_path):
    check(CASES[name], isa, tmp_path)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_reference_is_onnx_runtimes(name):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    case = CASES[name]
    if not case.runtime:
        pytest.skip("ONNX Runtime has no such kernel on the CPU, or one whose rows are int8")
    try:
        session = runtime.InferenceSession(case.model().SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:  # before 1.26 there are fewer
        pytest.skip(f"this ONNX Runtime refuses it: {str(error)[:120]}")
    assert close(session.run(["y"], case.fed)[0], case.expected["y"], max(case.tolerance, 1e-4))


def test_weights_stay_codes_and_the_layer_says_so(tmp_path):
    case = moe(**GPT_OSS, bits=4, block=32)
    file, engine = tmp_path / "m.onnx", tmp_path / "m.engine"
    onnx.save(case.model(), str(file))
    subprocess.run([str(CAMSHAFT), "build", str(file), "-o", str(engine), "--level", "0"], check=True, capture_output=True)
    text = subprocess.run([str(CAMSHAFT), "inspect", str(engine)], check=True, capture_output=True, text=True).stdout
    assert "experts_nbits" in text


REFUSED = {
    "k of more experts than there are": ({"k": 7}, {}, "k = 7 of 6 experts"),
    "no choice": ({"k": 0}, {}, "k = 0 of 6 experts"),
    "3 bits": ({"expert_weight_bits": 3}, {}, "weights of 3 bits"),
    "codes of floats": ({"quant_type": "fp4"}, {}, "quant_type fp4"),
    "another layout": ({"weights_prepacked": 1}, {}, "weights_prepacked 1"),
    "an unknown activation": ({"activation_type": "tanh", "swiglu_fusion": 0}, {}, "activation_type tanh"),
    "a fusion that is none": ({"swiglu_fusion": 3}, {}, "swiglu_fusion 3"),
    "no gate": ({"swiglu_fusion": 0}, {}, "without fc3 weights"),
    "a mixer of more": ({"use_sparse_mixer": 1, "k": 3}, {}, "use_sparse_mixer of k = 3"),
    "blocks that do not divide": ({"block_size": 48}, {}, "blocks of 48 do not divide"),
    "few scales": ({}, {"fc1_scales": lambda s: s[:, :-1]}, "the scales of fc1"),
    "few zero points": ({}, {"fc2_zeros": lambda z: z[:, :-1]}, "the zero points of fc2"),
    "a short bias": ({}, {"fc1_bias": lambda b: b[:, :-1]}, "the bias of fc1"),
    "another width": ({}, {"fc2": lambda w: w[:, :-16], "fc2_scales": lambda s: s[:, :-16], "fc2_bias": lambda b: b[:, :-16], "fc2_zeros": lambda z: z[:, :-16]},
                      "fc1 reads 64 elements of a row, fc2 gives 48"),
    "fewer experts": ({}, {"fc2": lambda w: w[:-1], "fc2_scales": lambda s: s[:-1], "fc2_bias": lambda b: b[:-1], "fc2_zeros": lambda z: z[:-1]},
                      "fc1 of 6 experts, fc2 of 5"),
    "weights of two dimensions": ({}, {"fc1": lambda w: w[0]}, "fc1 weights of rank 2"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_does_not_fit_is_named(name, tmp_path):
    attributes, stored, words = REFUSED[name]
    case = moe(**GPT_OSS, bits=4, block=32, zeros=True)
    case.attributes.update(attributes)
    for tensor, change in stored.items():
        case.stored[tensor] = np.ascontiguousarray(change(case.stored[tensor]))
    file = tmp_path / "m.onnx"
    onnx.save(case.model(), str(file))
    result = subprocess.run([str(CAMSHAFT), "build", str(file), "-o", str(tmp_path / "m.engine")], capture_output=True, text=True)
    assert result.returncode != 0 and words in result.stderr and "QMoE" in result.stderr, result.stderr


def test_a_router_of_other_experts_is_named(tmp_path):
    case = moe(**GPT_OSS, bits=4, block=32)
    case.fed["logits"] = case.fed["logits"][:, :-1]
    file = tmp_path / "m.onnx"
    onnx.save(case.model(), str(file))
    result = subprocess.run([str(CAMSHAFT), "build", str(file), "-o", str(tmp_path / "m.engine")], capture_output=True, text=True)
    assert result.returncode != 0 and "router_probs are of 5 experts, the weights of 6" in result.stderr, result.stderr
