# SPDX-License-Identifier: Apache-2.0
"""The commands ``camshaft`` and ``camexec``, and the way other modules run one."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Sequence

from . import _core
from .errors import CamshaftError


def _main(program: str) -> int:
    return _core.run_program([program, *sys.argv[1:]])


def camshaft() -> int:
    """Entry point of ``camshaft``. ``camshaft serve`` becomes the program of the package camshaft_server, if that is there."""
    if sys.argv[1:2] == ["serve"]:
        try:
            import camshaft_server
        except ImportError:
            pass  # the library says where it is
        else:
            camshaft_server.main(sys.argv[2:])
    return _main("camshaft")


def camexec() -> int:
    """Entry point of ``camexec``."""
    return _main("camexec")


def _run(words: Sequence[str | os.PathLike[str]]) -> subprocess.CompletedProcess[str]:
    """``camshaft WORDS...`` in a process of its own."""
    command = [sys.executable, "-m", "camshaft", *map(os.fspath, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _error(done: subprocess.CompletedProcess[str]) -> CamshaftError:
    lines = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.strip()]
    return CamshaftError("\n".join(lines) or f"camshaft ended with code {done.returncode}")


def run(words: Sequence[str | os.PathLike[str]]) -> str:
    """What ``camshaft WORDS...`` prints. :raises CamshaftError: it fails; the message is the program's."""
    done = _run(words)
    if done.returncode != 0:
        raise _error(done)
    return done.stdout


def run_json(words: Sequence[str | os.PathLike[str]]) -> tuple[Any, int]:
    """The JSON it prints and its exit code: a report may come with a code that says that a bound does not hold.

    :raises CamshaftError: it prints no report.
    """
    done = _run(words)
    try:
        return json.loads(done.stdout), done.returncode
    except json.JSONDecodeError:
        raise _error(done) from None
