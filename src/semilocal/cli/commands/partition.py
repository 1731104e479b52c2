"""``semilocal partition``: cut the domain into regions that follow the density of the crowd, and write or draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...io.regions import write_regions
from ...protocol.partition import Partition
from ...words import number_of
from ..job_options import JobFile, JobOptions, MapFiles, Promise, TranscriptFile
from ..jobs import REGIONS, FileJob
from ..options import file

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    out: Annotated[Path | None, file("write the regions: .geojson, .csv or .parquet (GeoParquet)")] = None,
    maps: MapFiles = MapFiles(),
    transcript: TranscriptFile = None,
    options: JobOptions = JobOptions(),
) -> int:
    """Find the regions."""
    job = FileJob.open("partition", file, promise, options, maps, out=out, endings=REGIONS, transcript=transcript)
    done = job.run(only_counted=True)
    partition, crowds = done.result.partition, done.result.partition.crowds
    with options.output.step("writing"):
        if out is not None:
            write_regions(partition, out)
        files = job.write(done)
    found: dict[str, Any] = {
        "regions": len(partition),
        "crowds": {"smallest": round(crowds.min()), "median": float(np.median(crowds)), "largest": round(crowds.max())},
    }
    kind = "estimated crowds" if job.pooled else "crowds"
    words = (
        f"{job.counted}: {number_of(len(partition), 'region')} with {kind} from {crowds.min():,.0f} to "
        f"{crowds.max():,.0f} (median {np.median(crowds):,.0f})"
    )
    if isinstance(partition, Partition):
        found["share_below_k"] = partition.share_below_k
        words += f"; {100 * partition.share_below_k:.3g} % share a region with fewer than k = {partition.task.k}"
    return job.tell(done, found, [f"{words}."], files=files)
