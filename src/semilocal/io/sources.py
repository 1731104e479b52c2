"""The formats that positions are read from: CSV (also .gz), Parquet and GeoJSON.

Knows formats, and how to say what is wrong with a file and where. Messages name the place in the file and the column,
never the content of a cell: it may be somebody's position.
"""

from __future__ import annotations

import array
import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

import numpy as np

from ..arrays import Floats, Integers, arrow_values, is_number, on_all_cores
from ..engines.source import PARQUET
from ..errors import InvalidInput, MissingExtra, listed_columns
from ..words import delimiter_of

__all__ = ["Pieces", "TableFile", "codes_of", "numbers_of", "open_source", "read_csv"]

_GEOMETRIES = ("MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection")
_GZIP = b"\x1f\x8b"
LONGEST_HEADER = 1_000_000  # characters
_AT_ONCE = 1 << 17  # rows of a piece that are decoded at once: they stay in the cache


class Pieces(NamedTuple):
    """Columns of numbers that need not be in memory together.

    Attributes
    ----------
    rows : int
        Of the whole file.
    each : sequence of callables
        Every piece, ready to be read by a thread of its own: it gives the number of a row, and the columns of the rows
        from there on, float64[m] each; again and again.
    """

    rows: int
    each: Sequence[Callable[[], Iterator[tuple[int, list[Floats]]]]]


class TableFile:
    """One file: which columns there are, and what they hold."""

    row_word = "row"
    columns: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, wanted: Sequence[str], labels: Sequence[str] = ()) -> tuple[Floats, list[Integers]]:
        """Columns of numbers float64[k, n], and of any content as codes int64[n] each: equal content, equal code."""
        raise NotImplementedError

    def pieces(self, wanted: Sequence[str]) -> Pieces | None:
        """Columns of numbers in pieces; None if :meth:`read` has to look at the file line by line."""
        return None

    def texts(self, names: Sequence[str]) -> list[list[Any]]:
        """Columns as they are written: one list per name."""
        raise NotImplementedError

    def refuse(self, row: int, what: str, fix: str) -> NoReturn:
        raise InvalidInput(f"{self.path}, {self.place(row)}: {what}; {fix}")

    def place(self, row: int) -> str:
        return f"{self.row_word} {row}"


