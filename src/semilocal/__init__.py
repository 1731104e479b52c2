"""semilocal: where a crowd is, at a resolution that follows its density, with a stated promise to everybody in it.

A public hierarchy cuts the domain into cells. In rounds, each participant tells through a local randomizer in which
child of its current cell it is; a cell is split only while every part keeps a crowd of k. See ``Task.statement`` for
what is promised and what is revealed by design.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .outputs import register

if TYPE_CHECKING:
    from . import duckdb, functions, release, spark
    from .accounting import Ledger
    from .geometry.box import Box
    from .hierarchy import BinaryTree, Quadtree, SphereTree, TableTree
    from .io.saved import load
    from .protocol.curator import Curator
    from .protocol.messages import Closed, Query, Report
    from .protocol.participant import Participant
    from .protocol.partition import Partition
    from .protocol.policy import Policy
    from .protocol.task import Task
    from .randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
    from .release.job import cell_means, counts, mean, partition, points, values
    from .simulation.people import draw_rows
    from .simulation.simulate import Run, simulate

__version__ = "0.1.0"

__all__ = [
    "BinaryTree", "Box", "Closed", "Curator", "DiscreteLaplace", "Ledger", "PaperLaplace", "Participant",
    "Partition", "Policy", "Quadtree", "Query", "RandomizedResponse", "Report", "Run", "SphereTree", "TableTree",
    "Task", "__version__", "cell_means", "counts", "draw_rows", "duckdb", "functions", "load", "mean", "partition",
    "points", "release", "simulate", "spark", "values",
]  # fmt: skip

# Where a public name lives. Names are loaded when they are used, so that the command line's help is fast.
_HOMES = {
    "accounting": ("Ledger",),
    "geometry.box": ("Box",),
    "io.saved": ("load",),
    "hierarchy": ("BinaryTree", "Quadtree", "SphereTree", "TableTree"),
    "protocol.curator": ("Curator",),
    "protocol.messages": ("Closed", "Query", "Report"),
    "protocol.participant": ("Participant",),
    "protocol.policy": ("Policy",),
    "protocol.partition": ("Partition",),
    "protocol.task": ("Task",),
    "randomizer": ("DiscreteLaplace", "PaperLaplace", "RandomizedResponse"),
    "release.job": ("cell_means", "counts", "mean", "partition", "points", "values"),
    "simulation.people": ("draw_rows",),
    "simulation.simulate": ("Run", "simulate"),
}
# Results turn into what lies above them.
register(
    regions=lambda: import_module(".io.regions", __name__),
    saved=lambda: import_module(".io.saved", __name__),
    plots=lambda: import_module(".io.plots", __name__),
    notebook=lambda: import_module(".page.single", __name__),
)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    elif name in __all__:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
