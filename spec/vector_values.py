"""values.json: rounds of values. Single steps and whole campaigns; refusals are in ``vector_value_refusals.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import reference_values
from vector_common import OPEN, Json, cluster, plain, secret, uniforms, unit
from vector_value_refusals import make_value_refusals

from semilocal import Box, Curator, Participant, Task
from semilocal.errors import InvalidInput
from semilocal.protocol.column import Column
from semilocal.protocol.curator import count_reports
from semilocal.protocol.keys import value_entropy
from semilocal.protocol.messages import Closed, Event, ValueQuery, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.values import unit_values
from semilocal.randomizer.values.mechanisms import (
    DiscreteLaplaceValue,
    Hybrid,
    Mechanism,
    Piecewise,
    SlidingWindow,
    TwoPoint,
    best,
)
from semilocal.transcript.merkle import transcript_root

__all__ = ["make_values"]

GRID = 2**20


def make_values() -> Json:
    """Everything about rounds of values."""
    return {
        "about": "Rounds of values (section 15). Integers that may exceed 2^53 are decimal strings.",
        "scaled": [scaled_table(*entry) for entry in scaled_list()],
        "own": own_table(),
        "mechanisms": [mechanism_table(mechanism) for mechanism in mechanism_list()],
        "entropy": entropy_table(),
        "plays": [one_play(*entry) for entry in play_list()],
        **make_value_refusals(),
    }


# -- single steps ------------------------------------------------------------------------------------------------


def scaled_list() -> Iterator[tuple[Task, int, list[list[float]], list[tuple[str, list[float]]]]]:
    """Task, region, positions, and functions with their parameters; only positions in the region are taken."""
    line, wide = unit(1), Box((-3.5, 10.0), (2.5, 90.0), names=("longitude", "latitude"))
    one = Task.build(line, epsilon=1.0, delta=0.05, k=20, max_depth=4)
    two = Task.build(wide, epsilon=1.0, delta=0.05, k=20, max_depth=5)
    single: list[tuple[str, list[float]]] = [
        ("coordinate", [0.0]), ("squared_norm", []), ("squared_norm", [0.3]), ("gaussian_bump", [0.25]),
        ("gaussian_bump", [0.1, 0.4]), ("linear", [0.5, -3.0]), ("linear", [7.0, 0.0]), ("indicator", [0.5, 1.0]),
        ("indicator", [0.1, 0.3]),
    ]  # fmt: skip
    double: list[tuple[str, list[float]]] = [
        ("coordinate", [1.0]), ("squared_norm", []), ("squared_norm", [-0.5, 50.0]), ("gaussian_bump", [40.0]),
        ("gaussian_bump", [1.5, -0.5, 48.0]), ("linear", [0.1, 0.3, -0.7]), ("indicator", [-1.0, 20.0, 0.5, 60.0]),
    ]  # fmt: skip
    for cell in (1, 2, 5, 31):
        yield one, cell, [[0.0], [0.2], [0.49999999999999994], [0.5], [0.9], [1.0]], single
    for cell in (1, 6, 45):
        yield two, cell, [[-3.5, 10.0], [-0.5, 50.0], [-0.4, 50.3], [2.5, 90.0], [0.7, 33.3]], double


def scaled_table(task: Task, cell: int, points: list[list[float]], functions: list[tuple[str, list[float]]]) -> Json:
    """Each function at positions of a region, scaled to [0, 1]."""
    depth = int(task.hierarchy.depth([cell])[0])
    points = [point for point in points if task.hierarchy.locate([point], depth)[0] == cell]
    for codes in task.hierarchy.span([cell]):  # the lower corner of a cell is in it, and moved people act from middles
        points += [*task.hierarchy.boxes(codes)[:, 0].tolist(), *task.hierarchy.middles(codes).tolist()]
    boxes = task.hierarchy.boxes(np.full(len(points), cell, dtype=np.uint64))
    acting = np.array(points)
    rows = []
    for name, numbers in functions:
        f = Release("values", TwoPoint(1.0), name, tuple(numbers)).build()
        row = {
            "function": name, "parameters": numbers, "range": f.range_over(boxes[:1])[0].tolist(),
            "values": f(acting).tolist(), "scaled": unit_values(f, acting, boxes).unit.tolist(),
        }  # fmt: skip
        rows.append(rounded(row, boxes[0].tolist(), points) if name == "gaussian_bump" else row)
    return {
        "hierarchy": plain(task.hierarchy), "region": cell, "points": points, "functions": rows,
    }  # fmt: skip


def rounded(row: Json, box: list[list[float]], points: list[list[float]]) -> Json:
    """The row of a bump with e^x rounded correctly: the package's depends on the machine, within the slack of 15.3."""
    name, numbers = row["function"], row["parameters"]
    low, high = reference_values.function_range(name, numbers, *box)
    values = [reference_values.function_value(name, numbers, point) for point in points]
    scaled = [min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5 for value in values]
    found = {"function": name, "parameters": numbers, "range": [low, high], "values": values, "scaled": scaled}
    for field in ("range", "values", "scaled"):
        assert np.allclose(found[field], row[field], rtol=1e-12, atol=1e-15), row
    return found


