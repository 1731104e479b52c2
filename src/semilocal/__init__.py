"""semilocal: density-adaptive location analytics without a trusted curator.

A public hierarchy cuts the domain into cells. In rounds, each participant tells through a local randomizer in which
child of its current cell it is; a cell is split only while every part keeps a crowd of k. See ``Task.statement`` for
what is promised and what is revealed by design.
"""

from __future__ import annotations

from . import functions, release
from .accounting import Ledger
from .geometry.box import Box
from .hierarchy import BinaryTree, Quadtree
from .protocol.curator import Curator
from .protocol.messages import Closed, Query, Report
from .protocol.participant import Participant, Policy
from .protocol.partition import Partition
from .protocol.task import Task
from .randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from .release.onecall import counts, mean, points, values
from .simulation.people import draw_rows
from .simulation.run import Run
from .simulation.simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "BinaryTree",
    "Box",
    "Closed",
    "Curator",
    "DiscreteLaplace",
    "Ledger",
    "PaperLaplace",
    "Participant",
    "Partition",
    "Policy",
    "Quadtree",
    "Query",
    "RandomizedResponse",
    "Report",
    "Run",
    "Task",
    "__version__",
    "counts",
    "draw_rows",
    "functions",
    "mean",
    "points",
    "release",
    "simulate",
    "values",
]
