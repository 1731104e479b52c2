"""``semilocal mean``: the mean of a function of the positions, or of a column of the file, with its error."""

from __future__ import annotations

from typing import Annotated, Any

from ...errors import InvalidInput
from ...functions import BoundedFunction
from ...geometry.box import Box
from ...geometry.places import parse_numbers
from ...hierarchy import AnyTree
from ...protocol.column import as_range
from .. import jobs
from ..arguments import FUNCTION_HELP, parse_function
from ..job_options import JobFile, JobOptions, PageFiles, Promise
from ..options import advanced, option, share

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    function: Annotated[str | None, option(f"what to average: {FUNCTION_HELP}", "F")] = None,
    value: Annotated[
        str | None, option("a column of numbers that belong to people, instead of --function", "COLUMN")
    ] = None,
    range: Annotated[
        str | None,
        option(
            "of --value: smallest and largest value that anybody can have; public, and never taken from the data",
            "LOW,HIGH",
            dash=True,
        ),
    ] = None,
    level: Annotated[float, advanced("of the interval", "SHARE", share)] = 0.95,
    files: PageFiles = PageFiles(),
    job: JobOptions = JobOptions(),
) -> int:
    """Release a mean."""
    if (function is None) == (value is None):
        raise InvalidInput("give --function F, or --value COLUMN with --range LOW,HIGH; one of the two")
    if function is not None and range is not None:
        raise InvalidInput("--range belongs to --value; a function of the position knows its range")
    name, about = function or "", _own(value, range) if value is not None else _read_function(function or "")
    if isinstance(about, jobs.OwnValue):
        name = about.name
    return jobs.run_job(
        "mean", file, promise, job, lambda request: _mean(request, name, level, files), question="mean", about=about,
        outputs=jobs.map_outputs(files), inputs=[files.basemap],
    )  # fmt: skip


def _own(value: str, limits: str | None) -> jobs.OwnValue:
    """The column that is asked for; refuses one without its range."""
    if limits is None:
        raise InvalidInput(
            f"--value {value} needs its public range: --range LOW,HIGH, the smallest and largest value that anybody "
            "can have. It is never taken from the data, because that would reveal something about them"
        )
    return jobs.OwnValue(value, *as_range(parse_numbers(limits, "--range"), f"--value {value}"))


def _read_function(text: str) -> jobs.Function:
    def read(box: Box, tree: AnyTree | None) -> BoundedFunction:
        try:
            found = parse_function(text, box.names).build()
            if tree is not None:
                tree.check_coordinates(text)
        except InvalidInput as error:
            raise InvalidInput(f"--function: {error}") from None
        return found

    return read


def _mean(request: jobs.Request, name: str, level: float, files: PageFiles) -> jobs.Outcome:
    done = request.run()
    result, split = done.result, done.split
    low, high = result.interval(level)
    found: dict[str, Any] = {
        "function": name, "value": result.value, "stderr": result.stderr, "interval": [low, high], "level": level,
    }  # fmt: skip
    words = [
        f"mean of {name} over {result.participants:,} {request.counted_in}: {result.value:.6g} ± {result.stderr:.2g}, "
        f"{100 * level:g} % interval {low:.6g} to {high:.6g}"
    ]
    numbers = {f"mean of {name}": f"{result.value:.5g}, {100 * level:g} % interval {low:.5g} to {high:.5g}"}
    if written := jobs.write_maps(request, files, done, numbers=numbers):
        found["files"] = written
        words += [f"wrote {path}" for path in written]
    if split is None:
        return jobs.Outcome(done, found, words)
    found |= {"regions": len(result.partition), "epsilon_partition": split.tree, "epsilon_values": split.value}
    if result.clipping > result.stderr / 10:
        words.append(
            "Values were clipped to where a region's people are estimated to be; the standard error allows for a shift "
            f"of {result.clipping:.2g} by that."
        )
    if result.own:
        words.append(
            "No partition was made, because these values do not depend on the place. All of epsilon went to them."
        )
    elif not split.tree:
        words.append(
            "No partition was made, because noise would hide it: all of epsilon went to the values, and the region of "
            "everybody is the whole domain."
        )
    return jobs.Outcome(done, found, words)
