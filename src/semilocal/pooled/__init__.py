"""The pooled tree: a public hierarchy refined by noisy differences, with a budget per path. Plain differential privacy.

Whose noise it is depends on whom people trust: a curator's (one noise) or that of two servers that do not collude (two
noises). Everything but :mod:`.counter` works on published numbers alone.
"""

from __future__ import annotations

from .counter import MemoryCounter
from .estimate import Estimates, estimate, spread_inside
from .play import Counter, Published, Tree, play, replay
from .task import MAX_LEVELS, UNITS, PooledTask, Trust

__all__ = [
    "MAX_LEVELS", "UNITS", "Counter", "Estimates", "MemoryCounter", "PooledTask", "Published", "Tree", "Trust",
    "estimate", "play", "replay", "spread_inside",
]  # fmt: skip
