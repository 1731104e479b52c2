"""Results as files: the public map with its promise, in JSON. They answer the same when they are read again.

A file has a format, a version, the promise in words, a checksum and the result: every public value by the name of its
class, arrays as compressed bytes of little-endian numbers. What follows from the map, its tree and its promise, is made
again from it. Reading makes known classes alone; nothing in a file is run.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import zlib
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..accounting import Entry, Ledger
from ..errors import InvalidInput
from ..hierarchy import BinaryTree, Quadtree, SphereTree, TableTree
from ..pooled.estimate import Estimates, PooledPartition
from ..pooled.play import Level, Published, Tree
from ..pooled.task import PooledTask
from ..protocol.estimate import Walls
from ..protocol.partition import Away, Partition
from ..protocol.promise import Guarantee, Mark
from ..protocol.task import Task
from ..randomizer.values import AnyMechanism
from ..release.counts import Counts, Mapped, OfRows
from ..release.means import Mean, Means, RegionMeans, Values
from ..release.points import Points
from ..whole_file import whole_file

FORMAT, VERSION = "semilocal result", 2
_RESULTS = (Counts, Mean, Means, Points, Values)
_RECORDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *_RESULTS, Away, Entry, Estimates, Ledger, Level, Mark, Partition, PooledPartition, Published, RegionMeans,
        Tree, Walls,
    )
}  # fmt: skip
_STRUCTS: dict[str, Any] = {
    kind.__name__: kind for kind in (BinaryTree, Guarantee, PooledTask, Quadtree, SphereTree, TableTree, Task)
}
_DTYPES = ("<f8", "<i8", "<u8", "<i4", "|b1")
_MOST_NUMBERS = 1 << 30  # of an array
_START = 40  # bytes of a file that name the format
_DAMAGES = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, msgspec.MsgspecError,
    zlib.error,
)  # fmt: skip


class _Head(msgspec.Struct):
    """What every version of the format begins with."""

    format: str
    version: int


class _File(_Head):
    """A saved result; ``promise`` is for readers, and must be the one that follows."""

    promise: str
    sha256: str
    result: msgspec.Raw


def save(result: Mapped, path: str | os.PathLike[str]) -> None:
    """Write a result to a file, in one step; see :meth:`semilocal.release.Counts.save`."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInput(f"{target}: there is no folder {target.parent}; make it first")
    content = msgspec.json.encode(_plain(result), order="deterministic")
    digest = hashlib.sha256(content).hexdigest()
    file = _File(FORMAT, VERSION, result.guarantee.sentence(), digest, msgspec.Raw(content))
    with whole_file(target) as part:
        part.write_bytes(msgspec.json.encode(file) + b"\n")


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as one that :func:`save` wrote."""
    try:
        with open(path, "rb") as stream:
            return FORMAT.encode() in stream.read(_START)
    except OSError:
        return False


def load(path: str | os.PathLike[str]) -> Any:
    """A result that :meth:`semilocal.release.Counts.save` wrote, with its promise. It answers what it answered.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Counts, Mean, Means, Points or Values

    Raises
    ------
    InvalidInput
        If it is no such file, is damaged, or was written by another version.

    Notes
    -----
    Guarantee: that of the result that was saved, with its epsilon and delta; ``guarantee.explain()`` prints it. Its
    checksum tells damage. It does not tell who wrote the file: a transcript does (``semilocal verify``).

    Examples
    --------
    >>> import tempfile
    >>> import semilocal as sl
    >>> counted = sl.counts(np.full((500, 2), 0.3), sl.Box((0, 0), (1, 1)), epsilon=1.0, trust="curator")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counted.save(f"{folder}/map.json")
    ...     again = load(f"{folder}/map.json")
    >>> bool((again.query([[[0, 0], [0.5, 0.5]]]).value == counted.query([[[0, 0], [0.5, 0.5]]]).value).all())
    True
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from None
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, RecursionError):  # a file that was cut off still begins as one of ours
        head = _Head(FORMAT if FORMAT.encode() in data[:_START] else "", VERSION)
    if head.format != FORMAT:
        raise InvalidInput(f"{path}: is no result that semilocal saved")
    if head.version != VERSION:
        when, advice = ("a later", "update semilocal") if head.version > VERSION else ("an earlier", "save it again")
        raise InvalidInput(
            f"{path}: was saved by {when} version of semilocal (format {head.version}, this one reads {VERSION}); "
            f"{advice}"
        )
    try:
        file = msgspec.json.decode(data, type=_File)
        if hashlib.sha256(bytes(file.result)).hexdigest() != file.sha256:
            raise ValueError("the checksum is another")
        result = _read(msgspec.json.decode(bytes(file.result)))
        if not isinstance(result, _RESULTS):
            raise TypeError("it holds no result")
        if result.guarantee.sentence() != file.promise:
            raise ValueError("its promise does not follow from its map")
        if not _fits(result.partition):
            raise ValueError("its map does not cover the domain once")
        result.answer(np.array([[result.partition.task.box.lower, result.partition.task.box.upper]])).interval()
    except _DAMAGES as error:
        raise InvalidInput(f"{path}: is damaged, so nothing of it is used ({error})") from None
    return result


