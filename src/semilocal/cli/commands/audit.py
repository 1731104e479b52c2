"""The commands ``transcript``, ``verify``, ``audit`` and ``plan``.

Knows arguments and words on the terminal. Computes nothing itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ...errors import InvalidInput, SemilocalError
from ...geometry.box import Box
from ...protocol.task import Task

__all__ = ["add_parsers", "run_audit", "run_plan", "run_transcript", "run_verify"]

_FOUND = 1
_BAD_INPUT = 2
_MARKS = ("<!-- audit: begin -->", "<!-- audit: end -->")


def add_parsers(subparsers: Any) -> None:
    """Add the four commands; each sets ``run``."""
    transcript = subparsers.add_parser("transcript", help="download the transcript of a campaign")
    transcript.add_argument("url", metavar="URL", help="the server")
    transcript.add_argument("campaign", metavar="CAMPAIGN", help="the task's id (64 hex digits) or the campaign's name")
    transcript.add_argument("--out", metavar="FILE", default="transcript.slt", help="default: transcript.slt")
    transcript.set_defaults(run=run_transcript)

    verify = subparsers.add_parser("verify", help="replay a transcript and name everything that does not follow")
    verify.add_argument("file", metavar="FILE", help="a transcript (.slt)")
    verify.add_argument("--vault", metavar="FILE", help="also check that it holds what this device sent, and no more")
    verify.add_argument("--against", metavar="FILE", help="another transcript of the same task: two histories?")
    verify.set_defaults(run=run_verify)

    audit = subparsers.add_parser("audit", help="attack what is promised: lower bounds on the true loss")
    audit.add_argument("--task", metavar="FILE", help="a task (.json or .msgpack); the whole catalogue if left out")
    audit.add_argument("--runs", type=int, default=200_000, help="plays per world (default 200000)")
    audit.add_argument("--liars", type=int, metavar="M", help="show what M lying devices can do instead")
    audit.add_argument("--responders", type=int, default=2000, help="of the cell that the liars are in (default 2000)")
    audit.add_argument("--seed", type=int, default=1, help="of the attacks' randomness")
    audit.add_argument("--out", metavar="FILE", help="also write the table into this page, between its audit marks")
    audit.set_defaults(run=run_audit)

    plan = subparsers.add_parser("plan", help="what to expect of a task before anybody is asked")
    plan.add_argument("--n", type=int, required=True, help="participants")
    plan.add_argument("--epsilon", type=float, help="loss inside the region, in all; left out with --want")
    plan.add_argument("--delta", type=float, default=1e-6, help="chance of a crowd below k (default 1e-6)")
    plan.add_argument("--k", type=int, required=True, help="the smallest crowd")
    plan.add_argument("--bounds", required=True, help="the public domain: x0,y0,x1,y1 or the name of a place")
    plan.add_argument(
        "--density", default="uniform", help="uniform, clustered, gaussian, or a file of PUBLIC positions (.csv, …)"
    )
    plan.add_argument("--accounting", choices=("core", "uniform"), default="core")
    plan.add_argument("--want", metavar="error=X", help="smallest epsilon for error=0.1 (of counts) or mean=0.5")
    plan.add_argument("--picture", metavar="FILE", help="draw the regions of one play (.png, .svg, .pdf)")
    plan.add_argument("--plays", type=int, default=6, help="reference populations to average over (default 6)")
    plan.add_argument("--seed", type=int, default=1)
    plan.set_defaults(run=run_plan)


def run_transcript(args: argparse.Namespace) -> int:
    """Download; 0, or 2 after a line that says why not."""
    from ...transcript.download import save_transcript

    try:
        rounds = save_transcript(args.url, args.campaign, args.out)
    except SemilocalError as error:
        return _refuse("transcript", error)
    size = Path(args.out).stat().st_size
    print(f"{args.out}: {rounds} closed rounds, {size} bytes. Check it: semilocal verify {args.out}")
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Verify; 0 if nothing is different, 1 if anything is, 2 if a file cannot be opened."""
    from ...transcript.verify import compare_histories, read_vault, verify_file

    try:
        vault = None if args.vault is None else read_vault(args.vault)
        begin = time.perf_counter()
        found = verify_file(args.file, vault=vault)
        seconds = max(time.perf_counter() - begin, 1e-9)
        if args.against is not None:
            found.differences += compare_histories(found, verify_file(args.against))
    except (SemilocalError, OSError) as error:
        return _refuse("verify", error)
    print("\n".join(found.lines()))
    print(f"{found.reports / seconds:,.0f} reports per second")
    return 0 if found.fine else _FOUND


