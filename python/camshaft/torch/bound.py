# SPDX-License-Identifier: Apache-2.0
"""Graphs whose parameters, scalars and sizes are bound, so that only what really changes is an input.

torch.compile hands a backend a graph with the parameters lifted to inputs. An engine that folds and packs weights needs them as
constants again; the sizes and numbers among the inputs follow from the tensors or are taken as they are.
"""
from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import torch
from torch.fx import GraphModule, Node


class Kind(enum.Enum):
    INPUT = "input"  # a tensor that comes with every call
    WEIGHT = "weight"  # a parameter or buffer: constant until somebody writes into it
    INTEGER = "integer"  # an open number (a count of steps): comes with every call
    NUMBER = "number"  # a number: constant, and a reason to build again when it is another
    SIZE = "size"  # an extent of an input


@dataclass(frozen=True)
class Slot:
    """One input of the graph. ``source`` and ``dim`` say which input's extent a SIZE is."""

    kind: Kind
    source: int = -1
    dim: int = -1


def _example(node: Node) -> Any:
    value = node.meta.get("example_value")
    return value if value is not None else node.meta.get("val")


def _is_weight(node: Node, value: Any) -> bool:
    static = (node.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type")
    return isinstance(value, torch.nn.Parameter) or static is not None


def is_open(extent: Any) -> bool:
    """Whether an extent is an expression in symbols; some are SymInt and yet have become a number."""
    return isinstance(extent, torch.SymInt) and not extent.node.expr.is_number


def _symbol(extent: Any) -> str | None:
    return str(extent.node.expr) if is_open(extent) else None


def classify(graph: GraphModule, values: Sequence[Any]) -> list[Slot]:
    """What each input of a graph of torch.compile is."""
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    slots: list[Slot] = []
    sizes: dict[str, tuple[int, int]] = {}
    for index, (node, value) in enumerate(zip(nodes, values)):
        if not isinstance(value, torch.Tensor):
            slots.append(Slot(Kind.NUMBER))
        elif _is_weight(node, value):
            slots.append(Slot(Kind.WEIGHT))
        elif value.ndim == 0 and node.users and all(user.target in ("item", "tolist") for user in node.users):
            slots.append(Slot(Kind.NUMBER))
        else:
            slots.append(Slot(Kind.INPUT))
            for dim, extent in enumerate(_example(node).shape if _example(node) is not None else ()):
                if (symbol := _symbol(extent)) is not None:
                    sizes.setdefault(symbol, (index, dim))
    for index, node in enumerate(nodes):
        symbol = _symbol(_example(node))
        if symbol in sizes:
            slots[index] = Slot(Kind.SIZE, *sizes[symbol])
        elif symbol is not None and slots[index].kind is Kind.NUMBER:
            slots[index] = Slot(Kind.INTEGER)
    return slots


def dynamic_dims(graph: GraphModule, slots: Sequence[Slot]) -> tuple[tuple[Any, ...]] | None:
    """torch.export's dynamic_shapes for what comes with every call; None: all is static."""
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    shapes: list[Any] = []
    for node, slot in zip(nodes, slots):
        if slot.kind is Kind.INPUT:
            example = _example(node)
            shapes.append({dim: torch.export.Dim.AUTO for dim, extent in enumerate(example.shape if example is not None else ())
                           if is_open(extent)})
        elif slot.kind is Kind.INTEGER:
            shapes.append(torch.export.Dim.AUTO)
    return (tuple(shapes),) if any(shapes) else None


def comes_with_calls(slot: Slot) -> bool:
    return slot.kind in (Kind.INPUT, Kind.INTEGER)


def number_of(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else int(value) if isinstance(value, torch.SymInt) else value


def weight_place(target: str) -> int:
    """Which of the graph's inputs a buffer of a :class:`Bound` is."""
    return int(target.rsplit("_", 1)[1])


class Bound(torch.nn.Module):
    """The graph with everything but its tensors filled in; returns the tensors among its results as a tuple.

    :param written: the places of inputs the graph writes into. It gets copies of them, and returns these behind its results.
    """

    def __init__(self, graph: Callable[..., Any], slots: Sequence[Slot], values: Sequence[Any], kept: Sequence[int], written: Sequence[int] = ()):
        super().__init__()
        self.graph = graph
        self._written = list(written)
        self._slots, self._kept = list(slots), list(kept)
        self._position = {index: k for k, index in enumerate(i for i, slot in enumerate(slots) if comes_with_calls(slot))}
        self._numbers: dict[int, Any] = {}
        for index, (slot, value) in enumerate(zip(slots, values)):
            if slot.kind is Kind.WEIGHT:
                self.register_buffer(f"weight_{index}", value.detach(), persistent=True)
            elif slot.kind is Kind.NUMBER:
                self._numbers[index] = torch.tensor(number_of(value)) if isinstance(value, torch.Tensor) else number_of(value)

    def _fill(self, index: int, slot: Slot, inputs: tuple[torch.Tensor, ...]) -> Any:
        if comes_with_calls(slot):
            return inputs[self._position[index]]
        if slot.kind is Kind.WEIGHT:
            return getattr(self, f"weight_{index}")
        if slot.kind is Kind.SIZE:
            return inputs[self._position[slot.source]].shape[slot.dim]
        return self._numbers[index]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [self._fill(index, slot, inputs) for index, slot in enumerate(self._slots)]
        for k in self._written:
            values[k] = values[k].clone()
        results = self.graph(*values)
        return (*(results[k] for k in self._kept), *(values[k] for k in self._written))
