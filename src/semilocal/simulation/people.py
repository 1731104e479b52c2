"""One row per person: what is promised is promised to people, not to rows.

A person with several rows would answer several times: lose epsilon for every row, and count several times in a crowd.

Which rows stand for a person is drawn once, as one key: every row gets a score from the key and its number, and the
smallest scores of a person are taken. The scores are the numbers of the generator SplitMix64, so the same key takes the
same rows in memory, from Arrow and from files in DuckDB.

Knows who a row belongs to. Knows no positions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, Words, as_integer
from ..errors import InvalidInput

__all__ = ["MAX_KEY", "MAX_ROWS_PER_USER", "choose_rows", "draw_key", "draw_rows", "row_scores", "smallest_scores"]

MAX_ROWS_PER_USER = 1000
MAX_KEY = 2**64 - 1
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def row_scores(key: int, rows: Integers) -> Words:
    """The score of each row, by its number from 0: what SplitMix64 gives at this place after this key. uint64[m].

    Examples
    --------
    >>> [hex(int(score)) for score in row_scores(0, np.arange(2))]
    ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    out = np.asarray((rows.astype(np.uint64) + np.uint64(1)) * _STEP + np.uint64(key))
    for shift, factor in _MIXING:
        out = (out ^ (out >> np.uint64(shift))) * np.uint64(factor)
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
    return np.sort(smallest_scores(people, row_scores(key, rows), rows, rows_per_user))


def smallest_scores(people: npt.NDArray[np.integer], scores: Words, rows: Integers, most: int) -> npt.NDArray[np.int64]:
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
