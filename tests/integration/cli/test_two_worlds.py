"""Commands write nothing but what the transcript tells, and a command that writes more is caught."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

from semilocal.cli import catalogue as cli
from tests.helpers.two_worlds import (
    COMMANDS,
    FILE,
    SHARED,
    CommandRun,
    Worlds,
    differing,
    equal_worlds,
    outputs_of,
)  # fmt: skip


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    return equal_worlds(np.random.default_rng(3))


def test_equal_transcripts_give_equal_bytes(worlds: Worlds) -> None:
    assert dict(zip(COMMANDS, differing(COMMANDS, worlds), strict=True)) == {command: [] for command in COMMANDS}


def test_every_command_that_reads_positions_for_a_result_is_attacked() -> None:
    """A new job has to be added to the catalogue; devices' commands write what the server publishes."""
    places = {name: command.place.partition(":") for name, command in cli.COMMANDS.items() if command.place}
    jobs = {
        name
        for name, (module, _, function) in places.items()
        if "JobOptions"
        in str(inspect.signature(getattr(importlib.import_module(f"semilocal.cli.commands.{module}"), function)))
    }
    assert {"partition", "counts", "mean", "points"} <= jobs
    assert jobs == {command[0] for command in COMMANDS}


def test_parquet_engines_maps_and_points_tell_no_more_than_the_transcript(worlds: Worlds) -> None:
    pytest.importorskip("pyarrow")
    commands = [
        ("partition", *SHARED, "--out", "regions.parquet"),
        ("partition", *SHARED, "--engine", "arrow", "--out", "regions.csv"),
        ("counts", *SHARED, "--grid", "3x3", "--html", "map.html", "--out", "counts.geojson"),
        ("counts", *SHARED, "--grid", "3x3", "--clip", "--explain"),
        ("points", *SHARED, "--json"),
        ("points", *SHARED, "--engine", "arrow", "--out", "points.csv"),
        ("mean", *SHARED, "--function", "coordinate:y", "--engine", "arrow", "--explain"),
    ]
    assert differing(commands, worlds) == [[]] * len(commands)


@pytest.mark.parametrize("engine", ["memory", "arrow"])
def test_the_order_of_the_file_is_not_in_the_points(engine: str) -> None:
    """A file that is sorted by place: its order would tell where inside a region people are"""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(5)
    people = np.concatenate([rng.random((1500, 2)) * [0.45, 1.0], rng.random((15, 2))])
    people = people[np.lexsort(people.T)]
    (written,) = outputs_of([CommandRun(("points", *SHARED, "--engine", engine, "--out", "points.csv"), people, 7)])
    points = np.array([line.split(",") for line in written["points.csv"].decode().split()[1:]], dtype=np.float64)
    assert len(points) == len(people)
    regions = len(np.unique(points, axis=0))
    assert regions > 5
    assert np.count_nonzero((np.diff(points, axis=0) != 0).any(axis=1)) == regions - 1  # one region after another


def test_positions_would_be_seen(worlds: Worlds) -> None:
    """The planted leak: a curator's mean of x, with the same noise, depends on the place inside the region."""
    task = ("--bounds", "0,0,1,1", "--trust", "curator", "--epsilon", "8", "--quiet")
    assert differing([("mean", FILE, *task, "--function", "coordinate:x", "--json")], worlds) == [["stdout"]]


def test_other_transcripts_are_not_called_equal(worlds: Worlds) -> None:
    """The comparison sees a difference: with another seed the counts are others."""
    one, other = outputs_of([CommandRun(COMMANDS[4], worlds.here, worlds.seed + more) for more in (0, 1)])
    assert one != other
