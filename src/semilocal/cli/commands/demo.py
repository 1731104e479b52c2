"""``semilocal demo``: the whole job on a public sample; with ``--live`` over HTTP, with a server and real devices.

The live server is a process of its own with a database in a temporary folder; the devices are agents in this process,
each with its own secret from the operating system. The sample, California Housing, is public: that is why exact numbers
may be printed beside the answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ... import functions, release
from ...errors import InvalidInput
from ...geometry.places import named_box
from ...io.files import check_folder, write_text
from ...io.plots import need_matplotlib, save_picture
from ...io.regions import write_regions
from ...protocol.participant import Policy
from ...protocol.task import Task
from ...release.whom import DELTA
from ...simulation.simulate import simulate
from ...testing import ADMIN_TOKEN, Server
from ..arguments import add_seed
from ..exits import DONE
from ..jobs import progress
from ..output import Outcome, tell

__all__ = ["add_arguments", "run"]

DEVICES = 500
PLACES = ("san-francisco", "california")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--out", type=Path, default=Path("demo-output"), metavar="FOLDER", help="(%(default)s)")
    add_seed(parser, "repeatable, for simulation only")
    parser.add_argument("--live", action="store_true", help="with a server and devices on this machine")
    # what tell() asks of a job; the sample is public and every row is another block group
    parser.set_defaults(json=False, quiet=False, public_data=True, rows_per_user=1)


def run(args: argparse.Namespace) -> int:
    """Show the whole job."""
    check_folder("--out", args.out)
    return _live(args) if args.live else _simulated(args)


def _simulated(args: argparse.Namespace) -> int:
    need_matplotlib()
    from ...datasets import california_housing

    points, _ = california_housing()
    rng = np.random.default_rng(args.seed)
    task = Task.build(named_box("california"), epsilon=1.0, delta=DELTA, k=50)
    print(f"California Housing: {len(points):,} block groups stand for participants; their positions are public.\n")
    with progress(args) as advance:
        played = simulate(points, task, rng=rng, progress=advance)
    result = release.mean(played, points, functions.coordinate(1), epsilon=0.5, rng=rng)
    queries = np.array([[named_box(name).lower, named_box(name).upper] for name in PLACES])
    answers = release.counts(played, ledger=result.spent).query(queries)
    args.out.mkdir(parents=True, exist_ok=True)
    write_regions(played.partition, args.out / "regions.geojson")
    save_picture(played.partition, args.out / "regions.png", points=points)
    low, high = result.interval()
    crowds = played.partition.crowds
    words = [
        f"{len(played.partition):,} regions, crowds from {crowds.min()} to {crowds.max()}.",
        f"Mean latitude: {result.value:.4f}, 95 % interval {low:.4f} to {high:.4f}, moved participants may shift it by "
        f"{result.bias_bound:.2g} (truth: {points[:, 1].mean():.4f}).",
    ]
    for name, query, value, ends in zip(PLACES, queries, answers.value, answers.interval(), strict=True):
        truth = int(np.count_nonzero(((points >= query[0]) & (points < query[1])).all(axis=1)))
        words.append(f"In {name}'s box: {value:.0f}, 95 % interval {ends[0]:.0f} to {ends[1]:.0f} (truth: {truth}).")
    words.append(f"wrote {args.out / 'regions.geojson'} and {args.out / 'regions.png'}")
    tell(args, Outcome(played, result.spent, {}, words))
    return DONE


def _live(args: argparse.Namespace) -> int:
    """Collect from 500 devices: partition, mean and counts."""
    from ...datasets import california_housing
    from ...device.swarm.run import run_swarm
    from ...service.campaign import CampaignForm, ReleaseForm
    from ..admin_client import AdminClient

    box = named_box("california")
    rng = np.random.default_rng(args.seed)  # chooses who is asked; the noise is the devices' own
    points = rng.permutation(california_housing()[0])[:DEVICES]
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="semilocal-demo-") as folder,
        _server(Path(folder)) as url,
        AdminClient(url, ADMIN_TOKEN) as client,
    ):
        task = Task.build(box, epsilon=2.0, delta=1e-3, k=20, max_trims=6, window=60, server_key=client.key())
        wanted = (ReleaseForm("mean", "coordinate", (1.0,), 1.0), ReleaseForm("counts"))
        form = CampaignForm("demo", task, wanted, "tokens", DEVICES, 60)
        identity = client.create(form)
        tokens = client.tokens(identity, DEVICES)
        print(client.statement(identity))
        print(f"\n{DEVICES} devices join {url}/tasks/{identity[:16]}…\n")
        policy = Policy(max_epsilon=form.build().total_epsilon)
        result = asyncio.run(run_swarm(f"{url}/tasks/{identity}", points, policy=policy, tokens=tokens))
        print(result.text())
        published, regions = client.results(identity), client.geojson(identity)
    crowds = sorted((region["crowd"] for region in published["regions"]), reverse=True)
    print(f"\nCounts, public by design: {sum(crowds)} participants in {len(crowds)} regions of {crowds}.")
    print(f"Transcript root {published['checkpoint']['root']}")
    for mean in (row for row in published["releases"] if row["kind"] == "mean"):
        print(
            f"Mean latitude {mean['mean']:.3f} ± {mean['stderr']:.2g} (one standard error; truth "
            f"{points[:, 1].mean():.3f}); epsilon = {mean['epsilon']:g} for {mean['adjacency']}, delta 0."
        )
    args.out.mkdir(parents=True, exist_ok=True)
    target = args.out / "live-regions.geojson"
    write_text(target, json.dumps(regions))
    print(f"wrote {target}; {time.monotonic() - began:.0f} s in all")
    return DONE


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """A server process on a free port, stopped at the end: its URL."""
    server = Server(f"sqlite:///{folder / 'demo.db'}", log=folder / "server.log")
    try:
        server.start()
        yield server.url
    except RuntimeError as error:
        raise InvalidInput(f"the demo's server did not start: {error}") from None
    finally:
        server.stop()
