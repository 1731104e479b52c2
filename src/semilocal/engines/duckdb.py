"""Rows in DuckDB: counted, refined and joined with their regions by the engine; only groups reach this process.

Queries are built on relations and run by the connection they belong to. Nothing is created in it: no table, no view,
no setting. What a query needs from here (cells, regions) is scanned from memory while the query runs.

Knows rows and SQL of DuckDB. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, sort_with_order
from ..errors import EngineFailed, InvalidInput, MissingExtra
from ..geometry.box import Box
from ..hierarchy.base import Cells, Hierarchy
from ..hierarchy.dyadic import BoxTree
from .expressions import DUCKDB, coarser, key
from .histogram import MOVED, Histogram, Lookup
from .joins import Groups, JoinTable, Wanted, covers, join_tables, moved_places, unclear_cells
from .keys import cells_of_keys, keys_of_cells
from .source import SAMPLE, Streamed, refuse_bad_rows

__all__ = ["DuckDBSource", "load_duckdb", "reporting_failures"]

_KEY, _REGION, _PLACE = "semilocal key", "semilocal region", "semilocal place"
_BATCH = 1 << 18  # rows of a batch that is streamed through this process
_NUMBERS = [
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
    "FLOAT",
    "DOUBLE",
]


class DuckDBSource(Streamed):
    """A relation of DuckDB as a source.

    Parameters
    ----------
    rows : duckdb.DuckDBPyRelation
        One row per person, of any size; it is never materialised.
    columns : sequence of str
        Numeric columns with the positions, one per axis of the box.
    box : Box
    connection : duckdb.DuckDBPyConnection
        The one that the relation belongs to.
    """

    def __init__(self, rows: Any, columns: Sequence[str], box: Box, *, connection: Any) -> None:
        super().__init__(box)
        self.rows, self.columns, self.connection = rows, tuple(columns), connection
        self._people: int | None = None
        self._counted: dict[bytes, list[Groups]] = {}
        _check_columns(rows, self.columns, box)

    # -- checks --------------------------------------------------------------------------------------------

    def count(self) -> int:
        """Number of rows."""
        if self._people is None:
            with reporting_failures():
                self._people = int(self.rows.aggregate("count(*)").fetchall()[0][0])
        return self._people

    def check(self) -> None:
        """Refuse rows that have no value, are not finite or lie outside, with how many there are. One scan."""
        axes = list(zip(self._numbers, self.box.lower, self.box.upper, strict=True))
        null = " OR ".join(f"{x} IS NULL" for x, _, _ in axes)
        finite = " AND ".join(f"isfinite({x})" for x, _, _ in axes)
        inside = " AND ".join(f"{x} >= {low:.17e} AND {x} <= {high:.17e}" for x, low, high in axes)
        kind = f"CASE WHEN {null} THEN 1 WHEN NOT ({finite}) THEN 2 WHEN NOT ({inside}) THEN 3 ELSE 0 END"
        with reporting_failures():
            found = self.rows.project(f"{kind} AS kind").aggregate("kind, count(*)", "kind").fetchall()
        counts = {int(number): int(people) for number, people in found}
        self._people = sum(counts.values())
        refuse_bad_rows(
            self.box, rows=self._people, null=counts.get(1, 0), missing=counts.get(2, 0), outside=counts.get(3, 0)
        )

    def sample(self, size: int = SAMPLE) -> Floats:
        """About ``size`` positions, each row with the same chance. Only the depth of the histogram depends on them."""
        percent = 100.0 if self.count() <= size else 100.0 * size / self.count()
        chosen = self._positions().query("positions", f"FROM positions USING SAMPLE {percent:.6f}% (bernoulli, 1)")
        with reporting_failures():
            found = chosen.limit(2 * size).fetchnumpy()
        positions = np.stack([np.asarray(found[name], dtype=np.float64) for name in chosen.columns], axis=1)
        return positions

    # -- counting ------------------------------------------------------------------------------------------

    def histogram(self, hierarchy: Hierarchy, depth: int) -> Histogram:
        """How many rows are in each cell of this depth. One scan and one group-by of the engine."""
        if not isinstance(hierarchy, BoxTree):
            return super().histogram(hierarchy, depth)
        bits = hierarchy.level_bits * depth
        found, groups = self._group(hierarchy, self._keyed(hierarchy, bits), depth)
        self._counted = {hierarchy.digest(): [groups]}
        return found

    def refine(self, hierarchy: Hierarchy, cells: Cells, depth: int, deeper: int) -> Histogram:
        """The same at depth ``deeper``, of the rows in these cells of depth ``depth`` alone. One scan."""
        if not isinstance(hierarchy, BoxTree):
            return super().refine(hierarchy, cells, depth, deeper)
        found, groups = self._refined(hierarchy, cells, depth, deeper)
        known = self._counted.get(hierarchy.digest(), [])
        if known and known[0].bits == hierarchy.level_bits * depth:
            known[1:] = [groups]
        return found

    def _refined(self, tree: BoxTree, cells: Cells, depth: int, deeper: int) -> tuple[Histogram, Groups]:
        bits, fewer = tree.level_bits * deeper, tree.level_bits * depth
        inside = self._table({_KEY: keys_of_cells(tree, cells, fewer)})
        rows = self._keyed(tree, bits).set_alias("rows")
        condition = f"{coarser(tree, _of('rows', _KEY), bits, fewer)} = {_of('inside', _KEY)}"
        return self._group(tree, rows.join(inside.set_alias("inside"), condition, how="semi"), deeper)

    def _group(self, tree: BoxTree, keyed: Any, depth: int) -> tuple[Histogram, Groups]:
        bits = tree.level_bits * depth
        with reporting_failures():
            found = keyed.aggregate(f'"{_KEY}" AS key, count(*) AS people', f'"{_KEY}"').fetchnumpy()
        keys = np.asarray(found["key"], dtype=np.int64)
        if (keys < 0).any():
            self.check()
            raise InvalidInput("the rows changed while they were read; run it on data that nobody writes to")
        cells, order = sort_with_order(cells_of_keys(tree, keys, bits), 1 << bits, (2 << bits) - 1)
        people = np.asarray(found["people"], dtype=np.int64)[order]
        return Histogram(depth, cells, people), Groups(bits, cells, keys[order])

    # -- regions -------------------------------------------------------------------------------------------

    def attach(self, hierarchy: Hierarchy, lookup: Lookup, **options: Any) -> Any:
        """Every row with its region, as a relation. Nothing is computed before the relation is used.

        The relation may be queried, or written by the engine (``write_parquet``, ``write_csv``, ``COPY``). Its rows
        have no order.

        Parameters
        ----------
        region : str
            Name of the new column, "region" if left out: the index of the row's region, INTEGER.
        add : mapping of str to array, optional
            Further columns per region, such as its centre: arrays with one value for each region.
        keep : sequence of str, optional
            Columns of the rows to keep; all if left out.
        acting : sequence of str, optional
            Names for columns with the position that each row acts from, one per axis: its own, or the one it was moved
            to.

        Returns
        -------
        duckdb.DuckDBPyRelation
        """
        if not isinstance(hierarchy, BoxTree):
            raise InvalidInput(
                f"DuckDB finds regions of box trees; got a {type(hierarchy).__name__}. Use the engine 'arrow'"
            )
        wanted = Wanted.check(self.rows.columns, self.box, **options)
        joined = self._joined(hierarchy, self._tables(hierarchy, lookup))
        if not len(lookup.moved_regions):
            return self._chosen(joined, wanted)
        still = self._chosen(joined.filter(f'"{_REGION}" <> {MOVED}'), wanted)
        moved = self._moved(hierarchy, lookup, joined.filter(f'"{_REGION}" = {MOVED}'), wanted)
        return still.union(self._chosen(moved, wanted, moved=True))

    def _tables(self, tree: BoxTree, lookup: Lookup) -> list[JoinTable]:
        """Tables of keys and regions, from the cells that were counted; what is not known yet is counted."""
        if tree.digest() not in self._counted:
            self.histogram(tree, min(tree.max_depth, 24 // tree.level_bits + 1))
        groups, *finer = self._counted[tree.digest()]
        unclear = unclear_cells(tree, lookup, groups)
        if len(unclear) and not (finer and covers(finer[0], unclear, groups.bits)):
            finer = [self._refined(tree, unclear, groups.bits // tree.level_bits, tree.max_depth)[1]]
        return join_tables(tree, lookup, groups, finer[0] if finer else None)

    def _joined(self, tree: BoxTree, tables: Sequence[JoinTable]) -> Any:
        """The rows with a region each; the key of a later table is asked for only where the earlier ones had none."""
        bits = max(table.bits for table in tables)
        rows = self._keyed(tree, bits, every=True)
        found: list[str] = []
        for number, table in enumerate(tables):
            name = f"table {number}"
            side = self._table({"cell": table.keys, name: table.regions}).set_alias(name)
            own = coarser(tree, _of("rows", _KEY), bits, table.bits)
            if found:
                own = f"CASE WHEN coalesce({', '.join(found)}) IS NULL THEN {own} END"
            rows = rows.set_alias("rows").join(side, f"{own} = {_of(name, 'cell')}", how="left")
            found.append(_of("rows", name))
            rows = rows.project(f'"rows".*, {_of(name, name)}')
        changed = "error('the rows changed while they were read: run it on data that nobody writes to')"
        tried = ", ".join(f'"table {number}"' for number in range(len(tables)))
        return rows.project(f'{self._own}, coalesce({tried}, {changed}) AS "{_REGION}"')

    def _moved(self, tree: BoxTree, lookup: Lookup, rows: Any, wanted: Wanted) -> Any:
        """The rows that were moved, with the region of each and the position it acts from.

        They are ordered by code, and rows with equal codes by their contents: only equal rows can change places.
        """
        rows = rows.project(f'{self._own}, {key(tree, self.columns, tree.path_bits, DUCKDB)} AS "{_KEY}"')
        counted, groups = self._group(tree, rows, tree.max_depth)
        places = self._table({"cell": groups.keys, "first": moved_places(lookup, counted.counts)})
        contents = ", ".join(f"CAST({DUCKDB.name(column)} AS VARCHAR) NULLS FIRST" for column in self.rows.columns)
        among = f'row_number() OVER (PARTITION BY "{_KEY}" ORDER BY {contents}) - 1'
        rows = rows.project(f'*, {among} AS "{_PLACE}"').set_alias("rows")
        rows = rows.join(places.set_alias("places"), f'{_of("rows", _KEY)} = "places".cell')
        rows = rows.project(f'{self._own}, {_of("rows", _PLACE)} + "places"."first" AS "{_PLACE}"').set_alias("rows")
        ends = {"place": np.arange(len(lookup.moved_regions)), _REGION: lookup.moved_regions}
        for axis, middles in enumerate(tree.middles(lookup.moved_codes).T if wanted.acting else ()):
            ends[_acting(axis)] = np.ascontiguousarray(middles)
        return rows.join(self._table(ends).set_alias("ends"), f'{_of("rows", _PLACE)} = "ends".place')

    def _chosen(self, rows: Any, wanted: Wanted, *, moved: bool = False) -> Any:
        """The columns that are asked for."""
        rows = rows.set_alias("rows")
        listed = [DUCKDB.name(column) for column in wanted.keep]
        listed.append(f'"{_REGION}" AS {DUCKDB.name(wanted.region)}')
        for axis, name in enumerate(wanted.acting):
            listed.append(f"{DUCKDB.name(_acting(axis)) if moved else self._numbers[axis]} AS {DUCKDB.name(name)}")
        if wanted.add:
            values = {f"added {place}": column for place, column in enumerate(wanted.add.values())}
            regions = np.arange(len(values["added 0"]), dtype=np.int32)
            side = self._table({_REGION: regions, **values}).set_alias("regions")
            rows = rows.join(side, f"{_of('rows', _REGION)} = {_of('regions', _REGION)}")
            listed = [entry.replace(f'"{_REGION}"', _of("rows", _REGION)) for entry in listed]
            listed += [f'"regions"."added {place}" AS {DUCKDB.name(name)}' for place, name in enumerate(wanted.add)]
        return rows.project(", ".join(listed))

    # -- rows ----------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Floats]:
        """Positions float64[b, d], in the order in which the engine gives the rows."""
        with reporting_failures():
            for batch in self._positions().to_arrow_reader(_BATCH):
                columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
                yield np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)

    @property
    def _own(self) -> str:
        return ", ".join(DUCKDB.name(column) for column in self.rows.columns)

    @property
    def _numbers(self) -> list[str]:
        return [f"CAST({DUCKDB.name(column)} AS DOUBLE)" for column in self.columns]

    def _positions(self) -> Any:
        return self.rows.project(", ".join(f"{x} AS axis{place}" for place, x in enumerate(self._numbers)))

    def _keyed(self, tree: BoxTree, bits: int, *, every: bool = False) -> Any:
        """The rows with their keys; the keys alone, or all columns too."""
        others = "*, " if every else ""
        return self.rows.project(f'{others}{key(tree, self.columns, bits, DUCKDB)} AS "{_KEY}"')

    def _table(self, columns: Mapping[str, npt.NDArray[Any]]) -> Any:
        import pyarrow

        return self.connection.from_arrow(pyarrow.table(dict(columns)))


def load_duckdb() -> Any:
    """The module of DuckDB, or how to install it."""
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtra(str(error.name), "duckdb") from None
    return duckdb


@contextmanager
def reporting_failures() -> Iterator[None]:
    """Failures of DuckDB as errors that say what to do."""
    duckdb = load_duckdb()
    try:
        yield
    except duckdb.Error as error:
        reason = str(error).split("\n\n")[0].strip()
        lowered = reason.lower()
        if "no space left" in lowered or "max_temp_directory_size" in lowered or "failed to offload" in lowered:
            raise EngineFailed(
                f"DuckDB ran out of disk space for its temporary files: {reason}; free some space, or give it a "
                "connection with another temp_directory or a larger max_temp_directory_size. Nothing was released"
            ) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise EngineFailed(
                f"DuckDB ran out of memory: {reason}; give it a connection with a larger memory_limit, or with a "
                "temp_directory that it may spill to. Nothing was released"
            ) from error
        if isinstance(error, duckdb.InterruptException):
            raise EngineFailed("the query was cancelled; nothing was released and nothing is left behind") from error
        if isinstance(error, duckdb.ConversionException | duckdb.InvalidInputException | duckdb.IOException):
            raise InvalidInput(f"DuckDB cannot read the rows: {reason}; check the files") from error
        raise EngineFailed(f"DuckDB failed: {reason}. Nothing was released") from error


def _check_columns(rows: Any, columns: Sequence[str], box: Box) -> None:
    if len(columns) != box.dimensions:
        raise InvalidInput(f"the box has {box.dimensions} axes; got {len(columns)} columns: {', '.join(columns)}")
    types = dict(zip(rows.columns, map(str, rows.types), strict=True))
    if missing := [column for column in columns if column not in types]:
        raise InvalidInput(f"there is no column {missing[0]!r}; the columns are: {', '.join(types)}")
    for column in columns:
        if types[column] not in _NUMBERS and not types[column].startswith("DECIMAL"):
            raise InvalidInput(f"column {column!r} holds {types[column]}, not numbers; choose another, or cast it")
    if taken := [column for column in types if column.startswith("semilocal ")]:
        raise InvalidInput(f"the name of column {taken[0]!r} is reserved; rename it first")


def _of(alias: str, column: str) -> str:
    return f'"{alias}".{DUCKDB.name(column)}'


def _acting(axis: int) -> str:
    return f"semilocal acting {axis}"
