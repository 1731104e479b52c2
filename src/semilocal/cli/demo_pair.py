"""``semilocal demo --two-servers``: two real servers, devices over HTTP, the map.

Both servers are processes of their own with a database, a key and an operator's name each; here one person starts
both, which is exactly what the promise forbids. The sample is public: that is why truth may be printed beside answers.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.index import count_points
from ..geometry.places import named_box
from ..io.files import replacing
from ..io.plots import need_matplotlib, save_picture
from ..pooled.task import PooledTask
from ..protocol.policy import Policy
from ..sharing.envelope import Role
from ..testing import ADMIN_TOKEN
from ..words import number_of
from .admin_client import AdminClient
from .commands.campaign import describe_state
from .demo_server import demo_server
from .exits import DONE

__all__ = ["run"]

DEVICES = 500
EPSILON = 2.0
RESOLUTION = 5.0  # kilometres
PLACE = Box((-118.7, 33.7), (-117.6, 34.4))  # around Los Angeles
PATIENCE = 60.0  # seconds that both servers may take to count
OPERATORS: dict[Role, str] = {"leader": "City Council", "helper": "State University"}


def run(out: Path, seed: int | None) -> int:
    """Show the whole job."""
    need_matplotlib()
    from ..datasets import california_housing
    from ..release.pair_counts import pair_counts
    from ..transcript.pair import verify_pair

    began = time.monotonic()
    box = named_box("california")
    rng = np.random.default_rng(seed)  # chooses who is asked; the noise is the servers' own
    points = rng.permutation(california_housing()[0])[:DEVICES]
    pooled = PooledTask.build(box, epsilon=EPSILON, trust="two-servers", resolution=RESOLUTION, label="demo")
    with tempfile.TemporaryDirectory(prefix="semilocal-demo-") as folder, ExitStack() as stack:
        helper = stack.enter_context(demo_server(Path(folder), "helper", _options("helper")))
        leader = stack.enter_context(demo_server(Path(folder), "leader", _options("leader", "--peer", helper)))
        task = _open_task(leader, helper, pooled)
        with AdminClient(leader, ADMIN_TOKEN) as client:
            print(client.statement(task))
            tokens = client.tokens(task, DEVICES)
        print(f"\n{DEVICES} devices upload once each: {leader}/tasks/{task[:16]}…\n")
        _upload(f"{leader}/tasks/{task}", points, tokens)
        _wait(leader, task, "done")
        with AdminClient(leader) as first, AdminClient(helper) as second:
            data, other = first.transcript(task), second.transcript(task)
    found = verify_pair(data, other=other)
    print("\n".join(found.lines()))
    if not found.sound:
        raise InvalidInput("the transcript does not hold")
    counts = pair_counts(data)
    query = np.array([[PLACE.lower, PLACE.upper]])
    answer = counts.query(query)
    low, high = answer.interval(0.95)[0]
    truth = int(count_points(points, query)[0])
    print(counts.guarantee.text())
    print(
        f"\nAround Los Angeles: {answer.value[0]:.0f}, 95 % interval {low:.0f} to {high:.0f} (truth: {truth}); "
        f"{number_of(len(counts.partition), 'final cell')}, {number_of(counts.total, 'report')}."
    )
    out.mkdir(parents=True, exist_ok=True)
    files = [out / name for name in ("two-servers.png", "two-servers.geojson", "two-servers.slt")]
    save_picture(counts.partition, files[0])
    counts.save_geojson(str(files[1]))
    with replacing(files[2]) as stream:
        stream.write(data)
    print(f"wrote {', '.join(str(path) for path in files)}; {time.monotonic() - began:.0f} s in all")
    return DONE


def _open_task(leader: str, helper: str, pooled: PooledTask) -> str:
    """Create the task on both servers, as the two operators do."""
    from ..service.pair.form import PairForm

    with AdminClient(leader, ADMIN_TOKEN) as first, AdminClient(helper, ADMIN_TOKEN) as second:
        form = PairForm("demo", pooled, second.operator().signing_key, capacity=DEVICES)
        task = first.create_pair(form)
        first.confirm(task)
        deadline = time.monotonic() + PATIENCE
        while task not in {row.task for row in second.campaigns()}:  # the leader proposes it in its own time
            _sleep(deadline, "the helper was not asked")
        second.confirm(task)
    _wait(leader, task, "open")
    return task


def _upload(url: str, points: np.ndarray[tuple[int, ...], np.dtype[np.float64]], tokens: list[str]) -> None:
    from ..device.swarm.uploads import run_uploads

    result = asyncio.run(run_uploads(url, points, policy=Policy(max_epsilon=EPSILON), tokens=tokens))
    print(result.text())
    if result.uploaded != len(points):
        raise InvalidInput(f"{result.uploaded} of {len(points)} devices have a receipt")


def _wait(leader: str, task: str, phase: str) -> None:
    """Wait until the leader says that the task is there."""
    deadline = time.monotonic() + PATIENCE
    with AdminClient(leader) as client:
        while (state := client.state(task)).phase != phase:
            _sleep(deadline, f"the pair stands at: {describe_state(state)}")


def _sleep(deadline: float, reason: str) -> None:
    if time.monotonic() > deadline:
        raise InvalidInput(f"the demo's servers take too long: {reason}")
    time.sleep(0.1)


def _options(role: Role, *options: str) -> tuple[str, ...]:
    """Of ``semilocal serve``."""
    return ("--role", role, "--operator", OPERATORS[role], "--processes", "1", *options)
