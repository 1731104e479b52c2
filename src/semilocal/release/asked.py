"""What a mean or a value is of: a function of the position, or a number of people's own.

Knows functions and trees. Knows no positions and no noise.
"""

from __future__ import annotations

from typing import Any

from ..functions import BoundedFunction, as_function
from ..hierarchy.base import Hierarchy
from ..protocol.column import Column

__all__ = ["asked_of"]


def asked_of(f: Any, hierarchy: Hierarchy) -> BoundedFunction:
    """Return f if it has values on this tree; every mean asks here.

    Refuses what does not know its range, and functions of the position where positions are labels.

    Examples
    --------
    >>> from semilocal.functions import coordinate
    >>> from semilocal.hierarchy.tables import from_labels
    >>> asked_of(coordinate(0), from_labels("ICD", [("heart", "I21"), ("lung", "J18")]))
    Traceback (most recent call last):
    ...
    semilocal.errors.InvalidInput: coordinate(0): positions are labels of 'ICD', which have no coordinates; ask for \
counts, or for the mean of a value of people's own
    """
    asked = as_function(f)
    if not isinstance(asked, Column):
        hierarchy.check_coordinates(asked.name)
    return asked
