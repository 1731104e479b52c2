"""Where a vault's bytes lie: a folder readable by its owner only, or memory.

Knows files, locks and what survives a crash. Knows no messages.

Replacing a file is safe at any moment: the new bytes go to a file of their own, are synced, take the old one's name,
and the folder is synced. A crash leaves the old bytes or the new ones, and perhaps a left-over that the next
replacement removes.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Protocol

from ..errors import InvalidInput, VaultError

OWNER_ONLY = 0o600
FRESH = ".new"


class Disk(Protocol):
    """The steps a vault is made of; a crash may come between any two of them."""

    def lock(self, path: Path) -> None: ...  # take the only right to use the file, or raise ``VaultError``
    def unlock(self, path: Path) -> None: ...
    def read(self, path: Path) -> bytes | None: ...  # None if there is no file
    def write(self, path: Path, data: bytes) -> None: ...  # a new file for its owner; may be lost before ``sync``
    def sync(self, path: Path) -> None: ...  # the bytes survive a crash
    def rename(self, source: Path, target: Path) -> None: ...  # in one step, but may be undone by a crash
    def sync_folder(self, folder: Path) -> None: ...  # the names in the folder survive a crash


def replace_file(disk: Disk, path: Path, data: bytes) -> None:
    """Put new bytes under a name; after a crash at any moment the name holds the old bytes or the new ones."""
    fresh = path.with_name(path.name + FRESH)
    disk.write(fresh, data)
    disk.sync(fresh)
    disk.rename(fresh, path)
    disk.sync_folder(path.parent)


class FileDisk:
    """Real files. One process at a time may use a file; the lock ends with the process, however it ends."""

    def __init__(self) -> None:
        self._locks: dict[Path, int] = {}

    def lock(self, path: Path) -> None:
        import fcntl

        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The name of the vault changes hands with every save, so the lock has a file of its own.
        handle = os.open(_lock_of(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise VaultError(f"{path} is in use by another process or agent; one vault serves one at a time") from None
        self._locks[path] = handle

    def unlock(self, path: Path) -> None:
        handle = self._locks.pop(path, None)
        if handle is not None:
            os.close(handle)

    def read(self, path: Path) -> bytes | None:
        """Refuses a file that others could read or have made."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise VaultError(f"cannot open the vault {path}: {error.strerror}") from None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise VaultError(f"{path} must be a regular file that belongs to you")
            mode = stat.S_IMODE(status.st_mode)
            if mode & 0o077:
                raise VaultError(
                    f"a vault holds a secret, but {path} has permissions {mode:04o}: others may have read it."
                    f" Allowed is 0600. If nobody has, run: chmod 600 {path}; else start with a new vault"
                )
            return file.read()

    def write(self, path: Path, data: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # a left-over of a crash
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)

    def sync(self, path: Path) -> None:
        _sync(path, os.O_RDONLY)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


class MemoryDisk:
    """Files in memory, for crowds of test devices. They survive the agent, not the process."""

    def __init__(self) -> None:
        self.files: dict[Path, bytes] = {}
        self._locked: set[Path] = set()

    def lock(self, path: Path) -> None:
        if path in self._locked:
            raise VaultError(f"{path} is in use by another agent; one vault serves one at a time")
        self._locked.add(path)

    def unlock(self, path: Path) -> None:
        self._locked.discard(path)

    def read(self, path: Path) -> bytes | None:
        return self.files.get(path)

    def write(self, path: Path, data: bytes) -> None:
        self.files[path] = data

    def sync(self, path: Path) -> None:
        """Nothing to do."""

    def rename(self, source: Path, target: Path) -> None:
        self.files[target] = self.files.pop(source)

    def sync_folder(self, folder: Path) -> None:
        """Nothing to do."""


def _lock_of(path: Path) -> Path:
    if not path.name:
        raise InvalidInput(f"a vault needs the name of a file; got {str(path)!r}")
    return path.with_name(path.name + ".lock")


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
