"""``semilocal demo --live``: a real server and real devices over HTTP, on this machine.

The server is a process of its own with a database in a temporary folder; the devices are agents in this process, each
with its own secret from the operating system. Knows how to put the parts together. Adds none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ...errors import InvalidInput
from ...geometry.places import named_box
from ...protocol.participant import Policy
from ...protocol.task import Task

__all__ = ["run"]

DEVICES = 500
SERVER_SECONDS = 30


def run(args: argparse.Namespace) -> None:
    """Collect from 500 devices: partition, mean and counts."""
    from ...device.swarm.run import run_swarm
    from ...experiments.datasets.load import california_housing
    from ...service.campaign import CampaignForm, ReleaseForm
    from ..admin_client import HttpOffice

    box = named_box("california")
    rng = np.random.default_rng(args.seed)  # chooses whom we ask; the noise is the devices' own
    points = rng.permutation(california_housing()[0])[:DEVICES]
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="semilocal-demo-") as folder,
        _server(Path(folder)) as (url, token),
        HttpOffice(url, token) as office,
    ):
        task = Task.build(box, epsilon=2.0, delta=1e-3, k=20, max_trims=6, window=60, server_key=office.key())
        wanted = (ReleaseForm("mean", "coordinate", (1.0,), 1.0), ReleaseForm("counts"))
        form = CampaignForm("demo", task, wanted, "tokens", DEVICES, 60)
        identity = office.create(form)
        tokens = office.tokens(identity, DEVICES)
        print(office.statement(identity))
        print(f"\n{DEVICES} devices join {url}/tasks/{identity[:16]}…\n")
        policy = Policy(max_epsilon=form.build().total_epsilon)
        result = asyncio.run(run_swarm(f"{url}/tasks/{identity}", points, policy=policy, tokens=tokens))
        print(result.text())
        published, regions = office.results(identity), office.geojson(identity)
    crowds = sorted((region["crowd"] for region in published["regions"]), reverse=True)
    print(f"\nCounts, public by design: {sum(crowds)} participants in {len(crowds)} regions of {crowds}.")
    print(f"Transcript root {published['checkpoint']['root']}")
    for release in published["releases"]:
        if release["kind"] == "mean":
            print(
                f"Mean latitude {release['mean']:.3f} ± {release['stderr']:.2g} (one standard error; truth "
                f"{points[:, 1].mean():.3f}); epsilon = {release['epsilon']:g} for {release['adjacency']}, delta 0."
            )
    args.out.mkdir(parents=True, exist_ok=True)
    target = args.out / "live-regions.geojson"
    target.write_text(json.dumps(regions), encoding="utf-8")
    print(f"wrote {target}; {time.monotonic() - began:.0f} s in all")


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, str]]:
    """A server process on a free port: its URL and admin token. Stopped and waited for at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_urlsafe(24)
    command = [sys.executable, "-m", "semilocal", "serve", "--port", str(port)]
    command += ["--db", f"sqlite:///{folder / 'demo.db'}"]
    log = folder / "server.log"
    with log.open("wb") as output:
        environment = os.environ | {"SEMILOCAL_ADMIN_TOKEN": token}
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        _wait(port, process, log)
        yield f"http://127.0.0.1:{port}", token
    finally:
        process.terminate()
        process.wait(timeout=10)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SERVER_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise InvalidInput(f"the demo's server did not start:\n{log.read_text('utf-8')[-2000:]}")