def _fits(partition: Partition | PooledPartition) -> bool:
    """Whether regions cover the domain once, with numbers that can be."""
    hierarchy = partition.task.hierarchy
    if isinstance(partition, Partition):
        lower, upper = partition.intervals
        numbers: list[Any] = [partition.crowds, partition.walls.yes, partition.walls.asked - partition.walls.yes]
    else:
        lower, last = hierarchy.span(partition.cells)
        upper, numbers = last + np.uint64(1), [partition.estimates.counts, partition.estimates.variances]
    together = (lower[0], upper[-1]) == hierarchy.ends and (lower < upper).all() and (lower[1:] == upper[:-1]).all()
    return bool(together and all((number >= 0).all() for number in numbers) and len(numbers[0]) == len(lower))


def _plain(value: Any) -> Any:
    """A public value in terms of JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"is": "float", "text": repr(value)}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        packed = base64.b64encode(zlib.compress(array.tobytes(), 1)).decode()
        return {"is": "array", "dtype": array.dtype.str, "shape": list(array.shape), "data": packed}
    if isinstance(value, Fraction):
        return {"is": "fraction", "text": str(value)}
    if isinstance(value, bytes):
        return {"is": "bytes", "data": base64.b64encode(value).decode()}
    name = type(value).__name__
    if isinstance(value, msgspec.Struct):
        return {"is": name if name in _STRUCTS else "mechanism", "value": msgspec.to_builtins(value)}
    if _RECORDS.get(name) is type(value):
        names: Any = getattr(value, "_fields", None) or _names(value)
        return {"is": name, **{each: _plain(getattr(value, each)) for each in names}}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    raise InvalidInput(f"{name} cannot be saved")


def _names(record: Any) -> list[str]:
    """The fields of a record that are saved."""
    return [each.name for each in fields(record) if each.name not in OfRows.__dataclass_fields__]


def _read(value: Any) -> Any:
    """The value that :func:`_plain` made this of."""
    if isinstance(value, list):
        return tuple(_read(each) for each in value)
    if not isinstance(value, dict):
        return value
    kind, values = value["is"], {name: each for name, each in value.items() if name != "is"}
    if kind == "array":
        return _array(**values)
    if kind == "float":
        return float(values["text"])
    if kind == "fraction":
        numerator, _, denominator = values["text"].partition("/")  # Fraction itself would compute 1e999999999
        return Fraction(int(numerator), int(denominator or 1))
    if kind == "bytes":
        return base64.b64decode(values["data"], validate=True)
    if kind in _STRUCTS or kind == "mechanism":
        return msgspec.convert(values["value"], _STRUCTS.get(kind, AnyMechanism))
    record = _RECORDS[kind]
    if is_dataclass(record) and set(values) != set(_names(record)):
        raise ValueError(f"the fields of a {kind} are others")
    return record(**{name: _read(each) for name, each in values.items()})


def _array(dtype: str, shape: list[int], data: str) -> Any:
    numbers = math.prod(shape)
    if dtype not in _DTYPES or not 0 <= numbers <= _MOST_NUMBERS:
        raise ValueError(f"an array {dtype}{shape} is not allowed")
    size = numbers * np.dtype(dtype).itemsize
    unpacked = zlib.decompressobj().decompress(base64.b64decode(data, validate=True), size + 1)
    if len(unpacked) != size:
        raise ValueError("an array has another size")
    return np.frombuffer(unpacked, dtype=dtype).reshape(shape).astype(np.dtype(dtype).newbyteorder("="))
