"""The key of a row as an expression of SQL, for engines that count rows where they lie.

A **key** is one integer: the ticks of a row on all axes, axis 0 highest, each with as many bits as the path has there.
The place on the curve is not found in the engine, which would cost more than the rest: rows are grouped by key, and the
groups get their place in numpy (:mod:`semilocal.engines.keys`). The key of a row that is NULL, NaN, infinite or outside
the box is -1, so one scan counts and checks. A filter would not do: writers leave NaN out of the statistics of Parquet
files, and engines then skip the very rows that a filter looks for.

The tick is the hierarchy's own to the last bit: ``edge(t) <= x < edge(t + 1)`` with the edges as floats. A product with
the number of slices finds it unless x is so near an edge that rounding could matter; only those take the exact form.

Knows columns and the arithmetic of engines. Knows no counts, participants or randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidInput
from ..geometry.box import Box
from ..hierarchy.dyadic import BoxTree
from ..simulation.people import LOW_BITS, PRIME, Scores
from .keys import axis_bits, coarser_parts

__all__ = ["DUCKDB", "SPARK", "Dialect", "coarser", "condition_of_rows", "key", "score"]

_EXACT_FLOATS = 52  # integers of this many bits are exact as floats


@dataclass(frozen=True)
class Dialect:
    """What differs between the engines.

    Attributes
    ----------
    quote : str
        What surrounds a name; doubled inside it.
    finite : callable
        Whether an expression is finite. An engine may decide a comparison with a bound from a file's statistics, which
        know nothing of NaN, so a comparison alone is not a guard.
    """

    quote: str
    finite: Callable[[str], str]

    def name(self, column: str) -> str:
        """A column's name as the engine takes it."""
        return self.quote + column.replace(self.quote, self.quote * 2) + self.quote


DUCKDB = Dialect('"', lambda x: f"isfinite({x})")
# In Spark NaN is larger than everything else.
SPARK = Dialect("`", lambda x: f"({x} > CAST('-Infinity' AS DOUBLE) AND {x} < CAST('Infinity' AS DOUBLE))")


def key(tree: BoxTree, columns: Sequence[str], bits: int, dialect: Dialect) -> str:
    """The key of a row at a depth of the path, as an expression of type BIGINT.

    Parameters
    ----------
    tree : BoxTree
    columns : sequence of str
        One numeric column per axis, unquoted.
    bits : int
        Bits of the path, 0 to ``tree.path_bits``.
    dialect : Dialect

    Returns
    -------
    str
        SQL. Its value is -1 for rows that have no place in the box, else 0 to 2**bits - 1.
    """
    if len(columns) != tree.box.dimensions:
        raise InvalidInput(f"the box has {tree.box.dimensions} axes; got {len(columns)} columns: {tuple(columns)}")
    widths = axis_bits(tree, bits)
    axes = _axes(columns, tree.box, dialect)
    inside = f"{_all(dialect.finite(x) for x, _, _ in axes)} AND {_inside(axes)}"
    shifts = [sum(widths[axis + 1 :]) for axis in range(len(widths))]
    ticks = [_tick(x, low, high, width) for (x, low, high), width in zip(axes, widths, strict=True)]
    if bits <= _EXACT_FLOATS:
        packed = " + ".join(f"{tick} * {_number(2.0**shift)}" for tick, shift in zip(ticks, shifts, strict=True))
        packed = f"CAST({packed} AS BIGINT)"
    else:
        terms = zip(ticks, shifts, strict=True)
        packed = " + ".join(f"CAST({tick} AS BIGINT) * CAST({1 << shift} AS BIGINT)" for tick, shift in terms)
    return f"CASE WHEN {inside} THEN {packed} ELSE CAST(-1 AS BIGINT) END"


