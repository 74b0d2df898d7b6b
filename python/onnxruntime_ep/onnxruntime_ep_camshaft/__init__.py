# SPDX-License-Identifier: Apache-2.0
"""Camshaft as an execution provider of ONNX Runtime 1.23 and later.

>>> import onnxruntime, onnxruntime_ep_camshaft
>>> onnxruntime.register_execution_provider_library("camshaft", onnxruntime_ep_camshaft.get_library_path())
>>> session = onnxruntime.InferenceSession("model.onnx", providers=[onnxruntime_ep_camshaft.get_ep_name()])

This package does not import onnxruntime and does not depend on a particular flavour of it.
"""
from __future__ import annotations

import pathlib

__all__ = ["get_ep_name", "get_ep_names", "get_library_path"]


def get_library_path() -> str:
    """The plugin library, for ``onnxruntime.register_execution_provider_library``."""
    return str(pathlib.Path(__file__).resolve().parent / "libcamshaft-ep.so")


def get_ep_names() -> list[str]:
    """The execution providers in it."""
    return ["CamshaftExecutionProvider"]


def get_ep_name() -> str:
    """The only one."""
    return get_ep_names()[0]
