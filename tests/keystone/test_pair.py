"""Keystone: machines in a loop and the simulation give the same bytes.

Both take their noise from the same secrets, so nothing is left to chance: the transcripts are equal byte for byte, or
one of the two does not play the protocol.
"""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import Task, simulate
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import Closed, Report, ValueClosed, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.randomizer.values import TwoPoint, best
from semilocal.testing import cluster, participants_at, play, secret, secrets_of, unit_box
from semilocal.transcript.checkpoints import transcript_root
from tests.helpers.keystone import same_in_a_loop

SIZE = 80
CHAIN = HashChain(bytes(32), 1000)


def tasks(dimensions: int) -> dict[str, Task]:
    """Both rules with one, two and four answers inside a region, and both trees."""
    box, out = unit_box(dimensions), {}
    for rule, tree, epsilon in (
        ("cut", "binary", 2.0), ("cut", "binary", 4.0), ("cut", "quad", 8.0), ("all", "binary", 8.0),
        ("all", "quad", 8.0),
    ):  # fmt: skip
        depth = 8 if tree == "binary" else 3
        out[f"{rule}-{tree}-{epsilon:g}"] = Task.build(
            box, epsilon=epsilon, delta=0.05, k=3, rule=rule, tree=tree, max_depth=depth,  # type: ignore[arg-type]
            chain=CHAIN.end,
        )  # fmt: skip
    out["paper"] = Task.paper(box, epsilon=4.0, delta=0.05, k=5, max_depth=3)
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
        Release("values", best(1.5), "squared_norm"),
        Release("values", TwoPoint(1.0), "gaussian_bump", (0.3, *([0.5] * dimensions))),
        Release("points"),
        Release("mean", best(3.0), "linear", (0.5, *([-2.0] * dimensions))),
        Release("mean", TwoPoint(1.0), "indicator", half),
    )


def chain_of(task: Task) -> HashChain | None:
    return CHAIN if task.chain else None


@pytest.mark.parametrize(("dimensions", "task"), CASES)
def test_machines_and_simulation_give_the_same_transcript_with_every_value_that_the_plan_asks_for(
    dimensions: int, task: Task
) -> None:
    plan = Plan(task.id, releases(dimensions))
    _, events = same_in_a_loop(task, cluster(SIZE, dimensions), secrets_of(SIZE), plan, chain_of(task))
    assert sum(isinstance(event, ValueClosed) for event in events) == len(plan.asked) == 5


def test_where_a_function_is_constant_devices_and_simulation_scale_it_alike() -> None:
    task = tasks(1)["cut-binary-4"]
    plan = Plan(task.id, (Release("values", TwoPoint(1.0), "linear", (7.0, 0.0)),))
    _, events = same_in_a_loop(task, cluster(SIZE, 1), secrets_of(SIZE), plan, CHAIN)
    closed = events[-1]
    assert isinstance(closed, ValueClosed)
    outputs = {output for row in closed.counts for output, _ in row}
    assert outputs == {0, 1}  # a scaled value of 1/2: either is as likely, and one alone has a chance of 2^-79


@pytest.mark.slow
@pytest.mark.parametrize(("dimensions", "task"), CASES)
def test_they_agree_when_participants_drop_out(dimensions: int, task: Task) -> None:
    points = cluster(SIZE, dimensions)
    secrets, rng = secrets_of(SIZE), np.random.default_rng(3)
    run = simulate(points, task, secrets=secrets, chain=chain_of(task), dropout=0.05, rng=rng)
    spoke = {(event.round, event.pseudonym) for event in run.events if isinstance(event, Report)}
    people = participants_at(task, points)
    played = play(
        task, people, chain=chain_of(task), answers=lambda number, who: (number, people[who].pseudonym) in spoke
    )
    assert [encode(event) for event in played.events] == [encode(event) for event in run.events]
    assert (run.regions < 0).any()


def test_the_cases_contain_what_they_are_for() -> None:
    """Splits, walls, second portions and refinements all happen somewhere above."""
    seen = set[object]()
    for dimensions in (1, 2, 3):
        for name, task in tasks(dimensions).items():
            run = simulate(cluster(SIZE, dimensions), task, secrets=secrets_of(SIZE), chain=chain_of(task))
            verdicts = [one for event in run.events if isinstance(event, Closed) for one in event.verdicts]
            seen |= {(task.rule, verdict.outcome) for verdict in verdicts}
            seen |= {f"several regions with {name}"} if len(run.partition) > 1 else set()
    assert {("cut", "split"), ("cut", "wall"), ("cut", "more"), ("all", "split"), ("all", "wall")} <= seen
    assert {f"several regions with {rule}" for rule in ("cut-binary-2", "cut-binary-4", "all-binary-8")} <= seen


def test_a_device_with_fresh_noise_is_caught() -> None:
    """Planted bug: one device of all answers with another secret's noise; the transcripts must differ."""
    points, task = cluster(SIZE, 2), tasks(2)["cut-binary-2"]
    run = simulate(points, task, secrets=secrets_of(SIZE), chain=CHAIN)
    people = participants_at(task, points)
    people[7]._secret = secret(10_000)  # its nonce is another one already in round 1
    assert transcript_root(play(task, people, chain=CHAIN).events) != transcript_root(run.events)
