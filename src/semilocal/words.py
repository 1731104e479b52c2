"""Numbers with their nouns, names that can be shown, and what divides a line of a table. Knows no data."""

from __future__ import annotations

from .errors import InvalidInput


def number_of(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun, in the plural with an s if nothing else is given.

    Examples
    --------
    >>> number_of(1, "region"), number_of(1200, "region"), number_of(0, "person", "people")
    ('1 region', '1,200 regions', '0 people')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def delimiter_of(header: str) -> str:
    """What divides the names in the first line of a table: a comma, a semicolon or a tab.

    Examples
    --------
    >>> delimiter_of("latitude;longitude")
    ';'
    """
    return max(",;\t", key=header.count)


def check_name(name: str, what: str, *, most: int) -> None:
    """Refuse a name that is empty, longer than ``most`` characters, or has some that are not shown."""
    if not 1 <= len(name) <= most or not name.isprintable():
        raise InvalidInput(f"{what} must be 1 to {most} printable characters; got {name[:most]!r}")
