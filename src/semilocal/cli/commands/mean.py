"""``semilocal mean``: the mean of a function of the positions, or of a column of the file, with its error."""

from __future__ import annotations

from typing import Annotated, Any

from ...errors import InvalidInput
from ...geometry.places import parse_numbers
from ...protocol.column import as_range
from ..arguments import FUNCTION_HELP, parse_function
from ..job_options import JobFile, JobOptions, MapFiles, Promise
from ..jobs import FileJob, OwnValue
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
    maps: MapFiles = MapFiles(),
    options: JobOptions = JobOptions(),
) -> int:
    """Release a mean."""
    if (function is None) == (value is None):
        raise InvalidInput("give --function F, or --value COLUMN with --range LOW,HIGH; one of the two")
    if function is not None and range is not None:
        raise InvalidInput("--range belongs to --value; a function of the position knows its range")
    own = None if value is None else _own(value, range)
    job = FileJob.open("mean", file, promise, options, maps, value=own)
    f = None
    if function is not None:
        try:
            f = parse_function(function, job.box.names).build()
            if job.tree is not None:
                job.tree.check_coordinates(function)
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


def _own(value: str, limits: str | None) -> OwnValue:
    """The column that is asked for; refuses one without its range."""
    if limits is None:
        raise InvalidInput(
            f"--value {value} needs its public range: --range LOW,HIGH, the smallest and largest value that anybody "
            "can have. It is never taken from the data, because that would reveal something about them"
        )
    return OwnValue(value, *as_range(parse_numbers(limits, "--range"), f"--value {value}"))
