# SPDX-License-Identifier: Apache-2.0
"""Builder, network, parser, configuration."""
from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any, Sequence

from ... import _core
from ...builder import BuildConfig, build_opened
from ...errors import Cancelled, CamshaftError
from ...model import Source, tensor_infos
from .enums import (BuilderFlag, DataType, MemoryPoolType, NetworkDefinitionCreationFlag, ParserErrorCode, ProfilingVerbosity,
                    TensorFormat, TensorLocation, from_name)
from .log import ILogger, library_records, report


class IHostMemory(bytes):
    """A serialized engine: bytes with TensorRT's names."""

    @property
    def nbytes(self) -> int:
        return len(self)

    @property
    def dtype(self) -> DataType:
        return DataType.INT8


class _Scoped:
    """Samples write ``with trt.Builder(…) as builder``."""

    def __enter__(self):
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class ITensor:
    """An input or output of a network; dynamic extents are -1."""

    def __init__(self, info: Any, is_input: bool):
        self.name, self.is_network_input, self.is_network_output = info.name, is_input, not is_input
        self.shape = tuple(n if isinstance(n, int) else -1 for n in info.shape or ())
        self.dtype = from_name(info.dtype_name)
        self.location, self.allowed_formats = TensorLocation.DEVICE, 1 << TensorFormat.LINEAR


class INetworkDefinition(_Scoped):
    """What a parser read."""

    def __init__(self, flags: int):
        self._source: Source | None = None
        self._model: _core.Model | None = None
        self._inputs: list[ITensor] = []
        self._outputs: list[ITensor] = []
        self.flags, self.name, self.num_layers = flags, "", 0
        self.has_implicit_batch_dimension = False

    def _read(self, source: Source) -> None:
        self._source, self._model = source, source.open()
        self._inputs = [ITensor(info, True) for info in tensor_infos(self._model.inputs)]
        self._outputs = [ITensor(info, False) for info in tensor_infos(self._model.outputs)]
        facts = self._model.info
        self.name, self.num_layers = facts["graph_name"], facts["node_count"]

    def _take(self) -> _core.Model:
        """The model, to be consumed: it is read again for another build."""
        if self._source is None:
            raise CamshaftError("the network is empty: parse an ONNX model first")
        model, self._model = self._model or self._source.open(), None
        return model

    def get_flag(self, flag: NetworkDefinitionCreationFlag) -> bool:
        return bool(self.flags >> flag & 1)

    @property
    def num_inputs(self) -> int:
        return len(self._inputs)

    @property
    def num_outputs(self) -> int:
        return len(self._outputs)

    def get_input(self, index: int) -> ITensor:
        return self._inputs[index]

    def get_output(self, index: int) -> ITensor:
        return self._outputs[index]


class ParserError:
    """Why a node, or the file, was refused. Everything is a method, as in TensorRT."""

    def __init__(self, code: ParserErrorCode, text: str, node: str = "", operator: str = ""):
        self._code, self._text, self._node, self._operator = code, text, node, operator

    def code(self) -> ParserErrorCode:
        return self._code

    def desc(self) -> str:
        return self._text

    def node(self) -> int:
        return -1

    def node_name(self) -> str:
        return self._node

    def node_operator(self) -> str:
        return self._operator

    def file(self) -> str:
        return ""

    def func(self) -> str:
        return ""

    def line(self) -> int:
        return 0

    def __str__(self) -> str:
        return f"{self._node} ({self._operator}): {self._text}" if self._node else self._text


