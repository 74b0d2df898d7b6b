# SPDX-License-Identifier: Apache-2.0
"""Why a layer is as it is."""
from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Sequence

from . import _core
from .errors import InvalidArgument


@dataclass(frozen=True)
class Explanation:
    """A layer, what passes did to make it, and every tactic that was looked at (``why_not``: what it lost by): the chosen one,
    then by time, then the untimed and the refused."""

    layer: _core.Layer
    rewrites: tuple[_core.Rewrite, ...]
    candidates: tuple[_core.LayerCandidate, ...]
    region: _core.Region | None = None

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        return [("*" if c.chosen else "", c.tactic or "reference", c.formats, f"{c.time_us:.1f}" if c.time_us > 0 else "",
                 c.why_not) for c in self.candidates]

    def __str__(self) -> str:
        layer = self.layer
        tactic = "none: its output is a view of its input, nothing runs" if layer.is_no_op else layer.tactic or "reference kernel"
        lines = [layer.name, f"kind    {layer.type}", f"tactic  {tactic}" + (f" ({layer.isa})" if layer.isa else "")]
        if self.region:
            lines.append(f"region  {self.region.index} {self.region.name}, there {layer.region_name} ({layer.region_type})")
        for what, tensors in (("input ", layer.inputs), ("output", layer.outputs)):
            lines += [f"{what}  {t.name} {'x'.join(map(str, t.shape)) or 'scalar'}, {t.format}" for t in tensors]
        if layer.build_time_us > 0:
            lines.append(f"time    {layer.build_time_us:.1f} us when built")
        lines += [f"from    {node}" for node in layer.source_nodes]
        lines += [f"  {r.rule}: {'declined: ' if r.declined else ''}{r.text}" for r in self.rewrites]
        rows = self._rows()
        width = max((len(row[1]) for row in rows), default=0)
        lines += [f"{mark:1}  {name:<{width}}  {formats:<12} {time:>9}  {why}".rstrip() for mark, name, formats, time, why in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows())
        passes = "".join(f"<li>{html.escape(f'{r.rule}: {r.text}')}</li>" for r in self.rewrites)
        return (f"<b>{html.escape(self.layer.name)}</b><ul>{passes}</ul><table><tr><th></th><th>candidate</th><th>format</th>"
                f"<th>µs</th><th>why not</th></tr>{body}</table>")


def explain_layer(inspector: _core.Inspector, layer: _core.Layer) -> Explanation:
    region = inspector.regions[layer.region] if layer.region >= 0 else None
    return Explanation(layer, tuple(inspector.rewrites_of(layer.index)), tuple(layer.candidates), region)


def find_layer(layers: Sequence[_core.Layer], word: int | str) -> _core.Layer:
    """By index, exact name, source node, or part of a name."""
    if isinstance(word, int):
        if not -len(layers) <= word < len(layers):
            raise InvalidArgument(f"layer {word}: the engine has {len(layers)}")
        return layers[word]
    for layer in layers:
        if layer.name == word or word in layer.source_nodes or (word and word == layer.region_name):
            return layer
    matches = [layer for layer in layers if word in layer.name]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise InvalidArgument(f"no layer has '{word}' in its name")
    raise InvalidArgument(f"{len(matches)} layers have '{word}' in their name: " + ", ".join(l.name for l in matches[:10]))
