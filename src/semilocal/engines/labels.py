"""Columns of labels in engines: each label is replaced by the number of its leaf in a table.

Spaces around a label do not count. Rows whose label is not a leaf are counted and refused before anything is released;
the message does not repeat the label.

Knows labels and rows. Knows no mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import Floats
from ..errors import InvalidInput
from .expressions import DUCKDB, SPARK

__all__ = ["in_arrow", "in_duckdb", "in_spark"]

_LABEL, _LEAF = "semilocal label", "semilocal leaf"

Reader = Callable[[Sequence[str]], Iterable[Any]]


def in_arrow(read: Reader, schema: Any, column: str, leaves: Mapping[str, float]) -> tuple[Reader, Any]:
    """The same rows with numbers in place of labels: how to read their batches, and their schema.

    Parameters
    ----------
    read : callable
        ``read(columns)`` gives record batches with these columns, in the same order each time.
    schema : pyarrow.Schema
    column : str
        Holds labels.
    leaves : mapping of str to float
        The number of every leaf.
    """
    import pyarrow

    numbers = pyarrow.field(column, pyarrow.float64())

    def mapped(wanted: Sequence[str]) -> Iterator[Any]:
        for batch in read(wanted):
            if column in batch.schema.names:
                place = batch.schema.get_field_index(column)
                batch = batch.set_column(place, numbers, pyarrow.array(_numbers(batch.column(column), leaves)))
            yield batch

    rows, unknown, first = 0, 0, -1
    for batch in mapped([column]):
        bad = np.isnan(batch.column(column).to_numpy(zero_copy_only=False))
        if first < 0 and bad.any():
            first = rows + int(np.argmax(bad))
        rows, unknown = rows + len(batch), unknown + int(np.count_nonzero(bad))
    _refuse_unknown(column, rows, unknown, first)
    return mapped, schema.set(schema.get_field_index(column), numbers)


def in_duckdb(relation: Any, column: str, leaves: Mapping[str, float]) -> Any:
    """The same relation, its rows in the same order, with numbers in place of labels."""
    listed = ", ".join("'" + label.replace("'", "''") + "'" for label in leaves)
    numbers = ", ".join(f"{number:.17e}" for number in leaves.values())
    own = DUCKDB.name(column)
    label = rf"regexp_replace(CAST({own} AS VARCHAR), '^\s+|\s+$', '', 'g')"
    number = f"[{numbers}][enum_code(TRY_CAST({label} AS ENUM({listed}))) + 1]"
    mapped = relation.project(f"* REPLACE ({number} AS {own})")
    rows, labelled = mapped.aggregate(f"count(*), count({own})").fetchall()[0]
    _refuse_unknown(column, rows, rows - labelled)
    return mapped


def in_spark(frame: Any, column: str, leaves: Mapping[str, float]) -> Any:
    """The same frame with numbers in place of labels; a broadcast table is joined."""
    import pyarrow
    from pyspark.sql.functions import broadcast

    table = pyarrow.table({_LABEL: list(leaves), _LEAF: list(leaves.values())})
    label = rf"regexp_replace(CAST({SPARK.name(column)} AS STRING), r'^\s+|\s+$', '')"
    rows = frame.selectExpr("*", f"{label} AS {SPARK.name(_LABEL)}")
    rows = rows.join(broadcast(frame.sparkSession.createDataFrame(table)), _LABEL, "left")
    kept = [
        SPARK.name(_LEAF) + f" AS {SPARK.name(name)}" if name == column else SPARK.name(name) for name in frame.columns
    ]
    mapped = rows.selectExpr(*kept)
    every, labelled = mapped.selectExpr("count(*)", f"count({SPARK.name(column)})").collect()[0]
    _refuse_unknown(column, every, every - labelled)
    return mapped


def _numbers(labels: Any, leaves: Mapping[str, float]) -> Floats:
    """The numbers of an Arrow array of labels: float64[b]; NaN for what is not a leaf."""
    encoded = labels if hasattr(labels, "dictionary") else labels.dictionary_encode()
    numbers = [leaves.get(str(label).strip(), np.nan) for label in encoded.dictionary.to_pylist()]
    index = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*numbers, np.nan])[index])


def _refuse_unknown(column: str, rows: int, unknown: int, first: int = -1) -> None:
    if unknown:
        where = f", the first in row {first:,}" if first >= 0 else ""
        raise InvalidInput(
            f"column {column!r} holds no leaf of the table in {unknown:,} of {rows:,} rows{where}; correct them, or "
            "remove them first: nothing was released"
        )
