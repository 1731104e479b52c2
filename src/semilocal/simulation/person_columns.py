"""Columns that say whose row it is: rows are taken for people only where none of them repeats anybody.

Knows names of columns and how often their content repeats. Knows no positions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput
from ..geometry.frames import column_names, count_content, is_frame

__all__ = [
    "CALL", "COMMAND", "POPULATION", "SOURCE", "Filled", "Ways", "check_frame", "check_rows_are_people",
    "count_filled", "person_columns", "refuse_content_as_person", "refuse_person_columns",
]  # fmt: skip

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
    """The columns whose name says that they tell people (or their devices) apart.

    Examples
    --------
    >>> person_columns(["lon", "lat", "User ID", "speed", "taxi_id"])
    ['User ID', 'taxi_id']
    """
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
