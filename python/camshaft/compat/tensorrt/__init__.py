# SPDX-License-Identifier: Apache-2.0
"""TensorRT's Python interface, name for name, for programs that only change their import.

>>> import camshaft.compat.tensorrt as trt
>>> import camshaft.compat.cuda as cuda          # where pycuda.driver stood

Addresses are those of host memory; streams are accepted and everything is done when a call returns. What this version cannot do raises
``NotImplementedError`` or is refused in the logger; nothing is ignored silently except what concerns GPUs only.
"""
from __future__ import annotations

from .builder import (Builder, IBuilderConfig, IHostMemory, INetworkDefinition, IOptimizationProfile, IProgressMonitor, ITensor,
                      ITimingCache, OnnxParser, ParserError)
from .enums import (BuilderFlag, DataType, DeviceType, ExecutionContextAllocationStrategy, HardwareCompatibilityLevel,
                    LayerInformationFormat, MemoryPoolType, NetworkDefinitionCreationFlag, OnnxParserFlag, ParserErrorCode,
                    PreviewFeature, ProfilingVerbosity, TacticSource, TensorFormat, TensorIOMode, TensorLocation, bfloat16, bool,
                    float16, float32, int4, int8, int32, int64, nptype, uint8, volume)
from .log import ILogger, Logger
from .runtime import EngineInspector, ICudaEngine, IExecutionContext, IProfiler, Profiler, Runtime

Dims = tuple
__version__ = "10.13.0"
"""The version whose interface this is, for programs that look."""


def init_libnvinfer_plugins(logger: ILogger | None = None, namespace: str = "") -> bool:  # noqa: F811
    """There is nothing to register."""
    return True


def get_builder_plugin_registry(*ignored: object) -> None:
    """There are no plugins."""
    return None


get_plugin_registry = get_builder_plugin_registry
