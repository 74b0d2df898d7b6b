# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose kernels are windowed waves: Fourier transforms, against numpy."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def waves(length, taps):
    """Cosines and sines of all bins, windowed."""
    n, k = np.arange(taps), np.arange(length // 2 + 1)[:, None]
    window = 0.54 - 0.46 * np.cos(2 * np.pi * n / taps)
    angle = 2 * np.pi * (k * n % length) / length
    return (window * np.cos(angle)).astype(np.float32), (window * np.sin(angle)).astype(np.float32)


ORDERS = {
    "apart": lambda c, s: [c, -s],
    "turned": lambda c, s: [s, c],  # sines first, and of the other sign
    "stacked": lambda c, s: [np.concatenate([c, -s])],
    "in turns": lambda c, s: [np.stack([c, s], 1).reshape(-1, c.shape[1])],
    "cosines": lambda c, s: [c],
}


def model(kernels, hop, pads, is_image=False, bias=None):
    shape = ["n", 1, 1, "samples"] if is_image else ["n", 1, "samples"]
    nodes, initializers = [], []
    for k, kernel in enumerate(kernels):
        w = kernel[:, None, None] if is_image else kernel[:, None]
        initializers.append(numpy_helper.from_array(w, f"w{k}"))
        inputs = ["x", f"w{k}"] + ([f"b{k}"] if bias is not None else [])
        if bias is not None:
            initializers.append(numpy_helper.from_array(np.full(len(kernel), bias, np.float32), f"b{k}"))
        nodes.append(helper.make_node("Conv", inputs, [f"y{k}"], name=f"conv{k}", strides=[1, hop] if is_image else [hop],
                                      pads=[0, pads[0], 0, pads[1]] if is_image else list(pads)))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(len(kernels))], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(kernels, x, hop, pads, is_image):
    rows = np.pad(x.astype(np.float64).reshape(x.shape[0], -1), ((0, 0), pads))
    results = []
    for kernel in kernels:
        frames = np.lib.stride_tricks.sliding_window_view(rows, kernel.shape[1], axis=1)[:, ::hop]
        y = np.einsum("nft,ct->ncf", frames, kernel.astype(np.float64)).astype(np.float32)
        results.append(y[:, :, None] if is_image else y)
    return results


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length, taps, hop, pads, is_image", [(256, 256, 64, (0, 0), False), (512, 400, 100, (200, 112), False), (400, 400, 160, (0, 0), True)])
def test_convolutions_with_waves(camshaft, tmp_path, order, length, taps, hop, pads, is_image):
    kernels = ORDERS[order](*waves(length, taps))
    (tmp_path / "m.onnx").write_bytes(model(kernels, hop, pads, is_image, bias=0.0 if order == "apart" else None).SerializeToString())
    random, data = np.random.default_rng(length), []
    for k, (batch, samples) in enumerate([(1, 4000), (3, 777), (1, taps)]):
        x = random.standard_normal((batch, 1, 1, samples) if is_image else (batch, 1, samples)).astype(np.float32)
        np.savez(tmp_path / f"{k}.npz", x=x, **{f"y{j}": y for j, y in enumerate(expected(kernels, x, hop, pads, is_image))})
        data += ["--data", f"{k}.npz"]
    result = camshaft("run", "m.onnx", *data)
    assert result.code == 0, result.out + result.err
    built = camshaft("build", "m.onnx", "-o", "m.engine", "-v")
    assert f"into Fourier transforms of {length}" in built.out + built.err


SHAPES = [word for kind in ("min", "opt", "max") for word in (f"--{kind}-shapes", "x:1x1x4000")]


def test_a_signal_shorter_than_a_frame(camshaft, tmp_path):
    (tmp_path / "m.onnx").write_bytes(model(ORDERS["apart"](*waves(256, 256)), 64, (0, 0)).SerializeToString())
    for samples in (1, 200, 255):
        np.savez(tmp_path / "d.npz", x=np.zeros((1, 1, samples), np.float32))
        result = camshaft("run", "m.onnx", "--data", "d.npz")
        assert result.code == 1 and "conv" in result.err, result.out + result.err


def test_other_convolutions(camshaft, tmp_path):
    cosines, sines = waves(256, 256)
    bent = cosines.copy()
    bent[77, 99] += 1e-4
    for kernels in ([bent], [sines], [cosines[:-1]]):
        (tmp_path / "m.onnx").write_bytes(model(kernels, 64, (0, 0)).SerializeToString())
        built = camshaft("build", "m.onnx", "-o", "m.engine", "-v", *SHAPES)
        assert built.code == 0 and "Fourier transforms" not in built.out + built.err
    (tmp_path / "m.onnx").write_bytes(model([cosines], 64, (0, 0), bias=1.0).SerializeToString())
    built = camshaft("build", "m.onnx", "-o", "m.engine", "-v", *SHAPES)
    assert built.code == 0 and "Fourier transforms" not in built.out + built.err
