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
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers
from ..errors import EngineFailed, InvalidInput, MissingExtra
from ..geometry.box import Box
from ..hierarchy.base import Hierarchy
from ..hierarchy.dyadic import BoxTree
from .expressions import SPARK, coarser, key
from .grouping import CHANGED, KEY, MOVES, ROW, Grouping, acting_name, moved_ends, region_columns
from .histogram import MOVED, Lookup
from .joins import JoinTable, Wanted, moved_places
from .keys import keys_of_cells
from .source import SAMPLE

__all__ = ["SparkSource", "load_spark", "reporting_failures"]

_REGION, _PLACE, _FIRST, _AMONG, _CELL = (f"semilocal {what}" for what in ("region", "place", "first", "among", "cell"))
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
        acting : sequence of str, optional
            Names for columns with the position that each row acts from, one per axis: its own, or the one it was moved
            to.
        moves : str, optional
            Name for a column with how often each row was moved. Private, like the rows themselves.

        Returns
        -------
        pyspark.sql.DataFrame
        """
        wanted = Wanted.check(self._every, self.box, **options)
        if isinstance(hierarchy, BoxTree):
            tables = self.tables(hierarchy, lookup)
            joined = self._joined(hierarchy, tables)
        else:
            joined = self._mapped(hierarchy, lookup)
        if not len(lookup.moved_regions):
            return self._chosen(joined, wanted)
        still = self._chosen(joined.where(f"{SPARK.name(_REGION)} <> {MOVED}"), wanted)
        if isinstance(hierarchy, BoxTree):
            rows, keys, counts = self._moved_keys(hierarchy, self._in_moved_cells(hierarchy, tables))
        else:
            rows = joined.where(f"{SPARK.name(_REGION)} = {MOVED}").drop(_REGION)
            keys, counts = self._count_groups(rows)
            order = np.argsort(keys)  # codes ascend along the curve
            keys, counts = keys[order], counts[order]
        moved = self._moved(hierarchy, lookup, rows, keys, counts, wanted)
        return still.unionByName(self._chosen(moved, wanted, moved=True))

    def _mapped(self, hierarchy: Hierarchy, lookup: Lookup) -> Any:
        """The rows with the code (``KEY``) and the region of each, which executors find batch by batch."""
        from pyspark.sql.types import IntegerType, LongType, StructType

        carried, axes = self._carried, self.box.dimensions
        numbers = [f"{x} AS {SPARK.name(acting_name(axis))}" for axis, x in enumerate(self._numbers)]
        rows = self.rows.selectExpr(*carried, *numbers)
        schema = StructType(rows.schema.fields[:-axes]).add(KEY, LongType()).add(_REGION, IntegerType())

        def find(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow

            for batch in batches:
                columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns[-axes:]]
                codes = hierarchy.codes(np.stack(columns, axis=1))
                found = [pyarrow.array(codes.astype(np.int64)), pyarrow.array(lookup.regions[lookup.interval(codes)])]
                yield pyarrow.RecordBatch.from_arrays([*batch.columns[:-axes], *found], schema.names)

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

    def _in_moved_cells(self, tree: BoxTree, tables: Sequence[JoinTable]) -> Any:
        """The rows that were moved. No row is in cells of two tables."""
        parts = [
            self._within(self.rows, key(tree, self.columns, table.bits, SPARK), table.keys[table.regions == MOVED])
            for table in tables
            if (table.regions == MOVED).any()
        ]
        return reduce(lambda one, other: one.unionByName(other), parts)

    @property
    def _carried(self) -> list[str]:
        """All columns that rows need until they are in order, quoted."""
        return [*self._own, *([SPARK.name(ROW)] if self.order == ROW else [])]

    def _moved_keys(self, tree: BoxTree, rows: Any) -> tuple[Any, Integers, Integers]:
        """Rows with their key at the deepest level, these keys in the order of the curve, and how often each is."""
        deepest = f"{key(tree, self.columns, tree.path_bits, SPARK)} AS {SPARK.name(KEY)}"
        rows = rows.selectExpr(*self._carried, deepest)
        counted, groups = self.group(tree, rows, tree.max_depth)
        return rows, keys_of_cells(tree, groups.cells, groups.bits), counted.counts

    def _moved(
        self, tree: Hierarchy, lookup: Lookup, rows: Any, keys: Integers, counts: Integers, wanted: Wanted
    ) -> Any:
        """The rows that were moved, with the region of each and the position it acts from.

        They are ordered by code, and rows with equal codes by their number, or by their contents where they have none:
        only equal rows can change places.
        """
        places = self._table({KEY: keys, _FIRST: moved_places(lookup, counts)})
        contents = ", ".join(f"CAST({column} AS STRING)" for column in self._own)
        if self.order is not None:
            contents = SPARK.name(self.order)
        among = f"row_number() OVER (PARTITION BY {SPARK.name(KEY)} ORDER BY {contents}) - 1"
        rows = rows.selectExpr("*", f"{among} AS {SPARK.name(_AMONG)}").join(places, KEY)
        rows = rows.selectExpr(*self._own, f"{SPARK.name(_AMONG)} + {SPARK.name(_FIRST)} AS {SPARK.name(_PLACE)}")
        return rows.join(self._table(moved_ends(tree, lookup, wanted, _REGION, _PLACE)), _PLACE)

    def _chosen(self, rows: Any, wanted: Wanted, *, moved: bool = False) -> Any:
        """The columns that are asked for."""
        listed = [SPARK.name(column) for column in wanted.keep]
        listed.append(f"{SPARK.name(_REGION)} AS {SPARK.name(wanted.region)}")
        for axis, name in enumerate(wanted.acting):
            own = SPARK.name(acting_name(axis)) if moved else self._numbers[axis]
            listed.append(f"{own} AS {SPARK.name(name)}")
        if wanted.moves:
            listed.append(f"{SPARK.name(MOVES) if moved else 'CAST(0 AS SMALLINT)'} AS {SPARK.name(wanted.moves)}")
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
