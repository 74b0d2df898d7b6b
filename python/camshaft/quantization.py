# SPDX-License-Identifier: Apache-2.0
"""Int8 networks from float ones, and how far networks and engines are from what they should compute."""
from __future__ import annotations

import json
import os
import pathlib
import tempfile
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Sequence, Union

import numpy as np

from . import programs
from .errors import InvalidArgument
from .model import ModelLike, Source

Samples = Union[str, "os.PathLike[str]", Iterable[Mapping[str, Any]]]
"""A folder or file of samples as ``camshaft quantize --data`` takes it, or feeds: dicts of arrays by input name."""


@dataclass(frozen=True)
class QuantizeReport:
    """What :func:`quantize` did: the path of the network it wrote, and the lines the command prints."""

    path: pathlib.Path
    text: str


class _Files:
    """Models and samples that are not files yet, in a folder that goes away."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="camshaft-")

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error: Any) -> None:
        self._folder.cleanup()

    def model(self, model: ModelLike, name: str = "model.onnx") -> pathlib.Path:
        source = Source(model)
        if source.path is not None:
            return source.path
        path = pathlib.Path(self._folder.name) / name
        path.write_bytes(source._bytes or b"")
        return path

    def samples(self, data: Samples) -> list[str]:
        if isinstance(data, (str, os.PathLike)):
            return ["--data", os.fspath(data)]
        folder = pathlib.Path(self._folder.name) / "samples"
        folder.mkdir()
        count = 0
        for count, feed in enumerate(data, 1):
            np.savez(folder / f"{count:06}.npz", **{name: np.asarray(array) for name, array in feed.items()})
        if count == 0:
            raise InvalidArgument("no samples")
        return ["--data", str(folder)]


def quantize(model: ModelLike, data: Samples, output: str | os.PathLike[str], *, method: str = "mse", percentile: float = 99.99,
             activation_type: str = "int8", per_channel: bool = True, min_snr: float = 28, bias_correction: bool = True,
             keep_float: Sequence[str] = (), only: Sequence[str] = (), threads: int = 0) -> QuantizeReport:
    """Calibrates a float network on real data and writes it with Q/DQ.

    :param data: samples: a folder or file, or an iterable of feeds.
    :param output: the file to write.
    :param method: how a tensor's range is chosen: ``"minmax"``, ``"entropy"``, ``"percentile"`` (with ``percentile``) or ``"mse"``.
    :param activation_type: ``"int8"`` (symmetric) or ``"uint8"`` (with zero points); weights are symmetric int8.
    :param min_snr: layers whose own quantization leaves their output less signal to noise (dB) stay float; 0: none.
    :param keep_float: layers that stay float; a name may hold one ``*``. ``only``: quantize only these.
    :raises CamshaftError: with the reason.
    """
    with _Files() as files:
        words = ["quantize", str(files.model(model)), *files.samples(data), "-o", os.fspath(output), "--method", method,
                 "--activation-type", activation_type, "--per-channel" if per_channel else "--per-tensor", "--min-snr", str(min_snr)]
        if method == "percentile":
            words += ["--percentile", str(percentile)]
        if not bias_correction:
            words.append("--no-bias-correction")
        for option, names in (("--keep-float", keep_float), ("--only", only)):
            for name in names:
                words += [option, name if '"' in name or "," not in name else f'"{name}"']
        if threads:
            words += ["--threads", str(threads)]
        text = programs.run(words)
    return QuantizeReport(pathlib.Path(output), text)


@dataclass(frozen=True)
class VerifyReport:
    """Errors of tensors, worst first, and (of engines) of layers. ``good``: every bound that was asked for holds."""

    good: bool
    comparison: str
    tensors: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    first_beyond_bound: str
    raw: dict[str, Any]

    def to_pandas(self):
        """The tensors as a ``pandas.DataFrame``."""
        import pandas
        return pandas.DataFrame.from_records(self.tensors)


def verify(model: ModelLike, data: Samples | None = None, *, reference: ModelLike | None = None, engine: bool = False,
           min_cosine: float | None = None, max_error: float | None = None, layer_error: float | None = None,
           threads: int = 0) -> VerifyReport:
    """Compares every tensor: of a quantized network with its float one, or (``engine``, and for float networks) of the engine with the
    interpreter, each layer on the operands it has in the engine.

    :param data: samples as of :func:`quantize`; None: random ones, the same every time.
    :param reference: the float network; None: the same one without its Q/DQ.
    :param min_cosine: of every output; ``max_error``: largest absolute error of every output; ``layer_error``: of each layer, as a share
        of its largest value (1e-4).
    :raises CamshaftError: with the reason; a bound that does not hold is not an error: see ``good``.
    """
    with _Files() as files:
        words = ["verify", str(files.model(model)), "--json"]
        words += files.samples(data) if data is not None else []
        if reference is not None:
            words += ["--reference", str(files.model(reference, "reference.onnx"))]
        words += ["--engine"] if engine else []
        for option, value in (("--min-cosine", min_cosine), ("--max-error", max_error), ("--layer-error", layer_error)):
            words += [option, repr(value)] if value is not None else []
        words += ["--threads", str(threads)] if threads else []
        result, code = programs.run_json(words)
    tensors = sorted(result["tensors"], key=lambda t: t["snrDb"] if t["snrDb"] is not None else float("inf"))
    return VerifyReport(code == 0, result["comparison"], tensors, result.get("layers", []), result.get("firstBeyondBound", ""), result)