class OnnxParser(_Scoped):
    """Reads ONNX into a network."""

    def __init__(self, network: INetworkDefinition, logger: ILogger):
        self._network, self._logger = network, logger
        self._errors: list[ParserError] = []

    def parse(self, model: bytes, path: str | os.PathLike[str] | None = None) -> bool:
        """From bytes; ``path`` is where the model came from, for weight files beside it."""
        return self._parse(Source(bytes(model), pathlib.Path(path).parent if path else None))

    def parse_from_file(self, path: str | os.PathLike[str]) -> bool:
        return self._parse(Source(path))

    def supports_model(self, model: bytes, path: str | None = None) -> tuple[bool, list]:
        """Whether it can be parsed; the list of subgraphs is empty."""
        return OnnxParser(INetworkDefinition(0), self._logger).parse(model, path), []

    def _parse(self, source: Source) -> bool:
        self._errors = []
        try:
            with library_records(self._logger):
                self._network._read(source)
        except (CamshaftError, TypeError) as error:
            issues = getattr(error, "issues", ())
            self._errors = [ParserError(ParserErrorCode.UNSUPPORTED_NODE, i.reason, i.node, i.operator) for i in issues]
            self._errors = self._errors or [ParserError(ParserErrorCode.INVALID_GRAPH, str(error))]
            report(self._logger, error)
            return False
        return True

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]

    def clear_errors(self) -> None:
        self._errors = []

    def set_flag(self, flag: Any) -> None:
        """Flags choose between importers of TensorRT; there is one here."""

    clear_flag = set_flag


class IOptimizationProfile:
    """Shapes to build for."""

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[tuple[int, ...], ...]] = {}

    def set_shape(self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> None:  # noqa: A002
        self._shapes[input] = (tuple(min), tuple(opt), tuple(max))

    def get_shape(self, input: str) -> list[tuple[int, ...]]:  # noqa: A002
        return list(self._shapes.get(input, ()))

    def set_shape_input(self, input: str, min: Any, opt: Any, max: Any) -> None:  # noqa: A002
        """Shape tensors are ordinary inputs here: nothing needs to be known of their values."""

    def __bool__(self) -> bool:
        return True


class ITimingCache:
    """Tactic times as bytes."""

    def __init__(self, content: bytes):
        self._content = content

    def serialize(self) -> IHostMemory:
        return IHostMemory(self._content)

    def combine(self, other: ITimingCache, ignore_mismatch: bool) -> bool:
        """Times merge when a build writes; the larger of the two is kept until then."""
        self._content = max(self._content, other._content, key=len)
        return True


class IProgressMonitor:
    """Subclass it: phases begin, steps complete (False cancels), phases finish."""

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        raise NotImplementedError

    def step_complete(self, phase_name: str, step: int) -> bool:
        raise NotImplementedError

    def phase_finish(self, phase_name: str) -> None:
        raise NotImplementedError


class _Phases:
    """Turns (phase, done, total) into the calls of a monitor."""

    def __init__(self, monitor: IProgressMonitor):
        self._monitor, self._phase = monitor, ""

    def __call__(self, phase: str, done: int, total: int) -> bool:
        if phase != self._phase:
            self.finish()
            self._phase = phase
            self._monitor.phase_start(phase, None, total)
        return self._monitor.step_complete(phase, done)

    def finish(self) -> None:
        if self._phase:
            self._monitor.phase_finish(self._phase)
        self._phase = ""


class IBuilderConfig(_Scoped):
    """What the builder may do. Flags and limits that concern GPUs only are kept and have no effect."""

    def __init__(self) -> None:
        self.flags = 1 << BuilderFlag.TF32
        self.profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.builder_optimization_level, self.avg_timing_iterations, self.max_num_tactics = 3, 1, -1
        self.progress_monitor: IProgressMonitor | None = None
        self.int8_calibrator: Any = None
        self.max_threads = 0
        self._profiles: list[IOptimizationProfile] = []
        self._pools: dict[MemoryPoolType, int] = {}
        self._timing_cache: ITimingCache | None = None
        self._preview: dict[Any, bool] = {}

    def set_flag(self, flag: BuilderFlag) -> None:
        self.flags |= 1 << flag

    def clear_flag(self, flag: BuilderFlag) -> None:
        self.flags &= ~(1 << flag)

    def get_flag(self, flag: BuilderFlag) -> bool:
        return bool(self.flags >> flag & 1)

    def set_memory_pool_limit(self, pool: MemoryPoolType, size: int) -> None:
        self._pools[pool] = size

    def get_memory_pool_limit(self, pool: MemoryPoolType) -> int:
        return self._pools.get(pool, 0)

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        self._profiles.append(profile)
        return len(self._profiles) - 1

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._profiles)

    def create_timing_cache(self, serialized: bytes) -> ITimingCache:
        return ITimingCache(bytes(serialized))

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        self._timing_cache = cache
        return True

    def get_timing_cache(self) -> ITimingCache | None:
        return self._timing_cache

    def set_preview_feature(self, feature: Any, enable: bool) -> None:
        self._preview[feature] = enable

    def get_preview_feature(self, feature: Any) -> bool:
        return self._preview.get(feature, False)

    def set_tactic_sources(self, sources: int) -> bool:
        return True

    def _build_config(self, network: INetworkDefinition, folder: str) -> BuildConfig:
        """:raises NotImplementedError: a flag this version cannot honour."""
        for flag in (BuilderFlag.FP8, BuilderFlag.INT4, BuilderFlag.REFIT, BuilderFlag.STRIP_PLAN):
            if self.get_flag(flag):
                raise NotImplementedError(f"BuilderFlag.{flag.name} is not in this version")
        if self.int8_calibrator is not None:
            raise NotImplementedError("int8_calibrator: quantize the model first with camshaft.quantize")
        constraints = ("obey" if self.get_flag(BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
                       else "prefer" if self.get_flag(BuilderFlag.PREFER_PRECISION_CONSTRAINTS) else "none")
        reduced = (self.get_flag(BuilderFlag.BF16), self.get_flag(BuilderFlag.FP16))
        cache = None
        if self._timing_cache is not None:
            cache = pathlib.Path(folder) / "timing.cache"
            if self._timing_cache._content:
                cache.write_bytes(self._timing_cache._content)
        return BuildConfig(
            profiles=[profile._shapes for profile in self._profiles if profile._shapes] or None, optimization_level=self.builder_optimization_level,
            avg_timing=max(self.avg_timing_iterations, 1), max_tactics=self.max_num_tactics, threads=self.max_threads,
            precision={(True, True): "best", (True, False): "bf16", (False, True): "fp16"}.get(reduced, "fp32"),
            int8=self.get_flag(BuilderFlag.INT8), strongly_typed=network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED),
            precision_constraints=constraints, timing_cache=cache, use_timing_cache=not self.get_flag(BuilderFlag.DISABLE_TIMING_CACHE),
            error_on_timing_cache_miss=self.get_flag(BuilderFlag.ERROR_ON_TIMING_CACHE_MISS),
            verbosity=self.profiling_verbosity.name.lower())


