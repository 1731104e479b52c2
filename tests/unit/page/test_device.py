"""The device of the page and the package's device: the same bytes for the same secret, in random campaigns."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from semilocal import Box, Curator, Participant, Task
from semilocal.device.upload import make_upload
from semilocal.pooled.asked import AskedValue
from semilocal.pooled.task import PooledTask
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import Closed, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.sharing.pair import Operator, PairTask
from semilocal.sharing.sealing import Role, open_envelope, public_key, verifying_key
from semilocal.sharing.wire import Upload
from semilocal.testing import ALLOW_ALL
from tests.helpers.service import unmet

PEER = Path(__file__).parents[2] / "page" / "peer.mjs"
Json = Any
ROUNDS = 60
CHAIN = HashChain(bytes(range(32)), ROUNDS)
DOMAIN = Box((-10.0, 40.0), (10.0, 60.0), names=("lon", "lat"))


def page_device(plays: list[Json], uploads: list[Json]) -> Json:
    """What the device of the page does, in Node."""
    node = shutil.which("node")
    if node is None:
        unmet("node is not installed")
    assert node is not None
    told = json.dumps({"plays": plays, "uploads": uploads}).encode()
    done = subprocess.run([node, str(PEER)], input=told, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return json.loads(done.stdout)


def random_task(rng: np.random.Generator) -> Task:
    axes = int(rng.integers(1, 4))
    lower = rng.uniform(-100, 100, axes)
    return Task.build(
        Box(tuple(lower), tuple(lower + rng.uniform(0.5, 50, axes))), epsilon=float(rng.uniform(3, 10)), delta=0.1,
        k=int(rng.integers(1, 4)), max_depth=int(rng.integers(3, 6)), max_rounds=ROUNDS, chain=CHAIN.end,
    )  # fmt: skip


def play(rng: np.random.Generator) -> tuple[Json, list[list[str | None]], list[Json]]:
    """A random campaign of the package: what was sent by the server, what its devices sent, and how they ended."""
    task = random_task(rng)
    epsilon, axes = float(rng.uniform(0.1, 6)), task.box.dimensions
    plan = Plan(
        task.id,
        (
            Release("counts"),
            Release.ask("mean", "coordinate", epsilon=epsilon, parameters=[axes - 1]),
            Release.ask("values", "linear", epsilon=1.0, parameters=rng.uniform(-2, 2, 1 + axes).tolist()),
            Release.ask("mean", "own:fare", epsilon=2.0, parameters=(-3.5, 100)),
        ),
    )
    box = np.array([task.box.lower, task.box.upper])
    points = box[0] + (box[1] - box[0]) * rng.uniform(0, 1, (30, axes)) ** 2
    secrets, fares = [rng.bytes(32) for _ in points], rng.uniform(-3.5, 100, len(points)).tolist()
    people = [
        Participant(task, point, secret, ALLOW_ALL, plan=plan, value=fare)
        for point, secret, fare in zip(points, secrets, fares, strict=True)
    ]
    curator, rounds = Curator(task, plan, chain=CHAIN), []
    sent: list[list[str | None]] = []
    while (query := curator.query()) is not None:
        reports = [person.receive(query) for person in people]
        closed = curator.close([report for report in reports if report is not None])
        slices = {part.region: part for part in curator.slices} if isinstance(closed, Closed) else {}
        rounds.append(
            {"query": encode(query).hex(), "closed": encode(closed).hex(),
             "slices": {f"{low}-{high}": encode(part).hex() for (low, high), part in slices.items()}}
        )  # fmt: skip
        sent.append([None if report is None else encode(report).hex() for report in reports])
        if isinstance(closed, Closed):
            for person in people:
                person.close(closed, slices.get(person.log.region))
    told = {
        "task": task.to_bytes().hex(), "plan": encode(plan).hex(), "rounds": rounds,
        "people": [
            {"point": point.tolist(), "secret": secret.hex(), "value": fare}
            for point, secret, fare in zip(points, secrets, fares, strict=True)
        ],
    }  # fmt: skip
    ends = [
        [p.region and [str(code) for code in p.region], p.members, p.answered, [str(cut) for cut in p.lines]]
        for p in people
    ]
    return told, sent, ends


@pytest.mark.slow
def test_the_same_secret_gives_the_same_bytes_in_random_campaigns() -> None:
    rng = np.random.default_rng(15)
    plays = [play(rng) for _ in range(8)]
    found = page_device([told for told, _, _ in plays], [])["played"]
    for (_, sent, ends), page in zip(plays, found, strict=True):
        assert page["reports"] == sent
        assert page["ends"] == ends
    assert any(len({str(end[0]) for end in ends}) > 2 for _, _, ends in plays), "the campaigns are too plain"
    assert any(end[3] for _, _, ends in plays for end in ends)
    assert sum(report is not None for _, sent, _ in plays for row in sent for report in row) > 500


def test_two_servers_open_what_the_page_uploads() -> None:
    rng = np.random.default_rng(16)
    keys = {role: rng.bytes(32) for role in ("leader", "helper")}
    cases: list[tuple[PairTask, list[float], bytes, float | None]] = []
    fare: dict[str, Any] = {"name": "fare", "low": -3.5, "high": 100.0}
    for depth, asked in (
        (12, None), (24, None), (40, None), (12, AskedValue(**fare)), (13, AskedValue(**fare, bits=7, mean="cells")),
        (14, AskedValue.of_function(DOMAIN, "linear", (0.5, -2.0, 0.25), mean="cells")),
    ):  # fmt: skip
        operators = {
            role: Operator(role, f"https://{role}.example", verifying_key(rng.bytes(32)), public_key(keys[role]))
            for role in keys
        }
        pooled = PooledTask.build(DOMAIN, epsilon=1.0, trust="two-servers", max_depth=depth)
        pair = PairTask(pooled, operators["leader"], operators["helper"], 4 if depth in (24, 40) else 0, asked or UNSET)
        own = float(rng.uniform(-3.5, 100)) if asked is not None and asked.own else None
        cases.append((pair, rng.uniform((-10, 40), (10, 60)).tolist(), rng.bytes(32), own))
    told = [
        {"pair": pair.to_bytes().hex(), "point": point, "secret": secret.hex(), "value": own}
        for pair, point, secret, own in cases
    ]
    for (pair, point, secret, own), data in zip(cases, page_device([], told)["uploaded"], strict=True):
        theirs = Upload.from_bytes(bytes.fromhex(data))
        ours = make_upload(pair, point, secret, token="a token", value=own)
        theirs.check(pair)
        for field in ("id", "public", "token", "bucket"):
            assert getattr(theirs, field) == getattr(ours, field)
        sealed_for: tuple[tuple[Role, bytes, bytes], ...] = (
            ("leader", theirs.leader_envelope, ours.leader_envelope),
            ("helper", theirs.helper_envelope, ours.helper_envelope),
        )
        for role, one, other in sealed_for:
            opened = [
                open_envelope(
                    sealed, keys[role], role=role, task=pair.id, report=ours.id, public=ours.public, bucket=ours.bucket,
                    token="a token",
                )
                for sealed in (one, other)
            ]  # fmt: skip
            assert opened[0] == opened[1]
