# SPDX-License-Identifier: Apache-2.0
"""ONNX's backend interface: what ``onnx.backend.test`` and programs written for it call.

>>> import camshaft.backend
>>> outputs = camshaft.backend.prepare(model).run([array])
"""
from __future__ import annotations

from collections import namedtuple
from typing import Any, Sequence

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from .session import Session


class Prepared(BackendRep):
    """A model ready to run on arrays in the order of its inputs."""

    def __init__(self, session: Session):
        self._session = session
        names = [info.name for info in session.get_outputs()]
        self._names = names
        # Names of outputs need not be identifiers.
        self._result = namedtuple("Outputs", names, rename=True)

    def run(self, inputs: Any, **options: Any) -> tuple[np.ndarray, ...]:
        """Arrays by position, a dict by name, or a single array; returns a named tuple of arrays."""
        if isinstance(inputs, dict):
            feed = inputs
        else:
            arrays = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            feed = dict(zip((info.name for info in self._session.get_inputs()), arrays))
        return self._result(*self._session.run(None, feed))


class CamshaftBackend(Backend):
    """Builds an engine for the model; ``options`` are those of :class:`Session`."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Prepared:
        """:raises CamshaftError: as :class:`Session` does."""
        if not cls.supports_device(device):
            raise ValueError(f"device {device!r}: there is only the CPU")
        return Prepared(Session(model, **{"cache": False, **options}))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **options: Any) -> tuple[np.ndarray, ...]:
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Sequence[np.ndarray], device: str = "CPU", outputs_info: Any = None,
                 **options: Any) -> tuple[np.ndarray, ...]:
        """One node as a network of its own, of the newest opset the package onnx knows (or ``opset_version``)."""
        version = options.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = dict(zip([name for name in node.input if name], map(np.asarray, inputs)))
        values = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                  for name, array in arrays.items()]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", values, results)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)])
        return cls.run_model(onnx.shape_inference.infer_shapes(model), arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


is_compatible = CamshaftBackend.is_compatible
prepare = CamshaftBackend.prepare
run = CamshaftBackend.run_model
run_model = CamshaftBackend.run_model
run_node = CamshaftBackend.run_node
supports_device = CamshaftBackend.supports_device
