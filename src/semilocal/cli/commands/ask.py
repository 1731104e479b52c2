"""``partition``, ``counts``, ``mean`` and ``points``: one question each about the people of a file.

Points are written region by region, not in the order of the file: where a file is sorted by place, the order of its
rows would tell where inside their regions people are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ...io.files import write_text
from ...io.queries import asked_on_map
from ...io.regions import csv_text, seed_column, write_regions
from ...protocol.partition import Partition
from ...protocol.plan import named_function
from ...release.job import Done
from ...release.points import centres
from ...tabular import rounded
from ...words import number_of
from ..jobs import FileJob, JobFile, JobOptions, Promise, QueryOptions, TranscriptFile, answer_columns, write_answers
from ..options import FUNCTION_HELP, advanced, file, option, parse_function, share


def run_partition(
    file: JobFile,
    /,
    *,
    promise: Promise,
    out: Annotated[Path | None, file("write the regions: .geojson, .csv or .parquet (GeoParquet)")] = None,
    transcript: TranscriptFile = None,
    options: JobOptions = JobOptions(),
) -> int:
    """Cut the domain into regions that follow the density of the crowd."""
    job = FileJob.open("partition", file, promise, options, out=out, transcript=transcript)
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


def run_counts(
    file: JobFile,
    /,
    *,
    promise: Promise,
    asked: QueryOptions = QueryOptions(),
    out: Annotated[Path | None, file("write the answers: .csv or .geojson (else stdout)")] = None,
    transcript: TranscriptFile = None,
    options: JobOptions = JobOptions(),
) -> int:
    """Count in boxes or polygons, with intervals."""
    job = FileJob.open("counts", file, promise, options, out=out, transcript=transcript, queries=asked.queries)
    queries = asked.read(job.box, job.rows.tree)
    done = job.run(rounding=asked.rounding, only_counted=True)
    result, mark = done.result, done.result.partition.mark
    with options.output.step("answering"):
        answers = result.query(queries.areas)
        columns = answer_columns(queries, answers, job.box, level=asked.level, mark=mark)
    with options.output.step("writing"):
        table = write_answers(queries, columns, out, job.box, mark=mark)
        drawn = (options.maps.plot is not None or options.maps.html is not None) and job.box.dimensions == 2
        files = job.write(done, asked=asked_on_map(queries, columns) if drawn else [])
    regions = number_of(len(result.partition), "region")
    words = [f"{number_of(len(queries), 'query', 'queries')} over {regions} of {job.counted}"]
    words += filter(None, [answers.caution(asked.level)])
    found: dict[str, Any] = {"queries": len(queries), "level": asked.level, "regions": len(result.partition)}
    if out is None:
        found["answers"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return job.tell(done, found, words, table=table, files=files)


# -- a mean ------------------------------------------------------------------------------------------------------------


def run_mean(
    file: JobFile,
    /,
    *,
    promise: Promise,
    function: Annotated[str | None, option(f"what to average: {FUNCTION_HELP}", "F")] = None,
    value: Annotated[str | None, option("a column of people's own numbers, instead of --function", "COLUMN")] = None,
    range: Annotated[
        str | None,
        option("of --value: smallest and largest value that anybody can have; public, and never taken from the data",
               "LOW,HIGH", dash=True),
    ] = None,
    level: Annotated[float, advanced("of the interval", "SHARE", share)] = 0.95,
    options: JobOptions = JobOptions(),
) -> int:  # fmt: skip
    """Release the mean of a function of the positions, or of a column of the file, with its error."""
    if (function is None) == (value is None):
        raise InvalidInput("give --function F, or --value COLUMN with --range LOW,HIGH; one of the two")
    if function is not None and range is not None:
        raise InvalidInput("--range belongs to --value; a function of the position knows its range")
    job = FileJob.open("mean", file, promise, options, value=value, limits=range)
    f = None
    if function is not None:
        try:
            f = named_function(*parse_function(function, job.box.names))
            if job.rows.tree is not None:
                job.rows.tree.check_coordinates(function)
        except InvalidInput as error:
            raise InvalidInput(f"--function: {error}") from None
    done = job.run("mean", f)
    result, split, name = done.result, done.split, function or value
    low, high = result.interval(level)
    found: dict[str, Any] = {
        "function": name, "value": result.value, "stderr": result.stderr, "interval": [low, high], "level": level,
    }  # fmt: skip
    words = [
        f"mean of {name} over {job.counted}: {result.value:.6g} ± {result.stderr:.2g}, "
        f"{100 * level:g} % interval {low:.6g} to {high:.6g}",
        *filter(None, [result.caution(level)]),
    ]
    numbers = {f"mean of {name}": f"{result.value:.5g}, {100 * level:g} % interval {low:.5g} to {high:.5g}"}
    files = job.write(done, numbers=numbers)
    if split is not None:
        found |= {"regions": len(result.partition), "epsilon_partition": split.tree, "epsilon_values": split.value}
        if result.clipping > result.stderr / 10:
            words.append(
                "Values were clipped to where a region's people are estimated to be; the standard error allows for a "
                f"shift of {result.clipping:.2g} by that."
            )
        if not split.tree:
            reason = "these values do not depend on the place" if result.own else "noise would hide it"
            words.append(f"No partition was made, because {reason}: all of epsilon went to the values.")
    return job.tell(done, found, words, files=files)


# -- points ------------------------------------------------------------------------------------------------------------


def run_points(
    file: JobFile,
    /,
    *,
    promise: Promise,
    out: Annotated[Path | None, file("write the points: .csv (else stdout)")] = None,
    transcript: TranscriptFile = None,
    options: JobOptions = JobOptions(),
) -> int:
    """Release the estimated centre of everybody's region, or positions drawn from estimated counts."""
    job = FileJob.open("points", file, promise, options, out=out, transcript=transcript)
    done = job.run("points" if job.pooled else "counts")
    partition = done.result.partition
    rows: dict[str, Any] = {name: column.tolist() for name, column in rounded(_columns(job, done)).items()}
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


def _columns(job: FileJob, done: Done) -> dict[str, npt.NDArray[Any]]:
    """Synthetic positions, or the centre of everybody's region, one region after another; or labels."""
    leaves, names, partition = job.rows.leaves, job.box.names, done.result.partition
    if job.pooled:
        points = done.result.points
        if leaves:
            return {names[0]: np.array(list(leaves), dtype=object)[points[:, 0].astype(np.int64)]}
        return dict(zip(names, points.T, strict=True))
    middles = [np.array(partition.names, dtype=object)] if leaves else centres(partition).middle.T
    return {name: np.repeat(middle, partition.crowds) for name, middle in zip(names, middles, strict=True)}
