#!/usr/bin/env python3
"""Products with 4-bit weights (MatMulNBits) beside ONNX Runtime, one layer each, interleaved; and the rate at which weights are read.

    low_bits.py [--camshaft build/release/bin/camshaft] [--threads 1] [--rounds 3] [--shapes 1x2048x2048,1x2048x8192,1x896x4864,64x2048x2048] [--blocks 32,128] [--levels 0,4]

Shapes are rows x depth x columns. Times are the least of all rounds; needs numpy, onnx and onnxruntime."""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def make(file, rows, depth, columns, block, level):
    random, blocks = np.random.default_rng(1), depth // block
    stored = [numpy_helper.from_array(random.integers(0, 256, (columns, blocks, block // 2), np.uint8), "codes"),
              numpy_helper.from_array((0.01 + 0.01 * random.random(columns * blocks)).astype(np.float32), "scales")]
    node = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", N=columns, K=depth, bits=4, block_size=block, accuracy_level=level)
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [value("x", TensorProto.FLOAT, [rows, depth])], [value("y", TensorProto.FLOAT, [rows, columns])], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10), str(file))


def run_ours(camshaft, engine, threads):
    command = [camshaft, "bench", str(engine), "--json", "--duration", "0.3", "--threads", str(threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["latencyMs"]["min"]


def run_theirs(session, x):
    for _ in range(3):
        session.run(None, {"x": x})
    times, end = [], time.perf_counter() + 0.3
    while time.perf_counter() < end:
        begin = time.perf_counter()
        session.run(None, {"x": x})
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--camshaft", default="build/release/bin/camshaft")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", default="1x2048x2048,1x2048x8192,1x896x4864,1x4864x896,4x2048x2048,64x2048x2048")
    parser.add_argument("--blocks", default="32,128")
    parser.add_argument("--levels", default="0,4")
    a = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    print("| rows x depth x columns | block | level | ONNX Runtime us | Camshaft us | ratio | weights GB/s |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        file, engine = pathlib.Path(folder) / "m.onnx", pathlib.Path(folder) / "m.engine"
        for shape in a.shapes.split(","):
            rows, depth, columns = map(int, shape.split("x"))
            for block in map(int, a.blocks.split(",")):
                for level in map(int, a.levels.split(",")):
                    make(file, rows, depth, columns, block, level)
                    subprocess.run([a.camshaft, "build", str(file), "-o", str(engine), "--threads", str(a.threads)], check=True, capture_output=True)
                    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
                    x = np.random.default_rng(2).standard_normal((rows, depth)).astype(np.float32)
                    ours = theirs = 1e9
                    for _ in range(a.rounds):
                        ours, theirs = min(ours, run_ours(a.camshaft, engine, a.threads)), min(theirs, run_theirs(session, x))
                    gbytes = columns * depth * (0.5 + 4 / block) / ours / 1e6
                    print(f"| {shape} | {block} | {level} | {theirs * 1e3:.1f} | {ours * 1e3:.1f} | {theirs / ours:.2f} | {gbytes:.1f} |", flush=True)


if __name__ == "__main__":
    main()
