# SPDX-License-Identifier: Apache-2.0
"""Engines in Ray's object store: written once, sent to a node once, mapped by every process there."""
from __future__ import annotations

import os
from typing import Any

import numpy as np
import ray

from .. import builder
from ..batching import batch_profiles
from ..engine import Engine
from ..model import ModelLike, Source


class SharedEngine:
    """A reference to an engine in the object store: small, to be handed to tasks, actors and deployments."""

    def __init__(self, reference: ray.ObjectRef):
        self.reference = reference

    def open(self) -> Engine:
        """The engine over the node's shared memory: its weights are not copied, whatever the number of processes."""
        return Engine.from_buffer(ray.get(self.reference))

    def __reduce__(self):
        return SharedEngine, (self.reference,)

    def __repr__(self) -> str:
        return f"<camshaft.ray.SharedEngine {self.reference.hex()}>"


def ship(engine: Engine | str | os.PathLike[str]) -> SharedEngine:
    """Puts an engine, or an engine file, into the object store. It lives as long as the process that did this."""
    if not isinstance(engine, Engine):
        engine = Engine.load(engine)
    return SharedEngine(ray.put(np.frombuffer(engine.bytes, np.uint8)))


def build(model: ModelLike, *, num_cpus: int = 1, max_batch_size: int = 64, resources: dict[str, float] | None = None,
          **options: Any) -> SharedEngine:
    """Builds an engine on a node of the cluster, with as many threads as those who run it will have, and leaves it in the object store. If
    the node is lost, Ray builds it again.

    :param model: a path, bytes or a ModelProto; it is read here, so nodes need no file of it (but of weights stored beside it).
    :param num_cpus: what an actor that runs it will have.
    :param max_batch_size: of a network with an open batch: single rows and this many are tuned for.
    :param resources: what the node has that builds; tactics are timed there.
    :param options: fields of :class:`camshaft.BuildConfig`; ``shapes`` says other open extents, too, the number of rows apart.
    """
    source = Source(model)
    content: Any = os.path.abspath(source.path) if source.path is not None and source.has_weight_files else source.read()
    shapes = options.pop("shapes", None)
    if "profiles" not in options:
        options["profiles"] = batch_profiles(model, max_batch_size, shapes)
        if options["profiles"] is None:
            options["shapes"] = shapes
    task = _build.options(num_cpus=num_cpus, resources=resources)
    return SharedEngine(task.remote(content, {"threads": num_cpus, **options}))


@ray.remote
def _build(model: Any, options: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(builder.build(model, **options).bytes, np.uint8)
