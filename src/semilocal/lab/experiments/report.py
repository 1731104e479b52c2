"""How figures look, and one Markdown page with all of them: pictures, parameters, true losses, crowds.

No two methods share marker, line and filling, so figures read in grey too; pictures have the same bytes each time.
Knows matplotlib, the looks of the methods, and what a reader must be told next to a picture. All numbers come in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...io.files import write_text
from ...io.plots import need_matplotlib
from ...protocol.promise import PROTECTED, Guarantee
from ...tabular import markdown
from .methods import CROWD, DELTA, METHODS, Purpose, crowd_kept, look, promise_of
from .summary import FigureOptions, Gathered, Study, average, select

DPI = 160
MANY_DECADES = 1e4  # high over low of an axis from which on powers of ten read better
X_LABELS = {"epsilon": "privacy budget ε", "k": "smallest crowd k (participants)"}
UNITS = {"f1", "precision", "recall", "participants_below"}  # from 0 to 1
LARGEST_DROP = 0.9  # on a logarithmic axis an error bar cannot reach zero
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "figure.constrained_layout.use": True,
        "figure.dpi": DPI,
        "figure.facecolor": "white",
        "font.family": "DejaVu Sans",  # ships with matplotlib: the same picture on every machine
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.labelsize": 9,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": "#d9d9d9",
        "grid.linewidth": 0.6,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "lines.markersize": 5,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "savefig.dpi": DPI,
        "svg.fonttype": "path",
        "svg.hashsalt": "semilocal",
    }
)


def line(method: str) -> dict[str, Any]:
    """The keyword arguments of ``Axes.plot`` and ``Axes.errorbar`` for a method (no label)."""
    style = look(method)
    return {
        "color": style.colour,
        "marker": style.marker,
        "linestyle": style.dashes,
        "linewidth": style.width,
        "markerfacecolor": style.colour if style.filled else "white",
        "markeredgecolor": style.colour,
    }


def legend_label(method: str, guarantee: Guarantee) -> str:
    """A legend entry: the name of a line, its true loss in terms of the ε of the axis, whether a crowd is kept.

    Examples
    --------
    >>> legend_label("published", promise_of("published", "values"))
    "published code's rule: true loss 1.5 ε inside, no crowd promised"
    """
    kept = crowd_kept(guarantee)
    crowd = "" if kept is None else ", crowd of k kept" if kept else ", no crowd promised"
    return f"{look(method).name}: true loss {guarantee.cost('ε')}{crowd}"


@contextmanager
def figure_style() -> Iterator[Any]:
    """Give the class ``matplotlib.figure.Figure``, with the house style in force.

    Figures made from the class itself belong to nobody else: there is no list of open figures and no window.

    Examples
    --------
    >>> with figure_style() as Figure:
    ...     axes = Figure(figsize=(6, 3)).subplots(1, 2)
    >>> len(axes)
    2
    """
    matplotlib = need_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(dict(SETTINGS)):
        yield Figure


def shared_legend(figure: Any, *, columns: int = 2) -> None:
    """Put one legend below all panels, each label once, in the order of `METHODS` as far as they are methods."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    names = [method.look.name for method in METHODS.values()]
    rank = {
        label: min((i for i, name in enumerate(names) if label.startswith(name)), default=len(names)) for label in found
    }
    labels = sorted(found, key=rank.__getitem__)
    figure.legend(
        [found[label] for label in labels], labels, loc="outside lower center", ncols=columns, handlelength=3.5
    )


def save(figure: Any, folder: str | Path, *, name: str) -> Path:
    """Write a figure as PNG and SVG, of the same bytes each time, and return the path of the PNG.

    Draw thousands of points with ``rasterized=True``: an SVG holds each one otherwise.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    # Dates and versions in the metadata would change the bytes.
    with need_matplotlib().rc_context(dict(SETTINGS)):
        figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return path


# -- panels that several figures share ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """One panel: its title, the values of the columns that pick its rows, and which column is drawn.

    A `value` is an error, on a logarithmic axis, unless `UNITS` has it: then it is a share.
    """

    title: str
    picks: Mapping[str, Any]
    value: str
    label: str  # of its axis


def line_panels(
    summary: Sequence[Mapping[str, Any]],
    panels: Sequence[Panel],
    study: Study,
    options: FigureOptions,
    *,
    along: str = "epsilon",
    columns: int = 4,
) -> Path:
    """Draw a value of each panel against the column ``along``, one line per method, with error bars.

    Bars of an error show the 95 % confidence interval of the mean, those of a score one standard deviation of a run.
    """
    rows = -(-len(panels) // columns)
    width = min(columns, len(panels))
    with figure_style() as Figure:
        figure = Figure(figsize=(max(3.1 * width, 7.5), 2.9 * rows + 1.1))
        grid = figure.subplots(rows, width, squeeze=False, sharey="row")
        for place, axes in enumerate(grid.flat):
            if place >= len(panels):
                axes.set_axis_off()
                continue
            _draw_lines(axes, summary, panels[place], along, study.purpose)
            if place % width == 0 or panels[place].value != panels[place - 1].value:
                axes.set_ylabel(panels[place].label)
        shared_legend(figure, columns=1 if width < 3 else 2)
        return save(figure, options.out, name=study.label)


def _draw_lines(axes: Any, summary: Sequence[Mapping[str, Any]], panel: Panel, along: str, purpose: Purpose) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_title(panel.title)
    chosen = select(summary, **panel.picks)
    value, unit = panel.value, panel.value in UNITS
    for method in dict.fromkeys(row["method"] for row in chosen):
        mine = sorted(select(chosen, method=method), key=lambda row: float(row[along]))
        label, x = legend_label(method, promise_of(method, purpose)), [row[along] for row in mine]
        if value in mine[0]:  # a fact about regions, which some methods do not have
            if mine[0][value] is not None:
                axes.plot(x, [row[value] for row in mine], **line(method), label=label)
            continue
        y = [row[f"{value}_mean"] for row in mine]
        half = [row[f"{value}_std"] if unit else row[f"{value}_high"] - row[f"{value}_mean"] for row in mine]
        down = half if unit else [min(h, LARGEST_DROP * m) for h, m in zip(half, y, strict=True)]
        axes.errorbar(x, y, yerr=[down, half], elinewidth=0.8, capsize=1.5, **line(method), label=label)
    places = sorted({row[along] for row in chosen})
    axes.set_xscale("log")
    axes.set_xticks(places, labels=[f"{place:g}" for place in places])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(X_LABELS[along])
    if unit:
        axes.set_ylim(0, 1)
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < MANY_DECADES:  # plain numbers, not powers of ten
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


# -- the page ----------------------------------------------------------------------------------------------------------

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
            promised = promise_of(method, self.study.purpose)
            parts = [f"{what} {loss:g} ε" for what, loss in promised.releases]
            if parts and promised.epsilon is not None:
                parts.append(f"partition {promised.epsilon - sum(loss for _, loss in promised.releases):g} ε")
            note, kept = "; ".join([*promised.notes, *parts]), KEPT[crowd_kept(promised)]
            yield look(method).name, promised.cost("ε"), promised.between, promised.delta_words, note, kept, *words


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
