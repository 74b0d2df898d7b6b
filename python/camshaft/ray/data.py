# SPDX-License-Identifier: Apache-2.0
"""Inference over a dataset."""
from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from ..batching import largest_batch
from ..errors import InvalidArgument
from .resources import threads
from .shipping import SharedEngine


class Predictor:
    """For ``ray.data.Dataset.map_batches``: columns in, the engine's outputs as columns out.

    >>> dataset.map_batches(camshaft.ray.Predictor, fn_constructor_args=[engine], num_cpus=2, concurrency=4, batch_size=64)

    An actor runs with as many threads as it has CPUs. Batches are read where they lie in the object store, read-only as Ray hands them
    out; the engine's weights are mapped, once a node. Batches of more rows than the engine takes run in parts.

    :param engine: of :func:`camshaft.ray.build` or :func:`camshaft.ray.ship`.
    :param inputs: input to the column it is read from; else the column of its name.
    :param outputs: output to the column it becomes, and only these; None: every output, as the column of its name.
    :param keep: columns that go along; None: all that are no inputs.
    :raises InvalidArgument: a column is missing, or not of the input's type.
    """

    def __init__(self, engine: SharedEngine, *, inputs: Mapping[str, str] | None = None, outputs: Mapping[str, str] | None = None,
                 keep: Sequence[str] | None = None):
        self.engine = engine.open()
        self.session = self.engine.session(threads=threads())
        self._columns = {info.name: (inputs or {}).get(info.name, info.name) for info in self.engine.inputs}
        self._outputs = dict(outputs) if outputs is not None else {info.name: info.name for info in self.engine.outputs}
        self._keep = keep
        self._most = largest_batch(self.engine)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if missing := [column for column in self._columns.values() if column not in batch]:
            raise InvalidArgument(f"no column '{missing[0]}'; there are {', '.join(batch)}")
        feed = {name: batch[column] for name, column in self._columns.items()}
        used = set(self._columns.values())
        kept = self._keep if self._keep is not None else [column for column in batch if column not in used]
        return {**{column: batch[column] for column in kept}, **self._run(feed)}

    def _run(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        rows = min(len(array) for array in feed.values())
        # Without an open batch: the network's own number of rows at a time.
        step = self._most or self.engine.inputs[0].shape[0]
        parts = [self._run_part({name: array[begin:begin + step] for name, array in feed.items()}, step)
                 for begin in range(0, rows, step)]
        if len(parts) == 1:
            return dict(zip(self._outputs.values(), parts[0]))
        return {column: np.concatenate([part[k] for part in parts]) for k, column in enumerate(self._outputs.values())}

    def _run_part(self, feed: dict[str, np.ndarray], step: int) -> list[np.ndarray]:
        rows = len(next(iter(feed.values())))
        if self._most == 0 and rows < step:
            feed = {name: np.concatenate([array, np.zeros((step - rows, *array.shape[1:]), array.dtype)]) for name, array in feed.items()}
            return [output[:rows] for output in self.session.run(list(self._outputs), feed)]
        return self.session.run(list(self._outputs), feed)
