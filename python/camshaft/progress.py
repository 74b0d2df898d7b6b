# SPDX-License-Identifier: Apache-2.0
"""Progress of builds: a line in a terminal, a bar in a notebook, or the caller's function."""
from __future__ import annotations

import contextlib
import html
import sys
import time
from typing import Any, Callable, Iterator, Union

Callback = Callable[[str, int, int], Any]
Progress = Union[None, bool, Callback]

_WIDTH = 30


def _in_notebook() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"


class _Bar:
    """Draws at most twenty times a second."""

    def __init__(self) -> None:
        self._drawn = 0.0
        self._shown = False

    def __call__(self, phase: str, done: int, total: int) -> bool:
        now = time.monotonic()
        if now - self._drawn >= 0.05 or done == total:
            self._drawn, self._shown = now, True
            self.draw(phase, done, total)
        return True

    def draw(self, phase: str, done: int, total: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Takes the bar away."""


class TerminalBar(_Bar):
    """One line on standard error, drawn over itself."""

    def draw(self, phase: str, done: int, total: int) -> None:
        filled = _WIDTH * done // max(total, 1)
        sys.stderr.write(f"\r\x1b[K{phase:<20.20} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}")
        sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class NotebookBar(_Bar):
    """An HTML bar that is updated in place."""

    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None

    def draw(self, phase: str, done: int, total: int) -> None:
        from IPython.display import HTML, display
        bar = HTML(f'<progress value="{done}" max="{max(total, 1)}"></progress> {html.escape(phase)} {done}/{total}')
        if self._handle is None:
            self._handle = display(bar, display_id=True)
        else:
            self._handle.update(bar)

    def close(self) -> None:
        if self._handle is not None:
            from IPython.display import HTML
            self._handle.update(HTML(""))


@contextlib.contextmanager
def progress_callback(progress: Progress) -> Iterator[Callback | None]:
    """The function a build calls; None where nobody looks. True draws in a notebook or a terminal."""
    if progress is None or progress is False:
        yield None
    elif callable(progress):
        yield progress
    elif not _in_notebook() and not sys.stderr.isatty():
        yield None
    else:
        bar = NotebookBar() if _in_notebook() else TerminalBar()
        try:
            yield bar
        finally:
            bar.close()
