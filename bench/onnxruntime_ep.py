#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ONNX Runtime around an engine costs: session.run through the execution provider beside camshaft.Session.run of the
same engine and ONNX Runtime's own provider, interleaved, medians. Needs the wheels camshaft, onnxruntime_ep_camshaft, onnxruntime and onnx.

    bench/onnxruntime_ep.py [--threads N] [--seconds S] [MODEL.onnx...]
"""
import argparse
import pathlib
import statistics
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_camshaft as ep
from onnx import TensorProto, helper

import camshaft

TYPES = {"tensor(float)": "f", "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(uint8)": "uint8"}


def smallest():
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def ort_session(source, threads, provider, folder=None):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if provider:
        options.add_provider_for_devices([device for device in ort.get_ep_devices() if device.ep_name == provider], {"threads": str(threads), "cache_dir": folder})
    return ort.InferenceSession(source, options, providers=None if provider else ["CPUExecutionProvider"])


def feed_of(session):
    random = np.random.default_rng(1)
    return {info.name: random.random([extent if isinstance(extent, int) else 1 for extent in info.shape]).astype(TYPES[info.type])
            for info in session.get_inputs()}


def medians(runs, seconds):
    """Median microseconds of each callable, in blocks of 20 ms that take turns, so that all meet the same machine."""
    times = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 20:
        for run, mine in zip(runs, times):
            run()
            block = time.perf_counter() + 0.02
            while True:
                start = time.perf_counter()
                run()
                now = time.perf_counter()
                mine.append(now - start)
                if now > block:
                    break
    return [1e6 * statistics.median(mine) for mine in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    args = parser.parse_args()
    ort.register_execution_provider_library("camshaft", ep.get_library_path())
    print(f"onnxruntime {ort.__version__}, onnx {onnx.__version__}, {args.threads} threads\n")
    print("| network | Session.run us | through ONNX Runtime us | more us | allowed us | ONNX Runtime's own us |\n|---|---|---|---|---|---|")
    for model in ["", *args.models]:
        source = model or smallest()
        cpu = ort_session(source, args.threads, None)
        feed = feed_of(cpu)
        with tempfile.TemporaryDirectory() as folder:
            ort_session(source, args.threads, ep.get_ep_name(), folder).run(None, feed)
            through = ort_session(source, args.threads, ep.get_ep_name(), folder)
            through.run(None, feed)
            engine, = pathlib.Path(folder).glob("*.engine")  # the same for both
            own = camshaft.Session(camshaft.Engine.load(engine), threads=args.threads)
        runs = [lambda: own.run(None, feed), lambda: through.run(None, feed), lambda: cpu.run(None, feed)]
        for run in runs:
            run()
        a, b, c = medians(runs, args.seconds)
        name = model.split("/")[-2] if model.count("/") else model or "one Relu of four numbers"
        print(f"| {name} | {a:.1f} | {b:.1f} | {b - a:.1f} | {15 + 0.02 * a:.1f} | {c:.1f} |", flush=True)


if __name__ == "__main__":
    main()
