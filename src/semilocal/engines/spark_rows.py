"""Files as DataFrames of Spark, a session for programs that have none, and a limit on the rows of every person.

Knows files and frames. Knows no mechanisms.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from ..errors import EngineFailed, InvalidInput, listed_columns
from ..geometry.box import Box
from ..simulation.people import Scores
from .expressions import SPARK, score
from .grouping import ROW
from .source import PARQUET
from .spark import SparkSource, load_spark, reporting_failures

__all__ = ["choose_source", "open_files", "session"]

_TWIN, _RANK, _FILE, _BLOCK, _SHIFT = (f"semilocal {what}" for what in ("twin", "rank", "file", "block", "shift"))
_PATTERN = re.compile(r"[\[\]{}*?\\]")
# Reached from this machine alone, and silent unless something fails.
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR",
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
}  # fmt: skip


def session() -> Any:
    """The session that is running, or a local one; refused without Java."""
    sql = load_spark()
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        return active
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=os.path.join(home, "bin") if home else None) is None:
        raise EngineFailed(
            "Spark needs Java 17 or later, and there is no java "
            + (f"in JAVA_HOME = {home}" if home else "on the path")
            + "; install it (on Debian: apt install openjdk-17-jre-headless), or use the engine 'duckdb' or 'arrow'"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers take any python3 on the path
    builder = sql.SparkSession.builder.master("local[*]").appName("semilocal")
    for name, value in _LOCAL.items():
        builder = builder.config(name, value)
    with reporting_failures(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Spark's own, about versions of pandas
        return builder.getOrCreate()


def open_files(files: Sequence[str], columns: Sequence[str], *, texts: Sequence[str] = ()) -> Any:
    """Parquet or CSV files as one DataFrame with numbered rows; files whose columns differ are refused.

    Parameters
    ----------
    files : sequence of str
        At least one, all of one format.
    columns, texts : sequence of str
        Columns that must be in all files: numbers, and others.
    """
    stored = {name.lower().endswith(PARQUET) for name in files}
    if len(stored) > 1:
        raise InvalidInput("the files are of different formats; give Parquet files or CSV files, not both")
    parquet = stored == {True}
    spark, wanted = session(), [*columns, *texts]
    with reporting_failures():
        alone = [_PATTERN.sub(r"\\\g<0>", name) for name in files]  # Spark would take people[1].csv for a pattern
        frames = [spark.read.parquet(name) if parquet else spark.read.csv(name, header=True) for name in alone]
        first = {field.name: field.dataType for field in frames[0].schema.fields}
        for name, frame in zip(files, frames, strict=True):
            kinds = {field.name: field.dataType for field in frame.schema.fields}
            for column in wanted:
                if column not in kinds:
                    raise InvalidInput(
                        f"{name}: there is no column {column!r}; the columns are {listed_columns(list(kinds))}"
                    )
                if kinds[column] != first[column]:
                    raise InvalidInput(
                        f"column {column!r} holds {kinds[column].simpleString()} in {name} but "
                        f"{first[column].simpleString()} in {files[0]}; write the files with the same type"
                    )
        if parquet:
            return _numbered(spark.read.parquet(*alone), files)
        schema = ", ".join(f"{SPARK.name(c)} {'DOUBLE' if c in columns else 'STRING'}" for c in frames[0].columns)
        if any(frame.columns != frames[0].columns for frame in frames):
            raise InvalidInput(f"{files[0]} and others have their columns in different orders; make them the same")
        return _numbered(spark.read.csv(alone, header=True, schema=schema, mode="FAILFAST"), files)


def _numbered(frame: Any, files: Sequence[str]) -> Any:
    """The rows of files with a column ``ROW``: their numbers in the order of the files.

    Spark reads blocks of files in any order, but the rows of a block in theirs. One scan counts the rows of each block;
    the sums say with which number it begins.
    """
    import pyarrow
    from pyspark.sql.functions import broadcast, count, min

    row = SPARK.name(ROW)
    parts = {_FILE: "_metadata.file_path", _BLOCK: "_metadata.file_block_start", ROW: "monotonically_increasing_id()"}
    placed = frame.selectExpr("*", *(f"{what} AS {SPARK.name(name)}" for name, what in parts.items()))
    by = [SPARK.name(_FILE), SPARK.name(_BLOCK)]
    found = placed.groupBy(*by).agg(count(row), min(row)).collect()
    ranks = {os.path.realpath(name): rank for rank, name in enumerate(files)}
    begins, shifts = 0, []
    for file, block, rows, first in sorted(found, key=lambda block_row: (ranks[_local(block_row[0])], block_row[1])):
        shifts.append((file, block, begins - first))
        begins += rows
    names, blocks, numbers = zip(*shifts, strict=True) if shifts else ((), (), ())
    table = pyarrow.table({
        _FILE: pyarrow.array(names, pyarrow.string()), _BLOCK: pyarrow.array(blocks, pyarrow.int64()),
        _SHIFT: pyarrow.array(numbers, pyarrow.int64()),
    })  # fmt: skip
    joined = placed.join(broadcast(frame.sparkSession.createDataFrame(table)), [_FILE, _BLOCK])
    every = [SPARK.name(column) for column in frame.columns]
    return joined.selectExpr(*every, f"{row} + {SPARK.name(_SHIFT)} AS {row}")


def _local(address: str) -> str:
    """The path of a file that Spark calls by its address."""
    return os.path.realpath(unquote(urlsplit(address).path))


def choose_source(
    frame: Any, columns: Sequence[str], box: Box, *, person: str | None, rows_per_person: int, key: int,
    order: str | None = None,
) -> SparkSource:  # fmt: skip
    """A source of a DataFrame, with at most a given number of rows of every person.

    Parameters
    ----------
    person : str or None
        Column that says whose row it is; without it every row is another person.
    key : int
        From the driver's randomness: which rows of a person are chosen.
    order : str, optional
        The column that has the number of each row; frames of files have one already.
    """
    if order is None and ROW in frame.columns:
        order = ROW
    source = SparkSource(frame, columns, box, order=order)
    if person is not None:
        everybody = source
        everybody.check()  # also the rows that are not chosen
        source = SparkSource(_choose_rows(frame, person, rows_per_person, key, order), columns, box, order=order)
        source.everybody = everybody
    source.rows_per_person = rows_per_person
    return source


def _choose_rows(frame: Any, person: str, rows_per_person: int, key: int, order: str | None) -> Any:
    """At most a given number of rows of every person.

    Rows with a number have the score that every engine gives it. Of the others a keyed hash of their contents decides;
    equal rows are numbered, and the number is hashed too, so that every row has the same chance. Computed again, the
    same rows are chosen.
    """
    if person not in frame.columns:
        raise InvalidInput(f"there is no column {person!r}; the columns are {listed_columns(frame.columns)}")
    who, every = SPARK.name(person), [SPARK.name(column) for column in frame.columns]
    with reporting_failures():
        nobody = frame.where(f"{who} IS NULL").count()
    if nobody:
        raise InvalidInput(
            f"{nobody:,} rows have no value in column {person!r}, which says whose row it is; remove them first: "
            "nothing was released"
        )
    if order is None:
        texts = ", ".join(f"coalesce(concat('=', CAST({column} AS STRING)), '')" for column in every)
        scored = f"sha2(concat_ws(char(31), '{key:016x}', {texts}, CAST({SPARK.name(_TWIN)} AS STRING)), 256)"
        twins = f"row_number() OVER (PARTITION BY {', '.join(every)} ORDER BY {who}) AS {SPARK.name(_TWIN)}"
        frame = frame.selectExpr("*", twins)
    else:
        number = f"CAST({SPARK.name(order)} AS BIGINT)"
        scored = f"{score(number, Scores.of(key))}, {number}"
    ranks = f"row_number() OVER (PARTITION BY {who} ORDER BY {scored}) AS {SPARK.name(_RANK)}"
    ranked = frame.selectExpr("*", ranks)
    return ranked.where(f"{SPARK.name(_RANK)} <= {int(rows_per_person)}").selectExpr(*every)
