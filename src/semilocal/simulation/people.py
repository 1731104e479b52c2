"""One row per person: what is promised is promised to people, not to rows.

A person with several rows would answer several times: lose epsilon for every row, and count several times in a crowd.
Knows who a row belongs to. Knows no positions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Integers
from ..errors import InvalidInput

__all__ = ["MAX_ROWS_PER_USER", "draw_rows"]

MAX_ROWS_PER_USER = 1000


def draw_rows(
    users: npt.ArrayLike, *, rows: int | None = None, rows_per_user: int = 1, rng: np.random.Generator
) -> Integers:
    """Draw at most so many rows of each person at random.

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
        If there is not one user per row, a user is NaN, or ``rows_per_user`` is no whole number from 1 to 1000.

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
    if isinstance(rows_per_user, bool) or not 1 <= rows_per_user <= MAX_ROWS_PER_USER:
        raise InvalidInput(f"rows_per_user must be a whole number from 1 to {MAX_ROWS_PER_USER}; got {rows_per_user!r}")
    if who.dtype.kind == "f" and np.isnan(who).any():
        raise InvalidInput("users must not be NaN: every row needs a person; remove the others first")
    if who.dtype.kind == "O":
        _check_names(who)
    codes = np.unique(who, return_inverse=True)[1]
    shuffled = rng.permutation(len(codes))
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]  # by person, each person's rows in random order
    sizes = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[rank < rows_per_user]).astype(np.int64)


def _check_names(who: npt.NDArray[np.object_]) -> None:
    """Refuse what cannot be told apart: nothing, or a mixture of kinds."""
    kinds = [type(one) for one in who.tolist()]
    odd = next((row for row, kind in enumerate(kinds) if kind is not kinds[0] or kind not in (str, int, bytes)), None)
    if odd is not None:
        raise InvalidInput(
            f"users must be all strings or all whole numbers, without gaps; row {odd} is a {kinds[odd].__name__}; "
            "convert the column, or remove such rows"
        )
