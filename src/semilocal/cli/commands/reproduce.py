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
from ..options import FOLDER, Seed, option, whole

if TYPE_CHECKING:
    from ...lab.experiments.summary import Output

__all__ = ["run"]


def run(
    *figures: Annotated[str, option(help="names or labels of the paper; all if left out")],
    runs: Annotated[int, option(whole(1), "N")] = 60,
    out: Annotated[Path, FOLDER] = Path("results"),
    data: Annotated[Path | None, FOLDER] = None,
    quick: bool = False,
    seed: Seed = 1,
    workers: Annotated[int | None, option(whole(0), "N")] = None,
    listing: Annotated[bool, Parameter(name="--list")] = False,
) -> int:
    """Make the figures.

    Parameters
    ----------
    runs
        repeats of every trial (60, as in the paper)
    out
        where files go
    data
        data folder (or set SEMILOCAL_DATA)
    quick
        few repeats: every figure in a few minutes
    seed
        the same seed gives the same CSV to the last digit
    workers
        processes; all cores if left out
    listing
        list the figures and stop
    """
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
