"""One row per person: what is promised is promised to people, not to rows.

A person with several rows would answer several times: lose epsilon for every row, and count several times in a crowd.

Which rows stand for a person is drawn once, as one key: every row gets a score from the key and its number, and the
smallest scores of a person are taken. The score is a polynomial of the row's number over a prime field, because that is
arithmetic every engine has: the same key takes the same rows in memory, Arrow, DuckDB and Spark. The scores of any 16
rows are independent and uniform, so among up to 16 rows of a person each has the same chance (up to 2^-31). Among more
rows chances need not be equal: each of n is the one that is taken with a chance between 0.999 / n and 1.002 / n. That
is a bound from 15 moments, for any dependence beyond 16 rows; tests/integration/engines/test_row_choice.py computes it.

Knows who a row belongs to. Knows no positions.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, as_integer
from ..errors import InvalidInput

__all__ = [
    "LOW_BITS", "MAX_KEY", "MAX_ROWS_PER_USER", "PRIME", "Scores", "choose_rows", "draw_key", "draw_rows",
    "smallest_scores",
]  # fmt: skip

MAX_ROWS_PER_USER = 1000
MAX_KEY = 2**64 - 1
PRIME = 2**31 - 1  # products of two scores fit into the integers of every engine
LOW_BITS = 30  # of a row's number, which one polynomial takes; another takes the rest
_TERMS, _HIGH_TERMS = 16, 4


class Scores(NamedTuple):
    """The two polynomials of a key: coefficients below ``PRIME``, of the highest power first.

    Examples
    --------
    >>> Scores.of(7).at(np.arange(3)).tolist() == [Scores.of(7).at(np.array([row]))[0] for row in range(3)]
    True
    """

    low: tuple[int, ...]
    high: tuple[int, ...]

    @classmethod
    def of(cls, key: int) -> Scores:
        """The polynomials that belong to a key."""
        drawn = hashlib.shake_256(b"semilocal/1/rows" + key.to_bytes(8, "big")).digest(8 * (_TERMS + _HIGH_TERMS))
        terms = [int.from_bytes(drawn[at : at + 8], "big") % PRIME for at in range(0, len(drawn), 8)]
        return cls(tuple(terms[:_TERMS]), tuple(terms[_TERMS:]))

    def at(self, rows: Integers) -> Integers:
        """The score of each row, by its number from 0: int64[m]."""
        numbers = np.asarray(rows, dtype=np.int64)
        low, high = (_polynomial(terms, part) for terms, part in (
            (self.low, numbers & ((1 << LOW_BITS) - 1)), (self.high, numbers >> LOW_BITS),
        ))  # fmt: skip
        return np.asarray((low + high) % PRIME)


def _polynomial(terms: tuple[int, ...], x: Integers) -> Integers:
    if not x.any():
        return np.full(len(x), terms[-1], dtype=np.int64)
    out = np.full(len(x), terms[0], dtype=np.int64)
    for term in terms[1:]:
        out = (out * x + term) % PRIME
    return out


def draw_key(rng: np.random.Generator) -> int:
    """The key of a choice of rows."""
    return int(rng.integers(0, 2**64, dtype=np.uint64))


def draw_rows(
    users: npt.ArrayLike, *, rows: int | None = None, rows_per_user: int = 1, rng: np.random.Generator
) -> Integers:
    """Draw at most ``rows_per_user`` rows of each person at random. Uses one word of the generator, whatever the rows.

    Parameters
    ----------
    users : array_like, shape (n,)
        Whose row it is: numbers or strings, equal for the same person.
    rows : int, optional
        How many rows the positions have; refused if there are more or fewer users.
    rows_per_user : int
        With M rows a person plays M participants: everything that is stated per participant (epsilon, delta) is M
        times that for the person, and a crowd of k participants holds at least k / M people.
    rng : numpy.random.Generator

    Returns
    -------
    int64[m]
        Indices of the rows to use, ascending.

    Raises
    ------
    InvalidInput
        If there is not one user per row, a user is NaN or masked, or ``rows_per_user`` is no whole number from 1
        to 1000.

    Notes
    -----
    Guarantee: of no person more than ``rows_per_user`` rows are drawn, so a person's loss is at most that many times
    what is promised to a row (same delta for a loss, as many times the delta of a crowd).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> drawn = draw_rows(["ann", "bob", "ann", "ann"], rng=rng)
    >>> len(drawn), 1 in drawn
    (2, True)
    >>> len(draw_rows(["ann", "bob", "ann", "ann"], rows_per_user=2, rng=rng))
    3
    """
    who = np.asarray(users)
    if who.ndim != 1 or (rows is not None and len(who) != rows):
        wanted = "one per row" if rows is None else f"{rows}, one per row"
        raise InvalidInput(f"users must be {wanted}; got shape {who.shape}")
    as_integer(rows_per_user, "rows_per_user", low=1, high=MAX_ROWS_PER_USER)
    if np.ma.is_masked(users) or (who.dtype.kind in "fcmM" and np.isnan(who).any()):
        raise InvalidInput("users must not be NaN or masked: every row needs a person; remove the others first")
    if who.dtype.kind == "O":
        _check_names(who)
    return choose_rows(np.unique(who, return_inverse=True)[1], key=draw_key(rng), rows_per_user=rows_per_user)


def choose_rows(people: npt.NDArray[np.integer], *, key: int, rows_per_user: int = 1) -> Integers:
    """The rows that a key takes, ascending: int64[m]. Row i belongs to the person ``people[i]``."""
    rows = np.arange(len(people), dtype=np.int64)
    return np.sort(smallest_scores(people, Scores.of(key).at(rows), rows, rows_per_user))


def smallest_scores(
    people: npt.NDArray[np.integer], scores: Integers, rows: Integers, most: int
) -> npt.NDArray[np.int64]:
    """Where the smallest scores of every person are, a few of each: int64[m]. Smaller rows win ties."""
    order = np.lexsort((rows, scores, people))
    if not len(order):
        return order
    ordered = people[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(starts, append=len(ordered))
    return np.asarray(order[np.arange(len(order)) - np.repeat(starts, sizes) < most])


def _check_names(who: npt.NDArray[np.object_]) -> None:
    """Refuse what cannot be told apart: nothing, or a mixture of kinds."""
    kinds = [type(user) for user in who.tolist()]
    odd = next((row for row, kind in enumerate(kinds) if kind is not kinds[0] or kind not in (str, int, bytes)), None)
    if odd is not None:
        raise InvalidInput(
            f"users must be all strings or all whole numbers, without gaps; row {odd} is a {kinds[odd].__name__}; "
            "convert the column, or remove such rows"
        )
