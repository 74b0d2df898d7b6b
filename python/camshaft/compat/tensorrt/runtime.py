# SPDX-License-Identifier: Apache-2.0
"""Engines, contexts, profilers, inspectors."""
from __future__ import annotations

import math
from typing import Any, Iterator, Sequence

from ... import _core
from ...engine import Engine
from ...errors import CamshaftError
from .builder import IHostMemory, _Scoped
from .enums import (DataType, ExecutionContextAllocationStrategy, LayerInformationFormat, ProfilingVerbosity, TensorFormat, TensorIOMode,
                    TensorLocation, from_name)
from .log import ILogger, library_records, report


class IProfiler:
    """Subclass it: ``report_layer_time(layer_name, ms)`` is called for every layer of every execution."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        raise NotImplementedError


class Profiler(IProfiler):
    """Prints the times."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        print(f"{layer_name}: {ms}ms")


class Runtime(_Scoped):
    """Loads engines."""

    def __init__(self, logger: ILogger):
        self.logger = logger
        self.max_threads = 0
        self.engine_host_code_allowed = False

    def deserialize_cuda_engine(self, serialized: bytes) -> ICudaEngine | None:
        """None on failure, after telling the logger why."""
        try:
            with library_records(self.logger):
                return ICudaEngine(Engine.from_bytes(bytes(serialized)), self.logger, self.max_threads)
        except (CamshaftError, TypeError) as error:
            report(self.logger, error)
            return None