def run_audit(args: argparse.Namespace) -> int:
    """Audit; 0 if every claim holds and every planted fault was caught, else 1."""
    from ...audit import CASES, audit_task, default_task
    from ...audit.tables import finding_table

    try:
        if args.runs < 1000:
            raise InvalidInput(f"--runs must be at least 1000; got {args.runs}")
        task = default_task() if args.task is None else _read_task(args.task)
        rng = np.random.default_rng(args.seed)
        if args.liars is not None:
            return _audit_liars(task, args.liars, args.responders, rng)
        if args.task is not None:
            findings = audit_task(task, "transcript, never moved", runs=args.runs, rng=rng)
        else:
            findings = [finding for case in CASES for finding in case(args.runs, rng)]
    except (SemilocalError, OSError) as error:
        return _refuse("audit", error)
    table = finding_table(findings)
    print(table)
    if args.out:
        try:
            _write_between(Path(args.out), table)
        except (SemilocalError, OSError) as error:
            return _refuse("audit", error)
    print(
        "\nLosses: one participant's position moves inside the region that the transcript publishes for it, delta 0. "
        "Measured is what an attacker reached: a lower bound on the true loss, not the loss itself."
    )
    return 0 if all(finding.verdict in ("holds", "caught") for finding in findings) else _FOUND


def _write_between(page: Path, table: str) -> None:
    """Replace what stands between the marks of a page."""
    text = page.read_text("utf-8")
    before, first, rest = text.partition(_MARKS[0])
    _, second, after = rest.partition(_MARKS[1])
    if not first or not second:
        raise InvalidInput(f"{page} has no lines {_MARKS[0]} and {_MARKS[1]} to write between")
    page.write_text(f"{before}{first}\n{table}\n{second}{after}", "utf-8")


def _audit_liars(task: Task, liars: int, responders: int, rng: np.random.Generator) -> int:
    from ...audit import push_counts, push_verdicts
    from ...audit.tables import poisoning_table

    steps = sorted({0, *(max(1, liars * share // 4) for share in (1, 2, 3)), liars} if liars else {0})
    rows = [push_verdicts(task, responders, step) for step in steps]
    print(poisoning_table(rows, k=task.k, delta=task.delta_test))
    worst, bound = push_counts(task, responders, liars, rng=rng)
    print(f"\nCounts: {liars} liars moved an estimate by {worst:.1f} at most; the bound m / (p - p0) is {bound:.1f}.")
    fine = all(row.tolerated <= task.delta_test for row in rows) and worst <= bound * (1 + 1e-9)
    print("Crowds keep k honest participants with tolerate_liars." if fine else "A BOUND IS BROKEN.")
    return 0 if fine else _FOUND


def run_plan(args: argparse.Namespace) -> int:
    """Plan; 0, or 2 after a line that says what is wrong."""
    try:
        return _plan(args)
    except (SemilocalError, OSError) as error:
        return _refuse("plan", error)


def _plan(args: argparse.Namespace) -> int:
    from ...planner import DENSITIES, Forecast, cheapest, density_of, forecast, picture, resampled

    box = _box(args.bounds)
    if args.density in DENSITIES:
        density = density_of(args.density, box)
    else:
        from ...io.points import read_points

        density = resampled(read_points(args.density).points, box)

    def make(epsilon: float) -> Forecast:
        return forecast(
            density, box, n=args.n, epsilon=epsilon, delta=args.delta, k=args.k, accounting=args.accounting,
            plays=args.plays, rng=np.random.default_rng(args.seed),
        )  # fmt: skip

    plan: Forecast | None
    if args.want:
        quantity, _, target = args.want.partition("=")
        plan = cheapest(make, quantity=quantity, target=_number(target))
        if plan is None:
            print(f"No epsilon up to 20 reaches {args.want} with n = {args.n}, k = {args.k}; ask more, or lower k.")
            return _FOUND
    elif args.epsilon is None:
        raise InvalidInput("give --epsilon, or --want error=… to search for the smallest")
    else:
        plan = make(args.epsilon)
    print(f"Forecast from {args.plays} plays on a reference population ({args.density}); nobody was asked.")
    print("\n".join(plan.lines()))
    if args.picture:
        picture(plan, args.picture)
        print(f"Regions of one play: {args.picture} (regions and crowds are public by design)")
    return 0


def _read_task(path: str) -> Task:
    data = Path(path).read_bytes()
    try:
        if path.endswith(".json"):
            return msgspec.json.decode(data, type=Task)
        return msgspec.msgpack.decode(data, type=Task)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput(f"{path} holds no task: {error}") from None


def _box(text: str) -> Box:
    from ...geometry.places import named_box

    parts = text.split(",")
    if len(parts) == 1:
        return named_box(text)
    numbers = [_number(part) for part in parts]
    if len(numbers) % 2:
        raise InvalidInput(f"--bounds takes the lower corner and then the upper corner; got {len(numbers)} numbers")
    half = len(numbers) // 2
    return Box(tuple(numbers[:half]), tuple(numbers[half:]))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"a number was expected; got {text!r}") from None


def _refuse(command: str, error: Exception) -> int:
    print(f"semilocal {command}: {error}", file=sys.stderr)
    return _BAD_INPUT
