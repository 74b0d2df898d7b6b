#!/usr/bin/env python3
"""A mixture of experts (com.microsoft.QMoE or MoE, SwiGLU as gpt-oss has it) beside ONNX Runtime, one layer, runs in turns in one process; and the rate at which
the weights of the chosen experts are read.

    experts.py [--threads 1] [--rounds 12] [--mixtures 32x4x1024x1024] [--rows 1,128] [--bits 4] [--block 32] [--levels 0,4]

A mixture is experts x chosen x width x hidden. Every run has other logits, so that experts come from where all of them lie. bits 0: floats. Times are medians; each is of
so many runs as take 60 ms or more. Needs numpy, onnx and onnxruntime."""

import argparse
import pathlib
import statistics
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from camshaft_api import Context
from onnx import TensorProto, helper, numpy_helper

INPUTS = 16  # logits that take turns


def make(file, rows, mixture, bits, block, level):
    experts, chosen, width, hidden = mixture
    random = np.random.default_rng(1)

    def stored(name, n, k):
        bias = numpy_helper.from_array(random.uniform(-1, 1, (experts, n)).astype(np.float32), name + "_bias")
        if bits == 0:
            return [numpy_helper.from_array(random.uniform(-1, 1, (experts, n, k)).astype(np.float32) / np.float32(k ** 0.5), name), bias]
        codes = numpy_helper.from_array(random.integers(0, 256, (experts, n, k * bits // 8), np.uint8), name)
        scales = random.uniform(0.5, 1, (experts, n, k // block) if block else (experts, n)).astype(np.float32) * np.float32(4 / k ** 0.5 / (1 << bits))
        return [codes, numpy_helper.from_array(scales, name + "_scales"), bias]

    tensors = stored("fc1", 2 * hidden, width) + stored("fc2", width, hidden)
    attributes = dict(k=chosen, activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0, normalize_routing_weights=1)
    if bits:
        attributes |= dict(expert_weight_bits=bits, accuracy_level=level) | (dict(block_size=block) if block else {})
    node = helper.make_node("QMoE" if bits else "MoE", ["x", "logits", *(t.name for t in tensors)], ["y"], domain="com.microsoft", **attributes)
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [value("x", TensorProto.FLOAT, [rows, width]), value("logits", TensorProto.FLOAT, [rows, experts])],
                              [value("y", TensorProto.FLOAT, [rows, width])], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10), str(file))


class Ours:
    def __init__(self, file, x, logits, threads):
        self.context = Context(str(file), {"x": x, "logits": logits}, threads)
        self.tactic = next(str(layer.get("TacticName", layer.get("Tactic"))) for layer in self.context.layers() if "experts" in str(layer))

    def run(self, logits):
        self.context.arrays["logits"][...] = logits
        self.context.run()


class Theirs:
    def __init__(self, file, x, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.x = x

    def run(self, logits):
        self.session.run(None, {"x": self.x, "logits": logits})


def timed(runner, all_logits):
    """Seconds of one run. The other engine's threads, which spin for a while after its turn, go to sleep first."""
    time.sleep(0.05)
    for logits in all_logits[:4]:
        runner.run(logits)
    runs, begin = 0, time.perf_counter()
    while runs < len(all_logits) or time.perf_counter() - begin < 0.06:
        runner.run(all_logits[runs % len(all_logits)])
        runs += 1
        if runs >= 2 and time.perf_counter() - begin > 0.5:
            break
    return (time.perf_counter() - begin) / runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(mixtures="32x4x1024x1024", rows="1,128", levels="0,4").items():
        parser.add_argument(f"--{name}", default=value)
    for name, value in dict(threads=1, rounds=12, bits=4, block=32).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    a = parser.parse_args()
    print("| mixture | bits | rows | level | ONNX Runtime us | Camshaft us | ratio | weights GB/s | tactic |\n|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "m.onnx"
        for mixture in a.mixtures.split(","):
            experts, chosen, width, hidden = extents = [int(n) for n in mixture.split("x")]
            for rows in map(int, a.rows.split(",")):
                for level in map(int, a.levels.split(",") if a.bits else ["0"]):
                    make(file, rows, extents, a.bits, a.block, level)
                    random = np.random.default_rng(2)
                    x = random.standard_normal((rows, width)).astype(np.float32)
                    logits = [random.standard_normal((rows, experts)).astype(np.float32) for _ in range(INPUTS)]
                    runners = [Theirs(file, x, a.threads), Ours(file, x, logits[0].copy(), a.threads)]
                    times = [[], []]
                    for _ in range(a.rounds):
                        for runner, of_runner in zip(runners, times):
                            of_runner.append(timed(runner, logits))
                    theirs, ours = (statistics.median(t) for t in times)
                    read = statistics.mean(len(set(np.argsort(-l, 1)[:, :chosen].ravel())) for l in logits)
                    weight = (a.bits / 8 + (4 / a.block if a.block else 0)) if a.bits else 4
                    print(f"| {mixture} | {a.bits} | {rows} | {level} | {theirs * 1e6:.0f} | {ours * 1e6:.0f} | {theirs / ours:.2f} "
                          f"| {read * 3 * width * hidden * weight / ours / 1e9:.1f} | {runners[1].tactic} |", flush=True)


if __name__ == "__main__":
    main()
