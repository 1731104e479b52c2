"""Every way out of a simulated or seeded result that has a place for a mark says it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from pyarrow import parquet

import semilocal as sl
from semilocal.page.single import result_html
from semilocal.pooled.play import Published
from semilocal.protocol.promise import Mark
from semilocal.release.counts import pooled_counts, run_pooled

SEEDED = "SIMULATION: the noise comes from a seeded generator and protects nobody"
PLAYED = "SIMULATION: one program held all positions, and the person who ran it is a curator"
UNIT = sl.Box((0, 0), (1, 1))
HEIGHT = sl.functions.coordinate(1)
HOMES = np.random.default_rng(5).beta(2, 5, (3_000, 2))
JOBS: dict[str, Callable[..., Any]] = {
    "counts": sl.counts,
    "points": sl.points,
    "mean": lambda points, box, **named: sl.mean(points, HEIGHT, box, **named),
    "cell_means": lambda points, box, **named: sl.cell_means(points, HEIGHT, box, **named),
}
TRUSTS = ("nobody", "two-servers", "curator")


def said(result: Any, folder: Path) -> dict[str, str | None]:
    """The mark, by the way out."""
    result.to_geoparquet(folder / "a.parquet")
    result.save_geojson(folder / "a.geojson")
    figure = Figure()
    axes = result.plot(figure.add_subplot())
    found = {
        "pandas": result.to_pandas().attrs.get("simulation"),
        "geopandas": result.to_geodataframe().attrs.get("simulation"),
        "arrow": (result.to_arrow().schema.metadata or {}).get(b"simulation"),
        "geoparquet": parquet.read_schema(folder / "a.parquet").metadata.get(b"simulation"),
        "geojson": result.to_geojson().get("simulation"),
        "geojson file": json.loads((folder / "a.geojson").read_text()).get("simulation"),
        "picture": next((text.get_text() for text in axes.texts if "SIMULATION" in text.get_text()), None),
    }
    return {way: words.decode() if isinstance(words, bytes) else words for way, words in found.items()}


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("job", JOBS)
def test_every_way_out_of_a_seeded_result_says_so(job: str, trust: str, tmp_path: Path) -> None:
    play = partial(JOBS[job], HOMES, UNIT, epsilon=2.0, trust=trust)
    result = play(rng=np.random.default_rng(1))
    assert result.simulated
    assert set(said(result, tmp_path).values()) == {SEEDED}
    assert set(said(result.partition, tmp_path).values()) == {SEEDED}
    assert "with seeded noise" in result.guarantee.sentence()
    assert "the noise comes from a seeded generator" in result.guarantee.explain()
    assert f". {SEEDED}" in result_html(result)

    fresh = play()
    expected = None if trust == "curator" else PLAYED
    assert fresh.simulated == (trust != "curator")
    assert set(said(fresh, tmp_path).values()) == {expected}
    assert "seed" not in fresh.guarantee.explain()
    assert ("a simulation, run by a curator" in fresh.guarantee.sentence()) == (trust != "curator")


def test_a_run_says_that_it_is_seeded_and_one_with_secrets_does_not() -> None:
    task = sl.Task.build(UNIT, epsilon=1.0, delta=1e-3, k=20)
    rng = np.random.default_rng(1)
    assert sl.simulate(HOMES, task, rng=rng).partition.mark == Mark(seeded=True)
    secrets = [rng.bytes(32) for _ in HOMES]
    derived = sl.simulate(HOMES, task, secrets=secrets)
    assert derived.partition.mark == Mark(seeded=False)
    mean = sl.release.mean(derived, HOMES, HEIGHT, epsilon=1.0, rng=rng)
    assert mean.partition.mark == Mark(seeded=True), "the values were seeded, if the regions were not"
    assert sl.release.mean(derived, HOMES, HEIGHT, epsilon=1.0, rng=None).partition.mark == Mark(seeded=False)


def test_seeded_means_on_a_map_with_real_noise_are_marked() -> None:
    counted = sl.counts(HOMES, UNIT, epsilon=1.0, trust="curator")
    means = sl.release.means.cell_means(counted, HOMES, HEIGHT, epsilon=1.0, rng=np.random.default_rng(1))
    assert (counted.simulated, means.simulated) == (False, True)


@pytest.mark.parametrize("trust", ["two-servers", "curator"])
def test_a_mark_is_read_from_a_transcript_as_far_as_its_bytes_tell(trust: Any) -> None:
    task = sl.pooled.PooledTask.build(UNIT, epsilon=1.0, trust=trust)
    for seed, mark in ((7, Mark(seeded=True, seed=7)), (None, Mark(seeded=trust == "curator"))):
        published = run_pooled(task, HOMES, rng=np.random.default_rng(7), seed=seed)
        again = Published.from_bytes(published.to_bytes())
        assert published.mark == Mark(seeded=True, seed=seed)
        assert again.mark == pooled_counts(again).partition.mark == mark
