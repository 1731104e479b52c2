"""``semilocal demo``: one question to a public sample under three kinds of trust; with ``--live`` or
``--two-servers`` over HTTP.

The live server is a process of its own with a database in a temporary folder; the devices are agents in this process,
each with its own secret from the operating system. The sample, California Housing, is public: that is why exact numbers
may be printed beside the answers.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np

from ... import functions
from ...errors import InvalidInput
from ...geometry.index import count_points
from ...geometry.places import named_box
from ...io.files import check_folder, write_text
from ...io.plots import need_matplotlib, save_side_by_side
from ...io.regions import AnyPartition, write_regions
from ...protocol.mark import Mark
from ...protocol.participant import Policy
from ...protocol.promise import Guarantee
from ...protocol.task import Task
from ...release import onecall
from ...release.whom import TRUSTS
from ...testing import ADMIN_TOKEN
from ...words import number_of
from ..demo_server import demo_server
from ..exits import DONE
from ..options import FOLDER, Seed

__all__ = ["run"]

DEVICES = 500
PLACE = "san-francisco"
EPSILON = 1.0


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
    if two_servers:
        from ..demo_pair import run as run_pair

        return run_pair(out, seed)
    return _live(out, seed) if live else _simulated(out, seed)


def _simulated(out: Path, seed: int | None) -> int:
    """The same question to the same people under the three answers to "whom do they trust?"."""
    need_matplotlib()
    from ...datasets import california_housing

    points, _ = california_housing()
    box, where = named_box("california"), named_box(PLACE)
    rng = None if seed is None else np.random.default_rng(seed)
    query = np.array([[where.lower, where.upper]])
    truth = int(count_points(points, query)[0])
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
        print(f"  {number_of(len(counted.partition), 'region')}; in the box {count}")
        print(f"  mean latitude {middle.value:.4f}, 95 % interval {low:.4f} to {high:.4f}")
        print(f"  promised, for the counts: {counted.guarantee.sentence()}")
        print(f"  promised, for the mean: {middle.guarantee.sentence()}")
        partition: AnyPartition = counted.partition
        if seed is not None:
            partition = replace(partition, mark=Mark(seeded=True, seed=seed))
        write_regions(partition, out / f"{trust}.geojson")
        title = f"trust {trust}: {number_of(len(counted.partition), 'region')}\n{PLACE}: {count} (truth {truth})"
        panels[f"{title}\n{_short(counted.guarantee)}"] = partition
    save_side_by_side(panels, out / "regions.png")
    print(f"\nwrote {out / 'regions.png'} and the regions as GeoJSON beside it")
    return DONE


def _short(promised: Guarantee) -> str:
    """The losses in one line of a picture, with what they are between."""
    if promised.adjacency != "inside":
        return f"epsilon = {promised.epsilon:g}, delta = 0 for any change of position"
    return f"epsilon = {promised.epsilon:g} inside a region; delta = 0"


def _live(out: Path, seed: int | None) -> int:
    """Collect from 500 devices: partition, mean and counts."""
    from ...datasets import california_housing
    from ...device.swarm.run import run_swarm
    from ...service.campaign import CampaignForm, ReleaseForm
    from ..admin_client import AdminClient

    box = named_box("california")
    rng = np.random.default_rng(seed)  # chooses who is asked; the noise is the devices' own
    points = rng.permutation(california_housing()[0])[:DEVICES]
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="semilocal-demo-") as folder,
        demo_server(Path(folder), "demo") as url,
        AdminClient(url, ADMIN_TOKEN) as client,
    ):
        task = Task.build(box, epsilon=2.0, delta=1e-3, window=60, server_key=client.key())
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
    for mean in (row for row in published.releases if row.kind == "mean"):
        low, high = mean.interval or (float("nan"), float("nan"))
        print(
            f"Mean latitude {mean.mean:.3f}, 95 % interval {low:.3f} to {high:.3f} (truth {points[:, 1].mean():.3f}); "
            f"epsilon = {mean.epsilon:g} for {mean.adjacency}, delta 0."
        )
    out.mkdir(parents=True, exist_ok=True)
    target = out / "live-regions.geojson"
    write_text(target, json.dumps(regions))
    print(f"wrote {target}; {time.monotonic() - began:.0f} s in total")
    return DONE
