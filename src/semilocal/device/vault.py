"""The vault of a device: its secret, its ledger, and where it is in every task it joined.

Layout of the file: 16 bytes of magic, 2 bytes of version, the SHA-256 of the rest, and the rest in MessagePack.
Everything is saved as one value in one step, so a crash at any moment leaves the state before or after, never a mix.

What makes a device keep its word after a crash is in here before anything leaves: the worst case is in the ledger
before the device enrols, and the digest of a question is in the state before its answer is sent. Answers themselves
are never stored: they are derived from the secret, the same bytes every time. An upload for two servers is stored until
it is acknowledged, because its envelopes cannot be sealed twice to the same bytes.

A vault that is lost or wiped means a new secret, and so a new participant: the device must enrol again, with a new
token. Knows bytes and promises. Knows no sockets and no clock.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..arrays import short_repr
from ..errors import InvalidInput, ServerViolation, VaultError
from ..protocol.keys import SECRET_BYTES
from ..protocol.messages import decode
from ..protocol.participant import State
from ..protocol.plan import Plan
from ..protocol.policy import Policy
from ..protocol.task import Task
from ..sharing import is_pair_task
from ..sharing.pair import PairTask
from .budget import Amount, Budget
from .disk import Disk, FileDisk, replace_file

MAGIC = b"semilocal vault\n"
VERSION = 2
_HEADER = len(MAGIC) + 2


class Chain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a device has followed the seals."""

    round: int = 0  # the last one whose seal was good; 0 before the first
    head: bytes = b""  # of the chain after that round
    root: bytes = b""  # of the transcript after that round


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that a device has to do with."""

    task: bytes  # canonical bytes, pinned; of a task of two servers they name both operators with their keys

    __repr__ = short_repr

    @property
    def task_id(self) -> bytes:
        """SHA-256 of the task's bytes."""
        return hashlib.sha256(self.task).digest()


