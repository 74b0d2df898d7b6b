# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile."""
from __future__ import annotations

import dataclasses
import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import torch
from torch.fx import GraphModule

from ..errors import CamshaftError, InvalidArgument
from .bound import Bound, Kind, Slot, classify, comes_with_calls, dynamic_dims, number_of, weight_place
from .caches import continued, run_in_place
from .convert import NotConvertible, export, to_feed, to_session, to_tensor
from .extents import Extents
from .partition import split
from .report import GraphReport
from .writes import Memory, view_graph

_reports: list[GraphReport] = []
_numbers = itertools.count()
_MOST_VARIANTS = 32  # engines of one graph


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


class _Weights:
    """The weights a variant was built with, and how often each had been written into. Held, so that no other tensor takes the identity of one."""

    def __init__(self, places: Sequence[int], values: Sequence[Any]):
        self._known = {k: (values[k], _version(values[k])) for k in places}

    def changed(self, values: Sequence[Any]) -> list[int]:
        """The places among the graph's inputs of those that are no longer what they were."""
        return [k for k, known in self._known.items() if not self._is(k, *known, values[k])]

    def _is(self, k: int, known: torch.Tensor, version: int, tensor: torch.Tensor) -> bool:
        if tensor is known:
            return _version(tensor) == version
        # Modules assign what they hold anew in every call (self.mean = self.mean.type_as(x)): equal values are the same weight.
        if _version(known) != version or tensor.dtype != known.dtype or not torch.equal(tensor, known):
            return False
        self._known[k] = (tensor, _version(tensor))
        return True


