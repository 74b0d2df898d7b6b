# SPDX-License-Identifier: Apache-2.0
"""Whether the weights of a graph are those it was built with."""
from __future__ import annotations

from typing import Any, Sequence

import torch


class Weights:
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


def _version(tensor: torch.Tensor) -> int:
    """Counts the writes into a tensor; those made in inference mode do not."""
    return 0 if tensor.is_inference() else tensor._version
