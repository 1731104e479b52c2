"""Every job asks whom the participants trust; pooled runs write a transcript that verify replays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

import semilocal as sl
from semilocal.protocol.promise import Mark
from tests.helpers.commands import UNIT, crowd, refused, run, run_json, write_people

JOBS = {"partition": (), "counts": ("--grid", "4x4"), "mean": ("--function", "coordinate:lon"), "points": ()}
POOLED = ("curator", "two-servers")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people.csv", crowd(2_000))


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("wrong", [(), ("--trust", "everybody")])
def test_a_job_without_an_answer_names_the_three(
    capsys: pytest.CaptureFixture[str], table: Path, job: str, wrong: tuple[str, ...]
) -> None:
    words = refused(capsys, job, table, *UNIT, "--epsilon", "1", *JOBS[job], *wrong)
    for name in ("nobody", *POOLED):
        assert f" {name}: " in words


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("trust", POOLED)
def test_what_belongs_to_nobody_is_refused(
    capsys: pytest.CaptureFixture[str], table: Path, job: str, trust: str
) -> None:
    words = (job, table, *UNIT, "--trust", trust, "--epsilon", "1", *JOBS[job])
    assert "error: k: not with trust " in refused(capsys, *words, "--k", "50")
    assert "error: delta: not with trust " in refused(capsys, *words, "--delta", "1e-6")
    assert "error: rule: not with trust " in refused(capsys, *words, "--rule", "all")
    assert "--epsilon. Must be > 0" in run(capsys, *words, "--epsilon", "0")[2]
    if job != "mean":
        assert "measure 55.7 x 55.7 km and" in refused(capsys, *words, "--resolution", "60")


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("trust", POOLED)
def test_every_job_states_its_promise(capsys: pytest.CaptureFixture[str], table: Path, job: str, trust: str) -> None:
    words = (job, table, *UNIT, "--trust", trust, "--epsilon", "1", *JOBS[job])
    found = run_json(capsys, *words, "--seed", "1")
    assert found["participants"] == 2_000
    assert found["privacy"]["anywhere"] == 1.0
    assert found["privacy"]["trust"] == trust
    assert found["simulation"] is True
    assert run_json(capsys, *words)["simulation"] is (trust != "curator")
    code, out, err = run(capsys, *words, "--seed", "1")
    assert code == 0
    assert "epsilon = 1 (delta = 0) between any two positions of one person anywhere in the domain" in out + err


def test_the_commands_are_the_one_call_functions(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    """The same seed gives the same transcript, with whole people too."""
    points, box = crowd(2_000), sl.Box((0, 0), (1, 1), names=("lon", "lat"))
    words = (*UNIT, "--trust", "curator", "--epsilon", "1", "--seed", "5")
    out = table.with_name("run.slt")
    assert run(capsys, "partition", table, *words, "--transcript", out)[0] == 0
    expected = sl.counts(points, box, epsilon=1.0, trust="curator", rng=np.random.default_rng(5))
    assert expected.published is not None
    assert (
        out.read_bytes() == replace(expected.published, mark=Mark(seeded=True, seed=5)).to_bytes()
    )  # a generator does not tell its seed
    mean = run_json(capsys, "mean", table, *words, "--function", "coordinate:lon")
    assert mean["function"] == "coordinate:lon"
    rng = np.random.default_rng(5)
    assert (
        mean["value"] == sl.mean(points, sl.functions.coordinate(0), box, epsilon=1.0, trust="curator", rng=rng).value
    )


@pytest.mark.parametrize("job", ["partition", "counts", "points"])
def test_verify_replays_a_pooled_transcript_and_catches_a_changed_number(
    capsys: pytest.CaptureFixture[str], table: Path, job: str
) -> None:
    out = table.with_name("run.slt")
    words = (job, table, *UNIT, "--trust", "two-servers", "--epsilon", "2", *JOBS[job], "--transcript", out)
    assert run(capsys, *words)[0] == 0
    code, text, _ = run(capsys, "verify", out)
    assert code == 0
    assert "the same" in text
    assert "epsilon = 2, delta = 0" in text
    fields = msgspec.msgpack.decode(out.read_bytes())
    fields["differences"][0][0] -= 4_000  # the crowd is on the other side
    out.write_bytes(msgspec.msgpack.encode(fields))
    code, text, _ = run(capsys, "verify", out)
    assert code == 1
    assert text.startswith("DIFFERENT: ")
    out.write_bytes(out.read_bytes()[:-3])
    assert run(capsys, "verify", out)[0] == 1
    assert "--against does not apply" in refused(capsys, "verify", out, "--against", out)
