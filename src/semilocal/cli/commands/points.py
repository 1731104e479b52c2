"""``semilocal points``: the centre of everybody's region, or synthetic positions drawn from estimated counts.

Points are written region by region, not in the order of the file: where a file is sorted by place, the order of its
rows would tell where inside their regions people are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers
from ...engines.arrow import write_rows
from ...errors import InvalidInput
from ...io.files import write_text
from ...io.regions import csv_text, seed_column
from ...protocol.partition import Partition
from ...release.points import centres
from ...words import number_of
from .. import jobs
from ..job_options import JobFile, JobOptions, MapFiles, Promise
from ..options import file

__all__ = ["run"]

_BATCH = 1 << 20


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    out: Annotated[
        Path | None, file("write the points: .csv (else stdout); .parquet where an engine streams the rows")
    ] = None,
    files: MapFiles = MapFiles(),
    job: JobOptions = JobOptions(),
) -> int:
    """Release the estimated centre of everybody's region."""
    outputs = {"--out": (out, (".csv", ".parquet")), **jobs.map_outputs(files)}
    streamed = out is not None and out.suffix.lower() == ".parquet"
    return jobs.run_job(
        "points", file, promise, job, lambda request: _points(request, out, files), outputs=outputs,
        inputs=[files.basemap], transcript=files.transcript, question="counts" if streamed else "points",
    )  # fmt: skip


def _points(request: jobs.Request, out: Path | None, maps: MapFiles) -> jobs.Outcome:
    streamed = request.streamed and not request.pooled
    if streamed != (out is not None and out.suffix.lower() == ".parquet"):
        raise InvalidInput(
            "rows that an engine streams are written with --out FILE.parquet, and nothing else is; with trust nobody "
            "give --engine arrow and --out FILE.parquet, or --engine memory"
        )
    if streamed and cast(Path, out).exists():  # before anything is computed
        raise InvalidInput(f"--out {out}: is there already; nothing is overwritten: name another file")
    done = request.run()
    partition = done.result.partition
    found: dict[str, object] = {"regions": len(partition)}
    files, table = jobs.write_transcript(request, done) + jobs.write_maps(request, maps, done), ""
    if request.pooled:
        columns = _drawn(request, done.result.points)
        many = number_of(len(done.result.points), "synthetic point")
        words = [f"{many}, drawn from {number_of(len(partition), 'cell')}"]
    else:
        columns, what = _middles(request, partition), "label" if _labels(request) else "estimated centre"
        people = number_of(done.result.total, "point")
        words = [f"{people}, each the {what} of one of {number_of(len(partition), 'region')}"]
    if streamed:
        seeds = seed_column(partition.mark, len(partition))
        columns |= {name: np.array(column) for name, column in seeds.items()}
        write_rows(cast(Path, out), _region_by_region(partition.crowds), columns)
    else:
        if not request.pooled:
            order = np.sort(done.result.regions)
            columns = {name: column[order] for name, column in columns.items()}
        rows = {name: column.tolist() for name, column in columns.items()}
        table = csv_text(rows | seed_column(partition.mark, len(done.result.points)))
        if out is not None:
            write_text(out, table)
            table = ""
        else:
            found["points"] = [list(row) for row in zip(*rows.values(), strict=True)]
    files += [] if out is None else [str(out)]
    if files:
        found["files"] = files
    return jobs.Outcome(done, found, [*words, *(f"wrote {path}" for path in files)], table)


def _labels(request: jobs.Request) -> list[str]:
    """Labels of the leaves, if positions are labels."""
    return [] if request.tree is None else list(request.tree.leaves)


def _middles(request: jobs.Request, partition: Partition) -> dict[str, npt.NDArray[Any]]:
    """What stands for each region: its estimated centre, axis by axis, or its labels."""
    if _labels(request):
        return {request.box.names[0]: np.array(partition.names, dtype=object)}
    middle = centres(partition).middle
    return {name: middle[:, axis] for axis, name in enumerate(request.box.names)}


def _drawn(request: jobs.Request, points: Floats) -> dict[str, npt.NDArray[Any]]:
    """Synthetic positions, axis by axis, or the labels of the leaves that they are in."""
    if labels := _labels(request):
        return {request.box.names[0]: np.array(labels, dtype=object)[points[:, 0].astype(np.int64)]}
    return {name: points[:, axis] for axis, name in enumerate(request.box.names)}


def _region_by_region(crowds: Integers) -> Iterator[tuple[Sequence[Any], npt.NDArray[np.int32]]]:
    """A row for every participant, in the order of the regions: no columns beside its region."""
    ends = np.cumsum(crowds)
    for start in range(0, int(ends[-1]), _BATCH):
        rows = np.arange(start, min(start + _BATCH, int(ends[-1])))
        yield (), np.searchsorted(ends, rows, side="right").astype(np.int32)
