"""The one reader of files: CSV (also .gz), Parquet, GeoParquet points and GeoJSON.

They give numbers, texts and record batches. CSV and GeoJSON need nothing but the core: what pyarrow reads faster, the
csv module reads too, and it names the line that is wrong. Messages name the place in the file and the column, never the
content of a cell: it may be somebody's position.

Knows formats and columns. Knows no domain and no participants.
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
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

import numpy as np

from ..arrays import Floats, Integers, arrow_values, is_number
from ..errors import InvalidInput, listed_columns, optional
from ..geometry.places import DEGREES, LATITUDE, LONGITUDE
from ..words import delimiter_of

PARQUET = (".parquet", ".parq", ".pq")  # how the names of such files end
AXES = ((*LONGITUDE, "x"), (*LATITUDE, "y"))  # usual names of the columns of positions
NOBODY = -1  # code of an empty label
WORTH_IT = 1 << 20  # bytes; smaller CSV files are read before pyarrow is loaded
CHUNK = 1 << 20
BATCH = 1 << 17  # rows that are decoded at once: they stay in the cache
_BLOCK = 1 << 22  # bytes of CSV that are parsed at once
_LONGEST_HEADER = 1_000_000  # characters
_GZIP = b"\x1f\x8b"
_GEOMETRIES = ("MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection")


def load_arrow() -> Any:
    """The module pyarrow, with the formats; its datasets would load pandas."""
    optional("pyarrow.csv", "parquet")
    optional("pyarrow.parquet", "parquet")
    return optional("pyarrow", "parquet")


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


class Batches(NamedTuple):
    """A pyarrow schema, and a function that gives record batches of some columns, in the order of the rows."""

    schema: Any
    batches: Callable[[Sequence[str]], Iterator[Any]]


class TableFile:
    """One file: which columns there are, and what they hold."""

    row_word = "row"
    columns: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self, numbers: Sequence[str], texts: Sequence[str]) -> Batches:
        """The rows as record batches; columns of numbers and texts have these types where the format has none."""
        raise NotImplementedError

    def in_batches(self) -> bool:
        """Whether batches are a quick way to the numbers, with no other care than that of looking at each line."""
        return True

    def read(self, wanted: Sequence[str], labels: Sequence[str] = ()) -> tuple[Floats, list[Integers]]:
        """Columns of numbers float64[k, n], and of any content as codes int64[n] each: equal content, equal code."""
        rows = self.rows(wanted, labels)
        check_numbers(rows.schema, wanted, self.path)
        batches = list(rows.batches(list(dict.fromkeys([*wanted, *labels]))))
        starts = list(itertools.accumulate(map(len, batches), initial=0))
        found = np.empty((len(wanted), starts[-1]))
        for start, batch in zip(starts, batches, strict=False):
            for out, column in zip(found, self.numbers(batch, wanted, start), strict=True):
                out[start : start + len(batch)] = column
        kinds = [(name, rows.schema.field(name).type) for name in labels]
        joined = [load_arrow().chunked_array([part.column(name) for part in batches], kind) for name, kind in kinds]
        return found, list(map(codes_of, joined))

    def numbers(self, batch: Any, names: Sequence[str], start: int) -> list[Floats]:
        """Columns of a record batch, float64[b] each; refuses a row without a value. ``start`` is its first row."""
        for name in names:
            if (column := batch.column(name)).null_count:
                row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                self.refuse(row, f"column {name!r} is empty", "remove such rows first")
        return [arrow_values(batch.column(name).cast("float64")) for name in names]

    def texts(self, names: Sequence[str]) -> list[list[Any]]:
        """Columns as they are written: one list per name."""
        batches = list(self.rows((), names).batches(names))
        return [[text for batch in batches for text in batch.column(name).to_pylist()] for name in names]

    def spelled(self, name: str) -> str:
        """A column as the file spells it: capitals do not matter if only one is meant."""
        same = [name] if name in self.columns else [own for own in self.columns if own.lower() == name.lower()]
        if len(same) != 1:
            raise InvalidInput(f"{self.path}: has no column {name!r}; it has {listed_columns(self.columns)}")
        return same[0]

    def recognised(self, axis: int) -> str:
        """The one column that is called as positions usually are on an axis: 0 for longitude or x, 1 for the other."""
        found, usual = [name for name in self.columns if name.lower() in AXES[axis]], AXES[axis]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidInput(
                f"{self.path}: {listed_columns(found)} could all be the {'xy'[axis]} column; name the one you mean"
            )
        fix = f"name the {'xy'[axis]} column out of {listed_columns(self.columns)}"
        if "geometry" in self.columns:
            fix = "'geometry' is not read: write longitude and latitude as columns, or points as GeoParquet or .geojson"
        raise InvalidInput(f"{self.path}: no column is called {', '.join(usual[:-1])} or {usual[-1]}; {fix}")

    def refuse(self, row: int, what: str, fix: str) -> NoReturn:
        """Say what is wrong with a row."""
        raise InvalidInput(f"{self.path}, {self.place(row)}: {what}; {fix}")

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        return f"{self.row_word} {row}"


def open_file(path: Path) -> TableFile:
    """The reader of a file, by the ending of its name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    if kind not in _READERS:
        raise InvalidInput(f"{path}: cannot tell the format from the name; use .csv, .csv.gz, .parquet or .geojson")
    return _READERS[kind](path)


