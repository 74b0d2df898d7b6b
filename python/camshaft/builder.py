# SPDX-License-Identifier: Apache-2.0
"""From a model to an engine."""
from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence, Union

from . import _core
from .engine import VERBOSITIES, Engine
from .errors import InvalidArgument
from .model import ModelLike, Source, TensorInfo, tensor_infos
from .progress import Progress, progress_callback

Shape = Sequence[int]
Shapes = Mapping[str, Union[Shape, "tuple[Shape, Shape, Shape]"]]
"""Input name to its shape, or to (min, opt, max): the engine is tuned at opt and accepts min to max."""

_CONSTRAINTS = {"none": 0, "prefer": 1, "obey": 2}
_PRECISIONS = {"fp32": (False, False), "bf16": (True, False), "fp16": (False, True), "best": (True, True)}
_SPARSITIES = {"disable": 0, "enable": 1, "force": 2}
_TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "int8": "int8"}


@dataclass
class BuildConfig:
    """What a build may do. Every field is also an option of :func:`build` and :class:`Session`."""

    shapes: Shapes | None = None
    """Shapes of the inputs: ``{"x": (1, 3, 224, 224)}`` or ``{"x": (min, opt, max)}``. None: the model's own, every dynamic extent 1."""
    profiles: Sequence[Shapes] | None = None
    """Several of them, each tuned for; a context uses one. Excludes ``shapes``."""
    threads: int = 0
    """Tactics are timed with this many; 0: ``CAMSHAFT_NUM_THREADS``, else all this process may use."""
    optimization_level: int = 3
    """0: the first legal tactic, untimed, to 5: every tactic is timed."""
    avg_timing: int = 8
    """Runs averaged per tactic."""
    max_tactics: int = -1
    """Timed candidates per layer; -1: as the level says."""
    precision: str = "fp32"
    """``"fp32"``, ``"bf16"``, ``"fp16"`` or ``"best"``: what float layers may compute in and store, where that is faster."""
    int8: bool = False
    """Quantize with the scales of ``calibration_cache``; networks with Q/DQ compute in int8 without it."""
    calibration_cache: str | os.PathLike[str] | None = None
    sparsity: str = "disable"
    """``"enable"``: time sparse tactics where weights have zeros enough; ``"force"``: overwrite weights first, for timing only."""
    strongly_typed: bool = False
    """Layers of 16-bit networks round as their types say instead of computing in float."""
    portable: bool = False
    """Keep every constant beside what is packed from it: larger, and runs where only weaker instruction sets are, too."""
    layer_precisions: Mapping[str, str] = field(default_factory=dict)
    """Layer or node name (one ``*`` allowed) to ``"fp32"``, ``"bf16"``, ``"fp16"`` or ``"int8"``."""
    layer_output_types: Mapping[str, str] = field(default_factory=dict)
    precision_constraints: str = "none"
    """How the two above bind: ``"none"``, ``"prefer"`` or ``"obey"``."""
    timing_cache: str | os.PathLike[str] | None = None
    """A file of tactic times: read before, merged and written after."""
    use_timing_cache: bool = True
    error_on_timing_cache_miss: bool = False
    verbosity: str = "detailed"
    """What the engine tells of itself: ``"detailed"``, ``"none"`` or ``"layer_names_only"``."""

    def facts(self) -> dict[str, Any]:
        """The fields that change the engine, for a cache key."""
        facts = dataclasses.asdict(self)
        for name in ("timing_cache", "use_timing_cache", "error_on_timing_cache_miss"):
            del facts[name]
        facts["threads"] = self.threads or _core.default_num_threads()
        if self.calibration_cache is not None:
            stat = os.stat(self.calibration_cache)
            facts["calibration_cache"] = [os.fspath(self.calibration_cache), stat.st_size, stat.st_mtime_ns]
        return facts


def make_config(config: BuildConfig | None, options: Mapping[str, Any]) -> BuildConfig:
    """``config`` with options changed. :raises InvalidArgument: an unknown option."""
    known = {entry.name for entry in dataclasses.fields(BuildConfig)}
    if unknown := sorted(set(options) - known):
        raise InvalidArgument(f"unknown option {unknown[0]!r}; there are {', '.join(sorted(known))}")
    return dataclasses.replace(config or BuildConfig(), **options)