class ICudaEngine(_Scoped):
    """An engine; ``camshaft_engine`` is the :class:`camshaft.Engine`."""

    def __init__(self, engine: Engine, logger: ILogger | None, threads: int = 0):
        self.camshaft_engine = engine
        self._logger, self._threads = logger, threads
        self._infos = {info.name: info for info in (*engine.inputs, *engine.outputs)}
        self._inputs = {info.name for info in engine.inputs}
        self._names = list(self._infos)
        for info in self._infos.values():
            from_name(info.dtype_name)

    @property
    def name(self) -> str:
        return self.camshaft_engine.info["model_name"]

    @property
    def num_layers(self) -> int:
        return self.camshaft_engine.info["layer_count"]

    @property
    def num_optimization_profiles(self) -> int:
        return max(len(self.camshaft_engine.profiles), 1)

    @property
    def num_io_tensors(self) -> int:
        return len(self._names)

    num_bindings = num_io_tensors
    has_implicit_batch_dimension = False
    refittable = False
    profiling_verbosity = ProfilingVerbosity.DETAILED

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getitem__(self, key: int | str) -> str | int:
        """TensorRT 8: binding name by index, index by name."""
        return self._names[key] if isinstance(key, int) else self._names.index(key)

    def get_tensor_name(self, index: int) -> str:
        return self._names[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        if name not in self._infos:
            return TensorIOMode.NONE
        return TensorIOMode.INPUT if name in self._inputs else TensorIOMode.OUTPUT

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        """-1 where an extent is dynamic."""
        return tuple(n if isinstance(n, int) else -1 for n in self._infos[name].shape or ())

    def get_tensor_dtype(self, name: str) -> DataType:
        return from_name(self._infos[name].dtype_name)

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.DEVICE

    def get_tensor_format(self, name: str) -> TensorFormat:
        return TensorFormat.LINEAR

    def get_tensor_format_desc(self, name: str) -> str:
        return "Row major linear"

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        """[min, opt, max]."""
        profiles = self.camshaft_engine.profiles
        if profile_index < len(profiles) and name in profiles[profile_index]:
            return [tuple(shape) for shape in profiles[profile_index][name]]
        return [self.get_tensor_shape(name)] * 3

    def is_shape_inference_io(self, name: str) -> bool:
        return False

    # TensorRT 8's names
    def binding_is_input(self, key: int | str) -> bool:
        return (self._names[key] if isinstance(key, int) else key) in self._inputs

    def get_binding_name(self, index: int) -> str:
        return self._names[index]

    def get_binding_index(self, name: str) -> int:
        return self._names.index(name)

    def get_binding_shape(self, key: int | str) -> tuple[int, ...]:
        return self.get_tensor_shape(self._names[key] if isinstance(key, int) else key)

    def get_binding_dtype(self, key: int | str) -> DataType:
        return self.get_tensor_dtype(self._names[key] if isinstance(key, int) else key)

    def create_execution_context(self, strategy: Any = ExecutionContextAllocationStrategy.STATIC) -> IExecutionContext | None:
        try:
            return IExecutionContext(self)
        except CamshaftError as error:
            report(self._logger, error)
            return None

    def create_engine_inspector(self) -> EngineInspector:
        return EngineInspector(self)

    def serialize(self) -> IHostMemory:
        return IHostMemory(self.camshaft_engine.bytes)

    @property
    def device_memory_size(self) -> int:
        """Bytes of activations and workspace at the opt shapes."""
        return _core.AddressContext(self.camshaft_engine._core, 1).memory_bytes

    device_memory_size_v2 = device_memory_size


class IExecutionContext(_Scoped):
    """Runs an engine on host memory."""

    def __init__(self, engine: ICudaEngine):
        self.engine = engine
        self.name, self.enqueue_emits_profile = "", True
        self.profiler: IProfiler | None = None
        self._addresses: dict[str, int] = {}
        self._times: list[tuple[int, float]] = []
        self._select(0)

    def _select(self, profile: int) -> None:
        self._context = _core.AddressContext(self.engine.camshaft_engine._core, self.engine._threads, profile)
        self._profile = profile

    def _attempt(self, function: Any, *arguments: Any) -> bool:
        try:
            function(*arguments)
        except CamshaftError as error:
            report(self.engine._logger, error)
            return False
        return True

    @property
    def active_optimization_profile(self) -> int:
        return self._profile

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int = 0) -> bool:
        return self._attempt(self._select, profile_index)

    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
        return self._attempt(self._context.set_shape, name, [int(n) for n in shape])

    def set_binding_shape(self, binding: int, shape: Sequence[int]) -> bool:
        return self.set_input_shape(self.engine.get_tensor_name(binding), shape)

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        """For the input shapes that are set; -1s where only running tells."""
        if name in self.engine._inputs:
            return tuple(self._context.input_shape(name))
        shape = self._context.output_shape(name)
        return tuple(shape) if shape is not None else tuple(-1 for _ in self.engine.get_tensor_shape(name))

    def get_binding_shape(self, binding: int) -> tuple[int, ...]:
        return self.get_tensor_shape(self.engine.get_tensor_name(binding))

    def infer_shapes(self) -> list[str]:
        """Names of inputs whose shapes are missing: none, they begin as the profile's opt shapes."""
        return []

    all_binding_shapes_specified = all_shape_inputs_specified = True

    def set_tensor_address(self, name: str, memory: int) -> bool:
        """Host memory, row major, as large as the tensor is when it runs."""
        if name not in self.engine._infos:
            return False
        self._addresses[name] = int(memory)
        return True

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def _bytes(self, name: str) -> int:
        itemsize = self.engine.get_tensor_dtype(name).itemsize
        return math.ceil(max(math.prod(self.get_tensor_shape(name)), 0) * itemsize)

    def _execute(self) -> None:
        for name in self.engine:
            if name not in self._addresses:
                raise CamshaftError(f"tensor '{name}' has no address")
            bind = self._context.set_input if name in self.engine._inputs else self._context.set_output
            bind(name, self._addresses[name], self._bytes(name))
        if self.profiler is None:
            self._context.run()
            return
        self._times = self._context.run_timed()
        if self.enqueue_emits_profile:
            self.report_to_profiler()

    def execute_async_v3(self, stream_handle: int = 0) -> bool:
        """Done when it returns."""
        return self._attempt(self._execute)

    def execute_v2(self, bindings: Sequence[int]) -> bool:
        """Addresses in the order of the engine's tensors."""
        for name, address in zip(self.engine, bindings):
            self._addresses[name] = int(address)
        return self._attempt(self._execute)

    def execute_async_v2(self, bindings: Sequence[int], stream_handle: int = 0, input_consumed: Any = None) -> bool:
        return self.execute_v2(bindings)

    def report_to_profiler(self) -> bool:
        """The times of the last execution."""
        layers = self.engine.camshaft_engine.layers
        for index, ms in self._times if self.profiler is not None else ():
            self.profiler.report_layer_time(layers[index].name, ms)
        return bool(self._times)


class EngineInspector(_Scoped):
    """What is in an engine."""

    def __init__(self, engine: ICudaEngine):
        self._engine = engine
        self.execution_context: IExecutionContext | None = None

    def get_engine_information(self, format: LayerInformationFormat) -> str:  # noqa: A002
        inspector = self._engine.camshaft_engine._inspector
        return inspector.to_json(2) if format == LayerInformationFormat.JSON else inspector.to_text(2)

    def get_layer_information(self, layer_index: int, format: LayerInformationFormat) -> str:  # noqa: A002
        inspector = self._engine.camshaft_engine._inspector
        return inspector.layer_json(layer_index) if format == LayerInformationFormat.JSON else inspector.layer_text(layer_index)
