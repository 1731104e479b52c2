"""What a campaign or a pair publishes: regions, crowds, releases, counts in boxes, and the promise they come with.

Every number comes from the classes of :mod:`semilocal.release`, which take what a transcript gives. Regions, crowds and
who answered are public by design; of a position, only the place inside a region is protected.
Knows a store. Knows no HTTP.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from ..errors import InvalidInput
from ..geometry.areas import outside_words
from ..io.regions import regions_geoparquet, regions_json
from ..protocol.column import own_value
from ..protocol.messages import Checkpoint, ValueClosed, decode, decode_closed
from ..protocol.partition import UNPROTECTED, Partition
from ..protocol.plan import Plan
from ..protocol.promise import INSIDE, Guarantee, promise
from ..release import Mean, Means, collected_mean, counts, region_values
from ..release.counts import Mapped, Rounding
from ..release.means import region_means
from ..release.pair import PairResult, pair_counts, pair_document
from ..release.points import centres
from ..sharing.pair import EXPERIMENTAL, PairTask
from ..sharing.wire import SignedTree
from .campaign import Campaign, Status
from .rounds import catch_up
from .stores.base import Store

LEVEL = 0.95  # of the intervals that are shown
MOST_TOLD = 12  # regions of which a mean is told for one area
EVERYBODY = "everybody who answered"
REGIONS = "everybody in a region that the area meets"
_FREE = {"epsilon": 0.0, "delta": 0.0, "adjacency": INSIDE}  # of what follows from regions and crowds


@dataclass(frozen=True, eq=False)
class Published(ABC):
    """What a campaign or a pair publishes."""

    task_id: bytes
    note: str
    counts: Mapped  # answers range queries
    promise: Guarantee  # with what the result tells about it, such as the size of the smallest region

    @property
    @abstractmethod
    def document(self) -> bytes:
        """Everything, as JSON."""

    @abstractmethod
    def means_in(self, areas: Any, level: float) -> list[dict[str, Any]]:
        """All means that were released so far, for boxes float[q, 2, d] or polygons, ready for JSON."""

    @cached_property
    def geojson(self) -> bytes:
        """The regions (two dimensions), as GeoJSON."""
        return regions_json(self.counts.partition)

    @cached_property
    def geoparquet(self) -> bytes:
        """The same as a GeoParquet file."""
        return regions_geoparquet(self.counts.partition)

    def count(self, areas: Any, level: float, rounding: Rounding = None) -> dict[str, Any]:
        """Numbers of people in boxes float[q, 2, d] or polygons, with intervals and the promise, ready for JSON."""
        answers = self.counts.answer(areas, rounding=rounding)
        outside = outside_words(areas, self.counts.partition.task.box)
        numbers = zip(answers.value.tolist(), answers.stderr.tolist(), answers.interval(level).tolist(), strict=True)
        return {
            "task": self.task_id.hex(),
            "total": self.counts.total,
            "level": level,
            "counts": [{"value": value, "stderr": stderr, "interval": pair} for value, stderr, pair in numbers],
            "note": f"{self.note} {outside}." if outside else self.note,
            "privacy": self.promise.to_json(),
        }


@dataclass(frozen=True, eq=False)
class Findings(Published):
    """What the closed rounds of a campaign say; the partition is complete."""

    campaign: Campaign
    status: Status
    partition: Partition
    values: dict[int, ValueClosed]  # closed rounds of values by the index of their release
    checkpoint: Checkpoint  # of the last closed round

    @staticmethod
    def read(store: Store, task: bytes, status: Status) -> Findings:
        """Read them from the messages of closed rounds."""
        campaign = store.campaign(task)
        if campaign is None or status.phase not in ("releasing", "finished"):
            raise InvalidInput(f"the campaign is {status.phase}; its regions are not known yet")
        values = {}
        for number in range(status.closed, 0, -1):
            closed = decode_closed(store.message(task, number, "closed") or b"")
            if not isinstance(closed, ValueClosed):
                break
            values[closed.index] = closed
        checkpoint = decode(store.message(task, status.closed, "checkpoint") or b"", Checkpoint)
        curator = catch_up(store, campaign, status.closed - len(values))
        partition = curator.partition
        return Findings(
            task, UNPROTECTED, counts(partition), campaign_promise(partition, campaign.plan), campaign, status,
            partition, dict(sorted(values.items())), checkpoint,
        )  # fmt: skip

    @cached_property
    def document(self) -> bytes:
        """Everything a finished campaign publishes, as JSON."""
        campaign, checkpoint = self.campaign, self.checkpoint
        document = {
            "task": campaign.task.id.hex(),
            "name": campaign.name,
            "statement": campaign.statement(),
            "note": UNPROTECTED,
            "privacy": self.promise.to_json(),
            "enrolled": self.status.enrolled,
            "rounds": self.status.closed,
            "checkpoint": {"round": checkpoint.round, "size": checkpoint.size, "root": checkpoint.root.hex()},
            "regions": self._regions,
            "releases": [self._release(index) for index in range(len(campaign.releases))],
        }
        return msgspec.json.encode(document)

    def means_in(self, areas: Any, level: float) -> list[dict[str, Any]]:
        """All means that were released so far, for boxes float[q, 2, d] or polygons, ready for JSON."""
        return [
            mean_document(f"mean of {function.name}", found, region_means(found, function), areas, level)
            for index, found in self.means.items()
            for function in [self.campaign.releases[index].build()]
        ]

    @cached_property
    def means(self) -> dict[int, Mean]:
        """Means of closed rounds by the index of their release, where anybody answered."""
        releases = self.campaign.releases
        return {
            index: collected_mean(self.partition, closed, releases[index])
            for index, closed in self.values.items()
            if releases[index].kind == "mean" and sum(closed.responders) > 0
        }

    @cached_property
    def _regions(self) -> list[dict[str, Any]]:
        partition, walls = self.partition, self.partition.walls
        columns = zip(partition.crowds.tolist(), partition.boxes.tolist(), pairwise(walls.first.tolist()), strict=True)
        lines = list(zip(walls.cuts.tolist(), walls.asked.tolist(), walls.yes.tolist(), strict=True))
        return [
            {
                **name, "crowd": crowd, "below_k": crowd < self.campaign.task.k, "lower": box[0], "upper": box[1],
                "walls": [{"cut": str(cut), "asked": asked, "yes": yes} for cut, asked, yes in lines[begin:end]],
            }
            for name, (crowd, box, (begin, end)) in zip(self._names.values(), columns, strict=True)
        ]  # fmt: skip

    @cached_property
    def _names(self) -> dict[tuple[int, int], dict[str, Any]]:
        """How each region is called, and its codes as text: a double does not hold them."""
        partition = self.partition
        rows = zip(partition.lower.tolist(), partition.upper.tolist(), partition.names, strict=True)
        return {(lower, upper): {"region": name, "codes": [str(lower), str(upper)]} for lower, upper, name in rows}

    def _release(self, index: int) -> dict[str, Any]:
        release = self.campaign.releases[index]
        crowds = self.partition.crowds.tolist()
        if release.kind == "counts":
            numbers = [{**name, "count": crowd} for name, crowd in zip(self._names.values(), crowds, strict=True)]
            return {"kind": "counts", **_FREE, "total": self.partition.people, "counts": numbers}
        if release.kind == "points":
            middles = centres(self.partition).middle.tolist()
            points = [
                {**name, "point": point, "weight": crowd}
                for name, point, crowd in zip(self._names.values(), middles, crowds, strict=True)
            ]
            note = "the estimated centre of each region, once per member"
            return {"kind": "points", **_FREE, "note": note, "points": points}
        closed, f = self.values[index], release.build()
        out: dict[str, Any] = {
            "kind": release.kind, "function": f.name, "epsilon": release.epsilon, "delta": 0.0,
            "adjacency": f"any two values of {own_value(f)}" if release.own else INSIDE,
        }  # fmt: skip
        if release.kind == "values":
            return out | {
                "regions": [
                    {
                        **self._names[region],
                        "values": [list(pair) for pair in zip(values.tolist(), counts, strict=True)],
                    }
                    for region, (values, counts) in zip(
                        closed.regions, region_values(self.partition, closed, release), strict=True
                    )
                ]
            }
        found = self.means.get(index)
        if found is None or found.regions is None:
            return out | {"mean": None, "stderr": None, "interval": None, "responders": 0, "regions": []}
        rows = zip(self._names.values(), *(column.tolist() for column in found.regions), strict=True)
        return out | {
            "mean": found.value, "stderr": found.stderr, "interval": list(found.interval(LEVEL)), "level": LEVEL,
            "clipping": found.clipping, "responders": found.participants,
            "regions": [
                {**name, "mean": mean, "stderr": stderr, "responders": responders, "range": ends}
                for name, mean, stderr, responders, ends in rows
                if responders
            ],
        }  # fmt: skip


def campaign_promise(partition: Partition, plan: Plan) -> Guarantee:
    """What a campaign promised, with the sizes of its roster and of its smallest region."""
    people = partition.crowds[partition.crowds > 0]
    smallest = int(people.min()) if len(people) else None
    return promise(partition.task, plan, participants=partition.people, smallest=smallest)


def mean_document(what: str, all_: Mean | None, cells: Means | None, areas: Any, level: float) -> dict[str, Any]:
    """One released mean, ready for JSON."""
    document: dict[str, Any] = {"what": what, "level": level, "everybody": None, "regions": None}
    if all_ is not None:
        document["everybody"] = {
            "about": EVERYBODY, "people": all_.participants, "value": all_.value, "stderr": all_.stderr,
            "interval": list(all_.interval(level)),
        }  # fmt: skip
    if cells is not None:
        document["regions"] = {"about": REGIONS, "areas": _by_area(cells, areas, level)}
    return document


def _by_area(found: Means, areas: Any, level: float) -> list[dict[str, Any]]:
    """The regions that each area meets, the most crowded first, and how many more there are."""
    ends, partition = found.interval(level), found.partition
    names = np.array(partition.names) if isinstance(partition, Partition) else partition.cells.astype(str)
    answers = []
    for met in found.meeting(areas):
        answered = met[np.isfinite(found.value[met])]
        rows = answered[np.argsort(-partition.crowds[answered], kind="stable")][:MOST_TOLD]
        columns = (names, partition.crowds, found.value, found.stderr, ends, partition.boxes)
        numbers = zip(*(column[rows].tolist() for column in columns), strict=True)
        regions = [
            {
                "region": name, "people": people, "value": value, "stderr": stderr, "interval": pair,
                "lower": lower, "upper": upper,
            }
            for name, people, value, stderr, pair, (lower, upper) in numbers
        ]  # fmt: skip
        answers.append({"regions": regions, "more": len(answered) - len(rows)})
    return answers


@lru_cache(maxsize=16)
def _read(store: Store, task: bytes, closed: int) -> Findings:
    status = store.status(task)
    assert status is not None
    return Findings.read(store, task, status)


def findings(store: Store, task: bytes) -> Findings:
    """What a campaign publishes now, computed once per closed round. For one thread: ``Service.compute`` has it."""
    status = store.status(task)
    if status is None:
        raise InvalidInput("there is no campaign with this task")
    return _read(store, task, status.closed)


# -- two servers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairFindings(Published):
    """The result of a pair; everything is computed from its signed transcript."""

    counts: PairResult
    transcript: bytes
    pair: PairTask

    @cached_property
    def document(self) -> bytes:
        """Everything, as JSON."""
        return msgspec.json.encode(pair_document(self.transcript, self.counts))

    def means_in(self, areas: Any, level: float) -> list[dict[str, Any]]:
        """The mean that was released, if there is one."""
        asked, found = self.pair.asked, self.counts
        if asked is None:
            return []
        everybody = found if isinstance(found, Mean) else None
        return [mean_document(asked.what, everybody, found if isinstance(found, Means) else None, areas, level)]


@lru_cache(maxsize=16)
def pair_findings(transcript: bytes) -> PairFindings:
    """The result in a transcript, which is replayed first; refuses one that does not hold."""
    pair, counts = SignedTree.from_bytes(transcript).task, pair_counts(transcript)
    return PairFindings(pair.id, EXPERIMENTAL, counts, counts.guarantee, transcript, pair)
