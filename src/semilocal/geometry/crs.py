"""Whether the reference system of somebody's coordinates is that of a domain.

A domain says what its axes are by their names: longitude and latitude are degrees, ``Box.mercator()`` is Web Mercator,
others have units of their own. Knows names. Knows no positions.
"""

from __future__ import annotations

from typing import Any

from ..errors import InvalidInput, printable
from .box import MERCATOR, Box
from .sides import is_geographic

__all__ = ["check_crs", "crs_of"]

_WEB_MERCATOR = 3857


def crs_of(box: Box) -> str | None:
    """The name of a domain's reference system; None if its axes have units of their own.

    Examples
    --------
    >>> crs_of(Box.world()), crs_of(Box.mercator()), crs_of(Box((0, 0), (1, 1)))
    ('EPSG:4326', 'EPSG:3857', None)
    """
    if is_geographic(box):
        return "EPSG:4326"
    return "EPSG:3857" if box.names == MERCATOR else None


def check_crs(crs: Any, box: Box, *, what: str) -> None:
    """Refuse coordinates whose reference system is missing or is not that of the domain.

    Parameters
    ----------
    crs : pyproj.CRS or None
        Of a GeoSeries or GeoDataFrame.
    box : Box
    what : str
        How to call the coordinates in the message.
    """
    wanted = crs_of(box)
    if wanted is None:
        if crs is not None and crs.is_geographic:
            axes = " and ".join(map(repr, box.names))
            raise InvalidInput(
                f"{what} have the CRS {_name(crs)}, in degrees, and the axes of the domain are called {axes}; call "
                "them lon and lat if they are degrees, else convert the coordinates to the domain's units"
            )
        return
    number = wanted.split(":")[1]
    if crs is None:
        raise InvalidInput(
            f"{what} have no CRS, and the domain is in {wanted}; if they are in it as well, say so with "
            f".set_crs({number})"
        )
    fits = crs.is_geographic if is_geographic(box) else crs.to_epsg() == _WEB_MERCATOR
    if not fits:
        raise InvalidInput(
            f"{what} have the CRS {_name(crs)}, and the domain is in {wanted}; convert them with .to_crs({number})"
        )


def _name(crs: Any) -> str:
    code = crs.to_epsg()
    return f"EPSG:{code} ({printable(crs.name)})" if code else printable(crs.name)
