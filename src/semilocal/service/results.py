"""What a finished campaign publishes: regions, crowds, releases, and the promise they come with.

Regions, crowds and who answered are public by design; only the place inside a region is protected, and every number
of a release carries its epsilon. Knows a store and the protocol's estimates. Knows no HTTP.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import InvalidInput
from ..protocol.curator import Curator
from ..protocol.estimates import estimate_mean, region_values
from ..protocol.messages import Closed, ValueClosed, decode
from ..protocol.partition import UNPROTECTED, Partition
from ..protocol.promise import INSIDE, Guarantee, promise
from ..protocol.task import Task
from ..transcript.checkpoints import Checkpoint
from .campaign import Campaign, Status
from .stores.base import Store

__all__ = ["geojson", "results"]


def results(store: Store, task: bytes) -> dict[str, Any]:
    """Everything a finished campaign publishes, ready for JSON.

    Raises
    ------
    InvalidInput
        If the campaign is not finished.
    """
    campaign, status, closings, values = _read(store, task)
    plan = campaign.plan
    checkpoint = msgspec.msgpack.decode(store.message(task, status.closed, "checkpoint") or b"", type=Checkpoint)
    regions = _regions(campaign.task, closings)
    return {
        "task": task.hex(),
        "name": campaign.name,
        "statement": campaign.statement(),
        "note": UNPROTECTED,
        "privacy": _promise(campaign, closings).to_json(),
        "enrolled": status.enrolled,
        "rounds": status.closed,
        "checkpoint": {"round": checkpoint.round, "size": checkpoint.size, "root": checkpoint.root.hex()},
        "regions": regions,
        "releases": [_release(campaign, index, values.get(index), regions) for index in range(len(plan.releases))],
    }


def _promise(campaign: Campaign, closings: list[Closed]) -> Guarantee:
    """What the campaign promised, with the TRIMs that its paths had."""
    if campaign.task.rule != "trim":
        return promise(campaign.task, campaign.plan)
    trims = int(Partition.from_closings(campaign.task, closings).path_trims.max(initial=0))
    return promise(campaign.task, campaign.plan, trims=trims, counted="run")


def geojson(store: Store, task: bytes) -> dict[str, Any]:
    """The regions as GeoJSON (two dimensions, rules "all" and "trim")."""
    campaign, _, closings, _ = _read(store, task)
    return Partition.from_closings(campaign.task, closings).to_geojson()


def _read(store: Store, task: bytes) -> tuple[Campaign, Status, list[Closed], dict[int, ValueClosed]]:
    campaign, status = store.campaign(task), store.status(task)
    if campaign is None or status is None:
        raise InvalidInput("there is no campaign with this task")
    if status.phase != "finished":
        raise InvalidInput(f"the campaign is {status.phase}; results are there when it is finished")
    partition_rounds = status.closed - len(campaign.plan.asked)
    closings, values = [], {}
    for number in range(1, status.closed + 1):
        data = store.message(task, number, "closed")
        assert data is not None
        if number <= partition_rounds:
            closings.append(decode(data, Closed))
        else:
            closed = decode(data, ValueClosed)
            values[closed.index] = closed
    return campaign, status, closings, values


def _regions(task: Task, closings: list[Closed]) -> list[dict[str, Any]]:
    if task.rule == "each":  # nobody answers for a region that was left behind: its crowd is not public
        cells = Curator.replay(task, closings).regions.cells
        crowds: list[int | None] = [None] * len(cells)
    else:
        partition = Partition.from_closings(task, closings)
        cells, crowds = partition.cells, partition.crowds.tolist()
    boxes = task.hierarchy.boxes(cells)
    depths = task.hierarchy.depth(cells)
    return [
        {
            "cell": str(cell), "depth": depth, "crowd": crowd, "below_k": None if crowd is None else crowd < task.k,
            "lower": box[0], "upper": box[1],
        }
        for cell, depth, crowd, box in zip(cells.tolist(), depths.tolist(), crowds, boxes.tolist(), strict=True)
    ]  # fmt: skip


def _release(
    campaign: Campaign, index: int, closed: ValueClosed | None, regions: list[dict[str, Any]]
) -> dict[str, Any]:
    task, release = campaign.task, campaign.releases[index]
    if release.kind == "counts":
        counts = [{"cell": region["cell"], "count": region["crowd"]} for region in regions]
        known = [region["crowd"] for region in regions if region["crowd"] is not None]
        return {"kind": "counts", "epsilon": 0.0, "total": sum(known), "counts": counts}
    if release.kind == "points":
        points = [
            {"point": [(low + high) / 2 for low, high in zip(region["lower"], region["upper"], strict=True)],
             "weight": region["crowd"]}
            for region in regions
        ]  # fmt: skip
        return {
            "kind": "points",
            "epsilon": 0.0,
            "note": "the middle of each region, once per participant",
            "points": points,
        }
    assert closed is not None
    out: dict[str, Any] = {
        "kind": release.kind, "function": release.build().name, "epsilon": release.epsilon, "delta": 0.0,
        "adjacency": INSIDE,
    }  # fmt: skip
    if release.kind == "values":
        rows = region_values(closed, campaign.plan, task=task)
        out["regions"] = [
            {"cell": str(cell), "values": [[float(value), count] for value, count in zip(values, counts, strict=True)]}
            for cell, (values, counts) in zip(closed.cells, rows, strict=True)
        ]
        return out
    overall, single = estimate_mean(closed, campaign.plan, task=task)
    known_mean = overall.responders > 0
    out |= {
        "mean": overall.mean if known_mean else None, "stderr": overall.stderr if known_mean else None,
        "responders": overall.responders,
        "regions": [
            {"cell": str(cell), "mean": one.mean, "stderr": one.stderr, "responders": one.responders}
            for cell, one in zip(closed.cells, single, strict=True)
        ],
    }  # fmt: skip
    return out
