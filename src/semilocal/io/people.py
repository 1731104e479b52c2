"""Columns that say whose row it is.

Knows names of columns and codes of their content. Knows no positions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ..arrays import Integers
from ..errors import InvalidInput

__all__ = ["check_rows_are_people", "person_columns"]

_PERSON = re.compile(
    r"(user|person|people|device|phone|taxi|cab|driver|rider|vehicle|car|bike|customer|client|member|account|subscriber|"
    r"participant|patient|employee|individual|visitor|traveller|traveler|owner)s?(id|key|name|no|nr|num|number|hash)?"
    r"|u?id|imei|imsi|mac|msisdn|username"
)


def person_columns(columns: Sequence[str]) -> list[str]:
    """The columns whose name says that they tell people (or their devices) apart.

    Examples
    --------
    >>> person_columns(["lon", "lat", "User ID", "speed", "taxi_id"])
    ['User ID', 'taxi_id']
    """
    return [name for name in columns if _PERSON.fullmatch(re.sub(r"[^a-z]", "", name.lower()))]


def check_rows_are_people(path: object, labels: Mapping[str, Integers]) -> None:
    """Refuse a file in which the same person seems to have several rows.

    Parameters
    ----------
    path : object
        The file, for the message.
    labels : mapping of str to int64[n]
        Columns that look like a person, as codes; -1 for nobody.
    """
    for name, codes in labels.items():
        known = codes[codes >= 0]
        if len(np.unique(known)) < len(known):
            raise InvalidInput(
                f"{path}: column {name!r} looks like a person, and some have several rows. The promise is made to "
                f"people: a person with several rows would lose epsilon for each of them and fill a crowd alone. Use "
                f"--user {name!r} to draw one row per person (or --rows-per-user M with a promise M times weaker); if "
                "every row really is another person, say --rows-are-people"
            )
