"""``semilocal points``: the middle of everybody's region, or synthetic positions drawn from estimated counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...io.files import write_text
from ...io.regions import csv_text
from ...release.point_release import PointsRelease, quantize
from ...release.pooled_counts import PooledCounts
from ...release.pooled_points import PooledPoints, pooled_points
from ...simulation.run import Run
from .. import jobs
from ..job_options import JobFile, JobOptions
from ..options import FILE
from ..output import Outcome

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    job: JobOptions,
    out: Annotated[Path | None, FILE] = None,
    transcript: Annotated[Path | None, FILE] = None,
) -> int:
    """Release the middle of everybody's region.

    Parameters
    ----------
    out
        write the points: .csv (else stdout)
    transcript
        write all that was published: .slt
    """
    outputs = {"--out": (out, (".csv",))}
    return jobs.run_job("points", file, job, lambda job: _points(job, out), outputs=outputs, transcript=transcript)


def _points(job: jobs.Job, out: Path | None) -> Outcome:
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
    files = jobs.write_transcript(job.transcript, run)
    if out is not None:
        write_text(out, table)
        files.append(str(out))
        table = ""
    else:
        found["points"] = result.points.tolist()
    if files:
        found["files"] = files
    return Outcome(run, result.spent, found, [*words, *(f"wrote {path}" for path in files)], table=table)
