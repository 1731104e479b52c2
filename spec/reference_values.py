"""The second client's rounds of values, written from section 13 of spec/protocol.md alone.

Plain integers, doubles, decimals and the standard library; nothing of the package.
"""

from __future__ import annotations

import hashlib
import math
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from functools import lru_cache
from itertools import pairwise
from typing import Any

from reference_client import Device, Region, as_words, derive, need, pack

Point = list[float]
GRID, BUCKETS = 2**20, 2**14


def function_value(name: str, numbers: list[float], x: Point, own: float | None = None) -> float:
    """f at a point, or the owner's own value (13.3)."""
    if name.startswith("own:"):
        assert own is not None
        return own
    if name == "coordinate":
        return x[int(numbers[0])]
    if name == "linear":
        return _linear(numbers[0], [a * w for a, w in zip(x, numbers[1:], strict=True)])
    if name == "indicator":
        lower, upper = numbers[: len(x)], numbers[len(x) :]
        return float(all(low <= a <= high for a, low, high in zip(x, lower, upper, strict=True)))
    centre = numbers[1:] if name == "gaussian_bump" else numbers
    square = _squares([abs(a - c) for a, c in zip(x, centre, strict=True)] if centre else x)
    return _bump(square, numbers[0]) if name == "gaussian_bump" else square


def function_range(name: str, numbers: list[float], lower: Point, upper: Point) -> tuple[float, float]:
    """Lower and upper bound of f over a closed box (13.3)."""
    if name.startswith("own:"):
        return numbers[0], numbers[1]
    if name == "coordinate":
        return lower[int(numbers[0])], upper[int(numbers[0])]
    if name == "linear":
        ends = [sorted((a * w, b * w)) for a, b, w in zip(lower, upper, numbers[1:], strict=True)]
        return _linear(numbers[0], [end[0] for end in ends]), _linear(numbers[0], [end[1] for end in ends])
    if name == "indicator":
        first, last = numbers[: len(lower)], numbers[len(lower) :]
        inside = all(a >= f and b <= g for a, b, f, g in zip(lower, upper, first, last, strict=True))
        meets = all(b >= f and a <= g for a, b, f, g in zip(lower, upper, first, last, strict=True))
        return float(inside), float(meets)
    centre = (numbers[1:] if name == "gaussian_bump" else numbers) or [0.0] * len(lower)
    low, high = ([a - c for a, c in zip(corner, centre, strict=True)] for corner in (lower, upper))
    near = _squares([max(a, -b, 0.0) for a, b in zip(low, high, strict=True)])
    far = _squares([max(-a, b) for a, b in zip(low, high, strict=True)])
    if name == "squared_norm":
        return near, far
    least, most = _bump(far, numbers[0]), _bump(near, numbers[0])
    slack = 8 * math.ulp(max(abs(least), abs(most)))
    return max(least - slack, 0.0), min(most + slack, 1.0)


def _linear(intercept: float, terms: list[float]) -> float:
    for term in terms:
        intercept += term
    return intercept


def _squares(distances: list[float]) -> float:
    total = 0.0
    for distance in distances:
        total += distance * distance
    return total


def _bump(square: float, sigma: float) -> float:
    return float(Decimal(-(square / (2 * sigma * sigma))).exp(Context(prec=60)))  # correctly rounded, on any machine


def clipped_value(release: list[Any], point: Point, own: float | None, low: float, high: float) -> float:
    """The number in [0, 1] that goes through the mechanism (13.4)."""
    _, _, name, numbers = release
    return min(max((function_value(name, numbers, point, own) - low) / (high - low), 0.0), 1.0) if high > low else 0.5


def takes_value(plan: list[Any], own: float | None) -> bool:
    """Whether a device with this value, or none, may pin the plan (13.7)."""
    asked = [release[3] for release in plan[2] if release[2].startswith("own:")]
    return asked[0][0] <= own <= asked[0][1] if asked and own is not None else not asked and own is None


Corners = tuple[tuple[int, int], ...]


