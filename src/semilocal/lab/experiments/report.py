"""One self-contained page with all figures: pictures, parameters, true costs, crowds, times.

Knows HTML and what a reader must be told next to a picture. All numbers come in.
The page loads nothing from anywhere; pictures are inside it.
"""

from __future__ import annotations

import base64
import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template

from ...io.files import write_text
from ...io.progress import duration
from ...protocol.promise import Guarantee
from ...protocol.promise_words import PROTECTED
from .methods import crowd_kept, look

__all__ = ["Claim", "FigureReport", "Line", "write_report"]

LARGEST_SVG = 2_000_000  # bytes; beyond that the PNG is put in
TITLE = "Semi-local differential privacy: the figures, reproduced"
KINDS = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True)
class Line:
    """What one line of a figure promises, and the measured shares below k of its regions and of its participants."""

    method: str
    guarantee: Guarantee
    regions_below: float | None = None
    participants_below: float | None = None


@dataclass(frozen=True)
class FigureReport:
    """One figure: pictures (SVG or PNG files; of an SVG the PNG of the same name is used if it is too large)
    and facts; ``participants`` says what stands for one of them."""

    name: str
    title: str
    caption: str = ""
    pictures: tuple[Path, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    runs: int = 0
    seed: int = 0
    seconds: float = 0.0
    csv: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""
    participants: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, whether it holds here, the numbers, and the command that shows it."""

    text: str
    holds: bool | None
    measured: str
    command: str = ""


def write_report(
    out: str | Path, figures: Sequence[FigureReport], *, version: str, claims: Sequence[Claim] = ()
) -> Path:
    """Write ``report.html`` into a folder, complete or not at all, and return its path.

    Figures come in the order of the page, each with its own name; one with ``missing`` has no picture and says what it
    lacks. ``version`` is that of the code that made the numbers.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    computing = duration(sum(figure.seconds for figure in figures))
    parts = [_overview(figures), _claims(claims), *(_section(figure) for figure in figures)]
    page = Template(importlib.resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    text = page.substitute(
        title=TITLE,
        facts=f"semilocal {escape(version)} · {len(figures)} figures · {computing} of computing",
        protected=PROTECTED,
        body="\n".join(part for part in parts if part),
    )
    path = folder / "report.html"
    write_text(path, text)
    return path


def _overview(figures: Sequence[FigureReport]) -> str:
    rows = [
        (
            f"<a href='#{_anchor(figure.name)}'>{escape(figure.name)}</a>",
            escape(figure.title),
            str(figure.runs or "–"),
            escape(f"left out: {figure.missing}" if figure.missing else duration(figure.seconds)),
        )
        for figure in figures
    ]
    return _table(("figure", "what", "runs", "time"), rows)


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    words = {True: "<span class='yes'>✓ holds</span>", False: "<span class='no'>✗ does not hold</span>", None: "? open"}
    rows = [
        (escape(claim.text), words[claim.holds], escape(claim.measured), f"<code>{escape(claim.command)}</code>")
        for claim in claims
    ]
    return "<h2>Where the paper's claims hold</h2>" + _table(("claim", "here", "measured", "command"), rows)


def _section(figure: FigureReport) -> str:
    parts = [f"<section id='{_anchor(figure.name)}'><h2>{escape(figure.name)}: {escape(figure.title)}</h2>"]
    if figure.missing:
        parts.append(f"<p class='missing'>Not made: {escape(figure.missing)}</p>")
    parts += [_picture(path, figure.title) for path in figure.pictures]
    if figure.caption:
        parts.append(f"<p>{escape(figure.caption)}</p>")
    if figure.participants:
        parts.append(f"<p><b>Participants.</b> {escape(figure.participants)}</p>")
    if figure.lines:
        parts.append("<h3>What each line costs and keeps</h3>")
        head = ("line", "true loss ε", "between", "δ", "crowd of k", "regions below k", "participants below k", "note")
        parts.append(_table(head, [_line(line) for line in figure.lines]))
    if figure.parameters:
        rows = [(escape(str(name)), escape(str(value))) for name, value in figure.parameters.items()]
        parts.append("<h3>Parameters</h3>" + _table(("parameter", "value"), rows))
    parts += [f"<p class='quiet'>{escape(note)}</p>" for note in figure.notes]
    if not figure.missing:
        numbers = f" · all numbers in <code>{escape(figure.csv)}</code>" if figure.csv else ""
        facts = f"{figure.runs} runs · seed {figure.seed} · {duration(figure.seconds)}"
        parts.append(f"<p class='quiet'>{facts}{numbers}</p>")
    return "\n".join([*parts, "</section>"])


def _line(line: Line) -> tuple[str, ...]:
    style, guarantee = look(line.method), line.guarantee
    kept = {True: "<span class='yes'>✓ kept</span>", False: "<span class='no'>✗ not kept</span>", None: "no regions"}
    parts = [f"{what} {loss:g} ε" for what, loss in guarantee.releases]
    if parts and guarantee.epsilon is not None:
        parts.append(f"partition {guarantee.epsilon - sum(loss for _, loss in guarantee.releases):g} ε")
    cells = guarantee.row()
    return (
        f"<span class='swatch' style='background:{style.colour}'></span>{escape(style.name)}",
        escape(guarantee.cost("ε")),
        escape(cells["between"]),
        escape(cells["delta"]),
        kept[crowd_kept(guarantee)],
        _share(line.regions_below),
        _share(line.participants_below),
        escape("; ".join([*guarantee.notes, *parts])),
    )


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    return "0" if share == 0 else f"{100 * share:.3g} %"


def _picture(path: Path, title: str) -> str:
    small = path.with_suffix(".png")
    if path.suffix == ".svg" and path.stat().st_size > LARGEST_SVG and small.exists():
        path = small
    # As an image rather than as markup: the identifiers inside two SVG files cannot meet.
    packed = base64.b64encode(path.read_bytes()).decode()
    source = f"data:{KINDS[path.suffix]};base64,{packed}"
    return f"<figure><img alt='{escape(title, quote=True)}' src='{source}'></figure>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the head is text, the cells are HTML already."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    cells = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{top}</tr></thead><tbody>\n{cells}\n</tbody></table></div>"


def _anchor(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)
