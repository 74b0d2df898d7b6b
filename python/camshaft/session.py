# SPDX-License-Identifier: Apache-2.0
"""Running networks."""
from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from typing import Any, Generator, Mapping, Sequence

import numpy as np

from . import _core
from .builder import BuildConfig, Shapes, build_opened, make_config, ranges_of
from .cache import EngineCache, key_of
from .engine import Engine
from .errors import CorruptEngine, InvalidArgument
from .model import ModelLike, Source, TensorInfo, tensor_infos
from .progress import Progress

# The largest extent of a dynamic input for which nobody gave shapes. Kernels are tuned at the first shape that comes;
# memory is planned for the shape at hand, so a generous bound costs nothing.
_LARGEST = 1 << 20


def _shape_of(array: Any) -> list[int]:
    return [int(extent) for extent in (array.shape if hasattr(array, "shape") else np.shape(array))]


class AsyncRun:
    """The result of :meth:`Session.run_async`: ``await`` it, or call :meth:`result`."""

    def __init__(self, future: concurrent.futures.Future):
        self._future = future

    def __await__(self) -> Generator[Any, None, list]:
        return asyncio.wrap_future(self._future).__await__()

    def result(self, timeout: float | None = None) -> list:
        """Waits, at most ``timeout`` seconds. :raises TimeoutError: and whatever the run raised."""
        return self._future.result(timeout)

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> bool:
        """Takes it out of the queue; False: it has begun or ended. A run that has begun is not stopped."""
        return self._future.cancel()


class IoBinding:
    """Arrays bound to inputs and outputs once and run many times: ``session.io_binding()``."""

    def __init__(self, session: Session):
        self._session = session
        self._binding: _core.Binding | None = None
        self._runner: _core.Runner | None = None  # of the binding; the session may have a wider one
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}

    def bind_input(self, name: str, array: Any) -> None:
        """Reads this memory at every run (row major; else a copy of now is bound)."""
        self._inputs[name] = array
        if self._binding is not None:
            self._binding.bind_input(self._runner, name, array)

    bind_cpu_input = bind_input

    def bind_output(self, name: str, array: Any = None) -> None:
        """Writes this output into ``array`` (writable, row major, of the output's type and shape); None: new memory every run.

        :raises InvalidArgument: the memory does not fit.
        """
        self._outputs[name] = array
        if self._binding is not None:
            self._binding.bind_output(self._runner, name, array)

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()
        if self._binding is not None:
            self._binding.clear_inputs()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        if self._binding is not None:
            self._binding.clear_outputs()

    def get_outputs(self) -> list:
        """The bound outputs of the last run, in the network's order."""
        return self._binding.outputs() if self._binding is not None else []

    copy_outputs_to_cpu = get_outputs

    def _run(self) -> None:
        while True:
            if self._binding is None:
                self._runner = runner = self._session._runner_for(self._inputs)
                self._binding = _core.Binding(runner)
                for name, array in self._inputs.items():
                    self._binding.bind_input(runner, name, array)
                for name, array in self._outputs.items():
                    self._binding.bind_output(runner, name, array)
            try:
                return self._binding.run(self._runner)
            except InvalidArgument:
                if not self._session._widen(self._inputs, self._runner):
                    raise
                self._binding = None


