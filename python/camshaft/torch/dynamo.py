# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile."""
from __future__ import annotations

import dataclasses
import itertools
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import torch
from torch.fx import GraphModule

from ..errors import InvalidArgument
from .bound import Bound, Kind, classify, dynamic_dims, number_of
from .convert import NotConvertible, export, to_feed, to_session, to_tensor
from .partition import split
from .report import GraphReport

_reports: list[GraphReport] = []
_numbers = itertools.count()


def reports() -> list[GraphReport]:
    """A report for every graph compiled in this process, in order."""
    return list(_reports)


@dataclass
class Options:
    """``torch.compile(model, backend="camshaft", options={…})``."""

    min_nodes: int = 3
    """Parts of a graph that cannot be one engine are engines from so many nodes on."""
    fallback: bool = True
    """False: a graph that is not one engine is an error."""
    session: dict[str, Any] = field(default_factory=dict)
    """Options of :class:`camshaft.Session`: precision, threads, cache, …"""


def make_options(given: dict[str, Any] | None) -> Options:
    """Options of this class by name, all others for the session."""
    own = {entry.name for entry in dataclasses.fields(Options)}
    given = dict(given or {})
    session = {**given.pop("session", {}), **{name: given.pop(name) for name in list(given) if name not in own}}
    return Options(session=session, **given)


class _Variant:
    """A graph with its weights and numbers bound, as an engine, as parts, or as PyTorch's own."""

    def __init__(self, graph: GraphModule, slots: Sequence[Any], values: Sequence[Any], kept: Sequence[int], options: Options,
                 report: GraphReport):
        self._inputs = [k for k, slot in enumerate(slots) if slot.kind is Kind.INPUT]
        self._names: list[str] = []
        self.session: Any = None
        self._module: Any = None
        self.versions: tuple[Any, ...] = ()  # of the weights it was built with
        bound = Bound(graph, slots, values, kept)
        examples = tuple(to_feed(values[k]) for k in self._inputs)
        report.nodes = sum(node.op.startswith("call_") for node in graph.graph.nodes)
        try:
            program = export(bound, examples, dynamic_shapes=dynamic_dims(graph, slots))
        except NotConvertible as error:
            report.reason = str(error)
            self._fail(error, options)
            return
        try:
            session = to_session(program, **options.session)
            if len(session.get_outputs()) != len(kept):
                raise NotConvertible("the exporter dropped outputs")
            self.session = session
            user = [name for name in program.graph_signature.user_inputs]
            position = {name: k for k, name in zip(self._inputs, user)}
            self._feed = [(info.name, position[info.name]) for info in session.get_inputs()]
            report.engines, report.engine_nodes = 1, report.nodes
        except (NotConvertible, KeyError) as error:
            refused = error if isinstance(error, NotConvertible) else NotConvertible(f"the exporter renamed input {error}")
            self.session = None
            self._fail(refused, options)
            self._module = split(program, refused, report, options.min_nodes, options.session)

    @staticmethod
    def _fail(error: NotConvertible, options: Options) -> None:
        if not options.fallback:
            raise error

    @property
    def is_eager(self) -> bool:
        return self.session is None and self._module is None

    def run(self, values: Sequence[Any]) -> Sequence[torch.Tensor]:
        if self.session is not None:
            return [to_tensor(array) for array in self.session.run(None, {name: to_feed(values[k]) for name, k in self._feed})]
        with torch.no_grad():
            return self._module(*(values[k] for k in self._inputs))


class CompiledGraph:
    """What runs instead of one graph: a variant for every value of the numbers among its inputs, anew when its weights change.

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
        self._weights = [k for k, slot in enumerate(self._slots) if slot.kind is Kind.WEIGHT]
        self._numbers = [k for k, slot in enumerate(self._slots) if slot.kind is Kind.NUMBER]
        self._variants: dict[Any, _Variant] = {}
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self.name = f"graph {next(_numbers)}"

    def _variant(self, values: Sequence[Any]) -> _Variant:
        """Built anew where somebody has written into a weight, or a number is another."""
        numbers = tuple(number_of(values[k]) for k in self._numbers)
        versions = tuple((id(values[k]), _version(values[k])) for k in self._weights)
        found = self._variants.get(numbers)
        if found is not None and found.versions == versions:
            return found
        with self._lock:
            found = self._variants.get(numbers)
            if found is not None and found.versions == versions:
                return found  # another thread was faster
            report = GraphReport(self.name)
            variant = _Variant(self._graph, self._slots, values, self._kept, self._options, report)
            variant.versions = versions
            report.log()
            _reports.append(report)
            self._variants[numbers] = variant
        return variant

    def __call__(self, *values: Any) -> Any:
        if reason := _why_not(values):
            return self._stay(reason, values)
        variant = self._variant(values)
        if variant.is_eager or not self._kept:
            return self._graph(*values)
        results: list[Any] = [None] * len(self._results)
        for k, tensor in zip(self._kept, variant.run(values)):
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


def _version(tensor: torch.Tensor) -> int:
    """Counts the writes into a tensor; those made in inference mode do not."""
    return 0 if tensor.is_inference() else tensor._version


def backend(graph: GraphModule, values: Sequence[Any], *, options: dict[str, Any] | None = None, **ignored: Any) -> Callable[..., Any]:
    """``torch.compile(model, backend="camshaft", options={…})``: engines for what can be, PyTorch for the rest, said in the log.

    Parameters are frozen; a graph whose weights were written into is built again. Where gradients are needed (grad mode on and a
    parameter that requires them) the graph stays PyTorch's: compile and call under ``torch.no_grad()``.

    :raises CamshaftError: with ``fallback=False``, where a graph is not one engine.
    """
    return CompiledGraph(graph, values, make_options(options))
