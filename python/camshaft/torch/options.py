# SPDX-License-Identifier: Apache-2.0
"""What torch.compile's ``options`` may be."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any


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
