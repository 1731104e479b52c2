"""Columns of CSV and Parquet files through pyarrow, where it is installed: several times faster than line by line.

Knows pyarrow and formats. Reads what is beyond doubt: for everything else the caller reads the file by itself and can
name the line that is wrong. Both give the same numbers and codes.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from ..arrays import Floats, Integers, arrow_values

__all__ = ["codes_of", "numbers_of", "read_csv"]

NOBODY = -1  # code of an empty label
WORTH_IT = 1 << 20  # bytes; smaller files are read before pyarrow is loaded
CHUNK = 1 << 20


def read_csv(
    path: Path, columns: Sequence[str], wanted: Sequence[str], labels: Sequence[str], *, delimiter: str, header: int
) -> Any:
    """Columns of numbers and labels as a pyarrow table; None if the file is not plain enough, or pyarrow is not there.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        All columns of the file.
    wanted, labels : sequence of str
        Those to read: as numbers (see :func:`numbers_of`), and as texts (see :func:`codes_of`).
    delimiter : str
        Between two cells.
    header : int
        The line that names the columns; the first is 1.
    """
    if path.stat().st_size < WORTH_IT or not _is_plain(path, header):
        return None
    try:
        from pyarrow import ArrowInvalid, csv, float64, string
    except ImportError:
        return None
    asked = list(dict.fromkeys([*wanted, *labels]))
    if set(wanted) & set(labels):
        return None
    try:
        with _open_bytes(path) as file:
            return csv.read_csv(
                file if path.suffix.lower() == ".gz" else path,
                read_options=csv.ReadOptions(column_names=list(columns), skip_rows=header),
                parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False),
                convert_options=csv.ConvertOptions(
                    include_columns=asked, null_values=[],
                    column_types={**dict.fromkeys(wanted, float64()), **dict.fromkeys(labels, string())},
                ),
            )  # fmt: skip
    except ArrowInvalid:
        return None


def numbers_of(table: Any, wanted: Sequence[str]) -> Floats:
    """Columns of a table: float64[k, n]."""
    numbers = np.empty((len(wanted), len(table)))
    for name, out in zip(wanted, numbers, strict=True):
        start = 0
        for chunk in table.column(name).chunks:
            out[start : start + len(chunk)] = arrow_values(chunk)
            start += len(chunk)
    return numbers


def codes_of(column: Any) -> Integers:
    """Codes of a column of labels: from 1 in the order they come; equal labels have equal codes, none has -1."""
    from pyarrow import compute, types

    if types.is_string(column.type) or types.is_large_string(column.type):
        column = compute.utf8_trim_whitespace(column)
    encoded = column.combine_chunks().dictionary_encode()
    label_is_there = np.array([label is not None and str(label) != "" for label in encoded.dictionary.to_pylist()])
    codes = np.where(label_is_there, np.cumsum(label_is_there), NOBODY).astype(np.int64)
    places = arrow_values(encoded.indices.fill_null(-1))
    found: Integers = np.append(codes, NOBODY)[places]  # -1 takes the last: nobody
    return found


def _is_plain(path: Path, header: int) -> bool:
    """UTF-8, and no quotes below the header: pyarrow takes some that we refuse, such as "1"2, and checks less text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _open_bytes(path) as file:
        try:
            for _ in range(header):
                file.readline()
            while chunk := file.read(CHUNK):
                if b'"' in chunk:
                    return False
                if not chunk.isascii() or decoder.getstate()[0]:
                    decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile):
            return False
    return True


def _open_bytes(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")
