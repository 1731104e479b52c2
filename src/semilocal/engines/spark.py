"""Rows in Spark: a DataFrame in, groups to the driver, a DataFrame out.

Everything per row is an expression that Spark has built in, so Catalyst compiles it and lost work is computed again to
the same bytes: no expression depends on the partition, the order of rows, or a random number. Only groups and tables of
cells pass through the driver; for means and values, sorted rows pass through it as Arrow batches. Regions of trees that
are not boxes are found in Arrow batches on the executors.

Knows rows and expressions of Spark. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers
from ..errors import EngineFailed, InvalidInput, MissingExtra
from ..geometry.box import Box
from ..hierarchy.base import Hierarchy
from ..hierarchy.dyadic import BoxTree
from .expressions import SPARK, coarser, key
from .grouping import CHANGED, KEY, Grouping, region_columns
from .histogram import Lookup
from .joins import JoinTable, Wanted
from .keys import fits_keys
from .source import SAMPLE

__all__ = ["SparkSource", "load_spark", "reporting_failures"]

_REGION, _CELL = "semilocal region", "semilocal cell"
_BATCH = 1 << 17  # rows of a batch that is streamed through the driver


class SparkSource(Grouping):
    """A DataFrame of Spark as a source.

    Parameters
    ----------
    rows : pyspark.sql.DataFrame
        One row per person. Cache it if it is expensive to compute: it is read several times.
    columns : sequence of str
        Numeric columns with the positions, one per axis of the box.
    box : Box
    order : str, optional
        The column that has the number of each row. A DataFrame has no order by itself: without it, rows are ordered by
        their contents where an order is needed.
    """

    dialect = SPARK

    def __init__(self, rows: Any, columns: Sequence[str], box: Box, *, order: str | None = None) -> None:
        load_spark()
        from pyspark.sql.types import NumericType

        kinds = {field.name: field.dataType for field in rows.schema.fields}
        types = {name: (kind.simpleString(), isinstance(kind, NumericType)) for name, kind in kinds.items()}
        super().__init__(columns, box, types, order=order)
        self.rows = rows

    def sample(self, size: int = SAMPLE) -> Floats:
        """About ``size`` positions, each row with the same chance. Only the depth of the histogram depends on them."""
        positions = self.rows.selectExpr(*(f"{x} AS axis{place}" for place, x in enumerate(self._numbers)))
        if self.count() > size:
            positions = positions.sample(fraction=size / self.count(), seed=1)
        with reporting_failures():
            table = positions.limit(2 * size).toArrow()
        return self._checked([column.to_numpy() for column in table.columns])

    def _first(self, size: int) -> list[npt.NDArray[Any]]:
        positions = self.rows.selectExpr(*(f"{x} AS axis{place}" for place, x in enumerate(self._numbers)))
        with reporting_failures():
            return [column.to_numpy() for column in positions.limit(size).toArrow().columns]

    # -- counting ------------------------------------------------------------------------------------------

    def _keyed(self, expression: str) -> Any:
        return self.rows.selectExpr(f"{expression} AS {SPARK.name(KEY)}")

    def _within(self, keyed: Any, expression: str, keys: Integers) -> Any:
        rows = keyed.selectExpr("*", f"{expression} AS {SPARK.name(_CELL)}")
        return rows.join(self._table({_CELL: keys}), _CELL, "left_semi").drop(_CELL)

    def _count_rows(self) -> int:
        with reporting_failures():
            return int(self.rows.count())

    def _count_groups(self, keyed: Any, most: int = 0) -> tuple[Integers, Integers]:
        with reporting_failures():
            found = keyed.groupBy(SPARK.name(KEY)).count().toArrow()
        keys, people = (np.asarray(column.to_numpy(), dtype=np.int64) for column in found.columns)
        return keys, people

    # -- regions -------------------------------------------------------------------------------------------

    def attach(self, hierarchy: Hierarchy, lookup: Lookup, **options: Any) -> Any:
        """Every row with its region, as a DataFrame. Its rows have no order.

        Only cells of box trees are expressions of Spark. For other trees the executors find the regions of Arrow
        batches with this package, which their Python must have.

        Parameters
        ----------
        region : str
            Name of the new column, "region" if left out: the index of the row's region, INT.
        add : mapping of str to array, optional
            Further columns per region, such as its centre: arrays with one value for each region.
        keep : sequence of str, optional
            Columns of the rows to keep; all if left out.

        Returns
        -------
        pyspark.sql.DataFrame
        """
        wanted = Wanted.check(self._every, **options)
        if fits_keys(hierarchy):
            return self._chosen(self._joined(hierarchy, self.tables(hierarchy, lookup)), wanted)
        return self._chosen(self._mapped(hierarchy, lookup), wanted)

    def _mapped(self, hierarchy: Hierarchy, lookup: Lookup) -> Any:
        """The rows with the region of each, which executors find batch by batch."""
        from pyspark.sql.types import IntegerType, StructType

        axes = self.box.dimensions
        numbers = [f"{x} AS {SPARK.name(f'semilocal axis {axis}')}" for axis, x in enumerate(self._numbers)]
        rows = self.rows.selectExpr(*self._own, *numbers)
        schema = StructType(rows.schema.fields[:-axes]).add(_REGION, IntegerType())

        def find(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow

            for batch in batches:
                columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns[-axes:]]
                region = pyarrow.array(lookup.regions(hierarchy.codes(np.stack(columns, axis=1))))
                yield pyarrow.RecordBatch.from_arrays([*batch.columns[:-axes], region], schema.names)

        return rows.mapInArrow(find, schema)

    def _joined(self, tree: BoxTree, tables: Sequence[JoinTable]) -> Any:
        """The rows with a region each; the key of a later table is asked for only where the earlier ones had none."""
        bits = max(table.bits for table in tables)
        found = [f"semilocal table {place}" for place in range(len(tables))]
        rows = self.rows.selectExpr(*self._own, f"{key(tree, self.columns, bits, SPARK)} AS {SPARK.name(KEY)}")
        for place, (name, table) in enumerate(zip(found, tables, strict=True)):
            own = coarser(tree, SPARK.name(KEY), bits, table.bits)
            if place:
                own = f"CASE WHEN {_first_of(found[:place])} IS NULL THEN {own} END"
            cell = f"semilocal cell {place}"
            rows = rows.selectExpr("*", f"{own} AS {SPARK.name(cell)}")
            rows = rows.join(self._table({cell: table.keys, name: table.regions}), cell, "left")
        region = f"coalesce({_first_of(found)}, raise_error('{CHANGED}'))"
        return rows.selectExpr(*self._own, f"{region} AS {SPARK.name(_REGION)}")

    def _chosen(self, rows: Any, wanted: Wanted) -> Any:
        """The columns that are asked for."""
        listed = [SPARK.name(column) for column in wanted.keep]
        listed.append(f"{SPARK.name(_REGION)} AS {SPARK.name(wanted.region)}")
        if wanted.add:
            added = region_columns(wanted, _REGION)
            rows = rows.join(self._table(added), _REGION)
            names = zip(list(added)[1:], wanted.add, strict=True)
            listed += [f"{SPARK.name(own)} AS {SPARK.name(name)}" for own, name in names]
        return rows.selectExpr(*listed)

    # -- rows ----------------------------------------------------------------------------------------------

    def batches(self, *others: str) -> Iterator[Floats]:
        """Positions float64[b, d] and further columns, in the order of the rows.

        Spark sorts them; the driver holds one batch, and Spark's part of it the batches of one task.
        """
        self._check_numbers(others)
        numbers = {f"axis{place}": x for place, x in enumerate([*self._numbers, *self._cast(others)])}
        sorts = list(numbers)
        if self.order is not None:
            numbers, sorts = {"place": f"CAST({SPARK.name(self.order)} AS BIGINT)"} | numbers, ["place"]
        rows = self.rows.selectExpr(*(f"{x} AS {name}" for name, x in numbers.items())).orderBy(*sorts)
        last = None
        with reporting_failures():
            for batch in _arrow_batches(rows):
                columns = [np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns]
                if self.order is not None:
                    last = _ascending(columns.pop(0), last, self.order)
                yield np.stack([column.astype(np.float64, copy=False) for column in columns], axis=1)

    def _table(self, columns: Mapping[str, npt.NDArray[Any]]) -> Any:
        import pyarrow
        from pyspark.sql.functions import broadcast

        return broadcast(self.rows.sparkSession.createDataFrame(pyarrow.table(dict(columns))))


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


def _ascending(numbers: npt.NDArray[Any], last: int | None, column: str) -> int:
    """The last of the rows' numbers; refuses a number that is missing or there twice."""
    before = numbers[:1] - 1 if last is None else np.array([last])
    if numbers.dtype.kind == "f" or np.any(np.diff(np.concatenate([before, numbers])) <= 0):
        raise InvalidInput(
            f"column {column!r} must have a different whole number in every row, because it gives the order of the "
            f"rows; some have none, or the same one: number the rows first"
        )
    return int(numbers[-1])


