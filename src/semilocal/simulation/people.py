"""One row per person: what is promised is promised to people, not to rows.

A person with several rows would answer several times: lose epsilon for every row, and count several times in a crowd.
So rows are taken for people only where no column that looks like a person repeats anybody.

Which rows stand for a person is drawn once, as one key: every row gets a score from the key and its number, and the
smallest scores of a person are taken. The scores are the numbers of the generator SplitMix64, so the same key takes the
same rows in memory, from Arrow and from files in DuckDB.

Knows who a row belongs to, names of columns and how often their content repeats. Knows no positions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, Words, as_integer
from ..errors import InvalidInput
from ..geometry.box import is_frame
from ..geometry.frames import column_names, count_content

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


# -- columns that say whose row it is ---------------------------------------------------------------------------------


_PERSON = re.compile(
    r"(?!phones?code)"  # of a country or a town
    r"(?:(user|person|people|device|phone|taxi|cab|driver|rider|vehicle|car|bike|customer|client|member|account|subscriber|"
    r"participant|patient|employee|individual|visitor|traveller|traveler|owner)s?(id|key|name|no|nr|num|number|hash|code)?"
    # with a word before them these may be numbers of people (n_users) unless an id follows: hashed_device_id, user_uuid
    r"|.*(user|person|device|phone|taxi|driver|rider|vehicle|customer|client|member|subscriber|participant)(u{0,2}id|guid)"
    # alone these are numbers of people, or kinds of things
    r"|(passenger|courier|worker|student|resident|household|truck|vessel|tracker|advertiser|advertising|android|hashed|ad)id"
    r"|u{0,2}id|guid|imei|imsi|mmsi|[gm]aid|idfa|pseudonym|mac(address)?|ip(address)?|e?mail(address)?|msisdn|username)"
)


class Filled(NamedTuple):
    """How many rows of a column hold something, and how many different things these are."""

    rows: int
    different: int


class Ways(NamedTuple):
    """What to write: one row of each person, several (empty where that cannot be), or every row is another person."""

    one: str
    several: str
    rows_are_people: str
    # Whether the participants trust somebody: then there are no crowds, and noise pays for several rows
    pooled: bool = False


COMMAND = Ways("--user {name!r}", "--rows-per-user M", "--rows-are-people")
CALL = Ways("users={name!r}", "rows_per_user=M", "rows_are_people=True")
POPULATION = Ways("semilocal.draw_rows(frame[{name!r}], rng=rng)", "", "so with the columns of positions alone")
SOURCE = Ways("person={name!r}", "rows_per_person=M", "rows_are_people=True")


def person_columns(columns: Sequence[str]) -> list[str]:
    """The columns whose name says that they tell people (or their devices) apart."""
    return [name for name in columns if _PERSON.fullmatch(re.sub(r"[^a-z]", "", name.lower()))]


def count_filled(codes: Integers) -> Filled:
    """Of a column as codes int64[n], equal for equal content; -1 for nobody."""
    filled = codes[codes >= 0]
    return Filled(len(filled), len(np.unique(filled)))


def refuse_person_columns(where: object, columns: Sequence[str], ways: Ways) -> None:
    """Refuse rows with a column that looks like a person, where looking for repeats would be a scan of its own."""
    for name in person_columns(columns):
        raise InvalidInput(
            f"{where}: column {name!r} looks like a person. The promise is made to people: use "
            f"{ways.one.format(name=name)} to take one row of each, or say {ways.rows_are_people} if every row is "
            "another person"
        )


def refuse_content_as_person(name: str, content: Sequence[str], ways: Ways) -> None:
    """Refuse a column of ``content``, positions or values, as the one that says whose row it is.

    Everybody in one place would be one person, and one person in two places two.
    """
    if name.lower() in [column.lower() for column in content]:
        raise InvalidInput(
            f"{ways.one.format(name=name)}: this column holds positions or values, so it does not say whose row it is; "
            f"name a column that tells people apart, or say {ways.rows_are_people} if every row is another person"
        )


def check_rows_are_people(where: object, labels: Mapping[str, Filled], ways: Ways) -> None:
    """Refuse rows in which the same person seems to have several, by the columns that look like a person."""
    crowd, price = (
        ("", "and M times as much noise")
        if ways.pooled
        else (" and fill a crowd alone", "with a promise M times weaker")
    )
    for name, filled in labels.items():
        if filled.different < filled.rows:
            raise InvalidInput(
                f"{where}: column {name!r} looks like a person, and some have several rows. The promise is made to "
                f"people: a person with several rows would lose epsilon for each of them{crowd}. Use "
                f"{ways.one.format(name=name)} to draw one row per person"
                + (f" (or {ways.several} {price})" if ways.several else "")
                + f"; if every row really is another person, say {ways.rows_are_people}"
            )


def check_frame(points: Any, ways: Ways, *, value: object = None) -> None:
    """Refuse a data frame in which the same person seems to have several rows; arrays have no names to tell by.

    ``value`` may be the name of a column that holds values, so that it is no person.
    """
    if is_frame(points):
        labels = count_content(points, person_columns([name for name in column_names(points) if name != value]))
        check_rows_are_people("the frame", {name: Filled(*counted) for name, counted in labels.items()}, ways)
