"""Rows in Spark: a DataFrame in, groups to the driver, a DataFrame out.

The executors find the cells of Arrow batches with this package, which their Python must have, and add them up. Lost
work is computed again to the same bytes: nothing depends on the partition, the order of rows, or a random number. For
means and values, sorted rows pass through the driver as Arrow batches.

Knows rows and expressions of Spark. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Floats, Integers
from ..errors import EngineFailed, InvalidInput, listed_columns, optional
from ..geometry.box import Box
from ..hierarchy.base import Cells, Hierarchy
from ..protocol.column import refuse_values
from .source import CHANGED, REGION, SAMPLE, Histogram, Locate, Source, check_axes, is_in, kept_columns, refuse_bad_rows

_BATCH = 1 << 17  # rows of a batch that is streamed through the driver
_FIRST_ROWS = 1000  # rows that show what went wrong
_TWIN, _RANK = "semilocal twin", "semilocal rank"  # columns that rows are chosen by
_MISSING, _OUTSIDE = -1, -2  # in place of a cell


class SparkSource(Source):
    """A DataFrame of Spark as a source; use :func:`semilocal.engines.open_source`.

    A DataFrame has no order by itself: rows are ordered by their contents where an order is needed. Of a ``person`` at
    most ``rows_per_person`` rows are chosen by ``key``.
    """

    guarded = True  # bad rows are counted beside the cells

    def __init__(
        self, rows: Any, columns: Sequence[str], box: Box, *, person: str | None = None, rows_per_person: int = 1,
        key: int = 0,
    ) -> None:  # fmt: skip
        load_spark()
        super().__init__(box)
        self.rows, self.columns, self.names = rows, tuple(columns), tuple(rows.columns)
        self.rows_per_person, self.person = rows_per_person, person
        self.everybody = self  # all rows, chosen or not
        check_axes(columns, box)
        self._check_numbers(columns)
        if taken := [name for name in rows.columns if name in (_TWIN, _RANK)]:
            raise InvalidInput(f"the name of column {taken[0]!r} is reserved; rename it first")
        if person is not None:
            self.everybody = SparkSource(rows, columns, box)
            self.everybody.check()
            self.rows = _choose_rows(rows, person, rows_per_person, key)

    # -- checks --------------------------------------------------------------------------------------------

    def _check_numbers(self, columns: Sequence[str]) -> None:
        from pyspark.sql.types import NumericType

        kinds = {field.name: field.dataType for field in self.rows.schema.fields}
        for column in columns:
            if column not in kinds:
                raise InvalidInput(f"there is no column {column!r}; the columns are {listed_columns(list(kinds))}")
            if not isinstance(kinds[column], NumericType):
                what = kinds[column].simpleString()
                raise InvalidInput(f"column {column!r} holds {what}, not numbers; choose another, or cast it")

    def check_value(self, name: str, low: float, high: float) -> None:
        """Refuse a column if a value is missing or outside its range; also of rows that are not chosen. One scan."""
        self._check_numbers([name])
        rows, missing, outside = self.everybody._conditions([name], Box((low,), (high,)))
        refuse_values(name, low, high, rows=rows, bad=missing + outside, missing=missing)

    def _conditions(self, columns: Sequence[str], box: Box) -> tuple[int, int, int]:
        """How many rows there are, and how many have no finite value, or one outside the box."""
        cells, people = self._tally(columns, box, lambda points: np.ones(len(points), dtype=np.uint64))
        found = dict(zip(cells.tolist(), people.tolist(), strict=True))
        return sum(found.values()), found.get(_MISSING, 0), found.get(_OUTSIDE, 0)

    def check(self) -> None:
        """Refuse rows that have no value, are not finite or lie outside, with how many there are. One scan."""
        rows, missing, outside = self._conditions(self.columns, self.box)
        self._rows = rows
        refuse_bad_rows(self.box, rows=rows, missing=missing, outside=outside, some=lambda: self._first(_FIRST_ROWS))

    def count(self) -> int:
        """Number of rows."""
        return self._rows

    @property
    def rows_in_all(self) -> int:
        """All rows, chosen or not: known since they were checked."""
        return self.everybody.count()

    @cached_property
    def _rows(self) -> int:
        with reporting_failures():
            return int(self.rows.count())

    def sample(self, size: int = SAMPLE) -> Floats:
        """About ``size`` positions, each row with the same chance. Only the depth of the histogram depends on them."""
        points = self._first(2 * size, share=min(1.0, size / max(self.count(), 1)))
        if not np.all((points >= self.box.lower) & (points <= self.box.upper)):
            self.check()
        return points

    def _first(self, size: int, share: float = 1.0) -> Floats:
        """The positions of a few rows; they may be missing or outside."""
        rows = self.rows.selectExpr(*_numbers(self.columns))
        rows = rows.sample(fraction=share, seed=1) if share < 1.0 else rows
        with reporting_failures():
            return _stacked(rows.limit(size).toArrow().columns)

    # -- counting ------------------------------------------------------------------------------------------

    def histogram(self, hierarchy: Hierarchy, depth: int) -> Histogram:
        """How many rows are in each cell of this depth. One scan; executors count batch by batch."""
        return self._counted(depth, lambda points: hierarchy.locate(points, depth))

    def refine(self, hierarchy: Hierarchy, cells: Cells, depth: int, deeper: int) -> Histogram:
        """The same at depth ``deeper``, of the rows in these cells of depth ``depth`` alone. One scan."""

        def find(points: Floats) -> Cells:
            codes = hierarchy.codes(points)
            return hierarchy.ancestors(codes[is_in(hierarchy.ancestors(codes, depth), cells)], deeper)

        return self._counted(deeper, find)

    def _counted(self, depth: int, cells_of: Callable[[Floats], Cells]) -> Histogram:
        cells, people = self._tally(self.columns, self.box, cells_of)
        if (cells < 0).any():
            self.check()
            raise InvalidInput(CHANGED)
        order = np.argsort(cells)
        return Histogram(depth, cells[order].astype(np.uint64), people[order])

    def _tally(
        self, columns: Sequence[str], box: Box, cells_of: Callable[[Floats], Cells]
    ) -> tuple[Integers, Integers]:
        """The different cells of rows, negative for rows that have none, and how many rows each has: int64[m] both."""

        def count(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow

            for batch in batches:
                points = _stacked(batch.columns)
                inside = box.inside(points)
                bad = np.where(np.isfinite(points).all(axis=1), _OUTSIDE, _MISSING)
                cells = np.concatenate([cells_of(points[inside]).astype(np.int64), bad[~inside]])
                found, people = np.unique(cells, return_counts=True)
                yield pyarrow.RecordBatch.from_arrays([pyarrow.array(found), pyarrow.array(people)], ["cell", "people"])

        counted = self.rows.selectExpr(*_numbers(columns)).mapInArrow(count, "cell long, people long")
        with reporting_failures():
            found = counted.groupBy("cell").sum("people").toArrow()
        return tuple(np.asarray(column.to_numpy(), dtype=np.int64) for column in found.columns)  # type: ignore[return-value]

    # -- regions -------------------------------------------------------------------------------------------

    def attach(self, locate: Locate, **options: Any) -> Any:
        """Every row with its region, an INT, and the columns to ``keep`` (all), as a DataFrame without an order."""
        from pyspark.sql.types import IntegerType, StructField, StructType

        keep, axes = kept_columns(self.rows.columns, options), self.box.dimensions
        rows = self.rows.selectExpr(*map(_quoted, keep), *_numbers(self.columns))
        schema = StructType([*rows.schema.fields[: len(keep)], StructField(REGION, IntegerType())])

        def find(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow

            for batch in batches:
                region = pyarrow.array(locate(_stacked(batch.columns[-axes:])).astype(np.int32))
                yield pyarrow.RecordBatch.from_arrays([*batch.columns[: len(keep)], region], schema.names)

        return rows.mapInArrow(find, schema)

    # -- rows ----------------------------------------------------------------------------------------------

    def batches(self, *others: str) -> Iterator[Floats]:
        """Positions float64[b, d] and further columns, sorted by Spark; the driver holds the batches of one task."""
        self._check_numbers(others)
        numbers = _numbers([*self.columns, *others])
        sorts = [f"axis{place}" for place in range(len(numbers))]
        with reporting_failures():
            for batch in _arrow_batches(self.rows.selectExpr(*numbers).orderBy(*sorts)):
                yield _stacked(batch.columns)


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _numbers(columns: Sequence[str]) -> list[str]:
    """Columns as numbers, called axis0, axis1 and so on."""
    return [f"CAST({_quoted(column)} AS DOUBLE) AS axis{place}" for place, column in enumerate(columns)]


def _stacked(columns: Sequence[Any]) -> Floats:
    """Columns of Arrow side by side, float64[b, c]; NaN where there is none."""
    return np.stack([np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64) for column in columns], axis=1)


def _arrow_batches(rows: Any) -> Iterator[Any]:
    """The rows of a frame in its order, as record batches; a task's at a time reach the driver."""
    import pyarrow

    size = _BATCH  # functions in functions travel to executors by value, which need not have this package

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        def packed(group: list[Any]) -> Any:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, group[0].schema) as writer:
                for batch in group:
                    writer.write_batch(batch)
            column = pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.binary())
            return pyarrow.RecordBatch.from_arrays([column], ["packed"])

        waiting: list[Any] = []
        for batch in batches:
            waiting.append(batch)
            if sum(map(len, waiting)) >= size:
                yield packed(waiting)
                waiting = []
        if waiting:
            yield packed(waiting)

    for row in rows.mapInArrow(pack, "packed binary").toLocalIterator():
        table = pyarrow.ipc.open_stream(pyarrow.py_buffer(bytes(row[0]))).read_all()
        if len(table):
            yield table.combine_chunks()


