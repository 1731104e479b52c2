"""The runner: same rows whatever the workers and interruptions, cached once, never stale, honest
intervals."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from semilocal.lab.experiments.runner import Trial, run, source_version
from semilocal.lab.experiments.summary import table, write_csv
from semilocal.lab.experiments.trials import mean_trial
from tests.helpers import HANG
from tests.helpers.trials import draw, explode, slow_draw


def constant(trial: Trial) -> list[dict[str, Any]]:
    return [{"one": 1.0}]


def grid(runs: int = 4) -> list[Trial]:
    return [
        Trial.of("fig:test", method, seed=5, run=run, n=n, epsilon=epsilon)
        for method in ("ldp", "ours")
        for n in (10, 20)
        for epsilon in (0.5, 1.0)
        for run in range(runs)
    ]


def rows_of(trials: Sequence[Trial], folder: Path, workers: int) -> list[dict[str, Any]]:
    return table(trials, run(trials, draw, folder=folder, workers=workers, version="1", show=False), version="1")


def test_the_number_of_workers_changes_no_digit(tmp_path: Path) -> None:
    trials = grid()
    alone = rows_of(trials, tmp_path / "0", 0)
    assert rows_of(trials, tmp_path / "2", 2) == alone
    write_csv(tmp_path / "a.csv", alone)
    write_csv(tmp_path / "b.csv", rows_of(trials, tmp_path / "1", 1))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_every_part_of_the_identity_changes_the_generator_and_the_key() -> None:
    base = Trial.of("f", "m", seed=1, run=0, n=10, epsilon=0.5)
    others = [
        Trial.of("g", "m", seed=1, run=0, n=10, epsilon=0.5),
        Trial.of("f", "n", seed=1, run=0, n=10, epsilon=0.5),
        Trial.of("f", "m", seed=2, run=0, n=10, epsilon=0.5),
        Trial.of("f", "m", seed=1, run=1, n=10, epsilon=0.5),
        Trial.of("f", "m", seed=1, run=0, n=11, epsilon=0.5),
        Trial.of("f", "m", seed=1, run=0, n=10, k=0.5),
    ]
    assert len({trial.rng().random() for trial in [base, *others]}) == 7
    assert len({trial.key("1") for trial in [base, *others]} | {base.key("2")}) == 8


def test_methods_can_share_their_people_but_not_their_noise(tmp_path: Path) -> None:
    rows = rows_of(grid(1), tmp_path, 0)
    by_n = {row["n"]: {other["people"] for other in rows if other["n"] == row["n"]} for row in rows}
    assert all(len(people) == 1 for people in by_n.values())
    assert by_n[10] != by_n[20]
    assert len({row["mean"] for row in rows}) == len(rows)


def test_results_come_in_the_order_of_the_trials_and_are_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    monkeypatch.setenv("SEMILOCAL_TEST_CALLS", str(calls))

    def computed(trials: Sequence[Trial], version: str = "1") -> tuple[list[Any], int]:
        calls.write_text("")
        found = run(trials, slow_draw, folder=tmp_path / "cache", workers=0, version=version, show=False)
        return found, len(calls.read_text().split())

    trials = grid()[::-1]
    first, many = computed(trials[:9])
    second, more = computed(trials)
    third, none = computed(trials)
    assert (many, more, none) == (9, len(trials) - 9, 0)
    assert second[:9] == first
    assert third == second
    assert [rows[0]["people"] for rows in second] == [slow_draw(trial)[0]["people"] for trial in trials]
    assert computed(trials[:3], version="2")[1] == 3
    other = run(trials[:3], constant, folder=tmp_path / "cache", workers=0, version="1", show=False)
    assert other == [({"one": 1.0},)] * 3  # of another work


def test_a_column_cannot_hide_a_parameter(tmp_path: Path) -> None:
    trial = Trial.of("fig:test", "ldp", seed=5, run=0, one=2.0)
    with pytest.raises(RuntimeError, match="a parameter is called 'one', too"):
        run([trial], constant, folder=tmp_path, workers=0, version="1", show=False)


def test_a_result_cut_off_by_a_crash_is_computed_again(tmp_path: Path) -> None:
    trials = grid(1)
    whole = rows_of(trials, tmp_path, 0)
    paths = sorted(tmp_path.rglob("output.pkl"))
    assert len(paths) == len(trials)
    paths[0].write_bytes(paths[0].read_bytes()[:-10])
    paths[1].unlink()
    with warnings.catch_warnings(action="ignore"):  # it says so
        assert rows_of(trials, tmp_path, 0) == whole


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill"])
def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path, how: signal.Signals) -> None:
    """A real process with real workers, killed in the middle; the second run computes only the rest."""
    calls, wait = tmp_path / "calls", tmp_path / "calls.wait"
    wait.touch()
    script = (
        "from pathlib import Path\n"
        "from semilocal.lab.experiments.runner import Trial, run\n"
        "from tests.helpers.trials import slow_draw\n"
        "if __name__ == '__main__':\n"
        "    trials = [Trial.of('fig:kill', 'm', seed=1, run=r, n=10) for r in range(24)]\n"
        f"    run(trials, slow_draw, folder=Path({str(tmp_path / 'cache')!r}), workers=2, version='1')\n"
    )
    file = tmp_path / "main.py"
    file.write_text(script)
    folders = [str(Path(__file__).parents[3]), *filter(None, sys.path)]
    environment = {**os.environ, "SEMILOCAL_TEST_CALLS": str(calls), "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, str(file)]

    def finished() -> int:
        return sum(1 for _ in (tmp_path / "cache").rglob("output.pkl"))

    # A process that ignores Ctrl-C, as one started by nohup does, passes that on to its children: undo it. A terminal
    # sends Ctrl-C to the workers too.
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        deadline = time.monotonic() + HANG
        while time.monotonic() < deadline and finished() < 12:
            time.sleep(0.02)
        stopped = time.monotonic()
        os.killpg(process.pid, how)  # the workers are in the middle of trials that wait
        said = process.stderr.read() if process.stderr else ""
        process.wait(HANG)
        assert time.monotonic() - stopped < 2
        assert process.returncode != 0
    if how is signal.SIGINT:
        assert "stopped at" in said
    wait.unlink()
    done = finished()
    assert 12 <= done < 24
    before = len(calls.read_text().split())
    subprocess.run(command, env=environment, check=True, stderr=subprocess.PIPE, timeout=HANG)
    assert len(calls.read_text().split()) - before == 24 - done
    assert finished() == 24


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failing_trial_is_named_and_the_others_are_kept(tmp_path: Path, workers: int) -> None:
    trials = [Trial.of("fig:test", "ldp", seed=5, run=run, n=10) for run in range(8)]
    with pytest.raises(RuntimeError, match=r"fig:test ldp n=10 seed=5 run=3 failed: ZeroDivisionError: three"):
        run(trials, explode, folder=tmp_path, workers=workers, version="1", show=False)
    if workers == 0:
        assert len(list(tmp_path.rglob("output.pkl"))) == 3


def test_the_version_is_that_of_the_sources_and_of_the_work() -> None:
    assert source_version(draw) != source_version()
    assert source_version(partial(draw)) == source_version(draw)
    assert source_version(mean_trial) == source_version()


def test_csv_keeps_every_digit_and_names_version_seed_and_parameters(tmp_path: Path) -> None:
    rows = rows_of(grid(1), tmp_path / "cache", 0)
    write_csv(tmp_path / "deep" / "a.csv", rows)
    with (tmp_path / "deep" / "a.csv").open(newline="") as stream_:
        read = list(csv.DictReader(stream_))
    assert list(read[0])[:7] == ["version", "figure", "method", "epsilon", "n", "seed", "run"]
    assert [float(row["mean"]) for row in read] == [row["mean"] for row in rows]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.csv"]
