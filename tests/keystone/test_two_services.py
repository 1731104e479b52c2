"""Two services over HTTP publish what a simulation with the same noise publishes, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semilocal.pooled import play
from semilocal.service.pair.keys import PairSecrets
from semilocal.service.stores.base import Store, open_store
from semilocal.sharing.party import accepted_digest
from semilocal.testing import Postgres
from tests.helpers.pairs import SIGNING, SimulatedPair, crowd, report_id
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
