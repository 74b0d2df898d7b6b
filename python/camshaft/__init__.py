# SPDX-License-Identifier: Apache-2.0
"""Camshaft: optimizes, runs and explains ONNX networks on CPUs.

>>> import camshaft
>>> session = camshaft.Session("model.onnx")
>>> outputs = session.run(None, {"x": array})
"""
from . import _core
from .builder import BuildConfig, ModelInfo, build, inspect_model
from .cache import EngineCache
from .engine import Engine
from .errors import (Cancelled, CamshaftError, CorruptEngine, FileError, InternalError, InvalidArgument, InvalidModel, NodeIssue,
                     Unsupported)
from .explain import Explanation
from .layers import LayerTable, ProfileTable
from .model import TensorInfo
from .quantization import QuantizeReport, SparsifyReport, VerifyReport, quantize, sparsify, verify
from .session import AsyncRun, IoBinding, Session
from .trace import Trace, read_trace
from . import log

__version__: str = _core.version
log.set_level("warning")

__all__ = ["AsyncRun", "BuildConfig", "Cancelled", "CamshaftError", "CorruptEngine", "Engine", "EngineCache", "Explanation", "FileError",
           "InternalError", "InvalidArgument", "InvalidModel", "IoBinding", "LayerTable", "ModelInfo", "NodeIssue",
           "ProfileTable", "QuantizeReport", "Session", "SparsifyReport", "TensorInfo", "Trace", "Unsupported", "VerifyReport", "build", "inspect_model",
           "log", "quantize", "read_trace", "sparsify", "verify"]
