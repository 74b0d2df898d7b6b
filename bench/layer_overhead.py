#!/usr/bin/env python3
"""What a layer costs beside its work: networks of 60 layers of one kind, so small that hardly anything is computed, and the same of about 1 us.

    CAMSHAFT_BUILD=build/release bench/layer_overhead.py [--build NAME=FOLDER …] [--rounds 5] [--seconds 0.2] [--markdown]

`empty` is the time per layer where a layer has 2 x 2 pixels of 16 channels (some ten nanoseconds of work), `small` where it has about a microsecond of it. Of
`pool+sigmoid` both layers count. Several builds take turns, each in a process of its own; figures are medians of rounds, in microseconds."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS, CHANNELS = 60, 16
# kind -> (pixels along each side of an empty and of a small layer)
SIZES = {"conv1x1": (2, 12), "conv3x3": (2, 5), "depthwise3x3": (2, 16), "matmul": (2, 64), "maxpool3x3": (2, 10), "pool+sigmoid": (2, 12), "softmax": (2, 12),
         "layernorm": (2, 48)}
ROWS = {"matmul", "layernorm"}  # kinds of [side, CHANNELS] tensors


def weights(rng, name, shape):
    return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)


def chain(kind, side):
    """Nodes, initializers and input shape of LAYERS layers in a row."""
    rng, nodes, constants, x = np.random.default_rng(1), [], [], "x"

    def add(op, inputs, **attributes):
        nonlocal x
        nodes.append(helper.make_node(op, inputs, [f"t{len(nodes)}"], **attributes))
        x = nodes[-1].output[0]

    for k in range(LAYERS):
        if kind == "matmul":
            constants.append(weights(rng, f"w{k}", (CHANNELS, CHANNELS)))
            add("MatMul", [x, f"w{k}"])
            add("Relu", [x])
        elif kind.startswith(("conv", "depthwise")):
            size = 1 if kind == "conv1x1" else 3
            group = CHANNELS if kind == "depthwise3x3" else 1
            constants.append(weights(rng, f"w{k}", (CHANNELS, CHANNELS // group, size, size)))
            add("Conv", [x, f"w{k}"], group=group, pads=[size // 2] * 4)
            add("Relu", [x])
        elif kind == "softmax":
            add("Softmax", [x], axis=1)
        elif kind == "layernorm":
            constants.append(weights(rng, f"w{k}", (CHANNELS,)))
            add("LayerNormalization", [x, f"w{k}"], axis=-1)
        elif kind == "pool+sigmoid" and k % 2:
            add("Sigmoid", [x])
        else:
            add("MaxPool", [x], kernel_shape=[3, 3], pads=[1] * 4)
    return nodes, constants, [side, CHANNELS] if kind in ROWS else [1, CHANNELS, side, side]


def write_model(folder, kind, side):
    nodes, constants, shape = chain(kind, side)
    graph = helper.make_graph(nodes, kind, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, shape)], constants)
    path = pathlib.Path(folder) / f"{kind}_{side}.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path, shape


def serve(seconds):
    """The process of one build: a line 'path shape' in, microseconds per layer out."""
    sys.path.insert(0, str(ROOT / "bench"))
    import camshaft_api
    contexts = {}
    for line in sys.stdin:
        path, *shape = line.split()
        if path not in contexts:
            x = np.random.default_rng(2).standard_normal([int(n) for n in shape]).astype(np.float32)
            contexts[path] = camshaft_api.Context(path, {"x": x}, 1)
        run, best, end = contexts[path].run, [], time.perf_counter() + seconds
        for _ in range(20):
            run()
        while time.perf_counter() < end:
            start = time.perf_counter()
            for _ in range(10):
                run()
            best.append((time.perf_counter() - start) / 10)
        print(statistics.median(best) * 1e6 / LAYERS, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="append", metavar="NAME=FOLDER", help="a build folder; several are compared")
    parser.add_argument("--kinds", default=",".join(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.seconds)
    builds = dict(text.split("=", 1) for text in options.build or [f"camshaft={ROOT / 'build' / 'release'}"])
    servers = {name: subprocess.Popen([sys.executable, __file__, "--serve", "--seconds", str(options.seconds)], text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, env={**os.environ, "CAMSHAFT_BUILD": str(pathlib.Path(folder).resolve())})
               for name, folder in builds.items()}
    print("| us per layer | " + " | ".join(f"{name}: empty | small" for name in servers) + " |")
    print("|---|" + "---:|" * 2 * len(servers))
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds.split(","):
            models = [write_model(folder, kind, side) for side in SIZES[kind]]
            times = {name: [[] for _ in models] for name in servers}
            for _ in range(options.rounds):
                for name, server in servers.items():
                    for k, (path, shape) in enumerate(models):
                        print(path, *shape, file=server.stdin, flush=True)
                        times[name][k].append(float(server.stdout.readline()))
            cells = [f"{statistics.median(values):.3f}" for name in servers for values in times[name]]
            print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)
    for server in servers.values():
        server.stdin.close()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
