# SPDX-License-Identifier: Apache-2.0
"""Arrays that cannot be read or written as they are: other types, other strides, 16-bit and 4-bit types of ml_dtypes."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .errors import InvalidArgument

_PACKED = ("int4", "uint4")


def dtype(name: str) -> np.dtype:
    """NumPy's type of that name; ``bfloat16``, ``int4`` and ``uint4`` come from the package ml_dtypes.

    :raises InvalidArgument: ml_dtypes is needed and not installed.
    """
    if name not in ("bfloat16", *_PACKED):
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise InvalidArgument(f"tensors of {name} need the package ml_dtypes") from None
    return np.dtype(getattr(ml_dtypes, name))


def pack4(codes: np.ndarray) -> np.ndarray:
    """Two 4-bit codes per byte, the first in the low half."""
    flat = codes.reshape(-1).view(np.uint8) & 15
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    return np.ascontiguousarray(flat[0::2] | flat[1::2] << 4)


def unpack4(packed: np.ndarray, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of :func:`pack4`, as an array of ml_dtypes' type."""
    codes = np.empty(packed.size * 2, np.uint8)
    codes[0::2], codes[1::2] = packed & 15, packed >> 4
    codes = codes[: math.prod(shape)]
    values = codes.astype(np.int8) if name == "uint4" else (codes.astype(np.int8) ^ 8) - 8
    return values.astype(dtype(name)).reshape(shape)


def from_bytes(raw: np.ndarray, name: str, shape: list[int]) -> np.ndarray:
    """An output of a type NumPy does not have, over its bytes."""
    if name in _PACKED:
        return unpack4(raw, name, tuple(shape))
    return raw.view(dtype(name)).reshape(shape)


def _to_numpy(array: Any) -> np.ndarray:
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "detach"):  # torch: what needs a gradient, lies elsewhere or is of another layout
        array = array.detach().cpu().contiguous()
        if str(array.dtype) == "torch.bfloat16":
            import torch
            return array.view(torch.uint16).numpy().view(dtype("bfloat16"))
        return array.numpy()
    return np.asarray(array)


def _wrong(name: str, wanted: str, array: np.ndarray) -> InvalidArgument:
    return InvalidArgument(f"'{name}' is {wanted}, the array given {array.dtype}{list(array.shape)}")


def _carrier(values: np.ndarray) -> np.ndarray:
    """The same memory under a type that the module can look at."""
    return values if values.dtype.kind in "fiub" and values.dtype.isnative else values.view(np.uint8 if values.dtype.itemsize == 1
                                                                                             else np.uint16)


def as_input(array: Any, wanted: str, name: str) -> tuple[np.ndarray, str, list[int]]:
    """A row-major array, a copy if it must be. Lists and Python numbers take the wanted type, arrays must have it; ``""``: any."""
    is_array = hasattr(array, "dtype")
    values = _to_numpy(array)
    kind = values.dtype.name
    if wanted and kind != wanted:
        if is_array:
            raise _wrong(name, wanted, values)
        values, kind = values.astype(dtype(wanted)), wanted
    shape = list(values.shape)
    values = np.ascontiguousarray(values)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    return pack4(values) if kind in _PACKED else _carrier(values), kind, shape


def as_output(array: Any, wanted: str, name: str) -> tuple[np.ndarray, str, list[int]]:
    """The memory of an array of 16-bit brain floats; everything else has been looked at and does not fit."""
    values = array if isinstance(array, np.ndarray) else None
    if values is not None and values.dtype.name == wanted == "bfloat16" and values.flags.c_contiguous and values.flags.writeable:
        return values.view(np.uint16), wanted, list(values.shape)
    raise InvalidArgument(f"output '{name}' needs writable row-major host memory of {wanted}, given "
                          + (f"{values.dtype}{list(values.shape)}" if values is not None else type(array).__name__))
