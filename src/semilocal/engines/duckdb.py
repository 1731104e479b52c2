"""Rows in DuckDB: its relations give record batches, and regions go back as a relation.

Queries are built on relations and run by the connection they belong to. Nothing is created in it: no table, no view,
no setting. Rows with their regions are a temporary Parquet file that a relation reads.

Knows relations and SQL of DuckDB. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

import glob
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import EngineFailed, optional
from ..geometry.box import Box
from .arrow import ArrowSource, open_files
from .files import BATCH, load_arrow
from .source import Locate, kept_columns

_QUERY = ("select", "with", "from")


class DuckDBSource(ArrowSource):
    """Rows of DuckDB, or files, whose regions are asked for as a relation."""

    connection: Any = None

    def attach(self, locate: Locate, **options: Any) -> Any:
        """Every row with its region, INTEGER, as a relation, and the columns to ``keep``; all if nothing is said.

        The rows pass through this process once, batch by batch, into a temporary Parquet file that the relation reads;
        it is deleted with the source.
        """
        keep = kept_columns(self.schema.names, options)
        folder = tempfile.mkdtemp(prefix="semilocal-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        path = self.write(Path(folder) / "rows.parquet", locate, keep)
        return self.connection.read_parquet(glob.escape(str(path)))


def open_rows(
    data: Any, columns: Sequence[str], box: Box, *, connection: Any, values: Sequence[str], **chosen: Any
) -> DuckDBSource:
    """Files, a query, or a relation as a source.

    ``connection`` is the one that a query or relation belongs to; ``values`` are for files. ``chosen`` says which rows
    of a person are taken.
    """
    duckdb = load_duckdb()
    query = isinstance(data, str) and data.lstrip().lower().startswith(_QUERY) and " " in data.strip()
    if isinstance(data, duckdb.DuckDBPyRelation):
        own = connection or duckdb.default_connection()
    else:
        own = connection or duckdb.connect()
    source: Any
    if query or isinstance(data, duckdb.DuckDBPyRelation):
        with reporting_failures():
            relation = own.sql(data) if query else data
        source = _from_relation(relation, columns, box, chosen)
    else:
        source = open_files(data, columns, box, values=values, make=DuckDBSource, **chosen)
    source.connection = own
    return source  # type: ignore[no-any-return]


def _from_relation(relation: Any, columns: Sequence[str], box: Box, chosen: Mapping[str, Any]) -> DuckDBSource:
    def read(wanted: Sequence[str]) -> Iterator[Any]:
        with reporting_failures():
            yield from relation.project(", ".join(map(_quoted, wanted))).to_arrow_reader(BATCH)

    person = chosen["person"]
    with reporting_failures():
        schema = relation.limit(0).to_arrow_table().schema
    if person is None or person not in relation.columns:
        return DuckDBSource(read, columns, box, schema=schema, **chosen)
    # An engine may give the rows in another order the next time: they are numbered in the order of their contents.
    folder = tempfile.mkdtemp(prefix="semilocal-")
    try:
        path = Path(folder) / "people.parquet"
        with reporting_failures():
            relation.order("ALL").write_parquet(str(path))
        source: Any = open_files(path, columns, box, make=DuckDBSource, **chosen)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(source, shutil.rmtree, folder, True)
    return source  # type: ignore[no-any-return]


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def load_duckdb() -> Any:
    """The module of DuckDB, or how to install it."""
    optional("pyarrow", "duckdb")
    return optional("duckdb", "duckdb")


_DISK = (
    "DuckDB ran out of disk space for its temporary files; free some space, set TMPDIR to a larger disk, or give it a "
    "connection with another temp_directory or a larger max_temp_directory_size"
)
# What DuckDB says, and what to do. The rest of its words may hold somebody's position.
_FAILURES = {
    "no space left": _DISK, "max_temp_directory_size": _DISK, "failed to offload": _DISK,
    "out of memory": "DuckDB ran out of memory; give it a connection with a larger memory_limit, or with a "
    "temp_directory that it may spill to",
    "interrupt": "the query was cancelled",
}  # fmt: skip


@contextmanager
def reporting_failures() -> Iterator[None]:
    """Failures of DuckDB as errors that say what to do."""
    duckdb, arrow = load_duckdb(), load_arrow()
    try:
        yield
    except (duckdb.Error, arrow.ArrowInvalid, OSError) as error:  # readers of batches raise Arrow's
        text, kind = str(error).lower(), type(error).__name__
        other = f"DuckDB failed with {kind}; run the query alone to see why"
        known = next((words for sign, words in _FAILURES.items() if sign in text), other)
        raise EngineFailed(f"{known}. Nothing was released") from None
