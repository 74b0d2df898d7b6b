#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one call costs from Python: networks of one trivial layer, Camshaft beside ONNX Runtime, one thread, interleaved.

Needs numpy, onnx, onnxruntime and camshaft in the environment.
"""
import argparse
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import camshaft


def network(operator):
    tensor = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", [tensor("x")], [tensor("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def calls(operator):
    """Name to a function of one inference."""
    feed = {"x": np.ones((1, 4), np.float32)}
    ours = camshaft.Session(network(operator), threads=1, cache=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    theirs = onnxruntime.InferenceSession(network(operator), options, providers=["CPUExecutionProvider"])
    our_binding, their_binding = ours.io_binding(), theirs.io_binding()
    output = np.empty((1, 4), np.float32)
    our_binding.bind_input("x", feed["x"])
    our_binding.bind_output("y", output)
    their_binding.bind_cpu_input("x", feed["x"])
    their_binding.bind_output("y", "cpu", 0, np.float32, [1, 4], output.ctypes.data)
    return {"camshaft run": lambda: ours.run(None, feed), "onnxruntime run": lambda: theirs.run(None, feed),
            "camshaft binding": lambda: ours.run_with_iobinding(our_binding),
            "onnxruntime binding": lambda: theirs.run_with_iobinding(their_binding)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=5000)
    arguments = parser.parse_args()
    for operator in ("Identity", "Relu"):
        best = {}
        functions = calls(operator)
        for _ in range(arguments.rounds):
            for name, call in functions.items():
                start = time.perf_counter()
                for _ in range(arguments.calls):
                    call()
                best[name] = min(best.get(name, 1e9), (time.perf_counter() - start) / arguments.calls)
        for name, seconds in best.items():
            print(f"{operator:<10}{name:<22}{seconds * 1e6:6.2f} us")


if __name__ == "__main__":
    main()
