"""How often one sender may ask: a bucket of requests per key, in bounded memory.

Knows keys and a clock that is passed in. Knows no addresses.
"""

from __future__ import annotations

__all__ = ["RateLimit"]


class RateLimit:
    """Lets each key through ``rate`` times a second on average, ``burst`` times at once.

    The longest unused keys are forgotten first when there are more than ``keys``; a forgotten key starts afresh.

    Examples
    --------
    >>> limit = RateLimit(rate=1.0, burst=2)
    >>> [limit.allow(b"a", 0.0), limit.allow(b"a", 0.0), limit.allow(b"a", 0.0), limit.allow(b"a", 1.0)]
    [True, True, False, True]
    """

    def __init__(self, *, rate: float, burst: int, keys: int = 16_384) -> None:
        self._rate, self._burst, self._keys = rate, float(burst), keys
        self._left: dict[bytes, tuple[float, float]] = {}

    def allow(self, key: bytes, now: float) -> bool:
        """Whether the key may ask now; counts it if so."""
        left, then = self._left.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        fine = left >= 1.0
        self._left[key] = (left - 1.0 if fine else left, now)
        if len(self._left) > self._keys:
            del self._left[next(iter(self._left))]
        return fine

    def __len__(self) -> int:
        return len(self._left)
