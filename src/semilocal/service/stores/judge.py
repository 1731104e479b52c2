"""Which reports and enrolments a store takes: one judge for all stores.

Knows rows that a store has read inside its transaction. Knows no SQL and no HTTP.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from ..campaign import Campaign, Phase
from .dialect import Enrolment, Incoming, Outcome

__all__ = ["judge", "judge_enrolment", "judge_enrolments", "judge_reports", "judge_round"]


def judge(item: Incoming, *, phase: Phase, closed: int, verifier: bytes | None, stored: bytes | None) -> Outcome:
    """Outcome of one report.

    Parameters
    ----------
    item : Incoming
    phase, closed
        Of the campaign, read in the same transaction.
    verifier : bytes or None
        Of the pseudonym; None if it is not enrolled.
    stored : bytes or None
        Body of the pseudonym's stored report of this round.
    """
    if not hmac.compare_digest(item.verifier, verifier or bytes(32)) or verifier is None:
        return "unauthorized"
    if stored is not None:
        return "again" if stored == item.body else "other-answer"
    return judge_round(item.round, phase=phase, closed=closed) or "stored"


def judge_round(round_: int, *, phase: Phase, closed: int) -> Outcome | None:
    """Why a round takes no new reports; None if it is open."""
    if round_ <= closed:
        return "round-closed"
    if phase == "cancelled":
        return "campaign-ended"
    if round_ > closed + 1 or phase == "enrolling":
        return "not-open-yet"
    return None


def judge_enrolment(
    item: Enrolment, *, campaign: Campaign, phase: Phase, enrolled: int, verifier: bytes | None,
    token: tuple[bytes | None] | None,
) -> Outcome:  # fmt: skip
    """Outcome of one enrolment.

    Parameters
    ----------
    phase, enrolled
        Of the campaign: its phase, and the number of its participants.
    verifier : bytes or None
        Stored for this pseudonym.
    token : (used_by,) or None
        The stored token, with what it was used for; None if it is unknown.
    """
    if verifier is not None:
        return "again" if hmac.compare_digest(item.verifier, verifier) else "pseudonym-taken"
    if phase not in ("enrolling", "collecting"):
        return "campaign-ended" if phase == "cancelled" else "enrolment-closed"
    if campaign.capacity is not None and enrolled >= campaign.capacity:
        return "enrolment-closed"
    if campaign.enrolment == "tokens":
        if token is None or item.used_by is None:
            return "bad-token"
        if token[0] is not None:
            return "token-used"
    return "stored"


def judge_reports(
    items: Sequence[Incoming], rows: Sequence[tuple[bytes | None, bytes | None]], *, phase: Phase, closed: int
) -> list[Outcome]:
    """Outcomes of a batch, given (verifier, stored body) of each."""
    outcomes: list[Outcome] = []
    fresh: dict[tuple[int, bytes], bytes] = {}
    for item, (verifier, body) in zip(items, rows, strict=True):
        key = (item.round, item.pseudonym)
        stored = fresh.get(key) if body is None else body
        outcome = judge(item, phase=phase, closed=closed, verifier=verifier, stored=stored)
        if outcome == "stored":
            fresh[key] = item.body
        outcomes.append(outcome)
    return outcomes


def judge_enrolments(
    items: Sequence[Enrolment], rows: Sequence[tuple[bytes | None, tuple[bytes | None] | None]], *, campaign: Campaign,
    phase: Phase, enrolled: int,
) -> list[Outcome]:  # fmt: skip
    """Outcomes of a batch, given (verifier, token) of each as in :func:`judge_enrolment`."""
    outcomes: list[Outcome] = []
    names: dict[bytes, bytes] = {}
    used: dict[bytes, bytes | None] = {}
    for item, (verifier, token) in zip(items, rows, strict=True):
        registered = names.get(item.pseudonym, verifier)
        if token is not None and item.token in used:
            token = (used[item.token],)
        outcome = judge_enrolment(
            item, campaign=campaign, phase=phase, enrolled=enrolled + len(names), verifier=registered, token=token
        )
        if outcome == "stored":
            names[item.pseudonym] = item.verifier
            if item.token is not None:
                used[item.token] = item.used_by
        outcomes.append(outcome)
    return outcomes
