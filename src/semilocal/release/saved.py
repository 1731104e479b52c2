"""Results as files: the public tree with its promise, in JSON. They answer the same when they are read again.

A file has a format, a version, a checksum and the content: every public value by the name of its class, arrays as
compressed bytes of little-endian numbers. Reading makes known classes alone; nothing in a file is run.
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
from ..pooled.estimate import Estimates
from ..pooled.partition import PooledPartition
from ..pooled.play import Published, Tree
from ..pooled.rule import Level
from ..pooled.task import PooledTask
from ..protocol.density import Parts
from ..protocol.mark import Mark
from ..protocol.partition import Away, Partition, Walls
from ..protocol.promise import Guarantee
from ..protocol.task import Task
from ..randomizer.values import AnyMechanism
from ..whole_file import whole_file
from .counts import Counts, Mapped
from .means import Mean, Means, RegionMeans, Values
from .points import Points
from .tree import CountTree

__all__ = ["load", "save"]

FORMAT, VERSION = "semilocal result", 1
_RESULTS = (Counts, Mean, Means, Points, Values)
_RECORDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *_RESULTS, Away, CountTree, Entry, Estimates, Ledger, Level, Mark, Partition, Parts, PooledPartition,
        Published, RegionMeans, Tree, Walls,
    )
}  # fmt: skip
_STRUCTS: dict[str, Any] = {
    kind.__name__: kind for kind in (BinaryTree, Guarantee, PooledTask, Quadtree, SphereTree, TableTree, Task)
}
_DTYPES = ("<f8", "<i8", "<u8", "<i4", "|b1")
_MOST_NUMBERS = 1 << 30  # of an array
_DAMAGES = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, msgspec.MsgspecError,
    zlib.error,
)  # fmt: skip


class _Head(msgspec.Struct):
    """What every version of the format begins with."""

    format: str
    version: int


class _File(_Head):
    """A saved result; ``promise`` is for readers."""

    promise: str
    sha256: str
    content: msgspec.Raw


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    result: dict[str, Any]
    tree: dict[str, Any]
    guarantee: dict[str, Any]


def save(result: Mapped, path: str | os.PathLike[str]) -> None:
    """Write a result to a file, in one step; see :meth:`semilocal.release.Counts.save`."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInput(f"{target}: there is no folder {target.parent}; make it first")
    content = msgspec.json.encode(
        _Content(_plain(result), _plain(result.tree), _plain(result.guarantee)), order="deterministic"
    )
    digest = hashlib.sha256(content).hexdigest()
    file = _File(FORMAT, VERSION, result.guarantee.sentence(), digest, msgspec.Raw(content))
    with whole_file(target) as part:
        part.write_bytes(msgspec.json.encode(file) + b"\n")


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
        If it is no such file, is damaged, or was written by a later version.

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
        head = _Head(FORMAT if FORMAT.encode() in data[:40] else "", VERSION)
    if head.format != FORMAT:
        raise InvalidInput(f"{path}: is no result that semilocal saved")
    if head.version > VERSION:
        raise InvalidInput(
            f"{path}: was saved by a later version of semilocal (format {head.version}, this one reads {VERSION}); "
            "update semilocal"
        )
    try:
        file = msgspec.json.decode(data, type=_File)
        if hashlib.sha256(bytes(file.content)).hexdigest() != file.sha256:
            raise ValueError("the checksum is another")
        content = msgspec.json.decode(bytes(file.content), type=_Content)
        result = _read(content.result)
        if not isinstance(result, _RESULTS):
            raise TypeError("it holds no result")
        tree, guarantee = _read(content.tree), _read(content.guarantee)
        if not isinstance(tree, CountTree) or not isinstance(guarantee, Guarantee):
            raise TypeError("its tree or promise is missing")
        if not _is_tree(tree, result.partition):
            raise ValueError("the numbers of its tree do not fit each other")
    except _DAMAGES as error:
        raise InvalidInput(f"{path}: is damaged, so nothing of it is used ({error})") from None
    result.__dict__.update(tree=tree, guarantee=guarantee)
    return result


def _is_tree(tree: CountTree, partition: Partition | PooledPartition) -> bool:
    """Whether arrays make a tree over the regions of a map."""
    parts, first, hierarchy = tree.parts, tree.first, tree.hierarchy
    numbers = np.stack([tree.people, tree.plain, tree.weight, tree.rest, tree.error, tree.clumped])
    lower, upper = codes = np.stack([tree.lower, tree.upper])
    rows, cells = numbers.shape[1], len(parts.cells)
    columns = [(numbers, (6, rows), "f8"), (codes, (2, rows), "u8"), (first, (rows + 1,), "i8")]
    columns += [(parts.share, (cells,), "f8"), (parts.cells, (cells,), "u8"), (parts.piece, (cells,), "i8")]
    if any(array.shape != shape or array.dtype != dtype for array, shape, dtype in columns):
        return False
    children = np.diff(first)
    fitting = np.isin(children[1:], (0, 2)).all() and (first[:-1] > np.arange(rows)).all()  # children after parents
    if first[0] != 1 or first[-1] != rows or not fitting:
        return False
    inner, leaves = np.flatnonzero(children), tree.leaves
    begin, last, every = first[inner], first[inner + 1] - 1, np.arange(len(leaves))
    sums, together = np.add.reduceat(numbers, begin, axis=1), upper[:-1] == lower[1:]
    together[np.append(0, last)[:-1]] = True  # no siblings
    if not np.array_equal(np.unique(parts.piece), every) or (np.diff(parts.piece) < 0).any():
        return False
    share = np.add.reduceat(parts.share, np.searchsorted(parts.piece, every))
    starts, ends = hierarchy.span(parts.cells)
    if isinstance(partition, Partition):
        seen, regions = lower[1 : first[1]], partition.lower
    else:
        seen, regions = lower[leaves], hierarchy.span(partition.cells)[0]
    return bool(
        (lower[0], upper[0]) == hierarchy.ends
        and hierarchy.box == partition.task.box
        and (lower < upper).all()
        and together.all()
        and np.array_equal(codes[:, inner], [lower[begin], upper[last]])
        and np.array_equal(seen, regions)
        and (starts >= lower[leaves[parts.piece]]).all()
        and (ends < upper[leaves[parts.piece]]).all()
        and np.allclose(sums[:2], numbers[:2, inner], atol=1e-6)
        and np.allclose(sums[2:4], 1.0)
        and np.allclose(share, 1.0)
        and (parts.share >= 0.0).all()
        and (numbers[[0, 4, 5]] >= 0.0).all()
        and np.isfinite(numbers).all()
        and 0.0 <= tree.lean <= 1.0
    )


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
        names: Any = getattr(value, "_fields", None) or [each.name for each in fields(value)]
        return {"is": name, **{each: _plain(getattr(value, each)) for each in names}}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    raise InvalidInput(f"{name} cannot be saved")


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
    if is_dataclass(record) and set(values) != {each.name for each in fields(record)}:
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
