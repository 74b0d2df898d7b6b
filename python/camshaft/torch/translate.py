# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX has and PyTorch's exporter does not translate, and those it translates wrongly."""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch.fx import Node

from .writes import arguments_of


def _is_given(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda values: bool(values.get(name))


def _of_bytes(values: dict[str, Any]) -> bool:
    """Bytes are rounded otherwise."""
    image = values.get("input", values.get("self"))
    return isinstance(image, Node) and image.meta["val"].dtype == torch.uint8


def _of_integers(values: dict[str, Any]) -> bool:
    """Means are cut off."""
    image = values["self"]
    return isinstance(image, Node) and not image.meta["val"].dtype.is_floating_point


def _scales_otherwise(values: dict[str, Any]) -> bool:
    """Antialiasing whose scale is not the quotient of the extents, which is all that its translation knows."""
    if _of_bytes(values):
        return True
    scales = (*(values.get("scale_factors") or ()), values.get("scales_h"), values.get("scales_w"))
    return bool(values.get("align_corners")) or any(scale is not None and scale != int(scale) for scale in scales)


# Operators whose translation leaves something out, and when that matters.
_MISTRANSLATED = {
    **{f"aten::avg_pool{rank}d": lambda values: bool(values.get("divisor_override")) or _of_integers(values) for rank in (1, 2, 3)},
    **{f"aten::{name}": _is_given("training") for name in ("native_batch_norm", "_native_batch_norm_legit")},
    "aten::scatter_reduce": lambda values: values.get("reduce") == "mean",
    **{f"aten::{norm}": lambda values: values.get("dim") is None and bool(values.get("keepdim")) for norm in ("linalg_norm", "linalg_vector_norm")},
    **{f"aten::special_{name}": lambda values: True for name in ("erfcx", "log_ndtr")},  # differences of large numbers
    **{f"aten::upsample_{mode}": _of_bytes for mode in ("bilinear2d", "bicubic2d")},
    **{f"aten::_upsample_{mode}2d_aa": _scales_otherwise for mode in ("bilinear", "bicubic")},
}


def is_mistranslated(node: Node) -> bool:
    """Whether PyTorch's exporter would make something else of it, without a word."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    matters = _MISTRANSLATED.get(node.target._schema.name)
    return matters is not None and matters({argument.name: value for argument, value in arguments_of(node)})


def translations() -> dict[Any, Callable[..., Any]]:
    """For ``torch.onnx.export(custom_translation_table=…)``."""
    from onnxscript import opset18 as op

    def int_mm(left: Any, right: Any) -> Any:
        return op.MatMulInteger(left, right)

    return {torch.ops.aten._int_mm.default: int_mm}
