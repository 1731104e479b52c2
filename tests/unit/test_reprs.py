"""Values print short, and print nobody's position and no secret."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.device.disk import MemoryDisk
from semilocal.device.vault import Vault
from semilocal.io.points import read_points
from semilocal.io.queries import grid_queries
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import Closed, Head, Verdict
from semilocal.protocol.plan import Plan, Release
from semilocal.testing import cluster

BOX = sl.Box((0, 0), (1, 1), names=("longitude", "latitude"))
POINTS = cluster(1_500)
F = sl.functions.squared_norm()


def everything(folder: Path) -> list[Any]:
    rng = np.random.default_rng(1)
    options: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-3, "k": 20, "rng": rng}
    task = sl.Task.build(BOX, epsilon=1.0, delta=1e-3, k=20)
    chained = sl.Task.build(BOX, epsilon=1.0, delta=1e-3, k=20, chain=HashChain(b"s" * 32, 1_000).end)
    run = sl.simulate(POINTS, task, rng=rng)
    few = sl.simulate(POINTS[:60], task, secrets=[b"s" * 31 + bytes([place]) for place in range(60)])
    whom: dict[str, Any] = {"trust": "nobody", **options}
    pooled: dict[str, Any] = {"trust": "curator", "epsilon": 1.0, "rng": rng}
    counts, drawn = sl.counts(POINTS, BOX, **whom), sl.counts(POINTS, BOX, **pooled)
    path = folder / "people.csv"
    path.write_text("lon,lat\n" + "".join(f"{x},{y}\n" for x, y in POINTS.tolist()))
    releases = tuple(Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0]) for _ in range(60))
    with Vault.open("vault", disk=MemoryDisk(), entropy=lambda size: b"s" * size) as vault:
        contents = vault.contents
    long = sl.Ledger.of(task)
    for number in range(50):
        long = long.spend(f"release {number}", 0.1)
    table = sl.TableTree("income", tuple(range(2_001)), ((2_000 // 8,), (8,) * (2_000 // 8)))
    return [
        BOX, task, run, run.partition, few, *few.events,
        counts, counts.query(np.tile([[0, 0], [0.5, 0.5]], (1_000, 1, 1))), counts.spent, counts.guarantee, long,
        sl.mean(POINTS, F, BOX, **whom), sl.values(POINTS, F, BOX, **options), sl.points(POINTS, BOX, **whom),
        drawn, drawn.partition, drawn.published, drawn.guarantee, drawn.spent, sl.mean(POINTS, F, BOX, **pooled),
        sl.points(POINTS, BOX, **pooled),
        task.hierarchy, sl.Quadtree(BOX, max_depth=10), sl.SphereTree(20), table, F,
        Plan(task.id, releases), sl.Policy(max_epsilon=3.0),
        sl.Participant(chained, POINTS[0], b"s" * 32, sl.Policy(max_epsilon=100.0, min_k=1, max_delta=1.0)),
        sl.Curator(task), sl.RandomizedResponse(1.0, 2), sl.DiscreteLaplace(1.0, 2), sl.PaperLaplace(1.0, 2),
        read_points(path), grid_queries("100x100", BOX), contents,
    ]  # fmt: skip


def test_every_public_value_prints_short_and_without_positions_or_secrets(tmp_path: Path) -> None:
    values = everything(tmp_path)
    public = {name for name in sl.__all__ if inspect.isclass(getattr(sl, name))}
    assert public <= {type(value).__name__ for value in values}
    digits = re.compile("|".join(re.escape(f"{number:.6f}"[:7]) for number in POINTS[:50].ravel()))
    assert digits.search(repr(POINTS[:5].tolist()))
    for value in values:
        text = repr(value)
        assert len(text) < 1_000, (type(value), text)
        assert "ssss" not in text
        assert not digits.search(text), type(value)


@pytest.mark.parametrize("size", [1, 10_000])
def test_the_length_does_not_grow_with_the_content(size: int) -> None:
    heads = tuple(Head(code, code + 1, 5, b"d" * 32) for code in range(size))
    closed = Closed(b"t" * 32, 3, heads, (Verdict("wall", (1, 2)),) * size, b"", False)
    assert len(repr(closed)) < 200


def test_a_box_of_many_digits_and_axes_prints_short() -> None:
    box = sl.Box((-1 / 3,) * 8, (1 / 3,) * 8, names=tuple(f"coordinate_number_{axis}" for axis in range(8)))
    task = sl.Task.build(box, epsilon=1 / 3, delta=1e-3, k=20)
    pooled = sl.counts(np.zeros((1, 8)), box, epsilon=1.0, trust="curator").partition.task
    for value in (box, task.hierarchy, task, pooled):
        assert len(repr(value)) < 500
        assert repr(value).startswith(f"{type(value).__name__}(")
