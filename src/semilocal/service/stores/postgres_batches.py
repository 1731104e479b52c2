"""What participants send, as SQL: batches of reports and enrolments inside a transaction on PostgreSQL.

Every look-up is one step down a primary key. Knows SQL and the campaign's row number; begins and ends no transaction.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import psycopg

from ..campaign import Campaign, Phase
from .base import Enrolment, Incoming, Outcome, judge_enrolments, judge_reports, judge_round

__all__ = ["add_participants", "add_reports", "store_all"]

Connection = Any

# Sub-selects and not joins: each is one step down a primary key, whatever the planner believes.
_LOOK = """
SELECT (SELECT verifier FROM participants p WHERE p.campaign = %(id)s AND p.pseudonym = i.pseudonym),
       (SELECT cell FROM reports r WHERE r.campaign = %(id)s AND r.round = i.round AND r.pseudonym = i.pseudonym),
       (SELECT answer FROM reports r WHERE r.campaign = %(id)s AND r.round = i.round AND r.pseudonym = i.pseudonym),
       (SELECT cell FROM reports b WHERE b.campaign = %(id)s AND b.round = i.before AND b.pseudonym = i.pseudonym)
FROM unnest(%(pseudonyms)b::bytea[], %(rounds)b::int[], %(before)b::int[])
     WITH ORDINALITY AS i (pseudonym, round, before, n)
ORDER BY i.n
"""
# One row for a whole batch. The verifiers come as one string, to be compared in constant time.
_STORE_ALL = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(pseudonyms)s::bytea[], %(cells)s::bigint[], %(answers)s::bytea[], %(before_cells)s::bigint[])
                  WITH ORDINALITY AS i (pseudonym, cell, answer, before_cell, n)
), added AS (
    INSERT INTO reports (campaign, round, pseudonym, cell, answer)
    SELECT %(id)s, %(round)s, i.pseudonym, i.cell, i.answer FROM given i ORDER BY i.pseudonym
    ON CONFLICT DO NOTHING
    RETURNING 1
), counted AS (
    INSERT INTO counters (campaign, round, worker, received) VALUES (%(id)s, %(round)s, %(worker)s, %(count)s)
    ON CONFLICT (campaign, round, worker) DO UPDATE SET received = counters.received + excluded.received
)
SELECT c.phase, c.closed, c.needed,
       (SELECT coalesce(sum(received), 0)::bigint FROM counters n WHERE n.campaign = c.id AND n.round = %(round)s),
       (SELECT count(*) FROM added),
       looked.verifiers, looked.following
FROM campaigns c, (
    SELECT string_agg((SELECT verifier FROM participants p WHERE p.campaign = %(id)s AND p.pseudonym = i.pseudonym), ''
                      ORDER BY i.n) AS verifiers,
           count(*) FILTER (WHERE %(before)s = 0 OR i.before_cell = (
               SELECT cell FROM reports b
               WHERE b.campaign = %(id)s AND b.round = %(before)s AND b.pseudonym = i.pseudonym
           )) AS following
    FROM given i
) looked
WHERE c.id = %(id)s
"""
# In the order of pseudonyms, so that two workers with the same ones wait for each other in one direction only.
_INSERT = """
INSERT INTO reports (campaign, round, pseudonym, cell, answer)
SELECT %s, i.round, i.pseudonym, i.cell, i.answer
FROM unnest(%b::int[], %b::bytea[], %b::bigint[], %b::bytea[]) AS i (round, pseudonym, cell, answer)
ORDER BY i.round, i.pseudonym
ON CONFLICT DO NOTHING
"""
_ENROL = """
INSERT INTO participants (campaign, pseudonym, verifier)
SELECT %s, i.pseudonym, i.verifier FROM unnest(%b::bytea[], %b::bytea[]) AS i (pseudonym, verifier)
ORDER BY i.pseudonym
ON CONFLICT DO NOTHING
"""
_USE_TOKENS = """
UPDATE tokens SET used_by = i.mark FROM unnest(%b::bytea[], %b::bytea[]) AS i (hash, mark) WHERE tokens.hash = i.hash
"""


