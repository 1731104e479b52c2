"""Running the service: one process. Several servers, each at its own port, may share a PostgreSQL database.

The address is bound and the database is locked before anything is printed, so a line that says "serves at" is true.
Addresses of devices are never written down. How large, how slow and how many requests may be is for the proxy in front
of it (``deploy/nginx.conf``). Knows uvicorn, sockets and the environment. Knows no campaigns.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import os
import resource
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from ..errors import InvalidInput, optional
from .app import App
from .faults import Seldom
from .keys import (
    ENVIRONMENT,
    Keyring,
    admin_hash,
    check_admin_token,
    first_admin_token,
    key_file,
    open_keys,
    secret_from,
)
from .pair.form import PairSettings
from .pair.service import PairService
from .routes.table import Operation
from .stopping import SIGNALS, Stop
from .stores.base import Store, check_url, open_store
from .worker import Service

_ADMIN = "SEMILOCAL_ADMIN_TOKEN"
BACKLOG = 4096
RESERVE = 96  # descriptors for ourselves: the database, its files, threads, the log
SWITCH_SECONDS = 0.002
GARBAGE = (20_000, 20, 20)

log = logging.getLogger("semilocal.service")


def build_app(
    store: Store, *, admin: bytes, keys: Keyring, more: Sequence[Operation] = (), pair: PairSettings | None = None
) -> App:
    """The application on a database.

    ``admin`` is the hash of the admin token, ``more`` are further routes, ``pair`` is the server's part in pairs.
    Called inside the event loop.
    """
    # The writer's thread releases the interpreter's lock for every statement. A busy event loop gives it back only
    # after this interval, 5 ms by default, and a batch would take as many of them as it has statements.
    sys.setswitchinterval(SWITCH_SECONDS)
    # Requests leave no cycles behind, but hundreds of them are under way at a time: with the usual thresholds the
    # collector would go through them, and now and then through everything that was imported, without finding anything.
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    clock = steady_clock()
    pairs = None if pair is None else PairService(store, clock=clock, keys=keys, settings=pair)
    service = Service(store, clock=clock, keys=keys, max_waiters=most_connections() * 4 // 5, pairs=pairs)
    app = App(service, admin=admin, more=more)
    _leave_on_signals(app)
    return app


def steady_clock() -> Callable[[], float]:
    """Unix time, read once and then counted on evenly: whoever sets the wall clock closes no round of this process."""
    count = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    start = time.time() - count()
    return lambda: start + count()


def _leave_on_signals(app: App) -> None:
    """Answer the polls as soon as the server is told to stop: it waits for its requests, and they wait for news."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        before = signal.getsignal(number)  # of uvicorn, which puts back what was there before it

        def leave(got: int, frame: FrameType | None, before: Any = before) -> None:
            loop.call_soon_threadsafe(app.service.leave)
            if callable(before):
                before(got, frame)

        signal.signal(number, leave)


def most_connections() -> int:
    """How many connections this process may have; lets it open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 20
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError) as error:
            log.warning("the limit of open files stays at %d: %s", soft, error)
    return max(min(soft, wanted) - RESERVE, RESERVE)


def serve(
    database: str, *, host: str = "127.0.0.1", port: int = 8000, log_level: str = "info",
    keys_in: str | None = None, new_key: bool = False, more: Sequence[Operation] = (),
    pair: PairSettings | None = None, stop: Stop,
) -> None:  # fmt: skip
    """Serve until stopped: then, or when ``stop`` says so, ``KeyboardInterrupt``.

    ``keys_in`` names the file of the signing keys, ``more`` are routes of other parts. Without SEMILOCAL_ADMIN_TOKEN an
    admin token is made and printed at the first start; signing keys in SEMILOCAL_SIGNING_KEY are taken instead of the
    file. Both may be @FILE. ``stop`` is obeyed before anything is made, and again as soon as a new admin token has been
    shown.
    """
    uvicorn = optional("uvicorn", "service")
    kind, address = check_url(database)
    if kind == "sqlite":
        from .stores.sqlite import check_file, lock_for_serving

        check_file(address, new=True)
    token = secret_from(_ADMIN)
    if token:
        check_admin_token(token)
    set_up_logging(log_level)
    listener = bind(host, port)
    lock = store = None  # the lock is held until the process ends, however it ends
    try:
        stop.check()
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        if pair is not None:
            pair = pair._replace(origin=pair.origin or url.removesuffix(":80"))
            pair.check()
        if kind == "sqlite":
            lock = lock_for_serving(address)
        store = open_store(database, worker="0" if kind == "sqlite" else secrets.token_hex(8))
        file = key_file(database) if keys_in is None else Path(keys_in)
        keys = open_keys(store, file=file, environment=secret_from(ENVIRONMENT), new=new_key)
        admin, fresh = (admin_hash(token), None) if token else first_admin_token(store)
        _warn_about_pairs(store, pair)
        print(f"semilocal serves at {url} on {kind}", flush=True)
        if pair is not None:
            print(
                f"{pair.role} of pairs (experimental), operator {pair.name!r} at {pair.origin}, signing key "
                f"{keys.current.hex()}", flush=True,
            )  # fmt: skip
        if fresh is not None:
            print(f"admin token (shown once; later set {_ADMIN}): {fresh}", flush=True)
        if not _is_loopback(host):
            log.warning(
                "%s can be reached from other machines, and there is no TLS here and no limit for slow or endless "
                "requests: put a proxy before it (deploy/nginx.conf), or listen at 127.0.0.1",
                host,
            )
        options: dict[str, Any] = {
            "access_log": False, "log_config": None, "server_header": False, "proxy_headers": False, "ws": "none",
            "http": "httptools", "limit_concurrency": most_connections(), "timeout_keep_alive": 65,
            "timeout_graceful_shutdown": 3, "backlog": BACKLOG, "factory": True,
        }  # fmt: skip
        app = partial(build_app, store, admin=admin, keys=keys, more=more, pair=pair)
        server = uvicorn.Server(uvicorn.Config(app, **options))
        stop.hand_over(lambda _: setattr(server, "should_exit", True))
        server.run(sockets=[listener])  # with its own handlers; at its end it raises what came again, for ours
        stop.check()
    finally:
        listener.close()
        if store is not None:
            store.close()
        if lock is not None:
            os.close(lock)


def _warn_about_pairs(store: Store, pair: PairSettings | None) -> None:
    """Say so if pairs wait for a server with another role, or nobody can propose one."""
    waiting = {row.role for row in store.pairs.rows(active=True)} - ({pair.role} if pair is not None else set())
    if pair is not None and pair.role == "helper" and not pair.leader:
        log.warning("no leader may propose a pair: give --peer-key with the leader's signing key")
    for role in sorted(waiting):
        log.warning("pairs in this database need --role %s; they do not go on without it", role)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; clients queue there until the application is ready."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=host == "::")
    except OSError as error:  # also for a name that is not an address of this machine
        raise InvalidInput(
            f"cannot listen at {host} port {port}: {error.strerror}; choose another --host or --port, or stop the "
            "program that has it"
        ) from None


def set_up_logging(level: str) -> None:
    """Lines of the log as all parts write them."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"
    )
    for name in ("uvicorn", "uvicorn.error", "asyncio", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
    # Anybody can send what uvicorn warns of (upgrades, lines that are no HTTP): each warning comes once a minute.
    seldom = Seldom()
    logging.getLogger("uvicorn.error").addFilter(lambda line: line.levelno < logging.WARNING or seldom.allow(line.msg))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
