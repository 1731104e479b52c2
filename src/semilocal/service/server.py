"""Running the service: one process, or several workers on one PostgreSQL database.

No access log: addresses of devices are not written down. Knows uvicorn and the environment. Knows no routes.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from typing import Any

from ..errors import InvalidInput, MissingExtra
from .admin import admin_hash, first_admin_token
from .app import App, create_app
from .stores.base import check_url, open_store
from .worker import Service

__all__ = ["app_from_environment", "build_app", "serve"]

_DATABASE, _ADMIN, _ADMIN_HASH = "SEMILOCAL_DB", "SEMILOCAL_ADMIN_TOKEN", "SEMILOCAL_ADMIN_HASH"
MAX_WORKERS = 64
SWITCH_SECONDS = 0.0005


def build_app(database: str, *, admin: bytes, worker: str = "0") -> App:
    """The application on a database; ``admin`` is the hash of the admin token."""
    # The writer's thread lets go of the interpreter's lock for every statement. A busy event loop gives it back only
    # after this interval, 5 ms by default, and a batch would take as many of them as it has statements.
    sys.setswitchinterval(SWITCH_SECONDS)
    return create_app(Service(open_store(database, worker=worker), clock=time.time), admin=admin)


def app_from_environment() -> App:
    """The application of one of several workers."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    worker = secrets.token_hex(8)
    return build_app(os.environ[_DATABASE], admin=bytes.fromhex(os.environ[_ADMIN_HASH]), worker=worker)


def serve(database: str, *, host: str = "127.0.0.1", port: int = 8000, workers: int = 1) -> None:
    """Serve until stopped.

    Parameters
    ----------
    database : str
        ``sqlite:///file`` or ``postgresql://…``.
    workers : int
        Processes; more than one needs PostgreSQL.

    Notes
    -----
    The admin token is taken from the environment variable SEMILOCAL_ADMIN_TOKEN; without it one is made and printed at
    the first start.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("uvicorn", "service") from None
    kind, _ = check_url(database)
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidInput(f"--workers must be 1 to {MAX_WORKERS}; got {workers}")
    if kind == "sqlite" and workers > 1:
        raise InvalidInput(
            f"SQLite serves one worker; got --workers {workers}. "
            "Use --db postgresql://… for several, or leave --workers out"
        )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    open_store(database, worker="start").close()  # a wrong schema is refused here, before any worker starts
    admin = _admin(database)
    print(f"semilocal serves at http://{host}:{port} with {workers} worker{'s' * (workers > 1)} on {kind}", flush=True)
    options: dict[str, Any] = {
        "host": host, "port": port, "access_log": False, "log_level": "warning", "server_header": False,
        "proxy_headers": False, "timeout_keep_alive": 65, "timeout_graceful_shutdown": 3, "backlog": 4096, "ws": "none",
    }  # fmt: skip
    if workers == 1:
        uvicorn.run(build_app(database, admin=admin, worker=_worker(kind)), **options)
        return
    os.environ[_DATABASE] = database
    os.environ[_ADMIN_HASH] = admin.hex()
    uvicorn.run("semilocal.service.server:app_from_environment", factory=True, workers=workers, **options)


def _worker(kind: str) -> str:
    return "0" if kind == "sqlite" else secrets.token_hex(8)


def _admin(database: str) -> bytes:
    token = os.environ.get(_ADMIN)
    if token:
        return admin_hash(token)
    store = open_store(database, worker="start")
    try:
        stored, fresh = first_admin_token(store)
    finally:
        store.close()
    if fresh is not None:
        print(f"admin token (shown once; later set {_ADMIN}): {fresh}", flush=True)
    return stored
