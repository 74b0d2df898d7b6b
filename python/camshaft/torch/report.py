# SPDX-License-Identifier: Apache-2.0
"""What ran where and why: nobody should have to guess whether a graph fell back."""
from __future__ import annotations

import logging
from dataclasses import dataclass, field

logger = logging.getLogger("camshaft.torch")


@dataclass(frozen=True)
class NodeReport:
    """A node that PyTorch runs."""

    node: str
    target: str
    reason: str


@dataclass
class GraphReport:
    """One graph of ``torch.compile``: how many of its nodes run in engines, and which do not."""

    graph: str
    nodes: int = 0
    """Calls in the graph, after decomposition where it was split."""
    engines: int = 0
    engine_nodes: int = 0
    in_place: int = 0
    """Inputs that the engine writes into where they lie, as static caches."""
    eager: list[NodeReport] = field(default_factory=list)
    reason: str = ""
    """Why the graph as a whole, or what is left of it, is not one engine; ``""``: it is."""

    def log(self) -> None:
        if not self.reason:
            logger.info("%s: one engine", self.graph)
            return
        lines = [f"{self.graph}: {self.engine_nodes} of {self.nodes} nodes in {self.engines} engines, the others run in PyTorch: "
                 f"{self.reason}"]
        lines += [f"  {node.node} ({node.target}): {node.reason}" for node in self.eager[:20]]
        if len(self.eager) > 20:
            lines.append(f"  … and {len(self.eager) - 20} more: camshaft.torch.reports()")
        logger.warning("%s", "\n".join(lines))
