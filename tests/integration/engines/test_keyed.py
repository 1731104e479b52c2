"""Every row reports with noise of its own: the same key gives the same transcript in memory and in every engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal import Box, SphereTree, Task, simulate
from semilocal.arrays import Floats
from semilocal.engines import keyed, open_source
from semilocal.engines.keyed import KeyedRun, run_keyed
from semilocal.engines.keyed_values import play_keyed_values
from semilocal.engines.row_key import RowKey
from semilocal.engines.source import PointsSource, Source
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import from_labels
from semilocal.protocol.messages import Report
from semilocal.protocol.plan import Plan, Release
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue
from semilocal.simulation.values import play_values, value_events
from semilocal.transcript.merkle import transcript_root
from tests.helpers.engine_runs import box_of, digest, joined, people

pytest.importorskip("cryptography")
KEY = bytes(range(32))
BOX = box_of(2)
POINTS = people(900, 2, kind="rounded")
FARES = np.append(np.random.default_rng(4).uniform(0, 80, len(POINTS) - 1), 80.0)
RELEASES = (
    Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0]),
    Release("values", DiscreteLaplaceValue(3.0, 16), "gaussian_bump", (0.3, 0.5, 0.5)),
    Release.ask("mean", "own:fare", epsilon=8.0, parameters=[0, 80]),
)


class Chopped(PointsSource):
    """Batches of odd sizes."""

    def batches(self, *others: str) -> Iterator[Floats]:
        for start in range(0, len(self._points), 77):
            yield self._points[start : start + 77]


def same(found: KeyedRun, points: Floats, task: Task, key: bytes = KEY) -> None:
    """Compare the transcript, the partition and every row with the run in memory."""
    ours = simulate(points, task, detail="reports", secrets=RowKey(key, task.id))
    assert transcript_root(found.events) == transcript_root(ours.events)
    assert digest(task, found) == digest(task, ours)
    rows = joined(PointsSource(points, task.box).attach(task.hierarchy, found.lookup))
    assert np.array_equal(rows.regions, ours.regions)
    assert np.array_equal(rows.moves, ours.moves)
    assert np.array_equal(rows.acting, ours.acting(points))


@pytest.mark.parametrize(("rule", "tree", "randomizer"), [
    ("trim", "binary", "randomized-response"), ("trim", "quad", "randomized-response"),
    ("all", "binary", "discrete-laplace"), ("each", "quad", "randomized-response"),
])  # fmt: skip
def test_batches_give_the_transcript_of_memory(rule: Any, tree: Any, randomizer: Any) -> None:
    task = Task.build(BOX, epsilon=4.0, delta=0.05, k=8, rule=rule, tree=tree, randomizer=randomizer)
    found = run_keyed(Chopped(POINTS, BOX), task, key=KEY)
    assert len(found.partition) > 3
    if rule == "trim":
        assert len(found.lookup.moved_regions) > 5
    same(found, POINTS, task)


def test_a_sphere_is_played_too() -> None:
    tree = SphereTree(20)
    points = np.random.default_rng(1).normal((10.0, 50.0), 2.0, (900, 2))
    task = Task.build(hierarchy=tree, epsilon=4.0, delta=0.05, k=8)
    same(run_keyed(Chopped(points, tree.box), task, key=KEY), points, task)


def test_a_branch_with_a_single_child_is_played_too() -> None:
    tree = from_labels("code", [("heart", "I20"), ("heart", "I21"), ("lung", "J18", "J18.1"), ("lung", "J44")])
    points = tree.positions(np.random.default_rng(1).choice(["I20", "I21", "J18.1", "J44"], 900))
    task = Task.build(hierarchy=tree, epsilon=4.0, delta=0.05, k=8)
    found = run_keyed(Chopped(points, tree.box), task, key=KEY)
    assert len(found.partition) == 4
    same(found, points, task)


def test_another_key_gives_another_transcript_and_noise_in_row_order_would_be_seen() -> None:
    task = Task.build(BOX, epsilon=4.0, delta=0.05, k=8)
    root = transcript_root(run_keyed(Chopped(POINTS, BOX), task, key=KEY).events)
    assert transcript_root(run_keyed(Chopped(POINTS, BOX), task, key=KEY[::-1]).events) != root
    found = run_keyed(PointsSource(POINTS, BOX), task, key=KEY)

    class ByPlace(RowKey):  # planted: noise by the place in the batch
        def reports(self, who: Any, round_: int, cells: Any, words: int) -> Any:
            return super().reports(np.arange(len(who)), round_, cells, words)

    assert found.population is not None
    found.population.entropy = ByPlace(KEY, task.id)
    assert transcript_root(found.events) != root


def test_words_differ_by_row_round_cell_and_kind() -> None:
    noise, one = RowKey(KEY, bytes(32)), np.array([3])
    cell, other = np.array([5], np.uint64), np.array([6], np.uint64)
    asked = [(one, 1, cell, 1), (one, 2, cell, 1), (one, 1, other, 1), (one + 1, 1, cell, 1)]
    words = [noise.reports(*each)[0, 0] for each in asked]
    words += [noise.reports(one, 1, cell, 3)[0, 2], noise.moves(one, 1, cell)[0]]
    words.append(RowKey(KEY, bytes(31) + b"1").reports(one, 1, cell, 1)[0, 0])
    assert len(set(map(int, words))) == len(words)
    with pytest.raises(InvalidInput, match="key must be 32 bytes"):
        RowKey(b"short", bytes(32))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # Spark's own, about versions of pandas
@pytest.mark.parametrize("engine", ["arrow", "duckdb", "spark"])
def test_the_same_key_gives_the_same_root_in_every_engine(
    request: pytest.FixtureRequest, tmp_path: Path, engine: Any
) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    if engine != "arrow":
        pytest.importorskip("duckdb")
    if engine == "spark":
        request.getfixturevalue("spark")
    table = pyarrow.table({"x": POINTS[:, 0], "y": POINTS[:, 1], "fare": FARES})
    for name, part in {"a": table[:100], "b": table[100:]}.items():
        parquet.write_table(part, tmp_path / f"{name}.parquet", row_group_size=64)
    task = Task.build(BOX, epsilon=4.0, delta=0.05, k=8, max_rounds=4)  # every round is a scan
    source: Source = open_source(tmp_path, ["x", "y"], BOX, engine=engine, values=["fare"])
    found = run_keyed(source, task, key=KEY)
    same(found, POINTS, task)
    same_values(found, task)


def same_values(found: KeyedRun, task: Task) -> None:
    """Compare the transcript of a mean, of values, and of a mean of people's own values with memory."""
    plan = Plan(task.id, RELEASES)
    ours = simulate(POINTS, task, detail="reports", secrets=RowKey(KEY, task.id))
    rounds = play_values(ours, POINTS, plan, RowKey(KEY, task.id), values=FARES)
    assert len(rounds) == 3
    theirs = play_keyed_values(found, plan)
    root = transcript_root([*ours.events, *value_events(ours, plan, rounds)])
    assert transcript_root([*found.events, *theirs.events]) == root


