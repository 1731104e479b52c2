"""Counts in polygons: the same numbers as in boxes where both can be asked, exact along the edges of regions."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.release.job import which_trust
from tests.helpers.release_runs import crowded

shapely = pytest.importorskip("shapely")
BOX = sl.Box((0, 0), (1, 1))
TRUSTS = ("curator", "two-servers", "nobody")


@cache
def result(trust: str, rule: str = "") -> Any:
    rng = np.random.default_rng(3)
    named: dict[str, Any] = {"delta": 0.05, "k": 20} if trust == "nobody" else {}
    named |= {"rule": rule} if rule else {}
    return sl.counts(crowded(4_000, 2, rng), BOX, epsilon=2.0, trust=which_trust(trust), rng=rng, **named)


modes = pytest.mark.parametrize(("trust", "rule"), [*((trust, "") for trust in TRUSTS), ("nobody", "all")])


def assert_same(one: Any, other: Any) -> None:
    for name in ("value", "stderr", "plain", "most", "noise"):
        assert np.allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-6), name
    assert np.abs(one.interval() - other.interval()).max() <= 1.0  # whole people


@modes
def test_a_rectangle_is_answered_like_the_box_that_it_is(trust: str, rule: str) -> None:
    found = result(trust, rule)
    boxes = np.sort(np.random.default_rng(4).uniform(-0.2, 1.2, (300, 2, 2)), axis=1)
    boxes[:100] *= 0.2
    assert_same(found.answer(shapely.box(*boxes.reshape(-1, 4).T)), found.answer(boxes))


def test_unions_of_public_regions_are_exact() -> None:
    rng = np.random.default_rng(6)
    task = sl.Task.build(BOX, epsilon=4.0, delta=0.05, k=20, rule="all")
    found = sl.release.counts(sl.simulate(rng.beta(3, 3, (100_000, 2)), task, rng=rng))
    assert len(found.partition) > 100
    shapes = shapely.box(*found.boxes.reshape(-1, 4).T)
    chosen = [rng.random(len(shapes)) < share for share in (0.05, 0.3, 0.5, 0.9)]
    answers = found.query([shapely.union_all(shapes[some]) for some in chosen])
    assert answers.value.tolist() == [found.crowds[some].sum() for some in chosen]
    assert answers.stderr.tolist() == [0.0] * 4
    assert np.array_equal(answers.interval(), np.stack([answers.value] * 2, axis=1))


@modes
def test_polygons_that_divide_the_domain_add_up_to_everybody(trust: str, rule: str) -> None:
    found = result(trust, rule)
    fan = np.linspace(0, 2 * np.pi, 18)
    pieces = [
        shapely.Polygon([(0.4, 0.3), *((0.4 + 9 * np.cos(at), 0.3 + 9 * np.sin(at)) for at in ends)])
        for ends in pairwise(fan)
    ]
    answers = found.answer(pieces)
    assert answers.value.sum() == pytest.approx(found.total, rel=1e-9)
    ends = answers.interval()
    assert ((ends[:, 0] <= answers.value) & (answers.value <= ends[:, 1])).all()
    holed = shapely.difference(shapely.box(0, 0, 1, 1), shapely.box(0.1, 0.1, 0.3, 0.2))
    whole, hole, rest = found.query([shapely.box(0, 0, 1, 1), shapely.box(0.1, 0.1, 0.3, 0.2), holed]).value
    assert rest == pytest.approx(whole - hole, rel=1e-9)


def test_the_pieces_of_a_multipolygon_are_asked_about_together() -> None:
    """Errors of cells that both pieces take from are counted once: the standard error is not that of a sum."""
    found = result("curator")
    left, right = shapely.box(0, 0, 0.11, 0.3), shapely.box(0.13, 0, 0.3, 0.3)
    both = found.query([shapely.MultiPolygon([left, right]), left, right])
    assert both.value[0] == pytest.approx(both.value[1:].sum())
    assert both.stderr[0] < both.stderr[1:].sum()


def test_polygons_need_a_plane() -> None:
    line = sl.counts(np.linspace(0, 1, 500), sl.Box((0,), (1,)), epsilon=1.0, trust="curator")
    with pytest.raises(InvalidInput, match="two dimensions"):
        line.query(shapely.box(0, 0, 1, 1))