def load_spark() -> Any:
    """The module of Spark's SQL, or how to install it."""
    optional("pyarrow", "spark")
    return optional("pyspark.sql", "spark")


# What Spark says, and what to do.
_FAILURES = {
    "No space left on device": "Spark ran out of disk space for its shuffle files; free some space or set "
    "spark.local.dir",
    "No module named": "the Python of Spark's workers lacks a module that rows need; install semilocal[parquet] there, "
    "or set PYSPARK_PYTHON to a Python that has it before the session starts",
    "PYTHON_VERSION_MISMATCH": "the Python of Spark's workers has another version than this one; set PYSPARK_PYTHON to "
    "the right one before the session starts",
    "maxResultSize": "the groups are larger than spark.driver.maxResultSize; set it higher",
    "cancelled": "the job was cancelled",
}


@contextmanager
def reporting_failures() -> Iterator[None]:
    """Failures of Spark as errors that say what to do."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        text = str(error)
        if "MALFORMED_RECORD" in text:  # what stands there is not repeated: it may be somebody's position
            raise InvalidInput(
                "a CSV file has a line whose values are not all numbers where numbers must be; fix the file. Nothing "
                "was released"
            ) from None
        reason = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        known = next((words for sign, words in _FAILURES.items() if sign in text), f"Spark failed: {reason}")
        raise EngineFailed(f"{known}. Nothing was released") from error


# -- rows of people ---------------------------------------------------------------------------------------------------


def _choose_rows(frame: Any, person: str, rows_per_person: int, key: int) -> Any:
    """At most a given number of rows of every person.

    A keyed hash of their contents decides; equal rows are numbered, and the number is hashed too, so that every row has
    the same chance. Computed again, the same rows are chosen.
    """
    if person not in frame.columns:
        raise InvalidInput(f"there is no column {person!r}; the columns are {listed_columns(frame.columns)}")
    who, every = _quoted(person), [_quoted(column) for column in frame.columns]
    with reporting_failures():
        nobody = frame.where(f"{who} IS NULL").count()
    if nobody:
        raise InvalidInput(
            f"{nobody:,} rows have no value in column {person!r}, which says whose row it is; remove them first: "
            "nothing was released"
        )
    texts = ", ".join(f"coalesce(concat('=', CAST({column} AS STRING)), '')" for column in every)
    scored = f"sha2(concat_ws(char(31), '{key:016x}', {texts}, CAST({_quoted(_TWIN)} AS STRING)), 256)"
    twins = f"row_number() OVER (PARTITION BY {', '.join(every)} ORDER BY {who}) AS {_quoted(_TWIN)}"
    ranks = f"row_number() OVER (PARTITION BY {who} ORDER BY {scored}) AS {_quoted(_RANK)}"
    ranked = frame.selectExpr("*", twins).selectExpr("*", ranks)
    return ranked.where(f"{_quoted(_RANK)} <= {int(rows_per_person)}").selectExpr(*every)
