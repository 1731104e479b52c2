"""What a confidence level is, and what is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.release.answers import check_level, standard_errors

BOX, F = sl.Box((0, 0), (1, 1)), sl.functions.coordinate(0)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_a_normal_number_lies_that_often_within_so_many_standard_errors(level: float) -> None:
    width = standard_errors(level)
    assert norm.cdf(width) - norm.cdf(-width) == pytest.approx(level)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95.0, math.nan, None, "a", True, [0.9], 0.5j, np.complex128(0.5)])
def test_what_is_no_level_is_refused(level: Any) -> None:
    with pytest.raises(InvalidInput, match="level must be a number strictly between 0 and 1"):
        standard_errors(level)
    if level != 1.0 or level is True:
        with pytest.raises(InvalidInput, match="level must be a number above 0 and at most 1"):
            check_level(level, certain=True)


def test_levels_of_numpy_are_taken() -> None:
    float32: Any = np.float32(0.5)
    assert standard_errors(float32) == standard_errors(np.float64(0.5)) == standard_errors(0.5)
    check_level(1, certain=True)


@pytest.mark.parametrize("level", [None, "a", [0.9]])
@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_every_answer_refuses_it(trust: Any, level: Any) -> None:
    points, box, f = np.random.default_rng(1).random((500, 2)), sl.Box((0, 0), (1, 1)), sl.functions.coordinate(0)
    options: Any = {"epsilon": 4.0, "trust": trust, "rng": np.random.default_rng(2)}
    counts = sl.counts(points, box, **options)
    answers: list[Any] = [
        counts, counts.query([[[0, 0], [0.5, 0.5]]]), sl.mean(points, f, box, **options),
        sl.cell_means(points, f, box, **options), sl.points(points, box, **options),
    ]  # fmt: skip
    for answer in answers:
        with pytest.raises(InvalidInput, match="level must be a number"):
            answer.interval(level)


@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_an_interval_that_says_next_to_nothing_says_so_and_what_would_help(trust: sl.Trust) -> None:
    """In the table, for counts and means. Planted bug: it is said of intervals that tell something."""
    points = np.random.default_rng(1).random((300, 2))
    few: dict[str, Any] = {"epsilon": 0.05, "trust": trust, "rng": np.random.default_rng(2)}
    with pytest.warns(sl.errors.WeakWarning) as warned:
        weak = sl.counts(points, BOX, **few).query([[[0.2, 0.2], [0.3, 0.3]], [[0, 0], [1, 1]]])
    assert {each.filename for each in warned} == {__file__}, "it names the caller's line"
    words = (
        "1 of 2 intervals says next to nothing: from nobody to twice the answer or more. More people, a larger epsilon"
    )
    assert f"{words}{', two servers' if trust == 'nobody' else ''} or a larger area would help." in repr(weak)
    mean = sl.mean(points[:40], sl.functions.coordinate(0), BOX, **few | {"epsilon": 0.01})
    assert "The interval says next to nothing: it is most of the range. More people" in repr(mean)
    assert "next to nothing" in weak._repr_html_()
    many = np.random.default_rng(1).random((20_000, 2))
    strong: dict[str, Any] = {"epsilon": 2.0, "trust": trust, "rng": np.random.default_rng(2)}
    for found in (sl.counts(many, BOX, **strong).query([[[0, 0], [0.5, 0.5]]]), sl.mean(many, F, BOX, **strong)):
        assert found.caution() == ""
        assert "next to nothing" not in repr(found)
