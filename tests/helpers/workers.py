"""The worker processes of a server that has several."""

from __future__ import annotations

import contextlib
from pathlib import Path


def workers_of(process: int) -> list[int]:
    """Worker processes of a server, the youngest last."""
    found = []
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        with contextlib.suppress(OSError):  # it may end meanwhile
            if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found