def store_all(connection: Connection, number: int, worker: str, items: Sequence[Incoming]) -> bool | None:
    """Store and count reports of one round, each by another pseudonym; returns whether the round may be full.

    Returns None if not all of them are new and valid: then the caller must roll back and judge each by itself.
    """
    first = items[0]
    phase, closed, needed, received, added, verifiers, following = connection.execute(
        _STORE_ALL,
        {
            "id": number, "round": first.round, "before": first.before, "worker": worker, "count": len(items),
            "pseudonyms": _byte_strings(item.pseudonym for item in items),
            "cells": _integers(item.cell for item in items),
            "answers": _byte_strings(item.answer for item in items),
            "before_cells": _integers(item.before_cell for item in items),
        },
    ).fetchone()  # fmt: skip
    sound = (
        added == following == len(items)
        and hmac.compare_digest(verifiers or b"", b"".join(item.verifier for item in items))
        and judge_round(first.round, phase=phase, closed=closed) is None
    )
    return (needed is not None and received + len(items) >= needed) if sound else None


def add_reports(connection: Connection, number: int, phase: Phase, closed: int, items: list[Incoming]) -> list[Outcome]:
    """Store those that are new and valid; what becomes of each, by itself."""
    while True:
        columns = {
            "id": number, "pseudonyms": [item.pseudonym for item in items], "rounds": [item.round for item in items],
            "before": [item.before for item in items],
        }  # fmt: skip
        rows = connection.execute(_LOOK, columns).fetchall()
        outcomes = judge_reports(items, rows, phase=phase, closed=closed)
        new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
        if not new:
            return outcomes
        # Another worker may have inserted some meanwhile; then nothing of ours stays, and we look again.
        with connection.transaction() as savepoint:
            done = connection.execute(
                _INSERT,
                (
                    number,
                    [i.round for i in new],
                    [i.pseudonym for i in new],
                    [i.cell for i in new],
                    [i.answer for i in new],
                ),
            )
            if done.rowcount == len(new):
                return outcomes
            raise psycopg.Rollback(savepoint)


def add_participants(connection: Connection, number: int, phase: Phase, items: list[Enrolment]) -> list[Outcome]:
    """Enrol those who may; what becomes of each."""
    (body,) = connection.execute("SELECT body FROM campaigns WHERE id = %s", (number,)).fetchone()
    campaign = msgspec.msgpack.decode(body, type=Campaign)
    hashes = [item.token for item in items if item.token is not None]
    # In the order of hashes, so that two workers lock tokens in the same order.
    tokens = dict(
        connection.execute(
            "SELECT hash, used_by FROM tokens WHERE campaign = %s AND hash = ANY(%b) ORDER BY hash FOR UPDATE",
            (number, hashes),
        ).fetchall()
    )
    while True:
        names = dict(
            connection.execute(
                "SELECT pseudonym, verifier FROM participants WHERE campaign = %s AND pseudonym = ANY(%b)",
                (number, [item.pseudonym for item in items]),
            ).fetchall()
        )
        rows = [
            (
                names.get(item.pseudonym),
                (tokens[item.token],) if item.token is not None and item.token in tokens else None,
            )
            for item in items
        ]
        outcomes = judge_enrolments(items, rows, campaign=campaign, phase=phase)
        new = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "stored"]
        if not new:
            return outcomes
        with connection.transaction() as savepoint:
            done = connection.execute(
                _ENROL, (number, [item.pseudonym for item in new], [item.verifier for item in new])
            )
            if done.rowcount == len(new):
                break
            raise psycopg.Rollback(savepoint)
    used = [item for item in new if item.token is not None and item.token in tokens]
    if used:
        connection.execute(_USE_TOKENS, ([item.token for item in used], [item.used_by for item in used]))
    return outcomes


def _byte_strings(values: Iterable[bytes]) -> str:
    """An array of byte strings in PostgreSQL's notation; the driver's own is several times slower."""
    return "{" + ",".join([f'"\\\\x{value.hex()}"' for value in values]) + "}"


def _integers(values: Iterable[int]) -> str:
    """An array of integers in PostgreSQL's notation."""
    return "{" + ",".join(map(str, values)) + "}"
