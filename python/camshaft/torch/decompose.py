# SPDX-License-Identifier: Apache-2.0
"""Operators in terms that PyTorch's ONNX exporter can translate."""
from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple

import torch
from torch.fx import Node
from torch.fx.node import map_arg


def decompose(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program itself where the exporter can translate all of it as far as we know."""
    used = {node.target for node in program.graph.nodes if is_decomposed(node)}
    return program.run_decompositions({target: _TABLE[str(target)] for target in used}) if used else program


def is_decomposed(node: Node) -> bool:
    """Whether an operator is told in other terms before the exporter sees it."""
    row = _TABLE.get(str(node.target)) if isinstance(node.target, torch._ops.OpOverload) else None
    return row is not None and row.applies(*map_arg(node.args, _value), **map_arg(node.kwargs, _value))


def _value(node: Node) -> Any:
    return node.meta["val"]


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
               is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False) -> Any:
    """Leading dimensions in one, or ones in front: the exporter knows attention of [batch, heads, steps, depth] alone."""
    lead = query.shape[:-3]
    if attn_mask is not None and query.dim() > 4 and attn_mask.dim() > 2:
        heads = attn_mask.shape[-3]
        attn_mask = attn_mask.expand(*lead, heads, *attn_mask.shape[-2:]).flatten(0, -4)
    operands = [_of_four(operand, lead) for operand in (query, key, value)]
    result = torch.ops.aten.scaled_dot_product_attention.default(*operands, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return result.reshape(*query.shape[:-1], value.shape[-1])


def _of_four(operand: torch.Tensor, lead: torch.Size) -> torch.Tensor:
    if operand.dim() < 4:
        return operand[(None,) * (4 - operand.dim())]
    return operand.expand(*lead, *operand.shape[-3:]).flatten(0, -4)


def _grouped_products(rows: torch.Tensor, matrices: torch.Tensor, offs: torch.Tensor, *absent: Any, **options: Any) -> torch.Tensor:
    """Rows [rows, depth] sorted by their matrix [matrices, depth, columns], up to ``offs`` [matrices]: each row's matrix by number, as the engine's
    ChosenProduct takes them. Rows behind the last end are zero, as in transformers (in PyTorch they are anything)."""
    number = (torch.arange(rows.shape[0], dtype=offs.dtype)[:, None] >= offs).sum(-1)
    inside = number < matrices.shape[0]
    chosen = matrices.index_select(0, number.clamp(max=matrices.shape[0] - 1))
    return torch.bmm(torch.where(inside[:, None], rows, 0)[:, None], chosen)[:, 0]


def _is_grouped(rows: torch.Tensor, matrices: torch.Tensor, offs: torch.Tensor | None = None, bias: torch.Tensor | None = None,
                out_dtype: torch.dtype | None = None) -> bool:
    return rows.dim() == 2 and matrices.dim() == 3 and offs is not None and bias is None and out_dtype in (None, rows.dtype)


def _int8_weights(rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Codes [columns, depth] of int8 with a scale per column: the engine keeps them as they are."""
    return torch.mm(rows, codes.t().to(rows.dtype)) * scales


def _distances(left: torch.Tensor, right: torch.Tensor, p: float = 2.0, compute_mode: int | None = None) -> Any:
    """Of all pairs of rows, as PyTorch finds them: of many rows by their products."""
    by_products = compute_mode == 1 or (compute_mode != 2 and (left.shape[-2] > 25 or right.shape[-2] > 25))
    if p == 2 and by_products:
        squares = left.square().sum(-1, keepdim=True) + right.square().sum(-1)[..., None, :]
        return torch.sqrt(torch.clamp(squares - 2 * left @ right.transpose(-1, -2), min=0))
    apart = (left[..., :, None, :] - right[..., None, :, :]).abs()
    if p == 0:
        return (apart != 0).to(left.dtype).sum(-1)
    if p == float("inf"):
        return apart.amax(-1)
    return apart.sum(-1) if p == 1 else apart.square().sum(-1).sqrt() if p == 2 else apart.pow(p).sum(-1).pow(1 / p)


def _of_type(softmax: Any) -> Callable[..., Any]:
    """The exporter converts what it is of afterwards."""
    return lambda scores, dim, dtype: softmax(scores.to(dtype), dim)


def _converts(scores: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> bool:
    return dtype not in (None, scores.dtype)


def _aligned(upsample: Any) -> Callable[..., Any]:
    """Corners are aligned by the extents, whatever the scales; ONNX takes the extent before rounding."""
    return lambda image, output_size, align_corners, scale_factors: upsample(
        image, [torch.sym_int(extent * scale) for extent, scale in zip(image.shape[2:], scale_factors)], True, None)


def _aligns_by_scales(image: torch.Tensor, output_size: Any, align_corners: bool, scale_factors: Any = None) -> bool:
    return bool(align_corners) and bool(scale_factors)


def _shift_bytes(shift: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The exporter makes int8 of uint8."""
    def terms(codes: torch.Tensor, by: Any) -> torch.Tensor:
        by = by.to(torch.int32) if isinstance(by, torch.Tensor) else by
        return torch.bitwise_and(shift(codes.to(torch.int32), by), 255).to(codes.dtype)
    return terms


def _are_bytes(codes: Any, by: Any) -> bool:
    return isinstance(codes, torch.Tensor) and codes.dtype == torch.uint8


def _angle(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The exporter takes y = 0 for one below it, and makes 0 of NaN."""
    right = torch.atan(y / x)
    left = torch.where(y < 0, right - math.pi, right + math.pi)
    return torch.where((y == 0) & (x == 0), 0.0, torch.where(x < 0, left, right))


def _always(*args: Any, **kwargs: Any) -> bool:
    return True


class _Row(NamedTuple):
    """A decomposition: ``terms`` of the operator where it ``applies`` to its arguments."""
    applies: Callable[..., bool]
    terms: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.terms(*args, **kwargs) if self.applies(*args, **kwargs) else NotImplemented


_TABLE = {
    "aten.scaled_dot_product_attention.default": _Row(lambda query, *others, **options: query.dim() != 4, _attention),
    "aten._grouped_mm.default": _Row(_is_grouped, _grouped_products),
    "aten._cdist_forward.default": _Row(_always, _distances),
    "aten.cdist.default": _Row(_always, _distances),
    "aten.atan2.default": _Row(_always, _angle),
    "aten._weight_int8pack_mm.default": _Row(_always, _int8_weights),
    **{f"aten.{softmax}.int": _Row(_converts, _of_type(getattr(torch.ops.aten, softmax).int)) for softmax in ("softmax", "log_softmax")},
    **{f"aten.{upsample}.vec": _Row(_aligns_by_scales, _aligned(getattr(torch.ops.aten, upsample).vec))
       for upsample in ("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d")},
    **{f"aten.{name}.{overload}": _Row(_are_bytes, _shift_bytes(shift))
       for shift, side in ((torch.bitwise_right_shift, "r"), (torch.bitwise_left_shift, "l"))
       for name, overload in ((f"__{side}shift__", "Scalar"), (f"__{side}shift__", "Tensor"), (shift.__name__, "Tensor"), (shift.__name__, "Tensor_Scalar"))},
    "transformers.grouped_mm_fallback.default": _Row(_always, _grouped_products),
}
