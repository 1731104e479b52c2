"""One Markdown page with all figures: pictures, parameters, true losses, crowds.

Knows what a reader must be told next to a picture. All numbers come in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...io.files import write_text
from ...protocol.promise import Guarantee
from ...protocol.promise_words import PROTECTED
from ..tables import markdown
from .methods import crowd_kept, look

__all__ = ["Claim", "FigureReport", "Line", "write_report"]

HEAD = f"""# Semi-local differential privacy: the figures, reproduced

Every loss ε below stands with its adjacency (between which inputs it holds) and its δ. The regions, how many
participants each holds, and who answered for which region are public by design and not protected: {PROTECTED}.
"Inside" is a loss between any two positions in one published region, "anywhere" one between any two positions of the
domain. "Below k" counts regions, and participants in them, with fewer than k participants, measured over all runs.
"""
COLUMNS = ("line", "true loss ε", "between", "δ", "crowd of k", "regions below k", "participants below k", "note")
KEPT = {True: "kept", False: "not kept", None: "no regions"}


@dataclass(frozen=True)
class Line:
    """What one line of a figure promises, and the measured shares below k of its regions and of its participants."""

    method: str
    guarantee: Guarantee
    regions_below: float | None = None
    participants_below: float | None = None

    def row(self) -> Iterator[str]:
        """The cells of a table, as `COLUMNS`."""
        guarantee = self.guarantee
        parts = [f"{what} {loss:g} ε" for what, loss in guarantee.releases]
        if parts and guarantee.epsilon is not None:
            parts.append(f"partition {guarantee.epsilon - sum(loss for _, loss in guarantee.releases):g} ε")
        yield from (look(self.method).name, guarantee.cost("ε"), guarantee.between, guarantee.delta_words)
        yield KEPT[crowd_kept(guarantee)]
        for share in (self.regions_below, self.participants_below):
            yield "–" if share is None else f"{100 * share:.3g} %"
        yield "; ".join([*guarantee.notes, *parts])


@dataclass(frozen=True)
class FigureReport:
    """One figure: its picture (PNG) and facts; one with ``missing`` has no picture and says what it lacks."""

    name: str
    title: str
    caption: str = ""
    picture: Path | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    runs: int = 0
    seed: int = 0
    csv: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""
    participants: str = ""  # what stands for one of them


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, whether it holds here, the numbers, and the command that shows it."""

    text: str
    holds: bool
    measured: str
    command: str = ""


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
    yield f"## {figure.name}: {figure.title}"
    if figure.missing:
        yield f"Not made: {figure.missing}"
        return
    if figure.picture is not None:
        yield f"![{figure.title}]({figure.picture.name})"
    yield f"{figure.caption} {figure.participants}".strip()
    if figure.lines:
        yield markdown([COLUMNS, *(line.row() for line in figure.lines)])
    if figure.parameters:
        yield markdown([("parameter", "value"), *figure.parameters.items()])
    yield from figure.notes
    yield f"{figure.runs} runs, seed {figure.seed}; all numbers in {figure.csv}"
