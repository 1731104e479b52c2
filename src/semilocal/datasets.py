"""Public data that ships with the package, to try things on.

Knows one file. Nothing is downloaded; the datasets of the experiments are read by
``semilocal.lab.experiments``.
"""

from __future__ import annotations

import importlib.resources

from .arrays import Floats
from .io.points import read_points


def california_housing() -> tuple[Floats, Floats]:
    """Return the sample that ships with the package.

    Returns
    -------
    points : float64[20640, 2]
        Longitude and latitude in degrees.
    values : float64[20640]
        Median house value of the block group in US dollars.

    Examples
    --------
    >>> points, values = california_housing()
    >>> points.shape, points[0].tolist(), float(values[0])
    ((20640, 2), [-122.23, 37.88], 452600.0)
    """
    source = importlib.resources.files("semilocal") / "data" / "california_housing.csv.gz"
    with importlib.resources.as_file(source) as path:
        table = read_points(path, columns=["longitude", "latitude"], values=["median_house_value"])
    return table.points, table.values["median_house_value"]
