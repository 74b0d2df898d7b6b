# SPDX-License-Identifier: Apache-2.0
"""A graph of torch.compile as an engine, for some of the values and shapes it may meet."""
from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, Sequence

import torch
from torch.fx import GraphModule

from ..errors import CamshaftError
from .bound import Bound, Kind, Slot, comes_with_calls, dynamic_dims, weight_place
from .caches import continued, run_in_place
from .convert import NotConvertible, export, to_feed, to_session, to_tensor
from .extents import Extents
from .options import Options
from .partition import split
from .report import GraphReport
from .weights import Weights
from .writes import Memory, view_graph


class _Refusal(NamedTuple):
    """Of an attempt at one engine: why, the program if it came so far, and what its inputs were."""

    error: NotConvertible
    program: torch.export.ExportedProgram | None
    slots: list[Slot]


class Variant:
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
        self._session: Any = None
        self._module: Any = None
        self._extents: Extents | None = None  # of all shapes
        report.nodes = sum(node.op.startswith("call_") for node in graph.graph.nodes)
        shapes = dynamic_dims(graph, slots)
        refused: list[_Refusal] = []
        for attempt in (shapes, None) if shapes is not None else (None,):
            program = None
            if attempt is None:  # integers that cannot be open: those of this call
                self._slots = [Slot(Kind.NUMBER) if slot.kind is Kind.INTEGER else slot for slot in self._slots]
            try:
                program = self._export(values, attempt)
                self._open(program, values, options)
                report.engines, report.engine_nodes, report.in_place = 1, report.nodes, len(self._continued)
                break
            except NotConvertible as error:
                refused.append(_Refusal(error, program, self._slots))
        if self._session is None:
            self._divide(refused, options, report)
        self.weights = Weights([k for k, slot in enumerate(self._slots) if slot.kind is Kind.WEIGHT], values)
        self._tensors = [k for k in self._inputs if isinstance(values[k], torch.Tensor)]
        # Integers it holds for alone; what PyTorch runs holds for all.
        self._fixed = {} if self._extents is None else {k: int(values[k]) for k, slot in enumerate(slots)
                                                        if slot.kind is Kind.INTEGER and self._slots[k].kind is Kind.NUMBER}

    @property
    def _inputs(self) -> list[int]:
        return [k for k, slot in enumerate(self._slots) if comes_with_calls(slot)]

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
            self._slots = [Slot(Kind.INPUT) if k in places else slot for k, slot in enumerate(self._slots)]
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
            session.run(None, self._fed(values))  # builds the engine
        except CamshaftError as error:
            raise NotConvertible(f"camshaft: {error}") from error
        self._names = [info.name for info in session.get_outputs()]
        results = dict(zip(self._written, self._names[len(self._kept):]))
        self._continued = continued(session, [(name, results[k]) for name, k in self._feed if k in results])
        self._session, self._extents = session, extents

    def _divide(self, refused: Sequence[_Refusal], options: Options, report: GraphReport) -> None:
        """Parts of the graph as engines, where one of the attempts has a program of it."""
        chosen = next((refusal for refusal in refused if refusal.program is not None), refused[0])
        if not options.fallback:
            raise chosen.error
        report.reason, self._slots = str(chosen.error), chosen.slots
        if chosen.program is not None:
            self._module = split(chosen.program, chosen.error, report, options.min_nodes, options.session)
            self._extents = Extents(chosen.program, self._inputs)

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
        return [to_tensor(array) for array in self._session.run(None, self._fed(values))]

    def _fed(self, values: Sequence[Any]) -> dict[str, Any]:
        return {name: to_feed(values[k]) for name, k in self._feed}
