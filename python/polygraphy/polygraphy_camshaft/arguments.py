# SPDX-License-Identifier: Apache-2.0
"""Command line options of ``polygraphy run``."""
from __future__ import annotations

from typing import Any

from polygraphy.tools.args import ModelArgs, OnnxLoadArgs
from polygraphy.tools.args import util as args_util
from polygraphy.tools.args.base import BaseArgs, BaseRunnerArgs
from polygraphy.tools.script import make_invocable


class CamshaftSessionArgs(BaseArgs):
    """
    Camshaft: building and running engines with Camshaft.

    Depends on:

        - ModelArgs
        - OnnxLoadArgs
    """

    def add_parser_args_impl(self) -> None:
        self.group.add_argument("--camshaft-precision", choices=["fp32", "bf16", "fp16", "best"], default=None,
                                help="What float layers may compute in and store. Default: fp32")
        self.group.add_argument("--camshaft-threads", type=int, default=None, help="Threads of one run. Default: all of this process")
        self.group.add_argument("--camshaft-optimization-level", type=int, choices=range(6), default=None,
                                help="0: the first legal tactic, to 5: every tactic is timed. Default: 3")
        self.group.add_argument("--camshaft-no-cache", action="store_true", default=None, help="Build anew, keep nothing")

    def parse_impl(self, args: Any) -> None:
        self.precision = args_util.get(args, "camshaft_precision")
        self.threads = args_util.get(args, "camshaft_threads")
        self.level = args_util.get(args, "camshaft_optimization_level")
        self.cache = False if args_util.get(args, "camshaft_no_cache") else None

    def add_to_script_impl(self, script: Any) -> str:
        loader = self.arg_groups[OnnxLoadArgs]
        model = loader.add_to_script(script, serialize_model=True) if loader.must_use_onnx_loader() else self.arg_groups[ModelArgs].path
        script.add_import(imports=["SessionFromOnnx"], frm="polygraphy_camshaft")
        given = {"precision": self.precision, "threads": self.threads, "optimization_level": self.level, "cache": self.cache}
        call = make_invocable("SessionFromOnnx", model, **{name: value for name, value in given.items() if value is not None})
        return script.add_loader(call, "camshaft_session")


class CamshaftRunnerArgs(BaseRunnerArgs):
    """
    Camshaft Inference: running inference with Camshaft.

    Depends on:

        - CamshaftSessionArgs
    """

    def get_name_opt_impl(self) -> tuple[str, str]:
        return "Camshaft", "camshaft"

    def add_to_script_impl(self, script: Any) -> None:
        script.add_import(imports=["CamshaftRunner"], frm="polygraphy_camshaft")
        script.add_runner(make_invocable("CamshaftRunner", self.arg_groups[CamshaftSessionArgs].add_to_script(script)))


def argument_groups() -> list[BaseArgs]:
    """The entry point of ``polygraphy.run.plugins``."""
    return [CamshaftSessionArgs(), CamshaftRunnerArgs()]
