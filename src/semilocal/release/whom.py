"""Names of the command line."""

from __future__ import annotations

from typing import Any

from .job import DELTA, TRUSTS, K

__all__ = ["DELTA", "TRUSTS", "K", "crowd_of"]


def crowd_of(delta: float | None, k: int | None) -> dict[str, Any]:
    """delta and k with their defaults."""
    return {"delta": DELTA if delta is None else delta, "k": K if k is None else k}