def own_table() -> Json:
    """Owners' own values: how they are scaled, and which are refused when a device joins."""
    task = Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, max_depth=4)
    fare = Plan(task.id, (Release("mean", TwoPoint(1.0), "own:fare", (-2.5, 100.0)), Release("counts")))
    place = Plan(task.id, (Release("mean", TwoPoint(1.0), "coordinate", (0.0,)),))
    column = fare.releases[0].build()
    assert isinstance(column, Column)
    numbers = [-2.5, 0.0, 33.3, 99.99999999999999, 100.0]
    boxes = task.hierarchy.boxes(np.full(len(numbers), 5, dtype=np.uint64))
    scaled = unit_values(column.of(numbers), boxes[:, 0], boxes).unit.tolist()
    refused = []
    for name, why, plan, value in (
        ("own-value-missing", "the plan asks for one", fare, None),
        ("own-value-below", "the smallest is -2.5", fare, -2.5000000000000004),
        ("own-value-above", "the largest is 100", fare, 100.00000000000001),
        ("own-value-not-asked-for", "the plan asks for none", place, 1.0),
    ):
        try:
            Participant(task, [0.3], bytes(32), OPEN, plan=plan, value=value)
        except InvalidInput:
            refused.append({"name": name, "why": why, "plan": encode(plan).hex(), "value": value})
            continue
        raise AssertionError(name)
    return {
        "task": task.to_bytes().hex(), "plan": encode(fare).hex(), "values": numbers, "scaled": scaled,
        "refused": refused,
    }  # fmt: skip


def mechanism_list() -> list[Mechanism]:
    """All kinds, small and large epsilon."""
    tuned = [SlidingWindow.tuned(epsilon) for epsilon in (0.2, 1.0, 2.5, 5.0, 12.0)]
    return [
        TwoPoint(0.01), TwoPoint(1.0), TwoPoint(16.0), Piecewise(0.5), Piecewise(3.0), Hybrid(0.5), Hybrid(0.61),
        Hybrid(2.0), *tuned, SlidingWindow(2.0, 6, 2, 100, 100, 0), SlidingWindow(1.5, 40, 20, 30, 250, 0),
        SlidingWindow(4.0, 31 * 2, 9, 37, 146, 99), DiscreteLaplaceValue(1.0), DiscreteLaplaceValue(8.0, 1),
        DiscreteLaplaceValue(0.5, 7), DiscreteLaplaceValue(16.0, 100),
    ]  # fmt: skip


