"""The auditor: attacks what we promise.

``cases`` is the catalogue, ``attacker`` plays neighbouring inputs, ``pooled`` does where somebody is trusted, ``exact``
enumerates, and ``bounds`` turns counts into statements with confidence.
"""

from __future__ import annotations

from .attacker import Pair, attack, choose_neighbour, play
from .cases import CASES, Finding, audit_task, default_task, finding_table

__all__ = [
    "CASES", "Finding", "Pair", "attack", "audit_task", "choose_neighbour", "default_task", "finding_table", "play",
]  # fmt: skip
