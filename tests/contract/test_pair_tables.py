"""The tables of pairs keep their promises on every database."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from semilocal.service.stores.base import Store, open_store
from semilocal.service.stores.pairs import SEED, UploadRow
from tests.helpers.postgres import Postgres

TASK = hashlib.sha256(b"pair").digest()
EVERY = (bytes(16), b"\xff" * 16)
KEY = hashlib.sha256(b"seed").digest()


def upload(number: int, *, token: bytes | None = None, bucket: int = 1, public: bytes | None = None) -> UploadRow:
    report = hashlib.sha256(b"r%d" % number).digest()[:16]
    body = public if public is not None else bytes([number % 256]) * 170
    return UploadRow(report, bucket, hashlib.sha256(body + report).digest(), body, report[::-1], b"", token)


def opened(store: Store, **changes: Any) -> None:
    options: dict[str, Any] = {"role": "leader", "name": "n", "enrolment": "open", "capacity": None, "seconds": None}
    assert store.pairs.create(TASK, b"body", **(options | changes))
    store.set_setting(SEED, KEY)
    assert store.pairs.confirm(TASK, seed=KEY, next_seed=KEY[::-1])
    assert store.pairs.move(TASK, "confirming", "open")


def test_a_pair_is_created_once_and_moves_from_phase_to_phase(store: Store) -> None:
    pairs = store.pairs
    opened(store, name="first")
    assert not pairs.create(TASK, b"body", role="leader", name="x", enrolment="open", capacity=None, seconds=None)
    assert pairs.body(TASK) == b"body"
    row = pairs.row(TASK)
    assert row is not None
    assert (row.phase, row.confirmed, row.name, row.task) == ("open", True, "first", TASK)
    assert not pairs.move(TASK, "confirming", "open")
    assert pairs.move(TASK, "open", "closing", deadline=7)
    assert [row.deadline for row in pairs.rows()] == [7]
    assert pairs.row(bytes(32)) is None


def test_a_seed_goes_to_one_pair_only(store: Store) -> None:
    opened(store)
    other = bytes(32)
    assert store.pairs.create(other, b"b", role="leader", name="x", enrolment="open", capacity=None, seconds=None)
    assert store.pairs.unconfirmed() == 1
    assert not store.pairs.confirm(other, seed=KEY, next_seed=bytes(32))
    assert store.pairs.seed(TASK) == KEY
    assert store.pairs.seed(other) is None
    assert store.setting(SEED) == KEY[::-1]


def test_uploads_are_stored_once_and_never_changed(store: Store) -> None:
    opened(store)
    first = [upload(number) for number in range(5)]
    assert store.pairs.add(TASK, first) == ["stored"] * 5
    assert store.pairs.add(TASK, [first[1], upload(1, public=bytes(170)), upload(7)]) == [
        "again", "other-upload", "stored",
    ]  # fmt: skip
    assert store.pairs.add(TASK, [upload(8), upload(8), upload(8, public=bytes(170))]) == [
        "stored", "again", "other-upload",
    ]  # fmt: skip
    kept = sorted([*first, upload(7), upload(8)])
    found = store.pairs.shares(TASK, 1, kept[0].report, kept[-1].report)
    assert [(row.report, row.public) for row in found] == [(row.report, row.public) for row in kept]
    assert [row.report for row in store.pairs.shares(TASK, 1, kept[2].report, kept[4].report)] == [
        row.report for row in kept[2:5]
    ]
    assert store.pairs.shares(TASK, 2, kept[0].report, kept[-1].report) == []
    row = store.pairs.row(TASK)
    assert row is not None
    assert row.received == 7


def test_nothing_is_added_after_closing_but_what_is_stored_is_known(store: Store) -> None:
    opened(store)
    store.pairs.add(TASK, [upload(1)])
    store.pairs.move(TASK, "open", "closing")
    assert store.pairs.add(TASK, [upload(1), upload(2), upload(1, public=bytes(170))]) == [
        "again", "uploads-closed", "other-upload",
    ]  # fmt: skip


def test_a_capacity_is_never_exceeded(store: Store) -> None:
    opened(store, capacity=3)
    assert store.pairs.add(TASK, [upload(1), upload(2)]) == ["stored"] * 2
    assert store.pairs.add(TASK, [upload(3), upload(4), upload(2)]) == ["stored", "uploads-closed", "again"]


def test_a_token_is_good_for_one_upload(store: Store) -> None:
    opened(store, enrolment="tokens")
    good, other = hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest()
    store.pairs.add_tokens(TASK, [good, other])
    assert store.pairs.add(TASK, [upload(1), upload(2, token=bytes(32)), upload(3, token=good)]) == [
        "bad-token", "bad-token", "stored",
    ]  # fmt: skip
    assert store.pairs.add(TASK, [upload(3, token=good), upload(4, token=good)]) == ["again", "token-used"]
    assert store.pairs.add(TASK, [upload(5, token=other), upload(6, token=other)]) == ["stored", "token-used"]


def test_forwarding_goes_on_where_it_ended(store: Store) -> None:
    opened(store)
    for number in range(6):
        store.pairs.add(TASK, [upload(number)])
    batch = store.pairs.waiting(TASK, after=0, limit=4)
    assert [row.report for row in batch] == [upload(number).report for number in range(4)]
    store.pairs.forwarded(TASK, batch[-1].number, [batch[2].report])
    store.pairs.forwarded(TASK, batch[-1].number, [batch[2].report])  # a repetition after a crash changes nothing
    row = store.pairs.row(TASK)
    assert row is not None
    assert row.refused == 1
    rest = store.pairs.waiting(TASK, after=row.forwarded, limit=4)
    assert [row.report for row in rest] == [upload(4).report, upload(5).report]
    assert [report for report, _ in store.pairs.ids(TASK)] == sorted(
        upload(number).report for number in (0, 1, 3, 4, 5)
    )


def test_a_step_keeps_its_first_request_and_answer(store: Store) -> None:
    opened(store)
    pairs = store.pairs
    assert pairs.put_step(TASK, 0, 1, "close", b"q", None) == (0, 1, "close", b"q", None)
    assert pairs.put_step(TASK, 0, 1, "close", b"other", b"a") == (0, 1, "close", b"q", None)
    pairs.put_answer(TASK, 0, b"first")
    pairs.put_answer(TASK, 0, b"second")
    assert pairs.step(TASK, 1, "close") == (0, 1, "close", b"q", b"first")
    assert pairs.put_step(TASK, 0, 1, "levels/0/check", b"x", b"y") is None  # the number is taken
    assert pairs.put_step(TASK, 1, 1, "levels/0/check", b"x", b"y") == (1, 1, "levels/0/check", b"x", b"y")
    assert [step.step for step in pairs.steps(TASK)] == ["close", "levels/0/check"]


@pytest.mark.parametrize("end", ["done", "cancelled"])
def test_cleaning_deletes_everything_but_the_last_step(store: Store, end: Any) -> None:
    opened(store)
    pairs = store.pairs
    pairs.add(TASK, [upload(number) for number in range(3)])
    pairs.put_step(TASK, 0, 1, "close", b"q", b"a")
    pairs.put_step(TASK, 1, 0, "sign", b"q", b"a")
    assert pairs.move(TASK, "open", end, transcript=b"public")
    assert [row.task for row in pairs.rows(active=True)] == [TASK]
    pairs.clean(TASK)
    assert pairs.rows(active=True) == []
    assert pairs.shares(TASK, 1, *EVERY) == []
    assert [step.step for step in pairs.steps(TASK)] == ["sign"]
    assert pairs.seed(TASK) is None
    assert pairs.transcript(TASK) == b"public"


@pytest.mark.slow
def test_postgresql_keeps_deleted_shares_in_its_log_only(postgres: Postgres) -> None:
    """The tables are rewritten. The write-ahead log is the server's: the documentation says what it still holds."""
    import psycopg

    url = postgres.new_database()
    store = open_store(url, worker="test")
    opened(store)
    rows = [upload(number, public=hashlib.shake_256(b"%d" % number).digest(1500)) for number in range(40)]
    store.pairs.add(TASK, rows)
    secret = [KEY, *(row.private for row in rows), *(row.public[:64] for row in rows)]

    with psycopg.connect(url) as connection:
        (own,) = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone() or (0,)

    def found(folder: str) -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        data = b"".join(path.read_bytes() for path in (postgres.data / folder).rglob("*") if path.is_file())
        return sum(part in data for part in secret)

    assert found(f"base/{own}") == len(secret)
    assert store.pairs.move(TASK, "open", "done", transcript=b"public")
    store.pairs.clean(TASK)
    assert found(f"base/{own}") == 0
    assert found("pg_wal") > 0
    store.close()
