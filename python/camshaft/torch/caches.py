# SPDX-License-Identifier: Apache-2.0
"""Inputs of a network that it writes into where they lie."""
from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

import torch

from ..engine import Engine
from ..session import Session
from .convert import to_feed, to_tensor

_WRITERS = ("Scatter", "AppendRows")  # write new rows alone where the result lies in their first operand


def continued(session: Session, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the pairs of an input and an output that may have the same memory: one layer alone reads the input and makes the output, and it
    writes new rows. None of a network with open extents, whose engine may be built again."""
    if any(info.is_dynamic for info in session.get_inputs()):
        return []
    return [pair for pair in pairs if _is_continued(session.engine, *pair)]


def _is_continued(engine: Engine, source: str, result: str) -> bool:
    readers = [layer for layer in engine.layers if any(tensor.name == source for tensor in layer.inputs)]
    return (len(readers) == 1 and readers[0].type in _WRITERS and [tensor.name for tensor in readers[0].outputs] == [result]
            and [tensor.name for tensor in readers[0].inputs].index(source) == 0)


def run_in_place(session: Session, feed: Mapping[str, torch.Tensor], names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[torch.Tensor]:
    """The outputs in the order of ``names``; those of the pairs are written into their inputs, and are these."""
    binding = session.io_binding()
    for name, tensor in feed.items():
        binding.bind_input(name, to_feed(tensor))
    targets = {result: feed[source] for source, result in pairs}
    for name in names:
        binding.bind_output(name, to_feed(targets[name]) if name in targets else None)
    session.run_with_iobinding(binding)
    for tensor in targets.values():
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)
    outputs: list[Any] = binding.get_outputs()
    return [targets[name] if name in targets else to_tensor(array) for name, array in zip(names, outputs)]
