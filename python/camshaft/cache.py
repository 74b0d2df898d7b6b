# SPDX-License-Identifier: Apache-2.0
"""The folder of built engines: one file for each model, machine and set of options, so that the next start takes milliseconds."""
from __future__ import annotations

import hashlib
import json
import logging
import os
import pathlib
from typing import Any, Iterable

from . import _core
from .errors import CamshaftError

logger = logging.getLogger("camshaft")
_SUFFIX = ".engine"


def default_folder() -> pathlib.Path:
    """``$CAMSHAFT_CACHE_DIR``, else ``$XDG_CACHE_HOME/camshaft``, else ``~/.cache/camshaft``."""
    if folder := os.environ.get("CAMSHAFT_CACHE_DIR"):
        return pathlib.Path(folder)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "camshaft"


def default_limit() -> int:
    """Bytes the folder may hold: ``$CAMSHAFT_CACHE_BYTES``, else 4 GiB."""
    return int(os.environ.get("CAMSHAFT_CACHE_BYTES", 4 << 30))


def key_of(content: Iterable[bytes | memoryview], facts: dict[str, Any]) -> str:
    """A name for an engine: of the model's bytes, this machine and instruction set, this version, and ``facts`` (options)."""
    digest = hashlib.sha256()
    for part in content:
        digest.update(part)
    machine = {"version": _core.version, "cpu": _core.cpu_fingerprint(), "isa": _core.active_isa()}
    digest.update(json.dumps([machine, facts], sort_keys=True, default=str).encode())
    return digest.hexdigest()[:40]


class EngineCache:
    """A folder of engines, the least recently used ones removed beyond ``limit`` bytes.

    Any number of processes may share it: files are written beside their place and renamed. A file that cannot be read back
    counts as missing; a folder that cannot be written to is reported once and does without.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, limit: int | None = None):
        self.folder = pathlib.Path(folder) if folder is not None else default_folder()
        self.limit = default_limit() if limit is None else limit

    def path(self, key: str) -> pathlib.Path:
        return self.folder / (key + _SUFFIX)

    def load(self, key: str) -> _core.Engine | None:
        """The engine of that key, or None."""
        path = self.path(key)
        if not path.exists():
            return None
        try:
            engine = _core.Engine.load(path)
            os.utime(path)
        except (CamshaftError, OSError) as error:
            logger.warning("%s: %s; it is built again", path, error)
            return None
        return engine

    def store(self, key: str, engine: _core.Engine) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            engine.save(self.path(key))
            self.trim(keep=self.path(key))
        except (CamshaftError, OSError) as error:
            logger.warning("the engine was not cached: %s", error)

    def trim(self, keep: pathlib.Path | None = None) -> None:
        """Removes the engines that were not used for longest until the folder's size is within the limit."""
        files = []
        for path in self.folder.glob("*" + _SUFFIX):
            try:
                files.append((path.stat().st_mtime_ns, path.stat().st_size, path))
            except OSError:
                continue  # another process was faster
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                total -= size

    def clear(self) -> None:
        """Removes every engine."""
        for path in self.folder.glob("*" + _SUFFIX):
            path.unlink(missing_ok=True)
