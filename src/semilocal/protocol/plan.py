"""Releases after the partition: the plan, and the messages of a round that asks for values.

    server -> all      ValueQuery    the next release of the plan is asked for
    device -> server   ValueReport   f at the participant's (moved) position, scaled to f's range over its region, noisy
    server -> all      ValueClosed   how often each output was reported, per region

The plan is fixed when a campaign is created and pinned by devices together with the task, so that the whole loss,
``Plan.total_epsilon``, is known before anything is sent. Noise is derived from (secret, plan, index, region): the same
question gets the same bytes. Outputs are integers and are counted, so sums do not depend on their order.

Knows the form of messages and the pure functions of both sides. Knows no clock, socket, file or random generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, ServerViolation
from ..functions import BoundedFunction, check_values, coordinate, gaussian_bump, indicator, linear, squared_norm
from ..geometry.box import Box
from ..randomizer.values.mechanisms import AnyMechanism, best
from .keys import derive
from .messages import PSEUDONYM_BYTES, _check_cells, _check_header
from .promise import priced
from .task import Task

__all__ = [
    "Plan",
    "Release",
    "ValueClosed",
    "ValueEstimate",
    "ValueQuery",
    "ValueReport",
    "check_value_query",
    "check_value_report",
    "decode_value",
    "encode_value",
    "estimate_mean",
    "region_values",
    "respond_value",
    "value_entropy",
]

Kind = Literal["mean", "values", "counts", "points"]
MAX_RELEASES = 64
_VALUE = b"semilocal/1/value"
_FUNCTIONS: dict[str, Callable[[tuple[float, ...]], BoundedFunction]] = {
    "coordinate": lambda numbers: coordinate(_whole(numbers)),
    "squared_norm": lambda numbers: squared_norm(numbers or None),
    "gaussian_bump": lambda numbers: gaussian_bump(numbers[0], numbers[1:] or None),
    "linear": lambda numbers: linear(numbers[1:], intercept=numbers[0]),
    "indicator": lambda numbers: indicator(Box(numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :])),
}


class Release(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One release of a plan.

    Attributes
    ----------
    kind : {"mean", "values", "counts", "points"}
        "mean" and "values" ask every participant with a region for one value; "counts" and "points" follow from the
        public crowds and cost nothing.
    mechanism : AnyMechanism or None
        How a value in [0, 1] becomes an integer; its ``epsilon`` is the loss. None for "counts" and "points".
    function : str
        "coordinate", "squared_norm", "gaussian_bump", "linear" or "indicator"; empty for "counts" and "points".
    parameters : tuple of float
        coordinate: axis; squared_norm: center or nothing; gaussian_bump: sigma, then center or nothing;
        linear: intercept, then weights; indicator: lower, then upper corner.
    """

    kind: Kind
    mechanism: AnyMechanism | None = None
    function: str = ""
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "parameters", tuple(float(number) for number in self.parameters))
        if self.kind in ("counts", "points"):
            if self.mechanism is not None or self.function or self.parameters:
                raise InvalidInput(f"{self.kind} follow from the crowds: give no mechanism and no function")
            return
        if self.mechanism is None:
            raise InvalidInput(f"a release of kind {self.kind!r} needs a mechanism; use Release.ask")
        if self.function not in _FUNCTIONS:
            raise InvalidInput(f"function must be one of {', '.join(_FUNCTIONS)}; got {self.function!r}")
        if len(self.parameters) > 64:
            raise InvalidInput(f"a function has at most 64 parameters; got {len(self.parameters)}")
        self.build()

    @classmethod
    def ask(cls, kind: Kind, function: str, *, epsilon: float, parameters: Iterable[float] = ()) -> Release:
        """A release of values with the best mechanism at this epsilon (any two positions in the region, delta 0).

        Examples
        --------
        >>> Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0]).epsilon
        1.0
        """
        return cls(kind, best(epsilon), function, tuple(parameters))

    @property
    def asks(self) -> bool:
        """Whether it needs a round."""
        return self.mechanism is not None

    @property
    def epsilon(self) -> float:
        """Loss inside the region; 0 if nothing is asked."""
        return 0.0 if self.mechanism is None else self.mechanism.epsilon

    def build(self) -> BoundedFunction:
        """The function.

        Raises
        ------
        InvalidInput
            If the parameters do not fit.
        """
        try:
            return _FUNCTIONS[self.function](self.parameters)
        except (IndexError, KeyError):
            raise InvalidInput(f"function {self.function!r} does not take the parameters {self.parameters}") from None

    @property
    def what(self) -> str:
        """What is released, in words."""
        return f"{self.kind} of {self.build().name}" if self.asks else self.kind

    def __str__(self) -> str:
        return priced(self.what, self.epsilon)


