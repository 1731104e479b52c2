"""Numbers with their nouns, as people write them. Knows no data."""

from __future__ import annotations

__all__ = ["number_of"]


def number_of(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun.

    Parameters
    ----------
    number : int
    noun : str
        In the singular.
    plural : str
        The noun with an s if left out.

    Examples
    --------
    >>> number_of(1, "region"), number_of(1200, "region"), number_of(0, "person", "people")
    ('1 region', '1,200 regions', '0 people')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
