#!/usr/bin/env python3
"""Stores what ONNX Runtime without optimizations computes for the generated models: tests/models/generated/NAME.npz.

    make_generated_references.py MODEL.onnx ...

Inputs are drawn by input_array() from a fixed seed. Of every output 1,009 evenly spread elements are kept (all, if it has fewer)."""

import pathlib
import sys

import numpy as np

SAMPLES = 1009


def input_array(index, shape, kind):
    """Input `index` of a model: uniform in [-1, 1], or small integers."""
    random = np.random.RandomState(1000 + index)
    if np.issubdtype(kind, np.floating):
        return random.uniform(-1, 1, shape).astype(kind)
    return random.randint(0, 2, shape).astype(kind)


def sample(output):
    flat = output.reshape(-1)
    return flat[np.linspace(0, flat.size - 1, min(SAMPLES, flat.size)).astype(np.int64)]


def main():
    import onnxruntime
    for name in sys.argv[1:]:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(name, options, providers=["CPUExecutionProvider"])
        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
        stored, feeds = {}, {}
        for index, value in enumerate(session.get_inputs()):
            shape = [dim if isinstance(dim, int) else 1 for dim in value.shape]
            feeds[value.name] = input_array(index, shape, kinds[value.type])
            stored[f"input_{index}_shape"] = np.array(shape)
        for index, output in enumerate(session.run(None, feeds)):
            stored[f"output_{index}_shape"] = np.array(output.shape)
            stored[f"output_{index}_largest"] = np.abs(output).max()
            stored[f"output_{index}"] = sample(output)
        folder = pathlib.Path(__file__).parent / "generated"
        folder.mkdir(exist_ok=True)
        np.savez_compressed(folder / (pathlib.Path(name).stem + ".npz"), **stored)


if __name__ == "__main__":
    main()
