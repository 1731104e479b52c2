"""Rows from Arrow: Parquet and CSV files, datasets, tables, or anything that gives record batches again and again.

Batches go through numpy one at a time, so memory does not grow with the rows. What grows: with the different cells of
the histogram, and with the people if one row of each is chosen.

Knows files and columns. Knows no randomness.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, Words
from ..errors import InvalidInput, MissingExtra, listed_columns
from ..geometry.box import Box
from ..hierarchy.base import Hierarchy
from ..simulation.people import Scores, smallest_scores
from ..whole_file import whole_file
from ..words import delimiter_of
from .histogram import Lookup
from .labels import in_arrow
from .source import PARQUET, Attached, Source, Survey, attached_batches, check_axes

__all__ = ["ArrowSource", "ChosenRows", "load_arrow", "open_files", "write_rows"]

BATCH = 1 << 17  # rows
_LONGEST_HEADER = 1_000_000  # characters
_AHEAD = 4  # batches that are read before they are needed

Reader = Callable[[Sequence[str]], Iterable[Any]]


def load_arrow() -> Any:
    """The module pyarrow, with its datasets."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "parquet") from None
    return pyarrow


class ArrowSource(Source):
    """A source over record batches; use :func:`semilocal.engines.open_source`.

    Parameters
    ----------
    read : callable
        ``read(columns)`` gives the record batches with these columns, in the same order each time.
    columns : sequence of str
        One per axis of the box.
    box : Box
    schema : pyarrow.Schema
        Of what ``read`` gives.
    person : str, optional
        The column that says whose row it is. A keyed score of the row's number chooses among the rows of a person.
    rows_per_person : int
    key : int
        Of the choice, 0 to 2**64 - 1; keep it with the run. The same key chooses the same rows.
    inputs : sequence of Path
        The files that are read, so that no output replaces one of them.
    names : sequence of str
        All columns of all files; those of the schema if left out.
    """

    def __init__(
        self, read: Reader, columns: Sequence[str], box: Box, *, schema: Any, person: str | None = None,
        rows_per_person: int = 1, key: int = 0, inputs: Sequence[Path] = (), names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(box)
        self.names = tuple(names) or tuple(schema.names)
        self.columns, self.schema, self.person = tuple(columns), schema, person
        self.rows_per_person = rows_per_person
        self._read, self._key, self._inputs = read, key, tuple(inputs)
        if person is None and rows_per_person != 1:
            raise InvalidInput("rows_per_person needs person, the column that says whose row it is")
        check_columns(schema, self.columns, box)
        if person is not None and person not in schema.names:
            raise InvalidInput(f"there is no column {person!r}; there are {listed_columns(schema.names)}")

    # -- reading -------------------------------------------------------------------------------------------

    def batches(self, *others: str) -> Iterator[Floats]:
        """Positions float64[b, d] of the chosen rows, in their order, and further columns; NaN for no value."""
        check_numbers(self.schema, others, "the rows")
        for batch in self._chosen([*self.columns, *others]):
            yield _numbers(batch, [*self.columns, *others])

    def _chosen(self, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of the chosen rows."""
        batches = self._batches(columns)
        if self.person is None:
            yield from batches
            return
        seen = 0
        for batch in batches:
            low, high = np.searchsorted(self._people, [seen, seen + len(batch)])
            yield batch.take(load_arrow().array(self._people[low:high] - seen))
            seen += len(batch)

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        arrow = load_arrow()
        try:
            for batch in self._read(list(dict.fromkeys(columns))):
                if len(batch):
                    yield batch
        except arrow.ArrowInvalid as error:
            raise InvalidInput(f"the rows cannot be read: {_reason(error)}; fix the file") from None

    @cached_property
    def _people(self) -> Integers:
        """Numbers of the chosen rows, ascending."""
        assert self.person is not None
        chosen, seen = ChosenRows(self._key, self.rows_per_person), 0
        for batch in self._batches([self.person]):
            column = batch.column(self.person)
            if column.null_count:
                first = seen + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise InvalidInput(
                    f"column {self.person!r} has no value in some rows, the first is row {first:,}; every row needs a "
                    "person: remove the others first"
                )
            encoded = column.dictionary_encode() if not hasattr(column, "dictionary") else column
            labels = encoded.dictionary.to_pylist()
            chosen.add(labels, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), seen)
            seen += len(batch)
        return chosen.rows()

    def check(self) -> None:
        """Refuse rows that are not finite or outside, with how many there are; also those that are not chosen."""
        if self.person is not None:
            self._everybody().check()
        super().check()

    def check_value(self, name: str, low: float, high: float) -> None:
        """Refuse a column if a value is missing or outside its range; also of rows that are not chosen."""
        if self.person is None:
            super().check_value(name, low, high)
        else:
            self._everybody().check_value(name, low, high)

    def _everybody(self) -> ArrowSource:
        """All rows, chosen or not."""
        return ArrowSource(self._read, self.columns, self.box, schema=self.schema)

    def survey(self) -> Survey:
        """What one scan says about the rows; counts values that are missing."""
        found = super().survey()
        null = 0
        for batch in self._chosen(self.columns) if found.missing else ():
            empty = np.zeros(len(batch), dtype=bool)
            for name in self.columns:
                empty |= batch.column(name).is_null().to_numpy(zero_copy_only=False)
            null += int(np.count_nonzero(empty))
        return found._replace(null=null, missing=found.missing - null)

    # -- writing -------------------------------------------------------------------------------------------

    def attach(self, hierarchy: Hierarchy, lookup: Lookup, **options: Any) -> Any:
        """Every row with its region.

        Parameters
        ----------
        path : str or Path, optional
            A Parquet file to write. It must not be there yet. Without it the batches are given one by one.
        keep : sequence of str, optional
            Columns to write beside the region; none if left out, because positions are what is to be protected.
        add : mapping of str to array, optional
            Columns that follow from the region: one value per region, or one row of values per region.

        Returns
        -------
        Path, or an iterator of Attached
        """
        path, keep, add = options.pop("path", None), options.pop("keep", ()), options.pop("add", {})
        if options:
            raise InvalidInput(f"attach takes path, keep and add; got {', '.join(sorted(options))}")
        if path is None:
            return attached_batches(self, hierarchy, lookup)
        missing = [name for name in keep if name not in self.schema.names]
        if missing:
            raise InvalidInput(
                f"there is no column {missing[0]!r} to keep; there are {listed_columns(self.schema.names)}"
            )
        kept = self._chosen(list(keep)) if keep else None
        return write_rows(Path(path), attached_batches(self, hierarchy, lookup), add, kept=kept, inputs=self._inputs)


def write_rows(
    path: Path, parts: Iterator[Attached], add: Mapping[str, npt.NDArray[Any]], *, kept: Iterator[Any] | None = None,
    inputs: Sequence[Path] = (),
) -> Path:  # fmt: skip
    """Write rows with their regions to a Parquet file, batch by batch.

    Parameters
    ----------
    path : Path
        It must not be there yet, and appears when it is complete.
    parts : iterator of Attached
    add : mapping of str to array
        Columns that follow from the region.
    kept : iterator of pyarrow.RecordBatch, optional
        Columns of the same rows to write beside the region, in the same batches.
    inputs : sequence of Path
        Files that the rows come from.
    """
    arrow = load_arrow()
    with new_file(path, inputs) as unfinished:
        writer = None
        for part in parts:
            columns: dict[str, Any] = {}
            if kept is not None:
                batch = next(kept)
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns["region"] = arrow.array(part.regions)
            for name, values in add.items():
                columns[name] = arrow.array(np.asarray(values)[part.regions])
            table = arrow.table(columns)
            writer = writer or arrow.parquet.ParquetWriter(unfinished, table.schema)
            writer.write_table(table)
        if writer is None:
            raise InvalidInput("there are no rows to write")
        writer.close()
    return path


def _numbers(batch: Any, columns: Sequence[str]) -> Floats:
    out = np.empty((len(batch), len(columns)))
    for place, name in enumerate(columns):
        out[:, place] = batch.column(name).cast("float64").to_numpy(zero_copy_only=False)
    return out


@contextlib.contextmanager
def new_file(path: Path, inputs: Sequence[Path] = ()) -> Iterator[Path]:
    """A file that is there when everything was written, and not at all otherwise."""
    if path.exists() or any(path.resolve() == source.resolve() for source in inputs):
        raise InvalidInput(f"{path} is there already; nothing is overwritten: name another file")
    try:
        with whole_file(path, publish=os.link) as unfinished:  # refuses a file that came in between
            yield unfinished
    except FileExistsError:
        raise InvalidInput(f"{path} is there already; nothing is overwritten: name another file") from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise InvalidInput(f"{path}: the disk is full; free some space, or write to another disk") from None
        raise


# -- files -----------------------------------------------------------------------------------------------------------


def open_files(
    paths: str | Path | Sequence[str | Path], columns: Sequence[str], box: Box, *, values: Sequence[str] = (),
    leaves: Mapping[str, float] | None = None, **named: Any,
) -> ArrowSource:  # fmt: skip
    """A source over Parquet or CSV files.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Files, folders or patterns such as ``"points/*.parquet"``. All files must have the columns, as numbers, and
        lines of CSV files the same delimiter: a comma, a semicolon or a tab.
    columns : sequence of str
        One per axis.
    box : Box
    values : sequence of str
        Further columns of numbers.
    leaves : mapping of str to float, optional
        The positions are labels of one column, and these are the numbers that stand for them.
    **named
        ``person``, ``rows_per_person`` and ``key`` of :class:`ArrowSource`.
    """
    arrow, files = load_arrow(), list_files(paths)
    numbers, labels = (list(columns), []) if leaves is None else ([], list(columns))
    kinds = {"".join(path.suffixes[-2:]).lower() if path.suffix == ".gz" else path.suffix.lower() for path in files}
    if kinds <= set(PARQUET):
        # Without this, Arrow keeps the bytes of a whole file until its last row was read.
        options = arrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)
        form: Any = arrow.dataset.ParquetFileFormat(default_fragment_scan_options=options)
    elif kinds <= {".csv", ".csv.gz", ".tsv"}:
        kind_of = dict.fromkeys([*numbers, *values], arrow.float64()) | dict.fromkeys(labels, arrow.string())
        if named.get("person") is not None:
            kind_of.setdefault(named["person"], arrow.string())
        nothing = None if leaves is None else [""]  # NA may be a label
        options = arrow.csv.ConvertOptions(column_types=kind_of, strings_can_be_null=True, null_values=nothing)
        lines = arrow.csv.ParseOptions(delimiter=delimiter_of(_header(files[0])))
        form = arrow.dataset.CsvFileFormat(
            parse_options=lines, convert_options=options, read_options=_named_columns(files, lines.delimiter)
        )
    else:
        raise InvalidInput(
            f"the files must be all .parquet, or all .csv or .csv.gz; got {', '.join(sorted(kinds)) or 'no ending'}"
        )
    try:
        rows = arrow.dataset.dataset([str(path) for path in files], format=form)
        names: dict[str, None] = {}
        for path, fragment in zip(files, rows.get_fragments(), strict=True):
            found = fragment.physical_schema
            names |= dict.fromkeys(found.names)
            check_there(found, labels, str(path))
            check_numbers(found, [*numbers, *values], str(path))
            check_same(found, rows.schema, [*columns, *values], str(path), str(files[0]))
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, OSError) as error:
        raise InvalidInput(f"the files cannot be read: {_reason(error)}; check them") from None

    def read(wanted: Sequence[str]) -> Iterable[Any]:
        batches: Iterable[Any] = rows.to_batches(
            columns=list(wanted), batch_size=BATCH, batch_readahead=_AHEAD, fragment_readahead=1
        )
        return batches

    opened, schema = (read, rows.schema) if leaves is None else in_arrow(read, rows.schema, columns[0], leaves)
    return ArrowSource(opened, columns, box, schema=schema, inputs=files, names=list(names), **named)


def _named_columns(files: Sequence[Path], delimiter: str) -> Any:
    """Options that take spaces around the names of columns away, as all readers do; Arrow keeps them."""
    headers = {
        path: next(csv.reader([_header(path).removeprefix("\ufeff")], delimiter=delimiter), []) for path in files
    }
    first, options = headers[files[0]], load_arrow().csv.ReadOptions
    spaced = next((path for path, names in headers.items() if any(name != name.strip() for name in names)), None)
    if spaced is None:
        return options()
    if any(names != first for names in headers.values()):
        raise InvalidInput(
            f"{spaced}: there are spaces around the names of its columns, and other files have other first lines; "
            "remove the spaces, or write the same first line in every file"
        )
    return options(column_names=[name.strip() for name in first], skip_rows=1)


def _header(path: Path) -> str:
    """The first line of a CSV file; empty if it cannot be read, which Arrow says better."""
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with contextlib.suppress(OSError, EOFError, zlib.error), opened(path, "rt", errors="replace") as file:
        return str(file.readline(_LONGEST_HEADER))
    return ""


def list_files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that paths, folders and patterns name, sorted within each; refuses what names none."""
    out: list[Path] = []
    for pattern in [paths] if isinstance(paths, str | Path) else paths:
        path = Path(pattern)
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
        else:
            found = [path] if path.is_file() else sorted(Path(name) for name in glob(str(pattern), recursive=True))
        if not found:
            what = "is an empty folder" if path.is_dir() else "names no file"
            raise InvalidInput(f"{pattern} {what}; give files, folders or a pattern such as 'points/*.parquet'")
        out += found
    return out


def check_columns(schema: Any, columns: Sequence[str], box: Box) -> None:
    """Refuse rows without the columns of the positions, or with columns that hold no numbers."""
    check_axes(columns, box)
    check_numbers(schema, columns, "the rows")


def check_numbers(schema: Any, columns: Sequence[str], where: str) -> None:
    """Refuse columns that are not there, or hold no numbers."""
    types = load_arrow().types
    check_there(schema, columns, where)
    for name in columns:
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
            raise InvalidInput(f"{where}: column {name!r} holds {kind}, not numbers; choose another column")


def check_there(schema: Any, columns: Sequence[str], where: str) -> None:
    """Refuse columns that are not there, or there twice."""
    for name in columns:
        if schema.names.count(name) != 1:
            how_many = "two columns" if name in schema.names else "no column"
            raise InvalidInput(f"{where}: has {how_many} {name!r}; the columns are {listed_columns(schema.names)}")


def check_same(schema: Any, first: Any, columns: Sequence[str], file: str, first_file: str) -> None:
    """Refuse a file whose columns are of other types than the first file's: they would be cut, or not be read."""
    for name in columns:
        if (one := schema.field(name).type) != (other := first.field(name).type):
            raise InvalidInput(
                f"column {name!r} holds {one} in {file} but {other} in {first_file}; write the files with the same type"
            )


def _reason(error: Exception) -> str:
    """What Arrow says, without the value that it could not read: it may be somebody's position."""
    words = re.sub(r"^.*Could not open CSV input source '(.*?)': \w+: ", r"\1: ", str(error).splitlines()[0])
    return re.sub(r"(invalid value|Float value|Integer value|got \d+):? .*", r"\1", words)


# -- one row per person, chosen while rows go by: a keyed score of the row's number decides --------------------------


_PENDING = 1 << 21  # rows that may wait before they are sorted by person


class ChosenRows:
    """The rows that are chosen so far.

    Parameters
    ----------
    key : int
        0 to 2**64 - 1.
    rows_per_person : int
    """

    def __init__(self, key: int, rows_per_person: int = 1) -> None:
        self._scores, self._most = Scores.of(key), rows_per_person
        self._parts: list[tuple[Words, Integers, Integers]] = []
        self._waiting, self._size = 0, 0

    def add(self, labels: Sequence[Any], index: Integers, first: int) -> None:
        """Rows in a row, of which row i belongs to ``labels[index[i]]``; ``first`` is the number of the first row."""
        names = np.array([_person(label) for label in labels], dtype=np.uint64)
        rows = np.arange(first, first + len(index), dtype=np.int64)
        self._parts.append((names[index], self._scores.at(rows), rows))
        self._waiting += len(rows)
        if self._waiting > max(self._size, _PENDING):
            self._choose()

    def rows(self) -> Integers:
        """Numbers of the chosen rows, ascending: int64[m]."""
        if not self._parts:
            return np.empty(0, dtype=np.int64)
        self._choose()
        return np.sort(self._parts[0][2])

    def _choose(self) -> None:
        people, scores, rows = (np.concatenate(columns) for columns in zip(*self._parts, strict=True))
        kept = smallest_scores(people, scores, rows, self._most)
        self._parts = [(people[kept], scores[kept], rows[kept])]
        self._waiting, self._size = 0, len(kept)


def _person(label: Any) -> int:
    """64 bits for a person. Two people share them with a chance of 2^-64; then one of them has no row."""
    return int.from_bytes(hashlib.blake2b(str(label).encode(), digest_size=8).digest(), "big")
