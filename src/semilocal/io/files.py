"""Files that results are written to: checked before any work is done, and replaced in one step.

Knows paths and bytes. Knows no formats.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import BinaryIO

from ..errors import InvalidInput
from ..whole_file import whole_file

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_outputs(
    outputs: Mapping[str, tuple[Path | None, Sequence[str]]], *, inputs: Sequence[str | Path | None] = ()
) -> None:
    """Refuse an output that cannot be written, or that is one of the inputs, before any work is done.

    ``outputs`` has by the name of the option the file, and the endings that its name may have (any, if there are none).
    ``inputs`` are files, folders and patterns of files that must not be overwritten, under whatever name: also not
    through a link.
    """
    given = [Path(path) for path in inputs if path is not None]
    taken = {file.resolve(): f"the input {file}" for path in given for file in _files(path) if file.exists()}
    for option, (path, endings) in outputs.items():
        if path is None:
            continue
        if endings and path.suffix.lower() not in endings:
            raise InvalidInput(f"{option} {path}: the name must end in {' or '.join(endings)}")
        if path.is_dir():
            raise InvalidInput(f"{option} {path}: is a folder; give the name of a file")
        target = _target(path, f"{option} {path}")
        if not target.parent.is_dir():
            raise InvalidInput(
                f"{option} {path}: there is no folder {target.parent}; make it first, or write elsewhere"
            )
        if not _can_write(target.parent) or (target.exists() and not os.access(target, os.W_OK)):
            raise InvalidInput(f"{option} {path}: cannot be written; check its permissions and those of its folder")
        same = next((what for known, what in taken.items() if known == target or _linked(known, target)), None)
        if same is not None:
            raise InvalidInput(f"{option} {path}: is the same file as {same}, which it would overwrite; take another")
        taken[target] = f"{option} {path}"


def check_folder(option: str, path: Path) -> None:
    """Refuse a folder for results that cannot be made or written into."""
    nearest = next(folder for folder in (path, *path.resolve().parents) if folder.exists())
    if not nearest.is_dir():
        raise InvalidInput(f"{option} {path}: {nearest} is a file, not a folder; take another name")
    if not _can_write(nearest):
        raise InvalidInput(f"{option} {path}: cannot write into {nearest}; check its permissions")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes appear under the name all at once at the end; after an error nothing has changed."""
    target = _target(path, str(path))
    try:
        with whole_file(target) as part, part.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        if error.errno in NO_ROOM:
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text in one step."""
    with replacing(path) as stream:
        stream.write(text.encode())


def read_text(path: Path) -> str:
    """The UTF-8 text of a file, or a refusal that names it."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None


def _can_write(folder: Path) -> bool:
    """Whether a file can be made there: tried, because rights alone do not tell (root, read-only disks)."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".semilocal-", dir=folder):
            return True
    except OSError:
        return False


def _files(path: Path) -> list[Path]:
    """The files that an input names: a file, all in a folder, all that fit a pattern."""
    if path.is_dir():
        return [file for file in path.rglob("*") if file.is_file()]
    return [path] if path.exists() else [Path(name) for name in glob(str(path), recursive=True)]


def _target(path: Path, what: str) -> Path:
    """The file behind links; refuses a device or a pipe, which a file would replace."""
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{what}: is a device, a pipe or a folder, which a file would replace; give another name")
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise InvalidInput(f"{what}: is a link that leads to itself; give another name")
    return target


def _linked(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and os.path.samefile(one, other)