class Membership(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device in one task."""

    server: str  # where the task runs
    plan: bytes  # canonical bytes, pinned: what may be asked after the partition
    position: tuple[float, ...]  # fixed for the task; it never leaves
    state: State  # what the participant must not forget
    policy: Policy  # what the owner allowed when joining; it holds to the end
    value: float | None = None  # the owner's own, fixed for the task, if the plan asks for one
    token: str = ""  # to enrol with; empty once the server has acknowledged the enrolment
    enrolled: bool = False
    reported: tuple[int, ...] = ()  # rounds with a report that was sent, or was about to be, and not too late
    closings: tuple[bytes, ...] = ()  # SHA-256 of those followed, as of the last save: the log must not change
    members: int | None = None  # how many of the roster were in the region at the end; None before
    seals: Chain = Chain()  # how far the server's seals were followed, if the task pins a key
    checkpoint: bytes = b""  # the last one that the server published, pinned; empty until the task is over
    over: bool = False  # whether nothing is left to do
    refusal: str = ""  # why the device stopped, if it refused something


class PairUpload(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The one upload of a device for a task of two servers. The position is not in it."""

    digest: bytes  # SHA-256 of the upload
    upload: bytes  # what is sent, until the leader has acknowledged it; then empty
    receipt: bytes = b""  # the leader's, signed
    refusal: str = ""  # why the device stopped, if it did


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a vault holds."""

    secret: bytes
    ledger: Budget = Budget()
    memberships: tuple[Membership, ...] = ()
    uploads: tuple[PairUpload, ...] = ()

    __repr__ = short_repr

    def membership(self, task: bytes) -> Membership | None:
        """The device in the task with this id, or None."""
        return next((entry for entry in self.memberships if entry.task_id == task), None)

    def without(self, task: bytes, ledger: Budget) -> Contents:
        """The contents without a task that was never answered."""
        others = tuple(entry for entry in self.memberships if entry.task_id != task)
        return msgspec.structs.replace(self, ledger=ledger, memberships=others)

    def upload(self, task: bytes) -> PairUpload | None:
        """The upload for the pair task with this id, or None."""
        return next((entry for entry in self.uploads if entry.task_id == task), None)

    def with_entry(self, entry: Membership | PairUpload, ledger: Budget | None = None) -> Contents:
        """The contents with one task or upload, and perhaps the ledger, replaced."""
        field = "memberships" if isinstance(entry, Membership) else "uploads"
        others = (old for old in getattr(self, field) if old.task != entry.task)
        changed: dict[str, Any] = {field: (*others, entry), "ledger": self.ledger if ledger is None else ledger}
        return msgspec.structs.replace(self, **changed)


class Vault:
    """An open vault; close it, or use it in a ``with`` block.

    Examples
    --------
    >>> from semilocal.device.disk import MemoryDisk
    >>> disk = MemoryDisk()
    >>> with Vault.open("a", disk=disk) as vault:
    ...     secret = vault.contents.secret
    >>> with Vault.open("a", disk=disk) as vault:
    ...     vault.contents.secret == secret
    True
    """

    def __init__(self, path: Path, contents: Contents, disk: Disk) -> None:
        self.path = path
        self.contents = contents
        self._disk: Disk | None = disk

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, disk: Disk | None = None, entropy: Callable[[int], bytes] = os.urandom
    ) -> Vault:
        """Open the vault at a path (its lock lies beside it), or make a new one with a fresh secret.

        Raises ``VaultError`` if it is in use, readable by others, damaged, or of another version: it is never repaired
        in silence. Entropy, n secret random bytes, is the operating system's unless a test says otherwise.
        """
        place = Path(os.path.abspath(path))
        disk = FileDisk() if disk is None else disk
        disk.lock(place)
        try:
            data = disk.read(place)
            if data is None:
                contents = Contents(secret=entropy(SECRET_BYTES))
                _check_secret(contents.secret)
                vault = cls(place, contents, disk)
                vault.save(contents)
                return vault
            return cls(place, unpack(data, place), disk)
        except BaseException:
            disk.unlock(place)
            raise

    def save(self, contents: Contents) -> None:
        """Replace everything in one step. When this returns, it survives a crash; if it raises, do not go on."""
        if self._disk is None:
            raise VaultError(f"the vault {self.path} is closed")
        if contents.secret != self.contents.secret:
            raise InvalidInput("a vault keeps one secret; wipe it and enrol again with a new token to get another")
        replace_file(self._disk, self.path, pack(contents))
        self.contents = contents

    def put(self, entry: Membership | PairUpload, ledger: Budget | None = None) -> None:
        """Save one task or upload, and perhaps the ledger."""
        self.save(self.contents.with_entry(entry, ledger))

    def set_cap(self, max_epsilon: Amount | None) -> None:
        """Set the owner's cap on what all tasks together may cost; None for no cap."""
        ledger = self.contents.ledger.with_cap(max_epsilon)
        if ledger != self.contents.ledger:
            self.save(msgspec.structs.replace(self.contents, ledger=ledger))

    def close(self) -> None:
        """Let others use the vault."""
        if self._disk is not None:
            self._disk.unlock(self.path)
            self._disk = None

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Contents)


def pack(contents: Contents) -> bytes:
    """The bytes of a vault's file."""
    body = _encoder.encode(contents)
    return MAGIC + VERSION.to_bytes(2, "big") + hashlib.sha256(body).digest() + body


def unpack(data: bytes, path: Path) -> Contents:
    """The contents of a vault's file, or a reason to refuse it."""
    lost = "if it cannot be restored, move it away: the device then gets a new secret and must enrol with a new token"
    if data[: len(MAGIC)] != MAGIC:
        raise VaultError(f"{path} is not a vault: it does not begin like one; {lost}")
    version = int.from_bytes(data[len(MAGIC) : _HEADER], "big")
    digest, body = data[_HEADER : _HEADER + 32], data[_HEADER + 32 :]
    if len(data) >= _HEADER and version != VERSION:
        raise VaultError(
            f"{path} has version {version}, and this program reads version {VERSION}: a vault does not move from one "
            "protocol to another. Keep it for what it joined, and enrol with a new one"
        )
    if hashlib.sha256(body).digest() != digest:
        raise VaultError(f"{path} is damaged (its checksum does not match); {lost}")
    try:
        contents = _decoder.decode(body)
        _check_secret(contents.secret)
    except (msgspec.DecodeError, InvalidInput, ValueError) as error:
        raise VaultError(f"{path} cannot be read: {error}; {lost}") from None
    return contents


