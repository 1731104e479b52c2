"""The command ``verify``: what it prints and the code it exits with."""

from __future__ import annotations

from pathlib import Path

import pytest

from semilocal.sharing.wire import BucketTree
from tests.helpers.commands import refused, run
from tests.helpers.fake_pair import published_numbers, sample_pair, signed_tree
from tests.helpers.transcript_cases import campaign, pack, tag

PLAYED = campaign(30, k=3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.slt"
    path.write_bytes(pack(PLAYED.events, PLAYED.task))
    return path


def test_an_honest_transcript_exits_with_zero(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "verify", file, "--against", file)
    assert code == 0
    for words in ("No difference.", "answers counted again", "reports per second"):
        assert words in out
    file.write_bytes(pack(PLAYED.events[:1], PLAYED.task))
    code, out, _ = run(capsys, "verify", file)
    assert (code, "No difference." in out) == (0, True)
    assert "the collection is not finished: round 1 would come next" in out


def test_a_difference_exits_with_one_and_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = campaign(30, k=3, seed=8)
    second = file.with_name("second.slt")
    second.write_bytes(pack(other.events, other.task))
    code, out, _ = run(capsys, "verify", file, "--against", second)
    assert (code, "[other-history]" in out) == (1, True)
    events = list(PLAYED.events)
    del events[next(i for i, event in enumerate(events) if tag(event) == "report")]
    file.write_bytes(pack(events, PLAYED.task))
    code, out, _ = run(capsys, "verify", file)
    assert (code, "[missing-report]" in out) == (1, True)


@pytest.mark.parametrize("data", [b"", b"x,y\n1,2\n", b"semilocal transcripts"])
def test_a_file_that_is_no_transcript_is_refused_and_not_called_checked_nor_another_history(
    file: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    table = file.with_name("homes.csv")
    table.write_bytes(data)
    for words in ((table,), (file, "--against", table)):
        assert "homes.csv: is no transcript that can be read" in refused(capsys, "verify", *words)


def test_a_transcript_that_is_damaged_from_its_beginning_is_not_called_checked(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(file.read_bytes()[:30])
    code, out, _ = run(capsys, "verify", file)
    assert (code, "[damaged-file]" in out) == (1, True)
    assert "Checked" not in out
    assert "per second" not in out


# -- two servers -------------------------------------------------------------------------------------------------------


def pair_transcript(path: Path, seed: int = 1) -> bytes:
    numbers = published_numbers(seed)
    tree = BucketTree(1, numbers.to_bytes(), (0,) * len(numbers.opened))
    data = signed_tree(sample_pair(), (tree,)).to_bytes()
    path.write_bytes(data)
    return data


def test_the_transcript_of_two_servers_is_verified_with_its_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pair.slt"
    pair_transcript(path)
    code, out, _ = run(capsys, "verify", path)
    assert code == 0, out
    for words in (
        "No difference", "signatures of City and University", "every position, to the resolution of the upload",
        "Experimental", "epsilon = 2", "delta = 0", "in the same final cell", "No transcript can show",
    ):  # fmt: skip
        assert words in out, words


def test_a_tampered_transcript_of_two_servers_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "pair.slt", tmp_path / "other.slt"
    data = bytearray(pair_transcript(path))
    pair_transcript(other, seed=2)
    code, out, _ = run(capsys, "verify", path, "--against", other)
    assert code == 1
    assert "[other-history]" in out
    data[-1] ^= 1
    path.write_bytes(data)
    code, out, _ = run(capsys, "verify", path)
    assert code == 1
    assert "University" in out
    assert "[bad-signature]" in out