def reason_of(error: Exception) -> str:
    """What Arrow says, without the value that it could not read: it may be somebody's position."""
    return re.sub(r"(invalid value|Float value|Integer value|got \d+):? .*", r"\1", str(error).splitlines()[0])


def check_numbers(schema: Any, columns: Sequence[str], where: object) -> None:
    """Refuse columns of an Arrow schema that are not there, there twice, or hold no numbers."""
    types = load_arrow().types
    for name in columns:
        if schema.names.count(name) != 1:
            how_many = "two columns" if name in schema.names else "no column"
            raise InvalidInput(f"{where}: has {how_many} {name!r}; the columns are {listed_columns(schema.names)}")
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
            raise InvalidInput(f"{where}: column {name!r} holds {kind}, not numbers; choose another column")


def check_files(paths: Sequence[Path], numbers: Sequence[str], texts: Sequence[str]) -> list[tuple[TableFile, Batches]]:
    """Files with their rows; refuses a file without a column, or with texts of another type than the first file's."""
    opened = []
    for file in map(open_file, paths):
        if missing := [name for name in (*numbers, *texts) if name not in file.columns]:
            raise InvalidInput(
                f"{file.path}: has no column {missing[0]!r}; the columns are {listed_columns(file.columns)}"
            )
        rows = file.rows(numbers, texts)
        check_numbers(rows.schema, numbers, file.path)
        opened.append((file, rows))
        for name in texts:
            one, other = (schema.field(name).type for schema in (rows.schema, opened[0][1].schema))
            if one != other:
                raise InvalidInput(
                    f"column {name!r} holds {one} in {file.path} but {other} in {paths[0]}; write the files with the "
                    "same type"
                )
    return opened


