# SPDX-License-Identifier: Apache-2.0
"""A deployment of Ray Serve."""
from __future__ import annotations

import dataclasses
from typing import Any, Mapping

import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

from .. import open_inference
from ..batching import Batcher, Overloaded
from ..errors import CamshaftError, InvalidArgument
from .resources import threads
from .shipping import SharedEngine


class Replica:
    """One replica: an engine, and the batches that its requests are put together in."""

    def __init__(self, engine: SharedEngine, name: str, options: dict[str, Any]):
        self._name = name
        self._batcher = Batcher(engine.open(), threads=threads(), **options)

    async def infer(self, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """``await handle.infer.remote({"x": rows})``: outputs by name."""
        return await self._batcher.run(feed)

    async def batches(self, limit: int = 32) -> list[dict[str, Any]]:
        """Why this replica's last batches are as they are, newest first."""
        return [dataclasses.asdict(record) for record in self._batcher.batches(limit)]

    async def times_ms(self) -> dict[int, float]:
        """What a run of each size takes."""
        return self._batcher.times_ms()

    async def __call__(self, request: Request) -> JSONResponse:
        """The Open Inference Protocol in JSON, for one model."""
        try:
            return await self._answer(request)
        except Overloaded as error:
            return JSONResponse({"error": str(error)}, 503)
        except InvalidArgument as error:
            return JSONResponse({"error": str(error)}, 400)
        except CamshaftError as error:
            return JSONResponse({"error": str(error)}, 500)

    async def _answer(self, request: Request) -> JSONResponse:
        model = f"/v2/models/{self._name}"
        path = request.url.path.removeprefix(request.scope.get("root_path", "")).rstrip("/")
        if request.method == "POST" and path == f"{model}/infer":
            try:
                body = await request.json()
            except ValueError as error:
                raise InvalidArgument(f"not JSON: {error}") from None
            outputs = await self._batcher.run(open_inference.feed_of(body))
            answer: dict[str, Any] = {"model_name": self._name, "outputs": open_inference.tensors_of(outputs)}
            if isinstance(body.get("id"), str):
                answer["id"] = body["id"]
            return JSONResponse(answer)
        if request.method == "GET" and path in ("/v2/health/live", "/v2/health/ready", f"{model}/ready"):
            return JSONResponse({})
        if request.method == "GET" and path == model:
            engine = self._batcher.engine
            return JSONResponse({"name": self._name, "platform": "camshaft_engine", "inputs": open_inference.metadata_of(engine.inputs),
                                 "outputs": open_inference.metadata_of(engine.outputs)})
        if request.method == "GET" and path == f"{model}/batches":
            return JSONResponse({"batches": await self.batches(), "times_ms": await self.times_ms()})
        return JSONResponse({"error": f"{request.method} {path}: there is {model}"}, 404)


def deployment(engine: SharedEngine, *, name: str = "camshaft", num_replicas: int = 1, num_cpus: float = 1,
               max_ongoing_requests: int = 1024, latency_goal_ms: float = 0, max_delay_ms: float = 0, max_batch_size: int = 0,
               contexts: int = 1, queue_size: int = 4096, measure_ms: float = 1500, **options: Any) -> serve.Application:
    """An application for ``serve.run``: over HTTP the Open Inference Protocol at ``/v2/models/NAME``, over a handle ``infer``.

    Requests are put together as ``camshaft serve`` does it: sizes and waits follow the measured time of each batch size and the latency
    goal; ``batches`` and ``/v2/models/NAME/batches`` say why each batch is as it is.

    :param engine: of :func:`camshaft.ray.build` or :func:`camshaft.ray.ship`.
    :param num_cpus: of a replica; a run takes as many threads.
    :param latency_goal_ms, max_delay_ms, max_batch_size, contexts, queue_size, measure_ms: as of :class:`camshaft.batching.Batcher`.
    :param options: others of ``serve.deployment``, for example ``autoscaling_config``.
    """
    batching = {"latency_goal_ms": latency_goal_ms, "max_delay_ms": max_delay_ms, "max_batch_size": max_batch_size, "contexts": contexts,
                "queue_size": queue_size, "measure_ms": measure_ms}
    actor = {**options.pop("ray_actor_options", {}), "num_cpus": num_cpus}
    if "autoscaling_config" not in options:
        options["num_replicas"] = num_replicas
    made = serve.deployment(Replica, name=name, ray_actor_options=actor, max_ongoing_requests=max_ongoing_requests, **options)
    return made.bind(engine, name, batching)
