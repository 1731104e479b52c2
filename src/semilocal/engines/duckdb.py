"""Rows in DuckDB: its relations give record batches, and regions go back as a relation.

Queries are built on relations and run by the connection they belong to. Nothing is created in it: no table, no view,
no setting. Rows with their regions are a temporary Parquet file that a relation reads.

Knows relations and SQL of DuckDB. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import EngineFailed, InvalidInput, MissingExtra, listed_columns
from ..geometry.box import Box
from ..hierarchy.base import Hierarchy
from .arrow import ArrowSource, open_files
from .files import BATCH, PARQUET, load_arrow
from .histogram import Lookup
from .source import Wanted

__all__ = ["DuckDBSource", "load_duckdb", "open_rows", "reporting_failures"]

_QUERY = ("select", "with", "from")
_TWIN, _RANK = "semilocal twin", "semilocal rank"


class DuckDBSource(ArrowSource):
    """Rows of DuckDB, or files, whose regions are asked for as a relation."""

    connection: Any = None

    def attach(self, hierarchy: Hierarchy, lookup: Lookup, **options: Any) -> Any:
        """Every row with its region, as a relation.

        The rows pass through this process once, batch by batch, into a temporary Parquet file that the relation reads;
        it is deleted with the source.

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
        wanted = Wanted.check(self.schema.names, **options)
        path = self.write(Path(_folder_of(self)) / "rows.parquet", hierarchy, lookup, wanted)
        return self.connection.read_parquet(glob.escape(str(path)))


def open_rows(
    data: Any, columns: Sequence[str], box: Box, *, order: str | None = None, connection: Any = None, **named: Any
) -> DuckDBSource:
    """Open files, a query, or a relation as a source.

    Parameters
    ----------
    data : str, Path, sequence of them, or duckdb.DuckDBPyRelation
        Files, folders and patterns such as ``"points/*.parquet"``; an address that DuckDB can read (``"s3://..."``);
        or a query (``"SELECT x, y FROM ..."``).
    columns : sequence of str
        Columns with the positions, one per axis of the box.
    box : Box
    order : str, optional
        The column that has the number of each row; files need none. Without it the order is the one in which the engine
        gives the rows: none for a query that joins or groups.
    connection : duckdb.DuckDBPyConnection, optional
        Where queries and relations belong to. Nothing is changed in it. Without it a relation must belong to DuckDB's
        default connection.
    **named
        ``person``, ``rows_per_person``, ``key``, ``values`` and ``leaves`` of :func:`semilocal.engines.open_source`.
    """
    duckdb = load_duckdb()
    query = isinstance(data, str) and data.lstrip().lower().startswith(_QUERY) and " " in data.strip()
    if isinstance(data, duckdb.DuckDBPyRelation):
        own = connection or duckdb.default_connection()
    else:
        own = connection or duckdb.connect()
    source: Any
    if query or isinstance(data, duckdb.DuckDBPyRelation) or (isinstance(data, str) and "://" in data):
        with reporting_failures():
            relation = own.sql(data) if query else _at(own, data) if isinstance(data, str) else data
        source = _from_relation(relation, columns, box, order=order, connection=own, **named)
    else:
        if order is not None:
            raise InvalidInput("order is for queries and relations; rows of files have numbers already")
        source = open_files(data, columns, box, make=DuckDBSource, **named)
    source.connection = own
    return source  # type: ignore[no-any-return]


def _at(connection: Any, address: str) -> Any:
    """The relation of an address."""
    return connection.read_parquet(address) if address.lower().endswith(PARQUET) else connection.read_csv(address)


