"""``semilocal audit``: attack what is promised; lower bounds on the true loss."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import numpy as np

from ...errors import InvalidInput
from ...io.files import check_outputs, read_text, write_text
from ...protocol.task import Task
from ..arguments import add_seed, existing_file, whole
from ..exits import DONE, FOUND

__all__ = ["add_arguments", "run"]

_MARKS = ("<!-- audit: begin -->", "<!-- audit: end -->")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "--task", metavar="FILE", type=existing_file, help="a task (.json or .msgpack); the whole catalogue if left out"
    )
    parser.add_argument("--runs", type=whole(1000), default=200_000, help="plays per world (%(default)s)")
    parser.add_argument("--liars", type=whole(0), metavar="M", help="show what M lying devices can do instead")
    parser.add_argument(
        "--responders", type=whole(1), default=2000, help="of the cell that the liars are in (%(default)s)"
    )
    add_seed(parser, "of the attacks' randomness", default=1)
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="also write the table into this page, between its audit marks"
    )


def run(args: argparse.Namespace) -> int:
    """Audit; 0 if every claim holds and every planted fault was caught."""
    from ...audit import CASES, audit_task, default_task
    from ...audit.tables import finding_table

    check_outputs({"--out": (args.out, ())}, inputs=[args.task])
    page = None if args.out is None else _page(args.out)
    task = default_task() if args.task is None else _read_task(args.task)
    rng = np.random.default_rng(args.seed)
    if args.liars is not None:
        return _audit_liars(task, args.liars, args.responders, rng)
    if args.task is not None:
        findings = audit_task(task, "transcript, inside pair", runs=args.runs, rng=rng)
    else:
        findings = [finding for case in CASES for finding in case(args.runs, rng)]
    table = finding_table(findings)
    print(table)
    if page is not None:
        write_text(args.out, f"{page[0]}{_MARKS[0]}\n{table}\n{_MARKS[1]}{page[1]}")
    print(
        "\nLosses have delta 0. Inside pair: two positions inside the region that the transcript publishes for one "
        "participant; moved against inside: a position that was moved there, against one inside. "
        "Measured is what an attacker reached: a lower bound on the true loss, not the loss itself."
    )
    return DONE if all(finding.verdict in ("holds", "caught") for finding in findings) else FOUND


def _page(path: Path) -> tuple[str, str]:
    """What stands before and after the marks of a page."""
    text = read_text(path)
    before, first, rest = text.partition(_MARKS[0])
    _, second, after = rest.partition(_MARKS[1])
    if not first or not second:
        raise InvalidInput(f"{path} has no lines {_MARKS[0]} and {_MARKS[1]} to write between")
    return before, after


def _audit_liars(task: Task, liars: int, responders: int, rng: np.random.Generator) -> int:
    from ...audit import push_counts, push_verdicts
    from ...audit.tables import poisoning_table

    steps = sorted({0, *(max(1, liars * share // 4) for share in (1, 2, 3)), liars} if liars else {0})
    rows = [push_verdicts(task, responders, step) for step in steps]
    print(poisoning_table(rows, k=task.k, delta=task.delta_test))
    worst, bound = push_counts(task, responders, liars, rng=rng)
    print(f"\nCounts: {liars} liars moved an estimate by {worst:.1f} at most; the bound m / (p - p0) is {bound:.1f}.")
    sound = all(row.tolerated <= task.delta_test for row in rows) and worst <= bound * (1 + 1e-9)
    print("Crowds keep k honest participants with tolerate_liars." if sound else "A BOUND IS BROKEN.")
    return DONE if sound else FOUND


def _read_task(path: Path) -> Task:
    data = path.read_bytes()
    try:
        if path.suffix == ".json":
            return msgspec.json.decode(data, type=Task)
        return msgspec.msgpack.decode(data, type=Task)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput(f"{path} holds no task: {error}") from None
