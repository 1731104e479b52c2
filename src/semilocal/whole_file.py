"""A file that is there when everything was written, and not at all otherwise.

Knows names and how a process ends. Knows no formats.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_parts: set[Path] = set()  # the files that SIGTERM must remove


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A file to write into, which gets the target's name at the end; after an error or SIGTERM it is gone."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    part = Path(name)
    try:
        with _removed_by_sigterm(part):
            yield part
            part.chmod(_rights(target))
            os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _removed_by_sigterm(part: Path) -> Iterator[None]:
    """Let SIGTERM, which ends the process without any exception, remove the file first; where nobody handles it."""
    _parts.add(part)
    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    try:
        if ours:
            signal.signal(signal.SIGTERM, _end)
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _parts.discard(part)


def _end(number: int, _: object) -> None:
    for part in _parts:
        part.unlink(missing_ok=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _rights(target: Path) -> int:
    """Those of the file that is replaced, or what the umask gives a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
