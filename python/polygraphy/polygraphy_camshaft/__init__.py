# SPDX-License-Identifier: Apache-2.0
"""Camshaft as a backend of Polygraphy: a loader and a runner, and ``polygraphy run --camshaft``."""
from .backend import CamshaftRunner, SessionFromOnnx, session_from_onnx

__all__ = ["CamshaftRunner", "SessionFromOnnx", "session_from_onnx"]
