"""``semilocal mean``: the mean of a function of the positions, or of a column of the file, with its error."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from ... import release
from ...errors import InvalidInput
from ...functions import BoundedFunction
from ...geometry.places import parse_numbers
from ...protocol.column import as_range
from ...release.pooled_mean import PooledMean, pooled_mean
from ...release.value_release import MeanRelease
from .. import jobs
from ..arguments import FUNCTION_HELP, parse_function
from ..job_options import JobFile, JobOptions, Promise
from ..options import ADVANCED, Share, option
from ..output import Outcome

__all__ = ["run"]


def run(
    file: JobFile,
    /,
    *,
    promise: Promise,
    function: Annotated[str | None, option(metavar="F", help=f"what to average: {FUNCTION_HELP}")] = None,
    value: Annotated[str | None, option(metavar="COLUMN")] = None,
    range: Annotated[str | None, option(metavar="LOW,HIGH", dash=True)] = None,
    level: Annotated[Share, ADVANCED] = 0.95,
    job: JobOptions = JobOptions(),
) -> int:
    """Release a mean.

    Parameters
    ----------
    value
        a column of numbers that belong to people, instead of --function
    range
        of --value: smallest and largest value that anybody can have; public, and never taken from the data
    level
        of the interval
    """
    own = own_value(function, value, range)
    return jobs.run_job("mean", file, promise, job, lambda job: _mean(job, function, level), value=own)


def own_value(function: str | None, value: str | None, limits: str | None) -> jobs.OwnValue | None:
    """The column that is asked for; None for a function. Refuses both, neither, and a column without its range."""
    if (function is None) == (value is None):
        raise InvalidInput("give --function F, or --value COLUMN with --range LOW,HIGH; one of the two")
    if value is None:
        if limits is not None:
            raise InvalidInput("--range belongs to --value; a function of the position knows its range")
        return None
    if limits is None:
        raise InvalidInput(
            f"--value {value} needs its public range: --range LOW,HIGH, the smallest and largest value that anybody "
            "can have. It is never taken from the data, because that would reveal something about them"
        )
    return jobs.OwnValue(value, *as_range(parse_numbers(limits, "--range"), f"--value {value}"))


def _mean(job: jobs.Job, function: str | None, level: float) -> Outcome:
    if job.column is not None:
        asked = _Asked(job.column, job.column.name)
    else:
        assert function is not None
        try:
            asked = _Asked(parse_function(function, job.box.names).build(), function)
            if job.tree is not None:
                job.tree.check_coordinates(function)
        except InvalidInput as error:
            raise InvalidInput(f"--function: {error}") from None
    return _pooled(job, asked, level) if job.pooled else _from_regions(job, asked, level)


class _Asked(NamedTuple):
    """What the mean is of, and its name as it was typed."""

    function: BoundedFunction
    name: str


def _pooled(job: jobs.Job, asked: _Asked, level: float) -> Outcome:
    task = job.pooled_task()
    job.person_limit.spend(f"mean of {asked.name}", job.promise.epsilon, anywhere=True)  # refuses before adding up
    result = pooled_mean(task, job.points, asked.function, rng=job.noise_rng)
    return Outcome(
        result, result.spent, _found(asked, result, level), [_sentence(job, asked, result, level)], own=result.own
    )


def _found(asked: _Asked, result: MeanRelease | PooledMean, level: float) -> dict[str, Any]:
    return {
        "function": asked.name, "value": result.value, "stderr": result.stderr,
        "interval": list(result.interval(level)), "level": level,
    }  # fmt: skip


def _sentence(job: jobs.Job, asked: _Asked, result: MeanRelease | PooledMean, level: float) -> str:
    low, high = result.interval(level)
    return (
        f"mean of {asked.name} over {result.participants:,} {job.counted_in}: {result.value:.6g} ± "
        f"{result.stderr:.2g}, {100 * level:g} % interval {low:.6g} to {high:.6g}"
    )


def _from_regions(job: jobs.Job, asked: _Asked, level: float) -> Outcome:
    run, split, ledger = job.partition_for_values()
    result = release.mean(run, job.points, asked.function, epsilon=split.value, rng=job.noise_rng, ledger=ledger)
    found = _found(asked, result, level)
    found |= {"regions": len(run.partition), "epsilon_partition": split.tree, "epsilon_values": split.value}
    words = [_sentence(job, asked, result, level)]
    if result.clipping > result.stderr / 10:
        words.append(
            "Values were clipped to where a region's people are estimated to be; the standard error allows for a shift "
            f"of {result.clipping:.2g} by that."
        )
    if job.column is not None:
        words.append(
            "No partition was made, because these values do not depend on the place. All of epsilon went to them."
        )
    elif not split.tree:
        words.append(
            "No partition was made, because noise would hide it: all of epsilon went to the values, and the region of "
            "everybody is the whole domain."
        )
    return Outcome(run, result.spent, found, words, own=result.own)
