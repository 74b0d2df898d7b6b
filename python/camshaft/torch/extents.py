# SPDX-License-Identifier: Apache-2.0
"""For which shapes of its inputs a program of torch.export holds.

Tracing a program with open extents takes one of several ways where they decide, and notes the condition: extents that must be equal or a
multiple of 7, windows of a pooling that were computed for one size. PyTorch's ONNX exporter adds conditions of its own while it decomposes operators, and
nobody checks them afterwards.
"""
from __future__ import annotations

from typing import Any, Sequence

import sympy
import torch

_MOST_SHAPES = 4096  # whose answers are kept


class Extents:
    """Made once the program has been exported to ONNX: not all conditions are there before.

    :param places: the inputs of the program, tensors and integers, among the values :meth:`hold` is asked about.
    """

    def __init__(self, program: torch.export.ExportedProgram, places: Sequence[int]):
        inputs = _inputs(program)
        self._places = list(places)
        self._extents = [list(map(_expression, _numbers(value))) for value in inputs]
        self._conditions = conditions(program)
        self._answers: dict[Any, bool] = {}

    def hold(self, values: Sequence[Any]) -> bool:
        shapes = tuple(_numbers(values[k]) for k in self._places)
        answer = self._answers.get(shapes)
        if answer is None:
            answer = self._decide(shapes)
            if len(self._answers) < _MOST_SHAPES:
                self._answers[shapes] = answer
        return answer

    def _decide(self, shapes: Sequence[Sequence[int]]) -> bool:
        if any(len(extents) != len(shape) for extents, shape in zip(self._extents, shapes)):
            return False
        pairs = [(extent, int(number)) for extents, shape in zip(self._extents, shapes) for extent, number in zip(extents, shape)]
        known: dict[Any, int] = {}
        for extent, number in sorted(pairs, key=lambda pair: not pair[0].is_symbol):  # symbols first: the others are made of them
            for symbol in extent.free_symbols - known.keys():
                found = sympy.solve(extent.xreplace(known) - number, symbol)
                if len(found) != 1 or not found[0].is_integer:
                    return False
                known[symbol] = found[0]
            if extent.xreplace(known) != number:
                return False
        # A condition that has other symbols as well cannot be told; tracing has checked it for data alone.
        return all(condition.xreplace(known) != sympy.false for condition in self._conditions)


def conditions(program: torch.export.ExportedProgram) -> list[Any]:
    """What tracing has assumed of the extents until now."""
    for value in _inputs(program):
        for extent in _numbers(value):
            if isinstance(extent, torch.SymInt):
                return [guard.expr for guard in extent.node.shape_env.guards]
    return []


def _inputs(program: torch.export.ExportedProgram) -> list[Any]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    return [values[name] for name in program.graph_signature.user_inputs]


def _numbers(value: Any) -> Sequence[Any]:
    """What a program knows of an input: the extents of a tensor, or an integer itself."""
    return value.shape if isinstance(value, torch.Tensor) else (value,)


def _expression(extent: Any) -> Any:
    return extent.node.expr if isinstance(extent, torch.SymInt) else sympy.Integer(extent)
