"""A finished pair answers questions as every other campaign does, from its signed transcript alone."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from semilocal.pooled.asked import AskedValue
from semilocal.pooled.estimate import PooledPartition
from semilocal.release.means import Mean, Means
from semilocal.release.pair import pair_counts
from semilocal.sharing.pair import PairTask
from semilocal.testing import unit_box
from tests.helpers.pairs import crowd, pooled_task
from tests.helpers.running_pair import Pair

QUARTERS = unit_box().grid((2, 2)).tolist()


def base(pair: PairTask) -> str:
    return f"/tasks/{pair.id.hex()}"


@pytest.mark.parametrize("bucket_depth", [0, 2])
async def test_both_servers_give_the_counts_of_the_transcript(servers: Pair, bucket_depth: int) -> None:
    pair = await servers.opened(pooled_task(), bucket_depth=bucket_depth)
    await servers.fill(pair, crowd(200))
    expected = pair_counts((await servers.finish(pair)).to_bytes())
    answers = expected.query(QUARTERS)
    for client in servers.clients.values():
        found = (await client.post(f"{base(pair)}/counts", json={"boxes": QUARTERS, "level": 0.9})).json()
        assert [row["value"] for row in found["counts"]] == answers.value.tolist()
        assert [row["interval"] for row in found["counts"]] == answers.interval(0.9).tolist()
        assert found["total"] == 200
        assert "Experimental" in found["note"]
        assert found["privacy"]["epsilon"] == pair.pooled.epsilon
        one = (await client.get(f"{base(pair)}/counts", params={"box": "0,0,0.5,0.5"})).json()
        assert one["counts"][0]["value"] == answers.value[0]
        document = (await client.get(f"{base(pair)}/results")).json()
        assert document["reports"] == 200
        assert document["statement"].startswith("If both operators collude")
        drawn = await client.get(f"{base(pair)}/regions.geojson")
        assert drawn.headers["content-type"] == "application/geo+json"
        assert drawn.json() == expected.to_geojson()


@pytest.mark.parametrize("mean", ["all", "cells"])
async def test_the_mean_that_was_asked_for_comes_along_with_counts(
    servers: Pair, mean: Literal["all", "cells"]
) -> None:
    asked = AskedValue(name="stars", low=0, high=7, bits=3, mean=mean)
    pair = await servers.opened(pooled_task(), value=msgspec.to_builtins(asked))
    await servers.fill(pair, crowd(60), values=[number % 8 for number in range(60)])
    expected = pair_counts((await servers.finish(pair)).to_bytes())
    question = {"boxes": QUARTERS, "means": True}
    (found,) = (await servers.leader.post(f"{base(pair)}/counts", json=question)).json()["means"]
    assert found["what"] == asked.what
    if isinstance(expected, Mean):
        everybody = found["everybody"]
        assert (everybody["value"], everybody["people"]) == (expected.value, 60)
        assert everybody["interval"] == list(expected.interval())
        assert found["regions"] is None
    else:
        assert isinstance(expected, Means)
        assert isinstance(expected.partition, PooledPartition)
        assert found["everybody"] is None
        known = dict(zip(map(str, expected.partition.cells.tolist()), expected.value.tolist(), strict=True))
        areas = found["regions"]["areas"]
        assert len(areas) == len(QUARTERS)
        assert all(row["value"] == known[row["region"]] for area in areas for row in area["regions"])


async def test_before_the_end_there_is_no_result_and_bad_boxes_are_refused(servers: Pair) -> None:
    pair = await servers.opened(pooled_task())
    await servers.fill(pair, crowd(20))
    for path in ("results", "regions.geojson", "counts?box=0,0,1,1", "transcript"):
        answer = await servers.leader.get(f"{base(pair)}/{path}")
        assert (answer.status_code, answer.json()["token"]) == (404, "not-closed-yet"), path
    await servers.finish(pair)
    for boxes in ([], [[[0, 0], [1]]], [[[1, 1], [0, 0]]], [[[0, 0], ["x", 1]]]):
        answer = await servers.leader.post(f"{base(pair)}/counts", json={"boxes": boxes})
        assert (answer.status_code, answer.json()["token"]) == (400, "malformed"), boxes
