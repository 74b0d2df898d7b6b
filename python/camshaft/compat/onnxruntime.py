# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's Python interface, as far as programs that run inference use it: ``import camshaft.compat.onnxruntime as ort``.

Options that have no meaning here (graph optimization, memory patterns, execution mode) are accepted; the number of threads is heeded.
"""
from __future__ import annotations

import ctypes
import enum
from dataclasses import dataclass, field
from typing import Any, Sequence

import numpy as np

from .. import _core, arrays
from ..errors import InvalidArgument
from ..model import ModelLike, Source
from ..model import TensorInfo as NodeArg
from ..session import IoBinding as _IoBinding
from ..session import Session

_PROVIDER = "CamshaftExecutionProvider"
__version__ = _core.version


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class RunOptions:
    """Kept, without effect."""


@dataclass
class SessionOptions:
    """``intra_op_num_threads`` is the number of threads of a run; the rest is kept."""

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_profiling: bool = False
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    optimized_model_filepath: str = ""
    profile_file_prefix: str = ""
    _entries: dict[str, str] = field(default_factory=dict)

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return self._entries[key]


@dataclass(frozen=True)
class ModelMetadata:
    """What the file says of itself."""

    graph_name: str
    producer_name: str
    domain: str
    description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


class OrtValue:
    """An array with ONNX Runtime's names."""

    def __init__(self, array: np.ndarray):
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        return OrtValue(np.ascontiguousarray(array))

    def numpy(self) -> np.ndarray:
        return self._array

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def data_ptr(self) -> int:
        return self._array.ctypes.data

    def device_name(self) -> str:
        return "cpu"

    def is_tensor(self) -> bool:
        return True


class IOBinding(_IoBinding):
    """Takes addresses as well as arrays."""

    def bind_input(self, name: str, device_type: Any, device_id: int = 0, element_type: Any = None, shape: Sequence[int] = (),
                   buffer_ptr: int = 0) -> None:
        """``bind_input(name, array)`` or the long form with an address in host memory."""
        super().bind_input(name, device_type if buffer_ptr == 0 else _at(buffer_ptr, element_type, shape, device_type))

    def bind_cpu_input(self, name: str, array: np.ndarray) -> None:
        super().bind_input(name, array)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        super().bind_input(name, value.numpy())

    def bind_output(self, name: str, device_type: Any = "cpu", device_id: int = 0, element_type: Any = None, shape: Sequence[int] | None = None,
                    buffer_ptr: int | None = None) -> None:
        """New memory every run, unless there is an address."""
        super().bind_output(name, _at(buffer_ptr, element_type, shape or (), device_type) if buffer_ptr else None)

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        super().bind_output(name, value.numpy())

    def get_outputs(self) -> list[OrtValue]:
        return [OrtValue(array) for array in super().get_outputs()]

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        return super().get_outputs()


def _at(address: int, element_type: Any, shape: Sequence[int], device_type: str) -> np.ndarray:
    """An array over memory of the caller's. :raises InvalidArgument: not host memory."""
    if device_type != "cpu":
        raise InvalidArgument(f"device {device_type!r}: there is only the CPU")
    dtype = arrays.dtype(np.dtype(element_type).name)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)


class InferenceSession(Session):
    """:class:`camshaft.Session` with ONNX Runtime's constructor."""

    def __init__(self, path_or_bytes: ModelLike, sess_options: SessionOptions | None = None, providers: Sequence[Any] | None = None,
                 provider_options: Sequence[Any] | None = None, **options: Any):
        self._sess_options = sess_options or SessionOptions()
        self._model = path_or_bytes
        super().__init__(path_or_bytes, **{"threads": self._sess_options.intra_op_num_threads, **options})

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def get_session_options(self) -> SessionOptions:
        return self._sess_options

    def get_modelmeta(self) -> ModelMetadata:
        """:raises CamshaftError: the session runs an engine file, which has no such facts."""
        facts = Source(self._model).open().info
        return ModelMetadata(facts["graph_name"], facts["producer_name"], facts["domain"], facts["doc_string"], facts["model_version"])


def get_available_providers() -> list[str]:
    return [_PROVIDER]


get_all_providers = get_available_providers


def get_device() -> str:
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """0 verbose to 4 fatal."""
    from .. import log
    log.set_level(("verbose", "info", "warning", "error", "internal_error")[severity])


__all__ = ["ExecutionMode", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg", "OrtValue", "RunOptions",
           "SessionOptions", "get_all_providers", "get_available_providers", "get_device", "set_default_logger_severity"]
