"""Rows as record batches: files, datasets, tables, relations, or anything that gives them again and again.

Batches go through numpy one at a time, so memory does not grow with the rows. What grows: with the different cells of
the histogram, and with the people if one row of each is chosen.

Knows batches and columns. Knows no randomness.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Floats, Integers, Words
from ..errors import InvalidInput, listed_columns
from ..geometry.box import Box
from ..simulation.people import row_scores, smallest_scores
from ..whole_file import whole_file
from .files import BATCH, check_files, check_numbers, list_files, load_arrow, reason_of
from .source import REGION, Locate, Source, check_axes, kept_columns

Reader = Callable[[Sequence[str]], Iterable[Any]]


class ArrowSource(Source):
    """A source over record batches; use :func:`semilocal.engines.open_source`.

    ``read(columns)`` gives the record batches with these columns, of this ``schema``, in the same order each time. Of a
    ``person`` at most ``rows_per_person`` rows are chosen by ``key``. ``inputs`` are files that no output may replace,
    ``names`` all columns of all of them.
    """

    def __init__(
        self, read: Reader, columns: Sequence[str], box: Box, *, schema: Any, person: str | None = None,
        rows_per_person: int = 1, key: int = 0, inputs: Sequence[Path] = (), names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(box)
        self.names = tuple(names) or tuple(schema.names)
        self.columns, self.schema, self.person = tuple(columns), schema, person
        self.rows_per_person, self.inputs = rows_per_person, tuple(inputs)
        self._read, self._key = read, key
        check_axes(columns, box)
        check_numbers(schema, self.columns, "the rows")
        for name in (*self.columns, *(() if person is None else (person,))):
            if name not in schema.names:
                raise InvalidInput(f"there is no column {name!r}; there are {listed_columns(schema.names)}")

    # -- reading -------------------------------------------------------------------------------------------

    def batches(self, *others: str) -> Iterator[Floats]:
        """Positions float64[b, d] of the chosen rows, in their order, and further columns; NaN for no value."""
        check_numbers(self.schema, others, "the rows")
        for batch in self._chosen([*self.columns, *others]):
            yield self._numbers(batch, [*self.columns, *others])

    def _numbers(self, batch: Any, columns: Sequence[str]) -> Floats:
        out = np.empty((len(columns), len(batch))).T  # every column stays in one piece
        for place, name in enumerate(columns):
            out[:, place] = batch.column(name).cast("float64").to_numpy(zero_copy_only=False)
        return out

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
        try:
            yield from (batch for batch in self._read(list(dict.fromkeys(columns))) if len(batch))
        except load_arrow().ArrowInvalid as error:
            raise InvalidInput(f"the rows cannot be read: {reason_of(error)}; fix the file") from None

    @cached_property
    def _people(self) -> Integers:
        """Numbers of the chosen rows, ascending."""
        assert self.person is not None
        chosen, seen = _ChosenRows(self._key, self.rows_per_person), 0
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
        self._seen = seen
        return chosen.rows()

    @property
    def rows_in_all(self) -> int:
        """All rows, chosen or not."""
        if self.person is None:
            return self.count()
        return len(self._people) and self._seen

    # -- checks --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse rows that are not finite or outside, with how many there are; also those that are not chosen."""
        super(ArrowSource, self._everybody()).check()

    def check_value(self, name: str, low: float, high: float) -> None:
        """Refuse a column if a value is missing or outside its range; also of rows that are not chosen."""
        super(ArrowSource, self._everybody()).check_value(name, low, high)

    def _everybody(self) -> ArrowSource:
        """All rows, chosen or not."""
        if self.person is None:
            return self
        every = copy(self)
        every.person = None
        every.__dict__.pop("_surveyed", None)
        return every

    # -- writing -------------------------------------------------------------------------------------------

    def attach(self, locate: Locate, **options: Any) -> Any:
        """Every row with its region: batches, or the ``path`` of a new Parquet file with the columns to ``keep``.

        Nothing is kept beside the region if nothing is said, because positions are what is to be protected.
        """
        path = options.pop("path", None)
        if path is None and not options:
            return super().attach(locate)
        keep = kept_columns(self.schema.names, {"keep": (), **options})
        if path is None:
            raise InvalidInput("columns are kept in a file; name it with path")
        return self.write(Path(path), locate, keep)

    def write(self, path: Path, locate: Locate, keep: Sequence[str]) -> Path:
        """Write some columns and the region to a Parquet file, in one scan; it appears when it is complete.

        The file must not be there yet, and is none of the inputs.
        """
        arrow = load_arrow()
        schema = arrow.schema([*map(self.schema.field, keep), arrow.field(REGION, arrow.int32())])
        # Positions hardly repeat: to look for those that do took ten times as long as to write them.
        repeated = [field.name for field in schema if not arrow.types.is_floating(field.type)]
        writing = arrow.parquet.ParquetWriter
        with new_file(path, self.inputs) as unfinished, writing(unfinished, schema, use_dictionary=repeated) as writer:
            for batch in self._chosen([*self.columns, *keep]):
                regions = locate(self._numbers(batch, self.columns)).astype(np.int32)
                columns = [*map(batch.column, keep), arrow.array(regions)]
                writer.write_batch(arrow.RecordBatch.from_arrays(columns, schema=schema))
        return path


