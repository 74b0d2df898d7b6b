# SPDX-License-Identifier: Apache-2.0
"""Enumerations with TensorRT's names and numbers."""
from __future__ import annotations

import enum
import math
from typing import Sequence

import numpy as np

from ... import arrays


class DataType(enum.IntEnum):
    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    FP8 = 6
    BF16 = 7
    INT64 = 8
    INT4 = 9

    @property
    def itemsize(self) -> float:
        """Bytes of an element; half a byte for INT4."""
        return {"INT4": 0.5}.get(self.name) or np.dtype(_NUMPY.get(self, "uint16")).itemsize


_NUMPY = {DataType.FLOAT: "float32", DataType.HALF: "float16", DataType.INT8: "int8", DataType.INT32: "int32", DataType.BOOL: "bool",
          DataType.UINT8: "uint8", DataType.INT64: "int64"}
_FROM_NAME = {**{name: dtype for dtype, name in _NUMPY.items()}, "bfloat16": DataType.BF16, "int4": DataType.INT4}
float32, float16, int8, int32, int64 = DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT32, DataType.INT64
uint8, bfloat16, int4 = DataType.UINT8, DataType.BF16, DataType.INT4
bool = DataType.BOOL  # noqa: A001: TensorRT's own name


def from_name(name: str) -> DataType:
    """:raises TypeError: TensorRT has no such type (float64, uint16 …)."""
    if name not in _FROM_NAME:
        raise TypeError(f"TensorRT has no type {name}")
    return _FROM_NAME[name]


def nptype(dtype: DataType) -> type:
    """NumPy's type, bfloat16 from ml_dtypes. :raises TypeError: there is none."""
    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype]).type
    if dtype == DataType.BF16:
        return arrays.dtype("bfloat16").type
    raise TypeError(f"Could not resolve TensorRT datatype {dtype} to an equivalent numpy datatype.")


def volume(shape: Sequence[int]) -> int:
    """The product of the extents."""
    return math.prod(shape)


class TensorIOMode(enum.IntEnum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(enum.IntEnum):
    DEVICE = 0
    HOST = 1


class TensorFormat(enum.IntEnum):
    LINEAR = 0
    CHW2 = 1
    HWC8 = 2
    CHW4 = 3
    CHW16 = 4
    CHW32 = 5
    HWC = 8


class ProfilingVerbosity(enum.IntEnum):
    LAYER_NAMES_ONLY = 0
    NONE = 1
    DETAILED = 2


class LayerInformationFormat(enum.IntEnum):
    ONELINE = 0
    JSON = 1


class NetworkDefinitionCreationFlag(enum.IntEnum):
    EXPLICIT_BATCH = 0
    STRONGLY_TYPED = 1
    PREFER_AOT_PYTHON_PLUGINS = 2


class BuilderFlag(enum.IntEnum):
    FP16 = 0
    INT8 = 1
    DEBUG = 2
    GPU_FALLBACK = 3
    REFIT = 4
    DISABLE_TIMING_CACHE = 5
    EDITABLE_TIMING_CACHE = 6
    TF32 = 7
    SPARSE_WEIGHTS = 8
    SAFETY_SCOPE = 9
    OBEY_PRECISION_CONSTRAINTS = 10
    PREFER_PRECISION_CONSTRAINTS = 11
    DIRECT_IO = 12
    REJECT_EMPTY_ALGORITHMS = 13
    VERSION_COMPATIBLE = 14
    EXCLUDE_LEAN_RUNTIME = 15
    FP8 = 16
    ERROR_ON_TIMING_CACHE_MISS = 17
    BF16 = 18
    DISABLE_COMPILATION_CACHE = 19
    STRIP_PLAN = 20
    REFIT_IDENTICAL = 21
    WEIGHT_STREAMING = 22
    INT4 = 23


class MemoryPoolType(enum.IntEnum):
    WORKSPACE = 0
    DLA_MANAGED_SRAM = 1
    DLA_LOCAL_DRAM = 2
    DLA_GLOBAL_DRAM = 3
    TACTIC_DRAM = 4
    TACTIC_SHARED_MEMORY = 5


class DeviceType(enum.IntEnum):
    GPU = 0
    DLA = 1


class TacticSource(enum.IntEnum):
    CUBLAS = 0
    CUBLAS_LT = 1
    CUDNN = 2
    EDGE_MASK_CONVOLUTIONS = 3
    JIT_CONVOLUTIONS = 4


class PreviewFeature(enum.IntEnum):
    PROFILE_SHARING_0806 = 0
    ALIASED_PLUGIN_IO_10_03 = 1


class HardwareCompatibilityLevel(enum.IntEnum):
    NONE = 0
    AMPERE_PLUS = 1
    SAME_COMPUTE_CAPABILITY = 2


class ExecutionContextAllocationStrategy(enum.IntEnum):
    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


class OnnxParserFlag(enum.IntEnum):
    NATIVE_INSTANCENORM = 0
    ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA = 1


class ParserErrorCode(enum.IntEnum):
    SUCCESS = 0
    INTERNAL_ERROR = 1
    MEM_ALLOC_FAILED = 2
    MODEL_DESERIALIZE_FAILED = 3
    INVALID_VALUE = 4
    INVALID_GRAPH = 5
    INVALID_NODE = 6
    UNSUPPORTED_GRAPH = 7
    UNSUPPORTED_NODE = 8