def load_spark() -> Any:
    """The module of Spark's SQL, or how to install it."""
    try:
        import pyarrow  # noqa: F401
        import pyspark.sql
    except ImportError as error:
        raise MissingExtra(str(error.name), "spark") from None
    return pyspark.sql


@contextmanager
def reporting_failures() -> Iterator[None]:
    """Failures of Spark as errors that say what to do."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        text = str(error)
        reason = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        if "No space left on device" in text:
            raise EngineFailed(
                "Spark ran out of disk space for its shuffle files; free some space or set spark.local.dir. Nothing "
                "was released"
            ) from error
        if "No module named" in text:
            raise EngineFailed(
                "the Python of Spark's workers lacks a module that rows need; install pyarrow there, or set "
                "PYSPARK_PYTHON to a Python that has it before the session starts. Nothing was released"
            ) from error
        if "PYTHON_VERSION_MISMATCH" in text:
            raise EngineFailed(
                "the Python of Spark's workers has another version than this one; set PYSPARK_PYTHON to the right one "
                "before the session starts. Nothing was released"
            ) from error
        if "maxResultSize" in text:
            raise EngineFailed(
                "the groups are larger than spark.driver.maxResultSize; set it higher. Nothing was released"
            ) from error
        if "MALFORMED_RECORD" in text:  # what stands there is not repeated: it may be somebody's position
            raise InvalidInput(
                "a CSV file has a line whose values are not all numbers where numbers must be; fix the file. Nothing "
                "was released"
            ) from None
        if "cancelled" in text:
            raise EngineFailed("the job was cancelled; nothing was released") from error
        raise EngineFailed(f"Spark failed: {reason}. Nothing was released") from error


def _first_of(names: Sequence[str]) -> str:
    return f"coalesce({', '.join(map(SPARK.name, names))})"
