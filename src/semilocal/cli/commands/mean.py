"""``semilocal mean``: the mean of a function of the positions, with its error."""

from __future__ import annotations

import argparse

from ... import release
from ...errors import InvalidInput
from .. import jobs
from ..arguments import FUNCTION_HELP, parse_function, share
from ..output import Outcome

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    jobs.add_arguments(parser)
    parser.add_argument("--function", required=True, metavar="F", help=FUNCTION_HELP)
    parser.add_argument("--level", type=share, default=0.95, help="of the interval (%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Release a mean."""
    return jobs.run_job(args, _mean)


def _mean(job: jobs.Job) -> Outcome:
    args = job.args
    try:
        f = parse_function(args.function, job.box.names).build()
    except InvalidInput as error:
        raise InvalidInput(f"--function: {error}") from None
    run, split, ledger = job.partition_for_values()
    result = release.mean(run, job.points, f, epsilon=split.value, rng=job.rng, ledger=ledger)
    low, high = result.interval(args.level)
    wide = result.interval(args.level, widen=True)
    found = {
        "function": f.name, "value": result.value, "stderr": result.stderr, "interval": [low, high],
        "level": args.level, "bias_bound": result.bias_bound, "interval_with_bias": list(wide),
        "regions": len(run.partition), "epsilon_partition": split.tree, "epsilon_values": split.value,
    }  # fmt: skip
    words = [
        f"mean of {f.name} over {result.participants:,} participants: {result.value:.6g} ± {result.stderr:.2g}, "
        f"{100 * args.level:g} % interval {low:.6g} to {high:.6g}"
    ]
    if result.biased:
        words.append(
            f"Moved participants count where they were moved to: that may shift the mean by up to about "
            f"{result.bias_bound:.2g}; with it the interval is {wide[0]:.6g} to {wide[1]:.6g}."
        )
    if not split.tree:
        words.append(
            "No partition was made, because noise would hide it: all of epsilon went to the values, and the region of "
            "everybody is the whole domain."
        )
    return Outcome(run, result.spent, found, words)