class Plan(msgspec.Struct, frozen=True, array_like=True, tag="plan", forbid_unknown_fields=True):
    """The releases of a campaign, in order. Its digest is pinned by devices.

    Attributes
    ----------
    task : bytes
        The task's id.
    releases : tuple of Release
    """

    task: bytes
    releases: tuple[Release, ...] = ()

    def __post_init__(self) -> None:
        _check_header(self.task, 1)
        if len(self.releases) > MAX_RELEASES:
            raise InvalidInput(f"a plan has at most {MAX_RELEASES} releases; got {len(self.releases)}")

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes (32 bytes)."""
        return _plan_digest(self)

    @property
    def asked(self) -> tuple[int, ...]:
        """Indices of the releases that need a round, in order."""
        return tuple(index for index, release in enumerate(self.releases) if release.asks)

    @property
    def epsilon(self) -> float:
        """Loss of all releases together, inside the region."""
        return float(sum(release.epsilon for release in self.releases))

    def total_epsilon(self, task: Task) -> float:
        """Bound for everybody on the loss inside the region: the partition's worst case and all releases."""
        return task.epsilon_worst + self.epsilon

    def check(self, task: Task) -> None:
        """Refuse a plan that is not for this task or whose functions do not fit its domain."""
        if self.task != task.id:
            raise InvalidInput("the plan belongs to another task")
        corners = np.array([[task.box.lower, task.box.upper]])
        for release in self.releases:
            if release.asks:
                low, high = release.build().range_over(corners)[0]
                if not (np.isfinite(low) and np.isfinite(high)):
                    raise InvalidInput(f"{release.function} has no finite range over {task.box}")


class ValueQuery(msgspec.Struct, frozen=True, array_like=True, tag="value-query", forbid_unknown_fields=True):
    """Asks everybody with a region for the value of one release.

    Attributes
    ----------
    task : bytes
    round : int
        Numbered on from the partition's last round.
    plan : bytes
        Digest of the plan.
    index : int
        Which release of the plan.
    """

    task: bytes
    round: int
    plan: bytes
    index: int

    def __post_init__(self) -> None:
        _check_value_header(self.task, self.round, self.plan, self.index)


class ValueReport(msgspec.Struct, frozen=True, array_like=True, tag="value-report", forbid_unknown_fields=True):
    """A participant's value: an integer of the mechanism's alphabet.

    Attributes
    ----------
    task, round
        Of the query.
    pseudonym : bytes
    cell : int
        The participant's region (public by design).
    answer : int
    """

    task: bytes
    round: int
    pseudonym: bytes
    cell: int
    answer: int

    def __post_init__(self) -> None:
        _check_header(self.task, self.round)
        if len(self.pseudonym) != PSEUDONYM_BYTES:
            raise InvalidInput(f"pseudonym must be {PSEUDONYM_BYTES} bytes; got {len(self.pseudonym)}")
        _check_cells((self.cell,))
        if abs(self.answer) >= 2**31:
            raise InvalidInput(f"answer must be below 2^31; got {self.answer}")


