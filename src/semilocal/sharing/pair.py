"""The public task of two servers: what is counted, and who the two operators are.

Experimental: nobody independent has reviewed this mode yet. Everything that a device must know before it uploads is
here, and its SHA-256 is the pair's id: it names the routes, binds the envelopes and fixes the keys of the point
function. A device refuses a pair whose operators are the same by name, key or origin.

Knows parameters and the promise. Knows no server, clock or file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from ..errors import InvalidInput
from ..hierarchy import ROOT, BinaryTree, TableTree
from ..hierarchy.base import Cells
from ..pooled.asked import AskedValue
from ..pooled.task import PooledTask, guarantee, presence_note
from ..protocol.promise import EITHER, Guarantee
from ..protocol.task import Identified, read_canonical
from ..words import check_name
from .report import Shape
from .sealing import KEY, Role

MAX_NAME = 200
MAX_BUCKET_DEPTH = 16
NEVER = 2.0**53  # a threshold that no number of reports reaches
EXPERIMENTAL = "Experimental: nobody independent has reviewed the two-servers mode yet."
COLLUSION = "If both operators collude they have every position, to the resolution of the upload."
_ORIGIN = re.compile(r"(https?)://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:([1-9][0-9]{0,4}))?")
_USUAL_PORT = {"http": "80", "https": "443"}


class Operator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the two servers, as devices know it."""

    name: str  # of the person or organisation that runs the server; 1 to 200 printable characters
    origin: str  # scheme, host and port, such as ``https://counts.example``
    signing_key: bytes  # Ed25519: signs receipts, transcripts and what the servers send each other
    sealing_key: bytes  # X25519: envelopes are sealed with it. For one task; its secret is deleted when the task ends

    def __post_init__(self) -> None:
        check_name(self.name, "an operator's name", most=MAX_NAME)
        if self.name != self.name.strip():
            raise InvalidInput(f"an operator's name must not begin or end with a space; got {self.name!r}")
        check_origin(self.origin)
        for word, key in (("signing", self.signing_key), ("sealing", self.sealing_key)):
            if len(key) != KEY:
                raise InvalidInput(f"a {word} key has {KEY} bytes; got {len(key)}")


def check_origin(origin: str) -> None:
    """Refuse what is not ``http(s)://host`` or ``http(s)://host:port`` in its one canonical spelling."""
    found = _ORIGIN.fullmatch(origin)
    if found is None or found[5] == _USUAL_PORT[found[1]] or int(found[5] or 1) > 65535:
        raise InvalidInput(
            "an origin is scheme://host or scheme://host:port, in lower case, without a path and without the scheme's "
            f"usual port; got {origin!r}"
        )


