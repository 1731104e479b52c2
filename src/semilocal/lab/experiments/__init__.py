"""The experiments: all of them by name, in the order of the report.

Datasets, populations, the runner, and how figures and the report look are beside it; a module is loaded when its
experiment is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from ...errors import InvalidInput

if TYPE_CHECKING:
    from .report import Output
    from .summary import FigureOptions


@dataclass(frozen=True)
class Experiment:
    """One experiment; what the user types is its name, or a label of the paper."""

    name: str
    labels: tuple[str, ...]  # the paper's labels of its figures; one without draws no figure
    title: str

    def make(self, options: FigureOptions) -> Output:
        """Load its module, and write its files into ``options.out``."""
        module, function = ("figures", self.name) if self.labels else (self.name, "make")
        output: Output = getattr(import_module(f"{__name__}.{module}"), function)(options)
        command = f"semilocal reproduce {self.name}"
        return replace(output, claims=tuple(replace(claim, command=command) for claim in output.claims))


EXPERIMENTS = (
    Experiment("density", ("fig:density_reconstruction",), "Figure 1: a function from private reports"),
    Experiment("mean", ("fig:mse_and_boxplots", "fig:mse_results_a"), "Figure 2: error of a mean"),
    Experiment("classifiers", ("fig:classifiers",), "F1 of three classifiers on California Housing"),
    Experiment("sensitivity", ("fig:RF_precision_recall",), "precision and recall against k"),
    Experiment("queries_real", ("fig:spatial_queries_error",), "range queries on real positions"),
    Experiment("queries_people", ("fig:queries_people",), "our own: the same queries with one position per person"),
    Experiment("queries_synthetic", ("fig:comparision_synthetic",), "range queries on clusters"),
    Experiment("tradeoff", ("fig:tradeoff",), "our own: what each choice for sparse areas costs"),
    Experiment("dpbench", (), "range counts on the tables of DPBench, and other questions: a table"),
    Experiment("claims", (), "where the paper's text does not hold: a table"),
)


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments of the given names or labels in their order; all if there are none.

    Examples
    --------
    >>> [one.name for one in chosen(["fig:tradeoff", "mean"])]
    ['mean', 'tradeoff']
    """
    if not names:
        return EXPERIMENTS
    known = {label: one for one in EXPERIMENTS for label in (one.name, *one.labels, *(x[4:] for x in one.labels))}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput(
            f"no figure is called {unknown[0]!r}; there are {', '.join(one.name for one in EXPERIMENTS)}, "
            "or a label of the paper such as fig:classifiers"
        )
    wanted = {known[name].name for name in names}
    return tuple(one for one in EXPERIMENTS if one.name in wanted)
