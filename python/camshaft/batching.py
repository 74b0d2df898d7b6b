# SPDX-License-Identifier: Apache-2.0
"""Requests of many callers put together into batches, by the policy of ``camshaft serve``: sizes and waits come from the measured time of
each batch size and a latency goal. For servers written in Python; :mod:`camshaft.ray` and :mod:`camshaft.mlserver` are made of it.

>>> batcher = Batcher(camshaft.build("model.onnx", profiles=batch_profiles("model.onnx", 16)), latency_goal_ms=20)
>>> outputs = await batcher.run({"x": rows})       # from any number of coroutines of one event loop
"""
from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import dataclasses
import time
from typing import Any, Mapping, Sequence

import numpy as np

from . import _core
from .builder import inspect_model
from .engine import Engine
from .errors import CamshaftError, InvalidArgument
from .model import ModelLike, TensorInfo

_MOST_RUNS = 20  # of one batch size while measuring
_MOST_SKIPPED = 64  # waiting requests of other shapes that are looked past
_RECORDS = 256


class Overloaded(CamshaftError):
    """The queue is full: try again later."""


def batch_profiles(model: ModelLike, max_batch_size: int, shapes: Mapping[str, Sequence[int]] | None = None) -> list[dict] | None:
    """Profiles for :func:`camshaft.build` of a network whose first extents are open: single rows and full batches are tuned, all between
    them can be run. None: it has none.

    :param shapes: of inputs with other open extents: ``{"image": (1, 3, 224, 224)}``; the first number does not matter.
    :raises InvalidArgument: another extent is open and not given.
    """
    inputs = inspect_model(model).inputs
    if not is_batched(inputs):
        return None
    profiles: list[dict] = []
    for rows in sorted({1, max_batch_size}):
        ranges = {}
        for info in inputs:
            given = list((shapes or {}).get(info.name, info.shape))
            if any(not isinstance(extent, int) for extent in given[1:]):
                raise InvalidArgument(f"input '{info.name}' is {list(info.shape)}: shapes={{...}} must say what it is but for the batch")
            ranges[info.name] = ([1, *given[1:]], [rows, *given[1:]], [max_batch_size, *given[1:]])
        profiles.append(ranges)
    return profiles


def is_batched(infos: Sequence[TensorInfo]) -> bool:
    """Whether the first extent of all of them is one open one."""
    firsts = {info.shape[0] if info.shape else 1 for info in infos}
    return len(firsts) == 1 and not isinstance(firsts.pop(), int)


def largest_batch(engine: Engine) -> int:
    """Rows that one run takes at most; 0: the network has no open batch."""
    if not engine.profiles or not is_batched([*engine.inputs, *engine.outputs]):
        return 0
    ranges = engine.profiles[0]
    if any(info.name not in ranges or not ranges[info.name][0] or ranges[info.name][0][0] > 1 for info in engine.inputs):
        return 0
    return min(most[0] for _, _, most in ranges.values())


@dataclasses.dataclass
class BatchRecord:
    """One run of the engine and why it was made as it was."""

    requests: int
    rows: int
    size: int
    """Rows and those that only fill it up."""
    waited_ms: float
    """Of the request that came first."""
    expected_ms: float
    took_ms: float
    why: str


class _Request:
    __slots__ = ("feed", "rows", "shapes", "arrived_us", "future")

    def __init__(self, feed: dict[str, np.ndarray], rows: int, shapes: tuple, now_us: float, future: asyncio.Future):
        self.feed, self.rows, self.shapes, self.arrived_us, self.future = feed, rows, shapes, now_us, future


def _now_us() -> float:
    return time.perf_counter() * 1e6