class Builder(_Scoped):
    """Makes networks, configurations and engines."""

    def __init__(self, logger: ILogger):
        self.logger = logger
        self.max_threads = 0
        self.platform_has_fast_fp16 = self.platform_has_fast_int8 = True
        self.platform_has_tf32 = False
        self.num_DLA_cores = 0

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        return INetworkDefinition(flags)

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig()

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        return network._source is not None

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> IHostMemory | None:
        """None on failure, after telling the logger why."""
        phases = _Phases(config.progress_monitor) if config.progress_monitor is not None else None
        try:
            with library_records(self.logger), tempfile.TemporaryDirectory(prefix="camshaft-") as folder:
                if self.max_threads and not config.max_threads:
                    config.max_threads = self.max_threads
                made = config._build_config(network, folder)
                engine = build_opened(network._take(), made, phases)
                if made.timing_cache is not None and pathlib.Path(made.timing_cache).exists():
                    config._timing_cache._content = pathlib.Path(made.timing_cache).read_bytes()
        except Cancelled:
            return None
        except (CamshaftError, NotImplementedError) as error:
            report(self.logger, error)
            return None
        finally:
            if phases is not None:
                phases.finish()
        return IHostMemory(engine.bytes)

    def build_engine_with_config(self, network: INetworkDefinition, config: IBuilderConfig) -> Any:
        """An engine at once; None on failure."""
        from .runtime import Runtime
        content = self.build_serialized_network(network, config)
        return None if content is None else Runtime(self.logger).deserialize_cuda_engine(content)

    build_engine = build_engine_with_config
