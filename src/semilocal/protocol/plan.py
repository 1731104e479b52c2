"""The plan: which releases follow the partition, fixed when a campaign is created.

Devices pin the plan together with the task, so that the whole loss, ``Plan.total_epsilon``, is known before anything is
sent. Knows functions and mechanisms by name. Knows no participants and no state of a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np

from ..arrays import is_number, short_repr
from ..errors import InvalidInput, is_plain, printable
from ..functions import BoundedFunction, coordinate, gaussian_bump, indicator, linear, squared_norm
from ..geometry.box import Box
from ..randomizer.values import AnyMechanism, best
from .column import Column, as_range, own_value
from .promise import INSIDE
from .task import ID_BYTES, Task

Kind = Literal["mean", "values", "counts", "points"]
MAX_RELEASES = 64
OWN = "own:"  # before the name of a value that people have of their own
MAX_OWN_NAME = 100
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
        "coordinate", "squared_norm", "gaussian_bump", "linear" or "indicator" of the position; "own:" and a name for a
        number of the owner's own, such as "own:fare"; empty for "counts" and "points".
    parameters : tuple of float
        coordinate: axis; squared_norm: center or nothing; gaussian_bump: sigma, then center or nothing;
        linear: intercept, then weights; indicator: lower, then upper corner; own: smallest and largest value.
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
        if self.function not in _FUNCTIONS and not self.own:
            raise InvalidInput(f"function must be one of {', '.join(_FUNCTIONS)}, {OWN}NAME; got {self.function!r}")
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
        >>> print(Release.ask("mean", "own:fare", epsilon=0.5, parameters=[0, 100]))
        mean of fare (epsilon = 0.5, delta = 0 between any two values of fare from 0 to 100)
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

    @property
    def own(self) -> bool:
        """Whether it asks for a number of the owner's own, and not for a function of the position."""
        return self.function.startswith(OWN)

    def build(self) -> BoundedFunction:
        """The function; a column without rows for the owner's own value. Refuses parameters that do not fit."""
        return named_function(self.function, self.parameters)

    @property
    def what(self) -> str:
        """What is released, in words."""
        return f"{self.kind} of {self.build().name}" if self.asks else self.kind

    def __str__(self) -> str:
        if not self.epsilon:
            return f"{self.what} (no loss)"
        between = f"any two values of {own_value(self.build())}" if self.own else INSIDE
        return f"{self.what} (epsilon = {self.epsilon:g}, delta = 0 between {between})"


class Plan(msgspec.Struct, frozen=True, array_like=True, tag="plan", forbid_unknown_fields=True, dict=True):
    """The releases of a campaign, in order. Its digest is pinned by devices.

    Attributes
    ----------
    task : bytes
        The task's id.
    releases : tuple of Release
    """

    task: bytes
    releases: tuple[Release, ...] = ()

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if len(self.task) != ID_BYTES:
            raise InvalidInput(f"task must be an id of {ID_BYTES} bytes; got {len(self.task)}")
        if len(self.releases) > MAX_RELEASES:
            raise InvalidInput(f"a plan has at most {MAX_RELEASES} releases; got {len(self.releases)}")
        if sum(release.own for release in self.releases) > 1:
            raise InvalidInput("a plan asks for one value of people's own; make a campaign for each")

    @cached_property  # of this object: equal plans may differ in bytes, as 0.0 and -0.0 do
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes (32 bytes)."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).digest()

    @property
    def asked(self) -> tuple[int, ...]:
        """Indices of the releases that need a round, in order."""
        return tuple(index for index, release in enumerate(self.releases) if release.asks)

    @property
    def epsilon(self) -> float:
        """Loss of all releases together, inside the region."""
        return float(sum(release.epsilon for release in self.releases))

    @property
    def own(self) -> Release | None:
        """The release that asks for a number of the owner's own; None if everything follows from positions."""
        return next((release for release in self.releases if release.own), None)

    @property
    def own_words(self) -> str:
        """That number and its range, in words; empty if there is none."""
        return "" if self.own is None else own_value(self.own.build())

    def check_value(self, value: float | None) -> None:
        """Refuse an owner's value that is outside the public range, missing, or not asked for."""
        if self.own is None:
            if value is not None:
                raise InvalidInput("the campaign asks for no value of your own; leave it out")
            return
        if value is None:
            raise InvalidInput(f"the campaign asks for {self.own_words}: give your value")
        low, high = self.own.parameters
        if not is_number(value) or not low <= value <= high:
            raise InvalidInput(f"your value is outside the public range, {self.own_words}; nothing was sent")

    def total_epsilon(self, task: Task) -> float:
        """Bound for everybody on the loss inside the region: the partition and all releases."""
        return task.epsilon + self.epsilon

    def check(self, task: Task) -> None:
        """Refuse a plan that is not for this task or whose functions do not fit its domain."""
        if self.task != task.id:
            raise InvalidInput("the plan belongs to another task")
        corners = np.array([[task.box.lower, task.box.upper]])
        for release in self.releases:
            if release.asks:
                low, high = release.build().range_over(corners)[0]
                if not np.isfinite(high - low):
                    raise InvalidInput(f"{release.function} has no range of finite width over {task.box}")


def named_function(name: str, parameters: tuple[float, ...]) -> BoundedFunction:
    """The function of this name, or a column without rows for people's own value; see :class:`Release`."""
    if name.startswith(OWN):
        own = name.removeprefix(OWN)
        if not 1 <= len(own) <= MAX_OWN_NAME or not is_plain(own):
            got = printable(repr(own))
            raise InvalidInput(f"a value's name has 1 to {MAX_OWN_NAME} characters, no control characters; got {got}")
        return Column(own, np.empty(0), *as_range(parameters, own))
    try:
        return _FUNCTIONS[name](parameters)
    except (IndexError, KeyError):
        raise InvalidInput(f"function {name!r} does not take the parameters {parameters}") from None


def _whole(numbers: tuple[float, ...]) -> int:
    if len(numbers) != 1 or not float(numbers[0]).is_integer():
        raise InvalidInput(f"coordinate takes one whole number, the axis; got {numbers}")
    return int(numbers[0])
