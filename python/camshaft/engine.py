# SPDX-License-Identifier: Apache-2.0
"""Engines: saved, loaded, looked into and timed."""
from __future__ import annotations

import functools
import os
from typing import Any, Mapping

import numpy as np

from . import _core
from .errors import InvalidArgument
from .explain import Explanation, explain_layer, find_layer
from .layers import LayerTable, ProfileTable
from .model import TensorInfo, tensor_infos

VERBOSITIES = {"layer_names_only": 0, "none": 1, "detailed": 2}


class Engine:
    """A network optimized for a machine. Immutable; any number of sessions, on any threads, may run the same one."""

    def __init__(self, core: _core.Engine, statistics: dict[str, Any] | None = None):
        self._core = core
        self.build_statistics: dict[str, Any] = statistics or {}
        """Of an engine built in this process: seconds in all, of the graph, of timing; tactics timed, times from the timing cache, times of alike layers."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Engine:
        """Maps an engine file. :raises CorruptEngine: damaged, foreign or from a newer version. :raises FileError: not readable."""
        return cls(_core.Engine.load(path))

    @classmethod
    def from_bytes(cls, content: bytes) -> Engine:
        """The same from memory. :raises CorruptEngine:"""
        return cls(_core.Engine.from_bytes(content))

    @classmethod
    def from_buffer(cls, array: np.ndarray) -> Engine:
        """The same from bytes that stay where they are: shared memory, for example, which any number of processes map. The array is kept and
        must not change. (Memory that does not lie on 64 bytes is copied.) :raises CorruptEngine:"""
        return cls(_core.Engine.from_buffer(np.ascontiguousarray(array).view(np.uint8).reshape(-1)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes beside ``path`` and renames: a failed write leaves nothing. :raises FileError:"""
        self._core.save(path)

    @property
    def bytes(self) -> bytes:
        """The engine file's content."""
        return self._core.to_bytes()

    def __reduce__(self):
        return Engine.from_bytes, (self.bytes,)

    @functools.cached_property
    def inputs(self) -> list[TensorInfo]:
        return tensor_infos(self._core.inputs)

    @functools.cached_property
    def outputs(self) -> list[TensorInfo]:
        return tensor_infos(self._core.outputs)

    @property
    def profiles(self) -> list[dict[str, tuple[list[int], list[int], list[int]]]]:
        """Per optimization profile: input name to (min, opt, max)."""
        return self._core.profiles

    @property
    def info(self) -> dict[str, Any]:
        """Facts: model_name, builder_version, cpu_model, same_cpu, build_threads, layer_count, file_bytes, weight_bytes,
        peak_gmacs (one thread, 1e9 multiply-adds/s), read_gbytes (1e9 bytes/s)."""
        return self._core.info

    @functools.cached_property
    def _inspector(self) -> _core.Inspector:
        return _core.Inspector(self._core)

    @functools.cached_property
    def layers(self) -> LayerTable:
        """The layers in execution order, at the opt shapes of the first profile. Times are those of the build."""
        return LayerTable(self._inspector.layers)

    @property
    def regions(self) -> list[_core.Region]:
        """Runs of transformer blocks: name (``{ForeignNode[first node...last node]}``), indices of their layers, time, why they are one
        (``reason``), and what lies beyond their ends and why that is no part of them (``before``, ``after``). Empty without attention."""
        return self._inspector.regions

    @property
    def rewrites(self) -> list[_core.Rewrite]:
        """What the optimizer did, or declined to do and why: ``rule``, ``layer``, ``text``, ``declined``, ``reason``."""
        return self._inspector.rewrites

    def explain(self, layer: int | str) -> Explanation:
        """Why a layer is as it is: what it was fused from, which tactics were tried and how long they took, which were refused.

        :param layer: its index, its name, an ONNX node it came from, or a part of its name that only it has.
        :raises InvalidArgument: none or several layers match.
        """
        return explain_layer(self._inspector, find_layer(self._inspector.layers, layer))

    def layer_json(self, verbosity: str = "detailed") -> str:
        """The layer information as JSON, in trtexec's schema with more keys; ``"layer_names_only"`` has a region as one name."""
        if verbosity not in VERBOSITIES:
            raise InvalidArgument(f"verbosity '{verbosity}': one of {', '.join(VERBOSITIES)}")
        return self._inspector.to_json(VERBOSITIES[verbosity])

    def example_feed(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Random values for every input at the opt shapes of the first profile: floats of the normal distribution, integers 0 or 1."""
        random = np.random.default_rng(seed)
        ranges = self.profiles[0] if self.profiles else {}
        feed = {}
        for info in self.inputs:
            shape = ranges[info.name][1] if info.name in ranges else [n if isinstance(n, int) else 1 for n in info.shape or ()]
            is_float = info.dtype_name in ("float32", "float64", "float16", "bfloat16")
            feed[info.name] = (random.standard_normal(shape) if is_float else random.integers(0, 2, shape)).astype(info.dtype)
        return feed

    def profile(self, feed: Mapping[str, Any] | None = None, *, runs: int = 50, warm_up: int = 5, threads: int = 0) -> ProfileTable:
        """Times every layer: median, average, share, GMAC/s, GB/s, percent of the machine's peak.

        :param feed: inputs by name; None: :meth:`example_feed`.
        """
        profiler = _core.Profiler(self._core, threads)
        for name, array in (feed if feed is not None else self.example_feed()).items():
            profiler.set_input(name, array)
        rows, inside, json_text, text = profiler.run(warm_up, runs)
        return ProfileTable(rows, inside, self.layers, json_text, text)

    def session(self, **options: Any):
        """A :class:`Session` that runs this engine."""
        from .session import Session
        return Session(self, **options)

    def __repr__(self) -> str:
        info = self.info
        return f"<camshaft.Engine {info['model_name'] or 'unnamed'}: {info['layer_count']} layers, {info['file_bytes'] / 2**20:.1f} MiB>"

    def _repr_html_(self) -> str:
        return self.layers._repr_html_()
