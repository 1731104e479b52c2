"""Range counts on the tables of DPBench by its 2-D protocol, and other questions about real positions.

M. Hay, A. Machanavajjhala, G. Miklau, Y. Chen, D. Zhang, "Principled evaluation of differentially private algorithms
using DPBench" (SIGMOD 2016): nine tables of 128 x 128 cells, people drawn from each (multinomial), 2,000 random ranges.
ε is for a person taking part or not, 2 ε for any move, for every method; N is public. Knows the grids of trials. Draws
no picture: it prints tables, and writes them to ``dpbench.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import InvalidInput
from ...io.files import write_text
from .data import sha256_of, tables
from .methods import look
from .report import Output
from .summary import FigureOptions, Gathered, Study, select
from .trials import MAP_SIDE, TABLES, counts_trial

EPSILON = 0.1  # for taking part, of the ranges
PEOPLE = (10_000, 100_000, 1_000_000)
MOST_RUNS = 12
CENTRAL = (
    "pooled-curator", "pooled-servers", "privtree", "privtree-settled", "agrid", "ugrid", "dawa", "heatmap", "identity",
    "even", "zero",
)  # fmt: skip
AROUND_PEOPLE = Study(
    "dpbench_people",
    counts_trial,
    CENTRAL,
    {"asked": ("paper", "blocks"), "n": (20_000,), "epsilon": (0.5,)},
    of=("mre", "mae"),
    sources=("gowalla", "brightkite", "porto"),
    quick=1,
    most=MOST_RUNS,
)
IN_THE_WORLD = Study(
    "dpbench_cities",
    counts_trial,
    CENTRAL,
    {"asked": ("cities",), "n": (20_000,), "epsilon": (0.5,), "stands_for": ("person",)},
    of=("mre", "mae"),
    sources=("brightkite_last_checkin",),
    quick=1,
    most=MOST_RUNS,
)
QUESTIONS = {
    "paper": "the paper's boxes",
    "blocks": "squares of 0.2 to 1 % of a side",
    "cities": "1° x 1° in the world, each person once",
}


def ranges(
    options: FigureOptions,
    methods: Sequence[str] = CENTRAL,
    people: Sequence[int] = PEOPLE,
    *,
    names: Sequence[str] = (),
    most: int = MOST_RUNS,
    maps: bool = True,
) -> Gathered:
    """Run the protocol: a row for every method, table and number of people; errors ``mae`` are in people.

    ``names`` are those of tables (all if there are none), ``most`` is how many runs are enough, and ``maps`` whether
    to measure the earth mover's distance, too.
    """
    path, known = tables(options.data)
    sources = tuple(TABLES + name for name in names or known)
    return Study(
        "dpbench",
        counts_trial,
        tuple(methods),
        {
            "source": sources,
            "data": (sha256_of(path)[:12],),
            "n": tuple(people),
            "epsilon": (EPSILON,),
            "maps": (maps,),
        },
        of=("mae", "moved") if maps else ("mae",),
        quick=1,
        quick_axes={"source": sources[:2], "n": tuple(people)[:1]},
        most=most,
    ).gather(options)


def geometric_mean(rows: Sequence[Mapping[str, Any]], of: str) -> tuple[float, float]:
    """The geometric mean of the means of some groups, and its standard error from those of the groups."""
    means = [float(row[f"{of}_mean"]) for row in rows]
    mean = math.exp(math.fsum(map(math.log, means)) / len(means))
    parts = [float(row[f"{of}_std"]) ** 2 / row["runs"] / one**2 for row, one in zip(rows, means, strict=True)]
    return mean, mean * math.sqrt(math.fsum(parts)) / len(means)


def make(options: FigureOptions) -> Output:
    """Measure, print the tables, and write them to ``dpbench.md``."""
    try:
        found = ranges(options)
    except InvalidInput as error:
        return Output(text=f"Left out: {error}")
    asked = [study.gather(options) for study in (AROUND_PEOPLE, IN_THE_WORLD)]
    lines = [
        f"{found.summary[0]['runs']} runs, seed {options.seed}. ± is one standard error.",
        "",
        *_ranges_table(found.summary),
        "",
        *_questions_table([row for one in asked for row in one.summary]),
        *(f"Left out: {why}." for one in asked for why in one.missing.values()),
    ]
    text = "\n".join(lines)
    write_text(options.out / "dpbench.md", text + "\n")
    return Output(text=text)


def _ranges_table(summary: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Errors of the ranges and of maps, and how much worse than the best of all a method is where it is worst."""
    people = list(dict.fromkeys(row["n"] for row in summary))
    best = {key: min(row["mae_mean"] for row in select(summary, **dict(key))) for key in map(_place, summary)}
    yield "| method | " + " | ".join(f"{n:,} people" for n in people) + " | at worst, times the best | maps |"
    yield "|---" * (len(people) + 3) + "|"
    for method in dict.fromkeys(row["method"] for row in summary):
        mine = select(summary, method=method)
        shares = [_words(*geometric_mean(select(mine, n=n), "mae"), 1e4 / n) for n in people]
        worst = max(row["mae_mean"] / best[_place(row)] for row in mine)
        moved = _words(*geometric_mean(select(mine, n=people[len(people) // 2]), "moved"), 100.0)
        yield f"| {look(method).name} | {' | '.join(shares)} | {worst:.2g} | {moved} |"
    yield ""
    yield (
        "Columns of people: mean absolute error as a share of all people, x 10⁻⁴, geometric mean over the tables; ε = "
        f"{EPSILON:g} for taking part, {2 * EPSILON:g} for any move. At worst: the largest ratio to the best method of "
        f"a table and number of people. Maps: the earth mover's distance on {MAP_SIDE} x {MAP_SIDE} cells at "
        f"{people[len(people) // 2]:,} people, in percent of a side."
    )


def _place(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return ("source", row["source"]), ("n", row["n"])


def _questions_table(summary: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Errors of boxes around people: the mean relative error of the paper's and of cities, people for blocks."""
    if not summary:
        return
    columns = list(dict.fromkeys((row["asked"], row["source"]) for row in summary))
    head = [f"{source}: {QUESTIONS[asked]}{', people' if asked == 'blocks' else ''}" for asked, source in columns]
    yield f"| method | {' | '.join(head)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for method in dict.fromkeys(row["method"] for row in summary):
        cells = []
        for asked, source in columns:
            [row] = select(summary, method=method, asked=asked, source=source)
            of = "mae" if asked == "blocks" else "mre"
            cells.append(_words(*geometric_mean([row], of), 1.0))
        yield f"| {look(method).name} | {' | '.join(cells)} |"
    yield ""
    yield (
        f"Mean relative error of 200 boxes around people (of blocks: the mean absolute error in people); N = "
        f"{summary[0]['n']:,}, ε = {summary[0]['epsilon']:g}. Every cell and DAWA: 128 x 128 cells."
    )


def _words(value: float, error: float, scale: float) -> str:
    """A number and its standard error, which one run does not have."""
    return f"{scale * value:.3g}" + ("" if math.isnan(error) else f" ± {scale * error:.1g}")
