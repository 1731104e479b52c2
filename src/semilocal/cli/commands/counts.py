"""``semilocal counts``: how many people are in boxes or polygons, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ...errors import InvalidInput
from ...words import number_of
from .. import jobs
from ..answers import NO_BOXES, QueryOptions, answer_columns, queries_of, write_answers
from ..job_options import JobFile, JobOptions, MapFiles, Promise
from ..options import FILE
from ..output import Outcome

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    asked: QueryOptions = QueryOptions(),
    out: Annotated[Path | None, FILE] = None,
    files: MapFiles = MapFiles(),
    job: JobOptions = JobOptions(),
) -> int:
    """Answer range queries.

    Parameters
    ----------
    out
        write the answers: .csv, .geojson or .parquet (GeoParquet; else stdout)
    """
    if not asked.asked and not promise.bounds.lower().endswith(".json"):
        raise InvalidInput(NO_BOXES)
    jobs.check_basemap(files.html, files.basemap)
    outputs = {"--out": (out, jobs.REGIONS), "--html": (files.html, jobs.HTML)}
    return jobs.run_job(
        "counts", file, promise, job, lambda job: _counts(job, asked, out, files), outputs=outputs,
        inputs=[asked.queries, files.basemap], transcript=files.transcript, only_counted=True,
    )  # fmt: skip


def _counts(job: jobs.Job, asked: QueryOptions, out: Path | None, files: MapFiles) -> Outcome:
    queries = queries_of(asked, job.box, job.tree)
    run, result = job.counted()
    with job.options.output.step("answering"):
        answers = result.answer(queries.areas, rounding=asked.rounding)
        columns = answer_columns(queries, answers, job.box, level=asked.level, mark=result.partition.mark)
    found: dict[str, Any] = {"queries": len(queries), "level": asked.level, "regions": len(result.partition)}
    words = [f"{number_of(len(queries), 'query', 'queries')} over {number_of(len(result.partition), 'region')}"]
    if job.counted_in == "rows":
        words.append(f"Counts are of rows: one person may be in them {job.options.people.rows_per_user} times.")
    with job.options.output.step("writing"):
        table = write_answers(queries, columns, out, job.box, mark=result.partition.mark)
        written = jobs.write_transcript(job, run) + ([] if out is None else [str(out)])
        written += jobs.write_map(job, files, run, result)
    if written:
        found["files"] = written
        words += [f"wrote {path}" for path in written]
    if out is None:
        found["answers"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Outcome(run, result.spent, found, words, table=table)