def condition_of_rows(columns: Sequence[str], box: Box, dialect: Dialect) -> str:
    """What is wrong with a row: 0 nothing, 1 a value is NULL, 2 one is NaN or infinite, 3 one is outside the box."""
    axes = _axes(columns, box, dialect)
    null = " OR ".join(f"{x} IS NULL" for x, _, _ in axes)
    finite = _all(dialect.finite(x) for x, _, _ in axes)
    return f"CASE WHEN {null} THEN 1 WHEN NOT ({finite}) THEN 2 WHEN NOT ({_inside(axes)}) THEN 3 ELSE 0 END"


def coarser(tree: BoxTree, name: str, bits: int, fewer: int) -> str:
    """The key at fewer bits of the path, from the key at ``bits``: integer arithmetic both engines know."""
    parts = coarser_parts(tree, bits, fewer)
    terms, left = [], fewer
    for shift, width in parts:
        left -= width
        terms.append(f"(({name} >> {shift}) & {(1 << width) - 1}) * CAST({1 << left} AS BIGINT)")
    return f"(CASE WHEN {name} < 0 THEN CAST(-1 AS BIGINT) ELSE {' + '.join(terms)} END)"


def score(row: str, scores: Scores) -> str:
    """The score of a row by its number, an expression: the same integer as ``scores.at`` gives."""
    low, high = f"({row} & {(1 << LOW_BITS) - 1})", f"({row} >> {LOW_BITS})"
    return f"(({_polynomial(scores.low, low)} + {_polynomial(scores.high, high)}) % {PRIME})"


def _polynomial(terms: Sequence[int], x: str) -> str:
    out = f"CAST({terms[0]} AS BIGINT)"
    for term in terms[1:]:
        out = f"(({out} * {x} + {term}) % {PRIME})"
    return out


def _axes(columns: Sequence[str], box: Box, dialect: Dialect) -> list[tuple[str, float, float]]:
    numbers = [f"CAST({dialect.name(column)} AS DOUBLE)" for column in columns]
    return list(zip(numbers, box.lower, box.upper, strict=True))


def _inside(axes: Sequence[tuple[str, float, float]]) -> str:
    return _all(f"{x} >= {_number(low)} AND {x} <= {_number(high)}" for x, low, high in axes)


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(conditions)


def _tick(x: str, low: float, high: float, bits: int) -> str:
    """The slice of an axis that holds x, for x inside the box."""
    if bits == 0:
        return "0e0"
    slices, width = 2.0**bits, high - low
    exact = _exact_tick(x, low, width, bits)
    doubt = _doubt(low, high, bits)
    scale = slices / width
    if doubt > 0.125 or not 1e-290 < scale < 1e290:  # cells of a few floats, or boxes at the ends of their range
        return exact
    place = f"(({x} - {_number(low)}) * {_number(scale)})"
    clear = f"abs({place} - floor({place} + 5e-1)) > {_number(doubt)}"
    return f"(CASE WHEN {clear} THEN floor({place}) ELSE {exact} END)"


def _doubt(low: float, high: float, bits: int) -> float:
    """How far, in slices, the product and the edges can be off together, doubled.

    Three roundings of the product and one of an edge's offset are relative to the width; those of the edge itself are
    the spacing of floats there.
    """
    return 2.0**bits * (2.0**-50 + 2.0 * float(np.spacing(max(abs(low), abs(high)))) / (high - low))


def _exact_tick(x: str, low: float, width: float, bits: int) -> str:
    """The same as ``BoxTree.ticks``, operation by operation."""
    last = _number(2.0**bits - 1)
    guess = f"floor(least(({x} - {_number(low)}) / {_number(width)} * {_number(2.0**bits)}, {last}))"
    at, after = (f"({_number(low)} + {_number(width)} * ({tick} * {_number(0.5**bits)}))"
                 for tick in (guess, f"({guess} + 1e0)"))  # fmt: skip
    step = f"CASE WHEN {x} < {at} THEN -1e0 WHEN {x} >= {after} AND {guess} < {last} THEN 1e0 ELSE 0e0 END"
    return f"({guess} + {step})"


def _number(value: float) -> str:
    """A literal of type DOUBLE that reads back to the same float."""
    return f"({value:.17e})"
