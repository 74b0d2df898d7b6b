# SPDX-License-Identifier: Apache-2.0
"""The handful of pycuda.driver's names that TensorRT samples use, over host memory: ``import camshaft.compat.cuda as cuda``."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


class DeviceAllocation:
    """Memory with an address: ``int(allocation)``."""

    def __init__(self, size: int):
        self._memory = np.empty(max(size, 1), np.uint8)
        self.size = size

    def __int__(self) -> int:
        return self._memory.ctypes.data

    __index__ = __int__

    def free(self) -> None:
        """The memory goes when nobody holds it any more."""


class Stream:
    """Everything is done when a call returns."""

    handle = 0

    def synchronize(self) -> None:
        pass


def init() -> None:
    """There is nothing to begin."""


def mem_alloc(size: int) -> DeviceAllocation:
    return DeviceAllocation(int(size))


def pagelocked_empty(shape: Any, dtype: Any) -> np.ndarray:
    return np.empty(shape, dtype)


def _address(memory: Any) -> int:
    return memory.ctypes.data if isinstance(memory, np.ndarray) else int(memory)


def memcpy_htod(destination: Any, source: Any) -> None:
    """Copies all of ``source``. :raises ValueError: it is larger than the allocation."""
    source = np.ascontiguousarray(source)
    if isinstance(destination, DeviceAllocation) and source.nbytes > destination.size:
        raise ValueError(f"{source.nbytes} bytes into {destination.size}")
    ctypes.memmove(_address(destination), source.ctypes.data, source.nbytes)


def memcpy_dtoh(destination: np.ndarray, source: Any) -> None:
    """Fills ``destination``. :raises ValueError: it is larger than the allocation."""
    if isinstance(source, DeviceAllocation) and destination.nbytes > source.size:
        raise ValueError(f"{destination.nbytes} bytes from {source.size}")
    ctypes.memmove(destination.ctypes.data, _address(source), destination.nbytes)


def memcpy_htod_async(destination: Any, source: Any, stream: Any = None) -> None:
    memcpy_htod(destination, source)


def memcpy_dtoh_async(destination: np.ndarray, source: Any, stream: Any = None) -> None:
    memcpy_dtoh(destination, source)
