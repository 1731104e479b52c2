"""Rows are drawn so that no person counts more often than the promise says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from semilocal import draw_rows
from semilocal.arrays import Integers
from semilocal.errors import InvalidInput

PEOPLE = 6_000


def owners() -> Integers:
    """Person i has 1, 2 or 3 rows, scattered over the file."""
    users = np.repeat(np.arange(PEOPLE), 1 + np.arange(PEOPLE) % 3)
    return np.random.default_rng(1).permutation(users)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_everybody_has_at_most_so_many_rows_and_at_least_one(rows: int) -> None:
    users = owners()
    drawn = draw_rows(users, rows_per_user=rows, rng=np.random.default_rng(2))
    assert (np.diff(drawn) > 0).all()
    kept = np.bincount(users[drawn], minlength=PEOPLE)
    assert kept.tolist() == np.minimum(np.bincount(users), rows).tolist()


def place_of_drawn(users: Integers, drawn: Integers) -> list[int]:
    """For people with three rows: how often the first, second and third one was drawn."""
    order = np.argsort(users, kind="stable")
    sizes = np.bincount(users)
    rank = np.empty(len(users), dtype=np.int64)
    rank[order] = np.arange(len(users)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    three = drawn[sizes[users[drawn]] == 3]
    return np.bincount(rank[three], minlength=3).tolist()  # type: ignore[no-any-return]


def fair(counts: list[int]) -> bool:
    """Each within 5.5 standard errors of a third: false alarm below 3 x 4e-8."""
    total = sum(counts)
    return all(abs(count - total / 3) <= 5.5 * math.sqrt(total * 2 / 9) for count in counts)


def test_every_row_of_a_person_is_as_likely() -> None:
    users = owners()
    assert fair(place_of_drawn(users, draw_rows(users, rng=np.random.default_rng(3))))
    first = np.sort(np.unique(users, return_index=True)[1])
    assert not fair(place_of_drawn(users, first))  # a draw that always takes the first row is seen


@pytest.mark.parametrize("rows", [3, 17, 100])
def test_each_of_many_rows_is_as_likely_whatever_the_key(rows: int) -> None:
    """Chi-square over 60 keys and 100 people; false alarm 1e-7."""
    users = np.repeat(np.arange(100), rows)
    found = np.zeros(rows)
    for seed in range(60):
        found += np.bincount(draw_rows(users, rng=np.random.default_rng([seed, rows])) % rows, minlength=rows)
    assert np.sum((found - 6000 / rows) ** 2) * rows / 6000 < chi2.isf(1e-7, rows - 1)


def test_names_are_people_too_and_a_generator_repeats() -> None:
    users = ["ann", "bob", "ann", "cid", "bob"]
    one, two = (draw_rows(users, rng=np.random.default_rng(5)).tolist() for _ in range(2))
    assert one == two
    assert len(one) == 3


@pytest.mark.parametrize(
    ("users", "options", "words"),
    [
        ([1, 2], {"rows": 3}, "users must be 3, one per row"),
        ([[1, 2]], {}, "one per row"),
        ([1.0, math.nan], {}, "NaN"),
        ([1, 2], {"rows_per_user": 0}, "from 1 to 1000"),
        ([1, 2], {"rows_per_user": 1.5}, "must be an integer"),
        ([1, 2], {"rows_per_user": "2"}, "must be an integer"),
    ],
)
def test_wrong_users_are_refused(users: object, options: dict[str, int], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        draw_rows(users, rng=np.random.default_rng(1), **options)  # type: ignore[arg-type]
