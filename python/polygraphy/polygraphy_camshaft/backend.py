# SPDX-License-Identifier: Apache-2.0
"""A lazy loader and a runner."""
from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, Callable, Union

from polygraphy import util
from polygraphy.backend.base import BaseLoader, BaseRunner
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType

import camshaft


class SessionFromOnnx(BaseLoader):
    """A callable that makes a :class:`camshaft.Session`. ``model``: a path, bytes, a ModelProto, or a callable that returns one."""

    def __init__(self, model: Any, **options: Any):
        self._model, self._options = model, options

    def call_impl(self) -> camshaft.Session:
        model, _ = util.invoke_if_callable(self._model)
        return camshaft.Session(model, **self._options)


def session_from_onnx(model: Any, **options: Any) -> camshaft.Session:
    """The same at once."""
    return SessionFromOnnx(model, **options)()


class CamshaftRunner(BaseRunner):
    """Runs inference with Camshaft."""

    def __init__(self, session: Union[camshaft.Session, Callable[[], camshaft.Session]], name: str | None = None):
        super().__init__(name=name, prefix="camshaft-runner")
        self._given = session

    @util.check_called_by("activate")
    def activate_impl(self) -> None:
        self.session, _ = util.invoke_if_callable(self._given)

    @util.check_called_by("get_input_metadata")
    def get_input_metadata_impl(self) -> TensorMetadata:
        metadata = TensorMetadata()
        for info in self.session.get_inputs():
            metadata.add(info.name, dtype=DataType.from_dtype(info.dtype), shape=None if info.shape is None else list(info.shape))
        return metadata

    @util.check_called_by("infer")
    def infer_impl(self, feed_dict: dict[str, Any]) -> OrderedDict[str, Any]:
        """Torch tensors in give torch tensors out, as with Polygraphy's own runners."""
        use_torch = any(util.array.is_torch(array) for array in feed_dict.values())
        feed = {name: util.array.to_numpy(array) for name, array in feed_dict.items()}
        if self.session._runner is None:
            self.session.run(None, feed)  # builds for these shapes: not a part of the time
        start = time.perf_counter()
        results = self.session.run(None, feed)
        self.inference_time = time.perf_counter() - start
        names = (info.name for info in self.session.get_outputs())
        return OrderedDict((name, util.array.to_torch(array) if use_torch else array) for name, array in zip(names, results))

    @util.check_called_by("deactivate")
    def deactivate_impl(self) -> None:
        del self.session
