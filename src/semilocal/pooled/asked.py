"""A value that a task of two servers asks for: what it is, its public range, and the grid that devices round it to.

It is a number of the owner's own, such as a fare, or a public function of the position. Every device sends an integer
from 0 to 2^bits - 1, before anybody knows its cell. What is published is one noisy sum: over all reports, or one per
final cell.

Knows parameters. Knows no reports, positions or noise.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np

from ..arrays import Floats, is_integer, is_number
from ..errors import InvalidInput
from ..functions import BoundedFunction
from ..geometry.box import Box
from ..protocol.column import Column, as_range
from ..protocol.plan import named_function
from ..words import check_name
from .values import VALUE_BITS, ValueGrid, round_values, shared_grid

MAX_NAME = 100
# Both servers compute a cell's range, and must get the same integers: functions of + - * / alone, no exp.
FUNCTIONS = ("coordinate", "squared_norm", "linear", "indicator")


class AskedValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked beside the place.

    Examples
    --------
    >>> fare = AskedValue(name="fare", low=0, high=100)
    >>> fare.steps, fare.encode(50.0, 0), fare.encode(50.0, 2**64 - 1)
    (1023, 512, 511)
    """

    name: str  # what the value is called, for people; 1 to 100 printable characters
    low: float  # the public range
    high: float
    bits: int = VALUE_BITS  # the grid has 2^bits - 1 steps; 1 to 10
    # "cells": a mean per final cell of a map. "all": there is no map, one sum over all reports, and nothing about
    # places is sent but what a function tells of them
    mean: Literal["all", "cells"] = "all"
    function: str = ""  # one of FUNCTIONS of the position; empty for the owner's own value
    parameters: tuple[float, ...] = ()  # of the function, as in a plan's release

    def __post_init__(self) -> None:
        check_name(self.name, "a value's name", most=MAX_NAME)
        low, high = as_range((self.low, self.high), self.name)
        if not is_integer(self.bits) or not 1 <= self.bits <= VALUE_BITS:
            raise InvalidInput(f"bits must be from 1 to {VALUE_BITS}; got {self.bits!r}")
        if self.mean not in ("all", "cells"):
            raise InvalidInput(f"mean must be 'all' or 'cells'; got {self.mean!r}")
        if self.function and self.function not in FUNCTIONS:
            raise InvalidInput(
                f"a task of two servers takes one of the functions {', '.join(FUNCTIONS)}; got {self.function!r}"
            )
        if self.parameters and not self.function:
            raise InvalidInput("parameters belong to a function; an owner's own value has none")
        numbers = tuple(float(number) for number in self.parameters)
        for name, number in (("low", low), ("high", high), ("parameters", numbers)):  # 1 and 1.0: the same bytes
            msgspec.structs.force_setattr(self, name, number)
        self.build()

    @classmethod
    def of_function(cls, box: Box, function: str, parameters: tuple[float, ...] = (), **grid: Any) -> AskedValue:
        """A function of the position, with its range over the box; with ``bits`` and ``mean`` as for the class."""
        f = named_function(function, parameters)
        low, high = np.asarray(f.range_over(np.array([[box.lower, box.upper]])))[0].tolist()
        return cls(name=f.name, low=low, high=high, function=function, parameters=parameters, **grid)

    @property
    def per_cell(self) -> bool:
        """Whether a mean per final cell is asked, and with it a map."""
        return self.mean == "cells"

    @property
    def own(self) -> bool:
        """Whether it is the owner's own value, and not a function of the position."""
        return not self.function

    @property
    def steps(self) -> int:
        """Steps of the grid: the largest integer that a device sends."""
        return (1 << self.bits) - 1

    @property
    def words(self) -> str:
        """Name and range."""
        return f"{self.name} from {self.low:g} to {self.high:g}"

    @property
    def what(self) -> str:
        """What is released, as ledgers and statements name it."""
        return f"mean of {self.name}{' per cell' if self.per_cell else ''}"

    def check(self, box: Box) -> None:
        """Refuse a function that leaves the stated range over the box."""
        if self.own:
            return
        low, high = np.asarray(self.build().range_over(np.array([[box.lower, box.upper]])))[0].tolist()
        if not self.low <= low <= high <= self.high:
            raise InvalidInput(
                f"{self.name} is from {low:g} to {high:g} over the domain, which leaves the stated range "
                f"{self.low:g} to {self.high:g}"
            )

    def check_value(self, value: float) -> None:
        """Refuse a value outside the range, without repeating it."""
        if not is_number(value) or not self.low <= value <= self.high:
            raise InvalidInput(f"{self.name} must be a number from {self.low:g} to {self.high:g}; the one given is not")

    def build(self) -> BoundedFunction:
        """The function; a column without rows for the owner's own value."""
        if self.function:
            return named_function(self.function, self.parameters)
        return Column(self.name, np.empty(0), self.low, self.high)

    def ranges(self, boxes: Floats) -> Floats:
        """Of the value in boxes float[m, 2, d]: float64[m, 2]."""
        return np.clip(np.asarray(self.build().range_over(boxes)), self.low, self.high)

    def grid(self, boxes: Floats) -> ValueGrid:
        """The grid of every cell, from their boxes float[m, 2, d]."""
        return shared_grid(self.ranges(boxes), self.low, self.high, bits=self.bits)

    def encode(self, value: float, draw: int) -> int:
        """The integer that stands for a value; ``draw``, a uniform word of 64 bits, says whether it is rounded up."""
        self.check_value(value)
        draws = np.array([draw], dtype=np.uint64)
        return int(round_values(np.array([float(value)]), self.low, self.high - self.low, self.steps, draws)[0])
