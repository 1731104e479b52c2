"""The names of :mod:`semilocal.release.job` that the command line takes."""

from __future__ import annotations

from typing import Any

from .job import DELTA, TRUSTS, K, which_trust

__all__ = ["DELTA", "TRUSTS", "K", "crowd_of", "which_trust"]


def crowd_of(delta: float | None, k: int | None) -> dict[str, Any]:
    """delta and k where nobody is trusted, with their defaults."""
    return {"delta": DELTA if delta is None else delta, "k": K if k is None else k}
