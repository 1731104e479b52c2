"""``semilocal reproduce``: every figure of the paper, its tables, and one page with all of them.

An interrupted run goes on where it was: the same command again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ...io.files import check_folder
from ...io.progress import duration
from ..arguments import add_seed, whole
from ..exits import DONE

if TYPE_CHECKING:
    from ...experiments.harness.summary import Output

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="names or labels of the paper; all if left out")
    parser.add_argument("--runs", type=whole(1), default=60, help="repeats of every trial (60, as in the paper)")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="FOLDER", help="where files go (results)")
    parser.add_argument("--data", type=Path, default=None, metavar="FOLDER", help="data folder (or set SEMILOCAL_DATA)")
    parser.add_argument("--quick", action="store_true", help="few repeats: every figure in a few minutes")
    add_seed(parser, "the same seed gives the same CSV to the last digit", default=1)
    parser.add_argument("--workers", type=whole(0), default=None, help="processes; all cores if left out")
    parser.add_argument("--list", action="store_true", help="list the figures and stop")


def run(args: argparse.Namespace) -> int:
    """Make the figures."""
    from ...experiments.harness.report import write_report
    from ...experiments.harness.summary import Options
    from ...experiments.harness.version import source_version
    from ...experiments.registry import EXPERIMENTS, chosen

    if args.list:
        for one in EXPERIMENTS:
            print(f"{one.name:<18} {one.title}" + (f" ({', '.join(one.labels)})" if one.labels else ""))
        return DONE
    check_folder("--out", args.out)
    options = Options(args.runs, args.seed, args.out, args.data, args.quick, args.workers)
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = chosen(args.figures)
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
