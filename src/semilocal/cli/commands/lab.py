"""``semilocal plan``: what to expect; ``audit``: attack what is promised; ``reproduce``: the figures of the paper."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from cyclopts import Parameter

from ...errors import InvalidInput
from ...geometry.places import as_box
from ...io.files import check_folder
from ...io.points import read_points
from ...io.progress import Progress, duration
from ...io.saved import is_saved, load
from ...protocol.promise import Trust
from ...protocol.task import Task
from ...release.job import DELTA, K
from ...words import number_of
from ..catalogue import DONE, FOUND
from ..options import BOX_HELP, advanced, existing, folder, option, positive, share, whole

if TYPE_CHECKING:
    from ...lab.experiments.report import Output


def run_plan(
    *,
    n: Annotated[int, option("participants", "N", whole(1))],
    bounds: Annotated[str, option(BOX_HELP, "BOX", dash=True)],
    epsilon: Annotated[
        float | None,
        option("loss between any two places (nobody trusted: of one's region); left out with --want", "NUMBER",
               positive),
    ] = None,
    want: Annotated[
        float | None,
        option("find the smallest epsilon: where nobody is trusted boxes of 500 people are off by at most so many",
               "PEOPLE", positive),
    ] = None,
    k: Annotated[int, option("the smallest crowd of a region", "K", whole(1))] = K,
    density: Annotated[
        str,
        option("where people live: a file of PUBLIC positions of similar people, or a map of an earlier collection "
               "(map.json, by Counts.save); else uniform, or made-up towns: spread, clustered or clumped"),
    ] = "clustered",
    delta: Annotated[float, advanced("chance that a crowd is below k", "SHARE", share)] = DELTA,
    plays: Annotated[int, advanced("reference populations to average over", "N", whole(1))] = 12,
    seed: Annotated[int, advanced("of the reference populations", "S", whole(0))] = 1,
) -> int:  # fmt: skip
    """Forecast; 1 if no epsilon reaches what is wanted."""
    from ...lab import planner

    if (want is None) == (epsilon is None):
        raise InvalidInput("give --epsilon, or --want PEOPLE to search for the smallest; one of the two")
    box = as_box(bounds)
    if density in planner.NAMED:
        people, known = planner.density_of(density, box), f"of made-up people ({density})"
    elif is_saved(density):
        people, known = planner.mapped(load(density), box), f"drawn from the map {density}"
    else:
        people, known = planner.resampled(read_points(density).points, box), f"of positions in {density}"

    def make(loss: float, trusts: tuple[Trust, ...] = ("nobody",)) -> planner.Forecast:
        step.advance()
        return planner.forecast(people, box, n=n, epsilon=loss, delta=delta, k=k, plays=plays, seed=seed, trusts=trusts)

    with Progress(None, "forecasts") as step:
        if want is not None:
            found = planner.cheapest(make, target=want)
            if found is None:
                print(f"No epsilon up to 20 reaches that with n = {n}, k = {k}; ask more people, or lower k.")
                return FOUND
            epsilon = found.epsilon
        assert epsilon is not None
        plan = make(epsilon, tuple(planner.TRUSTS))
    print(f"Forecast from {number_of(plays, 'play')} on a reference population {known}; nobody was asked.")
    print("\n".join(plan.lines()))
    if density != "uniform":
        print(planner.CAUTION if density in planner.TOWNS else planner.CAUTION_KNOWN)
    return DONE


def run_audit(
    *,
    task: Annotated[Path | None, existing("a task (.json or .msgpack); the whole catalogue if left out")] = None,
    runs: Annotated[int, option("plays per world", "N", whole(1000))] = 200_000,
    seed: Annotated[int, option("of the attacks' randomness", "S", whole(0))] = 1,
) -> int:
    """Audit; 0 if every claim holds and every planted fault was caught."""
    from ...lab.audit import CASES, audit_task, finding_table

    rng = np.random.default_rng(seed)
    if task is None:
        findings = [finding for case in CASES for finding in case(runs, rng)]
    elif not (findings := audit_task(_read_task(task), "transcript", runs=runs, rng=rng)):
        raise InvalidInput(
            "nothing in this task can be attacked: hardly anybody is asked about places inside its region, as in a "
            "leaf of a table, so there is nothing to tell two positions inside it apart by. Audit a task whose regions "
            "have parts, or see the whole catalogue without --task"
        )
    print(finding_table(findings))
    print(
        "\nLosses have delta 0; those of a transcript are between two positions inside the region that it publishes "
        "for one participant. Measured is what an attacker reached: a lower bound on the true loss, not the loss "
        "itself."
    )
    return DONE if all(finding.verdict in ("holds", "caught") for finding in findings) else FOUND


def _read_task(path: Path) -> Task:
    decode = msgspec.json.decode if path.suffix == ".json" else msgspec.msgpack.decode
    try:
        return decode(path.read_bytes(), type=Task)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput(f"{path} holds no task: {error}") from None


def run_reproduce(
    *figures: Annotated[str, option("names or labels of the paper; all if left out")],
    runs: Annotated[int, option("repeats of every trial (60, as in the paper)", "N", whole(1))] = 60,
    out: Annotated[Path, folder("where files go")] = Path("results"),
    data: Annotated[Path | None, folder("data folder (or set SEMILOCAL_DATA)")] = None,
    quick: Annotated[bool, option("few repeats: every figure in a few minutes")] = False,
    seed: Annotated[int, option("the same seed gives the same CSV to the last digit", "S", whole(0))] = 1,
    workers: Annotated[int | None, option("processes; all cores if left out", "N", whole(0))] = None,
    listing: Annotated[bool, option("list the figures and stop"), Parameter(name="--list")] = False,
) -> int:
    """Make every figure, its table, and one page with all; an interrupted run goes on where it was."""
    from ...lab.experiments import EXPERIMENTS, chosen
    from ...lab.experiments.report import write_report
    from ...lab.experiments.runner import source_version
    from ...lab.experiments.summary import FigureOptions

    if listing:
        for one in EXPERIMENTS:
            print(f"{one.name:<18} {one.title}" + (f" ({', '.join(one.labels)})" if one.labels else ""))
        return DONE
    wanted = chosen(figures)
    check_folder("--out", out)
    options = FigureOptions(runs, seed, out, data, quick, workers)
    options.out.mkdir(parents=True, exist_ok=True)
    outputs: list[Output] = []
    begin = time.monotonic()
    for number, one in enumerate(wanted, start=1):
        print(f"[{number} of {len(wanted)}] {one.name}: {one.title}", file=sys.stderr, flush=True)
        outputs.append(one.make(options))
        if outputs[-1].text:
            print(outputs[-1].text, flush=True)
        for figure in outputs[-1].figures:
            if figure.missing:
                print(f"{figure.name} is left out: {figure.missing}", file=sys.stderr)
    page = write_report(
        options.out, [figure for part in outputs for figure in part.figures], version=source_version(),
        claims=[claim for part in outputs for claim in part.claims],
    )  # fmt: skip
    print(f"{page} and the figures beside it, in {duration(time.monotonic() - begin)}", flush=True)
    return DONE
