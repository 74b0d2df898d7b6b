# SPDX-License-Identifier: Apache-2.0
"""PyTorch models on Camshaft.

>>> fast = torch.compile(model, backend="camshaft")          # just in time; the import of this package is not needed
>>> fast = camshaft.torch.compile(model, (example,))         # ahead of time
>>> fast.save("model.camshaft"); fast = camshaft.torch.load("model.camshaft")

Needs torch, onnx and onnxscript (``pip install camshaft[torch]``).
"""
from .ahead import CompiledModule, compile, load  # noqa: A004: torch's own word
from .convert import NotConvertible
from .dynamo import backend, reports
from .options import Options
from .report import GraphReport, NodeReport

__all__ = ["CompiledModule", "GraphReport", "NodeReport", "NotConvertible", "Options", "backend", "compile", "load", "reports"]
