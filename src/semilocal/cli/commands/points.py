"""``semilocal points``: the middle of everybody's region, or synthetic positions drawn from estimated counts."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...io.files import write_text
from ...io.regions import csv_text
from ...release.point_release import PointsRelease, quantize
from ...release.pooled_counts import PooledCounts
from ...release.pooled_points import PooledPoints, pooled_points
from ...simulation.run import Run
from .. import jobs
from ..output import Outcome

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    jobs.add_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the points: .csv (else stdout)")
    parser.add_argument("--transcript", type=Path, metavar="FILE", help="write all that was published: .slt")


def run(args: argparse.Namespace) -> int:
    """Release the middle of everybody's region."""
    outputs = {"--out": (args.out, (".csv",)), "--transcript": (args.transcript, jobs.TRANSCRIPT)}
    return jobs.run_job(args, _points, outputs=outputs)


def _points(job: jobs.Job) -> Outcome:
    names = job.box.names
    run: Run | PooledPoints
    result: PointsRelease | PooledPoints
    if job.pooled:
        counted = job.counted()[1]
        assert isinstance(counted, PooledCounts)
        run = result = pooled_points(counted, rng=job.noise_rng)
        words = [f"{len(result.points):,} synthetic points, drawn from {len(result.partition):,} cells"]
    else:
        run, ledger = job.partition()
        result = quantize(run, job.points, ledger=ledger)
        words = [f"{len(result.points):,} points, each the middle of one of {len(result.partition):,} regions"]
    table = csv_text({name: result.points[:, axis].tolist() for axis, name in enumerate(names)})
    found: dict[str, object] = {"regions": len(result.partition)}
    files = jobs.write_transcript(job.args.transcript, run)
    if job.args.out is not None:
        write_text(job.args.out, table)
        files.append(str(job.args.out))
        table = ""
    else:
        found["points"] = result.points.tolist()
    if files:
        found["files"] = files
    return Outcome(run, result.spent, found, [*words, *(f"wrote {path}" for path in files)], table=table)