class Batcher:
    """Runs an engine for many callers of one event loop.

    :param engine: built with an open batch, see :func:`batch_profiles`; without one every request runs alone.
    :param threads: of one run; 0: all this process may use.
    :param contexts: runs at the same time.
    :param max_batch_size: rows of one run; 0: as many as the engine takes.
    :param latency_goal_ms: what a request may take: bounds batches, and how long a free context waits for more. 0: no waiting.
    :param max_delay_ms: a request waits so long at most for others; 0: as the goal says.
    :param queue_size: requests that may wait; more raise :class:`Overloaded`.
    :param measure_ms: time to measure batch sizes in.
    """

    def __init__(self, engine: Engine, *, threads: int = 0, contexts: int = 1, max_batch_size: int = 0, latency_goal_ms: float = 0,
                 max_delay_ms: float = 0, queue_size: int = 4096, measure_ms: float = 1500):
        self._session = engine.session(threads=threads, contexts=contexts)
        self.engine = engine
        bound = largest_batch(engine)
        self._is_batched = bound > 0
        self._planner = _core.BatchPlanner(max(1, min(bound, max_batch_size or bound)), latency_goal_ms * 1e3, max_delay_ms * 1e3)
        self._infos = {info.name: info for info in engine.inputs}
        self._names = [info.name for info in engine.outputs]
        self._contexts, self._queue_size = contexts, queue_size
        self._executor = concurrent.futures.ThreadPoolExecutor(contexts, "camshaft")
        self._waiting: collections.deque[_Request] = collections.deque()
        self._records: collections.deque[BatchRecord] = collections.deque(maxlen=_RECORDS)
        self._workers: list[asyncio.Task] = []
        self._came: asyncio.Event | None = None
        self._measure(measure_ms)

    # What callers use

    async def run(self, feed: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs of one request, by name. Its first extents are its rows.

        :raises InvalidArgument: a name, type or shape is wrong.
        :raises Overloaded: too many wait.
        """
        arrays, rows, shapes = self._look_at(feed)
        if len(self._waiting) >= self._queue_size:
            raise Overloaded(f"{len(self._waiting)} requests wait")
        loop = asyncio.get_running_loop()
        if self._came is None:
            self._came = asyncio.Event()
            self._workers = [loop.create_task(self._work()) for _ in range(self._contexts)]
        request = _Request(arrays, rows, shapes, _now_us(), loop.create_future())
        self._planner.came(request.arrived_us, rows)
        self._waiting.append(request)
        self._came.set()
        return await request.future

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    def batches(self, limit: int = 32) -> list[BatchRecord]:
        """The last runs, newest first, each with its reason."""
        return list(self._records)[::-1][:limit]

    def times_ms(self) -> dict[int, float]:
        """What a run of each size takes: as measured, and as seen since."""
        return {size: self._planner.time_of(size) / 1e3 for size in self._planner.sizes}

    async def close(self) -> None:
        """Ends; what waits is cancelled."""
        for task in self._workers:
            task.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for request in self._waiting:
            request.future.cancel()
        self._executor.shutdown(wait=False)

    # Requests

    def _look_at(self, feed: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], int, tuple]:
        for name in feed:
            if name not in self._infos:
                raise InvalidArgument(f"no input '{name}'; there are {', '.join(self._infos)}")
        arrays, shapes, rows = {}, [], None
        for name, info in self._infos.items():
            if name not in feed:
                raise InvalidArgument(f"input '{name}' is missing")
            array = np.asarray(feed[name])
            if array.dtype != info.dtype:
                raise InvalidArgument(f"input '{name}' is {info.dtype_name}, the array given {array.dtype}")
            if info.shape is not None and len(info.shape) != array.ndim:
                raise InvalidArgument(f"input '{name}' has {len(info.shape)} dimensions, the array given {list(array.shape)}")
            if self._is_batched:
                if rows not in (None, array.shape[0]):
                    raise InvalidArgument(f"input '{name}' has {array.shape[0]} rows, others {rows}")
                rows = array.shape[0]
            arrays[name] = array
            shapes.append(array.shape[1:] if self._is_batched else array.shape)
        most = self._planner.sizes[-1]
        if self._is_batched and not 1 <= (rows or 0) <= most:
            raise InvalidArgument(f"{rows} rows; a request has 1 to {most}")
        return arrays, rows or 1, tuple(shapes)

    # The queue

    def _take(self) -> tuple[list[_Request], BatchRecord] | float:
        """The next batch, or for how many seconds to wait for more."""
        limit = self._planner.limit if self._is_batched else 1
        first, taken, rows_up_to, skipped = self._waiting[0], [], [], 0
        for request in self._waiting:
            rows = (rows_up_to[-1] if rows_up_to else 0) + request.rows
            if taken and (rows > limit or request.shapes != first.shapes):
                skipped += 1
                if rows_up_to[-1] >= limit or skipped > _MOST_SKIPPED:
                    break
                continue
            taken.append(request)
            rows_up_to.append(rows)
        now = _now_us()
        count, rows, size, wait_us, why = self._planner.choose(rows_up_to, len(taken) == len(self._waiting), now - first.arrived_us, now)
        if count == 0:
            return max(wait_us, 50) / 1e6
        chosen = taken[:count]
        gone = set(map(id, chosen))
        self._waiting = collections.deque(request for request in self._waiting if id(request) not in gone)
        chosen = [request for request in chosen if not request.future.done()]  # who does not wait any more has been cancelled
        rows = sum(request.rows for request in chosen)
        size = max(self._planner.size_for(rows), rows) if self._is_batched else 1
        return chosen, BatchRecord(len(chosen), rows, size, (now - first.arrived_us) / 1e3, self._planner.time_of(size) / 1e3, 0, why)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._came is not None
        while True:
            if not self._waiting:
                self._came.clear()
                await self._came.wait()
                continue
            taken = self._take()
            if isinstance(taken, float):
                self._came.clear()
                try:
                    await asyncio.wait_for(self._came.wait(), taken)
                except asyncio.TimeoutError:
                    pass
                continue
            requests, record = taken
            if not requests:
                continue
            results, took_us = await loop.run_in_executor(self._executor, self._run_batch, requests, record.size)
            self._planner.seen(record.size, took_us)
            record.took_ms = took_us / 1e3
            self._records.append(record)
            for request, result in zip(requests, results):
                if request.future.done():
                    continue
                if isinstance(result, BaseException):
                    request.future.set_exception(result)
                else:
                    request.future.set_result(result)

    # Runs, in threads

    def _run_batch(self, requests: list[_Request], size: int) -> tuple[list[Any], float]:
        start = _now_us()
        try:
            results: list[Any] = self._run_together(requests, size)
        except Exception as error:  # noqa: BLE001: one request's data may be at fault
            results = [error] if len(requests) == 1 else [self._run_alone(request) for request in requests]
        return results, _now_us() - start

    def _run_alone(self, request: _Request) -> Any:
        try:
            return self._run_together([request], self._planner.size_for(request.rows))[0]
        except Exception as error:  # noqa: BLE001: the caller's
            return error

    def _run_together(self, requests: list[_Request], size: int) -> list[dict[str, np.ndarray]]:
        rows = sum(request.rows for request in requests)
        if not self._is_batched or (len(requests) == 1 and rows == size):
            return [dict(zip(self._names, self._session.run(None, requests[0].feed)))]
        feed = {}
        for name, info in self._infos.items():
            shape = requests[0].feed[name].shape[1:]
            gathered = np.empty((size, *shape), info.dtype)
            np.concatenate([request.feed[name] for request in requests], out=gathered[:rows])
            gathered[rows:] = 0  # they only fill the batch up
            feed[name] = gathered
        outputs = self._session.run(None, feed)
        results, begin = [], 0
        for request in requests:
            end = begin + request.rows
            results.append({name: output[begin:end] for name, output in zip(self._names, outputs)})
            begin = end
        return results

    def _measure(self, budget_ms: float) -> None:
        """Every size runs once, which also plans it; the least time counts: what else the machine did is no property of the network."""
        feed = self.engine.example_feed()
        sizes = self._planner.sizes
        for size in sizes:
            sample = {name: np.resize(array, (size, *array.shape[1:])) if self._is_batched else array for name, array in feed.items()}
            times: list[float] = []
            end = time.perf_counter() + budget_ms / 1e3 / len(sizes)
            while not times or (len(times) <= _MOST_RUNS and time.perf_counter() < end):
                start = _now_us()
                try:
                    self._session.run(None, sample)
                except CamshaftError:
                    return  # random values are nothing it takes
                times.append(_now_us() - start)
            self._planner.measured(size, min(times[1:] or times))
