# SPDX-License-Identifier: Apache-2.0
"""Ahead of time: a module to an engine, and the two in one file."""
from __future__ import annotations

import inspect
import json
import os
import pathlib
import zipfile
from typing import Any, Callable

import sympy
import torch
from torch.utils import _pytree as pytree

from ..engine import Engine
from ..errors import CorruptEngine, InvalidArgument
from ..session import Session
from .convert import NotConvertible, export_pure, to_feed, to_session, to_tensor
from .extents import conditions

_ENGINE, _SPEC = "engine", "module.json"


class CompiledModule(torch.nn.Module):
    """A module that runs as an engine: called as the one it was made from, with tensors where tensors were.

    Other arguments (numbers, flags) are those of compilation. ``engine`` is the :class:`camshaft.Engine`.
    """

    def __init__(self, session: Session, spec: dict[str, Any]):
        super().__init__()
        self._session, self._spec = session, spec
        self._in, self._out = (pytree.treespec_loads(spec[key]) for key in ("in", "out"))

    @property
    def engine(self) -> Engine:
        return self._session.engine

    @property
    def session(self) -> Session:
        return self._session

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in:
            raise InvalidArgument(f"compiled for arguments {self._in}, called with {spec}")
        feed = {}
        for (name, constant), leaf in zip(self._spec["inputs"], leaves):
            if name is not None:
                feed[name] = to_feed(leaf)
            elif isinstance(leaf, torch.Tensor):
                continue  # the network does not look at it
            elif leaf != constant:
                raise InvalidArgument(f"compiled for {constant!r}, called with {leaf!r}")
        results = dict(zip((info.name for info in self._session.get_outputs()), self._session.run(None, feed)))
        return pytree.tree_unflatten([to_tensor(results[name]) if name is not None else constant
                                      for name, constant in self._spec["outputs"]], self._out)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Engine and signature in one file."""
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_SPEC, json.dumps(self._spec))
            archive.writestr(_ENGINE, self.engine.bytes)


def load(path: str | os.PathLike[str], **options: Any) -> CompiledModule:
    """A module that :meth:`CompiledModule.save` wrote. ``options``: those of :class:`camshaft.Session`.

    :raises CorruptEngine: damaged, or not such a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            spec, content = json.loads(archive.read(_SPEC)), archive.read(_ENGINE)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise CorruptEngine(f"{pathlib.Path(path)}: {error}") from error
    return CompiledModule(Session(Engine.from_bytes(content), **options), spec)


class _Flat(torch.nn.Module):
    """A module over the tensors among its arguments; returns those among its results and notes the rest, and their structure.

    By a function: torch.export takes back what tracing assigns to attributes.
    """

    def __init__(self, module: torch.nn.Module, leaves: list[Any], spec: pytree.TreeSpec, note: Callable[[list[Any], Any], None]):
        super().__init__()
        self._note = note
        self.module = module
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._spec = spec

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves = list(self._leaves)
        for k, tensor in zip(self._places, tensors):
            leaves[k] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        results, spec = pytree.tree_flatten(self.module(*args, **kwargs))
        self._note([None if isinstance(result, torch.Tensor) else _constant(result) for result in results], spec)
        return tuple(result for result in results if isinstance(result, torch.Tensor))


def _constant(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidArgument(f"a result of type {type(value).__name__} that depends on the shapes: leave it out of what the module returns")


def _flat_shapes(value: Any, shapes: Any) -> list[Any]:
    """torch.export's dynamic_shapes for the tensors of an argument."""
    if isinstance(value, torch.Tensor):
        return [shapes]
    if isinstance(value, dict):
        return [entry for key in value for entry in _flat_shapes(value[key], (shapes or {}).get(key))]
    if isinstance(value, (list, tuple)):
        return [entry for k, item in enumerate(value) for entry in _flat_shapes(item, shapes[k] if shapes else None)]
    return []


def _by_argument(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> list[Any]:
    """One entry per argument, from a tuple in their order or a dict by their names."""
    if isinstance(shapes, dict):
        names = list(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
        given = [shapes.get(name) for name in names[: len(args)]] + [shapes.get(name) for name in kwargs]
    else:
        given = list(shapes)
    return [entry for value, spec in zip([*args, *kwargs.values()], given) for entry in _flat_shapes(value, spec)]


def compile(module: torch.nn.Module, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *,  # noqa: A001
            dynamic_shapes: Any = None, **options: Any) -> CompiledModule:
    """Exports a module and builds an engine of all of it.

    :param args, kwargs: example arguments.
    :param dynamic_shapes: as of ``torch.export.export``; the engine is tuned for the example's shapes and takes all the others.
    :param options: those of :class:`camshaft.Session`: precision, threads, cache, optimization_level, …
    :raises NotConvertible: PyTorch's exporters or the importer refuse it, with the reason. For such a module there is
        ``torch.compile(module, backend="camshaft")``, which splits it.
    """
    args, kwargs = tuple(args), dict(kwargs or {})
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    shapes = (tuple(_by_argument(module, args, kwargs, dynamic_shapes)),) if dynamic_shapes is not None else None
    noted: list[Any] = []
    flat = _Flat(module, leaves, in_spec, lambda results, spec: noted.append((results, spec)))
    program = export_pure(flat, tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), dynamic_shapes=shapes)
    results, out_spec = noted[-1]
    asked_for = conditions(program)
    session = to_session(program, **options)
    if more := [condition for condition in conditions(program) if isinstance(condition, sympy.Eq) and condition not in asked_for]:
        raise NotConvertible(f"PyTorch's ONNX exporter has made a network for extents with {more[0].lhs} = {more[0].rhs} alone: leave them out of dynamic_shapes")
    spec = {"in": pytree.treespec_dumps(in_spec), "out": pytree.treespec_dumps(out_spec),
            "inputs": _inputs(leaves, list(program.graph_signature.user_inputs), {info.name for info in session.get_inputs()}),
            "outputs": _outputs(results, [info.name for info in session.get_outputs()], program)}
    compiled = CompiledModule(session, spec)
    if session._engine is None:  # dynamic: the engine is built for the example's shapes
        compiled(*args, **kwargs)
    return compiled


def _inputs(leaves: list[Any], names: list[str], known: set[str]) -> list[tuple[str | None, Any]]:
    """Per flattened argument: the engine's input, or None and the constant it was compiled with."""
    remaining = iter(names)
    entries: list[tuple[str | None, Any]] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            name = next(remaining)
            entries.append((name if name in known else None, None))
        else:
            entries.append((None, leaf))
    return entries


def _outputs(results: list[Any], known: list[str], program: torch.export.ExportedProgram) -> list[tuple[str | None, Any]]:
    """Per flattened result: the engine's output, or None and a constant."""
    count = len(program.graph_signature.user_outputs)
    if len(known) != count:
        raise NotConvertible(f"{count} results, but {len(known)} outputs of the network")
    constant = {k: result for k, result in enumerate(results) if result is not None}
    names = iter(known)
    # None among the results is one of the tree's leaves only where a tensor stands.
    return [(None, constant[k]) if k in constant else (next(names), None) for k in range(len(results))]
