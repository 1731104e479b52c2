"""Which servers a vault belongs to: the address and the signing key of every task it joined.

The first server is taken as the owner gave it. After that, a name that leads elsewhere, a lost "s" of https or a server
with another key is refused until the owner says that it is meant. Nothing is stored for it: memberships hold the
address and the task, and the task holds the key; a task of two servers holds both addresses and both keys.

Knows vaults and addresses. Opens no connection.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from ..errors import InvalidInput
from ..protocol.task import Task
from ..sharing.pair import PairTask
from .vault import Contents, Membership, pinned_task

__all__ = ["check_address", "check_operators", "check_server", "origin"]

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


def check_server(contents: Contents, server: str, task: Task) -> None:
    """Refuse to join a task at an address, or under a key, that this vault does not know.

    Raises
    ------
    InvalidInput
        With what the vault knows; a vault without tasks knows nothing and accepts everything.
    """
    _check(_known(contents), server, task.server_key)


def check_operators(contents: Contents, pair: PairTask) -> None:
    """Refuse a task of two servers if this vault does not know one of them, or knows another key of it.

    Raises
    ------
    InvalidInput
    """
    pins = _known(contents)
    for operator in (pair.leader, pair.helper):
        _check(pins, operator.origin, operator.signing_key)


def _known(contents: Contents) -> dict[str, set[bytes]]:
    """Keys by address, of every task that was joined."""
    pins: dict[str, set[bytes]] = {}
    for entry in contents.memberships:
        pinned = pinned_task(entry.task, entry.task_id.hex())
        pins.setdefault(origin(entry.server), set()).add(pinned.server_key)
    for upload in contents.uploads:
        pair = PairTask.from_bytes(upload.task)
        for operator in (pair.leader, pair.helper):
            pins.setdefault(origin(operator.origin), set()).add(operator.signing_key)
    return pins


def _check(pins: dict[str, set[bytes]], server: str, key: bytes) -> None:
    if not pins:
        return
    if origin(server) not in pins:
        raise InvalidInput(f"{server} is not the server this vault belongs to ({', '.join(sorted(pins))}). {_ADVICE}")
    keys = pins[origin(server)]
    if key in keys or not any(keys):
        return
    before = " or ".join(f"{one.hex()[:16]}…" for one in sorted(keys) if one)
    if not key:
        raise InvalidInput(f"this task is not signed; the tasks you joined at {server} were, with {before}. {_ADVICE}")
    raise InvalidInput(f"{server} signs with another key ({key.hex()[:16]}…) than before ({before}). {_ADVICE}")
