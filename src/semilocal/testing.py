"""Help for your own tests: populations, campaigns, a clock you move by hand, an application in process, a real server.

Knows the service and the protocol's machines. Everything is deterministic: populations and secrets come from seeds,
time from :class:`MockClock`. Nothing here protects anybody; never use it to collect real data.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Floats
from .errors import MissingExtra
from .geometry.box import Box
from .protocol.curator import Curator, count_reports
from .protocol.messages import AnyClosed, AnyQuery, AnyReport, Closed, Event, Query, ValueClosed, ValueQuery
from .protocol.participant import Participant, Policy, Released, State
from .protocol.plan import Plan
from .protocol.task import Task

if TYPE_CHECKING:
    import httpx

    from .service.app import App
    from .service.keys import Keyring
    from .service.stores.base import Store
    from .service.worker import Service

__all__ = [
    "ADMIN_TOKEN",
    "ALLOW_ALL",
    "MockClock",
    "Played",
    "Postgres",
    "RunningApp",
    "Server",
    "build_app",
    "client_of",
    "cluster",
    "free_port",
    "keys_for_tests",
    "participants_at",
    "play",
    "restart",
    "running_app",
    "running_server",
    "secret",
    "secrets_of",
    "unit_box",
]

ADMIN_TOKEN = "sla_0123456789-admin-token-of-the-tests"
ALLOW_ALL = Policy(
    max_epsilon=1e9, max_exposure=None, min_k=1, max_delta=float("inf"), allow_no_crowd=True, allow_simulation=True
)
_SIGNING_KEY = hashlib.sha256(b"the signing key of tests").digest()
_START_SECONDS = 60  # a server that does not answer by then has failed, also on a busy machine


# -- populations ---------------------------------------------------------------------------------------------------


def unit_box(dimensions: int = 2) -> Box:
    """The unit square, or a cube of another number of dimensions."""
    return Box((0.0,) * dimensions, (1.0,) * dimensions)


def cluster(size: int, dimensions: int = 2, *, seed: int = 1, strays: float = 0.05) -> Floats:
    """A dense cluster and a count strays in the unit box, so that splits, stops and trims all happen.

    Parameters
    ----------
    size : int
    dimensions : int
    seed : int
    strays : float
        Share of the participants who are anywhere in the box.

    Returns
    -------
    float64[size, dimensions]

    Examples
    --------
    >>> cluster(100).shape, float(cluster(100).max()) <= 1.0
    ((100, 2), True)
    """
    rng = np.random.default_rng(seed)
    points = np.clip(rng.normal(0.3, 0.1, (size, dimensions)), 0.0, 1.0)
    count = int(strays * size)
    points[:count] = rng.random((count, dimensions))
    return points


def secret(number: int, *, seed: int = 0) -> bytes:
    """The secret of a test participant: 32 bytes, the same for the same numbers."""
    return hashlib.sha256(b"test participant %d of %d" % (number, seed)).digest()


def secrets_of(count: int, *, seed: int = 0) -> list[bytes]:
    """One secret per participant."""
    return [secret(number, seed=seed) for number in range(count)]


# -- a campaign in the open --------------------------------------------------------------------------------------------


class Played(NamedTuple):
    """A finished play: all messages in transcript order, and the participants at the end."""

    events: list[Event]
    participants: list[Participant]

    @property
    def closings(self) -> list[Closed]:
        """The closings, in order."""
        return [event for event in self.events if isinstance(event, Closed)]

    @property
    def values(self) -> list[ValueClosed]:
        """The closings of rounds of values, in order."""
        return [event for event in self.events if isinstance(event, ValueClosed)]

    @property
    def queries(self) -> list[Query]:
        """The queries, in order."""
        return [event for event in self.events if isinstance(event, Query)]


def participants_at(
    task: Task, points: npt.ArrayLike, policy: Policy = ALLOW_ALL, *, plan: Plan | None = None
) -> list[Participant]:
    """One participant per point."""
    return [
        Participant(task, point, secret(number), policy, plan=plan) for number, point in enumerate(np.asarray(points))
    ]


def play(
    task: Task,
    participants: Sequence[Participant],
    *,
    plan: Plan | None = None,
    answers: Callable[[int, int], bool] = lambda number, participant: True,
    deliver: Callable[[Participant, AnyQuery | AnyClosed], AnyReport | None] = Participant.receive,
) -> Played:
    """Play a campaign to its end: participants against a curator, one message at a time, without a network.

    Parameters
    ----------
    plan : Plan, optional
        The same that the participants pinned.
    answers : callable
        (round, participant's index) -> whether the query reaches the participant; who misses a round is lost.
    deliver : callable
        How a message reaches a participant; tests put retries, restarts and lies here.
    """
    curator = Curator(task, plan)
    events: list[Event] = [task]
    while (query := curator.query()) is not None:
        if isinstance(query, ValueQuery) and not curator.values:
            events.append(curator.plan)
        reports = []
        for index, participant in enumerate(participants):
            if answers(query.round, index):
                report = deliver(participant, query)
                if report is not None:
                    curator.check(report)
                    reports.append(report)
        reports.sort(key=lambda report: report.pseudonym)
        closed = curator.close(*count_reports(curator, reports))
        for participant in participants:
            deliver(participant, closed)
        events += [query, *reports, closed]
    return Played(events, list(participants))


def restart(
    participant: Participant, point: npt.ArrayLike, number: int, state: State, released: Released | None = None
) -> Participant:
    """The same device after a crash: all it kept is its position, its secret and its state."""
    return Participant(
        participant.task, point, secret(number), participant.policy, plan=participant.plan, state=state,
        released=released,
    )  # fmt: skip


# -- time ----------------------------------------------------------------------------------------------------------


class MockClock:
    """Time that moves when you say so, or when a device waits. The service calls it; a device sleeps on it.

    Examples
    --------
    >>> clock = MockClock(100.0)
    >>> clock.advance(5)
    >>> clock(), clock.time()
    (105.0, 105.0)
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def time(self) -> float:
        """Seconds now."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        """Let time pass at once, and note how long."""
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


# -- an application in process -------------------------------------------------------------------------------------


class RunningApp(NamedTuple):
    """An HTTP client that talks to the application in process, the worker behind it, and the application."""

    client: httpx.AsyncClient
    service: Service
    app: App


@contextlib.asynccontextmanager
async def running_app(
    store: Store, clock: Callable[[], float], *, interval: float | None = None, **options: Any
) -> AsyncIterator[RunningApp]:
    """Run the service in this process, without a socket.

    Parameters
    ----------
    store : Store
        As from ``service.stores.base.open_store``.
    clock : callable
        ``time.time``, or a :class:`MockClock`.
    interval : float, optional
        Seconds between the looks of the worker at deadlines; without it, call ``service.tick()``.
    **options
        Of ``service.worker.Service``.

    Notes
    -----
    Routes of the administrator take :data:`ADMIN_TOKEN`. Faults of the application are raised in your test.
    """
    app, service = build_app(store, clock, interval=interval, **options)
    await service.start()
    try:
        async with client_of(app) as client:
            yield RunningApp(client, service, app)
    finally:
        await service.stop()


def build_app(
    store: Store, clock: Callable[[], float], *, interval: float | None = None, **options: Any
) -> tuple[App, Service]:
    """The application over a store, and the worker behind it, not started; see :func:`running_app`."""
    try:
        from .service.admin import admin_hash
        from .service.app import create_app
        from .service.worker import Service
    except ImportError:
        raise MissingExtra("starlette", "service") from None
    if "keys" not in options:
        options["keys"] = keys_for_tests(store)
    options.setdefault("monotonic", clock)
    options.setdefault("patience", 60.0)  # a busy machine is no hung database
    service = Service(store, clock=clock, interval=interval, **options)
    return create_app(service, admin=admin_hash(ADMIN_TOKEN)), service


def keys_for_tests(store: Store) -> Keyring:
    """A signing key for tests, registered in the store; the same every time."""
    from .service.keys import Keyring

    keys = Keyring.of([_SIGNING_KEY])
    store.set_setting("server-key", keys.current)
    return keys


def client_of(app: App) -> httpx.AsyncClient:
    """A client that talks to the application in process."""
    try:
        import httpx
    except ImportError:
        raise MissingExtra("httpx", "service") from None
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://service.test")


# -- processes -----------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """``semilocal serve`` in a process of its own; :func:`running_server` stops it for you.

    Parameters
    ----------
    database : str
        URL of the database.
    workers : int
    port : int, optional
        A free one if left out.
    log : Path, optional
        Where its output goes; nowhere if left out.
    options : sequence of str
        Further options of the command.
    """

    def __init__(
        self, database: str, *, workers: int = 1, port: int | None = None, log: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.database, self.workers, self.port, self.log = database, workers, port or free_port(), log
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True, files: int | None = None) -> None:
        """Start it, and wait until it answers; ``files`` limits how many it may open."""
        source = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        with open(self.log or os.devnull, "ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "semilocal", "serve", "--db", self.database, "--port", str(self.port),
                 "--workers", str(self.workers), *self.options],
                env={**os.environ, "PYTHONPATH": path, "SEMILOCAL_ADMIN_TOKEN": ADMIN_TOKEN,
                     "SEMILOCAL_SIGNING_KEY": _SIGNING_KEY.hex()}, stdout=sink, stderr=sink,
                start_new_session=True, preexec_fn=None if files is None else partial(_limit_files, files),
            )  # fmt: skip
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until it answers."""
        import httpx

        deadline = time.monotonic() + _START_SECONDS
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200:
                    return
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {self.log.read_text()[-3000:] if self.log else ''}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the server and all its workers at once, as a crash does."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Stop it as an administrator does."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None


def _limit_files(most: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def running_server(database: str, *, workers: int = 1, log: Path | None = None) -> Iterator[Server]:
    """Run a real server on a free port, and stop it at the end; the administrator's token is :data:`ADMIN_TOKEN`."""
    server = Server(database, workers=workers, log=log)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Postgres:
    """A private PostgreSQL cluster in a temporary folder; call :meth:`stop` at the end.

    Raises
    ------
    RuntimeError
        If PostgreSQL's server programs are not installed, or do not start.
    """

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
        if not found:
            raise RuntimeError("PostgreSQL's server programs are not installed (no /usr/lib/postgresql/*/bin/pg_ctl)")
        self.bin = found[-1].parent
        self.home = Path(tempfile.mkdtemp(prefix="semilocal-pg-"))
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None  # it refuses to run as root
        if self.user is not None:
            os.chown(self.home, self.user.pw_uid, self.user.pw_gid)
        self.port = free_port()
        self.data = self.home / "data"
        self.names = 0
        self._run("initdb", "-D", str(self.data), "-U", "semilocal", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.start()

    def start(self) -> None:
        """Start the cluster."""
        settings = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.home}"
            " -c max_connections=100 -c shared_buffers=64MB -c fsync=on -c synchronous_commit=on"
        )
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.home / "server.log"), "-w", "-o", settings, "start")

    def new_database(self) -> str:
        """Make an empty database; returns its URL."""
        self.names += 1
        name = f"test{self.names}"
        self._run("createdb", "-h", str(self.home), "-p", str(self.port), "-U", "semilocal", name)
        return f"postgresql://semilocal@127.0.0.1:{self.port}/{name}"

    def kill(self) -> None:
        """Kill every process of the cluster at once, as a crash does."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
        processes = [pid, *(int(child) for child in found.stdout.split())]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in processes:
            with contextlib.suppress(OSError):  # gone, or dead and not yet collected by its parent
                while Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    time.sleep(0.01)
        # A dead process that was not collected still has its number: PostgreSQL would take it for a running server.
        (self.data / "postmaster.pid").unlink()
        for lock in self.home.glob(".s.PGSQL.*.lock"):
            lock.unlink()

    def stop(self) -> None:
        """Kill the cluster and remove its folder."""
        with contextlib.suppress(OSError, ValueError):
            self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        options: dict[str, Any] = {}
        if self.user is not None:
            options = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        with open(self.home / "log.txt", "ab") as log:
            done = subprocess.run(
                [str(self.bin / program), *arguments],
                stdout=log, stderr=log, cwd="/", timeout=120, check=False, **options,
            )  # fmt: skip
        if done.returncode:
            raise RuntimeError((self.home / "log.txt").read_text()[-2000:])
