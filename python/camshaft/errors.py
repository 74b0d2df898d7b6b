# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions. Every one is a :class:`CamshaftError` and carries the nodes its message names."""
from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class NodeIssue:
    """One node of a network that something is said about."""

    node: str
    """The node's name in the ONNX file; of a nameless node the name of its first output."""
    operator: str
    """Its operator, ``"Conv"``, or ``""`` where the message does not tell."""
    reason: str
    """Why it is refused."""


class CamshaftError(RuntimeError):
    """Base of all errors of this package. ``issues`` lists the nodes at fault, ``node``, ``operator`` and ``reason``
    are those of the first."""

    def __init__(self, message: str):
        super().__init__(message)
        self.issues: tuple[NodeIssue, ...] = node_issues(message)

    @property
    def node(self) -> str:
        return self.issues[0].node if self.issues else ""

    @property
    def operator(self) -> str:
        return self.issues[0].operator if self.issues else ""

    @property
    def reason(self) -> str:
        return self.issues[0].reason if self.issues else str(self)


class InvalidArgument(CamshaftError, ValueError):
    """An option, a shape, a type or a name of the caller's is wrong."""


class InvalidModel(CamshaftError):
    """The ONNX file is malformed or contradicts itself."""


class Unsupported(CamshaftError, NotImplementedError):
    """Well formed, but this version cannot do it; ``issues`` has every node that is in the way."""


class CorruptEngine(CamshaftError):
    """An engine or cache file is damaged, foreign or from a newer version."""


class FileError(CamshaftError, OSError):
    """A file cannot be read or written."""


class Cancelled(CamshaftError):
    """A progress callback asked to stop."""


class InternalError(CamshaftError):
    """A fault of Camshaft itself; please report it."""


_NODE = re.compile(r"^\s*(?:.*?: )?node (?P<node>.+?) \((?P<operator>[\w.:]+)\): (?P<reason>.*)$", re.M)


def node_issues(message: str) -> tuple[NodeIssue, ...]:
    """The nodes an error message of the library names: ``node NAME (OPERATOR): reason``, one a line."""
    return tuple(NodeIssue(m["node"], m["operator"], m["reason"]) for m in _NODE.finditer(message))

