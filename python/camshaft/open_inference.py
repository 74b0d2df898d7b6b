# SPDX-License-Identifier: Apache-2.0
"""Tensors as the Open Inference Protocol writes them in JSON."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from .errors import InvalidArgument
from .model import TensorInfo

_NAMES = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "bfloat16": "BF16", "bool": "BOOL", "int8": "INT8", "int16": "INT16",
          "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64"}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}


def datatype(name: str) -> str:
    """The protocol's word for an element type. :raises InvalidArgument: it has none."""
    if name not in _NAMES:
        raise InvalidArgument(f"the protocol has no name for {name}")
    return _NAMES[name]


def metadata_of(infos: Sequence[TensorInfo]) -> list[dict[str, Any]]:
    """Name, datatype and shape (-1: open) of inputs or outputs."""
    return [{"name": info.name, "datatype": datatype(info.dtype_name),
             "shape": [extent if isinstance(extent, int) else -1 for extent in info.shape or ()]} for info in infos]


def feed_of(body: Any) -> dict[str, np.ndarray]:
    """The arrays of an inference request. :raises InvalidArgument: it is none."""
    if not isinstance(body, Mapping) or not isinstance(body.get("inputs"), list):
        raise InvalidArgument("an inference request is an object with a list 'inputs'")
    feed = {}
    for tensor in body["inputs"]:
        try:
            name, kind, shape, data = tensor["name"], tensor["datatype"], tensor["shape"], tensor["data"]
            if kind not in _TYPES or kind == "BF16":
                raise InvalidArgument(f"input '{name}': datatype {kind!r}")
            feed[str(name)] = np.array(data, _TYPES[kind]).reshape([int(extent) for extent in shape])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, InvalidArgument):
                raise
            what = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
            raise InvalidArgument(f"an input is name, datatype, shape and data: {what}") from None
    return feed


def tensors_of(outputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """The tensors of an answer."""
    return [{"name": name, "datatype": datatype(array.dtype.name), "shape": list(array.shape),
             "data": array.astype(np.float32).ravel().tolist() if array.dtype.name == "bfloat16" else array.ravel().tolist()}
            for name, array in outputs.items()]
