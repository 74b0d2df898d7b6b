# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX has and PyTorch's exporter does not translate, and those it translates wrongly."""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch.fx import Node

from .writes import arguments_of

# Operators whose translation leaves this argument out.
_LEFT_OUT = {"aten::avg_pool1d": "divisor_override", "aten::avg_pool2d": "divisor_override", "aten::avg_pool3d": "divisor_override",
             "aten::native_batch_norm": "training", "aten::_native_batch_norm_legit": "training"}


def is_mistranslated(node: Node) -> bool:
    """Whether PyTorch's exporter would make something else of it, without a word."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    argument = _LEFT_OUT.get(node.target._schema.name)
    return argument is not None and bool({known.name: value for known, value in arguments_of(node)}.get(argument))


def translations() -> dict[Any, Callable[..., Any]]:
    """For ``torch.onnx.export(custom_translation_table=…)``."""
    from onnxscript import opset18 as op

    def int_mm(left: Any, right: Any) -> Any:
        return op.MatMulInteger(left, right)

    return {torch.ops.aten._int_mm.default: int_mm}
