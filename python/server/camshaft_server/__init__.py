# SPDX-License-Identifier: Apache-2.0
"""The program ``camshaft-serve``, which ``camshaft serve`` becomes."""
from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn, Sequence

__all__ = ["get_program_path", "main"]


def get_program_path() -> str:
    """The program; it needs no Python."""
    return str(pathlib.Path(__file__).resolve().parent / "camshaft-serve")


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Becomes it, with these words or the command line's."""
    program = get_program_path()
    os.execv(program, [program, *(sys.argv[1:] if words is None else words)])
