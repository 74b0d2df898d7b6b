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
        words += _names("--keep-float", keep_float) + _names("--only", only)
        if threads:
            words += ["--threads", str(threads)]
        text = programs.run(words)
    return QuantizeReport(pathlib.Path(output), text)


@dataclass(frozen=True)
class SparsifyReport:
    """What :func:`sparsify` did: the path of the network it wrote, and the lines the command prints (a table of the layers)."""

    path: pathlib.Path
    text: str


def sparsify(model: ModelLike, output: str | os.PathLike[str], *, data: Samples | None = None, method: str = "magnitude",
             permute: bool = False, reconstruct: bool = False, keep_accuracy: float | None = None, layers: Sequence[str] = (),
             exclude: Sequence[str] = (), timing: bool = True, threads: int = 0) -> SparsifyReport:
    """Makes the weights of convolutions and linear layers 2:4 and writes the network.

    :param output: the file to write.
    :param data: samples as of :func:`quantize`; needed for ``method="activation"``, ``reconstruct`` and ``keep_accuracy``, and for the errors
        in the report.
    :param method: which two of four input channels stay: ``"first-two"``, ``"magnitude"`` or ``"activation"`` (weight times input).
    :param permute: let channels change places first, so that more is kept; the network computes the same, at the same speed.
    :param reconstruct: kept weights take over what pruned ones did, by least squares on the data.
    :param keep_accuracy: signal to noise (dB) the outputs must keep: layers that cost more stay dense.
    :param timing: build the result and list how fast each layer is dense and sparse on this machine.
    :param layers: prune only these; ``exclude``: leave these dense. A name may hold one ``*``.
    :raises CamshaftError: with the reason.
    """
    with _Files() as files:
        words = ["sparsify", str(files.model(model)), "-o", os.fspath(output), "--method", method]
        if data is not None:
            words += files.samples(data)
        for option, wanted in (("--permute", permute), ("--reconstruct", reconstruct), ("--no-timing", not timing)):
            if wanted:
                words.append(option)
        if keep_accuracy is not None:
            words += ["--keep-accuracy", str(keep_accuracy)]
        words += _names("--layers", layers) + _names("--exclude", exclude)
        if threads:
            words += ["--threads", str(threads)]
        text = programs.run(words)
    return SparsifyReport(pathlib.Path(output), text)


def _names(option: str, names: Sequence[str]) -> list[str]:
    """Names as the commands take them: those with a comma in quotes."""
    words: list[str] = []
    for name in names:
        words += [option, name if '"' in name or "," not in name else f'"{name}"']
    return words


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
