"""``semilocal partition``: cut the domain into regions that follow the density of the crowd, and write or draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...io.regions import write_regions
from ...protocol.partition import Partition
from ...words import number_of
from .. import jobs
from ..job_options import JobFile, JobOptions, MapFiles, Promise
from ..options import file

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    out: Annotated[Path | None, file("write the regions: .geojson, .csv or .parquet (GeoParquet)")] = None,
    files: MapFiles = MapFiles(),
    job: JobOptions = JobOptions(),
) -> int:
    """Find the regions."""
    outputs = {"--out": (out, jobs.REGIONS), **jobs.map_outputs(files)}
    return jobs.run_job(
        "partition", file, promise, job, lambda request: _partition(request, out, files), outputs=outputs,
        inputs=[files.basemap], transcript=files.transcript, only_counted=files.plot is None,
    )  # fmt: skip


def _partition(request: jobs.Request, out: Path | None, files: MapFiles) -> jobs.Outcome:
    done = request.run()
    partition, crowds = done.result.partition, done.result.partition.crowds
    with request.options.output.step("writing"):
        if out is not None:
            write_regions(partition, out)
        written = ([] if out is None else [str(out)]) + jobs.write_maps(request, files, done)
        written += jobs.write_transcript(request, done)
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
