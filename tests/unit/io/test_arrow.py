"""pyarrow reads the same as we do line by line, and leaves everything doubtful to us."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from semilocal.engines import files
from semilocal.errors import InvalidInput
from semilocal.io.points import Table, read_points

pytest.importorskip("pyarrow")

PLAIN = {
    "commas": "id,x,y\na,1.5,2\nb,-.25,1e3\na,0.1,7\n",
    "semicolons": "id;x;y\na;1.5;2\n;2;3\n b;4;5\nb;6;7\n",
    "tabs and Windows": "id\tx\ty\r\na\t1.5\t2\r\n",
    "empty lines": "\n\nid,x,y\n\na,1,2\n\n\nb,3,4\n",
    "no last line end": "id,x,y\na,1,2\nb,3,4",
    "a byte order mark": "\ufeffid,x,y\na,1,2\n",
    "other columns": "note,id,x,y\nNA,a,1,2\n,null,3,4\n",
    "letters": "id,x,y\nJosé,1,2\nÅsa,3,4\nJosé,5,6\n",
    "a quoted header": '"id","x","y"\na,1.5,2\n',
    "quoted cells": 'id,x,y\n"a",1.5,2\n"a","2.5",3\n',
    "spaces": "id,x,y\na, 1.5 ,2\n",
    "underscores": "id,x,y\na,1_000,2\n",
}
REFUSED = {
    "a word": ("id,x,y\na,1,2\nb,here,2\n", "line 3"),
    "an empty cell": ("id,x,y\na,,2\n", "line 2.*is empty"),
    "too few": ("id,x,y\na,1,2\nb,2\n", "line 3: has 2 cells"),
    "too many": ("id,x,y\na,1,2,3\n", "line 2: has 4 cells"),
    "not a number": ("id,x,y\na,1,2\na,nan,2\n", "line 3.*NaN"),
    "infinity": ("id,x,y\na,inf,2\n", "line 2.*infinite"),
    "half a quote": ('id,x,y\na,"1"2,2\n', "line 2: is not CSV"),
    "no rows": ("id,x,y\n", "has no data lines"),
}


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WORTH_IT", 0)


def by_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    with monkeypatch.context() as slow:
        slow.setattr("semilocal.engines.files._CsvFile.in_batches", lambda _: False)
        return read_points(path, labels=["id"])


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
@pytest.mark.parametrize("name", PLAIN)
def test_both_ways_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, ending: str) -> None:
    path, text = tmp_path / f"people.{ending}", PLAIN[name].encode()
    packed = gzip.compress(text[:20]) + gzip.compress(text[20:])  # several members are one file
    path.write_bytes(packed if ending == "csv.gz" else text)
    quick, slow = read_points(path, labels=["id"]), by_lines(path, monkeypatch)
    assert quick.points.tolist() == slow.points.tolist()
    assert quick.labels["id"].tolist() == slow.labels["id"].tolist()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_named_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text, words = REFUSED[name]
    path = tmp_path / "people.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=words) as quick:
        read_points(path, labels=["id"])
    with pytest.raises(InvalidInput) as slow:
        by_lines(path, monkeypatch)
    assert str(quick.value) == str(slow.value)


def by_batches(path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Fails if the file is read line by line."""
    with monkeypatch.context() as quick:
        quick.delattr("semilocal.engines.files._CsvFile._read_lines")
        return read_points(path, labels=["id"])


def test_plain_files_really_take_the_quick_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.csv"
    path.write_text(PLAIN["commas"].replace("id,x,y", '"id","x","y"'))  # as many programs write it
    found = by_batches(path, monkeypatch)
    assert found.points.tolist() == [[1.5, 2.0], [-0.25, 1000.0], [0.1, 7.0]]
    assert found.labels["id"].tolist() == [1, 2, 1]


def test_codes_of_other_columns_are_equal_where_the_content_is() -> None:
    import pyarrow

    column = pyarrow.chunked_array([[3, None, 5], [3, 7]])
    assert files.codes_of(column).tolist() == [1, -1, 2, 1, 3]
    assert files.codes_of(pyarrow.chunked_array([["", "a", None, "a "]])).tolist() == [-1, 1, -1, 1]
