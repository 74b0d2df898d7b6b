# SPDX-License-Identifier: Apache-2.0
"""Loggers."""
from __future__ import annotations

import enum
import logging
import sys
from typing import Iterator
import contextlib

from ... import log as library_log


class _Severity(enum.IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class ILogger:
    """Base of loggers: ``log(severity, message)``."""

    Severity = _Severity
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = _Severity

    def log(self, severity: _Severity, message: str) -> None:
        raise NotImplementedError


class Logger(ILogger):
    """Prints on standard error what is at least as severe as ``min_severity``."""

    def __init__(self, min_severity: _Severity = _Severity.WARNING):
        self.min_severity = min_severity

    def log(self, severity: _Severity, message: str) -> None:
        if severity <= self.min_severity:
            print(f"[TRT] [{severity.name[0]}] {message}", file=sys.stderr)


_LEVELS = {logging.CRITICAL: _Severity.INTERNAL_ERROR, logging.ERROR: _Severity.ERROR, logging.WARNING: _Severity.WARNING,
           logging.INFO: _Severity.INFO, library_log.VERBOSE: _Severity.VERBOSE}


class _Handler(logging.Handler):
    def __init__(self, logger: ILogger):
        super().__init__(1)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        self._logger.log(_LEVELS.get(record.levelno, _Severity.VERBOSE), record.getMessage())


@contextlib.contextmanager
def library_records(logger: ILogger | None) -> Iterator[None]:
    """The library's records go to this logger, as many as it wants, while a call runs."""
    if logger is None:
        yield
        return
    wanted = getattr(logger, "min_severity", _Severity.VERBOSE)
    names = ("internal_error", "error", "warning", "info", "verbose")
    handler, before, spreads = _Handler(logger), library_log.logger.level, library_log.logger.propagate
    library_log.logger.addHandler(handler)
    library_log.logger.setLevel(1)
    library_log.logger.propagate = False
    library_log.set_level(names[wanted])
    try:
        yield
    finally:
        library_log.set_level("warning")
        library_log.logger.removeHandler(handler)
        library_log.logger.setLevel(before)
        library_log.logger.propagate = spreads


def report(logger: ILogger | None, error: BaseException) -> None:
    """An error in TensorRT's manner: told to the logger, the call returns None or False."""
    if logger is not None:
        logger.log(ILogger.ERROR, str(error))
