"""Pictures: equal scales, densities per km², colours that one crowded region does not spoil, and a GIF of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semilocal import Task, simulate
from semilocal.datasets import california_housing
from semilocal.geometry.places import named_box
from semilocal.io.map_rows import partition_rows
from semilocal.io.plots import robust_limits, save_side_by_side
from semilocal.protocol.promise import Mark
from semilocal.simulation.simulate import Run
from semilocal.testing import cluster, unit_box

matplotlib = pytest.importorskip("matplotlib")
figures = pytest.importorskip("matplotlib.figure")


@pytest.fixture(scope="module")
def california() -> Run:
    task = Task.build(named_box("california"), epsilon=2.0, delta=1e-3, k=200)
    return simulate(california_housing()[0], task, rng=np.random.default_rng(1))


def test_a_map_has_equal_scales_the_coast_and_densities_per_square_kilometre(california: Run) -> None:
    axes = figures.Figure().add_subplot()
    assert california.partition.plot(axes) is axes
    assert axes.get_aspect() == pytest.approx(1 / np.cos(np.radians((32.5 + 42.1) / 2)))
    (bar,) = axes.child_axes
    assert "km²" in bar.get_ylabel()
    axes.apply_aspect()
    assert bar.get_window_extent().height == pytest.approx(axes.get_window_extent().height, rel=0.01)
    assert "20,640 participants" in axes.get_title()
    shown = np.asarray(axes.collections[0].get_array())
    partition, rows = california.partition, partition_rows(california.partition)
    whole = [row for row, pieces in enumerate(rows.pieces) if not pieces]
    assert set(np.round(rows.crowd[whole] / rows.area[whole], 9)) <= set(np.round(shown, 9))
    cut = next(pieces for pieces in rows.pieces if pieces)
    area = partition.task.hierarchy.interval_areas([cut[0].lower], [cut[0].upper])[0]
    assert np.min(np.abs(shown - max(cut[0].people, 0.5) / area)) < 1e-9, "pieces have the colour of their estimate"


def test_names_on_a_picture_lie_on_no_other_name(california: Run) -> None:
    figure = figures.Figure(figsize=(7, 6), layout="constrained")
    axes = california.partition.plot(figure.add_subplot())
    figure.draw_without_rendering()
    names = [text for text in axes.texts if "SIMULATION" not in text.get_text()]
    boxes = [text.get_window_extent() for text in names]
    assert len(names) > 8
    assert "Los Angeles" in {text.get_text() for text in names}
    assert not any(a.overlaps(b) for at, a in enumerate(boxes) for b in boxes[:at])
    assert all(axes.get_window_extent().contains(box.x1, box.y1) for box in boxes)


def test_data_of_other_axes_has_plain_axes() -> None:
    task = Task.build(unit_box(), epsilon=2.0, delta=1e-3, k=20)
    run = simulate(cluster(1000), task, rng=np.random.default_rng(1))
    axes = run.partition.plot(figures.Figure().add_subplot())
    assert axes.get_aspect() == "auto"
    assert "unit area" in axes.child_axes[0].get_ylabel()


def test_one_crowded_region_does_not_set_the_colours() -> None:
    density = np.linspace(1, 10, 1000)
    low, high = robust_limits(np.append(density, 1e9))
    assert (low, high) == pytest.approx(robust_limits(density), rel=0.05)
    flat = robust_limits(np.ones(5))
    assert flat[1] / flat[0] == pytest.approx(2.0)


def test_maps_side_by_side_say_that_their_noise_was_seeded(california: Run, tmp_path: Path) -> None:
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # text as text
        for mark in (Mark(seeded=True, seed=7), Mark(seeded=True), None):
            save_side_by_side({"one": replace(california.partition, mark=mark)}, tmp_path / "maps.svg")
            drawn = (tmp_path / "maps.svg").read_text()
            assert "SIMULATION" not in drawn if mark is None else mark.words in drawn


def test_the_longest_mark_ends_below_the_titles_of_maps_side_by_side(
    california: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the letters of short marks, which reach into the title."""
    drawn, save = [], figures.Figure.savefig

    def watched(self: Any, *given: Any, **named: Any) -> None:
        drawn.append(self)
        save(self, *given, **named)

    monkeypatch.setattr(figures.Figure, "savefig", watched)
    panel = replace(california.partition, mark=Mark(seeded=False))
    save_side_by_side({f"{name}\nof\nthree": panel for name in ("one", "two", "three")}, tmp_path / "maps.png")
    axes = drawn[0].axes[0]
    (mark,) = [text for text in axes.texts if "SIMULATION" in text.get_text()]
    for size, fits in ((mark.get_fontsize(), True), (6.5, False)):
        mark.set_fontsize(size)
        drawn[0].draw_without_rendering()
        assert (mark.get_window_extent(dpi=drawn[0].dpi).y1 <= axes.get_window_extent().y1) == fits
