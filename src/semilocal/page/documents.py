"""What the page shows of a campaign, as JSON: its overview, and the regions after each closed round.

Everything is a function of the task and of closed rounds. Knows a store. Knows no HTTP.
"""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from typing import Any

import msgspec
import numpy as np

from ..errors import InvalidInput
from ..io.map_rows import OPEN, REGION, domain_json, partition_rows, region_rows
from ..protocol.curator import Curator
from ..protocol.messages import AnyClosed, ValueClosed, decode_closed
from ..protocol.partition import UNPROTECTED
from ..protocol.promise import device_words, promise
from ..protocol.region import walls_of
from ..release.pair import PairResult
from ..service.campaign import Campaign
from ..service.pair.play import LivePair
from ..service.rounds import catch_up
from ..service.stores.base import Store
from ..sharing.pair import EXPERIMENTAL

__all__ = ["RoundDocuments", "overview", "pair_document", "pair_overview", "round_document"]

_CACHE_BYTES = 64 << 20
_CURATORS = 4


def overview(campaign: Campaign) -> dict[str, Any]:
    """What is fixed about a campaign: domain, promise and schedule."""
    task = campaign.task
    return {
        "task": task.id.hex(), "name": campaign.name, "trust": "nobody",
        "domain": domain_json(task.box, task.hierarchy), "k": task.k, "rule": task.rule,
        "max_rounds": task.max_rounds, "window": task.window, "quorum": task.quorum,
        "enrolment": campaign.enrolment, "capacity": campaign.capacity,
        "releases": [release.what for release in campaign.releases], "public": UNPROTECTED,
        "promise": promise(task, campaign.plan).to_json(),
        "participant": device_words(task, campaign.plan),
    }  # fmt: skip


def pair_overview(live: LivePair) -> dict[str, Any]:
    """What is fixed about a task of two servers: domain, promise and both operators."""
    pair, row = live.pair, live.row
    return {
        "task": live.task.hex(), "name": row.name, "trust": "two-servers", "domain": domain_json(pair.pooled.box),
        "enrolment": row.enrolment, "capacity": row.capacity, "role": live.role,
        "notes": [EXPERIMENTAL, live.pair.collusion],
        "operators": pair.operators,
        "public": "", "promise": pair.promise().to_json(), "participant": pair.device_words(),
    }  # fmt: skip


def pair_document(counts: PairResult) -> dict[str, Any]:
    """The final cells of two servers, as the only round of a map."""
    box = counts.partition.task.box
    rows = partition_rows(counts.partition).to_json(counts.partition.task.hierarchy) if box.dimensions <= 2 else None
    privacy = counts.guarantee.to_json()
    return {"round": 1, "kind": "cells", "received": counts.total, "expected": None, "rows": rows, "privacy": privacy}


def round_document(curator: Curator, closed: AnyClosed, expected: int | None) -> dict[str, Any]:
    """What a closed round left: all regions, if it changed them, and how many reported.

    Parameters
    ----------
    curator : Curator
        After the round.
    closed : Closed or ValueClosed
        The round's closing.
    expected : int or None
        Reports that it waited for.
    """
    number = closed.round
    if isinstance(closed, ValueClosed):
        received = sum(closed.responders)
        return {"round": number, "kind": "values", "rows": None, "received": received, "expected": expected}
    document = {
        "round": number, "kind": "cells", "whole": True, "received": sum(head.reports for head in closed.heads),
        "expected": expected,
    }  # fmt: skip
    changed = number == 1 or closed.finished or any(one.outcome != "more" for one in closed.verdicts)
    if curator.task.box.dimensions > 2 or not changed:
        return document | {"rows": None}
    logs = [log for _, log in sorted(curator.logs.items())]
    rows = region_rows(
        curator.task, np.array([log.lower for log in logs], dtype=np.uint64),
        np.array([log.upper for log in logs], dtype=np.uint64), np.array([log.crowd for log in logs], dtype=np.int64),
        state=np.array([REGION if curator.ended(log.region) else OPEN for log in logs]),
        walls=walls_of(logs) if curator.task.rule == "cut" else None,
    )  # fmt: skip
    return document | {"rows": rows.to_json(curator.task.hierarchy)}


class RoundDocuments:
    """Documents of closed rounds, compressed, in bounded memory: they never change, and everybody wants the same.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._curators: OrderedDict[bytes, Curator] = OrderedDict()
        self._kept: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, task: bytes, number: int) -> bytes:
        """The document of a round that is closed, as gzipped JSON."""
        with self._lock:  # one reader computes, the others wait for it
            if (task, number) not in self._kept:
                self._build(task, number)
            self._kept.move_to_end((task, number))
            return self._kept[task, number]

    def _build(self, task: bytes, number: int) -> None:
        """Follow the campaign up to a round, and keep the documents of all rounds on the way."""
        campaign = self._store.campaign(task)
        if campaign is None:
            raise InvalidInput("there is no campaign with this task")
        curator = self._curators.pop(task, None)
        if curator is None or curator.round > number:
            curator = catch_up(self._store, campaign, 0)
        while curator.round <= number:
            closing, expected = curator.round, curator.expected
            message = decode_closed(self._store.message(task, closing, "closed") or b"")
            catch_up(self._store, campaign, closing, curator)
            document = round_document(curator, message, expected)
            self._kept[task, closing] = gzip.compress(msgspec.json.encode(document), 5, mtime=0)
        self._curators[task] = curator
        while len(self._curators) > _CURATORS:
            self._curators.popitem(last=False)
        while sum(map(len, self._kept.values())) > _CACHE_BYTES and len(self._kept) > 1:
            self._kept.popitem(last=False)
