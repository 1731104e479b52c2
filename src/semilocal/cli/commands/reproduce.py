"""``semilocal reproduce``: every figure of the paper, its tables, and one page with all of them.

An interrupted run goes on where it was: the same command again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ...io.files import check_folder
from ...io.progress import duration
from ..catalogue import DONE
from ..options import folder, option, whole

if TYPE_CHECKING:
    from ...lab.experiments.report import Output

__all__ = ["run"]


def run(
    *figures: Annotated[str, option("names or labels of the paper; all if left out")],
    runs: Annotated[int, option("repeats of every trial (60, as in the paper)", "N", whole(1))] = 60,
    out: Annotated[Path, folder("where files go")] = Path("results"),
    data: Annotated[Path | None, folder("data folder (or set SEMILOCAL_DATA)")] = None,
    quick: Annotated[bool, option("few repeats: every figure in a few minutes")] = False,
    seed: Annotated[int, option("the same seed gives the same CSV to the last digit", "S", whole(0))] = 1,
    workers: Annotated[int | None, option("processes; all cores if left out", "N", whole(0))] = None,
    listing: Annotated[bool, option("list the figures and stop"), Parameter(name="--list")] = False,
) -> int:
    """Make the figures."""
    from ...lab.experiments import EXPERIMENTS, chosen
    from ...lab.experiments.report import write_report
    from ...lab.experiments.runner import source_version
    from ...lab.experiments.summary import FigureOptions

    if listing:
        for one in EXPERIMENTS:
            print(f"{one.name:<18} {one.title}" + (f" ({', '.join(one.labels)})" if one.labels else ""))
        return DONE
    wanted = chosen(figures)
    check_folder("--out", out)
    options = FigureOptions(runs, seed, out, data, quick, workers)
    options.out.mkdir(parents=True, exist_ok=True)
    outputs: list[Output] = []
    begin = time.monotonic()
    for number, one in enumerate(wanted, start=1):
        print(f"[{number} of {len(wanted)}] {one.name}: {one.title}", file=sys.stderr, flush=True)
        outputs.append(one.make(options))
        if outputs[-1].text:
            print(outputs[-1].text, flush=True)
        for figure in outputs[-1].figures:
            if figure.missing:
                print(f"{figure.name} is left out: {figure.missing}", file=sys.stderr)
    page = write_report(
        options.out,
        [figure for part in outputs for figure in part.figures],
        version=source_version(),
        claims=[claim for part in outputs for claim in part.claims],
    )
    print(f"{page} and the figures beside it, in {duration(time.monotonic() - begin)}", flush=True)
    return DONE
