# SPDX-License-Identifier: Apache-2.0
"""Models from files, bytes and ModelProto objects, and what networks say of their inputs and outputs."""
from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any, Iterator, Union

import numpy as np

from . import _core, arrays
from .errors import FileError

ModelLike = Union[str, "os.PathLike[str]", bytes, Any]
"""A path, the bytes of an ONNX file, or an ``onnx.ModelProto``."""

# Types as ONNX Runtime spells them.
_ORT_NAMES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class TensorInfo:
    """An input or output. ``shape`` has numbers, names of symbols (``"batch"``) and None where nothing is known; the shape itself
    is None where not even the rank is."""

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype_name: str

    @property
    def dtype(self) -> np.dtype:
        """NumPy's type; for bfloat16, int4 and uint4 that of ml_dtypes."""
        return arrays.dtype(self.dtype_name)

    @property
    def type(self) -> str:
        """ONNX Runtime's word: ``"tensor(float)"``."""
        return f"tensor({_ORT_NAMES.get(self.dtype_name, self.dtype_name)})"

    @property
    def is_dynamic(self) -> bool:
        """Whether an extent is known only when arrays come."""
        return self.shape is None or not all(isinstance(extent, int) for extent in self.shape)


def tensor_infos(infos: list[_core.TensorInfo]) -> list[TensorInfo]:
    return [TensorInfo(info.name, None if info.shape is None else tuple(info.shape), info.dtype) for info in infos]


def _blocks(path: pathlib.Path) -> Iterator[bytes]:
    """:raises FileError: it cannot be read."""
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                yield block
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


class Source:
    """Where a model comes from: opened as often as needed, hashed without being imported."""

    def __init__(self, model: ModelLike, external_data: str | os.PathLike[str] | None = None):
        self.path: pathlib.Path | None = None
        self._bytes: bytes | None = None
        if isinstance(model, (str, os.PathLike)):
            self.path = pathlib.Path(model)
        elif isinstance(model, (bytes, bytearray, memoryview)):
            self._bytes = bytes(model)
        elif hasattr(model, "SerializeToString"):
            self._bytes = model.SerializeToString()
        else:
            raise TypeError(f"a model is a path, bytes or an onnx.ModelProto, not {type(model).__name__}")
        self.external_data = pathlib.Path(external_data) if external_data is not None else None

    @property
    def is_engine(self) -> bool:
        """Whether this is an engine file rather than an ONNX model (by its magic)."""
        if self.path is None:
            return False
        try:
            with open(self.path, "rb") as file:
                return file.read(8) == b"CAMSHAFT"
        except OSError:
            return False

    def open(self) -> _core.Model:
        if self.path is not None:
            return _core.Model.from_file(self.path)
        return _core.Model.from_memory(self._bytes, self.external_data or "")

    def read(self) -> bytes:
        """The bytes of the model's file."""
        return self._bytes if self._bytes is not None else b"".join(_blocks(self.path))

    @property
    def has_weight_files(self) -> bool:
        """Whether some of its weights lie in files beside it."""
        return self._names_external_data()

    def content(self) -> Iterator[bytes]:
        """What makes the model the one it is: its bytes, and size and time of the weight files beside it."""
        folder = self.external_data
        if self.path is not None:
            folder = self.path.parent
            yield from _blocks(self.path)
        else:
            yield self._bytes or b""
        for path in sorted(folder.iterdir()) if folder is not None and self._names_external_data() else ():
            if path.is_file() and path != self.path:
                stat = path.stat()
                yield f"{path.name}:{stat.st_size}:{stat.st_mtime_ns};".encode()

    def _names_external_data(self) -> bool:
        """TensorProto.external_data has a key "location": the word is in every file that stores weights elsewhere."""
        if self._bytes is not None:
            return b"location" in self._bytes
        tail = b""
        for block in _blocks(self.path):
            if b"location" in tail + block:
                return True
            tail = block[-8:]
        return False
