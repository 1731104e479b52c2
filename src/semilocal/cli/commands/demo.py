"""``semilocal demo``: one question to a public sample under three kinds of trust; with ``--live`` or
``--two-servers`` over HTTP.

Live servers are processes of their own with a database in a temporary folder; the devices are agents in this process,
each with its own secret from the operating system. Here one person starts both of two servers, which is exactly what
their promise forbids. The sample, California Housing, is public: that is why truth may be printed beside answers.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np

from ...arrays import Floats
from ...errors import InvalidInput
from ...geometry.places import named_box
from ...io.files import check_folder, replacing
from ...io.plots import need_matplotlib, save_side_by_side
from ...io.queries import Asked, Queries, asked_on_map
from ...io.regions import AnyPartition
from ...page.single import write_html
from ...pooled.task import PooledTask
from ...protocol.policy import Policy
from ...protocol.promise import Mark
from ...protocol.task import Task
from ...release import Counts, job
from ...release.job import TRUSTS
from ...service.campaign import CampaignForm, ReleaseForm
from ...service.pair.form import PairForm
from ...tabular import aligned
from ...testing import ADMIN_TOKEN, running_server
from ...words import number_of
from ..admin import AdminClient
from ..catalogue import DONE
from ..jobs import answer_columns
from ..options import folder, option, whole
from .results import Found, found_of, write_map

DEVICES, UPLOADS = 1_500, 500  # where nobody is trusted, and with two servers
PLACE = "los-angeles"  # few devices can tell little about a small place
EPSILON = 1.0
PAIR_EPSILON = 2.0
RESOLUTION = 5.0  # kilometres
PATIENCE = 60.0  # seconds that two servers may take
OPERATORS = {"leader": "City Council", "helper": "State University"}


def run(
    *,
    out: Annotated[Path, folder("where the maps go")] = Path("demo-output"),
    seed: Annotated[int | None, option("repeatable, for simulation only", "S", whole(0))] = None,
    live: Annotated[bool, option("with a server and devices on this machine")] = False,
    two_servers: Annotated[bool, option("with two servers and devices on this machine (experimental)")] = False,
) -> int:
    """Show the whole job."""
    if live and two_servers:
        raise InvalidInput("give --live or --two-servers, not both")
    check_folder("--out", out)
    from ...datasets import california_housing

    points, _ = california_housing()
    out.mkdir(parents=True, exist_ok=True)
    if not (live or two_servers):
        return _simulated(points, out, seed)
    chosen = np.random.default_rng(seed).permutation(points)  # who is asked; the noise is the devices' own
    chosen = chosen[: UPLOADS if two_servers else DEVICES]
    _ask(chosen)
    try:
        with tempfile.TemporaryDirectory(prefix="semilocal-demo-") as folder:
            return (_two_servers if two_servers else _live)(chosen, Path(folder), out)
    except RuntimeError as error:
        raise InvalidInput(f"the demo's server did not start: {error}") from None


def _simulated(points: Floats, out: Path, seed: int | None) -> int:
    """The same question to the same people under the three answers to "whom do they trust?"."""
    need_matplotlib()
    truth, rng = _ask(points), None if seed is None else np.random.default_rng(seed)
    panels: dict[str, AnyPartition] = {}
    found: dict[str, Counts] = {}
    for trust in TRUSTS:
        found[trust] = job.counts(points, "california", epsilon=EPSILON, trust=trust, rng=rng)
        regions, (count, between) = number_of(len(found[trust].partition), "region"), _answer(found[trust])
        promised = str(found[trust].guarantee).split("; ")[0].replace("one person", "\none person")
        panels[f"trust {trust}: {regions}\n{PLACE}: {count}, {between} (truth {truth:,})\n{promised}"] = replace(
            found[trust].partition, mark=None if seed is None else Mark(seeded=True, seed=seed)
        )
    _tell(found)
    save_side_by_side(panels, out / "trust.png")
    curator = found["curator"]
    write_html(
        out / "map.html", curator, curator.guarantee, title=f"{len(points):,} people in California, trust curator",
        numbers={"people": f"{len(points):,}"}, asked=_on_map(curator),
    )  # fmt: skip
    print(f"\nThe three maps in one picture: {out / 'trust.png'}")
    print(f"The curator's map: {out / 'map.html'} opens in a browser, without a net; ask it about other places.")
    print("With real devices over HTTP: semilocal demo --live, semilocal demo --two-servers")
    return DONE


def _ask(points: Floats) -> int:
    """Say the question; the true answer."""
    where = named_box(PLACE)
    inside = (points >= where.lower) & (points < where.upper)  # half-open, as what is asked
    truth = int(np.count_nonzero(inside.all(axis=1)))
    (west, south), (east, north) = where.lower, where.upper
    print(
        f"How many of {len(points):,} people are in the box {PLACE}, {south:g} to {north:g} degrees north and "
        f"{-east:g} to {-west:g} west?\nThe truth is {truth:,}. "
        "Block groups of a census stand for people, so it is public here."
    )
    return truth


def _answer(counts: Counts) -> tuple[str, str]:
    """The estimate, and its interval."""
    row = counts.query(PLACE).to_dict()
    return f"{row['estimate'][0]:,.0f}", f"95 % interval {row['low'][0]:,.0f} to {row['high'][0]:,.0f}"


def _tell(found: Mapping[str, Counts]) -> None:
    """Print answers, and by whom the participants trust, what is promised."""
    rows = [(trust, *_answer(each)) for trust, each in found.items()]
    print("\n" + "\n".join(aligned([("they trust", "answer", ""), *rows])))
    print("About 1 in 20 of such intervals misses the truth.\n")
    for trust, each in found.items():
        print(f"{trust}: {each.guarantee}")


def _on_map(counts: Counts) -> list[Asked]:
    """The question with its answer, for a map."""
    box = named_box(PLACE)
    queries = Queries(np.array([[box.lower, box.upper]]), {"name": [PLACE]})
    return asked_on_map(queries, answer_columns(queries, counts.query(PLACE), box, level=0.95))


def _live(points: Floats, folder: Path, out: Path) -> int:
    """Collect from devices where nobody is trusted."""
    with running_server(f"sqlite:///{folder / 'demo.db'}") as server, AdminClient(server.url, ADMIN_TOKEN) as client:
        task = Task.build(named_box("california"), epsilon=2.0, delta=1e-3, window=60, server_key=client.key())
        form = CampaignForm("demo", task, (ReleaseForm("counts"),), "tokens", DEVICES, 60)
        identity = client.create(form)
        _join(client, identity, points, form.build().total_epsilon)
        found = found_of(client, identity)
    print("\n".join(found.words))
    _show(found, "nobody", out / "live.html", f"{len(points):,} devices in California")
    return DONE


def _show(found: Found, trust: str, path: Path, title: str) -> None:
    """Print answer and promise of a live collection, and write its map."""
    assert isinstance(found.counts, Counts)
    _tell({trust: found.counts})
    if trust == "two-servers":
        print("If both operators collude they have every position.")
    write_map(found, path, title=title, asked=_on_map(found.counts))
    print(f"\nThe map: {path} opens in a browser; ask it about other places.")


def _join(client: AdminClient, task: str, points: Floats, epsilon: float) -> None:
    """Let a device at every point take part."""
    from ...device.swarm import run_swarm

    print(f"\n{len(points):,} devices join {client.url}/tasks/{task[:16]}…", flush=True)
    policy, tokens = Policy(max_epsilon=epsilon), [each for page in client.tokens(task, len(points)) for each in page]
    result = asyncio.run(run_swarm(f"{client.url}/tasks/{task}", points, policy=policy, tokens=tokens))
    print(result.text().splitlines()[0])
    if any(summary.outcome not in ("finished", "uploaded") for summary in result.summaries) or result.failures:
        raise InvalidInput(f"not every device took part: {result.text()}")


def _two_servers(points: Floats, folder: Path, out: Path) -> int:
    """Count with two servers: each sees shares that are random alone."""
    from ...sharing.sealing import verifying_key
    from ...transcript.pair import verify_pair

    def options(role: str, *more: str) -> tuple[str, ...]:
        return ("--role", role, "--operator", OPERATORS[role], "--processes", "1", *more)

    keys = [secrets.token_bytes(32) for _ in range(2)]
    helping = options("helper", "--peer-key", verifying_key(keys[0]).hex())
    with (
        running_server(f"sqlite:///{folder / 'helper.db'}", options=helping, signing_key=keys[1]) as helper,
        running_server(
            f"sqlite:///{folder / 'leader.db'}", options=options("leader", "--peer", helper.url), signing_key=keys[0]
        ) as leader,
        AdminClient(leader.url, ADMIN_TOKEN) as first,
        AdminClient(helper.url, ADMIN_TOKEN) as second,
    ):
        pooled = PooledTask.build(
            named_box("california"), epsilon=PAIR_EPSILON, trust="two-servers", resolution=RESOLUTION, label="demo"
        )
        task = first.create(PairForm("demo", pooled, second.key().hex(), capacity=UPLOADS))
        first.move(task, "confirm")
        _wait(second, lambda: task in {row.task for row in second.campaigns()})  # proposed in the leader's own time
        second.move(task, "confirm")
        _wait(first, lambda: first.state(task).phase == "open")
        _join(first, task, points, PAIR_EPSILON)
        _wait(first, lambda: first.state(task).phase == "done")
        found, other = found_of(first, task), second.transcript(task)
    data = found.files["transcript.slt"]
    checked = verify_pair(data, other=other)
    if not checked.sound:
        raise InvalidInput("\n".join(["the transcript does not hold", *checked.lines()]))
    print("Both servers published the same, and it follows from what was sent.")
    _show(found, "two-servers", out / "two-servers.html", f"{len(points):,} devices, two servers")
    with replacing(out / "two-servers.slt") as stream:
        stream.write(data)
    print(f"What both servers published: semilocal verify {out / 'two-servers.slt'}")
    return DONE


def _wait(client: AdminClient, there: Callable[[], bool]) -> None:
    """Wait until something is there, but not for ever."""
    deadline = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > deadline:
            states = "; ".join(client.state(row.task).text() for row in client.campaigns())
            raise InvalidInput(f"the demo's servers take too long: {states or 'the helper was not asked'}")
        time.sleep(0.1)
