"""The mechanisms people compare with, each in one call and each with its guarantee.

================================  ==============================  =====================================================
call                              trusts                          result
================================  ==============================  =====================================================
``central_mean``                  a curator                       :class:`MeanEstimate`
``local_mean``                    nobody                          :class:`MeanEstimate`
``privtree``                      a curator                       :class:`SpatialCounts`
``ldp_quadtree``, ``ldp_kdtree``  nobody                          :class:`SpatialCounts`
``ahead``                         nobody                          :class:`SpatialCounts`
``kanonymous_quadtree``           a curator, no noise at all      :class:`SpatialCounts`
``published``                     nobody, keeps no crowd          :class:`PublishedRegions`: counts, means, points
``planar_laplace``                nobody                          :class:`ReleasedPoints`
``laplace_points``                nobody                          :class:`ReleasedPoints`
================================  ==============================  =====================================================

Every result has ``.guarantee``; print it. ``guarantee.anywhere`` is the epsilon that may be compared across
baselines without regions.

These simulate a whole population for experiments, with noise in floating point as in the papers. They are not
devices: floating-point noise is not private bit by bit.
"""

from __future__ import annotations

from ...protocol.promise import Guarantee
from .ahead import ahead
from .central import central_mean
from .kanonymous import kanonymous_quadtree
from .kdtree import ldp_kdtree
from .local import local_mean
from .planar import laplace_points, planar_laplace
from .privtree import privtree
from .published import PublishedRegions, published
from .quadtree import ldp_quadtree
from .results import MeanEstimate, ReleasedPoints, SpatialCounts

__all__ = [
    "Guarantee", "MeanEstimate", "PublishedRegions", "ReleasedPoints", "SpatialCounts", "ahead", "central_mean",
    "kanonymous_quadtree", "laplace_points", "ldp_kdtree", "ldp_quadtree", "local_mean", "planar_laplace",
    "privtree", "published",
]  # fmt: skip
