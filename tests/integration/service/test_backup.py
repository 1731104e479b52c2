"""``semilocal backup``: a whole copy of a database in use, for its owner alone, or none."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from pathlib import Path

import pytest

from semilocal.cli.main import main
from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import Enrolment, open_store
from tests.helpers.service import open_campaign, sample_task

TASK = sample_task()


def enrol(number: int) -> Enrolment:
    name = hashlib.sha256(b"%d" % number).digest()
    return Enrolment(TASK.id, name[:16], name, None, None)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "service.db"
    store = open_store(f"sqlite:///{path}")
    create_campaign(store, open_campaign(TASK), now=0)
    store.apply([enrol(number) for number in range(500)])
    store.close()
    return path


def back_up(database: Path, out: Path) -> int:
    return main(["backup", "--db", f"sqlite:///{database}", "--out", str(out)])


def test_a_copy_made_while_reports_come_in_is_whole_and_private(database: Path, tmp_path: Path) -> None:
    store, out, stop = open_store(f"sqlite:///{database}"), tmp_path / "copy.db", threading.Event()

    def write() -> None:
        number = 1000
        while not stop.is_set():
            store.apply([enrol(number + one) for one in range(20)])  # all of them or none
            number += 20

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):  # an earlier copy is replaced
            assert back_up(database, out) == 0
    finally:
        stop.set()
        writer.join()
    last = store.status(TASK.id)
    store.close()
    assert out.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]
    copy = open_store(f"sqlite:///{out}")
    status = copy.status(TASK.id)
    assert status is not None
    assert last is not None
    assert 500 <= status.enrolled <= last.enrolled
    assert status.enrolled % 20 == 0
    assert copy.apply([enrol(7), enrol(10**6)]).outcomes == ["again", "stored"]
    copy.close()


def test_what_a_killed_server_left_in_its_log_is_in_the_copy(database: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("INSERT INTO settings VALUES ('late', x'01')")
    connection.commit()
    assert Path(f"{database}-wal").stat().st_size
    assert back_up(database, tmp_path / "copy.db") == 0
    with sqlite3.connect(tmp_path / "copy.db") as copy:
        assert copy.execute("SELECT count(*) FROM settings WHERE key = 'late'").fetchone() == (1,)
    connection.close()


def test_a_damaged_database_gives_no_copy_and_keeps_the_earlier_one(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "copy.db"
    assert back_up(database, out) == 0
    before, data = out.read_bytes(), bytearray(database.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = bytes(range(256)) * 16
    database.write_bytes(data)
    assert back_up(database, out) == 2
    said = capsys.readouterr().err
    assert any(word in said for word in ("is damaged", "malformed"))
    assert out.read_bytes() == before
    assert not list(tmp_path.glob("*.new"))


def test_nothing_but_an_earlier_copy_is_replaced(database: Path, tmp_path: Path) -> None:
    text, served = tmp_path / "notes.txt", tmp_path / "served.db"
    text.write_text("mine")
    open_store(f"sqlite:///{served}").close()
    Path(f"{served}.lock").touch()
    link = tmp_path / "link.db"
    link.symlink_to(database)
    for out in (text, served, database, link):
        before = out.read_bytes()
        assert back_up(database, out) == 2
        assert out.read_bytes() == before
    assert back_up(tmp_path / "nothing.db", tmp_path / "copy.db") == 2
    assert main(["backup", "--db", "postgresql://db/semilocal", "--out", str(tmp_path / "copy.db")]) == 2
    assert not (tmp_path / "copy.db").exists()
