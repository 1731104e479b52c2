"""Files as DataFrames of Spark, a session for programs that have none, and at most so many rows of every person.

Knows files and frames. Knows no mechanisms.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

from ..errors import EngineFailed, InvalidInput
from ..geometry.box import Box
from .expressions import SPARK
from .spark import SparkSource, load_spark, reporting_failures

__all__ = ["choose_source", "open_files", "session"]

_TWIN, _RANK = "semilocal twin", "semilocal rank"


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
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    builder = sql.SparkSession.builder.master("local[*]").appName("semilocal")
    for name, value in quiet.items():
        builder = builder.config(name, value)
    with reporting_failures():
        return builder.getOrCreate()


def open_files(files: Sequence[str], columns: Sequence[str], *, texts: Sequence[str] = ()) -> Any:
    """Parquet or CSV files as one DataFrame; files whose columns differ are refused.

    Parameters
    ----------
    files : sequence of str
        At least one, all of one format.
    columns, texts : sequence of str
        Columns that must be in all files: numbers, and others.
    """
    spark, wanted = session(), [*columns, *texts]
    parquet = all(name.lower().endswith((".parquet", ".pq", ".parq")) for name in files)
    with reporting_failures():
        frames = [spark.read.parquet(name) if parquet else spark.read.csv(name, header=True) for name in files]
        first = {field.name: field.dataType for field in frames[0].schema.fields}
        for name, frame in zip(files, frames, strict=True):
            kinds = {field.name: field.dataType for field in frame.schema.fields}
            for column in wanted:
                if column not in kinds:
                    raise InvalidInput(f"{name}: there is no column {column!r}; the columns are: {', '.join(kinds)}")
                if kinds[column] != first[column]:
                    raise InvalidInput(
                        f"column {column!r} holds {kinds[column].simpleString()} in {name} but "
                        f"{first[column].simpleString()} in {files[0]}; write the files with the same type"
                    )
        if parquet:
            return spark.read.parquet(*files)
        schema = ", ".join(f"{SPARK.name(c)} {'DOUBLE' if c in columns else 'STRING'}" for c in frames[0].columns)
        if any(frame.columns != frames[0].columns for frame in frames):
            raise InvalidInput(f"{files[0]} and others have their columns in different orders; make them the same")
        return spark.read.csv(list(files), header=True, schema=schema, mode="FAILFAST")


def choose_source(
    frame: Any, columns: Sequence[str], box: Box, *, person: str | None, rows_per_person: int, key: bytes
) -> SparkSource:
    """A source of a DataFrame, with at most so many rows of every person.

    Parameters
    ----------
    person : str or None
        Column that says whose row it is; without it every row is another person.
    key : bytes
        From the driver's randomness: which rows of a person are chosen.
    """
    source = SparkSource(frame, columns, box)
    if person is not None:
        source.check()  # also the rows that are not chosen
        source = SparkSource(_choose_rows(frame, person, rows_per_person, key), columns, box)
    source.rows_per_person = rows_per_person
    return source


def _choose_rows(frame: Any, person: str, rows_per_person: int, key: bytes) -> Any:
    """At most so many rows of every person: those with the smallest keyed hashes of their contents.

    Equal rows are numbered, and the number is hashed too, so that every row has the same chance. Computed again, the
    same rows are chosen.
    """
    if person not in frame.columns:
        raise InvalidInput(f"there is no column {person!r}; the columns are: {', '.join(frame.columns)}")
    who, every = SPARK.name(person), [SPARK.name(column) for column in frame.columns]
    with reporting_failures():
        nobody = frame.where(f"{who} IS NULL").count()
    if nobody:
        raise InvalidInput(
            f"{nobody:,} rows have no value in column {person!r}, which says whose row it is; remove them first: "
            "nothing was released"
        )
    listed = ", ".join(every)
    texts = ", ".join(f"coalesce(concat('=', CAST({column} AS STRING)), '')" for column in every)
    hashed = f"sha2(concat_ws(char(31), '{key.hex()}', {texts}, CAST({SPARK.name(_TWIN)} AS STRING)), 256)"
    twins = f"row_number() OVER (PARTITION BY {listed} ORDER BY {who}) AS {SPARK.name(_TWIN)}"
    ranks = f"row_number() OVER (PARTITION BY {who} ORDER BY {hashed}) AS {SPARK.name(_RANK)}"
    ranked = frame.selectExpr("*", twins).selectExpr("*", ranks)
    return ranked.where(f"{SPARK.name(_RANK)} <= {int(rows_per_person)}").selectExpr(*every)
