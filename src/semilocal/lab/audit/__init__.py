"""The auditor: attacks what we promise.

``cases`` is the catalogue, ``attacker`` plays neighbouring inputs, ``pooled`` does where somebody is trusted, ``exact``
enumerates, and ``bounds`` turns counts into statements with confidence.
"""

from __future__ import annotations

from .attacker import Pair, Plays, attack, choose_neighbour, play
from .bounds import CONFIDENCE, LossBound, loss_lower_bound, share_bounds
from .cases import CASES, Finding, audit_task, default_task, finding_table

__all__ = [
    "CASES", "CONFIDENCE", "Finding", "LossBound", "Pair", "Plays", "attack", "audit_task", "choose_neighbour",
    "default_task", "finding_table", "loss_lower_bound", "play", "share_bounds",
]  # fmt: skip
