# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX has and PyTorch's exporter does not translate."""
from __future__ import annotations

from typing import Any, Callable

import torch


def translations() -> dict[Any, Callable[..., Any]]:
    """For ``torch.onnx.export(custom_translation_table=…)``."""
    from onnxscript import opset18 as op

    def int_mm(left: Any, right: Any) -> Any:
        return op.MatMulInteger(left, right)

    return {torch.ops.aten._int_mm.default: int_mm}
