"""``semilocal points``: each position replaced by the middle of its region."""

from __future__ import annotations

import argparse
from pathlib import Path

from ... import release
from ...io.files import write_text
from ...io.regions import csv_text
from .. import jobs
from ..output import Outcome

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    jobs.add_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the points: .csv (else stdout)")


def run(args: argparse.Namespace) -> int:
    """Release the middle of everybody's region."""
    return jobs.run_job(args, _points, outputs={"--out": (args.out, (".csv",))})


def _points(job: jobs.Job) -> Outcome:
    run, ledger = job.partition()
    result = release.quantize(run, job.points, ledger=ledger)
    names = job.box.names
    table = csv_text({name: result.points[:, axis].tolist() for axis, name in enumerate(names)})
    words = [f"{len(result.points):,} points, each the middle of one of {len(run.partition):,} regions"]
    found: dict[str, object] = {"regions": len(run.partition)}
    if job.args.out is not None:
        write_text(job.args.out, table)
        found["files"] = [str(job.args.out)]
        return Outcome(run, result.spent, found, [*words, f"wrote {job.args.out}"])
    found["points"] = result.points.tolist()
    return Outcome(run, result.spent, found, words, table=table)
