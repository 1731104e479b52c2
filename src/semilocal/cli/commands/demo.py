"""``semilocal demo``: one question to a public sample under three kinds of trust; with ``--live`` or
``--two-servers`` over HTTP.

Live servers are processes of their own with a database in a temporary folder; the devices are agents in this process,
each with its own secret from the operating system. Here one person starts both of two servers, which is exactly what
their promise forbids. The sample, California Housing, is public: that is why truth may be printed beside answers.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np

from ... import functions
from ...arrays import Floats
from ...errors import InvalidInput
from ...geometry.box import Box
from ...geometry.places import named_box
from ...io.files import check_folder, replacing, write_text
from ...io.plots import need_matplotlib, save_picture, save_side_by_side
from ...io.regions import AnyPartition, write_regions
from ...pooled.task import PooledTask
from ...protocol.mark import Mark
from ...protocol.policy import Policy
from ...protocol.promise import Guarantee
from ...protocol.task import Task
from ...release import onecall
from ...release.job import TRUSTS
from ...testing import ADMIN_TOKEN, Server
from ...words import number_of
from ..admin import AdminClient
from ..catalogue import DONE
from ..options import FOLDER, Seed

__all__ = ["run"]

DEVICES = 500
PLACE = "san-francisco"
EPSILON = 1.0
PAIR_EPSILON = 2.0
RESOLUTION = 5.0  # kilometres
AROUND_LOS_ANGELES = Box((-118.7, 33.7), (-117.6, 34.4))
PATIENCE = 60.0  # seconds that two servers may take
OPERATORS = {"leader": "City Council", "helper": "State University"}


def run(
    *,
    out: Annotated[Path, FOLDER] = Path("demo-output"),
    seed: Seed | None = None,
    live: bool = False,
    two_servers: bool = False,
) -> int:
    """Show the whole job.

    Parameters
    ----------
    out
        where the maps go
    seed
        repeatable, for simulation only
    live
        with a server and devices on this machine
    two_servers
        with two servers and devices on this machine (experimental)
    """
    if live and two_servers:
        raise InvalidInput("give --live or --two-servers, not both")
    check_folder("--out", out)
    from ...datasets import california_housing

    points, _ = california_housing()
    rng = None if seed is None else np.random.default_rng(seed)
    if not (live or two_servers):
        _simulated(points, out, seed, rng)
        return DONE
    began = time.monotonic()
    chosen = np.random.default_rng(seed).permutation(points)[:DEVICES]  # who is asked; the noise is the devices' own
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="semilocal-demo-") as folder:
        files = (_two_servers if two_servers else _live)(chosen, Path(folder), out)
    print(f"wrote {', '.join(str(path) for path in files)}; {time.monotonic() - began:.0f} s in all")
    return DONE


def _simulated(points: Floats, out: Path, seed: int | None, rng: np.random.Generator | None) -> None:
    """The same question to the same people under the three answers to "whom do they trust?"."""
    need_matplotlib()
    box, where = named_box("california"), named_box(PLACE)
    query = np.array([[where.lower, where.upper]])
    truth = int(np.count_nonzero(where.inside(points)))
    print(f"California Housing: {len(points):,} block groups stand for participants; their positions are public.")
    print(f"How many are in {PLACE}'s box (truth: {truth:,}), and what is the mean latitude", end=" ")
    print(f"(truth: {points[:, 1].mean():.4f})? At epsilon = {EPSILON:g}, once for each answer to: whom do they trust?")
    out.mkdir(parents=True, exist_ok=True)
    panels: dict[str, AnyPartition] = {}
    for trust in TRUSTS:
        counted = onecall.counts(points, box, epsilon=EPSILON, trust=trust, rng=rng)
        middle = onecall.mean(points, functions.coordinate(1), box, epsilon=EPSILON, trust=trust, rng=rng)
        answer, (low, high) = counted.query(query), middle.interval()
        first, last = answer.interval()[0]
        print(f"\nTrust {trust}: {TRUSTS[trust]}.")
        count = f"{answer.value[0]:.0f}, 95 % interval {first:.0f} to {last:.0f}"
        regions = number_of(len(counted.partition), "region")
        print(f"  {regions}; in the box {count}")
        print(f"  mean latitude {middle.value:.4f}, 95 % interval {low:.4f} to {high:.4f}")
        print(f"  promised, for the counts: {counted.guarantee.sentence()}")
        print(f"  promised, for the mean: {middle.guarantee.sentence()}")
        partition: AnyPartition = counted.partition
        if seed is not None:
            partition = replace(partition, mark=Mark(seeded=True, seed=seed))
        write_regions(partition, out / f"{trust}.geojson")
        title = f"trust {trust}: {regions}\n{PLACE}: {count} (truth {truth})\n{_short(counted.guarantee)}"
        panels[title] = partition
    save_side_by_side(panels, out / "regions.png")
    print(f"\nwrote {out / 'regions.png'} and the regions as GeoJSON beside it")


def _short(promised: Guarantee) -> str:
    """The losses in one line of a picture, with what they are between."""
    if promised.adjacency != "inside":
        return f"epsilon = {promised.epsilon:g}, delta = 0 for any change of position"
    return f"epsilon = {promised.epsilon:g} inside a region; delta = 0"


@contextmanager
def _server(folder: Path, name: str, *options: str, key: bytes | None = None) -> Iterator[str]:
    """A server process with a key of its own on a free port, stopped at the end: its URL."""
    server = Server(
        f"sqlite:///{folder / name}.db", log=folder / f"{name}.log", options=options,
        signing_key=key or secrets.token_bytes(32),
    )  # fmt: skip
    try:
        server.start()
        yield server.url
    except RuntimeError as error:
        raise InvalidInput(f"the demo's server did not start: {error}") from None
    finally:
        server.stop()


def _live(points: Floats, folder: Path, out: Path) -> list[Path]:
    """Collect from devices: partition, mean and counts."""
    from ...device.swarm import run_swarm
    from ...service.campaign import CampaignForm, ReleaseForm

    with _server(folder, "demo") as url, AdminClient(url, ADMIN_TOKEN) as client:
        task = Task.build(named_box("california"), epsilon=2.0, delta=1e-3, window=60, server_key=client.key())
        wanted = (ReleaseForm("mean", "coordinate", (1.0,), 1.0), ReleaseForm("counts"))
        form = CampaignForm("demo", task, wanted, "tokens", DEVICES, 60)
        identity = client.create(form)
        tokens = client.tokens(identity, DEVICES)
        print(client.statement(identity))
        print(f"\n{DEVICES} devices join {url}/tasks/{identity[:16]}…\n")
        policy = Policy(max_epsilon=form.build().total_epsilon)
        result = asyncio.run(run_swarm(f"{url}/tasks/{identity}", points, policy=policy, tokens=tokens))
        print(result.text())
        (document, published), regions = client.results(identity), client.geojson(identity)
    crowds = sorted((region.crowd for region in published.regions), reverse=True)
    people, found = number_of(sum(crowds), "participant"), number_of(len(crowds), "region")
    print(f"\nCounts, public by design: {people} in {found} of {crowds}.")
    print(f"Transcript root {document['checkpoint']['root']}")
    for mean in published.means:
        loss = f"epsilon = {mean.epsilon:g} for {mean.adjacency}, delta 0"
        print(f"Mean latitude {mean.text()} (truth {points[:, 1].mean():.3f}); {loss}.")
    write_text(out / "live-regions.geojson", json.dumps(regions))
    return [out / "live-regions.geojson"]


def _two_servers(points: Floats, folder: Path, out: Path) -> list[Path]:
    """Count with two servers: each sees shares that are random alone."""
    need_matplotlib()
    from ...device.swarm import run_swarm
    from ...release.pair import pair_counts
    from ...sharing.signing import verifying_key
    from ...transcript.pair import verify_pair

    def options(role: str, *more: str) -> tuple[str, ...]:
        return ("--role", role, "--operator", OPERATORS[role], "--processes", "1", *more)

    key = secrets.token_bytes(32)
    with ExitStack() as stack:
        helper = stack.enter_context(
            _server(folder, "helper", *options("helper", "--peer-key", verifying_key(key).hex()))
        )
        leader = stack.enter_context(_server(folder, "leader", *options("leader", "--peer", helper), key=key))
        first = stack.enter_context(AdminClient(leader, ADMIN_TOKEN))
        second = stack.enter_context(AdminClient(helper, ADMIN_TOKEN))
        task = _agreed(first, second)
        print(first.statement(task))
        print(f"\n{DEVICES} devices upload once each: {leader}/tasks/{task[:16]}…\n")
        policy, tokens = Policy(max_epsilon=PAIR_EPSILON), first.tokens(task, DEVICES)
        result = asyncio.run(run_swarm(f"{leader}/tasks/{task}", points, policy=policy, tokens=tokens))
        print(result.text())
        if result.uploaded != len(points):
            raise InvalidInput(f"{result.uploaded} of {len(points)} devices have a receipt")
        _wait(lambda: first.state(task).phase == "done", lambda: f"the pair stands at: {first.state(task).text()}")
        data, other = first.transcript(task), second.transcript(task)
    found = verify_pair(data, other=other)
    print("\n".join(found.lines()))
    if not found.sound:
        raise InvalidInput("the transcript does not hold")
    counts = pair_counts(data)
    query = np.array([[AROUND_LOS_ANGELES.lower, AROUND_LOS_ANGELES.upper]])
    answer, truth = counts.query(query), int(np.count_nonzero(AROUND_LOS_ANGELES.inside(points)))
    low, high = answer.interval()[0]
    print(counts.guarantee.text())
    print(
        f"\nAround Los Angeles: {answer.value[0]:.0f}, 95 % interval {low:.0f} to {high:.0f} (truth: {truth}); "
        f"{number_of(len(counts.partition), 'final cell')}, {number_of(counts.total, 'report')}."
    )
    files = [out / name for name in ("two-servers.png", "two-servers.geojson", "two-servers.slt")]
    save_picture(counts.partition, files[0])
    counts.save_geojson(str(files[1]))
    with replacing(files[2]) as stream:
        stream.write(data)
    return files


def _agreed(leader: AdminClient, helper: AdminClient) -> str:
    """A task that both operators have confirmed."""
    from ...service.pair.form import PairForm

    pooled = PooledTask.build(
        named_box("california"), epsilon=PAIR_EPSILON, trust="two-servers", resolution=RESOLUTION, label="demo"
    )
    task = leader.create(PairForm("demo", pooled, helper.key().hex(), capacity=DEVICES))
    leader.confirm(task)
    # the leader proposes it in its own time
    _wait(lambda: task in {row.task for row in helper.campaigns()}, lambda: "the helper was not asked")
    helper.confirm(task)
    _wait(lambda: leader.state(task).phase == "open", lambda: f"the pair stands at: {leader.state(task).text()}")
    return task


def _wait(there: Callable[[], bool], reason: Callable[[], str]) -> None:
    """Wait until something is there, but not for ever."""
    deadline = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > deadline:
            raise InvalidInput(f"the demo's servers take too long: {reason()}")
        time.sleep(0.1)