class _Variant:
    """A graph with its weights and numbers bound, as an engine, as parts, or as PyTorch's own.

    Extents that torch.compile leaves open stay so where they can; where not, they are those of this call.
    """

    def __init__(self, graph: GraphModule, slots: Sequence[Slot], values: Sequence[Any], kept: Sequence[int], options: Options,
                 report: GraphReport):
        self._graph, self._slots, self._kept = graph, list(slots), list(kept)
        self._written: list[int] = []  # the places of inputs that the graph changes
        self._views: tuple[Sequence[int], GraphModule | None] = ((), None)  # results in the memory of inputs, and what makes them
        self._names: list[str] = []  # of the outputs
        self._continued: list[tuple[str, str]] = []  # inputs and outputs in the same memory
        self._fixed: dict[int, int] = {}  # integers that it holds for alone
        self._session: Any = None
        self._module: Any = None
        self._extents: Extents | None = None  # of all shapes
        report.nodes = sum(node.op.startswith("call_") for node in graph.graph.nodes)
        shapes = dynamic_dims(graph, slots)
        refused: list[tuple[NotConvertible, torch.export.ExportedProgram | None]] = []
        for attempt in (shapes, None) if shapes is not None else (None,):
            program = None
            if attempt is None:
                self._fix_integers(values)
            try:
                program = self._export(values, attempt)
                self._open(program, values, options)
                report.engines, report.engine_nodes, report.in_place = 1, report.nodes, len(self._continued)
                break
            except NotConvertible as error:
                refused.append((error, program))
        self.weights = _Weights([k for k, slot in enumerate(self._slots) if slot.kind is Kind.WEIGHT], values)
        self._tensors = [k for k in self._inputs if isinstance(values[k], torch.Tensor)]
        if self._session is None:
            self._divide(refused, options, report)

    @property
    def _inputs(self) -> list[int]:
        return [k for k, slot in enumerate(self._slots) if comes_with_calls(slot)]

    def _fix_integers(self, values: Sequence[Any]) -> None:
        """For what cannot be open: those of this call."""
        for k, slot in enumerate(self._slots):
            if slot.kind is Kind.INTEGER:
                self._slots[k], self._fixed[k] = Slot(Kind.NUMBER), int(values[k])

    def _export(self, values: Sequence[Any], shapes: Any) -> torch.export.ExportedProgram:
        """:raises NotConvertible:"""
        program = self._export_bound(values, shapes)
        memory = Memory(program)
        if memory.statistics:
            raise NotConvertible("it writes into the statistics of a normalization that is being trained")
        if views := [k for k in memory.views() if k < len(self._kept)]:
            self._views = views, view_graph(self._graph, [self._kept[k] for k in views])
            if self._views[1] is None:
                raise NotConvertible("it returns the memory of inputs that it writes into")
        if memory.written:
            places = [self._inputs[k] for k in memory.written_inputs()] + list(map(weight_place, memory.written_weights()))
            for k in places:
                self._slots[k] = Slot(Kind.INPUT)
            self._written = sorted({*self._written, *places})
            program = self._export_bound(values, dynamic_dims(self._graph, self._slots) if shapes is not None else None)
        return program

    def _export_bound(self, values: Sequence[Any], shapes: Any) -> torch.export.ExportedProgram:
        bound = Bound(self._graph, self._slots, values, self._kept, self._written)
        examples = tuple(to_feed(values[k]) if isinstance(values[k], torch.Tensor) else int(values[k]) for k in self._inputs)
        return export(bound, examples, dynamic_shapes=shapes)

    def _open(self, program: torch.export.ExportedProgram, values: Sequence[Any], options: Options) -> None:
        """:raises NotConvertible:"""
        session = to_session(program, **options.session)
        if len(session.get_outputs()) != len(self._kept) + len(self._written):
            raise NotConvertible("the exporter dropped outputs")
        names = [info.name for info in session.get_inputs()]
        if len(names) != len(self._inputs):
            raise NotConvertible("the exporter dropped inputs")
        self._feed = list(zip(names, self._inputs))
        extents = Extents(program, self._inputs)
        if not extents.hold(values):  # tracing had another way in mind
            raise NotConvertible("PyTorch's ONNX exporter holds for other shapes")
        try:
            session.run(None, {name: to_feed(values[k]) for name, k in self._feed})  # builds the engine
        except CamshaftError as error:
            raise NotConvertible(f"camshaft: {error}") from error
        self._names = [info.name for info in session.get_outputs()]
        results = dict(zip(self._written, self._names[len(self._kept):]))
        self._continued = continued(session, [(name, results[k]) for name, k in self._feed if k in results])
        self._session, self._extents = session, extents

    def _divide(self, refused: Sequence[tuple[NotConvertible, torch.export.ExportedProgram | None]], options: Options, report: GraphReport) -> None:
        """Parts of the graph as engines, where one of the attempts has a program of it."""
        error, program = next((pair for pair in refused if pair[1] is not None), refused[0])
        if not options.fallback:
            raise error
        report.reason = str(error)
        if program is not None:
            self._module = split(program, error, report, options.min_nodes, options.session)
            self._extents = Extents(program, self._inputs)

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether it was made for shapes and integers as these."""
        return (self._extents is None or self._extents.hold(values)) and all(values[k] == number for k, number in self._fixed.items())

    def is_eager(self, values: Sequence[Any]) -> bool:
        """Whether PyTorch runs the graph: there is no engine, or a write would reach another input as well."""
        if self._session is None and self._module is None or not self._kept and not self._written:
            return True
        if not self._written:
            return False
        memory = Counter(values[k].untyped_storage().data_ptr() for k in self._tensors)
        return any(memory[values[k].untyped_storage().data_ptr()] > 1 for k in self._written)

    def run(self, values: Sequence[Any]) -> Sequence[torch.Tensor]:
        results = self._results(values)
        for k, result in zip(self._written, results[len(self._kept):]):
            if result is not values[k]:
                values[k].copy_(result)
        places, make_views = self._views
        if make_views is not None:
            for k, view in zip(places, make_views(*values)):
                results[k] = view
        return results[:len(self._kept)]

    def _results(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """What is kept, then what the graph makes of the inputs that it changes."""
        if self._session is None:
            with torch.no_grad():
                return list(self._module(*(values[k] for k in self._inputs)))
        if self._continued and all(values[k].is_contiguous() for k in self._written):
            return run_in_place(self._session, {name: values[k] for name, k in self._feed}, self._names, self._continued)
        return [to_tensor(array) for array in self._session.run(None, {name: to_feed(values[k]) for name, k in self._feed})]


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
        self._variants: dict[Any, tuple[_Variant, ...]] = {}
        self._writes: Counter[int] = Counter()  # how often a weight was found changed
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self.name = f"graph {next(_numbers)}"

    def _variant(self, values: Sequence[Any]) -> _Variant | None:
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
            variant = _Variant(self._graph, self._slots, values, self._kept, self._options, report)
            report.log()
            _reports.append(report)
            self._variants[numbers] = (*self._variants.get(numbers, ()), variant)
            return variant

    def _find(self, numbers: Any, values: Sequence[Any]) -> _Variant | None:
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
