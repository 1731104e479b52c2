"""What the page shows of a campaign, as JSON: its overview, and the cells that each closed round left.

Everything is a function of the task and of closed rounds. Knows a store. Knows no HTTP.
"""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from typing import Any

import msgspec

from ..errors import InvalidInput
from ..io.map_rows import domain_json, partition_rows, round_rows
from ..protocol.curator import Curator
from ..protocol.messages import ValueClosed, decode_closed
from ..protocol.partition import UNPROTECTED
from ..protocol.promise import promise
from ..release.pair_counts import PairResult
from ..service.campaign import Campaign
from ..service.pair.live import LivePair
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
    }  # fmt: skip


def pair_overview(live: LivePair) -> dict[str, Any]:
    """What is fixed about a task of two servers: domain, promise and both operators."""
    pair, row = live.pair, live.row
    return {
        "task": live.task.hex(), "name": row.name, "trust": "two-servers", "domain": domain_json(pair.pooled.box),
        "enrolment": row.enrolment, "capacity": row.capacity, "role": live.role,
        "notes": [EXPERIMENTAL, live.pair.collusion],
        "operators": pair.operators,
        "public": "", "promise": pair.promise().to_json(),
    }  # fmt: skip


def pair_document(counts: PairResult) -> dict[str, Any]:
    """The final cells of two servers, as the only round of a map."""
    box = counts.partition.task.box
    rows = partition_rows(counts.partition).to_json(counts.partition.task.hierarchy) if box.dimensions <= 2 else None
    privacy = counts.guarantee.to_json()
    return {"round": 1, "kind": "cells", "received": counts.total, "expected": None, "rows": rows, "privacy": privacy}


def round_document(curator: Curator, number: int) -> dict[str, Any]:
    """The cells that a closed round of the partition left, and how many answered."""
    played = curator.rounds[number - 1]
    expected = None
    if number > 1:
        before = curator.rounds[number - 2]
        expected = int(before.responders[before.kept.any(axis=1)].sum())
    document = {"round": number, "kind": "cells", "received": int(played.responders.sum()), "expected": expected}
    if curator.task.box.dimensions > 2:
        return document | {"rows": None, "cells": len(played.cells)}
    return document | {"rows": round_rows(curator.task, played).to_json(curator.task.hierarchy)}


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

    def read(self, task: bytes, number: int, closed: int) -> bytes:
        """The document of a closed round, as gzipped JSON.

        Parameters
        ----------
        task : bytes
        number, closed : int
            The round, and how many are closed; the round is one of them.
        """
        with self._lock:  # one reader computes, the others wait for it
            key = (task, number)
            if key not in self._kept:
                document = self._build(task, number, closed)
                self._kept[key] = gzip.compress(msgspec.json.encode(document), 5, mtime=0)
                while sum(map(len, self._kept.values())) > _CACHE_BYTES and len(self._kept) > 1:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def _build(self, task: bytes, number: int, closed: int) -> dict[str, Any]:
        curator = self._curators.get(task)
        if curator is None or curator.round <= number:
            campaign = self._store.campaign(task)
            if campaign is None:
                raise InvalidInput("there is no campaign with this task")
            curator = self._curators[task] = catch_up(self._store, campaign, closed, curator)
            while len(self._curators) > _CURATORS:
                self._curators.popitem(last=False)
        self._curators.move_to_end(task)
        if number <= len(curator.rounds):
            return round_document(curator, number)
        message = decode_closed(self._store.message(task, number, "closed") or b"")
        assert isinstance(message, ValueClosed)
        release = curator.plan.releases[message.index]
        return {
            "round": number, "kind": "values", "what": release.what, "received": sum(message.responders),
            "expected": int(curator.regions.crowds.sum()) if curator.task.tells_crowds else None, "rows": None,
        }  # fmt: skip
