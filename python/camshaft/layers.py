# SPDX-License-Identifier: Apache-2.0
"""Tables of layers and of their times: lists with records, pandas and HTML forms."""
from __future__ import annotations

import html
import json
from typing import Any, Callable, Iterable, Iterator, Sequence

from . import _core

_STYLE = ("<style>table.camshaft td,table.camshaft th{text-align:left;padding:1px 8px}table.camshaft td.n{text-align:right}"
          "table.camshaft div{background:#4a7ebb;height:9px}</style>")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f'<td class="n">{value:,.1f}</td>'
    if isinstance(value, int):
        return f'<td class="n">{value}</td>'
    return f"<td>{html.escape(str(value))}</td>"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], bars: Sequence[float]) -> str:
    """A table whose last column is a bar, as long as its number's share of the largest."""
    longest = max(bars, default=0) or 1
    lines = [_STYLE, '<table class="camshaft"><tr>', *(f"<th>{html.escape(name)}</th>" for name in columns), "<th></th></tr>"]
    for row, bar in zip(rows, bars):
        lines += ["<tr>", *map(_cell, row), f'<td><div style="width:{bar / longest * 160:.0f}px"></div></td></tr>']
    return "".join([*lines, "</table>"])


class _Table(Sequence):
    """An immutable list of rows with a name for every column."""

    def __init__(self, rows: Sequence[Any]):
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):
        return self._rows[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def to_records(self) -> list[dict[str, Any]]:
        """A dict per row."""
        raise NotImplementedError

    def to_pandas(self):
        """A ``pandas.DataFrame``; needs pandas."""
        import pandas
        return pandas.DataFrame.from_records(self.to_records())


def _shapes(tensors: Sequence[_core.LayerTensor]) -> str:
    return ", ".join("x".join(map(str, tensor.shape)) or "scalar" for tensor in tensors)


class LayerTable(_Table):
    """The layers of an engine; every row is a ``Layer`` with name, type, tactic, isa, precision, inputs, outputs, source_nodes, macs,
    io_bytes and weight_bytes (bytes), build_time_us (microseconds), candidates; an If, Loop or Scan has its bodies' layers in inner."""

    def find(self, name: str) -> _core.Layer:
        """The layer of that name or made from that ONNX node. :raises KeyError:"""
        for layer in self:
            if layer.name == name or name in layer.source_nodes:
                return layer
        raise KeyError(name)

    def to_records(self) -> list[dict[str, Any]]:
        return [{"index": layer.index, "name": layer.name, "type": layer.type, "tactic": layer.tactic, "isa": layer.isa,
                 "precision": layer.precision, "outputs": _shapes(layer.outputs), "format": ", ".join(t.format for t in layer.outputs),
                 "macs": layer.macs, "io_bytes": layer.io_bytes, "weight_bytes": layer.weight_bytes,
                 "build_time_us": layer.build_time_us, "source_nodes": list(layer.source_nodes)} for layer in self]

    def _repr_html_(self) -> str:
        shown = [layer for layer in self if not layer.is_no_op]
        rows = [(layer.index, layer.name, layer.type, layer.tactic_text, _shapes(layer.outputs), layer.build_time_us)
                for layer in shown]
        return html_table(("", "layer", "kind", "tactic", "output", "µs"), rows, [layer.build_time_us for layer in shown])

    def __repr__(self) -> str:
        return f"<camshaft.LayerTable: {len(self)} layers>"


class ProfileTable(_Table):
    """Times of layers over a number of runs; every row is a ``LayerTime`` with layer (index), name, total_ms, average_ms, median_ms,
    percentage (of all layers), gmacs (1e9 multiply-adds/s), gbytes (1e9 bytes/s), peak_percent."""

    def __init__(self, rows: Sequence[_core.LayerTime], inside: Sequence[Sequence[_core.LayerTime]], layers: LayerTable, json_text: str, text: str):
        super().__init__(rows)
        self._inside, self._layers, self._json, self._text = inside, layers, json_text, text

    @property
    def total_ms(self) -> float:
        """Sum of the layers' medians, milliseconds."""
        return sum(row.median_ms for row in self)

    def to_records(self) -> list[dict[str, Any]]:
        keys = ("layer", "name", "total_ms", "average_ms", "median_ms", "percentage", "gmacs", "gbytes", "peak_percent")
        return [{**{key: getattr(row, key) for key in keys}, "type": self._layers[row.layer].type,
                 "tactic": self._layers[row.layer].tactic} for row in self]

    def inside(self, layer: int) -> list[dict[str, Any]]:
        """The layers inside an If, Loop or Scan that ran: times of all calls of a run, calls of a run, percentage of the whole network."""
        keys = ("name", "calls", "total_ms", "average_ms", "median_ms", "percentage")
        inner = self._layers[layer].inner
        return [{**{key: getattr(row, key) for key in keys}, "type": inner[row.inner].type, "tactic": inner[row.inner].tactic,
                 "body": inner[row.inner].body} for row in self._inside[layer]]

    def to_json(self) -> list[dict[str, Any]]:
        """The list trtexec's ``--exportProfile`` writes."""
        return json.loads(self._json)

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        rows = [(row.layer, row.name, self._layers[row.layer].tactic_text, row.median_ms * 1e3, row.percentage, row.gmacs,
                 row.gbytes) for row in self]
        return html_table(("", "layer", "tactic", "µs", "%", "GMAC/s", "GB/s"), rows, [row.median_ms for row in self])

    def __repr__(self) -> str:
        return f"<camshaft.ProfileTable: {len(self)} layers, {self.total_ms:.3f} ms>"
