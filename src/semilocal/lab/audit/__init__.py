"""The auditor: attacks what we promise, and shows how far lying devices get.

``cases`` is the catalogue, ``attacker`` plays neighbouring inputs, ``exact`` enumerates, ``bounds`` turns counts into
statements with confidence, ``outputs`` compares all that commands write, and ``liars`` looks
at poisoning.
"""

from __future__ import annotations

from .attacker import Pair, Plays, attack, choose_neighbour, play
from .bounds import CONFIDENCE, LossBound, loss_lower_bound, share_bounds
from .cases import CASES, Finding, audit_task, default_task, finding_table
from .liars import Poisoning, poisoning_table, push_counts, push_verdicts

__all__ = [
    "CASES", "CONFIDENCE", "Finding", "LossBound", "Pair", "Plays", "Poisoning", "attack", "audit_task",
    "choose_neighbour", "default_task", "finding_table", "loss_lower_bound", "play", "poisoning_table", "push_counts",
    "push_verdicts", "share_bounds",
]  # fmt: skip
