"""Running workers of the evaluation by themselves: another machine for one side of a pair.

Such a machine belongs to the operator of that side: it has the database and the signing keys, and sees the shares of
one server. It answers nobody and listens at no port.

Knows processes, keys and a database by its URL.
"""

from __future__ import annotations

import secrets
import socket
import time
from pathlib import Path

from ..errors import InvalidInput
from ..words import number_of
from .keys import key_file, read_keys
from .pair.chunk_worker import LEASE
from .pair.work import Processes
from .server import set_up_logging
from .stopping import Stop
from .stores.base import check_database, open_store
from .stores.chunks import LONGEST_LEASE

__all__ = ["evaluate"]

WATCH_SECONDS = 0.5


def evaluate(
    database: str, *, processes: int, keys_in: str | None = None, environment: str = "", lease: float = LEASE,
    log_level: str = "info", stop: Stop,
) -> None:  # fmt: skip
    """Evaluate reports of pairs until stopped.

    Parameters
    ----------
    database : str
        The one of the server; ``postgresql://…``, or ``sqlite:///file`` on the server's own machine.
    processes : int
    keys_in : str, optional
        File of the signing keys; see ``keys.key_file`` for the default.
    environment : str
        Signing keys with commas between them, instead of the file.
    lease : float
        Seconds after which others take over a chunk of a worker that died.
    stop : Stop

    Raises
    ------
    KeyboardInterrupt
        When it was stopped.
    InvalidInput
        If the database or the keys cannot be used.
    """
    if lease > LONGEST_LEASE:
        raise InvalidInput(f"--lease must be at most {LONGEST_LEASE} seconds; got {lease:g}")
    kind, _ = check_database(database)
    set_up_logging(log_level)
    store = open_store(database, worker="evaluate")
    try:
        file = key_file(database) if keys_in is None else Path(keys_in)
        keys = read_keys(store, file=file, environment=environment)
    finally:
        store.close()
    name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    running = Processes(processes, database, keys, name, lease=lease, idle=None)
    try:
        running.watch()
        many = number_of(processes, "process", "processes")
        print(f"semilocal evaluates for {keys.current.hex()[:16]}… with {many} on {kind}", flush=True)
        while not stop.wished:
            time.sleep(WATCH_SECONDS)
            running.watch()
        stop.check()
    finally:
        running.stop()
