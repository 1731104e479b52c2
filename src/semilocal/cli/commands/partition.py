"""``semilocal partition``: cut the domain into regions that follow the density of the crowd, and write or draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...io.plots import PICTURES, need_matplotlib, save_picture
from ...io.regions import write_regions
from ...protocol.partition import Partition
from ...words import number_of
from .. import jobs
from ..job_options import JobFile, JobOptions, MapFiles, Promise
from ..options import FILE

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    out: Annotated[Path | None, FILE] = None,
    plot: Annotated[Path | None, FILE] = None,
    files: MapFiles = MapFiles(),
    job: JobOptions = JobOptions(),
) -> int:
    """Find the regions.

    Parameters
    ----------
    out
        write the regions: .geojson, .csv or .parquet (GeoParquet)
    plot
        draw the regions: .png, .svg or .pdf
    """
    jobs.check_basemap(files.html, files.basemap)
    if plot is not None:
        need_matplotlib()
    outputs = {"--out": (out, jobs.REGIONS), "--plot": (plot, PICTURES), "--html": (files.html, jobs.HTML)}
    return jobs.run_job(
        "partition", file, promise, job, lambda request: _partition(request, out, plot, files), outputs=outputs,
        inputs=[files.basemap], transcript=files.transcript, only_counted=plot is None,
    )  # fmt: skip


def _partition(request: jobs.Request, out: Path | None, plot: Path | None, files: MapFiles) -> jobs.Outcome:
    done = request.run()
    partition, crowds = done.result.partition, done.result.partition.crowds
    with request.options.output.step("writing"):
        if out is not None:
            write_regions(partition, out)
        if plot is not None:
            save_picture(partition, plot, points=request.shown)
        written = [str(path) for path in (out, plot) if path is not None]
        written += jobs.write_map(request, files, done) + jobs.write_transcript(request, done)
    found: dict[str, Any] = {
        "regions": len(partition),
        "crowds": {"smallest": round(crowds.min()), "median": float(np.median(crowds)), "largest": round(crowds.max())},
    }
    kind = "estimated crowds" if request.pooled else "crowds"
    people = number_of(done.result.total, request.counted_in.removesuffix("s"))
    words = (
        f"{people}, {number_of(len(partition), 'region')} with {kind} from {crowds.min():,.0f} to {crowds.max():,.0f} "
        f"(median {np.median(crowds):,.0f})"
    )
    if isinstance(partition, Partition):
        found["share_below_k"] = partition.share_below_k
        words += f"; {100 * partition.share_below_k:.3g} % share a region with fewer than k = {partition.task.k}"
    found["files"] = written
    return jobs.Outcome(done, found, [f"{words}.", *(f"wrote {path}" for path in written)])