class ValueClosed(msgspec.Struct, frozen=True, array_like=True, tag="value-closed", forbid_unknown_fields=True):
    """Closes a round of values.

    Attributes
    ----------
    task, round, plan, index
        As in the query.
    cells : tuple of int
        Regions with reports, ascending.
    counts : tuple of tuple of (int, int)
        Per region the outputs that were reported, ascending, and how often.
    """

    task: bytes
    round: int
    plan: bytes
    index: int
    cells: tuple[int, ...]
    counts: tuple[tuple[tuple[int, int], ...], ...]

    def __post_init__(self) -> None:
        _check_value_header(self.task, self.round, self.plan, self.index)
        _check_cells(self.cells)
        if len(self.cells) != len(self.counts):
            raise InvalidInput("cells and counts must have one entry per region each")
        for row in self.counts:
            outputs = [output for output, _ in row]
            if not row or outputs != sorted(set(outputs)) or any(count < 1 for _, count in row):
                raise InvalidInput("counts must have ascending outputs that were reported at least once")

    @property
    def responders(self) -> tuple[int, ...]:
        """Reports per region."""
        return tuple(sum(count for _, count in row) for row in self.counts)


V = TypeVar("V", Plan, ValueQuery, ValueReport, ValueClosed)
_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (Plan, ValueQuery, ValueReport, ValueClosed)
}


def encode_value(message: Plan | ValueQuery | ValueReport | ValueClosed) -> bytes:
    """Canonical bytes."""
    return _encoder.encode(message)


def decode_value(data: bytes, kind: type[V]) -> V:
    """The message in canonical bytes; anything else is refused with a reason.

    Examples
    --------
    >>> plan = Plan(bytes(32), (Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0]), Release("counts")))
    >>> decode_value(encode_value(plan), Plan) == plan
    True
    """
    try:
        message: V = _decoders[kind].decode(data)
    except (msgspec.DecodeError, InvalidInput, ValueError, RecursionError, OverflowError) as error:
        raise InvalidInput(f"not a {kind.__name__}: {error}") from None
    if _encoder.encode(message) != data:
        raise InvalidInput(f"not the canonical bytes of a {kind.__name__}")
    return message


# -- the device's side -------------------------------------------------------------------------------------------


def check_value_query(query: ValueQuery, plan: Plan, *, first_round: int) -> Release:
    """The release that a query asks for, or a refusal.

    Parameters
    ----------
    query : ValueQuery
    plan : Plan
        The pinned one.
    first_round : int
        The round after the partition's last one.

    Raises
    ------
    ServerViolation
        Tokens "other-task", "other-plan", "unknown-release", "skipped-round".
    """
    if query.task != plan.task:
        raise ServerViolation("other-task", "the message belongs to another task than the one pinned")
    if query.plan != plan.digest:
        raise ServerViolation("other-plan", "the query belongs to another plan than the one pinned")
    if query.index not in plan.asked:
        raise ServerViolation("unknown-release", f"the plan asks for no value with index {query.index}")
    if query.round != first_round + plan.asked.index(query.index):
        raise ServerViolation("skipped-round", f"release {query.index} is not asked in round {query.round}")
    return plan.releases[query.index]


def value_entropy(secret: bytes, plan: Plan, index: int, region: int, words: int) -> bytes:
    """Entropy of the one value a device ever gives for this plan, release and region: ``8 * words`` bytes."""
    label = _VALUE + plan.task + plan.digest + index.to_bytes(4, "big") + region.to_bytes(8, "big")
    return derive(secret, label, 8 * words)


def respond_value(
    query: ValueQuery, plan: Plan, *, task: Task, secret: bytes, pseudonym: bytes, region: int, point: npt.ArrayLike,
    first_round: int,
) -> ValueReport:  # fmt: skip
    """The report of a participant that ended in ``region``; the same query gives the same bytes.

    Parameters
    ----------
    point : array_like, shape (d,)
        The position it acts from. One that a TRIM moved acts from the nearest point of its region; passing the true
        position gives the same, because it is moved into the region here.

    Raises
    ------
    ServerViolation
        If the query is not the pinned plan's.
    """
    release = check_value_query(query, plan, first_round=first_round)
    mechanism = release.mechanism
    assert mechanism is not None
    boxes = task.hierarchy.boxes(np.array([region], dtype=np.uint64))
    inside = np.clip(np.asarray(point, dtype=np.float64).reshape(1, -1), boxes[:, 0], boxes[:, 1])
    checked = check_values(release.build(), inside, boxes)
    low, high = checked.ranges[0]
    unit = 0.5 if high <= low else min(max((float(checked.values[0]) - low) / (high - low), 0.0), 1.0)
    entropy = value_entropy(secret, plan, query.index, region, mechanism.words)
    return ValueReport(query.task, query.round, pseudonym, region, mechanism.release_one(unit, entropy))


