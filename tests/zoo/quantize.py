#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of a zoo folder in the dialects of 8 bits that ONNX Runtime's quantizer writes, for those who bring such files.

    tests/zoo/quantize.py FOLDER OUT [--only NAME,…] [--dialects qdq_u8s8,…]

Every network is quantized in one dialect, the next one for the next network (or in all that --dialects names), calibrated with its own data set and two noisy copies of it. OUT/NAME_DIALECT
holds the model, its inputs, and in info.json how far the float network's outputs are from its own (`quantization_error`, of the largest output): codes that round the other way grow to about that
in networks with seeded weights, so a smaller difference between two engines says nothing. Needs onnx, onnxruntime, numpy."""
import argparse
import fnmatch
import json
import logging
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

SIGNED, UNSIGNED = QuantType.QInt8, QuantType.QUInt8


def static(quant_format, activations, weights, **more):
    return lambda model, out, reader: quantize_static(model, out, reader, quant_format=quant_format, activation_type=activations, weight_type=weights, **more)


DIALECTS = {
    "qdq_u8s8": static(QuantFormat.QDQ, UNSIGNED, SIGNED, per_channel=True),
    "qdq_s8s8": static(QuantFormat.QDQ, SIGNED, SIGNED, per_channel=True, extra_options={"ActivationSymmetric": True}),
    "qop_u8u8": static(QuantFormat.QOperator, UNSIGNED, UNSIGNED),
    "qop_u8s8": static(QuantFormat.QOperator, UNSIGNED, SIGNED, per_channel=True),
    "dynamic": lambda model, out, reader: quantize_dynamic(model, out, weight_type=SIGNED),
}


def inputs_of(folder):
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    constants = {constant.name for constant in graph.initializer}
    names = [value.name for value in graph.input if value.name not in constants]
    return {name: numpy_helper.to_array(onnx.load_tensor(folder / "test_data_set_0" / f"input_{k}.pb")) for k, name in enumerate(names)}


class NoisyCopies(CalibrationDataReader):
    def __init__(self, inputs, copies=2):
        random = np.random.default_rng(1)
        self.left = [inputs] + [{name: array + random.standard_normal(array.shape).astype(array.dtype) * 0.3 * array.std() if array.dtype == np.float32 else array
                                 for name, array in inputs.items()} for _ in range(copies)]

    def get_next(self):
        return self.left.pop() if self.left else None


def outputs_of(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def largest_error(outputs, references):
    return max((float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in zip(outputs, references) if a.dtype.kind == "f" and a.size), default=0.0)


def quantize(folder, out, dialect):
    """Writes `out`, or nothing."""
    inputs = inputs_of(folder)
    with tempfile.TemporaryDirectory() as work:
        made, model = pathlib.Path(work) / "made", pathlib.Path(work) / "prepared.onnx"
        made.mkdir()
        try:
            quant_pre_process(str(folder / "model.onnx"), str(model), skip_symbolic_shape=True)
        except Exception:  # of shapes it cannot infer: quantized as it is
            model = folder / "model.onnx"
        DIALECTS[dialect](str(model), str(made / "model.onnx"), NoisyCopies(inputs))
        error = largest_error(outputs_of(made / "model.onnx", inputs), outputs_of(folder / "model.onnx", inputs))
        info = json.loads((folder / "info.json").read_text()) if (folder / "info.json").exists() else {}
        info |= {"name": out.name, "dialect": dialect, "quantization_error": error, "dyn": {}}
        (made / "info.json").write_text(json.dumps(info, indent=1))
        (made / "test_data_set_0").mkdir()
        for file in (folder / "test_data_set_0").glob("input_*.pb"):
            shutil.copy(file, made / "test_data_set_0")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    return error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="*", help="names, also with *, separated by commas")
    parser.add_argument("--dialects", help=f"of {','.join(DIALECTS)}; default: one for each network, in turn")
    arguments = parser.parse_args()
    chosen = arguments.dialects.split(",") if arguments.dialects else []
    if unknown := [name for name in chosen if name not in DIALECTS]:
        parser.error(f"unknown dialect {unknown[0]}")
    networks = sorted(path.parent for path in arguments.folder.glob("*/model.onnx") if any(fnmatch.fnmatch(path.parent.name, name) for name in arguments.only.split(",")))
    if not networks:
        parser.error(f"{arguments.folder}: no network of that name")
    logging.disable(logging.WARNING)  # of every node that stays float
    onnxruntime.set_default_logger_severity(4)
    failed = 0
    for k, folder in enumerate(networks):
        for dialect in chosen or [list(DIALECTS)[k % len(DIALECTS)]]:
            name = f"{folder.name}_{dialect}"
            try:
                print(f"[{k + 1}/{len(networks)}] {name}: {quantize(folder, arguments.out / name, dialect):.2g} from the float network", flush=True)
            except Exception as error:  # the quantizer's: the network is left out
                failed += 1
                print(f"[{k + 1}/{len(networks)}] {name}: left out: {str(error).splitlines()[0][:160] if str(error) else type(error).__name__}", flush=True)
    return 1 if failed and failed == len(networks) else 0


if __name__ == "__main__":
    sys.exit(main())