def _choice(table: Mapping[str, Any], word: str, what: str) -> Any:
    if word not in table:
        raise InvalidArgument(f"{what} {word!r}: one of {', '.join(table)}")
    return table[word]


def ranges_of(shapes: Shapes) -> dict[str, tuple[list[int], list[int], list[int]]]:
    """Every shape as (min, opt, max)."""
    ranges = {}
    for name, given in shapes.items():
        triple: list[Any] = list(given)
        if not triple or all(hasattr(extent, "__index__") for extent in triple):
            triple = [triple] * 3
        if len(triple) != 3:
            raise InvalidArgument(f"shape of {name!r}: {given!r} is neither a shape nor (min, opt, max)")
        least, best, most = ([int(extent) for extent in shape] for shape in triple)
        ranges[name] = (least, best, most)
    return ranges


def core_options(config: BuildConfig) -> _core.BuildOptions:
    """The library's own form of a configuration. :raises InvalidArgument: a word that is none of the choices."""
    options = _core.BuildOptions()
    if config.shapes is not None and config.profiles is not None:
        raise InvalidArgument("give shapes or profiles, not both")
    profiles = list(config.profiles) if config.profiles is not None else [config.shapes] if config.shapes else []
    options.set_profiles([ranges_of(shapes) for shapes in profiles])
    options.bf16, options.fp16 = _choice(_PRECISIONS, config.precision, "precision")
    options.set_precision_constraints(_choice(_CONSTRAINTS, config.precision_constraints, "precision_constraints"))
    options.set_verbosity(_choice(VERBOSITIES, config.verbosity, "verbosity"))
    options.set_sparsity(_choice(_SPARSITIES, config.sparsity, "sparsity"))
    options.set_layer_precisions({k: _choice(_TYPES, v, f"precision of {k!r}") for k, v in config.layer_precisions.items()})
    options.set_layer_output_types({k: _choice(_TYPES, v, f"output type of {k!r}") for k, v in config.layer_output_types.items()})
    for name in ("threads", "optimization_level", "avg_timing", "max_tactics", "use_timing_cache", "error_on_timing_cache_miss", "int8",
                 "strongly_typed", "portable"):
        setattr(options, name, getattr(config, name))
    options.timing_cache = config.timing_cache or ""
    options.calibration_cache = config.calibration_cache or ""
    return options


def build(model: ModelLike, config: BuildConfig | None = None, *, progress: Progress = None,
          external_data: str | os.PathLike[str] | None = None, **options: Any) -> Engine:
    """Optimizes a model, times the tactics on this machine and packs an engine.

    :param model: a path, the bytes of an ONNX file, or an ``onnx.ModelProto``.
    :param config: a :class:`BuildConfig`; ``options`` are its fields and win.
    :param progress: True: a bar on the terminal or in the notebook; or a callable ``(phase, done, total)`` that may return False to
        cancel. Ctrl-C cancels in any case.
    :param external_data: the folder of weight files of a model given as bytes.
    :raises InvalidModel: the file is malformed.
    :raises Unsupported: it has nodes this version cannot import; ``error.issues`` lists each with its reason.
    :raises InvalidArgument: an option or a shape is wrong.
    :raises Cancelled: ``progress`` returned False.
    """
    source = Source(model, external_data)
    return build_opened(source.open(), make_config(config, options), progress)


def build_opened(model: _core.Model, config: BuildConfig, progress: Progress = None) -> Engine:
    """Builds from a model that was opened; consumes it."""
    with progress_callback(progress) as callback:
        engine, statistics = _core.build(model, core_options(config), callback)
    return Engine(engine, statistics)


@dataclass(frozen=True)
class ModelInfo:
    """What an ONNX file says of itself."""

    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    facts: dict[str, Any]


def inspect_model(model: ModelLike, external_data: str | os.PathLike[str] | None = None) -> ModelInfo:
    """Imports a model without building: inputs, outputs, opset, producer, number of nodes."""
    opened = Source(model, external_data).open()
    return ModelInfo(tensor_infos(opened.inputs), tensor_infos(opened.outputs), opened.info)
