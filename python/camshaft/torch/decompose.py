# SPDX-License-Identifier: Apache-2.0
"""Operators in terms that PyTorch's ONNX exporter can translate."""
from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def decompose(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program itself where the exporter can translate all of it as far as we know."""
    return program.run_decompositions({_ATTENTION: _attention}) if any(map(_is_other_attention, program.graph.nodes)) else program


def _is_other_attention(node: Node) -> bool:
    """The exporter knows attention of [batch, heads, steps, depth] alone."""
    return node.target is _ATTENTION and node.args[0].meta["val"].dim() != 4  # type: ignore[union-attr]


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
               is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False) -> Any:
    """Leading dimensions in one, or ones in front."""
    rank = query.dim()
    if rank == 4:
        return NotImplemented
    lead = query.shape[:-3]
    if attn_mask is not None and rank > 4 and attn_mask.dim() > 2:
        heads = attn_mask.shape[-3]
        attn_mask = attn_mask.expand(*lead, heads, *attn_mask.shape[-2:]).flatten(0, -4)
    operands = [_of_four(operand, lead) for operand in (query, key, value)]
    result = _ATTENTION(*operands, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return result.reshape(*query.shape[:-1], value.shape[-1])


def _of_four(operand: torch.Tensor, lead: torch.Size) -> torch.Tensor:
    if operand.dim() < 4:
        return operand[(None,) * (4 - operand.dim())]
    return operand.expand(*lead, *operand.shape[-3:]).flatten(0, -4)