class Session:
    """A network ready to run, from any thread.

    >>> session = camshaft.Session("model.onnx")
    >>> scores, = session.run(None, {"x": array})

    The engine is built at the first start and kept in a folder (see :class:`EngineCache`); later starts map it. A network with dynamic
    extents for which no ``shapes`` are given is tuned for the first arrays that come and takes all others, too.

    :param model: a path to an ONNX model or an engine, the bytes of a model, an ``onnx.ModelProto``, or an :class:`Engine`.
    :param threads: of one run; 0: ``CAMSHAFT_NUM_THREADS``, else all this process may use.
    :param contexts: runs that may happen at the same time, each with its own memory and threads; further ones wait.
    :param cache: True: the default folder; False: none; a path; or an :class:`EngineCache`.
    :param progress: as of :func:`build`.
    :param profile: the optimization profile to run.
    :param options: fields of :class:`BuildConfig`: ``shapes``, ``precision``, ``optimization_level`` and the others.
    :raises InvalidModel, Unsupported, InvalidArgument, CorruptEngine, FileError: as :func:`build` and :meth:`Engine.load` do.
    """

    def __init__(self, model: ModelLike | Engine, config: BuildConfig | None = None, *, threads: int = 0, contexts: int = 1,
                 cache: bool | str | os.PathLike[str] | EngineCache = True, progress: Progress = None, profile: int = 0,
                 spin_us: int = 50, external_data: str | os.PathLike[str] | None = None, **options: Any):
        self._run_options = {"threads": threads, "contexts": contexts, "profile": profile, "spin_us": spin_us}
        self._config = make_config(config, {"threads": threads, **options})
        self._progress = progress
        self._lock = threading.Lock()
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self._cache = None if cache is False else cache if isinstance(cache, EngineCache) else EngineCache(None if cache is True else cache)
        self._source: Source | None = None
        self._automatic = False  # shapes are chosen here
        self._opened: _core.Model | None = None
        # Of the model as it was imported, if it was: an engine may be more specific.
        self._opened_infos: tuple[list[TensorInfo], list[TensorInfo]] | None = None
        self.from_cache = False
        """Whether the engine was found in the cache rather than built."""
        if isinstance(model, Engine):
            self._use(model)
            return
        self._source = Source(model, external_data)
        if self._source.is_engine:
            self._use(Engine.load(self._source.path))
        else:
            self._start()

    # What is there

    @property
    def engine(self) -> Engine:
        """The engine. :raises InvalidArgument: the network is dynamic and nothing has been run yet."""
        if self._engine is None:
            raise InvalidArgument("the engine is built for the shapes of the first run; give shapes=… to build it at once")
        return self._engine

    @property
    def threads(self) -> int:
        """Threads of one run."""
        return self._runner.threads if self._runner is not None else self._run_options["threads"] or _core.default_num_threads()

    def get_inputs(self) -> list[TensorInfo]:
        """Name, shape, type and dtype of every input."""
        return list(self._inputs)

    def get_outputs(self) -> list[TensorInfo]:
        """Name, shape, type and dtype of every output."""
        return list(self._outputs)

    def get_providers(self) -> list[str]:
        """For code written for ONNX Runtime: ``["CamshaftExecutionProvider"]``."""
        return ["CamshaftExecutionProvider"]

    # Running

    def run(self, output_names: Sequence[str] | Mapping[str, Any] | None, feed: Mapping[str, Any] | None = None,
            run_options: Any = None) -> list[np.ndarray]:
        """One inference. ``run(feed)`` is short for ``run(None, feed)``.

        :param output_names: which outputs, in this order; None or empty: all.
        :param feed: input name to array: NumPy, torch, or anything with DLPack or the buffer protocol. Row-major arrays of the input's
            type are read in place; others are copied, other types refused. bfloat16 and 4-bit inputs take ml_dtypes arrays.
        :returns: new NumPy arrays.
        :raises InvalidArgument: a name, type or shape is wrong.
        """
        if feed is None:
            output_names, feed = None, output_names
        names = output_names or None
        if type(feed) is not dict:
            feed = dict(feed)
        runner = self._runner or self._runner_for(feed)
        while True:  # what another thread has widened meanwhile holds its shapes, not yet ours
            try:
                return runner.run(names, feed)
            except InvalidArgument:
                if not self._widen(feed, runner):
                    raise
                runner = self._runner

    def __call__(self, *arrays: Any, **named: Any) -> dict[str, np.ndarray]:
        """Arrays by position or by name; returns outputs by name."""
        feed = dict(zip((info.name for info in self._inputs), arrays))
        feed.update(named)
        return dict(zip((info.name for info in self._outputs), self.run(None, feed)))

    def io_binding(self) -> IoBinding:
        """Preallocated arrays for :meth:`run_with_iobinding`."""
        return IoBinding(self)

    def run_with_iobinding(self, binding: IoBinding, run_options: Any = None) -> None:
        """One inference on what is bound."""
        binding._run()

    def run_async(self, output_names: Sequence[str] | Mapping[str, Any] | None, feed: Mapping[str, Any] | None = None) -> AsyncRun:
        """Puts a run into the queue; as many run at a time as the session has ``contexts``."""
        with self._lock:
            if self._executor is None:
                self._executor = concurrent.futures.ThreadPoolExecutor(self._run_options["contexts"], "camshaft")
        return AsyncRun(self._executor.submit(self.run, output_names, feed))

    # Building

    def _use(self, engine: Engine) -> None:
        self._engine: Engine | None = engine
        if self._opened_infos is None:
            self._opened_infos = engine.inputs, engine.outputs
        self._inputs, self._outputs = self._opened_infos
        self._runner: _core.Runner | None = _core.Runner(engine._core, **self._run_options)

    def _key(self) -> str:
        return key_of(self._source.content(), {**self._config.facts(), "automatic": self._automatic})

    def _start(self) -> None:
        has_shapes = self._config.shapes is not None or self._config.profiles is not None
        for self._automatic in ((False,) if has_shapes else (False, True)):
            if self._cache is not None and (engine := self._cache.load(self._key())) is not None:
                self.from_cache = True
                self._use(Engine(engine))
                return
        self._open()
        self._engine, self._runner = None, None
        self._automatic = not has_shapes and any(info.is_dynamic for info in self._inputs)
        if not self._automatic:
            self._build(self._config)

    def _open(self) -> None:
        self._opened = self._source.open()
        self._inputs, self._outputs = self._opened_infos = tensor_infos(self._opened.inputs), tensor_infos(self._opened.outputs)

    def _build(self, config: BuildConfig) -> None:
        model = self._opened or self._source.open()
        self._opened = None
        engine = build_opened(model, config, self._progress)
        self._use(engine)
        if self._cache is not None:
            self._cache.store(self._key(), engine._core)

    def _runner_for(self, feed: Mapping[str, Any]) -> _core.Runner:
        """The runner; builds for the shapes of a feed if there is none yet."""
        with self._lock:
            if self._runner is None:
                self._build_for(feed, {})
        return self._runner

    def _build_for(self, feed: Mapping[str, Any], seen: Mapping[str, tuple[list[int], list[int], list[int]]]) -> None:
        """Builds with profiles around the shapes of a feed: as wide as the network allows, else as narrow as was seen."""
        if self._opened is None:
            self._open()
        dynamic = [info for info in self._inputs if info.is_dynamic]
        if missing := [info.name for info in self._inputs if info.name not in feed]:
            raise InvalidArgument(f"input '{missing[0]}' is missing")
        shapes = {info.name: _shape_of(feed[info.name]) for info in dynamic}
        for info in dynamic:
            if info.shape is not None and len(info.shape) != len(shapes[info.name]):
                raise InvalidArgument(f"input '{info.name}' has {len(info.shape)} dimensions, the array given {shapes[info.name]}")
        wide: dict[str, Any] = {}
        for info in dynamic:
            given = shapes[info.name]
            fixed = [isinstance(extent, int) for extent in info.shape] if info.shape is not None else [False] * len(given)
            wide[info.name] = ([n if f else min(n, 1) for n, f in zip(given, fixed)], given,
                               [n if f else max(n, _LARGEST) for n, f in zip(given, fixed)])
        narrow = {name: (np.minimum(given, seen.get(name, [given])[0]).tolist(), given,
                         np.maximum(given, seen.get(name, [given])[-1]).tolist()) for name, given in shapes.items()}
        try:
            self._build(self._with_shapes(wide))
        except (InvalidArgument, CorruptEngine):  # extents of 1, or so many, cannot be for this network
            self._build(self._with_shapes(narrow))

    def _with_shapes(self, shapes: Shapes) -> BuildConfig:
        return make_config(self._config, {"shapes": shapes})

    def _widen(self, feed: Mapping[str, Any], refused_by: _core.Runner) -> bool:
        """After a refusal: builds again if shapes were chosen here and the feed lies outside; True: try again."""
        if not self._automatic:
            return False
        with self._lock:
            if self._runner is not refused_by:  # another thread was faster
                return True
            ranges = self._engine.profiles[0] if self._engine.profiles else {}
            outside = False
            for name, (least, _, most) in ranges.items():
                shape = _shape_of(feed[name]) if name in feed else least
                if len(shape) != len(least) and self._rank_is_known(name):
                    return False
                outside |= len(shape) != len(least) or any(not low <= n <= high for low, n, high in zip(least, shape, most))
            if outside:
                self._build_for(feed, ranges)
            return outside

    def _rank_is_known(self, name: str) -> bool:
        return any(info.name == name and info.shape is not None for info in self._inputs)
