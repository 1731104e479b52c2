"""What a server keeps secret: its signing keys, and the administrator's token, of which the database has a hash.

The keys are in a file of their own or in the environment, never in the database. The first one signs campaigns that
are created from now on; the others still sign the campaigns that pin them. The database holds the public half of the
first one, so that a server with other keys is refused. Rotation: a new first line (``semilocal serve --new-key``), and
the old lines go when their campaigns have ended.

Knows files and a store's settings. Knows no rounds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from ..errors import InvalidInput
from ..protocol.task import Task
from ..transcript.checkpoints import public_key
from .stores.base import Store, check_url

ENVIRONMENT = "SEMILOCAL_SIGNING_KEY"
_REGISTERED = "server-key"


class Keyring(NamedTuple):
    """Signing keys."""

    current: bytes  # public half of the key for new campaigns; empty if there is none
    private: Mapping[bytes, bytes]  # private halves by their public halves

    @classmethod
    def of(cls, seeds: Sequence[bytes]) -> Keyring:
        """A ring of private keys, 32 bytes each; the first one is for new campaigns."""
        halves = [public_key(seed) for seed in seeds]
        return cls(halves[0] if halves else b"", MappingProxyType(dict(zip(halves, seeds, strict=True))))

    def key_for(self, task: Task) -> bytes | None:
        """The private key that seals a task's rounds; None if the task pins no key."""
        if not task.server_key:
            return None
        if task.server_key not in self.private:
            raise InvalidInput(
                f"the campaign pins the server key {task.server_key.hex()[:16]}…, which this server does not have; "
                "add its line to the key file and restart"
            )
        return self.private[task.server_key]


NO_KEYS = Keyring(b"", MappingProxyType({}))


def secret_from(variable: str) -> str:
    """A secret in an environment variable, or in the file that it names after an @; empty if there is none."""
    text = os.environ.get(variable, "")
    if not text.startswith("@"):
        return text
    found = _read_private(Path(text[1:]))
    if found is None:
        raise InvalidInput(f"{variable} names {text[1:]}, which is not there")
    return ",".join(line.strip() for line in found.splitlines() if line.strip())


def key_file(url: str) -> Path:
    """Where the keys of a database lie by default: beside a SQLite file, or in the user's folder for such things."""
    kind, address = check_url(url)
    if kind == "sqlite":
        return Path(f"{address}.key")
    parts = urlsplit(address)
    place = f"{parts.hostname or 'localhost'}-{parts.port or 5432}{parts.path}"
    return data_folder() / f"server-{re.sub('[^A-Za-z0-9.-]+', '-', place)}.key"


def data_folder() -> Path:
    """The folder of the user for data of programs."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "semilocal"


def registered_key(store: Store) -> bytes | None:
    """The public key that campaigns of a database pin; None before a server has used it."""
    return store.setting(_REGISTERED)


def open_keys(store: Store, *, file: Path, environment: str = "", new: bool = False) -> Keyring:
    """Read the keys of a server, make the first one, and register its public half in the database.

    The file has one key per line, 64 hex digits; only its owner may read it. ``environment`` has keys with commas
    between them, instead of the file. Refuses a database that belongs to a server with other keys, unless ``new`` makes
    one.
    """
    registered = registered_key(store)
    if environment:
        if new:
            raise InvalidInput(f"the signing key comes from {ENVIRONMENT}; put the new one first there")
        ring = Keyring.of(_parse(environment.split(","), ENVIRONMENT))
    else:
        ring = Keyring.of(_seeds(file, registered, new=new))
    if registered is not None and registered not in ring.private and not new:
        raise InvalidInput(
            f"the database belongs to a server with the key {registered.hex()[:16]}…, which is not among the given "
            "ones; give its key file, or start with --new-key (campaigns that pin the old key cannot go on then)"
        )
    if registered != ring.current:
        store.set_setting(_REGISTERED, ring.current)
    return ring


def _seeds(file: Path, registered: bytes | None, *, new: bool) -> list[bytes]:
    """The keys of a file, with a new first one if that is asked for or if there is none."""
    text = _read_private(file)
    seeds = [] if text is None else _parse(text.splitlines(), str(file))
    if seeds and not new:
        return seeds
    if registered is not None and not new:
        raise InvalidInput(
            f"the database belongs to a server with the key {registered.hex()[:16]}…, and {file} is missing: put "
            "it back, or start with --new-key (campaigns that pin the old key cannot go on then)"
        )
    seeds = [secrets.token_bytes(32), *seeds]
    _write_private(file, "".join(f"{seed.hex()}\n" for seed in seeds), replace=text is not None)
    if text is None and (other := _read_private(file)) is not None:  # another process may have been faster
        return _parse(other.splitlines(), str(file))
    return seeds


def _parse(lines: Sequence[str], where: str) -> list[bytes]:
    words = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not words or any(not re.fullmatch("[0-9a-f]{64}", word) for word in words):
        raise InvalidInput(f"{where} must hold signing keys, 64 lower-case hex digits each; it does not")
    return [bytes.fromhex(word) for word in words]


def _read_private(file: Path) -> str | None:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot read the secret in {file}: {error.strerror}") from None
    with os.fdopen(handle) as stream:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & 0o077:
            raise InvalidInput(
                f"{file} holds a secret but has permissions {mode:04o}: others may have read it. Allowed is 0600. "
                f"If nobody has, run: chmod 600 {file}; else make a new one (a signing key with --new-key)"
            )
        return stream.read(1 << 20)


def _write_private(file: Path, text: str, *, replace: bool) -> None:
    """Write a file for its owner alone, in one step; an existing one is kept unless it is to be replaced."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), private_file(file, os.replace if replace else os.link) as fresh:
            fresh.write_text(text)
    except OSError as error:
        raise InvalidInput(f"cannot write the key file {file}: {error.strerror}; name another --key-file") from None


@contextlib.contextmanager
def private_file(target: Path, publish: Callable[[Path, Path], object] = os.replace) -> Iterator[Path]:
    """A new file for its owner alone, which gets the target's name when it is on disk."""
    fresh = target.with_name(f"{target.name}.{secrets.token_hex(4)}.new")
    try:
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield fresh
        _flush(fresh)
        publish(fresh, target)
        _flush(target.parent)
    finally:
        fresh.unlink(missing_ok=True)


def _flush(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- the administrator's token ---------------------------------------------------------------------------------------


def admin_hash(token: str) -> bytes:
    """What is stored of an admin token (at least 128 random bits, so a plain hash cannot be searched)."""
    return hashlib.sha256(b"semilocal/1/admin" + token.encode()).digest()


def check_admin_token(token: str) -> None:
    """Refuse a token that cannot hold 128 bits: its hash could be searched, and so could the token over HTTP."""
    if len(token) < 22 or len(set(token)) < 8:
        raise InvalidInput(
            f"the admin token must hold at least 128 random bits: 22 characters or more; got {len(token)} with "
            f"{len(set(token))} different ones. "
            "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )


def first_admin_token(store: Store) -> tuple[bytes, str | None]:
    """The stored hash, and the token itself if it was made just now: it is not shown again."""
    token = "sla_" + secrets.token_urlsafe(32)
    mine = admin_hash(token)
    stored = store.first_setting("admin", mine)
    return stored, token if stored == mine else None
