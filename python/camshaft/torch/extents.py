# SPDX-License-Identifier: Apache-2.0
"""For which shapes of its inputs a program of torch.export holds.

Tracing a program with open extents takes one of several ways where they decide, and notes the condition: extents that must be equal or a
multiple of 7, windows of a pooling that were computed for one size. PyTorch's ONNX exporter adds conditions of its own while it decomposes operators, and
nobody checks them afterwards.
"""
from __future__ import annotations

import operator
from typing import Any, Callable, Sequence

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
        self._ranks = [len(_numbers(value)) for value in inputs]
        extents = [_expression(extent) for value in inputs for extent in _numbers(value)]
        self._fixed = [(k, int(extent)) for k, extent in enumerate(extents) if extent.is_number]
        self._first: dict[Any, int] = {}  # where a symbol is an extent itself
        for k, extent in enumerate(extents):
            if extent.is_symbol:
                self._first.setdefault(extent, k)
        # Extents that are expressions of others. A condition that has other symbols as well cannot be told; tracing has checked it for data alone.
        made = [(k, extent) for k, extent in enumerate(extents) if not extent.is_number and self._first.get(extent) != k]
        self._made = [k for k, _ in made]
        self._unknown = any(extent.free_symbols - self._first.keys() for _, extent in made)
        self._evaluate = _function(list(self._first), [extent for _, extent in made],
                                   [condition for condition in conditions(program) if condition.free_symbols <= self._first.keys()])
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
        if self._unknown or any(len(shape) != rank for shape, rank in zip(shapes, self._ranks)):
            return False
        numbers = [int(number) for shape in shapes for number in shape]
        if any(numbers[k] != number for k, number in self._fixed):
            return False
        made, holds = self._evaluate(*(numbers[k] for k in self._first.values()))
        return all(map(bool, holds)) and all(numbers[k] == number for k, number in zip(self._made, made))


def _function(symbols: Sequence[Any], made: Sequence[Any], holds: Sequence[Any]) -> Callable[..., Any]:
    """Of numbers for the symbols, in Python: sympy's own evaluation takes a millisecond, and integers may be others in every call."""
    words = {"FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "CeilDiv": lambda a, b: -(-a // b), "Mod": operator.mod, "PythonMod": operator.mod,
             "IntTrueDiv": operator.truediv, "FloatTrueDiv": operator.truediv, "Max": max, "Min": min, "ToFloat": float, "PowByNatural": pow}
    by_python = sympy.lambdify(symbols, (list(made), list(holds)), modules=[words, "math"])

    def evaluate(*numbers: int) -> Any:
        try:
            return by_python(*numbers)
        except NameError:  # a function of PyTorch's that is not among the words
            known = dict(zip(symbols, map(sympy.Integer, numbers)))
            return [extent.xreplace(known) for extent in made], [condition.xreplace(known) != sympy.false for condition in holds]

    return evaluate


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
