"""Files, queries and relations as rows of DuckDB, checked before anything is counted.

DuckDB itself takes the types of the first file for all of them, and the columns of CSV files by their place: a float
becomes a whole number, x and y change places, and there is no error. Files that do not agree are refused here.

Knows files and relations. Knows no mechanisms.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidInput, listed_columns
from ..geometry.box import Box
from ..simulation.people import Scores
from .duckdb import DuckDBSource, load_duckdb, reporting_failures
from .expressions import DUCKDB, score
from .grouping import ROW
from .labels import in_duckdb
from .source import PARQUET

__all__ = ["choose_rows", "open_rows"]

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".csv.zst")
_QUERY = ("select", "with", "from")
_TWIN, _RANK = "semilocal twin", "semilocal rank"


def open_rows(
    data: Any,
    columns: Sequence[str],
    box: Box,
    *,
    person: str | None = None,
    rows_per_person: int = 1,
    key: int = 0,
    values: Sequence[str] = (),
    order: str | None = None,
    connection: Any = None,
    leaves: Mapping[str, float] | None = None,
) -> DuckDBSource:
    """Open Parquet or CSV files, a query, or a relation as a source.

    Parameters
    ----------
    data : str, Path, sequence of them, or duckdb.DuckDBPyRelation
        A file, a folder, a pattern such as ``"points/*.parquet"``, an address that DuckDB can read
        (``"s3://..."``), or a query (``"SELECT x, y FROM ..."``).
    columns : sequence of str
        Columns with the positions, one per axis of the box.
    box : Box
    person : str, optional
        Column that says whose row it is; see :func:`choose_rows`.
    rows_per_person : int
    key : int
        From the driver's randomness: which rows of a person are chosen.
    values : sequence of str
        Further columns of numbers.
    order : str, optional
        The column that has the number of each row; files need none.
    connection : duckdb.DuckDBPyConnection, optional
        Where queries and relations belong to. Nothing is changed in it. Without it files are read by a connection of
        their own, and a relation must belong to DuckDB's default connection.
    leaves : mapping of str to float, optional
        The positions are labels of one column, and these are the numbers that stand for them.
    """
    folder = tempfile.mkdtemp(prefix="semilocal-")
    try:
        numbers, labels = (columns, ()) if leaves is None else ((), columns)
        texts = [*labels, *(() if person is None else (person,))]
        relation, own, files = _open(data, [*numbers, *values], texts, connection, folder)
        if leaves is not None:
            with reporting_failures():
                relation = in_duckdb(relation, columns[0], leaves)
        everybody = None
        if person is not None:
            everybody = DuckDBSource(relation, columns, box, connection=own, order=order)
            everybody.check()  # also the rows that are not chosen
            path = os.path.join(folder, "people.parquet")
            if files and order is None:
                relation = relation.project(f'*, row_number() OVER () - 1 AS "{ROW}"')
            number = order or (ROW if files else None)
            relation = choose_rows(relation, own, person, path, rows_per_person=rows_per_person, key=key, order=number)
        source = DuckDBSource(relation, columns, box, connection=own, order=order)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    source.files, source.rows_per_person, source.everybody = tuple(files), rows_per_person, everybody
    weakref.finalize(source, shutil.rmtree, folder, True)
    return source


def _open(
    data: Any, columns: Sequence[str], texts: Sequence[str], connection: Any, folder: str
) -> tuple[Any, Any, list[str]]:
    duckdb = load_duckdb()
    if isinstance(data, duckdb.DuckDBPyRelation):
        return data, connection or duckdb.default_connection(), []
    own = connection or duckdb.connect(config={"temp_directory": folder})
    with reporting_failures():
        if isinstance(data, str) and data.lstrip().lower().startswith(_QUERY) and " " in data.strip():
            return own.sql(data), own, []
        files = _files(data)
        read = _read_parquet if _kind(files) == "parquet" else _read_csv
        return read(own, files, columns, texts), own, files


def choose_rows(
    relation: Any, connection: Any, person: str, path: str, *, rows_per_person: int, key: int, order: str | None = None
) -> Any:
    """At most a given number of rows of every person, chosen inside the engine, each with the same chance.

    Rows with a number have the score that every engine gives it. The others have none, because an engine may give them
    in another order the next time: a keyed hash of their contents and, among equal rows, of a number takes its place.

    Parameters
    ----------
    person : str
        Column that says whose row it is.
    path : str
        A Parquet file that the chosen rows are written to, so that they are chosen once.
    rows_per_person : int
    key : int
        From the driver's randomness.
    order : str, optional
        The column that has the number of each row. The chosen rows are in this order.
    """
    if person not in relation.columns:
        raise InvalidInput(f"there is no column {person!r}; the columns are {listed_columns(relation.columns)}")
    who = DUCKDB.name(person)
    every = [DUCKDB.name(column) for column in relation.columns if column != ROW]
    with reporting_failures():
        nobody = int(relation.filter(f"{who} IS NULL").aggregate("count(*)").fetchall()[0][0])
        if nobody:
            raise InvalidInput(
                f"{nobody:,} rows have no value in column {person!r}, which says whose row it is; remove them first: "
                "nothing was released"
            )
        if order is None:
            relation = relation.project(f'*, row_number() OVER (PARTITION BY {", ".join(every)}) AS "{_TWIN}"')
            texts = ", ".join(f"coalesce('=' || CAST({column} AS VARCHAR), '')" for column in every)
            scored = f"sha256(concat_ws(chr(31), '{key:016x}', {texts}, CAST(\"{_TWIN}\" AS VARCHAR)))"
        else:
            scored = f"{score(DUCKDB.name(order), Scores.of(key))}, {DUCKDB.name(order)}"
        ranked = relation.project(f'*, row_number() OVER (PARTITION BY {who} ORDER BY {scored}) AS "{_RANK}"')
        chosen = ranked.filter(f'"{_RANK}" <= {int(rows_per_person)}')
        if order is not None:
            chosen = chosen.order(DUCKDB.name(order))
        chosen.project(", ".join(every)).write_parquet(path)
        return connection.read_parquet(path)


def _files(data: Any) -> list[str]:
    sources = [data] if isinstance(data, str | os.PathLike) else list(data)
    found: list[str] = []
    for entry in (os.fspath(source) for source in sources):
        if "://" in entry or os.path.isfile(entry):  # also if its name is a pattern, too, such as "people[1].csv"
            found.append(entry)
        elif os.path.isdir(entry):
            inside = sorted(glob.glob(os.path.join(glob.escape(entry), "**", "*"), recursive=True))
            found += [path for path in inside if path.lower().endswith((*PARQUET, *_CSV))]
        else:
            found += [path for path in sorted(glob.glob(entry, recursive=True)) if os.path.isfile(path)]
    if not found:
        raise InvalidInput(
            f"there is no file {', '.join(map(str, sources)) or 'given'}; give Parquet or CSV files, a folder, or "
            "a pattern such as 'points/*.parquet'"
        )
    return found


def _alone(file: str) -> str:
    """How DuckDB is told of one file: it would take people[1].csv for a pattern, and read people1.csv."""
    return file if "://" in file else glob.escape(file)


def _kind(files: Sequence[str]) -> str:
    kinds = {
        "parquet" if name.lower().endswith(PARQUET) else "csv" if name.lower().endswith(_CSV) else "" for name in files
    }
    if len(kinds) > 1:
        raise InvalidInput("the files are of different formats; give Parquet files or CSV files, not both")
    if kinds == {""}:
        raise InvalidInput(f"{files[0]}: cannot tell the format from the name; use .parquet or .csv")
    return kinds.pop()


def _read_parquet(connection: Any, files: list[str], columns: Sequence[str], texts: Sequence[str]) -> Any:
    listed = ", ".join("'" + _alone(name).replace("'", "''") + "'" for name in files)
    schema = connection.sql(
        "SELECT file_name, name, concat_ws(' ', type, converted_type, logical_type) AS kind "
        f"FROM parquet_schema([{listed}])"
    ).fetchall()
    kinds: dict[str, dict[str, str]] = {}
    for file, name, kind in schema:
        kinds.setdefault(file, {})[name] = kind
    first = next(iter(kinds))
    for name in (*columns, *texts):
        for file, found in kinds.items():
            if name not in found:
                raise InvalidInput(f"{file}: there is no column {name!r}; all files need it")
            if found[name] != kinds[first][name]:
                raise InvalidInput(
                    f"column {name!r} holds {found[name]} in {file} but {kinds[first][name]} in {first}; write the "
                    "files with the same type, or give a query that casts it"
                )
    differ = any(found.keys() != kinds[first].keys() for found in kinds.values())
    return connection.read_parquet(
        list(map(_alone, files)), union_by_name=differ
    )  # a later file may say whose row it is


def _read_csv(connection: Any, files: list[str], columns: Sequence[str], texts: Sequence[str]) -> Any:
    # Told to skip nothing, because it would take a later line for the header where lines are of different lengths.
    for file in files:
        found = connection.read_csv(_alone(file), header=True, skiprows=0).columns
        for name in (*columns, *texts):
            if name not in found:
                if len(found) == 1:
                    _refuse_ragged(connection, file, found[0], name)
                raise InvalidInput(f"{file}: there is no column {name!r}; the columns are {listed_columns(found)}")
    types = dict.fromkeys(columns, "DOUBLE") | dict.fromkeys(texts, "VARCHAR")
    return connection.read_csv(list(map(_alone, files)), header=True, skiprows=0, dtype=types, union_by_name=True)


def _refuse_ragged(connection: Any, file: str, header: str, name: str) -> None:
    """Name the line that has more or fewer values than the header: DuckDB then takes whole lines for one column."""
    for delimiter in ",;\t|":
        names = [cell.strip().strip('"') for cell in header.split(delimiter)]
        if name in names and len(set(names)) == len(names):
            every = dict.fromkeys(names, "VARCHAR")
            rows = connection.read_csv(_alone(file), header=True, sep=delimiter, columns=every, auto_detect=False)
            rows.aggregate("count(*)").fetchall()
