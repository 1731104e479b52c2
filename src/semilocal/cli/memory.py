"""Memory that a job frees stays with its process.

A job makes large arrays and drops them again. The system takes the memory of each back and clears every page of the
next one: up to a third of the time of counting ten million rows. For one job in one process it may as well be kept.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as glibc numbers them
_KEPT = 1 << 30  # bytes


def keep_freed_memory() -> bool:
    """Ask the C library to keep what is freed, and Arrow to use it too. False where it cannot be asked."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        choose = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(choose(_MMAP_THRESHOLD, _KEPT) and choose(_TRIM_THRESHOLD, _KEPT))
