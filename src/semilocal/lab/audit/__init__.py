"""The auditor: attacks what we promise, and shows how far lying devices get.

``cases`` is the catalogue, ``attacker`` plays neighbouring inputs, ``exact`` enumerates, ``bounds`` turns counts into
statements with confidence, ``outputs`` compares all that commands write, ``liars`` looks at poisoning, and ``tables``
writes it down.
"""

from __future__ import annotations

from .attacker import Pair, Plays, attack, choose_neighbour, play
from .bounds import CONFIDENCE, LossBound, loss_lower_bound, share_bounds
from .cases import CASES, Finding, audit_task, default_task
from .liars import Poisoning, push_counts, push_verdicts

__all__ = [
    "CASES", "CONFIDENCE", "Finding", "LossBound", "Pair", "Plays", "Poisoning", "attack", "audit_task",
    "choose_neighbour", "default_task", "loss_lower_bound", "play", "push_counts", "push_verdicts", "share_bounds",
]  # fmt: skip