def _from_relation(
    relation: Any, columns: Sequence[str], box: Box, *, order: str | None, connection: Any, person: str | None = None,
    rows_per_person: int = 1, key: int = 0, values: Sequence[str] = (), leaves: None = None,
) -> DuckDBSource:  # fmt: skip
    def read(wanted: Sequence[str]) -> Iterator[Any]:
        rows = relation if order is None else relation.order(_quoted(order))
        with reporting_failures():
            yield from rows.project(", ".join(map(_quoted, wanted))).to_arrow_reader(BATCH)

    with reporting_failures():
        schema = relation.limit(0).to_arrow_table().schema
    every = DuckDBSource(read, columns, box, schema=schema)
    if person is None:
        return every
    if person not in relation.columns:
        raise InvalidInput(f"there is no column {person!r}; the columns are {listed_columns(relation.columns)}")
    every.check()  # also the rows that are not chosen
    with reporting_failures():
        nobody = int(relation.filter(f"{_quoted(person)} IS NULL").aggregate("count(*)").fetchall()[0][0])
    if nobody:
        raise InvalidInput(
            f"{nobody:,} rows have no value in column {person!r}, which says whose row it is; remove them first: "
            "nothing was released"
        )
    if order is not None:
        return DuckDBSource(read, columns, box, schema=schema, person=person, rows_per_person=rows_per_person, key=key)
    folder = tempfile.mkdtemp(prefix="semilocal-")
    try:
        path = os.path.join(folder, "people.parquet")
        with reporting_failures():
            _chosen_by_content(relation, person, rows_per_person, key).write_parquet(path)
        chosen: Any = open_files(path, columns, box, make=DuckDBSource)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(chosen, shutil.rmtree, folder, True)
    chosen.everybody, chosen.rows_per_person = every, rows_per_person
    return chosen  # type: ignore[no-any-return]


def _chosen_by_content(relation: Any, person: str, rows_per_person: int, key: int) -> Any:
    """At most a given number of rows of every person, each with the same chance.

    The rows have no number, because an engine may give them in another order the next time: a keyed hash of their
    contents and, among equal rows, of a number takes its place.
    """
    every = ", ".join(map(_quoted, relation.columns))
    texts = ", ".join(f"coalesce('=' || CAST({_quoted(column)} AS VARCHAR), '')" for column in relation.columns)
    twins = relation.project(f'*, row_number() OVER (PARTITION BY {every}) AS "{_TWIN}"')
    scored = f"sha256(concat_ws(chr(31), '{key:016x}', {texts}, CAST(\"{_TWIN}\" AS VARCHAR)))"
    ranked = twins.project(f'*, row_number() OVER (PARTITION BY {_quoted(person)} ORDER BY {scored}) AS "{_RANK}"')
    return ranked.filter(f'"{_RANK}" <= {int(rows_per_person)}').project(every)


def _folder_of(source: DuckDBSource) -> str:
    """A new folder that is deleted with the source."""
    folder = tempfile.mkdtemp(prefix="semilocal-")
    weakref.finalize(source, shutil.rmtree, folder, True)
    return folder


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


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
    arrow = load_arrow()
    try:
        yield
    except (duckdb.Error, arrow.ArrowInvalid, OSError) as error:  # readers of batches raise Arrow's
        reason, kind = _reason(str(error)), str(error).partition(" Error")[0].lower()
        lowered = reason.lower()
        if "no space left" in lowered or "max_temp_directory_size" in lowered or "failed to offload" in lowered:
            raise EngineFailed(
                f"DuckDB ran out of disk space for its temporary files: {reason}; free some space, set TMPDIR to a "
                "larger disk, or give it a connection with another temp_directory or a larger "
                "max_temp_directory_size. Nothing was released"
            ) from error
        if "out of memory" in kind:
            raise EngineFailed(
                f"DuckDB ran out of memory: {reason}; give it a connection with a larger memory_limit, or with a "
                "temp_directory that it may spill to. Nothing was released"
            ) from error
        if "interrupt" in kind:
            raise EngineFailed("the query was cancelled; nothing was released and nothing is left behind") from error
        if kind in ("conversion", "invalid input", "io"):
            raise InvalidInput(f"DuckDB cannot read the rows: {reason}; check the rows") from None
        raise EngineFailed(f"DuckDB failed: {reason}. Nothing was released") from error


def _reason(text: str) -> str:
    """What DuckDB says, without the line that it could not read: it may be somebody's position."""
    file = re.search(r"^ *file = (.*)$|when sniffing file \"(.*?)\"", text, re.MULTILINE)
    if (line := re.search(r"CSV Error on Line: (\d+)", text)) or file:
        where = f"line {line[1]} of " if line else "a line of "
        return f"{where}{file[1] or file[2] if file else 'a CSV file'} is not like the others; fix it or remove it"
    return re.sub(r"[Cc]ould not convert string .* to", "could not convert a value to", text.split("\n\n")[0].strip())
