"""Two services over HTTP publish what a simulation with the same noise publishes, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from semilocal import Box
from semilocal.pooled import play, replay
from semilocal.pooled.asked import AskedValue
from semilocal.pooled.values import add_up
from semilocal.release.means import Mean, Means
from semilocal.release.pair import pair_counts, pair_document
from semilocal.service.pair.play import PairSecrets
from semilocal.service.stores.base import Store, open_store
from semilocal.sharing.party import accepted_digest, derived_sum_noise
from semilocal.transcript.pair import verify_pair
from tests.helpers.pairs import SIGNING, SimulatedPair, crowd, pooled_task, report_id
from tests.helpers.postgres import Postgres
from tests.helpers.running_pair import SEEDS, Pair, run_pair


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Of the leader and of the helper, each on its own database."""
    if request.param == "sqlite":
        urls = [f"sqlite:///{tmp_path / name}.db" for name in ("leader", "helper")]
    else:
        cluster: Postgres = request.getfixturevalue("postgres")
        urls = [cluster.new_database() for _ in range(2)]
    opened = [open_store(url) for url in urls]
    yield opened[0], opened[1]
    for store in opened:
        store.close()


@pytest.mark.parametrize("bucket_depth", [0, 2])
def test_two_services_publish_the_numbers_of_the_simulation(stores: tuple[Store, Store], bucket_depth: int) -> None:
    async def body(servers: Pair) -> None:
        pair = await servers.opened(bucket_depth=bucket_depth)
        points = crowd(250)
        await servers.fill(pair, points)
        signed = await servers.finish(pair)
        first, second = (
            PairSecrets(secret, seed).noise_secret(pair.id) for secret, seed in zip(SIGNING, SEEDS, strict=True)
        )
        places = [pair.place(code) for code in pair.pooled.hierarchy.codes(points).tolist()]
        assert {tree.bucket for tree in signed.trees} == {bucket for bucket, _ in places}
        for tree, published in zip(signed.trees, signed.published(), strict=True):
            inside = [number for number, (bucket, _) in enumerate(places) if bucket == tree.bucket]
            task = pair.tree_task(tree.bucket)
            digest = accepted_digest([report_id(number) for number in inside])
            simulated = play(task, SimulatedPair(task, task.hierarchy.codes(points[inside]), digest, (first, second)))
            assert published.to_bytes() == simulated.to_bytes()
        assert max(len(published.cells) for published in signed.published()) > 5

    run_pair(stores, body)


FARE = AskedValue(name="fare", low=0.0, high=50.0, bits=6)
LATITUDE = AskedValue.of_function(Box((0, 0), (1, 1)), "coordinate", (1.0,), mean="cells")


@pytest.mark.parametrize(
    "asked", [FARE, msgspec.structs.replace(FARE, mean="cells"), LATITUDE], ids=lambda one: one.what
)
def test_two_services_publish_the_sums_of_the_simulation(stores: tuple[Store, Store], asked: AskedValue) -> None:
    """Sums in the clear with the noise that both servers derive. Means within six standard errors (2e-9)."""

    async def body(servers: Pair) -> None:
        pair = await servers.opened(pooled_task(max_depth=4), value=msgspec.to_builtins(asked))
        assert pair.asked == asked
        points = crowd(150)
        draws = np.random.default_rng(8).integers(0, 2**64, len(points), dtype=np.uint64).tolist()
        given = points[:, 1] * (50 if asked.own else 1)
        values = [asked.encode(value, draw) for value, draw in zip(given.tolist(), draws, strict=True)]
        await servers.fill(pair, points, values)
        signed = await servers.finish(pair)
        (published,) = signed.published()
        secrets = [PairSecrets(*both).noise_secret(pair.id) for both in zip(SIGNING, SEEDS, strict=True)]
        task = pair.tree_task(1)
        digest = accepted_digest([report_id(number) for number in range(len(points))])
        counter = SimulatedPair(task, task.hierarchy.codes(points), digest, (secrets[0], secrets[1]))
        simulated = play(task, counter)
        tree = replay(simulated)
        grid = asked.grid(task.hierarchy.boxes(tree.cells))
        noise = [derived_sum_noise(secret, task, counter.depth, digest, tree.cells, grid.widths) for secret in secrets]
        sums = add_up(np.array(values), tree.find(points), grid) + noise[0] - noise[1]
        assert published.to_bytes() == replace(simulated, sums=sums).to_bytes()
        assert len(tree.cells) > 5 if asked.per_cell else len(tree.cells) == 1

        found = pair_counts(signed.to_bytes())
        assert found.guarantee.epsilon == pair.epsilon == pair.promise().epsilon
        if isinstance(found, Mean):
            assert abs(found.value - given.mean()) < 6 * found.stderr
            assert found.range == (0.0, 50.0)
        else:
            assert isinstance(found, Means)
            cells = found.partition.locate(points)
            number = np.bincount(cells, minlength=len(found.partition))
            exact = np.bincount(cells, given, minlength=len(found.partition)) / np.maximum(number, 1)
            some = number >= 10
            assert some.any()
            assert (np.abs(found.value - exact)[some] <= 6 * found.stderr[some]).all()
        assert verify_pair(signed.to_bytes()).sound
        document = pair_document(signed.to_bytes(), found)
        assert document["value"]["name"] == asked.name

    run_pair(stores, body)
