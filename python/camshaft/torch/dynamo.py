# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile."""
from __future__ import annotations

import itertools
import threading
from collections import Counter
from typing import Any, Callable, Sequence

import torch
from torch.fx import GraphModule

from ..errors import CamshaftError, InvalidArgument
from .bound import Kind, Slot, classify, number_of
from .options import Options, make_options
from .report import GraphReport
from .variant import Variant

_reports: list[GraphReport] = []
_numbers = itertools.count()
_MOST_VARIANTS = 32  # engines of one graph


def reports() -> list[GraphReport]:
    """A report for every graph compiled in this process, in order."""
    return list(_reports)


class CompiledGraph:
    """What runs instead of one graph: a variant for every value of the numbers among its inputs (and for the shapes that no other is for),
    anew when its weights change.

    Built at the first call: within torch.compile's own tracing nothing else can be traced.
    """

    def __init__(self, graph: GraphModule, values: Sequence[Any], options: Options):
        self._graph, self._options = graph, options
        self._slots = classify(graph, values)
        self._results = [node for node in graph.graph.nodes if node.op == "output"][0].args[0]
        examples = [r.meta.get("example_value", r.meta.get("val")) if isinstance(r, torch.fx.Node) else r for r in self._results]
        self._kept = [k for k, example in enumerate(examples) if isinstance(example, torch.Tensor)]
        # What is left over: constants, and extents in terms of the graph's own numbers.
        self._others = [k for k in range(len(examples)) if k not in self._kept]
        self._numbers = [k for k, slot in enumerate(self._slots) if slot.kind is Kind.NUMBER]
        self._variants: dict[Any, tuple[Variant, ...]] = {}
        self._writes: Counter[int] = Counter()  # how often a weight was found changed
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self.name = f"graph {next(_numbers)}"

    def _variant(self, values: Sequence[Any]) -> Variant | None:
        """Built anew where a weight is another. None: there are too many."""
        numbers = tuple(number_of(values[k]) for k in self._numbers)
        found = self._find(numbers, values)
        if found is not None and not found.weights.changed(values):
            return found
        with self._lock:
            found = self._find(numbers, values)
            if found is not None:
                changed = found.weights.changed(values)
                if not changed:
                    return found  # another thread was faster
                self._variants[numbers] = tuple(variant for variant in self._variants[numbers] if variant is not found)
                self._note_writes(changed, values)
            elif sum(map(len, self._variants.values())) >= _MOST_VARIANTS:
                return None
            report = GraphReport(self.name)
            variant = Variant(self._graph, self._slots, values, self._kept, self._options, report)
            report.log()
            _reports.append(report)
            self._variants[numbers] = (*self._variants.get(numbers, ()), variant)
            return variant

    def _find(self, numbers: Any, values: Sequence[Any]) -> Variant | None:
        return next((variant for variant in self._variants.get(numbers, ()) if variant.holds(values)), None)

    def _note_writes(self, changed: Sequence[int], values: Sequence[Any]) -> None:
        """A buffer that is another again and again is an input; a parameter changes when somebody trains it."""
        for k in changed:
            self._writes[k] += 1
            if self._writes[k] > 1 and not isinstance(values[k], torch.nn.Parameter):
                self._slots[k] = Slot(Kind.INPUT)
                self._variants = {}

    def __call__(self, *values: Any) -> Any:
        if reason := _why_not(values):
            return self._stay(reason, values)
        variant = self._variant(values)
        if variant is None:
            return self._stay(f"more than {_MOST_VARIANTS} sets of numbers and shapes", values)
        if variant.is_eager(values):
            return self._graph(*values)
        results: list[Any] = [None] * len(self._results)
        try:
            tensors = variant.run(values)
        except CamshaftError as error:
            return self._stay(str(error), values)
        for k, tensor in zip(self._kept, tensors):
            results[k] = tensor
        if self._others:
            extents = self._extents(values)
            for k in self._others:
                results[k] = extents(self._results[k])
        return tuple(results)

    def _stay(self, reason: str, values: Sequence[Any]) -> Any:
        """The graph as PyTorch runs it; said once."""
        if not self._options.fallback:
            raise InvalidArgument(reason)
        if reason not in self._said:
            self._said.add(reason)
            report = GraphReport(self.name, sum(node.op.startswith("call_") for node in self._graph.graph.nodes), reason=reason)
            report.log()
            _reports.append(report)
        return self._graph(*values)

    def _extents(self, values: Sequence[Any]) -> Callable[[Any], Any]:
        """Evaluates results that are numbers: expressions in the symbols the graph's inputs stand for."""
        symbols = {}
        for node, value in zip((n for n in self._graph.graph.nodes if n.op == "placeholder"), values):
            example = node.meta.get("example_value")
            pairs = [(example, value)] if isinstance(example, torch.SymInt) else []
            if isinstance(example, torch.Tensor) and isinstance(value, torch.Tensor):
                pairs = list(zip(example.shape, value.shape))
            for extent, number in pairs:
                if isinstance(extent, torch.SymInt) and extent.node.expr.is_symbol:
                    symbols[extent.node.expr] = int(number)

        def evaluate(result: Any) -> Any:
            if not isinstance(result, torch.fx.Node):
                return result
            example = result.meta.get("example_value", result.meta.get("val"))
            return int(example.node.expr.xreplace(symbols)) if isinstance(example, torch.SymInt) else example

        return evaluate


def _why_not(values: Sequence[Any]) -> str:
    """Why a call cannot be an engine's at all; ``""``: it can."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return "gradients are needed; call it under torch.no_grad() or torch.inference_mode()"
    if any(tensor.device.type != "cpu" for tensor in tensors):
        return "tensors that are not on the CPU"
    return ""


def backend(graph: GraphModule, values: Sequence[Any], *, options: dict[str, Any] | None = None, **ignored: Any) -> Callable[..., Any]:
    """``torch.compile(model, backend="camshaft", options={…})``: engines for what can be, PyTorch for the rest, said in the log.

    Parameters are frozen; a graph whose weights were written into is built again. Where gradients are needed (grad mode on and a
    parameter that requires them) the graph stays PyTorch's: compile and call under ``torch.no_grad()``.

    :raises CamshaftError: with ``fallback=False``, where a graph is not one engine.
    """
    return CompiledGraph(graph, values, make_options(options))
