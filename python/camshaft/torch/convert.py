# SPDX-License-Identifier: Apache-2.0
"""Modules to engines, by torch.export and PyTorch's ONNX exporter."""
from __future__ import annotations

import contextlib
import io
import logging
import pathlib
import re
import tempfile
import warnings
from typing import Any, Iterator, Sequence

import numpy as np
import torch

from ..errors import CamshaftError, InvalidArgument, Unsupported
from ..session import Session
from .decompose import decompose
from .translate import is_mistranslated, translations
from .writes import Memory

_TARGET = re.compile(r"target=torch\.ops\.([\w.]+)|OpOverload\(op='([\w.]+)', overload='(\w+)'\)")
_LARGE = 1 << 30  # bytes of weights beyond which a ModelProto (at most 2 GiB) is not made


class NotConvertible(CamshaftError):
    """A graph PyTorch's exporter or the importer refuses; ``targets`` are the operators at fault as far as they are known."""

    def __init__(self, message: str, targets: Sequence[str] = ()):
        super().__init__(message)
        self.targets = tuple(dict.fromkeys(targets))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks on standard output, by warnings and by logging."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels):
                logger.setLevel(level)


def _targets(text: str) -> list[str]:
    return [found[1] + "." + found[2] if found[1] else found[0] for found in map(lambda m: ("", m[1] or "", m[2] or "") if m[1]
            else (m[0], "", ""), _TARGET.findall(text))]


def export(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
           dynamic_shapes: Any = None) -> torch.export.ExportedProgram:
    """:raises NotConvertible: the module cannot be exported."""
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(module, _apart(args), kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:  # torch.export raises anything
        raise NotConvertible(f"torch.export: {_first_line(error)}") from error


def _apart(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """torch.export takes one tensor that is passed twice for one input."""
    seen: set[int] = set()
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) and (id(arg) in seen or seen.add(id(arg))) else arg for arg in args)


def export_pure(module: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None) -> torch.export.ExportedProgram:
    """:raises NotConvertible: the module cannot be exported, or it writes into its inputs or buffers."""
    program = export(module, args, dynamic_shapes=dynamic_shapes)
    memory = Memory(program)
    if written := sorted(memory.written | memory.statistics):
        raise NotConvertible("it writes into " + ", ".join(written[:5]))
    return program


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _keep_types(model: Any, program: torch.export.ExportedProgram) -> None:
    """Some translations make floats of 16-bit floats and leave them so."""
    import onnx_ir as ir

    for k, (value, result) in enumerate(zip(model.graph.outputs, program.graph.output_node().args[0])):
        tensor = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
        wanted = ir.tensor_adapters.from_torch_dtype(tensor.dtype) if isinstance(tensor, torch.Tensor) else None
        if wanted in (None, value.dtype):
            continue
        cast = ir.node("Cast", [value], {"to": int(wanted)})
        cast.outputs[0].name, cast.outputs[0].dtype, cast.outputs[0].shape = f"{value.name}_{k}", wanted, value.shape
        model.graph.append(cast)
        model.graph.outputs[k] = cast.outputs[0]


def to_onnx(program: torch.export.ExportedProgram) -> Any:
    """An ``onnx_ir`` model. :raises NotConvertible: operators without a translation, listed in ``targets``."""
    if wrong := [str(node.target) for node in program.graph.nodes if is_mistranslated(node)]:
        raise NotConvertible("torch.onnx.export: it would make something else of " + ", ".join(sorted(set(wrong))), wrong)
    try:
        with _quiet():
            # Its optimizer takes time by the square of the nodes (190 s for 9,301 of them), and gains nothing before ours.
            exported = torch.onnx.export(decompose(program), dynamo=True, verbose=False, optimize=False, custom_translation_table=translations())
            _keep_types(exported.model, program)
            return exported
    except Exception as error:  # whatever a translation raises
        chain = []
        cause: BaseException | None = error
        while cause is not None:
            chain.append(str(cause))
            cause = cause.__cause__
        raise NotConvertible(f"torch.onnx.export: {_first_line(error.__cause__ or error)}", _targets("\n".join(chain))) from error


def _fx_targets(proto: Any, error: Unsupported) -> list[str]:
    """The ATen operators the refused ONNX nodes came from, as the exporter notes them."""
    notes = {node.name: entry.value for node in proto.graph.node for entry in node.metadata_props if entry.key == "pkg.torch.onnx.fx_node"}
    return [target for issue in error.issues for target in _targets(notes.get(issue.node, ""))]


def is_complex(node: torch.fx.Node) -> bool:
    """Whether it has a value of complex numbers: of these ONNX has pairs of floats."""
    value = node.meta.get("val")
    return any(isinstance(tensor, torch.Tensor) and tensor.is_complex() for tensor in (value if isinstance(value, (list, tuple)) else (value,)))


def _refuse_complex(program: torch.export.ExportedProgram) -> None:
    ends = [node for node in program.graph.nodes if node.op == "placeholder"] + list(program.graph.output_node().all_input_nodes)
    if names := [node.name for node in ends if is_complex(node)]:
        raise NotConvertible("complex numbers go in or come out: " + ", ".join(names[:5]))


def to_session(program: torch.export.ExportedProgram, **options: Any) -> Session:
    """:raises NotConvertible: with the operators at fault."""
    _refuse_complex(program)
    exported = to_onnx(program)
    size = sum(tensor.numel() * tensor.element_size() for tensor in program.state_dict.values())
    if size > _LARGE:
        with tempfile.TemporaryDirectory(prefix="camshaft-") as folder:
            path = pathlib.Path(folder) / "model.onnx"
            exported.save(str(path), external_data=True)
            return _open(path, None, {**options, "cache": False})
    proto = exported.model_proto
    return _open(proto.SerializeToString(deterministic=True), proto, options)


def _open(model: Any, proto: Any, options: dict[str, Any]) -> Session:
    try:
        return Session(model, **options)
    except Unsupported as error:
        raise NotConvertible(f"camshaft: {error}", _fx_targets(proto, error) if proto is not None else ()) from error
    except InvalidArgument:
        raise
    except CamshaftError as error:
        raise NotConvertible(f"camshaft: {error}") from error


def to_tensor(array: Any) -> torch.Tensor:
    """An output as a tensor over the same memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("uint16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_feed(value: torch.Tensor | int) -> Any:
    """A tensor the session reads in place where it can; an integer as an array."""
    if not isinstance(value, torch.Tensor):
        return np.array(int(value), np.int64)
    return value.detach() if value.requires_grad else value
