# SPDX-License-Identifier: Apache-2.0
"""Whose memory an exported program writes into, and in whose its results lie."""
from __future__ import annotations

from typing import Any, Iterator, Sequence

import torch
from torch.fx import GraphModule, Node

_Placeholders = frozenset[Node]
# Operators that write into their running statistics without saying so where this argument says that they are trained.
_TRAINED = {"aten::batch_norm": "training", "aten::instance_norm": "use_input_stats"}


class Memory:
    """Of a program of torch.export. A write reaches an input or a weight directly or through views of it; what operators say of the memory
    of their results is enough to tell.

    ``written``: the placeholders that the program changes, ``statistics``: those that change in training alone.
    """

    def __init__(self, program: torch.export.ExportedProgram):
        self._behind: dict[Node, _Placeholders] = {}
        self._names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
        self._signature = program.graph_signature
        self.written: set[str] = set()
        self.statistics: set[str] = set()
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self._behind[node] = frozenset([node])
            elif node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                self._note(node)
            elif node.op == "output":
                self._results = [self._of(result) for result in node.args[0]]
            else:  # getitem and the like
                self._behind[node] = self._of([*node.args, *node.kwargs.values()])

    def _note(self, node: Node) -> None:
        arguments = list(arguments_of(node))
        shared = []
        for argument, value in arguments:
            if argument.alias_info is not None:
                shared.append(value)
                if argument.alias_info.is_write:
                    self.written |= self._names_of(value)
        schema = node.target._schema  # type: ignore[union-attr]
        named = {argument.name: value for argument, value in arguments}
        if named.get(_TRAINED.get(schema.name, "")):
            self.statistics |= self._names_of([named["running_mean"], named["running_var"]])
        is_view = any(result.alias_info is not None for result in schema.returns)
        self._behind[node] = self._of(shared) if is_view else frozenset()

    def _names_of(self, value: Any) -> set[str]:
        return {placeholder.name for placeholder in self._of(value)}

    def _of(self, value: Any) -> _Placeholders:
        if isinstance(value, Node):
            return self._behind.get(value, frozenset())
        if isinstance(value, (list, tuple)):
            return frozenset().union(*map(self._of, value))
        return frozenset()

    def written_inputs(self) -> list[int]:
        """The places of the inputs that the program changes."""
        return [k for k, name in enumerate(self._signature.user_inputs) if name in self.written]

    def written_weights(self) -> list[str]:
        """The targets of the weights that it changes."""
        signature = self._signature
        targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
        return [targets[name] for name in self._names if name in self.written and name in targets]

    def views(self) -> list[int]:
        """The places of the results that lie in the memory of an input."""
        inputs = set(self._signature.user_inputs)
        return [k for k, behind in enumerate(self._results) if any(placeholder.name in inputs for placeholder in behind)]


def arguments_of(node: Node) -> Iterator[tuple[Any, Any]]:
    """The operator's arguments with what the node passes."""
    for k, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if k < len(node.args):
            yield argument, node.args[k]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def view_graph(graph: GraphModule, results: Sequence[int]) -> GraphModule | None:
    """The part of a graph of torch.compile that makes some of its results. None: it writes."""
    part = GraphModule(graph, torch.fx.Graph())
    nodes: dict[Node, Node] = {}
    outputs = part.graph.graph_copy(graph.graph, nodes)
    part.graph.output(tuple(outputs[k] for k in results))
    part.graph.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))
    if any(_writes(node) for node in part.graph.nodes):
        return None
    part.recompile()
    return part


def _writes(node: Node) -> bool:
    name = str(getattr(node.target, "__name__", node.target)).split(".")[0]
    return node.op in ("call_function", "call_method") and (name.endswith("_") and not name.endswith("__") or name in ("setitem", "iadd", "isub", "imul", "itruediv"))
