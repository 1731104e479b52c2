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
``ldp_kdtree``, ``ahead``         nobody                          :class:`SpatialCounts`
``published``                     nobody, keeps no crowd          :class:`PublishedRegions`: counts, means, points
``planar_laplace``                nobody                          :class:`ReleasedPoints`
``laplace_points``                nobody                          :class:`ReleasedPoints`
================================  ==============================  =====================================================

Every result has ``.guarantee``; print it. ``guarantee.anywhere`` is the epsilon that may be compared across
baselines without regions.

All take ``points`` (float64[n, d], all inside the box), the public ``box``, and the keywords ``epsilon`` (the
result's guarantee says of what) and ``rng``; what else they take is described with them.

These simulate a whole population for experiments, with noise in floating point as in the papers. They are not
devices: floating-point noise is not private bit by bit.
"""

from __future__ import annotations

from ...protocol.promise import Guarantee
from .boxes import GridCounts, SpatialCounts
from .dawa import dawa
from .grids import agrid, identity, ugrid
from .ldp_trees import ahead, ldp_kdtree
from .quadtrees import PublishedRegions, heatmap, privtree, privtree_settled, published
from .releases import MeanEstimate, ReleasedPoints, central_mean, laplace_points, local_mean, planar_laplace

__all__ = [
    "GridCounts", "Guarantee", "MeanEstimate", "PublishedRegions", "ReleasedPoints", "SpatialCounts", "agrid", "ahead",
    "central_mean", "dawa", "heatmap", "identity", "laplace_points", "ldp_kdtree", "local_mean", "planar_laplace",
    "privtree", "privtree_settled", "published", "ugrid",
]  # fmt: skip
