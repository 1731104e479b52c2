"""Numbers with their nouns, as people write them. Knows no data."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str, plural: str = "") -> str:
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
    >>> counted(1, "region"), counted(1200, "region"), counted(0, "person", "people")
    ('1 region', '1,200 regions', '0 people')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
