"""``semilocal partition``: cut the domain into regions that follow the density of the crowd, and write or draw them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ...io.plots import PICTURES, need_matplotlib, save_picture
from ...io.regions import write_regions
from ...protocol.partition import Partition
from .. import jobs
from ..output import Outcome

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    jobs.add_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the regions: .geojson or .csv")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the regions: .png, .svg or .pdf")
    jobs.add_html_arguments(parser)
    parser.add_argument("--transcript", type=Path, metavar="FILE", help="write all that was published: .slt")


def run(args: argparse.Namespace) -> int:
    """Find the regions."""
    if args.plot is not None:
        need_matplotlib()
    outputs = {
        "--out": (args.out, jobs.REGIONS),
        "--plot": (args.plot, PICTURES),
        "--html": (args.html, jobs.HTML),
        "--transcript": (args.transcript, jobs.TRANSCRIPT),
    }
    return jobs.run_job(args, _partition, outputs=outputs, inputs=[args.basemap])


def _partition(job: jobs.Job) -> Outcome:
    args = job.args
    run, result = job.counted()
    partition, crowds = result.partition, result.partition.crowds
    if args.out is not None:
        write_regions(partition, args.out)
    if args.plot is not None:
        save_picture(partition, args.plot, points=job.points if args.public_data else None)
    files = [str(path) for path in (args.out, args.plot) if path is not None]
    files += jobs.write_map(job, run, result)
    files += jobs.write_transcript(args.transcript, run)
    found: dict[str, Any] = {
        "regions": len(partition),
        "crowds": {"smallest": round(crowds.min()), "median": float(np.median(crowds)), "largest": round(crowds.max())},
    }
    kind = "estimated crowds" if job.pooled else "crowds"
    words = (
        f"{result.total:,} participants, {len(partition):,} regions with {kind} from {crowds.min():,.0f} to "
        f"{crowds.max():,.0f} (median {np.median(crowds):,.0f})"
    )
    if isinstance(partition, Partition):
        found["share_below_k"] = partition.share_below_k
        words += f"; {100 * partition.share_below_k:.3g} % share a region with fewer than k = {partition.task.k}"
    found["files"] = files
    return Outcome(run, result.spent, found, [f"{words}.", *(f"wrote {path}" for path in files)])