class Window:
    """A window that slides over outputs in a row (13.5)."""

    def __init__(self, epsilon: float, outputs: int, window: int, knots: tuple[int, ...]) -> None:
        share = 2**48
        with localcontext(Context(prec=90)):
            growth = Decimal(epsilon).exp() * (1 - Decimal(10) ** -55)
            low = int((share / (outputs + window * (growth - 1))).to_integral_value(ROUND_CEILING))
        self.outputs, self.low = outputs, low
        self.step = (share - outputs * low) // window
        self.floor = share - window * self.step
        self.starts = [0]
        for output, (bucket, after) in enumerate(pairwise(knots)):
            width = after - bucket
            self.starts += [output * self.step + self.step * i // width for i in range(1, width + 1)]

    def pick(self, position: int, drawn: int) -> int:
        """The output for a step of the grid and a number below 2^48."""
        if drawn < self.floor:
            return min(drawn // self.low, self.outputs - 1)
        bucket, within = divmod(position, GRID // BUCKETS)
        start = self.starts[bucket]
        if within:
            start += (self.starts[bucket + 1] - start) * within // (GRID // BUCKETS)
        return (start + drawn - self.floor) // self.step


make_window = lru_cache(Window)  # to make one is slow


def window_of(mechanism: dict[str, Any]) -> Window:
    """The window of a mechanism."""
    if mechanism["type"] == "two-point":
        return make_window(mechanism["epsilon"], 2, 1, (0, BUCKETS))
    return make_window(mechanism["epsilon"], mechanism["outputs"], mechanism["window"], tuple(knots(mechanism)))


def knots(mechanism: dict[str, Any]) -> list[int]:
    """Buckets at which the window starts at 0, 1, 2, … whole outputs (13.5)."""
    size, window = mechanism["outputs"], mechanism["window"]
    middle = size // 2 - window
    bend = mechanism["bend"] / 100
    spacing = [math.sqrt(1 - bend * ((i / max(middle, 1)) * (i / max(middle, 1)))) for i in range(middle)]
    spacing += [mechanism["gap"] / 100] + [mechanism["end"] / 100] * (window - 1)
    spacing[0] /= 2
    upper = _running(spacing)[1:]
    whole = _running(upper[-window:])[-1]
    sums = _running([-value / whole for value in reversed(upper)] + [value / whole for value in upper])
    starts = size - window + 1
    lower = [round((1 + (sums[i + window] - sums[i])) * (BUCKETS / 2)) for i in range(starts // 2)]
    return lower + [BUCKETS // 2] * (starts % 2) + [BUCKETS - knot for knot in reversed(lower)]


def _running(numbers: list[float]) -> list[float]:
    out = [0.0]
    for number in numbers:
        out.append(out[-1] + number)
    return out


def output(mechanism: dict[str, Any], unit: float, word: int) -> int:
    """What is reported of a number in [0, 1]."""
    return window_of(mechanism).pick(round(unit * GRID), word >> 16)


def value_word(secret: bytes, task: bytes, plan: bytes, index: int, region: Region) -> int:
    """The word of one value (13.6)."""
    codes = b"".join(code.to_bytes(8, "big") for code in region)
    return as_words(derive(secret, b"semilocal/2/value" + task + plan + index.to_bytes(4, "big") + codes, 8))[0]


def value_report(device: Device, plan: list[Any], query: list[Any], own: float | None = None) -> list[Any] | None:
    """The report of a device in a round of values, as a list for ``pack`` (13.7)."""
    _, task, number, digest, index, clips = query
    if device.stopped or device.region is None:
        return None
    need(task == device.id and digest == hashlib.sha256(pack(plan)).digest(), "other-plan")
    need(device.partitioned and number >= device.round, "too-early")
    need(index < len(plan[2]) and plan[2][index][1] is not None, "not-planned")
    clip = next((row for row in clips if (row[0], row[1]) == device.region), None)
    if clip is None or device.pseudonym not in device.log.members:
        return None
    asked = hashlib.sha256(pack(query)).digest()
    need(device.given.setdefault(index, asked) == asked, "changed-query")
    mechanism = plan[2][index][1]
    word = value_word(device.secret, device.id, digest, index, device.region)
    answer = output(mechanism, clipped_value(plan[2][index], device.point, own, *clip[2:]), word)
    device.reported = number
    return ["value-report", device.id, number, device.pseudonym, *device.region, answer]
