# SPDX-License-Identifier: Apache-2.0
"""A runtime of MLServer (``pip install camshaft[mlserver]``). ``model-settings.json``:

    {"name": "net", "implementation": "camshaft.mlserver.CamshaftRuntime",
     "parameters": {"uri": "./model.onnx", "extra": {"latency_goal_ms": 20, "max_batch_size": 16}}}

``uri`` names an ONNX model or an engine. ``extra`` takes the arguments of :class:`camshaft.batching.Batcher` (``threads``, ``contexts``,
``max_batch_size``, ``latency_goal_ms``, ``max_delay_ms``, ``queue_size``, ``measure_ms``), ``shapes`` of inputs whose other extents are open,
``cache`` (false: engines are not kept), and the fields of :class:`camshaft.BuildConfig`. Requests are put together here, as ``camshaft serve``
does it; leave MLServer's own ``max_batch_size`` and ``max_batch_time`` alone.
"""
from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.handlers import custom_handler
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor, ResponseOutput
from mlserver.utils import get_model_uri

from . import open_inference
from .batching import Batcher, batch_profiles
from .errors import CamshaftError, InvalidArgument
from .model import Source
from .session import Session

_MAX_BATCH_SIZE = 16
_OF_BATCHER = {name for name, parameter in inspect.signature(Batcher).parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}


class CamshaftRuntime(MLModel):
    """One model: an engine, and the batches that requests are put together in."""

    async def load(self) -> bool:
        uri = await get_model_uri(self.settings, wellknown_filenames=["model.engine", "model.onnx"])
        options = dict((self.settings.parameters.extra if self.settings.parameters else None) or {})
        batching = {name: options.pop(name) for name in list(options) if name in _OF_BATCHER}
        self._batcher = Batcher(_open(uri, options, batching), **batching)
        engine = self._batcher.engine
        self.inputs = [MetadataTensor(**row) for row in open_inference.metadata_of(engine.inputs)]
        self.outputs = [MetadataTensor(**row) for row in open_inference.metadata_of(engine.outputs)]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        try:
            feed = {tensor.name: _array(tensor) for tensor in payload.inputs}
            outputs = await self._batcher.run(feed)
        except CamshaftError as error:
            raise InferenceError(str(error)) from error
        wanted = [output.name for output in payload.outputs or ()] or list(outputs)
        if unknown := [name for name in wanted if name not in outputs]:
            raise InferenceError(f"no output '{unknown[0]}'; there are {', '.join(outputs)}")
        return InferenceResponse(model_name=self.name, model_version=self.version, id=payload.id,
                                 outputs=[ResponseOutput(**row) for row in open_inference.tensors_of({name: outputs[name] for name in wanted})])

    async def unload(self) -> bool:
        await self._batcher.close()
        return True

    @custom_handler(rest_path="/v2/models/{model_name}/batches", rest_method="GET")
    async def batches(self, model_name: str = "") -> dict[str, Any]:
        """Why the last batches are as they are."""
        return {"batches": [dataclasses.asdict(record) for record in self._batcher.batches()], "times_ms": self._batcher.times_ms()}


def _open(uri: str, options: dict[str, Any], batching: dict[str, Any]):
    if Source(uri).is_engine:
        return Session(uri).engine
    shapes = options.pop("shapes", None)
    profiles = batch_profiles(uri, int(batching.get("max_batch_size") or _MAX_BATCH_SIZE), shapes)
    if profiles is not None:
        options["profiles"] = profiles
    elif shapes is not None:
        options["shapes"] = shapes
    return Session(uri, threads=batching.get("threads", 0), **options).engine


def _array(tensor: Any) -> np.ndarray:
    try:
        return np.ascontiguousarray(NumpyCodec.decode_input(tensor))
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidArgument(f"input '{tensor.name}': {error}") from None
