"""How often one sender may ask: a bucket of requests per key, in bounded memory.

Knows keys. Knows no HTTP and no clock: the time is an argument.
"""

from __future__ import annotations

__all__ = ["RateLimit"]


class RateLimit:
    """Lets each key through ``rate`` times a second on average, ``burst`` times at once.

    Keys live in two generations; when the young one is full it becomes the old one, and the old one is forgotten. A
    forgotten key starts afresh.

    Parameters
    ----------
    keys : int
        Most keys that are remembered.

    Examples
    --------
    >>> limit = RateLimit(rate=1.0, burst=2)
    >>> [limit.allow(b"a", 0.0), limit.allow(b"a", 0.0), limit.allow(b"a", 0.0), limit.allow(b"a", 1.0)]
    [True, True, False, True]
    """

    def __init__(self, *, rate: float, burst: int, keys: int = 16_384) -> None:
        self._rate, self._burst, self._half = rate, float(burst), max(1, keys // 2)
        self._young: dict[bytes, tuple[float, float]] = {}
        self._old: dict[bytes, tuple[float, float]] = {}

    def allow(self, key: bytes, now: float) -> bool:
        """Whether the key may ask now; counts it if so."""
        left, then = self._young.get(key) or self._old.get(key) or (self._burst, now)
        left = min(self._burst, left + max(0.0, now - then) * self._rate)
        allowed = left >= 1.0
        if len(self._young) >= self._half and key not in self._young:
            self._young, self._old = {}, self._young
        self._young[key] = (left - 1.0 if allowed else left, now)
        return allowed

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())
