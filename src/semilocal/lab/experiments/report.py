"""One Markdown page with all figures: pictures, parameters, true losses, crowds.

Knows what a reader must be told next to a picture. All numbers come in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...io.files import write_text
from ...protocol.promise import PROTECTED, Guarantee
from ..tables import markdown
from .methods import CROWD, DELTA, crowd_kept, look, promise_of
from .summary import FigureOptions, Gathered, Study, average, select

__all__ = ["Claim", "FigureReport", "Output", "write_report"]

HEAD = f"""# Semi-local differential privacy: the figures, reproduced

Every loss ε below stands with its adjacency (between which inputs it holds) and its δ. The regions, how many
participants each holds, and who answered for which region are public by design and not protected: {PROTECTED}.
"Inside" is a loss between any two positions in one published region, "anywhere" one between any two positions of the
domain. "Below k" counts regions, and participants in them, with fewer than k participants, measured over all runs.
"""
COLUMNS = ("line", "true loss ε", "between", "δ", "note", "crowd of k", "regions below k", "participants below k")
KEPT = {True: "kept", False: "not kept", None: "no regions"}


@dataclass(frozen=True)
class FigureReport:
    """A section about the trials of a study: its picture (PNG), or what it lacks."""

    study: Study
    options: FigureOptions
    found: Gathered = field(default_factory=Gathered)
    picture: Path | None = None
    caption: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""

    @property
    def name(self) -> str:
        """The paper's label."""
        return f"fig:{self.study.label}"

    @property
    def parameters(self) -> dict[str, object]:
        """What a reader must know about the trials."""
        axes = {
            shown: ", ".join(f"{value:,}" if name == "n" else f"{value:g}" for value in self.study.axes[name])
            for name, shown in {"n": "N", "epsilon": "ε", "k": "k"}.items()
            if name in self.study.axes
        }
        return {"k": CROWD, **axes, "δ": f"{DELTA:g}", **self.study.parameters}

    def lines(self) -> Iterator[tuple[str, ...]]:
        """A row per method, as `COLUMNS`: what it promises, and measured shares below k, averaged over groups."""
        for method in dict.fromkeys(row["method"] for row in self.found.summary):
            mine = select(self.found.summary, method=method)
            shares = [average(mine, name) for name in ("regions_below", "participants_below")]
            words = ["–" if share is None else f"{100 * share:.3g} %" for share in shares]
            yield *_promised(method, promise_of(method, self.study.purpose)), *words


def _promised(method: str, guarantee: Guarantee) -> tuple[str, ...]:
    parts = [f"{what} {loss:g} ε" for what, loss in guarantee.releases]
    if parts and guarantee.epsilon is not None:
        parts.append(f"partition {guarantee.epsilon - sum(loss for _, loss in guarantee.releases):g} ε")
    note = "; ".join([*guarantee.notes, *parts])
    return (
        look(method).name, guarantee.cost("ε"), guarantee.between, guarantee.delta_words, note,
        KEPT[crowd_kept(guarantee)],
    )  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, whether it holds here, the numbers, and the command that shows it."""

    text: str
    holds: bool
    measured: str
    command: str = ""


@dataclass(frozen=True)
class Output:
    """What an experiment made: sections of the report, claims for its table, and lines to print."""

    figures: tuple[FigureReport, ...] = ()
    claims: tuple[Claim, ...] = ()
    text: str = ""


def write_report(out: Path, figures: Sequence[FigureReport], *, version: str, claims: Sequence[Claim] = ()) -> Path:
    """Write ``report.md`` into a folder, complete or not at all, and return its path.

    ``version`` is that of the code that made the numbers.
    """
    parts = [HEAD, f"semilocal {version}"]
    if claims:
        rows = [(one.text, "holds" if one.holds else "does not hold", one.measured, one.command) for one in claims]
        parts += ["## Where the paper's claims hold", markdown([("claim", "here", "measured", "command"), *rows])]
    for figure in figures:
        parts += _section(figure)
    path = out / "report.md"
    write_text(path, "\n\n".join(parts) + "\n")
    return path


def _section(figure: FigureReport) -> Iterator[str]:
    study = figure.study
    yield f"## {figure.name}: {study.title}"
    if figure.missing or figure.picture is None:
        yield f"Not made: {figure.missing}"
        return
    yield f"![{study.title}]({figure.picture.name})"
    yield f"{figure.caption} {study.participants}".strip()
    yield markdown([COLUMNS, *figure.lines()])
    yield markdown([("parameter", "value"), *figure.parameters.items()])
    yield from (*figure.notes, *(f"left out: {why}" for why in figure.found.missing.values()))
    yield f"{study.repeats(figure.options)} runs, seed {figure.options.seed}; all numbers in {study.name}.csv"