class _Codes:
    """Codes for labels: equal labels get equal codes."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {"": NOBODY}
        self._codes = array.array("q")

    def add(self, label: str) -> None:
        self._codes.append(self._known.setdefault(label, len(self._known)))

    def column(self) -> Integers:
        return np.array(self._codes, dtype=np.int64)


def codes_of(column: Any) -> Integers:
    """Codes of an Arrow column of labels: from 1 in the order they come; equal labels have equal codes, none has -1."""
    from pyarrow import compute, types

    if types.is_string(column.type) or types.is_large_string(column.type):
        column = compute.utf8_trim_whitespace(column)
    encoded = column.combine_chunks().dictionary_encode()
    label_is_there = np.array([label is not None and str(label) != "" for label in encoded.dictionary.to_pylist()])
    codes = np.where(label_is_there, np.cumsum(label_is_there), NOBODY).astype(np.int64)
    places = arrow_values(encoded.indices.fill_null(-1))
    found: Integers = np.append(codes, NOBODY)[places]  # -1 takes the last: nobody
    return found


# -- CSV -------------------------------------------------------------------------------------------------------------


class _CsvFile(TableFile):
    row_word = "data line"
    _delimiter = ","

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._lines() as lines:
            self._header_line, header = next(lines, (0, None))
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

    def in_batches(self) -> bool:
        if self.path.stat().st_size < WORTH_IT or find_spec("pyarrow") is None:
            return False
        return _is_plain(self.path, self._header_line)

    def read(self, wanted: Sequence[str], labels: Sequence[str] = ()) -> tuple[Floats, list[Integers]]:
        if self.in_batches() and not set(wanted) & set(labels):
            with contextlib.suppress(InvalidInput):
                return super().read(wanted, labels)
        return self._read_lines(wanted, labels)

    def _read_lines(self, wanted: Sequence[str], labels: Sequence[str]) -> tuple[Floats, list[Integers]]:
        """Line by line, which can name the line that is wrong."""
        width = len(self.columns)
        found = [array.array("d") for _ in wanted]
        numbers = [(store.append, self.columns.index(name)) for store, name in zip(found, wanted, strict=True)]
        coded = [_Codes() for _ in labels]
        texts = [(codes.add, self.columns.index(name)) for codes, name in zip(coded, labels, strict=True)]
        with self._lines() as lines:
            next(lines)
            for line, row in lines:
                if len(row) != width:
                    self._refuse_line(line, f"has {len(row)} cells, the header {width}", "fix that line")
                try:
                    for append, place in numbers:
                        append(float(row[place]))
                except ValueError:
                    cell, fix = row[place].strip(), "fix the cell, remove the line, or choose another column"
                    what = "is not a number" if cell else "is empty"
                    if _is_number(cell.replace(",", ".", 1)):
                        what, fix = "has a decimal comma", "write numbers with a point"
                    self._refuse_line(line, f"column {self.columns[place]!r} {what}", fix)
                for add, place in texts:
                    add(row[place].strip())
        columns = [np.frombuffer(store, dtype=np.float64) if store else np.empty(0) for store in found]
        return np.stack(columns) if columns else np.empty((0, 0)), [codes.column() for codes in coded]

    def texts(self, names: Sequence[str]) -> list[list[Any]]:
        places = [self.columns.index(name) for name in names]
        with self._lines() as lines:
            next(lines)
            kept = [[row[place] for place in places] for _, row in lines]
        return [list(column) for column in zip(*kept, strict=True)] if kept else [[] for _ in names]

    def rows(self, numbers: Sequence[str], texts: Sequence[str]) -> Batches:
        arrow = load_arrow()
        kinds = dict.fromkeys(texts, arrow.string()) | dict.fromkeys(numbers, arrow.float64())

        def opened(columns: Sequence[str]) -> Any:
            return arrow.csv.open_csv(
                self.path,
                arrow.csv.ReadOptions(column_names=self.columns, skip_rows=self._header_line, block_size=_BLOCK),
                arrow.csv.ParseOptions(delimiter=self._delimiter),
                arrow.csv.ConvertOptions(
                    column_types=kinds, strings_can_be_null=True, null_values=[""], include_columns=columns
                ),
            )

        @contextlib.contextmanager
        def naming_the_line() -> Iterator[None]:
            """What Arrow cannot read is read again line by line, which names the line."""
            try:
                yield
            except (arrow.ArrowInvalid, OSError) as error:
                self._read_lines(numbers, [])
                raise InvalidInput(f"{self.path}: cannot be read: {reason_of(error)}; fix the file") from None

        def batches(columns: Sequence[str]) -> Iterator[Any]:
            with naming_the_line():
                yield from opened(columns)

        with naming_the_line():
            return Batches(opened([]).schema, batches)

    def place(self, row: int) -> str:
        with self._lines() as lines:  # only on the way to an error: lines are not remembered while reading
            return f"line {next(itertools.islice(lines, row + 1, None))[0]}"

    def _refuse_line(self, line: int, what: str, fix: str) -> NoReturn:
        raise InvalidInput(f"{self.path}, line {line}: {what}; {fix}")

    @contextlib.contextmanager
    def _lines(self) -> Iterator[Iterator[tuple[int, list[str]]]]:
        """The lines that are not empty, with their numbers; the first names the columns."""
        with _open_text(self.path) as stream:
            reader: Any = None
            try:
                self._delimiter = delimiter_of(stream.readline(_LONGEST_HEADER))
                stream.seek(0)
                reader = csv.reader(stream, delimiter=self._delimiter, strict=True)
                yield ((reader.line_num, row) for row in reader if row)
            except csv.Error as error:
                self._refuse_line(reader.line_num, f"is not CSV ({error})", "fix that line")
            except UnicodeDecodeError as error:
                raise InvalidInput(f"{self.path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                why = _why(error)
                raise InvalidInput(f"{self.path}: the gzip data is damaged ({why}); get the file again") from None


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


@contextlib.contextmanager
def _open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    with contextlib.ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("rb"))
        if path.suffix.lower() == ".gz":
            raw = stack.enter_context(gzip.GzipFile(fileobj=raw))
        elif raw.peek(2)[:2] == _GZIP:
            raise InvalidInput(f"{path}: is compressed with gzip; call it {path.name}.gz")
        yield stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))


def _why(error: Exception) -> str:
    """What a reader complains about, without the bytes of the file that it quotes."""
    return error.reason if isinstance(error, UnicodeDecodeError) else str(error).split(" (b'")[0]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- Parquet ---------------------------------------------------------------------------------------------------------


def open_parquet(path: Path) -> Any:
    """A ``pyarrow.parquet.ParquetFile``."""
    arrow = load_arrow()
    try:
        return arrow.parquet.ParquetFile(path)
    except (arrow.ArrowInvalid, OSError) as error:
        raise InvalidInput(f"{path}: is not a Parquet file ({str(error).splitlines()[0]}); check the file") from None


@contextlib.contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """Name the file whose rows cannot be decoded."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # the system's, which names the file
            raise
        raise InvalidInput(f"{path}: is damaged ({reason_of(error)}); get the file again") from None


