# SPDX-License-Identifier: Apache-2.0
"""PyTorch profiler traces: summary and tables."""
from __future__ import annotations

import functools
import os
import pathlib
from typing import Any

from . import programs


class Trace:
    """A trace file; every table is a list of dicts, computed when it is first asked for."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def _rows(self, *words: str) -> list[dict[str, Any]]:
        answer, _ = programs.run_json(["trace", *words, str(self.path), "--top", "0", "--json"])
        return answer[0]["rows"]

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """Steps, devices, utilization, memory and hints."""
        answer, _ = programs.run_json(["trace", "summary", str(self.path), "--json"])
        return answer[0]

    @functools.cached_property
    def ops(self) -> list[dict[str, Any]]:
        """Operators by name: calls, host and device times in microseconds."""
        return self._rows("ops")

    @functools.cached_property
    def ops_by_shape(self) -> list[dict[str, Any]]:
        return self._rows("ops", "--by-shape")

    @functools.cached_property
    def kernels(self) -> list[dict[str, Any]]:
        """Device kernels by name."""
        return self._rows("kernels")

    @functools.cached_property
    def memory(self) -> list[dict[str, Any]]:
        """Allocations by operator."""
        return self._rows("memory")

    def diff(self, other: Trace | str | os.PathLike[str]) -> dict[str, Any]:
        """Figures of both and how they changed, and the operators that changed most."""
        path = other.path if isinstance(other, Trace) else other
        answer, _ = programs.run_json(["trace", "diff", str(self.path), str(path), "--json", "--top", "0"])
        return answer

    def to_pandas(self, table: str = "ops"):
        """One of the tables as a ``pandas.DataFrame``."""
        import pandas
        return pandas.DataFrame.from_records(getattr(self, table))

    def __repr__(self) -> str:
        return f"<camshaft.Trace {self.path}>"


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Opens a trace of the PyTorch profiler (JSON, also gzip or zip). :raises CamshaftError: it cannot be read.
    :raises FileNotFoundError: there is no such file."""
    path = pathlib.Path(path)
    if not path.exists():
        raise FileNotFoundError(str(path))
    trace = Trace(path)
    trace.summary  # noqa: B018: errors come now
    return trace
