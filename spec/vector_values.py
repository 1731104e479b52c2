"""values.json: single steps of rounds of values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import reference_values
from vector_common import OPEN, Json, build, plain, secret, texts, uniforms, unit

from semilocal.errors import InvalidInput
from semilocal.geometry.box import Box
from semilocal.protocol.clip import unit_value
from semilocal.protocol.keys import value_entropy
from semilocal.protocol.messages import encode
from semilocal.protocol.participant import Participant
from semilocal.protocol.plan import Plan, Release
from semilocal.randomizer.values import Mechanism, SlidingWindow, TwoPoint

__all__ = ["make_values"]

GRID = 2**20


def make_values() -> Json:
    """Everything about rounds of values."""
    return {
        "about": "Rounds of values (section 13). Integers that may exceed 2^53 are decimal strings.",
        "functions": [function_table(*entry) for entry in function_list()],
        "own": own_table(),
        "mechanisms": [mechanism_table(mechanism) for mechanism in mechanism_list()],
        "entropy": entropy_table(),
    }


# -- single steps ------------------------------------------------------------------------------------------------


def function_list() -> Iterator[tuple[Box, list[list[float]], list[tuple[str, list[float]]]]]:
    """A box, positions in it, and functions with their parameters."""
    wide = Box((-3.5, 10.0), (2.5, 90.0), names=("longitude", "latitude"))
    single: list[tuple[str, list[float]]] = [
        ("coordinate", [0.0]), ("squared_norm", []), ("squared_norm", [0.3]), ("gaussian_bump", [0.25]),
        ("gaussian_bump", [0.1, 0.4]), ("linear", [0.5, -3.0]), ("linear", [7.0, 0.0]), ("indicator", [0.5, 1.0]),
        ("indicator", [0.1, 0.3]),
    ]  # fmt: skip
    double: list[tuple[str, list[float]]] = [
        ("coordinate", [1.0]), ("squared_norm", []), ("squared_norm", [-0.5, 50.0]), ("gaussian_bump", [40.0]),
        ("gaussian_bump", [1.5, -0.5, 48.0]), ("linear", [0.1, 0.3, -0.7]), ("indicator", [-1.0, 20.0, 0.5, 60.0]),
    ]  # fmt: skip
    yield unit(1), [[0.0], [0.2], [0.49999999999999994], [0.5], [0.9], [1.0]], single
    yield wide, [[-3.5, 10.0], [-0.5, 50.0], [-0.4, 50.3], [2.5, 90.0], [0.7, 33.3]], double


def function_table(box: Box, points: list[list[float]], functions: list[tuple[str, list[float]]]) -> Json:
    """Each function at positions, clipped to the middle half of its range and scaled to [0, 1]."""
    rows = []
    for name, numbers in functions:
        f = Release("values", TwoPoint(1.0), name, tuple(numbers)).build()
        low, high = reference_values.function_range(name, numbers, list(box.lower), list(box.upper))
        clip = low + (high - low) / 4, high - (high - low) / 4
        values = [reference_values.function_value(name, numbers, point) for point in points]
        # e^x is rounded correctly here: the package's depends on the machine, in the last place.
        assert np.allclose(f(np.array(points)), values, rtol=1e-12, atol=1e-15)
        scaled = [unit_value(value, *clip) for value in values]
        row = {"function": name, "parameters": numbers, "range": [low, high], "values": values, "clip": list(clip)}
        rows.append({**row, "scaled": scaled})
    return {"box": plain(box), "points": points, "functions": rows}


def own_table() -> Json:
    """Owners' own values that are refused when a device joins."""
    task = build(unit(1), epsilon=1.0, max_depth=4)
    fare = Plan(task.id, (Release("mean", TwoPoint(1.0), "own:fare", (-2.5, 100.0)), Release("counts")))
    place = Plan(task.id, (Release("mean", TwoPoint(1.0), "coordinate", (0.0,)),))
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
        "task": task.to_bytes().hex(),
        "plan": encode(fare).hex(),
        "values": [-2.5, 33.3, 100.0],
        "refused": refused,
    }


def mechanism_list() -> list[Mechanism]:
    """All kinds, small and large epsilon."""
    tuned = [SlidingWindow.tuned(epsilon) for epsilon in (0.2, 1.0, 2.5, 5.0, 12.0)]
    return [
        TwoPoint(0.01), TwoPoint(1.0), TwoPoint(16.0), *tuned, SlidingWindow(2.0, 6, 2, 100, 100, 0),
        SlidingWindow(1.5, 40, 20, 30, 250, 0), SlidingWindow(4.0, 31 * 2, 9, 37, 146, 99),
    ]  # fmt: skip


def mechanism_table(mechanism: Mechanism) -> Json:
    """Outputs for steps of the grid and words: [step of the grid, word, output], the input being step / 2^20."""
    draw = uniforms(repr(mechanism))
    rows = []
    for step in (0, 1, 63, 64, 65, GRID // 3, GRID // 2 - 1, GRID // 2, GRID - 65, GRID - 1, GRID):
        words = (0, 2**64 - 1, *(int(next(draw) * 2**64) + int(next(draw) * 2**32) for _ in range(4)))
        rows += [[step, str(word), mechanism.release_one(step / GRID, word.to_bytes(8, "big"))] for word in words]
    outputs = mechanism.alphabet
    return {
        "mechanism": plain(mechanism), "smallest": outputs.start, "largest": outputs.stop - 1, "outputs": rows,
    }  # fmt: skip


def entropy_table() -> Json:
    """Derived bytes."""
    key, task, plan = secret("value entropy"), bytes(range(32)), bytes(range(32, 64))
    rows = [(0, (1, 2)), (3, (2**60, 2**60 + 5)), (63, (2**62, 2**63))]
    return {
        "secret": key.hex(), "task": task.hex(), "plan": plan.hex(),
        "values": [
            {"index": index, "region": texts(region), "entropy": value_entropy(key, task, plan, index, region).hex()}
            for index, region in rows
        ],
    }  # fmt: skip
