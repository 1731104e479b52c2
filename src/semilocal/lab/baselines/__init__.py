"""The mechanisms people compare with, each in one call and each with its guarantee.

================================  ==============================  =====================================================
call                              trusts                          result
================================  ==============================  =====================================================
``central_mean``                  a curator                       :class:`MeanEstimate`
``local_mean``                    nobody                          :class:`MeanEstimate`
``privtree``, ``agrid``           a curator                       :class:`SpatialCounts`
``privtree_settled``              a curator                       :class:`SpatialCounts`: the pooled tree's estimator
``identity``, ``ugrid``, ``dawa`` a curator                       :class:`GridCounts`
``heatmap``                       secure aggregation              :class:`SpatialCounts`
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
from .boxes import GridCounts, SpatialCounts
from .dawa import dawa
from .grids import agrid, identity, ugrid
from .ldp_trees import ahead, ldp_kdtree, ldp_quadtree
from .quadtrees import PublishedRegions, heatmap, kanonymous_quadtree, privtree, privtree_settled, published
from .releases import MeanEstimate, ReleasedPoints, central_mean, laplace_points, local_mean, planar_laplace

__all__ = [
    "GridCounts", "Guarantee", "MeanEstimate", "PublishedRegions", "ReleasedPoints", "SpatialCounts", "agrid", "ahead",
    "central_mean", "dawa", "heatmap", "identity", "kanonymous_quadtree", "laplace_points", "ldp_kdtree",
    "ldp_quadtree", "local_mean", "planar_laplace", "privtree", "privtree_settled", "published", "ugrid",
]  # fmt: skip