def mechanism_table(mechanism: Mechanism) -> Json:
    """Outputs for steps of the grid and words: [step of the grid, words, output], the input being step / 2^20."""
    draw = uniforms(repr(mechanism))
    rows = []
    for step in (0, 1, 63, 64, 65, GRID // 3, GRID // 2 - 1, GRID // 2, GRID - 65, GRID - 1, GRID):
        for first in (0, 2**64 - 1, *(int(next(draw) * 2**64) + int(next(draw) * 2**32) for _ in range(4))):
            words = [first, int(next(draw) * 2**64)][: mechanism.words]
            entropy = b"".join(word.to_bytes(8, "big") for word in words)
            rows.append([step, [str(word) for word in words], mechanism.release_one(step / GRID, entropy)])
    outputs = mechanism.alphabet
    return {
        "mechanism": plain(mechanism), "smallest": outputs.start, "largest": outputs.stop - 1, "outputs": rows,
    }  # fmt: skip


def entropy_table() -> Json:
    """Derived bytes."""
    key, task, plan = secret("value entropy"), bytes(range(32)), bytes(range(32, 64))
    rows = [(0, 1, 1), (3, 2**60 + 5, 2), (63, 2**63, 1)]
    return {
        "secret": key.hex(), "task": task.hex(), "plan": plan.hex(),
        "values": [
            {"index": index, "region": str(region), "words": words,
             "entropy": value_entropy(key, task, plan, index, region, words).hex()}
            for index, region, words in rows
        ],
    }  # fmt: skip


# -- whole campaigns ---------------------------------------------------------------------------------------------


def play_list() -> list[tuple[str, str, Task, tuple[Release, ...], list[list[float]], dict[int, list[int]]]]:
    """Name, note, task, releases, positions, and who is missing from which round."""
    small: dict[str, Any] = {"delta": 0.05, "k": 3}
    wide = Box((-3.5, 10.0), (2.5, 90.0), names=("longitude", "latitude"))
    return [
        ("values-trim-binary-2d", "every mechanism and function; moved participants; one misses a round of values",
         Task.build(wide, epsilon=6.0, max_depth=4, max_rounds=3, tau=0.4, **small), (
             Release("mean", best(2.0), "coordinate", (0.0,)), Release("counts"),
             Release("values", Piecewise(1.5), "squared_norm", (-1.0, 40.0)),
             Release("values", Hybrid(1.0), "gaussian_bump", (20.0, -1.0, 40.0)), Release("points"),
             Release("mean", DiscreteLaplaceValue(3.0, 16), "linear", (0.5, -2.0, 0.125)),
             Release("mean", TwoPoint(1.0), "indicator", (-2.0, 20.0, 1.0, 50.0))),
         [[round(6 * x - 3.5, 3), round(80 * y + 10, 3)] for x, y in cluster("v", 20, 2, 3, centre=0.3, width=0.2)],
         {5: [4]}),
        ("values-each-binary-1d", "rule each: who was left behind gives a value for the child it was left in",
         Task.build(unit(1), epsilon=4.0, rule="each", max_depth=3, **small),
         (Release("mean", best(4.0), "coordinate", (0.0,)),), cluster("w", 14, 1, 5, centre=0.3, width=0.2), {}),
        ("values-quad-laplace-2d", "a device that is lost in the partition gives no value",
         Task.build(unit(2), epsilon=8.0, tree="quad", randomizer="discrete-laplace", max_depth=2, max_rounds=1,
                    **small),
         (Release("values", best(0.1), "squared_norm"), Release("values", best(0.1), "squared_norm")),
         cluster("x", 14, 2, 3, centre=0.3, width=0.2), {1: [0, 5]}),
        ("values-without-a-round", "a plan that asks for nothing is not in the transcript",
         Task.build(unit(1), epsilon=4.0, max_depth=1, **small), (Release("counts"), Release("points")),
         cluster("y", 5, 1, 2, centre=0.3, width=0.2), {}),
        ("values-own-trim-1d", "people's own values, beside a function of the position; also of moved participants",
         Task.build(unit(1), epsilon=6.0, max_depth=3, max_rounds=2, tau=0.4, **small), (
             Release("values", best(1.0), "coordinate", (0.0,)), Release("counts"),
             Release("mean", best(2.0), "own:Fahrpreis in €", (-2.5, 100.0))),
         cluster("z", 18, 1, 3, centre=0.3, width=0.2), {4: [7]}),
    ]  # fmt: skip


def one_play(
    name: str, note: str, task: Task, releases: tuple[Release, ...], points: list[list[float]],
    missing: dict[int, list[int]],
) -> Json:  # fmt: skip
    """A campaign played to its end."""
    plan = Plan(task.id, releases)
    secrets = [secret(f"{name} {number}") for number in range(len(points))]
    own = own_values(plan, name, len(points))
    people = [
        Participant(task, point, key, OPEN, plan=plan, value=value.get("value"))
        for point, key, value in zip(points, secrets, own, strict=True)
    ]
    index = {person.pseudonym: number for number, person in enumerate(people)}
    curator, rounds = Curator(task, plan), []
    events: list[Event] = [task]
    while (query := curator.query()) is not None:
        there = [person for number, person in enumerate(people) if number not in missing.get(query.round, [])]
        answers = [report for person in there if (report := person.receive(query)) is not None]
        answers.sort(key=lambda report: report.pseudonym)
        events += [plan] if isinstance(query, ValueQuery) and not curator.values else []
        closed = curator.close(*count_reports(curator, answers))
        for person in people:
            if isinstance(closed, Closed) or person in there:
                person.receive(closed)
        events += [query, *answers, closed]
        rounds.append(
            {
                "round": query.round, "query": encode(query).hex(),
                "reports": [[index[r.pseudonym], r.cell, plain(r.answer), encode(r).hex()] for r in answers],
                "closed": encode(closed).hex(),
            }
        )  # fmt: skip
    return {
        "name": name, "note": note, "task": plain(task), "plan": plain(plan), "bytes": encode(plan).hex(),
        "digest": plan.digest.hex(),
        "participants": [
            {"point": point, "secret": key.hex(), **value, "region": person.region, "moves": person.moves}
            for point, key, value, person in zip(points, secrets, own, people, strict=True)
        ],
        "missing": {str(number): who for number, who in missing.items()}, "rounds": rounds,
        "root": transcript_root(events).hex(),
    }  # fmt: skip


def own_values(plan: Plan, name: str, people: int) -> list[dict[str, float]]:
    """The own value of everybody, with three decimals; nothing if the plan asks for none."""
    if plan.own is None:
        return [{} for _ in range(people)]
    low, high = plan.own.parameters
    draw = uniforms(f"{name} own")
    return [{"value": round(low + (high - low) * next(draw), 3)} for _ in range(people)]
