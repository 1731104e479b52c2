"""Which databases are served."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from semilocal.errors import InvalidInput
from semilocal.service.server import serve
from semilocal.service.stopping import Stop
from semilocal.service.stores.base import open_store
from semilocal.service.stores.sqlite import check_file, lock_for_serving


def test_a_database_is_served_once_also_under_the_name_of_a_link(tmp_path: Path) -> None:
    handle = lock_for_serving(str(tmp_path / "a.db"))
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    with pytest.raises(InvalidInput, match=rf"link.db is served by another process \({os.getpid()}\)"):
        lock_for_serving(str(tmp_path / "link.db"))
    os.close(handle)


def test_a_database_with_two_names_is_not_opened_under_any(tmp_path: Path) -> None:
    first, second = tmp_path / "a.db", tmp_path / "b.db"
    handle = lock_for_serving(str(first))
    second.hardlink_to(first)
    for path in (first, second):
        for start in (lambda url: lock_for_serving(url.removeprefix("sqlite:///")), open_store):
            with pytest.raises(InvalidInput, match=rf"{path.name} has 2 names \(hard links\)"):
                start(f"sqlite:///{path}")
    os.close(handle)
    second.unlink()
    os.close(lock_for_serving(str(first)))
    open_store(f"sqlite:///{first}").close()


def other_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
    connection.close()


FOREIGN = {
    "not a database": lambda path: path.write_text("lon,lat\n1,2\n" * 99),
    "belongs to another program": other_program,
}


@pytest.mark.parametrize("words", FOREIGN)
def test_a_file_of_others_is_refused_and_left_as_it_is(tmp_path: Path, words: str) -> None:
    path = tmp_path / "notes"
    FOREIGN[words](path)
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=words):
        serve(f"sqlite:///{path}", stop=Stop())
    assert [file.name for file in tmp_path.iterdir()] == ["notes"]
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.read_bytes() == before


def test_an_own_database_is_taken_also_with_a_log_that_was_not_written_back(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    check_file(path, new=True)
    (tmp_path / "a.db").touch()
    check_file(path)
    store = open_store(f"sqlite:///{path}")
    store.close()
    check_file(path)
    for name in ("a.db", "a.db-wal"):  # as after a crash: the first page is older than the log
        kept = tmp_path / "crashed" / name
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes((tmp_path / "a.db").read_bytes()[:60] + bytes(40) if name == "a.db" else b"log")
    check_file(str(tmp_path / "crashed" / "a.db"))
