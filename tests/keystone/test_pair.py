"""Keystone, parts (a) and (b): machines in a loop and the simulation give the same bytes.

Both take their noise from the same secrets, so nothing is left to chance: the transcripts are equal byte for byte, or
one of the two does not play the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Literal

import numpy as np
import pytest

from semilocal import Run, Task, simulate
from semilocal.protocol.messages import Event, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.task import Rule
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue, Hybrid, Piecewise, TwoPoint
from semilocal.simulation.values import play_values, value_events
from semilocal.testing import cluster, participants_at, play, secret, unit_box
from semilocal.transcript.merkle import transcript_root

SIZE = 80
RULES: tuple[Rule, ...] = ("all", "trim", "each")
TREES: tuple[Literal["binary", "quad"], ...] = ("binary", "quad")
Noise = Literal["randomized-response", "discrete-laplace"]
RANDOMIZERS: tuple[Noise, ...] = ("randomized-response", "discrete-laplace")


def tasks(dimensions: int) -> dict[str, Task]:
    """Every rule with every randomizer and tree."""
    box = unit_box(dimensions)
    out = {}
    for rule, tree, noise in product(RULES, TREES, RANDOMIZERS):
        depth = 5 if tree == "binary" else 3
        out[f"{rule}-{tree}-{noise}"] = Task.build(
            box, epsilon=8.0 if rule == "all" else 4.0, delta=0.05, k=3 if rule == "all" else 5, rule=rule, tree=tree,
            randomizer=noise, max_depth=depth, max_rounds=depth - 1,
        )  # fmt: skip
    out["uniform"] = Task.build(box, epsilon=8.0, delta=0.05, k=5, accounting="uniform", max_trims=3, max_depth=6)
    out["paper"] = Task.paper(box, epsilon=4.0, delta=0.05, k=5, max_depth=3)
    out["published"] = Task.published(box, epsilon=4.0, delta=0.05, k=5, max_depth=3)
    return out


CASES = [
    pytest.param(dimensions, task, id=f"{dimensions}d-{name}")
    for dimensions in (1, 2, 3)
    for name, task in tasks(dimensions).items()
]


def releases(dimensions: int) -> tuple[Release, ...]:
    """Every function and every kind of mechanism, with releases between them that ask nothing."""
    half = (0.25,) * dimensions + (0.5,) * dimensions
    return (
        Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0]),
        Release("counts"),
        Release("values", Piecewise(1.5), "squared_norm"),
        Release("values", Hybrid(1.0), "gaussian_bump", (0.3, *([0.5] * dimensions))),
        Release("points"),
        Release("mean", DiscreteLaplaceValue(3.0, 16), "linear", (0.5, *([-2.0] * dimensions))),
        Release("mean", TwoPoint(1.0), "indicator", half),
    )


def same_transcript(run: Run, events: list[Event], more: Iterable[Event] = ()) -> None:
    """Message by message, so that a failure names the first one that differs."""
    simulated = [*run.events, *more]
    for number, (one, other) in enumerate(zip(events, simulated, strict=True)):
        assert encode(one) == encode(other), f"message {number}"
    assert transcript_root(events) == transcript_root(simulated)


@pytest.mark.parametrize(("dimensions", "task"), CASES)
def test_machines_and_simulation_give_the_same_transcript_with_every_value_that_the_plan_asks_for(
    dimensions: int, task: Task
) -> None:
    points, secrets = cluster(SIZE, dimensions), [secret(i) for i in range(SIZE)]
    plan = Plan(task.id, releases(dimensions))
    played = play(task, participants_at(task, points, plan=plan), plan=plan)
    run = simulate(points, task, detail="reports", secrets=secrets)
    rounds = play_values(run, points, plan, secrets)
    assert len(rounds) == len(plan.asked) == 5
    same_transcript(run, played.events, value_events(run, plan, rounds))
    assert [p.moves for p in played.participants] == run.moves.tolist()
    assert [p.region for p in played.participants] == run.partition.cells[run.regions].tolist()
    assert [p.spent for p in played.participants] == pytest.approx((run.losses + plan.epsilon).tolist())
    assert {p.released.indices for p in played.participants} == {plan.asked}
    if task.rule != "each":  # there a device cannot see its own crowd: it is gone before it is counted
        assert [p.crowd for p in played.participants] == run.partition.crowds[run.regions].tolist()


def test_a_moved_participant_acts_from_inside_its_half_open_region_on_both_sides() -> None:
    """At 0.9, moved into [0, 0.5): outside of [0.5, 1] for a device as for the simulation; else one would say 1."""
    task = Task.build(unit_box(1), epsilon=8.0, delta=0.05, k=3, max_depth=1, tau=0.4)
    points = np.array([[0.1 + 0.003 * i] for i in range(79)] + [[0.9]])
    plan = Plan(task.id, (Release("values", TwoPoint(16.0), "indicator", (0.5, 1.0)),))
    played = play(task, participants_at(task, points, plan=plan), plan=plan)
    assert played.participants[-1].moves == 1
    assert played.participants[-1].region == 2
    run = simulate(points, task, detail="reports", secrets=[secret(i) for i in range(SIZE)])
    (value,) = play_values(run, points, plan, [secret(i) for i in range(SIZE)])
    assert [value.closed] == played.values
    assert value.given.outputs[-1] == 0  # epsilon 16: the other output has a chance of 1e-7


def test_where_a_function_is_constant_devices_and_simulation_scale_it_alike() -> None:
    task = Task.build(unit_box(1), epsilon=8.0, delta=0.05, k=3, max_depth=1)
    points = cluster(SIZE, 1)
    plan = Plan(task.id, (Release("values", TwoPoint(1.0), "linear", (7.0, 0.0)),))
    played = play(task, participants_at(task, points, plan=plan), plan=plan)
    secrets = [secret(i) for i in range(SIZE)]
    run = simulate(points, task, detail="reports", secrets=secrets)
    (value,) = play_values(run, points, plan, secrets)
    assert [value.closed] == played.values
    outputs = {output for row in value.closed.counts for output, _ in row}
    assert outputs == {0, 1}  # a scaled value of 1/2: either is as likely, and one alone has a chance of 2^-79


@pytest.mark.slow
@pytest.mark.parametrize(("dimensions", "task"), CASES)
def test_they_agree_when_participants_drop_out(dimensions: int, task: Task) -> None:
    points = cluster(SIZE, dimensions)
    secrets, rng = [secret(i) for i in range(SIZE)], np.random.default_rng(3)
    run = simulate(points, task, detail="reports", secrets=secrets, dropout=0.1, rng=rng)
    there = [set(played.reports.participants.tolist()) for played in run.rounds if played.reports is not None]
    played = play(task, participants_at(task, points), answers=lambda number, who: who in there[number - 1])
    same_transcript(run, played.events)
    assert [p.moves for p in played.participants] == run.moves.tolist()
    ended = [None if place < 0 else int(run.partition.cells[place]) for place in run.regions]
    assert [p.region for p in played.participants] == ended
    assert ended.count(None) > 0


def test_the_cases_contain_what_they_are_for() -> None:
    """Splits, trims, moves, moves of those already moved, and roll calls all happen somewhere above."""
    seen = set()
    for dimensions in (1, 2, 3):
        for name, task in tasks(dimensions).items():
            run = simulate(cluster(SIZE, dimensions), task, detail="reports", secrets=[secret(i) for i in range(SIZE)])
            kept = [row for played in run.rounds for row in played.kept if len(row)]
            seen |= {"split"} if any(row.all() for row in kept) else set()
            seen |= {"trim"} if task.rule == "trim" and any(row.any() and not row.all() for row in kept) else set()
            seen |= {"moved twice"} if run.moves.max() >= 2 else set()
            seen |= {"roll call"} if len(run.rounds) > task.max_rounds else set()
            seen |= {"several regions with " + name.split("-")[0]} if len(run.partition) > 1 else set()
    assert {"split", "trim", "moved twice", "roll call"} <= seen
    assert {f"several regions with {name}" for name in ("all", "trim", "each", "uniform", "published")} <= seen


def test_a_device_with_fresh_noise_is_caught() -> None:
    """Planted bug: one device of all answers with another secret's noise; the transcripts must differ.

    At this epsilon fresh noise is often the same noise, so several secrets are tried; all are fixed.
    """
    points = cluster(SIZE, 2)
    task = tasks(2)["trim-binary-discrete-laplace"]
    run = simulate(points, task, detail="reports", secrets=[secret(i) for i in range(SIZE)])
    roots = set()
    for other in range(10_000, 10_010):
        participants = participants_at(task, points)
        participants[7]._secret = secret(other)
        roots.add(transcript_root(play(task, participants).events))
    assert roots - {transcript_root(run.events)}
