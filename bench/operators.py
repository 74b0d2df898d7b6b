#!/usr/bin/env python3
"""Small networks of operators that few networks have, with inputs, as folders for bench/peers.py: which of them still run on a reference kernel shows at once.

    operators.py [--out build/operators] [NAME …]
    peers.py build/operators --threads 1 --engines camshaft,onnxruntime --rounds 5

Weights and inputs are random, of fixed seeds. Needs numpy and onnx."""

import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(0)


def floats(*shape, scale=0.05):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def boxes(count, width, height):
    corner, size = RNG.uniform(0, 1, (count, 2)) * [width, height], RNG.uniform(8, 300, (count, 2))
    return np.concatenate([corner, corner + size], 1).astype(np.float32)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


# Each: nodes, inputs, output (shape, type), constants.
def roi_align():
    return ([node("Conv", "x w", "a"), node("RoiAlign", "a boxes images", "y", output_height=7, output_width=7, sampling_ratio=2, spatial_scale=1 / 16)],
            {"x": floats(1, 256, 50, 68, scale=1)}, ([512, 256, 7, 7], FLOAT),
            {"w": floats(256, 256, 1, 1), "boxes": boxes(512, 900, 640), "images": np.zeros(512, np.int64)})


def max_roi_pool():
    rois = np.concatenate([np.zeros((300, 1), np.float32), boxes(300, 600, 400)], 1)
    return [node("MaxRoiPool", "x boxes", "y", pooled_shape=[7, 7], spatial_scale=1 / 16)], {"x": floats(1, 256, 38, 50, scale=1)}, ([300, 256, 7, 7], FLOAT), {"boxes": rois}


def warp():
    grid = RNG.uniform(-1.1, 1.1, (1, 256, 256, 2)).astype(np.float32)
    return [node("GridSample", "x grid", "y", mode="linear", padding_mode="border")], {"x": floats(1, 3, 256, 256, scale=1), "grid": grid}, ([1, 3, 256, 256], FLOAT), {}


def warped_features(mode="linear", channels=64, size=56):
    grid = RNG.uniform(-1.1, 1.1, (1, size, size, 2)).astype(np.float32)
    return ([node("Conv", "x w", "a"), node("GridSample", "a grid", "b", mode=mode), node("Conv", "b w", "y")],
            {"x": floats(1, channels, size, size, scale=1), "grid": grid}, ([1, channels, size, size], FLOAT), {"w": floats(channels, channels, 1, 1)})


def deform_conv():
    c, size = 128, 48
    return ([node("Conv", "x wo bo", "offset", pads=[1] * 4), node("Conv", "x wm", "m", pads=[1] * 4), node("Sigmoid", "m", "mask"),
             node("DeformConv", "x w offset b mask", "d", kernel_shape=[3, 3], pads=[1] * 4), node("Relu", "d", "y")],
            {"x": floats(1, c, size, size, scale=1)}, ([1, c, size, size], FLOAT),
            {"wo": floats(18, c, 3, 3), "bo": floats(18, scale=1), "wm": floats(9, c, 3, 3), "w": floats(c, c, 3, 3), "b": floats(c)})


def googlenet_stem():
    lrn = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    return ([node("Conv", "x w1", "a", strides=[2, 2], pads=[3] * 4), node("Relu", "a", "b"), node("MaxPool", "b", "c", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 2, 2]),
             node("LRN", "c", "d", **lrn), node("Conv", "d w2", "e"), node("Relu", "e", "f"), node("Conv", "f w3", "g", pads=[1] * 4), node("Relu", "g", "h"), node("LRN", "h", "y", **lrn)],
            {"x": floats(1, 3, 224, 224, scale=1)}, ([1, 192, 56, 56], FLOAT), {"w1": floats(64, 3, 7, 7), "w2": floats(64, 64, 1, 1), "w3": floats(192, 64, 3, 3)})


def unpooling():
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return [node("MaxPool", "x", "a i", **window), node("MaxUnpool", "a i", "y", **window)], {"x": floats(1, 64, 112, 112, scale=1)}, ([1, 64, 112, 112], FLOAT), {}


def non_max_suppression():
    return ([node("NonMaxSuppression", "boxes scores most iou least", "y")],
            {"boxes": boxes(2000, 600, 600)[None], "scores": RNG.uniform(0, 1, (1, 20, 2000)).astype(np.float32)}, (["n", 3], INT64),
            {"most": np.array([100]), "iou": np.array([0.5], np.float32), "least": np.array([0.6], np.float32)})


def spectra():
    return [node("STFT", "x step window", "y", onesided=1)], {"x": floats(1, 16000, 1, scale=1)}, ([1, 98, 201, 2], FLOAT), {"step": np.array(160), "window": np.hanning(400).astype(np.float32)}


def reversed_sequences():
    return [node("ReverseSequence", "x lengths", "y", batch_axis=1, time_axis=0)], {"x": floats(100, 8, 256, scale=1)}, ([100, 8, 256], FLOAT), {"lengths": np.full(8, 77)}


def integer_rows():
    return [node("Add", "x a", "b"), node("Mul", "b c", "y")], {"x": RNG.integers(0, 9, (4096, 8)), "a": RNG.integers(0, 9, (8,)), "c": RNG.integers(0, 9, (4096, 1))}, ([4096, 8], INT64), {}


NETWORKS = {
    "roi_align": roi_align, "max_roi_pool": max_roi_pool, "grid_sample": warp, "grid_sample_channels": warped_features,
    "grid_sample_cubic": lambda: warped_features("cubic", 32, 40), "deform_conv": deform_conv, "lrn": googlenet_stem, "max_unpool": unpooling,
    "non_max_suppression": non_max_suppression, "stft": spectra, "reverse_sequence": reversed_sequences, "integer_rows": integer_rows,
}


def write(name, folder):
    nodes, inputs, (shape, kind), constants = NETWORKS[name]()
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, name, [value(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in inputs.items()], [value("y", kind, shape)],
                              [numpy_helper.from_array(np.asarray(x), n) for n, x in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(folder / name / "model.onnx"))
    for k, (n, x) in enumerate(inputs.items()):
        (data / f"input_{k}.pb").write_bytes(numpy_helper.from_array(x, n).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/operators"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}; default: all")
    a = parser.parse_args()
    unknown = [name for name in a.names if name not in NETWORKS]
    if unknown:
        parser.error(f"no network {', '.join(unknown)}")
    for name in a.names or NETWORKS:
        write(name, a.out)
        print(a.out / name)


if __name__ == "__main__":
    main()
