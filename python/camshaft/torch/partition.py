# SPDX-License-Identifier: Apache-2.0
"""Graphs that are not one engine: the largest parts that are, PyTorch for the rest."""
from __future__ import annotations

import operator
from typing import Any, Callable, Sequence

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from .bound import Bound, Kind, Slot, is_open
from .convert import NotConvertible, export_pure, is_complex, to_feed, to_session, to_tensor
from .decompose import is_decomposed
from .extents import Extents
from .report import GraphReport, NodeReport
from .translate import is_mistranslated, translations


def target_name(node: Node) -> str:
    """``"aten.add.Tensor"``."""
    return str(node.target) if not callable(node.target) or isinstance(node.target, torch._ops.OpOverload) else node.target.__name__


def _is_translated() -> Callable[[Any], bool]:
    """Whether PyTorch's exporter knows an operator; without its table (it is not public): everything is tried."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
        registry, own = ONNXRegistry.from_torchlib(), translations()
        return lambda target: target in own or registry.is_registered(target)
    except (ImportError, AttributeError):
        return lambda target: True


class _Support(OperatorSupportBase):
    def __init__(self, reasons: dict[str, str]):
        self._reasons, self._is_translated = reasons, _is_translated()

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        return self.reason(node) == ""

    def reason(self, node: Node) -> str:
        """``""``: an engine may take it."""
        if node.op != "call_function":
            return "not an operator"
        if target_name(node) in self._reasons:
            return self._reasons[target_name(node)]
        if node.target is operator.getitem:
            return self.reason(node.args[0])
        if not isinstance(node.target, torch._ops.OpOverload):
            return "not an ATen operator"
        tensors = [n for n in (node, *node.all_input_nodes) if n.op != "get_attr"]
        if any(not _is_tensor(n.meta.get("val")) for n in tensors):
            return "a value that is not a tensor"
        if any(map(is_complex, tensors)):
            return "complex numbers"
        if is_mistranslated(node):
            return "PyTorch's ONNX exporter would make something else of it"
        return "" if is_decomposed(node) or self._is_translated(node.target) else "PyTorch's ONNX exporter has no translation"


def _is_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_tensor, value))
    return isinstance(value, torch.Tensor)


class _EnginePart(torch.nn.Module):
    """A part of a graph as an engine; its weights are inputs that are not looked at. PyTorch runs it for shapes the engine is not for."""

    def __init__(self, part: GraphModule, session: Any, extents: Extents, used: Sequence[int], single: bool):
        super().__init__()
        self._part, self._session, self._extents, self._used, self._single = part, session, extents, list(used), single
        self._names = [info.name for info in session.get_inputs()]

    def forward(self, *values: torch.Tensor) -> Any:
        if not self._extents.hold(values):
            return self._part(*values)
        feed = {name: to_feed(values[k]) for name, k in zip(self._names, self._used)}
        results = [to_tensor(array) for array in self._session.run(None, feed)]
        return results[0] if self._single else tuple(results)


def _compile_part(part: GraphModule, arguments: Sequence[Node], owner: GraphModule, options: dict[str, Any]) -> _EnginePart:
    """:raises NotConvertible:"""
    placeholders = [node for node in part.graph.nodes if node.op == "placeholder"]
    slots, values = [], []
    for node in arguments:
        is_weight = node.op == "get_attr"
        slots.append(Slot(Kind.WEIGHT if is_weight else Kind.INPUT))
        values.append(_attribute(owner, str(node.target)) if is_weight else None)
    used = [k for k, slot in enumerate(slots) if slot.kind is Kind.INPUT]
    examples = tuple(_concrete(placeholders[k].meta["val"]) for k in used)
    shapes = tuple({dim: torch.export.Dim.AUTO for dim, extent in enumerate(placeholders[k].meta["val"].shape)
                    if is_open(extent)} for k in used)
    output = next(node for node in part.graph.nodes if node.op == "output").args[0]
    single = isinstance(output, Node)
    count = 1 if single else len(output)
    module = Bound((lambda *args: (part(*args),)) if single else part, slots, values, range(count))
    program = export_pure(module, examples, dynamic_shapes=(shapes,) if any(shapes) else None)
    if len(program.graph_signature.user_inputs) != len(used):
        raise NotConvertible("inputs that are not used")
    session = to_session(program, **options)
    if len(session.get_inputs()) != len(used) or len(session.get_outputs()) != count:
        raise NotConvertible("the exporter dropped inputs or outputs")
    return _EnginePart(part, session, Extents(program, used), used, single)


def _attribute(module: torch.nn.Module, path: str) -> torch.Tensor:
    for name in path.split("."):
        module = getattr(module, name)
    return module  # type: ignore[return-value]


def _concrete(fake: torch.Tensor) -> torch.Tensor:
    """A tensor of the fake one's type and present extents."""
    shape = [int(extent.node.hint) if isinstance(extent, torch.SymInt) else extent for extent in fake.shape]
    return torch.zeros(shape, dtype=fake.dtype)


def split(program: torch.export.ExportedProgram, failed: NotConvertible, report: GraphReport, min_nodes: int,
          options: dict[str, Any]) -> torch.nn.Module | None:
    """The program with the largest parts that can be engines as engines. None: there is no such part."""
    whole = program.run_decompositions().module()
    reasons = {target: str(failed).splitlines()[0] for target in failed.targets}
    support = _Support(reasons)
    calls = [node for node in whole.graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    report.nodes, report.reason = len(calls), str(failed)
    if not any(support.reason(node) for node in calls):
        report.eager = [NodeReport(node.name, target_name(node), "part of a graph that was refused") for node in calls]
        return None  # nothing to leave out: the parts would fail as the whole did
    partitioner = CapabilityBasedPartitioner(whole, support, allows_single_node_partition=True)
    parts = [part for part in partitioner.propose_partitions() if len(part.nodes) >= min_nodes]
    inside = {node.name for part in parts for node in part.nodes}
    report.eager = [NodeReport(node.name, target_name(node), support.reason(node) or f"in a part of less than {min_nodes} nodes")
                    for node in calls if node.name not in inside]
    fused = partitioner.fuse_partitions(parts)
    for node in [n for n in fused.graph.nodes if n.op == "call_module" and str(n.target).startswith("fused_")]:
        part = getattr(fused, str(node.target))
        members = [n for n in part.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
        try:
            engine = _compile_part(part, node.args, fused, options)
        except NotConvertible as error:
            report.eager += [NodeReport(n.name, target_name(n), str(error).splitlines()[0]) for n in members]
            continue
        setattr(fused, str(node.target), engine)
        report.engines += 1
        report.engine_nodes += len(members)
    return fused if report.engines else None
