#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of a zoo folder as ONNX Runtime's tools for transformers leave them, for those who bring such files.

    tests/zoo/rewrite.py FOLDER OUT [--only NAME,…] [--forms fused,half,…]

Every network is rewritten in one form, the next one for the next network (or in all that --forms names):

    fused, fused_1, fused_2  onnxruntime.transformers' optimizer alone, behind ONNX Runtime's optimizations of level 1 or 2
    fused_half               the same in float16, inputs and outputs as they were
    half, half_io            all of the network in float16, inputs and outputs as they were, or those too
    4_bits, 4_bits_floats    MatMulNBits, blocks of 32: symmetric with accuracy_level 4; with zero points and level 0
    8_bits                   the same of 8 bits, accuracy_level 4
    bnb4                     MatMulBnb4, NF4

OUT/NAME_FORM holds the model, its inputs, and in info.json how far the network's outputs are from those of this form (`quantization_error`, of the largest output). Needs
onnx, onnxruntime, numpy. What ONNX Runtime's tools cannot rewrite, or it cannot run afterwards, is left out with its reason."""
import sys

import onnx
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.float16 import convert_float_to_float16
from variants import main

NF4 = 1
# What is in a network's name, and which fusions the optimizer then tries; it takes others for a BERT.
MODEL_TYPES = {"gpt2": "gpt2", "bart": "bart", "whisper": "bart", "t5": "t5", "clip": "clip", "swin": "swin", "vit": "vit", "deit": "vit", "dino": "vit", "beit": "vit",
               "phi": "phi", "conformer": "conformer", "unet": "unet", "vae": "vae", "qwen3": "qwen3"}


def fused(level, half=False):
    def make(folder, out):
        model_type = next((kind for part, kind in MODEL_TYPES.items() if part in folder.name), "bert")
        model = optimizer.optimize_model(str(folder / "model.onnx"), model_type=model_type, num_heads=0, hidden_size=0, opt_level=level, use_gpu=False)
        if half:
            model.convert_float_to_float16(keep_io_types=True)
        onnx.save(model.model, out)

    return make


def halved(keep_io_types):
    return lambda folder, out: onnx.save(convert_float_to_float16(onnx.load(folder / "model.onnx"), keep_io_types=keep_io_types), out)


def by(quantizer, **options):
    def make(folder, out):
        made = quantizer(onnx.load(folder / "model.onnx"), **options)
        made.process()
        onnx.save(made.model.model, out)

    return make


FORMS = {
    "fused": fused(0),
    "half": halved(True),
    "4_bits": by(MatMulNBitsQuantizer, bits=4, block_size=32, is_symmetric=True, accuracy_level=4),
    "fused_1": fused(1),
    "half_io": halved(False),
    "4_bits_floats": by(MatMulNBitsQuantizer, bits=4, block_size=32, is_symmetric=False, accuracy_level=0),
    "fused_half": fused(0, half=True),
    "8_bits": by(MatMulNBitsQuantizer, bits=8, block_size=32, is_symmetric=True, accuracy_level=4),
    "fused_2": fused(2),
    "bnb4": by(MatMulBnb4Quantizer, quant_type=NF4, block_size=64),
}

if __name__ == "__main__":
    sys.exit(main(__doc__, "--forms", FORMS))
