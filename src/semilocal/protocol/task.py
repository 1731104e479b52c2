"""The task: everything public about one collection, frozen, hashed, and what it promises.

A device pins the task's id (the SHA-256 of its canonical bytes) when it joins, so no parameter can change later.
Knows parameters and promises. Knows no state of a run.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar

import msgspec

from ..arrays import cut_repr, is_integer, is_number, plain, require, shown
from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.units import at_least, is_geographic, lengths_words, side_unit
from ..hierarchy import MAX_BITS, ROOT, AnyTree, BinaryTree, Hierarchy, Quadtree
from ..randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from ..randomizer.base import EPSILON_RANGE
from .promise import promise

Rule = Literal["cut", "all"]
T = TypeVar("T")

K, DELTA = 20, 1e-6  # what a task has unless it says otherwise
MAX_K = 2**20  # a device must be able to compute the crowd test of any task
MAX_ROUNDS = 1000
MAX_ANSWERS = 64
KEY_BYTES = 32
ID_BYTES = 32
_TICK_BITS = 20  # 2**20 slices per axis unless max_depth says otherwise
_MAX_LABEL = 64
_KILOMETRES = 0.01  # default resolution of a map: a phone does not know its position better than to about 10 metres
_encoder = msgspec.msgpack.Encoder()
_AN_ANSWER = 2.0  # up to this epsilon, few people at full epsilon tell more than many at a part of it


class Identified(msgspec.Struct, frozen=True, dict=True):
    """A value that everybody names by the hash of its bytes."""

    __repr__ = cut_repr

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return _encoder.encode(self)

    @cached_property  # of this object: equal values may differ in bytes, as 0.0 and -0.0 do
    def id(self) -> bytes:
        """SHA-256 of the canonical bytes (32 bytes)."""
        return hashlib.sha256(self.to_bytes()).digest()


def read_canonical(data: bytes, decoder: msgspec.msgpack.Decoder[T], name: str) -> T:
    """What a decoder makes of canonical bytes; anything else is refused with a reason."""
    try:
        message = decoder.decode(data)
    except (msgspec.DecodeError, InvalidInput, ValueError, RecursionError, OverflowError) as error:
        raise InvalidInput(f"not a {name}: {error}") from None
    if _encoder.encode(message) != data:
        raise InvalidInput(f"not the canonical bytes of a {name}")
    return message


def answers_inside(epsilon: float) -> int:
    """A: how many noisy answers of a person may concern its region, for a loss of epsilon in all (local.md 3)."""
    return max(1, math.floor(epsilon / _AN_ANSWER + 0.5))


class Task(Identified, frozen=True, kw_only=True, tag_field="type", tag="task", forbid_unknown_fields=True):
    """One collection: who is asked what, how noisily, when it goes on, and under which promise.

    Use :meth:`build` for our defaults, :meth:`paper` for the paper's algorithms to the letter.

    Attributes
    ----------
    hierarchy
        The public order of places: a tree whose cells are intervals of codes.
    randomizer
        How one answer is made noisy: with rule "cut" randomized response about two sides, with rule "all" about the
        children of a cell.
    rule : {"cut", "all"}
        What is asked next and when a region is split; see :mod:`semilocal.protocol.rule`.
    k : int
        The smallest crowd: participants in a region, each one included.
    delta : float
        The chance, for every participant, that a split puts it with fewer than k.
    answers : int
        The most answers of a participant about cuts inside its region; 1 with rule "all".
    max_rounds : int
        The most rounds of the partition; regions that are open then end.
    quorum : float
        Share of the reports expected in a round that closes it before its deadline.
    window : int
        Seconds that a round stays open.
    tolerate_liars : int
        Crowds keep k honest participants even if this many devices lie; randomized response only.
    server_key : bytes
        Ed25519 public key (32 bytes) that signs the transcript's checkpoints; empty: they are not signed.
    min_side : tuple of float
        Every region holds a whole cell whose sides are at least this long: one number per axis, or one for all, in
        units of the axes (kilometres where they are longitude and latitude; see :class:`Policy` for the sphere); empty
        for no limit.
    label : str
        At most 64 characters. It is part of the id, so that the same collection can be repeated under another label.
    chain : bytes
        End of the hash chain (32 bytes) whose preimages the server gives away round by round: its part of the draws.
        Empty in a simulation; devices refuse that with rule "cut".
    """

    hierarchy: AnyTree
    randomizer: RandomizedResponse | DiscreteLaplace | PaperLaplace
    rule: Rule
    k: int
    delta: float
    answers: int
    max_rounds: int
    quorum: float = 1.0
    window: int = 3600
    tolerate_liars: int = 0
    server_key: bytes = b""
    min_side: tuple[float, ...] = ()
    label: str = ""
    chain: bytes = b""

    def __post_init__(self) -> None:
        require(isinstance(self.hierarchy, Hierarchy), "hierarchy", "a tree such as BinaryTree", self.hierarchy)
        if getattr(self.hierarchy, "turn", 0):
            raise InvalidInput("hierarchy is a part of a larger tree (turn is not 0); give a tree over its own box")
        require(
            isinstance(self.randomizer, RandomizedResponse | DiscreteLaplace | PaperLaplace),
            "randomizer", "a RandomizedResponse, DiscreteLaplace or PaperLaplace", self.randomizer,
        )  # fmt: skip
        require(self.rule in ("cut", "all"), "rule", "'cut' or 'all'", self.rule)
        self._check_randomizer()
        for name, least, most, unit in (
            ("k", 1, MAX_K, ""), ("max_rounds", 1, MAX_ROUNDS, ""), ("window", 1, 10**8, ", in seconds"),
            ("tolerate_liars", 0, MAX_K, ""),
        ):  # fmt: skip
            whole = getattr(self, name)
            good = is_integer(whole) and least <= whole <= most
            require(good, name, f"an integer from {least} to {most}{unit}", whole)
        require(
            is_number(self.delta) and 1e-15 <= self.delta < 0.5, "delta", "a number from 1e-15 to below 0.5", self.delta
        )
        most = MAX_ANSWERS if self.rule == "cut" else 1
        allowed = f"an integer from 1 to {most}" if most > 1 else "1 with rule 'all'"
        require(is_integer(self.answers) and 1 <= self.answers <= most, "answers", allowed, self.answers)
        require(is_number(self.quorum) and 0 < self.quorum <= 1, "quorum", "a share above 0 and at most 1", self.quorum)
        liars = self.tolerate_liars
        if liars and not isinstance(self.randomizer, RandomizedResponse):
            raise InvalidInput(
                f"tolerate_liars is {liars}, but only in randomized response does a liar add at most one to a tally; "
                "use RandomizedResponse, or leave it at 0"
            )
        for name, size in (("server_key", KEY_BYTES), ("chain", ID_BYTES)):
            given = getattr(self, name)
            what = "an Ed25519 public key" if name == "server_key" else "the end of a hash chain"
            require(
                isinstance(given, bytes) and len(given) in (0, size), name, f"{what} of {size} bytes, or empty", given
            )
        require(
            isinstance(self.label, str) and len(self.label) <= _MAX_LABEL and self.label.isprintable(),
            "label", f"a text of at most {_MAX_LABEL} printable characters", self.label,
        )  # fmt: skip
        self._check_min_side()
        for name in ("delta", "quorum"):  # 1 and 1.0 must have the same bytes
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))

    def _check_randomizer(self) -> None:
        noise, tree = self.randomizer, self.hierarchy
        if self.rule == "cut":
            if not isinstance(noise, RandomizedResponse) or noise.fanout != 2:
                raise InvalidInput(
                    f"rule 'cut' asks for one of two sides: RandomizedResponse with fanout=2; got {noise!r}"
                )
            return
        if tree.fanout != noise.fanout:
            raise InvalidInput(
                f"the randomizer answers for {noise.fanout} children, but cells of the hierarchy have "
                f"{tree.fanout}; use a randomizer with fanout={tree.fanout}"
            )
        if not tree.has_one_fanout and not isinstance(noise, RandomizedResponse):
            raise InvalidInput(
                "the cells of this hierarchy have different numbers of children, which only RandomizedResponse answers "
                f"for; got {noise!r}"
            )

    def _check_min_side(self) -> None:
        least, box = self.min_side, self.box
        require(
            isinstance(least, tuple) and len(least) in (0, 1, box.dimensions)
            and all(is_number(side) and 0 < side < math.inf for side in least),
            "min_side", f"lengths above 0: one, or one for each of the {box.dimensions} axes; or empty", least,
        )  # fmt: skip
        msgspec.structs.force_setattr(self, "min_side", tuple(float(side) for side in least))
        length_words = f"{least[0]:g}" if len(least) == 1 else shown(least)
        lengths = self.hierarchy.sides(self.hierarchy.children([ROOT]))
        if not at_least(lengths, least).all():
            shortest = lengths_words(lengths.min(axis=0))
            raise InvalidInput(
                f"min_side is {length_words}, but the parts of {box} measure {shortest} {side_unit(box)}".rstrip()
                + ", so it could never be split; take a smaller resolution, or a larger box"
            )

    # -- constructors --------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        box: Box | None = None,
        *,
        epsilon: float,
        delta: float = DELTA,
        k: int = K,
        hierarchy: AnyTree | None = None,
        rule: Rule = "cut",
        tree: Literal["binary", "quad"] | None = None,
        max_depth: int | None = None,
        max_rounds: int | None = None,
        quorum: float = 1.0,
        window: int = 3600,
        tolerate_liars: int = 0,
        server_key: bytes = b"",
        chain: bytes = b"",
        resolution: float | Sequence[float] | None = None,
        label: str = "",
    ) -> Task:
        """A task with our defaults: the local protocol (rule "cut") with randomized response.

        Parameters
        ----------
        box : Box
            The public domain; it is halved into a binary tree, or a quadtree with ``tree="quad"``.
        hierarchy : Hierarchy, optional
            The public order of places, instead of ``box``, ``tree`` and ``max_depth``.
        epsilon : float
            Loss of the partition between any two positions inside a participant's region, both ways (delta = 0).
        delta : float
            Chance per participant that a split puts it with fewer than k; use below 1/N in a deployment.
        k : int
            The smallest crowd.
        rule, max_rounds, quorum, window, tolerate_liars, server_key, chain
            The attributes of the task.
        resolution : float or sequence of float, optional
            ``min_side``: every region holds a whole cell with sides at least this long, in units of the axes, or in
            kilometres where they are longitude and latitude; one number, or one per axis. 0 for no limit. Without it,
            0.01 km for longitude and latitude (no phone knows its position better), else no limit.
        label : str
            Makes another task of the same parameters, to repeat a collection.

        Examples
        --------
        >>> task = Task.build(Box((0, 0), (1, 1)), epsilon=4.0)
        >>> task.epsilon, task.answers, task.randomizer.epsilon, task.k, task.delta
        (4.0, 2, 2.0, 20, 1e-06)
        """
        epsilon, delta, k, max_depth, max_rounds = (
            plain(epsilon), plain(delta), plain(k), plain(max_depth), plain(max_rounds)
        )  # fmt: skip
        quorum, window, tolerate_liars = plain(quorum), plain(window), plain(tolerate_liars)
        if hierarchy is None:
            require(isinstance(box, Box), "box", "a semilocal.Box", box)
            assert box is not None
            require(tree in (None, "binary", "quad"), "tree", "'binary' or 'quad'", tree)
            per_level = box.dimensions if tree == "quad" else 1
            if max_depth is None:  # as many bits on every axis
                max_depth = min(_TICK_BITS, MAX_BITS // box.dimensions) * box.dimensions // per_level
            hierarchy = Quadtree(box, max_depth) if tree == "quad" else BinaryTree(box, max_depth)
        else:
            check_alone(hierarchy, box=box, tree=tree, max_depth=max_depth)
        require(rule in ("cut", "all"), "rule", "'cut' or 'all'", rule)
        least, most = EPSILON_RANGE[0], _AN_ANSWER * MAX_ANSWERS if rule == "cut" else EPSILON_RANGE[1]
        given = is_number(epsilon) and least <= epsilon <= most
        require(given, "epsilon", f"a number from {least} to {most:g}", epsilon)
        answers = answers_inside(float(epsilon)) if rule == "cut" else 1
        if resolution is None:
            resolution = (_KILOMETRES,) if is_geographic(hierarchy.box) else ()
        elif not isinstance(resolution, Sequence):
            fits = is_number(resolution) and 0 <= resolution < math.inf
            require(fits, "resolution", "a length of at least 0", resolution)
            resolution = (float(resolution),) if resolution else ()
        noise = RandomizedResponse(float(epsilon) / answers, 2 if rule == "cut" else hierarchy.fanout)
        return cls(
            hierarchy=hierarchy, randomizer=noise, rule=rule, k=k, delta=delta, answers=answers, quorum=quorum,
            window=window, max_rounds=MAX_ROUNDS if max_rounds is None else max_rounds, tolerate_liars=tolerate_liars,
            server_key=server_key, min_side=tuple(resolution), label=label, chain=chain,
        )  # fmt: skip

    @classmethod
    def paper(cls, box: Box, *, epsilon: float, delta: float, k: int, max_depth: int | None = None) -> Task:
        """The paper's Algorithms 1 and 2 to the letter: quadtree, Lap(1/epsilon), rule "all", printed margin.

        ``epsilon`` is the paper's; the true loss of a report, and so ``task.epsilon``, is twice that.
        """
        require(isinstance(box, Box), "box", "a semilocal.Box", box)
        require(is_number(epsilon) and 0 < epsilon < math.inf, "epsilon", "a positive number", epsilon)
        depth = min(_TICK_BITS, MAX_BITS // box.dimensions) if max_depth is None else max_depth
        tree = Quadtree(box, depth)
        noise = PaperLaplace(1.0 / epsilon, tree.fanout, "paper")
        return cls(hierarchy=tree, randomizer=noise, rule="all", k=k, delta=delta, answers=1, max_rounds=MAX_ROUNDS)

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def box(self) -> Box:
        """The domain."""
        return self.hierarchy.box

    @property
    def crowd(self) -> int:
        """The crowd that a split must prove: k, and the liars that are tolerated."""
        return self.k + self.tolerate_liars

    # -- what it promises ----------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """Loss between any two positions inside a region, both ways: that of ``answers`` answers (delta = 0)."""
        return self.answers * self.randomizer.epsilon

    @property
    def truth(self) -> float:
        """p: the chance that an answer about one cut tells the true side; q = 1 - p. Rule "cut" only."""
        assert isinstance(self.randomizer, RandomizedResponse)
        return self.randomizer.probabilities[0]

    @property
    def keeps_crowd(self) -> bool:
        """Whether a crowd of k is promised at all, with probability 1 - delta."""
        return not (isinstance(self.randomizer, PaperLaplace) and self.randomizer.margin == "paper")

    def statement(self) -> str:
        """The promise in plain words: what is protected, against whom, with which numbers, what is revealed."""
        return promise(self).explain()


def check_alone(hierarchy: Any, **given: Any) -> None:
    """Refuse what is not a hierarchy, and options that say the same as a hierarchy."""
    require(isinstance(hierarchy, Hierarchy), "hierarchy", "a tree such as BinaryTree or SphereTree", hierarchy)
    wrong = [name for name, value in given.items() if value is not None and value != hierarchy.box]
    if wrong:
        raise InvalidInput(f"{', '.join(wrong)}: the hierarchy says it already; leave it out")