class PairTask(Identified, frozen=True, tag_field="type", tag="pair-task-2", forbid_unknown_fields=True):
    """One collection with two servers.

    With a mean per cell the map costs ``pooled.epsilon`` and the sums as much again. With one mean over all there is no
    map: ``pooled.epsilon`` is for that sum, and no place is sent.
    """

    pooled: PooledTask  # what is counted and what it costs; its trust is "two-servers"
    leader: Operator  # server 0
    helper: Operator  # server 1; they must differ in name, keys and origin
    # Above 0 every device names its cell of this depth, its *bucket*, in the open, and the promise holds inside it only
    bucket_depth: int = 0
    value: AskedValue | msgspec.UnsetType = msgspec.UNSET  # tasks without a value do not name it

    def __post_init__(self) -> None:
        tree = self.pooled.hierarchy
        if isinstance(tree, TableTree):
            raise InvalidInput(
                f"two servers count along paths of bits, and the table {tree.name!r} has none; take a box or the "
                "sphere, or trust a curator"
            )
        if self.bucket_depth and not isinstance(tree, BinaryTree):
            raise InvalidInput("public buckets are boxes: bucket_depth must be 0 for a sphere")
        if self.pooled.trust != "two-servers":
            raise InvalidInput(f"a pair plays tasks with trust 'two-servers'; got {self.pooled.trust!r}")
        _check_different(self.leader, self.helper)
        dimensions, depth = self.pooled.box.dimensions, self.pooled.hierarchy.max_depth
        most = min(MAX_BUCKET_DEPTH, depth - 1)
        if not 0 <= self.bucket_depth <= most or self.bucket_depth % dimensions:
            raise InvalidInput(
                f"bucket_depth must be 0, or a multiple of the {dimensions} dimensions up to {most}; "
                f"got {self.bucket_depth}"
            )
        if self.asked is not None:
            if self.bucket_depth:
                raise InvalidInput("a task with a value has no public buckets; set bucket_depth to 0")
            self.asked.check(self.pooled.box)

    @classmethod
    def from_bytes(cls, data: bytes) -> PairTask:
        """The pair that these canonical bytes stand for; refuses all others."""
        return read_canonical(data, msgspec.msgpack.Decoder(cls), "pair task")

    @property
    def asked(self) -> AskedValue | None:
        """The value that is asked beside the place; None if the task counts only."""
        return None if isinstance(self.value, msgspec.UnsetType) else self.value

    @property
    def maps(self) -> bool:
        """Whether places are sent and a map is made; not for a mean over all."""
        return self.asked is None or self.asked.per_cell

    @property
    def needs_place(self) -> bool:
        """Whether a device needs to know where its owner is; not for a mean over all of people's own values."""
        return self.maps or not (self.asked is not None and self.asked.own)

    @property
    def epsilon(self) -> float:
        """What one upload loses, all published numbers together (pure)."""
        return self.pooled.epsilon * (2 if self.asked is not None and self.asked.per_cell else 1)

    @property
    def shape(self) -> Shape:
        """Sizes of all reports: the levels below a bucket; one level that says nothing if no place is sent."""
        levels = self.pooled.hierarchy.max_depth - self.bucket_depth if self.maps else 1
        return Shape(levels, 0 if self.asked is None else self.asked.bits)

    def operator(self, role: Role) -> Operator:
        """The leader or the helper."""
        return self.leader if role == "leader" else self.helper

    def place(self, code: int) -> tuple[int, tuple[int, ...]]:
        """Bucket and path of a deepest cell, as a device sends them: ``shape.levels`` steps 0 or 1."""
        if not self.maps:
            return int(ROOT), (0,)
        tree, cells = self.pooled.hierarchy, np.array([code], dtype=np.uint64)
        below = range(self.bucket_depth + 1, tree.max_depth + 1)
        path = (int(tree.number(tree.ancestors(cells, depth))[0]) for depth in below)
        return int(tree.ancestors(cells, self.bucket_depth)[0]), tuple(path)

    def unnamed_buckets(self, named: Iterable[int]) -> Cells:
        """The other buckets, ascending: uint64[b]. Each of them is a cell of the map, with nobody in it."""
        every = range(1 << self.bucket_depth, 2 << self.bucket_depth)
        return np.array(sorted(set(every) - set(named)), dtype=np.uint64)

    def check_bucket(self, bucket: int) -> None:
        """Refuse a number that is not a bucket of this pair; without buckets it must be 1, the root."""
        if bucket >> self.bucket_depth != int(ROOT):
            raise InvalidInput(f"a bucket is a cell of depth {self.bucket_depth}; got {bucket}")

    def tree_task(self, bucket: int) -> PooledTask:
        """The task that is played in a bucket, with the bucket as its domain; without buckets, ``pooled`` itself.

        Without a map the tree has one cell, which is never opened.
        """
        self.check_bucket(bucket)
        if not self.maps:
            one_cell: dict[str, Any] = {"hierarchy": BinaryTree(self.pooled.box, 1), "threshold": NEVER}
            return msgspec.structs.replace(self.pooled, **one_cell)
        if not self.bucket_depth:
            return self.pooled
        whole = self.pooled.hierarchy
        assert isinstance(whole, BinaryTree)
        changed: dict[str, Any] = {"hierarchy": whole.below(bucket)}
        return msgspec.structs.replace(self.pooled, **changed)

    @property
    def loss_words(self) -> str:
        """What one upload costs, with its adjacency and delta."""
        words = f"epsilon = {self.epsilon:g} (delta = 0) between {self.promise().between}"
        return f"{words} (nothing is promised between buckets)" if self.bucket_depth else words

    @property
    def cost_words(self) -> str:
        """What one upload costs, and against whom that holds."""
        return f"{self.loss_words}, against everyone who sees the result {EITHER}"

    def device_words(self) -> dict[str, str]:
        """All that a page which plays a device says of the promise, in lines: before the upload, and after it."""
        shares = "It leaves in two shares only; each alone is random."
        before = [
            self.promise().in_words(),
            f"What it costs you: {self.cost_words}.",
            f"Known to {self.leader.name}: that a device at your network address uploaded.",
            self.statement(),
        ]
        return {"before": "\n".join(before), "position": shares, "value": shares, "spent": "\n".join(self.spent_lines)}

    @property
    def spent_lines(self) -> list[str]:
        """What an upload cost its owner."""
        return [f"What you spent: {self.cost_words}.", self.collusion, EXPERIMENTAL]

    @property
    def operators(self) -> list[dict[str, str]]:
        """Both operators, ready for JSON."""
        return [
            {"role": role, "name": operator.name, "origin": operator.origin, "key": operator.signing_key.hex()}
            for role, operator in (("leader", self.leader), ("helper", self.helper))
        ]

    def promise(self) -> Guarantee:
        """The promise as a value."""
        asked = self.asked
        if asked is not None:
            own, releases = asked.words if asked.own else "", ((asked.what, self.pooled.epsilon),)
            if asked.per_cell:
                return msgspec.structs.replace(guarantee(self.pooled, releases=releases), own=own)
            rows = self.pooled.max_reports
            notes = (presence_note(self.epsilon / 2),)
            return Guarantee.plain("two-servers", self.epsilon, releases=releases, rows=rows, own=own, notes=notes)
        found = guarantee(self.pooled, area="bucket" if self.bucket_depth else "domain")
        if not self.bucket_depth:
            return found
        about = (
            f"Domain: {self.pooled.box}, in {1 << self.bucket_depth} public buckets. Counts of a public tree of cells "
            f"in every bucket, at most {self.shape.levels} levels."
        )
        notes = (
            "Everybody learns the bucket of every upload; nothing is promised between buckets. "
            + presence_note(self.pooled.path_budget, "the number of reports in each bucket"),
        )
        return msgspec.structs.replace(found, adjacency="bucket", anywhere=None, about=about, notes=notes)

    def statement(self, promise: Guarantee | None = None) -> str:
        """What everybody should read before uploading; with the promise of a finished run in place of the task's."""
        lines = [self.collusion, EXPERIMENTAL]
        for role, operator in (("Leader", self.leader), ("Helper", self.helper)):
            lines.append(f"{role}: {operator.name} at {operator.origin}, key {operator.signing_key.hex()}")
        lines.append((promise or self.promise()).explain())
        if self.maps:
            lines.append(
                "Places that the map divides late cost less than epsilon: as large a share of it as was left of the "
                "budget in the smallest cell that holds both. Nobody's final cell is known."
            )
        elif self.asked is not None and not self.asked.own:
            lines.append(f"Of a place only {self.asked.name} is sent, in shares; no map is made.")
        else:
            lines.append("No place is sent, and nothing about places is published.")
        lines.append(
            "Who uploaded is known to the leader, and how many to everybody. A malicious operator can spoil the "
            "result; alone it cannot break the promise."
        )
        return "\n".join(lines)

    @property
    def collusion(self) -> str:
        """What both operators have if they work together."""
        if self.asked is None:
            return COLLUSION
        if not self.maps:
            return f"If both operators collude they have everybody's value ({self.asked.name}, to its grid)."
        return COLLUSION.removesuffix(".") + f", and everybody's value ({self.asked.name}, to its grid)."


def _check_different(leader: Operator, helper: Operator) -> None:
    for word, same in (
        ("name", leader.name.casefold() == helper.name.casefold()),
        ("signing key", leader.signing_key == helper.signing_key),
        ("sealing key", leader.sealing_key == helper.sealing_key),
        ("origin", leader.origin == helper.origin),
    ):
        if same:
            raise InvalidInput(
                f"the two operators have the same {word}; the promise needs two operators who do not work together"
            )


# msgspec builds what it knows of a type at its first use, and two threads that do so at once crash: do it here.
msgspec.msgpack.Decoder(PairTask)
