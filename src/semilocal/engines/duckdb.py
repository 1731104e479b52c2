"""Rows in DuckDB: counted, refined and joined with their regions by the engine; only groups reach this process.

Queries are built on relations and run by the connection they belong to. Nothing is created in it: no table, no view,
no setting. What a query needs from here (cells, regions) is scanned from memory while the query runs.

Knows rows and SQL of DuckDB. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers
from ..errors import EngineFailed, InvalidInput, MissingExtra
from ..geometry.box import Box
from ..hierarchy.base import Hierarchy
from ..hierarchy.dyadic import BoxTree
from ..words import number_of
from .arrow import write_rows
from .expressions import DUCKDB, coarser, key
from .grouping import CHANGED, KEY, Grouping, region_columns
from .histogram import Lookup
from .joins import JoinTable, Wanted
from .keys import fits_keys
from .source import SAMPLE, Attached

__all__ = ["DuckDBSource", "load_duckdb", "reporting_failures"]

_REGION, _CELL = (f"semilocal {what}" for what in ("region", "cell"))
_BATCH = 1 << 18  # rows of a batch that is streamed through this process
_INTEGERS = [sign + size + "INT" for size in ("TINY", "SMALL", "BIG", "HUGE") for sign in ("", "U")]
_NUMBERS = {*_INTEGERS, "INTEGER", "UINTEGER", "FLOAT", "DOUBLE"}


class DuckDBSource(Grouping):
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
    order : str, optional
        The column that has the number of each row. Without it the order is the one in which the engine gives the rows:
        that of the file, but none for a query that joins or groups.
    """

    dialect = DUCKDB
    groups_per_turn = 1 << 26  # keys that may be counted in one scan: a few gigabytes of the engine's memory
    files: tuple[str, ...] = ()  # that the rows come from, as far as they are known

    def __init__(
        self, rows: Any, columns: Sequence[str], box: Box, *, connection: Any, order: str | None = None
    ) -> None:
        kinds = {name: str(kind) for name, kind in zip(rows.columns, rows.types, strict=True)}
        numbers = {name: kind in _NUMBERS or kind.startswith("DECIMAL") for name, kind in kinds.items()}
        super().__init__(columns, box, {name: (kinds[name], numbers[name]) for name in kinds}, order=order)
        self.rows, self.connection = rows, connection

    def sample(self, size: int = SAMPLE) -> Floats:
        """About ``size`` positions, each row with the same chance. Only the depth of the histogram depends on them."""
        percent = 100.0 if self.count() <= size else 100.0 * size / self.count()
        positions = self.rows.project(_listed(self._numbers))
        chosen = positions.query("positions", f"FROM positions USING SAMPLE {percent:.6f}% (bernoulli, 1)")
        with reporting_failures():
            found = chosen.limit(2 * size).fetchnumpy()
        return self._checked([found[name] for name in chosen.columns])

    def _first(self, size: int) -> list[npt.NDArray[Any]]:
        with reporting_failures():
            return list(self.rows.project(_listed(self._numbers)).limit(size).fetchnumpy().values())

    # -- counting ------------------------------------------------------------------------------------------

    def _keyed(self, expression: str) -> Any:
        return self.rows.project(f'{expression} AS "{KEY}"')

    def _within(self, keyed: Any, expression: str, keys: Integers) -> Any:
        inside = self._table({_CELL: keys}).set_alias("inside")
        return keyed.set_alias("rows").join(inside, f"{expression} = {_of('inside', _CELL)}", how="semi")

    def _count_rows(self) -> int:
        with reporting_failures():
            return int(self.rows.aggregate("count(*)").fetchall()[0][0])

    def _count_groups(self, keyed: Any, most: int = 0) -> tuple[Integers, Integers]:
        turns = -(-most // self.groups_per_turn) or 1
        keys, people = [], []
        for turn in range(turns):
            part = keyed.filter(f'hash("{KEY}") % {turns} = {turn}') if turns > 1 else keyed
            with reporting_failures():
                found = part.aggregate(f'"{KEY}" AS key, count(*) AS people', f'"{KEY}"').fetchnumpy()
            keys.append(np.asarray(found["key"], dtype=np.int64))
            people.append(np.asarray(found["people"], dtype=np.int64))
        return np.concatenate(keys), np.concatenate(people)

    # -- regions -------------------------------------------------------------------------------------------

    def attach(self, hierarchy: Hierarchy, lookup: Lookup, **options: Any) -> Any:
        """Every row with its region, as a relation. Nothing is computed before the relation is used.

        The relation may be queried, or written by the engine (``write_parquet``, ``write_csv``, ``COPY``). Its rows
        have no order.

        Only cells of box trees are expressions of SQL. For other trees the rows pass through this process once, batch
        by batch, into a temporary Parquet file that the relation reads; it is deleted with the source.

        Parameters
        ----------
        region : str
            Name of the new column, "region" if left out: the index of the row's region, INTEGER.
        add : mapping of str to array, optional
            Further columns per region, such as its centre: arrays with one value for each region.
        keep : sequence of str, optional
            Columns of the rows to keep; all if left out.

        Returns
        -------
        duckdb.DuckDBPyRelation
        """
        wanted = Wanted.check(self.rows.columns, **options)
        if not fits_keys(hierarchy):
            return self._written(hierarchy, lookup, wanted)
        return self._chosen(self._joined(hierarchy, self.tables(hierarchy, lookup)), wanted)

    def _written(self, hierarchy: Hierarchy, lookup: Lookup, wanted: Wanted) -> Any:
        """Every row with its region in a Parquet file of our own."""
        import pyarrow

        folder = Path(tempfile.mkdtemp(prefix="semilocal-"))
        weakref.finalize(self, shutil.rmtree, folder, True)
        axes = self.box.dimensions
        names = [f"kept {place}" for place in range(len(wanted.keep))]
        beside: deque[Any] = deque()

        def parts() -> Iterator[Attached]:
            for batch in self._arrow([*self._numbers, *map(DUCKDB.name, wanted.keep)]):
                positions = _positions(batch.columns[:axes])
                beside.append(pyarrow.RecordBatch.from_arrays(list(batch.columns[axes:]), names))
                yield Attached(positions, lookup.regions(hierarchy.codes(positions)))

        added = {f"added {place}": values for place, values in enumerate(wanted.add.values())}
        path = write_rows(folder / "rows.parquet", parts(), added, kept=iter(beside.popleft, None))
        listed, names_out = [*names, "region", *added], [*wanted.keep, wanted.region, *wanted.add]
        return self.connection.read_parquet(str(path)).project(
            ", ".join(f"{DUCKDB.name(own)} AS {DUCKDB.name(name)}" for own, name in zip(listed, names_out, strict=True))
        )

    def _joined(self, tree: BoxTree, tables: Sequence[JoinTable]) -> Any:
        """The rows with a region each; the key of a later table is asked for only where the earlier ones had none."""
        bits = max(table.bits for table in tables)
        rows = self.rows.project(f'*, {key(tree, self.columns, bits, DUCKDB)} AS "{KEY}"')
        found = [f"semilocal table {place}" for place in range(len(tables))]
        for place, (name, table) in enumerate(zip(found, tables, strict=True)):
            side = self._table({_CELL: table.keys, name: table.regions}).set_alias("side")
            own = coarser(tree, _of("rows", KEY), bits, table.bits)
            if place:
                earlier = ", ".join(_of("rows", other) for other in found[:place])
                own = f"CASE WHEN coalesce({earlier}) IS NULL THEN {own} END"
            rows = rows.set_alias("rows").join(side, f"{own} = {_of('side', _CELL)}", how="left")
            rows = rows.project(f'"rows".*, {_of("side", name)}')
        tried = ", ".join(map(DUCKDB.name, found))
        return rows.project(f"{self._listed}, coalesce({tried}, error('{CHANGED}')) AS \"{_REGION}\"")

    def _chosen(self, rows: Any, wanted: Wanted) -> Any:
        """The columns that are asked for."""
        rows = rows.set_alias("rows")
        listed = [DUCKDB.name(column) for column in wanted.keep]
        listed.append(f'"{_REGION}" AS {DUCKDB.name(wanted.region)}')
        if wanted.add:
            added = region_columns(wanted, _CELL)
            rows = rows.join(self._table(added).set_alias("side"), f'"{_REGION}" = {_of("side", _CELL)}')
            names = zip(list(added)[1:], wanted.add, strict=True)
            listed += [f"{_of('side', own)} AS {DUCKDB.name(name)}" for own, name in names]
        return rows.project(", ".join(listed))

    # -- rows ----------------------------------------------------------------------------------------------

    def batches(self, *others: str) -> Iterator[Floats]:
        """Positions float64[b, d] and further columns, in the order of the rows."""
        self._check_numbers(others)
        for batch in self._arrow([*self._numbers, *self._cast(others)]):
            yield _positions(batch.columns)

    def _arrow(self, expressions: Sequence[str]) -> Iterator[Any]:
        """Record batches of expressions, in the order of the rows."""
        rows = self.rows if self.order is None else self.rows.order(DUCKDB.name(self.order))
        with reporting_failures():
            yield from rows.project(_listed(expressions)).to_arrow_reader(_BATCH)

    @property
    def _listed(self) -> str:
        return ", ".join(self._own)

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
        reason = _reason(error)
        lowered = reason.lower()
        if "no space left" in lowered or "max_temp_directory_size" in lowered or "failed to offload" in lowered:
            raise EngineFailed(
                f"DuckDB ran out of disk space for its temporary files: {reason}; free some space, set TMPDIR to a "
                "larger disk, or give it a connection with another temp_directory or a larger "
                "max_temp_directory_size. Nothing was released"
            ) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise EngineFailed(
                f"DuckDB ran out of memory: {reason}; give it a connection with a larger memory_limit, or with a "
                "temp_directory that it may spill to. Nothing was released"
            ) from error
        if isinstance(error, duckdb.InterruptException):
            raise EngineFailed("the query was cancelled; nothing was released and nothing is left behind") from error
        if isinstance(error, duckdb.ConversionException | duckdb.InvalidInputException | duckdb.IOException):
            raise InvalidInput(f"DuckDB cannot read the rows: {reason}; check the files") from None
        raise EngineFailed(f"DuckDB failed: {reason}. Nothing was released") from error


def _reason(error: Exception) -> str:
    """What DuckDB says, without the line that it could not read: it may be somebody's position."""
    words = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", words)
    if unlike := re.search(r'Error when sniffing file "(.*?)"', words):
        return f"a line of {unlike[1]} has more or fewer values than the header; fix it or remove it"
    if line is None:
        return re.sub(
            r"[Cc]ould not convert string .* to", "could not convert a value to", words.split("\n\n")[0].strip()
        )
    file = re.search(r"^ *file = (.*)$", words, re.MULTILINE)
    where = f"line {line[1]} of {file[1] if file else 'a CSV file'}"
    if column := re.search(r'converting column "(.*?)"', words):
        return f"{where}, column {column[1]!r}, is not a number; fix it or remove the line"
    if size := re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", words):
        return f"{where} has {number_of(int(size[2]), 'value')}, the header {size[1]}; fix it or remove it"
    return f"{where} is not complete; fix it or remove it"


def _positions(columns: Sequence[Any]) -> Floats:
    """Columns of Arrow as float64[b, c]."""
    return np.stack([np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64) for column in columns], axis=1)


def _listed(numbers: Sequence[str]) -> str:
    return ", ".join(f"{x} AS axis{place}" for place, x in enumerate(numbers))


def _of(alias: str, column: str) -> str:
    return f'"{alias}".{DUCKDB.name(column)}'
