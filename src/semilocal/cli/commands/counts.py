"""``semilocal counts``: how many people are in boxes or polygons, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ...io.queries import asked_on_map
from ...words import number_of
from ..answers import TABLES, QueryOptions, answer_columns, queries_of, write_answers
from ..job_options import JobFile, JobOptions, MapFiles, Promise, TranscriptFile
from ..jobs import FileJob
from ..options import file

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    asked: QueryOptions = QueryOptions(),
    out: Annotated[Path | None, file("write the answers: .csv or .geojson (else stdout)")] = None,
    maps: MapFiles = MapFiles(),
    transcript: TranscriptFile = None,
    options: JobOptions = JobOptions(),
) -> int:
    """Answer range queries."""
    job = FileJob.open(
        "counts", file, promise, options, maps, out=out, endings=TABLES, transcript=transcript, inputs=[asked.queries]
    )
    queries = queries_of(asked, job.box, job.tree)
    done = job.run(rounding=asked.rounding, only_counted=True)
    result = done.result
    with options.output.step("answering"):
        answers = result.query(queries.areas)
        columns = answer_columns(queries, answers, job.box, level=asked.level, mark=result.partition.mark)
    with options.output.step("writing"):
        table = write_answers(queries, columns, out, job.box, mark=result.partition.mark)
        drawn = (maps.plot is not None or maps.html is not None) and job.box.dimensions == 2
        files = job.write(done, asked=asked_on_map(queries, columns) if drawn else [])
    regions = number_of(len(result.partition), "region")
    words = [f"{number_of(len(queries), 'query', 'queries')} over {regions} of {job.counted}"]
    words += filter(None, [answers.caution(asked.level)])
    found: dict[str, Any] = {"queries": len(queries), "level": asked.level, "regions": len(result.partition)}
    if out is None:
        found["answers"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return job.tell(done, found, words, table=table, files=files)
