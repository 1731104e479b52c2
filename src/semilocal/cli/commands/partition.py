"""``semilocal partition``: cut the domain into regions that each hold a crowd, and write or draw them."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ...io.plots import PICTURES, need_matplotlib, save_picture
from ...io.regions import write_regions
from .. import jobs
from ..output import Outcome

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    jobs.add_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the regions: .geojson or .csv")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the regions: .png, .svg or .pdf")


def run(args: argparse.Namespace) -> int:
    """Find the regions."""
    if args.plot is not None:
        need_matplotlib()
    outputs = {"--out": (args.out, jobs.REGIONS), "--plot": (args.plot, PICTURES)}
    return jobs.run_job(args, _partition, outputs=outputs)


def _partition(job: jobs.Job) -> Outcome:
    args = job.args
    run, ledger = job.partition()
    partition = run.partition
    if args.out is not None:
        write_regions(partition, args.out)
    if args.plot is not None:
        save_picture(partition, args.plot, points=job.points if args.public_data else None)
    crowds = partition.crowds
    files = [str(path) for path in (args.out, args.plot) if path is not None]
    found = {
        "regions": len(partition),
        "crowds": {"smallest": int(crowds.min()), "median": float(np.median(crowds)), "largest": int(crowds.max())},
        "share_below_k": partition.share_below_k,
        "files": files,
    }
    words = [
        f"{len(run.regions):,} participants, {len(partition):,} regions with crowds from {crowds.min():,} to "
        f"{crowds.max():,} (median {np.median(crowds):,.0f}); {100 * partition.share_below_k:.3g} % share a region "
        f"with fewer than k = {args.k}.",
        *(f"wrote {path}" for path in files),
    ]
    return Outcome(run, ledger, found, words)