def test_values_of_batches_are_those_of_memory_and_noise_by_place_would_be_seen() -> None:
    task = Task.build(BOX, epsilon=4.0, delta=0.05, k=8)
    table = pytest.importorskip("pyarrow").table({"x": POINTS[:, 0], "y": POINTS[:, 1], "fare": FARES})
    source = open_source(lambda: table.to_reader(max_chunksize=77), ["x", "y"], BOX, values=["fare"])
    found = run_keyed(source, task, key=KEY)
    assert len(found.lookup.moved_regions) > 5
    same_values(found, task)
    plan = Plan(task.id, RELEASES)
    closed = [closed for _, closed in play_keyed_values(found, plan).rounds]

    class ByPlace(RowKey):  # planted: noise by the place in the batch
        def values(self, who: Any, plan: bytes, index: int, cells: Any, words: int) -> Any:
            return super().values(np.arange(len(who)), plan, index, cells, words)

    assert found.population is not None
    found.population.entropy = ByPlace(KEY, task.id)
    assert [closed for _, closed in play_keyed_values(found, plan).rounds] != closed


def test_values_outside_their_range_and_runs_without_a_key_are_refused() -> None:
    task = Task.build(BOX, epsilon=4.0, delta=0.05, k=8)
    table = pytest.importorskip("pyarrow").table({"x": POINTS[:, 0], "y": POINTS[:, 1], "fare": FARES + 1})
    source = open_source(table, ["x", "y"], BOX, values=["fare"])
    run, plan = run_keyed(source, task, key=KEY), Plan(task.id, RELEASES)
    with pytest.raises(InvalidInput, match="outside the public range 0 to 80"):
        play_keyed_values(run, plan)
    with pytest.raises(InvalidInput, match="the run has no key"):
        play_keyed_values(replace(run, population=None), Plan(task.id, RELEASES[:1]))


def test_the_order_of_a_file_is_not_in_its_transcript() -> None:
    """Two worlds that differ in where one person of a sorted file is; both places are in the only region."""
    box, told = Box((0, 0), (1, 1)), 0
    task = Task.build(box, epsilon=2.0, delta=1e-6, k=1_000)
    for trial in range(20):
        for place in (0.0, 0.999):  # the first row, or the last: all others change their numbers by one
            sides = np.arange(999) % 2 * 0.5
            points = np.column_stack([np.append(sides, 0.25), np.append(np.linspace(0.001, 0.998, 999), place)])
            run = run_keyed(PointsSource(points[np.argsort(points[:, 1])], box), task, key=bytes([trial]) * 32)
            reports = [event for event in run.events if isinstance(event, Report) and event.round == 1]
            answers = np.array([report.answer for report in reports], dtype=np.int64)
            even = np.mean(answers[2:-1:2]) < np.mean(answers[1:-1:2])
            told += even == (place > 0.5)
    assert told < 40, "the numbers of the rows are the pseudonyms"  # by chance: one in 10^12


def test_shares_that_do_not_fit_at_once_give_the_same_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task.build(BOX, epsilon=4.0, delta=0.05, k=8)
    monkeypatch.setattr(keyed, "ROWS_AT_ONCE", 100)
    same(run_keyed(Chopped(POINTS, BOX), task, key=KEY), POINTS, task)