# -- the server's side -------------------------------------------------------------------------------------------


def check_value_report(report: ValueReport, release: Release) -> None:
    """Refuse an answer that no participant can have given.

    Raises
    ------
    InvalidInput
    """
    assert release.mechanism is not None
    if report.answer not in release.mechanism.alphabet:
        raise InvalidInput(f"an answer is an integer of {release.mechanism.alphabet}; got {report.answer}")


class ValueEstimate(NamedTuple):
    """A mean over participants, with a bound on its standard error: the mechanism's worst case over their regions."""

    mean: float
    stderr: float
    responders: int


def region_values(closed: ValueClosed, plan: Plan, *, task: Task) -> list[tuple[Floats, list[int]]]:
    """Per region the decoded values float64[r] of the outputs that were reported, and how often each was."""
    mechanism = plan.releases[closed.index].mechanism
    assert mechanism is not None
    out = []
    for (low, high), row in zip(_ranges(closed, plan, task), closed.counts, strict=True):
        decoded = mechanism.decode([output for output, _ in row])
        out.append((low + (high - low) * decoded, [count for _, count in row]))
    return out


def estimate_mean(closed: ValueClosed, plan: Plan, *, task: Task) -> tuple[ValueEstimate, list[ValueEstimate]]:
    """The mean over everybody who answered, and one per region (in the order of ``closed.cells``).

    Unbiased for positions inside their regions; a moved participant counts where it was moved to.
    """
    mechanism = plan.releases[closed.index].mechanism
    assert mechanism is not None
    regions, total, error, size = [], 0.0, 0.0, 0
    rows = region_values(closed, plan, task=task)
    for (low, high), (values, counts) in zip(_ranges(closed, plan, task), rows, strict=True):
        number = sum(counts)
        mean = float(np.array(counts, dtype=np.float64) @ values) / number
        variance = float((high - low) ** 2 * mechanism.worst_variance)
        regions.append(ValueEstimate(mean, (variance / number) ** 0.5, number))
        total, error, size = total + mean * number, error + variance * number, size + number
    if not size:
        return ValueEstimate(float("nan"), float("inf"), 0), regions
    return ValueEstimate(total / size, error**0.5 / size, size), regions


def _ranges(closed: ValueClosed, plan: Plan, task: Task) -> Floats:
    """Range of the function over each region: float64[m, 2]."""
    if not closed.cells:
        return np.empty((0, 2))
    boxes = task.hierarchy.boxes(np.array(closed.cells, dtype=np.uint64))
    return plan.releases[closed.index].build().range_over(boxes)


@lru_cache(maxsize=1024)
def _plan_digest(plan: Plan) -> bytes:
    return hashlib.sha256(_encoder.encode(plan)).digest()


def _whole(numbers: tuple[float, ...]) -> int:
    if len(numbers) != 1 or not numbers[0].is_integer():
        raise InvalidInput(f"coordinate takes one whole number, the axis; got {numbers}")
    return int(numbers[0])


def _check_value_header(task: bytes, round_: int, plan: bytes, index: int) -> None:
    _check_header(task, round_)
    if len(plan) != 32:
        raise InvalidInput(f"plan must be a digest of 32 bytes; got {len(plan)}")
    if not 0 <= index < MAX_RELEASES:
        raise InvalidInput(f"index must be from 0 to {MAX_RELEASES - 1}; got {index}")