def _check_secret(secret: bytes) -> None:
    if len(secret) != SECRET_BYTES:
        raise InvalidInput(f"a secret must be {SECRET_BYTES} bytes; got {len(secret)}")


def read_task(data: bytes, name: str) -> Task | PairTask:
    """The task of either kind in these bytes; its id must be the one that was asked for."""
    if not is_pair_task(data):
        return pinned_task(data, name)
    _check_id(data, name)
    return PairTask.from_bytes(data)


def _check_id(data: bytes, name: str) -> None:
    if hashlib.sha256(data).hexdigest() != name:
        raise ServerViolation("other-task", "the task's bytes do not have the id that was asked for")


@lru_cache(maxsize=64)
def pinned_task(data: bytes, name: str) -> Task:
    """The task in these bytes, one object for all agents of a process; its id must be the one that was asked for."""
    _check_id(data, name)
    return decode(data, Task)


@lru_cache(maxsize=64)
def pinned_plan(data: bytes) -> Plan:
    """The plan in these bytes, one object for all agents of a process."""
    return decode(data, Plan)


# -- which servers a vault belongs to --------------------------------------------------------------------------------
# The first server is taken as the owner gave it. After that, a name that leads elsewhere, a lost "s" of https or a
# server with another key is refused until the owner says that it is meant. Nothing is stored for it: memberships hold
# the address and the task, and the task holds the key; a task of two servers holds both addresses and both keys.

_ADVICE = "If the operator told you so, say it with --new-server (new_server=True)"
_PORTS = {"http": 80, "https": 443}


def origin(url: str) -> str:
    """The address of a server in one spelling.

    Examples
    --------
    >>> origin("HTTPS://Here.example:443/")
    'https://here.example'
    >>> origin("http://[::1]:8000/under")
    'http://[::1]:8000/under'
    """
    parts = urlsplit(url)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{name}{port}{parts.path.rstrip('/')}"


def check_address(entry: Membership, server: str) -> None:
    """Refuse to go on with a task at another address than the one it was joined at."""
    if origin(server) != origin(entry.server):
        raise InvalidInput(f"this task was joined at {entry.server}, and {server} is another address. {_ADVICE}")


def check_servers(contents: Contents, task: Task | PairTask, server: str) -> None:
    """Refuse to join a task at an address, or under a key, that this vault does not know; a new vault accepts all.

    Of two servers it must know both; ``server`` is where a task of one was found.
    """
    pins: dict[str, set[bytes]] = {}
    for entry in (*contents.memberships, *contents.uploads):
        where = entry.server if isinstance(entry, Membership) else ""
        for address, key in _servers(read_task(entry.task, entry.task_id.hex()), where):
            pins.setdefault(origin(address), set()).add(key)
    for address, key in _servers(task, server) if pins else ():
        _check(pins, address, key)


def _servers(task: Task | PairTask, server: str) -> list[tuple[str, bytes]]:
    """Addresses and keys of the servers of a task."""
    if isinstance(task, Task):
        return [(server, task.server_key)]
    return [(operator.origin, operator.signing_key) for operator in (task.leader, task.helper)]


def _check(pins: dict[str, set[bytes]], server: str, key: bytes) -> None:
    if origin(server) not in pins:
        raise InvalidInput(f"{server} is not the server this vault belongs to ({', '.join(sorted(pins))}). {_ADVICE}")
    keys = pins[origin(server)]
    if key in keys or not any(keys):
        return
    before = " or ".join(f"{one.hex()[:16]}…" for one in sorted(keys) if one)
    if not key:
        raise InvalidInput(f"this task is not signed; the tasks you joined at {server} were, with {before}. {_ADVICE}")
    raise InvalidInput(f"{server} signs with another key ({key.hex()[:16]}…) than before ({before}). {_ADVICE}")
