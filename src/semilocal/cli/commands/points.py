"""``semilocal points``: the centre of everybody's region, or synthetic positions drawn from estimated counts.

Points are written region by region, not in the order of the file: where a file is sorted by place, the order of its
rows would tell where inside their regions people are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import numpy.typing as npt

from ...arrays import Integers
from ...engines.arrow import write_rows
from ...engines.source import Attached, Source
from ...errors import InvalidInput
from ...io.files import write_text
from ...io.regions import csv_text, seed_column
from ...protocol.partition import Partition
from ...release.point_release import PointsRelease, centres, quantize
from ...release.pooled_counts import PooledCounts
from ...release.pooled_points import PooledPoints, pooled_points
from ...release.streamed import AnyRun
from ...simulation.simulate import Run
from ...words import number_of
from .. import jobs
from ..job_options import JobFile, JobOptions, Promise
from ..options import ADVANCED, FILE
from ..output import Outcome

__all__ = ["run"]

_BATCH = 1 << 20


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    out: Annotated[Path | None, FILE] = None,
    transcript: Annotated[Path | None, FILE, ADVANCED] = None,
    job: JobOptions = JobOptions(),
) -> int:
    """Release the estimated centre of everybody's region.

    Parameters
    ----------
    out
        write the points: .csv (else stdout); .parquet where an engine streams the rows
    transcript
        write all that was published: .slt
    """
    outputs = {"--out": (out, (".csv", ".parquet"))}
    return jobs.run_job(
        "points", file, promise, job, lambda job: _points(job, out), outputs=outputs, transcript=transcript
    )


def _points(job: jobs.Job, out: Path | None) -> Outcome:
    streamed = isinstance(job.points, Source) and not job.pooled
    if streamed != (out is not None and out.suffix.lower() == ".parquet"):
        raise InvalidInput(
            "rows that an engine streams are written with --out FILE.parquet, and nothing else is; with trust nobody "
            "give --engine arrow, duckdb or spark and --out FILE.parquet, or --engine memory"
        )
    if streamed:
        return _streamed_points(job, cast(Path, out))
    run: AnyRun | PooledPoints
    result: PointsRelease | PooledPoints
    if job.pooled:
        counted = job.counted()[1]
        assert isinstance(counted, PooledCounts)
        run = result = pooled_points(counted, rng=job.noise_rng)
        columns = _drawn(job, result)
        words = [
            f"{number_of(len(result.points), 'synthetic point')}, drawn from {number_of(len(result.partition), 'cell')}"
        ]
    else:
        run, ledger = job.partition()
        assert isinstance(run, Run)
        assert not isinstance(job.points, Source)
        result = quantize(run, job.points, ledger=ledger)
        columns = {name: column[np.sort(result.regions)] for name, column in _middles(job, result.partition).items()}
        words = [_words(job, run)]
    seeds = seed_column(result.partition.mark, len(result.points))
    table = csv_text({name: column.tolist() for name, column in columns.items()} | seeds)
    found: dict[str, object] = {"regions": len(result.partition)}
    files = jobs.write_transcript(job, run)
    if out is not None:
        write_text(out, table)
        files.append(str(out))
        table = ""
    else:
        found["points"] = [list(row) for row in zip(*(column.tolist() for column in columns.values()), strict=True)]
    if files:
        found["files"] = files
    return Outcome(run, result.spent, found, [*words, *(f"wrote {path}" for path in files)], table=table)


def _streamed_points(job: jobs.Job, out: Path) -> Outcome:
    """The centre of everybody's region, written batch by batch."""
    if out.exists():  # before anything is computed
        raise InvalidInput(f"--out {out}: is there already; nothing is overwritten: name another file")
    run, ledger = job.partition()
    seeds = seed_column(run.partition.mark, len(run.partition))
    columns = _middles(job, run.partition) | {name: np.array(column) for name, column in seeds.items()}
    write_rows(out, _region_by_region(run.partition.crowds), columns)
    files = [*jobs.write_transcript(job, run), str(out)]
    words = [_words(job, run), *(f"wrote {path}" for path in files)]
    return Outcome(run, ledger.settle(run.partition), {"regions": len(run.partition), "files": files}, words)


def _words(job: jobs.Job, run: AnyRun) -> str:
    what = "label" if _labels(job) else "estimated centre"
    regions = number_of(len(run.partition), "region")
    return f"{number_of(run.participants, 'point')}, each the {what} of one of {regions}"


def _labels(job: jobs.Job) -> list[str]:
    """Labels of the leaves, if positions are labels."""
    return [] if job.tree is None else list(job.tree.leaves)


def _middles(job: jobs.Job, partition: Partition) -> dict[str, npt.NDArray[Any]]:
    """What stands for each region: its estimated centre, axis by axis, or its labels."""
    if job.tree is not None and _labels(job):
        return {job.box.names[0]: np.array(partition.names, dtype=object)}
    middle = centres(partition).middle
    return {name: middle[:, axis] for axis, name in enumerate(job.box.names)}


def _drawn(job: jobs.Job, result: PooledPoints) -> dict[str, npt.NDArray[Any]]:
    """Synthetic positions, axis by axis, or the labels of the leaves that they are in."""
    if labels := _labels(job):
        return {job.box.names[0]: np.array(labels, dtype=object)[result.points[:, 0].astype(np.int64)]}
    return {name: result.points[:, axis] for axis, name in enumerate(job.box.names)}


def _region_by_region(crowds: Integers) -> Iterator[Attached]:
    """A row for every participant, in the order of the regions."""
    ends = np.cumsum(crowds)
    for start in range(0, int(ends[-1]), _BATCH):
        rows = np.arange(start, min(start + _BATCH, int(ends[-1])))
        regions, nothing = np.searchsorted(ends, rows, side="right").astype(np.int32), np.empty((len(rows), 0))
        yield Attached(nothing, regions)
