"""``semilocal points``: the centre of everybody's region, or synthetic positions drawn from estimated counts.

Points are written region by region, not in the order of the file: where a file is sorted by place, the order of its
rows would tell where inside their regions people are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from ...io.files import write_text
from ...io.regions import csv_text, seed_column
from ...release.job import Done
from ...release.points import centres
from ...tabular import rounded
from ...words import number_of
from ..job_options import JobFile, JobOptions, MapFiles, Promise, TranscriptFile
from ..jobs import FileJob
from ..options import file

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    out: Annotated[Path | None, file("write the points: .csv (else stdout)")] = None,
    maps: MapFiles = MapFiles(),
    transcript: TranscriptFile = None,
    options: JobOptions = JobOptions(),
) -> int:
    """Release the estimated centre of everybody's region, or made-up positions."""
    job = FileJob.open("points", file, promise, options, maps, out=out, endings=(".csv",), transcript=transcript)
    done = job.run("points" if job.pooled else "counts")
    partition = done.result.partition
    columns = _drawn(job, done) if job.pooled else _middles(job, done)
    rows: dict[str, Any] = {name: column.tolist() for name, column in rounded(columns).items()}
    many = len(next(iter(rows.values())))
    table = csv_text(rows | seed_column(partition.mark, many))
    regions = number_of(len(partition), "cell" if job.pooled else "region")
    words = f"{number_of(many, 'synthetic point')}, drawn from {regions} of {job.counted}"
    if not job.pooled:
        what = "label" if job.rows.leaves else "estimated centre"
        words = f"{number_of(many, 'point')}, each the {what} of one of {regions} of {job.counted}"
    found: dict[str, Any] = {"regions": len(partition)}
    if out is None:
        found["points"] = [list(row) for row in zip(*rows.values(), strict=True)]
    else:
        write_text(out, table)
    return job.tell(done, found, [words], table="" if out else table, files=job.write(done))


def _middles(job: FileJob, done: Done) -> dict[str, npt.NDArray[Any]]:
    """What stands for everybody's region, one region after another: its estimated centre, or its label."""
    partition = done.result.partition
    if job.rows.leaves:
        middles = {job.box.names[0]: np.array(partition.names, dtype=object)}
    else:
        middles = dict(zip(job.box.names, centres(partition).middle.T, strict=True))
    return {name: np.repeat(middle, partition.crowds) for name, middle in middles.items()}


def _drawn(job: FileJob, done: Done) -> dict[str, npt.NDArray[Any]]:
    """Synthetic positions, axis by axis, or the labels of the leaves that they are in."""
    points = done.result.points
    if job.rows.leaves:
        return {job.box.names[0]: np.array(list(job.rows.leaves), dtype=object)[points[:, 0].astype(np.int64)]}
    return dict(zip(job.box.names, points.T, strict=True))