class Geometry(NamedTuple):
    """The geometries of a GeoParquet file: the name of their column, and what the format says about it."""

    name: str
    column: Mapping[str, Any]

    @property
    def axes(self) -> tuple[str, str]:
        """What the coordinates of points are called: no CRS means longitude and latitude, null means unknown."""
        crs = self.column.get("crs", {"type": "GeographicCRS"})
        return DEGREES if crs is not None and "Geographic" in str(crs.get("type")) else ("x", "y")


def geometry_of(schema: Any) -> Geometry | None:
    """Where the geometries of an Arrow schema are; None if it is no GeoParquet."""
    geo = (schema.metadata or {}).get(b"geo")
    if geo is None:
        return None
    document = json.loads(geo)
    return Geometry(document["primary_column"], document["columns"][document["primary_column"]])


class _ParquetFile(TableFile):
    """Points of a GeoParquet file are columns, too, if no others are called like positions."""

    _points: Geometry | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._schema = open_parquet(path).schema_arrow
        self.columns = tuple(self._schema.names)
        found = geometry_of(self._schema)
        named = any(name.lower() in (*AXES[0], *AXES[1]) for name in self.columns)
        if found and not named and set(found.column.get("geometry_types", ())) <= {"Point", "Point Z"}:
            self._points = found
            self.columns = (*found.axes, *(name for name in self.columns if name != found.name))

    def _is_axis(self, name: str) -> bool:
        return self._points is not None and name in self._points.axes

    def _with_points(self, batch: Any, columns: Sequence[str], start: int) -> Any:
        """Columns of a record batch; the coordinates of points in place of their geometry."""
        arrow, axes = load_arrow(), dict[str, Any]()
        if self._points is not None and any(map(self._is_axis, columns)):
            coordinates, wrong = _coordinates(batch.column(self._points.name))
            if wrong.any():
                self.refuse(start + int(np.argmax(wrong)), "the geometry is not a Point", "correct or remove it")
            axes = dict(zip(self._points.axes, map(arrow.array, coordinates.T), strict=True))
        found = [axes[name] if name in axes else batch.column(name) for name in columns]
        return arrow.RecordBatch.from_arrays(found, names=list(columns))

    def rows(self, numbers: Sequence[str], texts: Sequence[str]) -> Batches:
        arrow = load_arrow()

        def batches(columns: Sequence[str]) -> Iterator[Any]:
            start, stored = 0, columns
            if self._points is not None:
                stored = list(dict.fromkeys(self._points.name if self._is_axis(name) else name for name in columns))
            with _undamaged(self.path):
                for batch in open_parquet(self.path).iter_batches(BATCH, columns=stored):
                    yield batch if self._points is None else self._with_points(batch, columns, start)
                    start += len(batch)

        fields = [
            arrow.field(name, arrow.float64()) if self._is_axis(name) else self._schema.field(name)
            for name in self.columns
        ]
        return Batches(arrow.schema(fields), batches)


