# SPDX-License-Identifier: Apache-2.0
"""The library's log, as records of Python's ``logging`` under the name ``camshaft``.

Warnings come by default. ``camshaft.log.set_level("info")`` or ``"verbose"`` asks the library for more; what is shown of it is for
the handlers and levels of ``logging.getLogger("camshaft")`` to decide."""
from __future__ import annotations

import logging

from . import _core

logger = logging.getLogger("camshaft")
VERBOSE = 5
logging.addLevelName(VERBOSE, "VERBOSE")

_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, VERBOSE)  # by camshaft::Severity
_NAMES = {"internal_error": 0, "error": 1, "warning": 2, "info": 3, "verbose": 4}


def record(severity: int, text: str) -> None:
    """Called by the library."""
    logger.log(_LEVELS[severity], "%s", text)


def set_level(name: str) -> None:
    """The most talkative records the library makes: ``"internal_error"``, ``"error"``, ``"warning"``, ``"info"`` or
    ``"verbose"``. :raises ValueError: another word."""
    if name not in _NAMES:
        raise ValueError(f"log level {name!r}: one of {', '.join(_NAMES)}")
    _core.set_log_level(_NAMES[name])
