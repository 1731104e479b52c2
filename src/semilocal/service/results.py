"""What a campaign publishes: regions, crowds, releases, counts in boxes, and the promise they come with.

Every number comes from the classes of :mod:`semilocal.release`, which take what a transcript gives. Regions, crowds and
who answered are public by design; of a position, only the place inside a region is protected.
Knows a store. Knows no HTTP.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import InvalidInput
from ..io.regions import AnyPartition, regions_geoparquet, regions_json
from ..protocol.column import own_value
from ..protocol.curator import Curator
from ..protocol.messages import Checkpoint, Closed, ValueClosed, decode, decode_closed
from ..protocol.partition import UNPROTECTED, Partition
from ..protocol.plan import Plan
from ..protocol.promise import INSIDE, Guarantee, promise
from ..release import CountsRelease, MeanRelease, collected_mean, counts, region_values
from ..release.pooled_mean import region_means
from ..release.promised import Mapped, Rounding, outside_words
from .campaign import Campaign, Status
from .means import mean_document
from .stores.base import Store

__all__ = ["Findings", "FindingsCache", "RegionFiles", "campaign_promise", "counts_document"]

MOST_REGIONS = 250_000  # whose findings stay in memory; about 1 kB each, with all documents
LEVEL = 0.95  # of the intervals that are shown
_FREE = {"epsilon": 0.0, "delta": 0.0, "adjacency": INSIDE}  # of what follows from regions and crowds


class RegionFiles:
    """The regions of a result as files, each written once."""

    if TYPE_CHECKING:

        @property
        def partition(self) -> AnyPartition:
            """The regions."""

    @cached_property
    def geojson(self) -> bytes:
        """The regions (two dimensions; with public regions rules "all" and "trim"), as GeoJSON."""
        return regions_json(self.partition)

    @cached_property
    def geoparquet(self) -> bytes:
        """The same as a GeoParquet file.

        Raises
        ------
        MissingExtra
            Without pyarrow.
        """
        return regions_geoparquet(self.partition)


@dataclass(frozen=True, eq=False)
class Findings(RegionFiles):
    """What the closed rounds of a campaign say; the partition is complete.

    Attributes
    ----------
    campaign : Campaign
    status : Status
    partition : Partition
        With rule "each" its crowds are not public, and mean nothing.
    values : dict of int to ValueClosed
        Closed rounds of values by the index of their release.
    checkpoint : Checkpoint
        Of the last closed round.
    """

    campaign: Campaign
    status: Status
    partition: Partition
    values: dict[int, ValueClosed]
    checkpoint: Checkpoint

    @staticmethod
    def read(store: Store, task: bytes, status: Status) -> Findings:
        """Read them from the messages of closed rounds.

        Raises
        ------
        InvalidInput
            If there is no partition yet.
        """
        campaign = store.campaign(task)
        if campaign is None or status.phase not in ("releasing", "finished"):
            raise InvalidInput(f"the campaign is {status.phase}; its regions are not known yet")
        closings: list[Closed] = []
        values = {}
        for number in range(1, status.closed + 1):
            closed = decode_closed(store.message(task, number, "closed") or b"")
            if isinstance(closed, ValueClosed):
                values[closed.index] = closed
            else:
                closings.append(closed)
        checkpoint = decode(store.message(task, status.closed, "checkpoint") or b"", Checkpoint)
        partition = Partition.from_rounds(campaign.task, Curator.replay(campaign.task, closings).rounds)
        return Findings(campaign, status, partition, values, checkpoint)

    @cached_property
    def counts(self) -> CountsRelease:
        """Counts that answer range queries.

        Raises
        ------
        InvalidInput
            With rule "each", where crowds are not public.
        """
        return counts(self.partition)

    @cached_property
    def promise(self) -> Guarantee:
        """What the campaign promised, with the TRIMs that its paths had."""
        return campaign_promise(self.partition, self.campaign.plan)

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

    def count(self, areas: Any, level: float, rounding: Rounding = None) -> dict[str, Any]:
        """Numbers of participants in boxes float[q, 2, d] or polygons with intervals, ready for JSON."""
        return counts_document(
            self.campaign.task.id, self.counts, areas, level, rounding, note=UNPROTECTED, promise=self.promise
        )

    def means_in(self, areas: Any, level: float) -> list[dict[str, Any]]:
        """All means that were released so far, for boxes float[q, 2, d] or polygons, ready for JSON."""
        return [
            mean_document(f"mean of {function.name}", found, region_means(found, function), areas, level)
            for index, found in self.means.items()
            for function in [self.campaign.releases[index].build()]
        ]

    @cached_property
    def means(self) -> dict[int, MeanRelease]:
        """Means of closed rounds by the index of their release, where anybody answered."""
        releases = self.campaign.releases
        return {
            index: collected_mean(self.partition, closed, releases[index])
            for index, closed in self.values.items()
            if releases[index].kind == "mean" and sum(closed.responders) > 0
        }

    @cached_property
    def _regions(self) -> list[dict[str, Any]]:
        table = self.partition.to_table()
        has_crowds = self.campaign.task.tells_crowds
        crowds: list[int | None] = table["crowd"].tolist() if has_crowds else [None] * len(self.partition)
        return [
            {
                **self._names[cell], "depth": depth, "crowd": crowd,
                "below_k": None if crowd is None else crowd < self.campaign.task.k, "lower": box[0], "upper": box[1],
            }
            for cell, depth, crowd, box in zip(
                table["cell"].tolist(), table["depth"].tolist(), crowds, self.partition.boxes.tolist(), strict=True
            )
        ]  # fmt: skip

    @cached_property
    def _names(self) -> dict[int, dict[str, str]]:
        """How each region is called: its cell, and its label where the tree has labels."""
        table = self.partition.to_table()
        labels = table.get("label")
        named = [{}] * len(self.partition) if labels is None else [{"label": label} for label in labels.tolist()]
        return {cell: {"cell": str(cell), **more} for cell, more in zip(table["cell"].tolist(), named, strict=True)}

    def _release(self, index: int) -> dict[str, Any]:
        release = self.campaign.releases[index]
        if release.kind == "counts":
            crowds = [region["crowd"] for region in self._regions]
            numbers = [{**name, "count": crowd} for name, crowd in zip(self._names.values(), crowds, strict=True)]
            total = None if not self.campaign.task.tells_crowds else sum(region["crowd"] for region in self._regions)
            return {"kind": "counts", **_FREE, "total": total, "counts": numbers}
        if release.kind == "points":
            middles = self.partition.middles.tolist()
            points = [
                {**name, "point": point, "weight": region["crowd"]}
                for name, point, region in zip(self._names.values(), middles, self._regions, strict=True)
            ]
            note = "the middle of each region, once per participant"
            return {"kind": "points", **_FREE, "note": note, "points": points}
        closed, f = self.values[index], release.build()
        out: dict[str, Any] = {
            "kind": release.kind, "function": f.name, "epsilon": release.epsilon, "delta": 0.0,
            "adjacency": f"any two values of {own_value(f)}" if release.own else INSIDE,
        }  # fmt: skip
        if release.kind == "values":
            return out | {
                "regions": [
                    {**self._names[cell], "values": [list(pair) for pair in zip(values.tolist(), counts, strict=True)]}
                    for cell, (values, counts) in zip(
                        closed.cells, region_values(self.partition, closed, release), strict=True
                    )
                ]
            }
        found = self.means.get(index)
        if found is None:
            return out | {"mean": None, "stderr": None, "interval": None, "responders": 0, "regions": []}
        rows = zip(self.partition.cells.tolist(), *(column.tolist() for column in found.regions), strict=True)
        return out | {
            "mean": found.value, "stderr": found.stderr, "interval": list(found.interval(LEVEL)), "level": LEVEL,
            "bias_bound": found.bias_bound, "responders": found.participants,
            "regions": [
                {**self._names[cell], "mean": mean, "stderr": stderr, "responders": responders}
                for cell, mean, stderr, responders in rows
                if responders
            ],
        }  # fmt: skip


def campaign_promise(partition: Partition, plan: Plan) -> Guarantee:
    """What a campaign promised, with the TRIMs that its paths had."""
    crowd = partition.smallest_crowd
    if partition.task.rule != "trim":
        return promise(partition.task, plan, participants=crowd)
    trims = int(partition.path_trims.max(initial=0))
    return promise(partition.task, plan, trims=trims, counted="run", participants=crowd)


def counts_document(
    task: bytes, counts: Mapped, areas: Any, level: float, rounding: Rounding, *, note: str, promise: Guarantee
) -> dict[str, Any]:
    """Numbers of participants in boxes float[q, 2, d] or polygons with intervals and the promise, ready for JSON."""
    answers = counts.answer(areas, rounding=rounding)
    outside = outside_words(areas, counts.partition.task.box)
    ends = answers.interval(level)
    numbers = zip(answers.value.tolist(), answers.stderr.tolist(), ends.tolist(), strict=True)
    return {
        "task": task.hex(),
        "total": counts.total,
        "level": level,
        "uncertain": answers.uncertain,
        "counts": [{"value": value, "stderr": stderr, "interval": pair} for value, stderr, pair in numbers],
        "note": f"{note} {outside}." if outside else note,
        "privacy": promise.to_json(),
    }


class Kept:
    """Findings in memory, one per campaign; the least recently used go first when there are too many regions."""

    def __init__(self, most_regions: int = MOST_REGIONS) -> None:
        self._most = most_regions
        self._kept: OrderedDict[bytes, tuple[int, Findings]] = OrderedDict()
        self.regions = 0

    def get(self, task: bytes, closed: int) -> Findings | None:
        """The findings after ``closed`` rounds, if they are in memory."""
        entry = self._kept.get(task)
        if entry is None or entry[0] != closed:
            return None
        self._kept.move_to_end(task)
        return entry[1]

    def put(self, task: bytes, closed: int, findings: Findings) -> None:
        """Keep findings in the place of older ones."""
        self._drop(task)
        self._kept[task] = closed, findings
        self.regions += len(findings.partition)
        while self.regions > self._most and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.regions = 0

    def _drop(self, task: bytes) -> None:
        entry = self._kept.pop(task, None)
        self.regions -= 0 if entry is None else len(entry[1].partition)


class FindingsCache:
    """Findings of campaigns, computed once per closed round. For one thread: ``Service.compute`` has it.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self._store, self._kept = store, Kept()

    def forget(self) -> None:
        """Forget everything, so that it is computed again."""
        self._kept.clear()

    def findings(self, task: bytes) -> Findings:
        """The findings as they are now.

        Raises
        ------
        InvalidInput
            If the campaign has no partition yet.
        """
        status = self._store.status(task)
        if status is None:
            raise InvalidInput("there is no campaign with this task")
        found = self._kept.get(task, status.closed)
        if found is None:
            found = Findings.read(self._store, task, status)
            self._kept.put(task, status.closed, found)
        return found