@contextlib.contextmanager
def new_file(path: Path, inputs: Sequence[Path] = ()) -> Iterator[Path]:
    """A file that is there when everything was written, and not at all otherwise; none of the ``inputs``."""
    if any(path.resolve() == source.resolve() for source in inputs):
        raise InvalidInput(f"{path} is an input, which nothing overwrites: name another file")
    try:
        with whole_file(path) as unfinished:
            yield unfinished
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise InvalidInput(f"{path}: the disk is full; free some space, or write to another disk") from None
        raise


# -- what gives record batches ---------------------------------------------------------------------------------------


def open_files(
    paths: str | Path | Sequence[str | Path], columns: Sequence[str], box: Box, *, values: Sequence[str] = (),
    person: str | None = None, make: type[ArrowSource] = ArrowSource, **named: Any,
) -> ArrowSource:  # fmt: skip
    """A source over files, folders or patterns; all files must have the columns and values, as numbers.

    ``make`` is the kind of :class:`ArrowSource`, and ``named`` what it takes beside.
    """
    load_arrow()
    opened = check_files(list_files(paths), [*columns, *values], [] if person is None else [person])

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        for _, rows in opened:
            yield from rows.batches(wanted)

    names = dict.fromkeys(name for file, _ in opened for name in file.columns)
    return make(
        read, columns, box, schema=opened[0][1].schema, person=person, names=list(names),
        inputs=[file.path for file, _ in opened], **named,
    )  # fmt: skip


def open_rows(rows: Any, columns: Sequence[str], box: Box, **named: Any) -> ArrowSource:
    """A source over a pyarrow Table or Dataset, or a callable that gives a new RecordBatchReader each time."""
    arrow = load_arrow()
    if isinstance(rows, arrow.RecordBatchReader):
        raise InvalidInput("a reader can be read once only; give a callable that opens a new one each time")
    if isinstance(rows, arrow.Table):
        return ArrowSource(
            lambda wanted: rows.select(list(wanted)).to_batches(BATCH), columns, box, schema=rows.schema, **named
        )
    if hasattr(rows, "to_batches"):
        return ArrowSource(
            lambda wanted: rows.to_batches(columns=list(wanted), batch_size=BATCH), columns, box, schema=rows.schema,
            **named,
        )  # fmt: skip
    if callable(rows):
        return ArrowSource(
            lambda wanted: (batch.select(list(wanted)) for batch in rows()), columns, box, schema=rows().schema, **named
        )
    raise InvalidInput(
        f"rows must be files, a pyarrow Table or Dataset, or a callable that gives a RecordBatchReader; got a "
        f"{type(rows).__name__}"
    )


# -- one row per person, chosen while rows go by: a keyed score of the row's number decides --------------------------


_PENDING = 1 << 21  # rows that may wait before they are sorted by person


class _ChosenRows:
    """The rows that are chosen so far."""

    def __init__(self, key: int, rows_per_person: int) -> None:
        self._key, self._most = key, rows_per_person
        self._parts: list[tuple[Words, Words, Integers]] = []
        self._waiting, self._size = 0, 0

    def add(self, labels: Sequence[Any], index: Integers, first: int) -> None:
        """Rows in a row, of which row i belongs to ``labels[index[i]]``; ``first`` is the number of the first row."""
        names = np.array([_person(label) for label in labels], dtype=np.uint64)
        rows = np.arange(first, first + len(index), dtype=np.int64)
        self._parts.append((names[index], row_scores(self._key, rows), rows))
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
