#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of a zoo folder in the dialects of 8 bits that ONNX Runtime's quantizer writes, for those who bring such files.

    tests/zoo/quantize.py FOLDER OUT [--only NAME,…] [--dialects qdq_u8s8,…]

Every network is quantized in one dialect, the next one for the next network (or in all that --dialects names), calibrated with its own data set and two noisy copies of it. OUT/NAME_DIALECT
holds the model, its inputs, and in info.json how far the float network's outputs are from its own (`quantization_error`, of the largest output): codes that round the other way grow to about that
in networks with seeded weights, so a smaller difference between two engines says nothing. Needs onnx, onnxruntime, numpy."""
import pathlib
import sys
import tempfile

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from variants import inputs_of, main

SIGNED, UNSIGNED = QuantType.QInt8, QuantType.QUInt8


class NoisyCopies(CalibrationDataReader):
    def __init__(self, inputs, copies=2):
        random = np.random.default_rng(1)
        self.left = [inputs] + [{name: array + random.standard_normal(array.shape).astype(array.dtype) * 0.3 * array.std() if array.dtype == np.float32 else array
                                 for name, array in inputs.items()} for _ in range(copies)]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantized(folder, out, quantize):
    with tempfile.TemporaryDirectory() as work:
        model = pathlib.Path(work) / "prepared.onnx"
        try:
            quant_pre_process(str(folder / "model.onnx"), str(model), skip_symbolic_shape=True)
        except Exception:  # of shapes it cannot infer: quantized as it is
            model = folder / "model.onnx"
        quantize(str(model), str(out), NoisyCopies(inputs_of(folder)))


def static(quant_format, activations, weights, **more):
    def quantize(model, out, reader):
        quantize_static(model, out, reader, quant_format=quant_format, activation_type=activations, weight_type=weights, **more)

    return lambda folder, out: quantized(folder, out, quantize)


def dynamic(folder, out):
    quantized(folder, out, lambda model, to, _: quantize_dynamic(model, to, weight_type=SIGNED))


DIALECTS = {
    "qdq_u8s8": static(QuantFormat.QDQ, UNSIGNED, SIGNED, per_channel=True),
    "qdq_s8s8": static(QuantFormat.QDQ, SIGNED, SIGNED, per_channel=True, extra_options={"ActivationSymmetric": True}),
    "qop_u8u8": static(QuantFormat.QOperator, UNSIGNED, UNSIGNED),
    "qop_u8s8": static(QuantFormat.QOperator, UNSIGNED, SIGNED, per_channel=True),
    "dynamic": dynamic,
}

if __name__ == "__main__":
    sys.exit(main(__doc__, "--dialects", DIALECTS))