def _coordinates(column: Any) -> tuple[Floats, Any]:
    """Positions float64[n, 2] of a column of points in either encoding of GeoParquet, and which are none: bool[n]."""
    wrong = np.array(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    if load_arrow().types.is_struct(column.type):
        fields = [column.field(name).to_numpy(zero_copy_only=False) for name in ("x", "y")]
        return np.stack(fields, axis=1).astype(np.float64), wrong
    binary = column.fill_null(b"").cast("large_binary")
    ends = np.frombuffer(binary.buffers()[1], np.int64)[binary.offset : binary.offset + len(binary) + 1]
    content = np.frombuffer(binary.buffers()[2] or b"", np.uint8)
    wrong |= np.diff(ends) < _POINT
    shown = np.zeros((len(binary), _POINT), dtype=np.uint8)
    shown[~wrong] = content[ends[:-1][~wrong, None] + np.arange(_POINT)]
    little = shown[:, 0] == 1
    kind = np.where(little, *(shown[:, 1:5].copy().view(order + "u4")[:, 0] for order in "<>"))
    wrong |= (kind & 0xFFFF) % 1000 != 1  # a point; with a height the number is larger
    places = np.where(little[:, None], *(shown[:, 5:].copy().view(order + "f8") for order in "<>"))
    return places.astype(np.float64), wrong


_POINT = 21  # bytes: the order of bytes, the kind, two coordinates


# -- GeoJSON ---------------------------------------------------------------------------------------------------------


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
            got = f"type {content.get('type')!r}" if isinstance(content, dict) else f"a {type(content).__name__}"
            raise InvalidInput(f"{path}: must be a GeoJSON FeatureCollection of Points; got {got}")
        self._features = features
        named = dict.fromkeys(str(name) for feature in features for name in _properties(feature))
        self.columns = (*DEGREES, *(name for name in named if name not in DEGREES))

    def in_batches(self) -> bool:
        return False  # it is in memory

    def read(self, wanted: Sequence[str], labels: Sequence[str] = ()) -> tuple[Floats, list[Integers]]:
        found = np.empty((len(wanted), len(self._features)))
        coded = [_Codes() for _ in labels]
        for row, feature in enumerate(self._features):
            position = self._position(row, feature)
            for store, name in zip(found, wanted, strict=True):
                if name in DEGREES:
                    store[row] = position[DEGREES.index(name)]
                else:
                    value = _properties(feature).get(name)
                    if not is_number(value):
                        self.refuse(row, f"property {name!r} is not a number", "fix it or remove the feature")
                    store[row] = value
            for codes, name in zip(coded, labels, strict=True):
                label = _properties(feature).get(name)
                codes.add("" if label is None else str(label))
        return found, [codes.column() for codes in coded]

    def texts(self, names: Sequence[str]) -> list[list[Any]]:
        return [[_properties(feature).get(name) for feature in self._features] for name in names]

    def rows(self, numbers: Sequence[str], texts: Sequence[str]) -> Batches:
        wanted = list(dict.fromkeys((*DEGREES, *numbers)))
        columns: dict[str, Any] = dict(zip(wanted, self.read(wanted)[0], strict=True))
        for name, column in zip(texts, self.texts(texts), strict=True):
            columns[name] = [None if text is None else str(text) for text in column]
        table = load_arrow().table(columns)
        return Batches(table.schema, lambda chosen: table.select(list(chosen)).to_batches(max_chunksize=BATCH))

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


def _properties(feature: Any) -> dict[str, Any]:
    """The properties of a feature, and its own id if they have none: it may say whose row it is."""
    if not isinstance(feature, dict):
        return {}
    properties = feature.get("properties")
    own = {"id": feature["id"]} if feature.get("id") is not None else {}
    return own | properties if isinstance(properties, dict) else own


_READERS: Mapping[str, type[TableFile]] = MappingProxyType(
    dict.fromkeys((".csv", ".tsv", ".txt"), _CsvFile)
    | dict.fromkeys((".geojson", ".json"), _GeoJsonFile)
    | dict.fromkeys(PARQUET, _ParquetFile)
)