class _Codes:
    """Codes for labels: equal labels get equal codes."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {"": NOBODY}
        self._codes = array.array("q")

    def add(self, label: str) -> None:
        self._codes.append(self._known.setdefault(label, len(self._known)))

    def column(self) -> Integers:
        return np.array(self._codes, dtype=np.int64)


class _CsvFile(TableFile):
    row_word = "data line"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._rows() as rows:
            header = next(rows, None)
            self._delimiter, self._header_line = rows.delimiter, rows.line_num
        if header is None:
            raise InvalidInput(f"{path}: is empty; the first line must name the columns")
        names = tuple(name.strip() for name in header)
        if all(_is_number(name) for name in names):
            raise InvalidInput(
                f"{path}, line 1: holds numbers, not names; put a line with the column names before them"
            )
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InvalidInput(f"{path}, line 1: {listed_columns(repeated[:1])} is there twice; rename one of them")
        self.columns = names

    def read(self, wanted: Sequence[str], labels: Sequence[str] = ()) -> tuple[Floats, list[Integers]]:
        table = self._quick(wanted, labels)
        if table is None:
            return self._read_lines(wanted, labels)
        return numbers_of(table, wanted), [codes_of(table.column(name)) for name in labels]

    def pieces(self, wanted: Sequence[str]) -> Pieces | None:
        table = self._quick(wanted, ())
        if table is None:
            return None
        batches = table.to_batches()
        starts = np.cumsum([0, *map(len, batches)])

        def piece(number: int) -> Iterator[tuple[int, list[Floats]]]:
            yield int(starts[number]), [arrow_values(batches[number].column(name)) for name in wanted]

        return Pieces(len(table), [partial(piece, number) for number in range(len(batches))])

    def _quick(self, wanted: Sequence[str], labels: Sequence[str]) -> Any:
        return read_csv(self.path, self.columns, wanted, labels, delimiter=self._delimiter, header=self._header_line)

    def _read_lines(self, wanted: Sequence[str], labels: Sequence[str]) -> tuple[Floats, list[Integers]]:
        """Line by line, which can name the line that is wrong."""
        width = len(self.columns)
        found = [array.array("d") for _ in wanted]
        numbers = [(store.append, self.columns.index(name)) for store, name in zip(found, wanted, strict=True)]
        coded = [_Codes() for _ in labels]
        texts = [(codes.add, self.columns.index(name)) for codes, name in zip(coded, labels, strict=True)]
        with self._rows() as rows:
            next(rows)
            for row in rows:
                if len(row) != width:
                    self._refuse_line(rows.line_num, f"has {len(row)} cells, the header {width}", "fix that line")
                try:
                    for append, place in numbers:
                        append(float(row[place]))
                except ValueError:
                    cell, fix = row[place].strip(), "fix the cell, remove the line, or choose another column"
                    what = "is not a number" if cell else "is empty"
                    if _is_number(cell.replace(",", ".", 1)):
                        what, fix = "has a decimal comma", "write numbers with a point"
                    self._refuse_line(rows.line_num, f"column {self.columns[place]!r} {what}", fix)
                for add, place in texts:
                    add(row[place].strip())
        columns = [np.frombuffer(store, dtype=np.float64) if store else np.empty(0) for store in found]
        return np.stack(columns) if columns else np.empty((0, 0)), [codes.column() for codes in coded]

    def texts(self, names: Sequence[str]) -> list[list[Any]]:
        places = [self.columns.index(name) for name in names]
        with self._rows() as rows:
            next(rows)
            kept = [[row[place] for place in places] for row in rows]
        return [list(column) for column in zip(*kept, strict=True)] if kept else [[] for _ in names]

    def place(self, row: int) -> str:
        with self._rows() as rows:  # only on the way to an error: lines are not remembered while reading
            next(itertools.islice(rows, row + 1, None))
            return f"line {rows.line_num}"

    def _refuse_line(self, line: int, what: str, fix: str) -> NoReturn:
        raise InvalidInput(f"{self.path}, line {line}: {what}; {fix}")

    @contextlib.contextmanager
    def _rows(self) -> Iterator[_Rows]:
        with _open_text(self.path) as stream:
            try:
                rows = _Rows(stream, _delimiter(stream))
                yield rows
            except csv.Error as error:
                self._refuse_line(rows.line_num, f"is not CSV ({error})", "fix that line")
            except UnicodeDecodeError as error:
                raise InvalidInput(f"{self.path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                why = _why(error)
                raise InvalidInput(f"{self.path}: the gzip data is damaged ({why}); get the file again") from None


class _Rows:
    """csv.reader without the empty lines, with the number of the line it is at."""

    def __init__(self, stream: io.TextIOBase, delimiter: str) -> None:
        self.delimiter = delimiter
        self._reader = csv.reader(stream, delimiter=delimiter, strict=True)
        self._filled = filter(None, self._reader)

    def __iter__(self) -> Iterator[list[str]]:
        return self._filled

    def __next__(self) -> list[str]:
        return next(self._filled)

    @property
    def line_num(self) -> int:
        return self._reader.line_num


class _ParquetFile(TableFile):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra("pyarrow", "parquet") from None
        self._arrow: Any = pyarrow
        try:
            self._file: Any = pyarrow.parquet.ParquetFile(path, memory_map=True, pre_buffer=False)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise InvalidInput(
                f"{path}: is not a Parquet file ({str(error).splitlines()[0]}); check the file"
            ) from None
        self.columns = tuple(self._file.schema_arrow.names)

    def read(self, wanted: Sequence[str], labels: Sequence[str] = ()) -> tuple[Floats, list[Integers]]:
        pieces = self.pieces(wanted)
        found = np.empty((len(wanted), pieces.rows))

        def fill(piece: Callable[[], Iterator[tuple[int, list[Floats]]]]) -> None:
            for start, columns in piece():
                for column, out in zip(columns, found, strict=True):
                    out[start : start + len(column)] = column

        if wanted:
            on_all_cores(fill, pieces.each)
        others = self._file.read(columns=list(labels)) if labels else None
        return found, [codes_of(others.column(name)) for name in labels if others is not None]

    def pieces(self, wanted: Sequence[str]) -> Pieces:
        types = self._arrow.types
        schema = self._file.schema_arrow
        for name in wanted:
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
                raise InvalidInput(f"{self.path}: column {name!r} holds {kind}, not numbers; choose another column")
        metadata = self._file.metadata
        starts = np.cumsum([0, *(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))])

        def piece(group: int) -> Iterator[tuple[int, list[Floats]]]:
            file = self._arrow.parquet.ParquetFile(self.path, metadata=metadata, memory_map=True, pre_buffer=False)
            start = int(starts[group])
            for batch in file.iter_batches(_AT_ONCE, row_groups=[group], columns=list(wanted), use_threads=False):
                yield start, [self._numbers(batch.column(name), name, start) for name in wanted]
                start += len(batch)

        return Pieces(metadata.num_rows, [partial(piece, group) for group in range(metadata.num_row_groups)])

    def _numbers(self, column: Any, name: str, start: int) -> Floats:
        if column.null_count:
            row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            self.refuse(row, f"column {name!r} is empty", "remove such rows first")
        return arrow_values(column if self._arrow.types.is_float64(column.type) else column.cast("float64"))

    def texts(self, names: Sequence[str]) -> list[list[Any]]:
        table = self._file.read(columns=list(names))
        return [table.column(name).to_pylist() for name in names]


class _GeoJsonFile(TableFile):
    row_word = "feature"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            with _open_text(path) as stream:
                content = json.load(stream)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"{path}, line {error.lineno}: is not JSON ({error.msg}); fix the file") from None
        except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidInput(f"{path}: cannot be read as UTF-8 text ({_why(error)}); get the file again") from None
        features = content.get("features") if isinstance(content, dict) else None
        if not isinstance(features, list) or content.get("type") != "FeatureCollection":
            raise InvalidInput(f"{path}: must be a GeoJSON FeatureCollection of Points; got {_kind(content)}")
        self._features = features
        named = dict.fromkeys(str(name) for feature in features for name in _properties(feature))
        self.columns = ("longitude", "latitude", *(name for name in named if name not in ("longitude", "latitude")))

    def read(self, wanted: Sequence[str], labels: Sequence[str] = ()) -> tuple[Floats, list[Integers]]:
        found = np.empty((len(wanted), len(self._features)))
        coded = [_Codes() for _ in labels]
        for row, feature in enumerate(self._features):
            position = self._position(row, feature)
            for store, name in zip(found, wanted, strict=True):
                if name in ("longitude", "latitude"):
                    store[row] = position[("longitude", "latitude").index(name)]
                else:
                    value = _properties(feature).get(name)
                    if not is_number(value):
                        self.refuse(row, f"property {name!r} is not a number", "fix it or remove the feature")
                    store[row] = value
            for codes, name in zip(coded, labels, strict=True):
                label = _properties(feature).get(name)
                codes.add("" if label is None else str(label))
        return found, [codes.column() for codes in coded]

    def _position(self, row: int, feature: Any) -> Sequence[float]:
        geometry = feature.get("geometry") if isinstance(feature, dict) else None
        if not isinstance(geometry, dict) or geometry.get("type") != "Point":
            got = geometry.get("type") if isinstance(geometry, dict) else geometry
            known = got is None or got in _GEOMETRIES  # other text may be a position
            self.refuse(row, f"the geometry is {repr(got) if known else 'not one'}", "every feature must be a Point")
        position = geometry.get("coordinates")
        if not isinstance(position, list) or len(position) < 2 or not all(map(is_number, position)):
            self.refuse(row, "the coordinates are not two numbers", "give [longitude, latitude]")
        return position


_READERS: Mapping[str, type[TableFile]] = MappingProxyType(
    dict.fromkeys((".csv", ".tsv", ".txt"), _CsvFile)
    | dict.fromkeys((".geojson", ".json"), _GeoJsonFile)
    | dict.fromkeys(PARQUET, _ParquetFile)
)


def open_source(path: Path) -> TableFile:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    if kind not in _READERS:
        raise InvalidInput(f"{path}: cannot tell the format from the name; use .csv, .csv.gz, .parquet or .geojson")
    return _READERS[kind](path)


def _why(error: Exception) -> str:
    """What a reader complains about, without the bytes of the file that it quotes."""
    return error.reason if isinstance(error, UnicodeDecodeError) else str(error).split(" (b'")[0]


@contextlib.contextmanager
def _open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    with contextlib.ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("rb"))
        if path.suffix.lower() == ".gz":
            raw = stack.enter_context(gzip.GzipFile(fileobj=raw))
        elif raw.peek(2)[:2] == _GZIP:
            raise InvalidInput(f"{path}: is compressed with gzip; call it {path.name}.gz")
        yield stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))


def _delimiter(stream: io.TextIOWrapper) -> str:
    """Return the delimiter of the header line, and leave the stream at its start."""
    first = stream.readline(LONGEST_HEADER)
    stream.seek(0)
    return delimiter_of(first)


def _properties(feature: Any) -> dict[str, Any]:
    """The properties of a feature, and its own id if they have none: it may say whose row it is."""
    if not isinstance(feature, dict):
        return {}
    properties = feature.get("properties")
    own = {"id": feature["id"]} if feature.get("id") is not None else {}
    return own | properties if isinstance(properties, dict) else own


def _kind(content: Any) -> str:
    return f"type {content.get('type')!r}" if isinstance(content, dict) else f"a {type(content).__name__}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- columns of CSV and Parquet files through pyarrow, where it is installed: several times faster than line by line-


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
