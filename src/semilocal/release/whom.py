"""Whom do the participants trust? The question of every job, its three answers, and what belongs to which.

Knows words and options. Knows no data.
"""

from __future__ import annotations

from typing import Any, get_args

from ..arrays import shown
from ..errors import InvalidInput
from ..protocol.promise import Trust
from ..protocol.task import DELTA, K

__all__ = ["DELTA", "TRUSTS", "K", "crowd_of", "pooled_options", "which_trust"]

TRUSTS: dict[Trust, str] = {
    "nobody": "every device randomizes its own answers; regions are public, and epsilon protects the place inside a "
    "region that k participants are published in",
    "two-servers": "two operators who do not collude see noisy counts only; epsilon protects any change of a person's "
    "position anywhere",
    "curator": "one party holds all positions and adds the noise; epsilon protects any change of a person's position "
    "anywhere, against everybody else",
}
_POOLED = ("hierarchy", "resolution", "max_depth", "label")


def which_trust(trust: Any) -> Trust:
    """The answer, or a refusal that explains the three."""
    if isinstance(trust, str) and trust in get_args(Trust):
        return trust  # type: ignore[return-value]
    lines = [f'  trust="{name}": {words}' for name, words in TRUSTS.items()]
    got = "it is missing" if trust is None else f"got {shown(trust)}"
    raise InvalidInput("\n".join([f"trust must say whom the participants trust; {got}. There are three:", *lines]))


def crowd_of(delta: float | None, k: int | None) -> dict[str, Any]:
    """delta and k where nobody is trusted, with their defaults."""
    return {"delta": DELTA if delta is None else delta, "k": K if k is None else k}


def pooled_options(trust: Trust, delta: float | None, k: int | None, options: dict[str, Any]) -> dict[str, Any]:
    """Options of a pooled task; those that belong to "nobody" alone are refused."""
    wrong = [name for name, value in (("delta", delta), ("k", k)) if value is not None]
    wrong += [name for name in options if name not in _POOLED]
    if wrong:
        raise InvalidInput(
            f'{", ".join(wrong)}: not with trust="{trust}", which promises plain differential privacy without regions '
            f'and crowds; leave it out, or take trust="nobody". Allowed are epsilon, {", ".join(_POOLED)}'
        )
    return options
