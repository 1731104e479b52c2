"""The contract of a store, on SQLite and on a real PostgreSQL: the same promises, the same tests."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from semilocal import Report, Task
from semilocal.errors import InvalidInput, SchemaMismatch, StoreUnavailable
from semilocal.protocol.messages import encode
from semilocal.service.campaign import Campaign, Status, token_hash, used_by
from semilocal.service.keys import first_admin_token
from semilocal.service.rounds import advance, cancel, create_campaign, new_tokens, report_head, start
from semilocal.service.stores.base import Enrolment, Incoming, Store, What, open_store
from tests.helpers.postgres import Postgres
from tests.helpers.service import open_campaign, sample_task
from tests.helpers.stored import verify

TASK = sample_task()
WHATS: tuple[What, ...] = ("query", "closed", "checkpoint", "seal")
NAMES = [bytes([number]) * 16 for number in range(1, 20)]


def verifier(name: bytes) -> bytes:
    return name * 2


def enrol(name: bytes) -> Enrolment:
    return Enrolment(TASK.id, name, verifier(name), None, None)


def body_of(name: bytes, task: Task = TASK) -> bytes:
    """What follows the pseudonym in a report of round 1 with this nonce."""
    data = encode(Report(task.id, 1, name, *task.hierarchy.ends, None, name))
    return data[len(report_head(task.id, 1, Report)) + len(name) :]


def report(name: bytes, *, round_: int = 1, nonce: bytes | None = None, awaited: bool = True) -> Incoming:
    return Incoming(TASK.id, round_, name, verifier(name), body_of(nonce or name), awaited)


def status_of(store: Store) -> Status:
    status = store.status(TASK.id)
    assert status is not None
    return status


@pytest.fixture
def opened(store: Store) -> Store:
    """A store with a campaign whose first round is open for 10 participants."""
    assert create_campaign(store, open_campaign(TASK), now=1000)
    assert store.apply([enrol(name) for name in NAMES[:10]]).outcomes == ["stored"] * 10
    assert start(store, TASK.id, 1000.5)
    return store


def test_a_campaign_comes_back_as_it_was_created(store: Store) -> None:
    campaign = Campaign("täst", TASK, (), "tokens", 7, 100)
    assert create_campaign(store, campaign, now=1000.2)
    assert store.campaign(TASK.id) == campaign
    assert list(store.statuses()) == [TASK.id]
    status = status_of(store)
    assert (status.phase, status.round, status.closed, status.needed, status.deadline) == ("enrolling", 0, 0, 7, 1101)
    assert store.statuses() == {TASK.id: status} == store.statuses(active=True)
    assert store.campaign(bytes(32)) is None
    assert store.status(bytes(32)) is None


def test_a_task_is_there_once(store: Store) -> None:
    assert create_campaign(store, open_campaign(TASK), now=0)
    assert not create_campaign(store, open_campaign(TASK, capacity=3), now=0)
    assert store.campaign(TASK.id) == open_campaign(TASK)


def test_enrolling_twice_is_one_participant_and_another_key_is_refused(store: Store) -> None:
    create_campaign(store, open_campaign(TASK), now=0)
    mine, stolen = enrol(NAMES[0]), Enrolment(TASK.id, NAMES[0], bytes(32), None, None)
    assert store.apply([mine, mine, stolen]).outcomes == ["stored", "again", "pseudonym-taken"]
    assert store.apply([mine, stolen]).outcomes == ["again", "pseudonym-taken"]
    status = status_of(store)
    assert status.enrolled == status.received == 1


def test_a_token_works_once_and_is_stored_hashed(store: Store, database: str) -> None:
    create_campaign(store, Campaign("tokens", TASK), now=0)
    token, other = new_tokens(store, TASK.id, count=2)

    def ask(name: bytes, text: str | None) -> Enrolment:
        if text is None:
            return Enrolment(TASK.id, name, verifier(name), None, None)
        return Enrolment(TASK.id, name, verifier(name), token_hash(text), used_by(text, name, verifier(name)))

    first, second, third = NAMES[:3]
    batch = [ask(first, token), ask(second, token), ask(second, "slt_unknown"), ask(third, None)]
    assert store.apply(batch).outcomes == ["stored", "token-used", "bad-token", "bad-token"]
    assert store.apply([ask(first, token), ask(second, token), ask(second, other)]).outcomes == [
        "again",
        "token-used",
        "stored",
    ]
    again = [ask(first, "slt_unknown"), ask(first, None), ask(first, other), ask(first, token)]
    assert store.apply(again).outcomes == ["bad-token", "bad-token", "token-used", "again"]
    if database.startswith("sqlite"):
        raw = b"".join(path.read_bytes() for path in Path(database[10:]).parent.iterdir())
        assert token.encode() not in raw
        assert token_hash(token) in raw


def test_a_token_is_for_one_task(store: Store) -> None:
    other = sample_task(delta=0.01)
    create_campaign(store, Campaign("one", TASK), now=0)
    create_campaign(store, Campaign("two", other), now=0)
    (token,) = new_tokens(store, other.id, count=1)
    item = Enrolment(
        TASK.id, NAMES[0], verifier(NAMES[0]), token_hash(token), used_by(token, NAMES[0], verifier(NAMES[0]))
    )
    assert store.apply([item]).outcomes == ["bad-token"]


def test_capacity_and_quorum_are_reported_when_reached(store: Store) -> None:
    create_campaign(store, open_campaign(TASK, capacity=3), now=0)
    assert store.apply([enrol(NAMES[0]), enrol(NAMES[1])]).full == set()
    assert store.apply([enrol(NAMES[1]), enrol(NAMES[2])]).full == {TASK.id}
    assert advance(store, TASK.id, 0.0)
    assert store.apply([report(name) for name in NAMES[:2]]).full == set()
    assert store.apply([report(NAMES[2])]).full == {TASK.id}


def test_enrolment_ends_exactly_at_the_capacity(store: Store, database: str) -> None:
    """Also inside one batch, with enrolments repeated, and with several workers at once."""
    create_campaign(store, open_campaign(TASK, capacity=9), now=0)
    assert store.apply([enrol(name) for name in [*NAMES[:3], NAMES[0]]]).outcomes == ["stored"] * 3 + ["again"]
    stored: list[str] = []
    gate = threading.Barrier(3)

    def send(names: list[bytes]) -> None:
        mine = open_store(database, worker=names[0].hex())
        gate.wait()
        for name in names:
            stored.extend(mine.apply([enrol(name)]).outcomes)
        mine.close()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(send, (NAMES[3:7], NAMES[7:11], NAMES[11:15])))
    assert sorted(stored) == ["enrolment-closed"] * 6 + ["stored"] * 6
    assert store.apply([enrol(NAMES[0]), enrol(NAMES[15])]).outcomes == ["again", "enrolment-closed"]
    assert status_of(store).enrolled == 9
    assert advance(store, TASK.id, 0.0)


def test_a_batch_larger_than_the_room_left_fills_it(store: Store) -> None:
    create_campaign(store, open_campaign(TASK, capacity=2), now=0)
    applied = store.apply([enrol(name) for name in NAMES[:4]])
    assert applied == (["stored", "stored", "enrolment-closed", "enrolment-closed"], {TASK.id})


def test_every_outcome_of_a_report(opened: Store) -> None:
    a, b, stranger = NAMES[0], NAMES[1], NAMES[15]
    assert opened.apply([report(a)]).outcomes == ["stored"]
    batch = [
        report(a),
        report(a, nonce=b),
        report(stranger),
        report(b)._replace(verifier=bytes(32)),
        report(b, round_=2),
        report(b)._replace(task=bytes(32)),
        report(b),
        report(b),
        report(b, nonce=a),
    ]
    assert opened.apply(batch).outcomes == [
        "again", "other-answer", "unauthorized", "unauthorized", "not-open-yet", "no-such-task", "stored", "again",
        "other-answer",
    ]  # fmt: skip
    assert status_of(opened).received == 2
    assert [row.pseudonym for row in opened.reports(TASK.id, 1, after=b"", limit=10)] == [a, b]


@pytest.mark.parametrize(
    ("flaw", "outcome"),
    [
        (report(NAMES[3])._replace(verifier=verifier(NAMES[4])), "unauthorized"),
        (report(NAMES[15]), "unauthorized"),
        (report(NAMES[0]), "again"),
        (report(NAMES[0], nonce=NAMES[1]), "other-answer"),
        (report(NAMES[5]), "again"),
        (report(NAMES[5], nonce=NAMES[1]), "other-answer"),
    ],
)
def test_one_flawed_report_in_a_batch_harms_nobody_else(opened: Store, flaw: Incoming, outcome: str) -> None:
    """Batches of sound reports are stored at once; one that is not must be found, and must cost the others nothing."""
    assert opened.apply([report(NAMES[0])]).outcomes == ["stored"]
    applied = opened.apply([report(NAMES[5]), flaw, report(NAMES[6]), report(NAMES[7])])
    assert applied.outcomes == ["stored", outcome, "stored", "stored"]
    rows = opened.reports(TASK.id, 1, after=b"", limit=100)
    wanted = {NAMES[0], *NAMES[5:8]}
    assert {row.pseudonym: row.body for row in rows} == {name: body_of(name) for name in wanted}
    assert status_of(opened).received == len(wanted)
    assert opened.apply([report(name) for name in NAMES[5:10]]).outcomes == ["again"] * 3 + ["stored"] * 2


def test_bodies_of_different_lengths_in_one_batch_stay_whole(opened: Store) -> None:
    bodies = [b"\x92\x01", b"\x01", b"\x93\x01\x02"]  # together as long as three of the first
    names = sorted(NAMES[:3])
    batch = [report(name)._replace(body=body) for name, body in zip(names, bodies, strict=True)]
    assert opened.apply(batch).outcomes == ["stored"] * 3
    assert [row.body for row in opened.reports(TASK.id, 1, after=b"", limit=10)] == bodies


@pytest.mark.parametrize("apart", [False, True])
def test_only_awaited_reports_fill_a_round_and_all_are_stored(opened: Store, apart: bool) -> None:
    """Reports of people who are late or back must not close a round before those it waits for have answered."""
    others = [report(name, awaited=False) for name in NAMES[:5]]
    if apart:  # the long way: every report is judged by itself
        others.append(others[0])
    assert opened.apply(others).full == set()
    assert status_of(opened).received == 0
    assert len(opened.reports(TASK.id, 1, after=b"", limit=100)) == 5
    assert opened.apply([report(NAMES[5])]).outcomes == ["stored"]
    assert opened.apply([report(NAMES[0])]).outcomes == ["again"]
    assert status_of(opened).received == 1


def test_reports_are_found_by_what_their_bodies_begin_with(opened: Store) -> None:
    names = sorted(NAMES[:4])
    bodies = [b"\x01\x02a", b"\x01\x03b", b"\x01\x02c", b"\x01"]
    batch = [report(name)._replace(body=body) for name, body in zip(names, bodies, strict=True)]
    assert opened.apply(batch).outcomes == ["stored"] * 4
    found = opened.reports_like(TASK.id, 1, b"\x01\x02")
    assert [(row.pseudonym, row.body) for row in found] == [(names[0], bodies[0]), (names[2], bodies[2])]
    assert len(opened.reports_like(TASK.id, 1, b"")) == 4
    assert opened.reports_like(TASK.id, 2, b"") == []


def test_closed_rounds_take_nothing_and_still_know_what_they_have(opened: Store) -> None:
    opened.apply([report(name) for name in NAMES[:9]])
    assert advance(opened, TASK.id, 10_000.0)
    before = [opened.message(TASK.id, 1, what) for what in WHATS]
    assert None not in before
    late, again, other = report(NAMES[9]), report(NAMES[0]), report(NAMES[0], nonce=NAMES[1])
    assert opened.apply([late, again, other]).outcomes == ["round-closed", "again", "other-answer"]
    assert len(opened.reports(TASK.id, 1, after=b"", limit=100)) == 9
    advance(opened, TASK.id, 10_000.0)
    assert [opened.message(TASK.id, 1, what) for what in WHATS] == before
    verify(opened, TASK.id)


def test_enrolment_goes_on_while_the_partition_does(opened: Store) -> None:
    assert opened.apply([enrol(NAMES[12]), enrol(NAMES[0])]).outcomes == ["stored", "again"]
    with opened.lock(TASK.id) as held:
        assert held is not None
        held.move("releasing")
    assert opened.apply([enrol(NAMES[13])]).outcomes == ["enrolment-closed"]


def test_a_cancelled_campaign_takes_nothing(opened: Store) -> None:
    opened.apply([report(NAMES[0])])
    assert cancel(opened, TASK.id)
    assert not cancel(opened, TASK.id)
    assert not advance(opened, TASK.id, 1e9)
    assert opened.apply([report(NAMES[0]), report(NAMES[1]), enrol(NAMES[12])]).outcomes == [
        "again", "campaign-ended", "campaign-ended",
    ]  # fmt: skip
    assert opened.statuses(active=True) == {}
    verify(opened, TASK.id)


def test_a_failed_transaction_leaves_nothing(opened: Store) -> None:
    def half_way() -> None:
        with opened.lock(TASK.id) as held:
            assert held is not None
            held.close_round(1, b"closed", b"checkpoint", b"seal")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_way()
    assert opened.message(TASK.id, 1, "closed") is None
    with opened.lock(TASK.id) as held:
        assert held is not None
        with pytest.raises(InvalidInput):
            held.close_round(2, b"", b"", b"")
    assert opened.apply([report(NAMES[0])]).outcomes == ["stored"]


def test_pages_of_reports_are_ordered_and_complete(opened: Store) -> None:
    opened.apply([report(name) for name in reversed(NAMES[:10])])
    seen, after = [], b""
    while page := opened.reports(TASK.id, 1, after=after, limit=3):
        seen += [row.pseudonym for row in page]
        after = page[-1].pseudonym
    assert seen == sorted(NAMES[:10])


def test_what_was_acknowledged_is_there_after_opening_again(opened: Store, database: str) -> None:
    opened.apply([report(name) for name in NAMES[:4]])
    opened.close()
    again = open_store(database, worker="test")
    assert status_of(again).received == 4
    assert again.apply([report(NAMES[0]), report(NAMES[4])]).outcomes == ["again", "stored"]
    again.close()


def test_the_admin_token_is_shown_once(store: Store) -> None:
    stored, token = first_admin_token(store)
    assert token is not None
    assert first_admin_token(store) == (stored, None)


def test_exactly_one_of_many_closers_closes(opened: Store, database: str) -> None:
    opened.apply([report(name) for name in NAMES[:10]])
    done: list[bool] = []
    gate = threading.Barrier(6)

    def close() -> None:
        mine = open_store(database, worker="closer")
        gate.wait()
        done.append(advance(mine, TASK.id, 2_000.0) is not None)  # after the first window, before the second one ends
        mine.close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: close(), range(6)))
    assert sorted(done) == [False] * 5 + [True]
    verify(opened, TASK.id)


def test_reports_and_closings_at_once_count_everybody_once(store: Store, database: str) -> None:
    """Two writers send the same reports while a third closes: what is acknowledged is counted, once."""
    create_campaign(store, open_campaign(TASK), now=0)
    names = [number.to_bytes(16, "big") for number in range(1, 401)]
    store.apply([Enrolment(TASK.id, name, name * 2, None, None) for name in names])
    start(store, TASK.id, 0.0)
    stored: list[bytes] = []
    gate = threading.Barrier(3)

    def send(step: int) -> None:
        mine = open_store(database, worker=f"worker{step}")
        gate.wait()
        order = names[::step]
        for first in range(0, len(order), 20):
            batch = [report(name) for name in order[first : first + 20]]
            outcomes = mine.apply(batch).outcomes
            assert set(outcomes) <= {"stored", "again", "round-closed"}
            stored.extend(item.pseudonym for item, outcome in zip(batch, outcomes, strict=True) if outcome == "stored")
        mine.close()

    def close() -> None:
        mine = open_store(database, worker="closer")
        gate.wait()
        assert advance(mine, TASK.id, 1_000.0)
        mine.close()

    with ThreadPoolExecutor(3) as threads:
        for one in [threads.submit(send, 1), threads.submit(send, -1), threads.submit(close)]:
            one.result()
    assert len(stored) == len(set(stored))
    assert sorted(stored) == [row.pseudonym for row in store.reports(TASK.id, 1, after=b"", limit=1000)]
    verify(store, TASK.id)


def test_a_report_that_another_worker_is_just_storing_is_stored_once(postgres: Postgres) -> None:
    """The second one sees no row yet, waits for the first at the key, and judges its batch anew."""
    database = postgres.new_database()
    first, second = (open_store(database, worker=name) for name in ("first", "second"))
    create_campaign(first, open_campaign(TASK), now=1000)
    first.apply([enrol(name) for name in NAMES[:10]])
    start(first, TASK.id, 1000.5)
    with ThreadPoolExecutor(1) as other:
        with first._writing() as connection:
            columns = {"pseudonym": [NAMES[1]], "body": [report(NAMES[1]).body]}
            assert first._insert_new(connection, "reports", {"campaign": 1, "round": 1}, columns)
            later = other.submit(second.apply, [report(name) for name in NAMES[:3]])
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while not later.done() and first._run(connection, waits).fetchone() == (0,):
                first._run(connection, "SELECT pg_stat_clear_snapshot()")
                time.sleep(0.01)
        assert later.result().outcomes == ["stored", "again", "stored"]
    first.close()
    second.close()


def test_what_a_batch_reads_does_not_grow_with_the_campaign(postgres: Postgres) -> None:
    """A planner that reads all rows of a campaign for every batch reads 15 times as many as there are."""
    import psycopg

    database, people = postgres.new_database(), 1500
    store = open_store(database, worker="test")
    create_campaign(store, Campaign("tokens", TASK, (), "tokens"), now=0)
    tokens = new_tokens(store, TASK.id, count=people)
    names = [hashlib.sha256(token.encode()).digest()[:16] for token in tokens]
    for first in range(0, people, 50):
        batch = [
            Enrolment(TASK.id, name, name * 2, token_hash(token), used_by(token, name, name * 2))
            for name, token in zip(names[first : first + 50], tokens[first : first + 50], strict=True)
        ]
        assert store.apply(batch).outcomes == ["stored"] * 50
    start(store, TASK.id, 0.0)
    for first in range(0, people - 50, 50):
        reports = [report(name) for name in names[first : first + 50]]
        assert store.apply(reports).outcomes == ["stored"] * 50
    store.close()
    with psycopg.connect(database, autocommit=True) as connection:
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while connection.execute(others).fetchone() != (0,):  # a process that ends says what it read
            time.sleep(0.01)
        found = connection.execute("SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes").fetchall()
        scanned = connection.execute("SELECT relname, seq_tup_read FROM pg_stat_user_tables").fetchall()
    read: dict[str, int] = dict([*found, *scanned])
    assert {name: rows for name, rows in read.items() if rows > 5 * people} == {}
    assert read["participants_pkey"] >= people - 50, "what is read is counted"


def set_version(database: str, version: int) -> None:
    if database.startswith("sqlite"):
        with sqlite3.connect(database[10:]) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
    else:
        import psycopg

        with psycopg.connect(database, autocommit=True) as other:
            other.execute("UPDATE schema_version SET version = %s", (version,))


@pytest.mark.parametrize(
    ("version", "words"), [(6, "but this program begins at 7; finish its campaigns"), (99, "up to 8; update")]
)
def test_another_schema_is_refused_with_a_sentence(store: Store, database: str, version: int, words: str) -> None:
    store.close()
    set_version(database, version)
    with pytest.raises(SchemaMismatch, match=f"schema version {version}, .*{words}"):
        open_store(database)


def test_a_database_of_the_version_before_is_brought_up_to_date(store: Store, database: str) -> None:
    with store._writing() as connection:
        store._run(connection, "CREATE TABLE pair_levels (pair INTEGER)")
    store.close()
    set_version(database, 7)
    for _ in range(2):
        again = open_store(database)
        with pytest.raises(StoreUnavailable, match="pair_levels"):
            again._read("SELECT * FROM pair_levels")
        again.close()


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
    connection.close()
    with pytest.raises(InvalidInput, match="another program"):
        open_store(f"sqlite:///{path}")


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "mysql://x", "file.db"])
def test_a_wrong_database_url_is_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///file or postgresql://"):
        open_store(url)


def test_no_column_can_hold_an_address_or_the_time_of_a_participant(postgres: Postgres, tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.db'}")
    store.close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        columns = {
            (table, row[1])
            for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            for row in connection.execute(f"PRAGMA table_info({table})")
        }
    connection.close()
    expected = {
        "settings": ["key", "value"],
        "campaigns": ["id", "task", "body", "phase", "round", "closed", "needed", "deadline", "fold"],
        "tokens": ["hash", "campaign", "used_by"],
        "participants": ["campaign", "pseudonym", "verifier"],
        "rounds": ["campaign", "round", "query", "closed", "checkpoint", "seal"],
        "reports": ["campaign", "round", "pseudonym", "body"],
        "counters": ["campaign", "round", "worker", "received"],
        "pairs": [
            "id", "task", "body", "role", "name", "phase", "confirmed", "enrolment", "capacity", "seconds", "deadline",
            "received", "forwarded", "refused", "accepted", "cleaned", "seed", "transcript",
        ],
        "pair_tokens": ["hash", "pair", "used"],
        "pair_uploads": ["id", "pair", "report", "bucket", "digest", "public", "private", "onward"],
        "pair_refused": ["pair", "report"],
        "pair_steps": ["pair", "number", "bucket", "step", "request", "answer"],
    }  # fmt: skip
    assert columns == {(table, name) for table, names in expected.items() for name in names}
    import psycopg

    url = postgres.new_database()
    open_store(url, worker="x").close()
    with psycopg.connect(url) as other:
        rows = other.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        )
        assert set(rows.fetchall()) == columns | {("schema_version", "version")}
