"""The task: everything public about one collection, frozen, hashed, and what it promises.

A device pins the task's id (the SHA-256 of its canonical bytes) when it joins, so no parameter can change later.
Knows parameters and promises. Knows no state of a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ..arrays import is_integer, is_number, plain, require, shown
from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.sides import at_least, is_geographic, lengths_words, side_unit
from ..hierarchy import MAX_BITS, ROOT, AnyTree, BinaryTree, Hierarchy, Quadtree
from ..randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from ..randomizer.base import check_epsilon
from .canonical import Identified
from .promise import promise

__all__ = ["ID_BYTES", "KEY_BYTES", "MAX_TRIMS", "Accounting", "Rule", "Task", "check_alone"]

Rule = Literal["all", "trim", "each"]
Accounting = Literal["core", "uniform"]

MAX_K = 2**20  # a device must be able to compute the crowd test of any task
KEY_BYTES = 32
ID_BYTES = 32
_TICK_BITS = 20  # 2**20 slices per axis unless max_depth says otherwise
_MAX_LABEL = 64
_KILOMETRES = 0.01  # default resolution of a map: a phone does not know its position better than to about 10 metres
MAX_TRIMS = {"core": 16, "uniform": 3}
MAX_VISITORS = 0.5  # no region is mostly visitors


class Task(Identified, frozen=True, kw_only=True, tag_field="type", tag="task", forbid_unknown_fields=True):
    """One collection: who is asked what, how noisily, when it goes on, and under which promise.

    Use :meth:`build` for our defaults, :meth:`paper` for the paper's algorithms to the letter, :meth:`published` for
    what its authors' code does.

    Attributes
    ----------
    hierarchy, randomizer
        The public tree and the local randomizer; their fanouts agree.
    rule : {"all", "trim", "each"}
        When a cell is split; see :mod:`semilocal.protocol.rule`.
    k : int
        The smallest crowd: participants who are published in a region, each one included.
    delta : float
        The chance, for every participant, that fewer than k are published in their region.
    max_trims : int
        The most TRIM verdicts on any path; 0 unless the rule is "trim".
    tau : float
        A group of children may be trimmed when it holds at most this share of the responders.
    accounting : {"core", "uniform"}
        What the ``epsilon`` of :meth:`build` was given for: two positions inside a region ("core"), or a moved position
        against any position inside ("uniform").
    max_rounds : int
        The most rounds that ask for children; a roll call may follow.
    quorum : float
        Share of the enrolled participants whose reports close a round before its deadline.
    window : int
        Seconds that a round stays open.
    size_from : {"responders", "estimate"}
        What the margin of the crowd test takes as the cell's size; "estimate" only for the published code's rule.
    tolerate_liars : int
        Crowds keep k honest participants even if this many devices lie; randomized response only.
    server_key : bytes
        Ed25519 public key (32 bytes) that signs the transcript's checkpoints; empty: they are not signed.
    min_side : tuple of float
        No region gets a side shorter than this: one number per axis, or one for all, in units of the axes (kilometres
        where they are longitude and latitude; see :class:`Policy` for the sphere); empty for no limit. Not with rule
        "each".
    label : str
        At most 64 characters. It is part of the id, so that the same collection can be repeated under another label.
    max_visitors : float
        The largest share of a region's crowd that may, by what is public, be people who were moved there; 1.0 for no
        limit, which it is unless the rule is "trim". See :mod:`semilocal.protocol.rule`.
    """

    hierarchy: AnyTree
    randomizer: RandomizedResponse | DiscreteLaplace | PaperLaplace
    rule: Rule
    k: int
    delta: float
    max_trims: int
    tau: float
    accounting: Accounting
    max_rounds: int
    quorum: float = 1.0
    window: int = 3600
    size_from: Literal["responders", "estimate"] = "responders"
    tolerate_liars: int = 0
    server_key: bytes = b""
    min_side: tuple[float, ...] = ()
    label: str = ""
    max_visitors: float = 1.0

    def __post_init__(self) -> None:
        require(isinstance(self.hierarchy, Hierarchy), "hierarchy", "a tree such as BinaryTree", self.hierarchy)
        require(
            isinstance(self.randomizer, RandomizedResponse | DiscreteLaplace | PaperLaplace),
            "randomizer", "a RandomizedResponse, DiscreteLaplace or PaperLaplace", self.randomizer,
        )  # fmt: skip
        if self.hierarchy.fanout != self.randomizer.fanout:
            raise InvalidInput(
                f"the randomizer answers for {self.randomizer.fanout} children, but cells of the hierarchy have "
                f"{self.hierarchy.fanout}; use a randomizer with fanout={self.hierarchy.fanout}"
            )
        if not self.hierarchy.has_one_fanout and not isinstance(self.randomizer, RandomizedResponse):
            raise InvalidInput(
                "the cells of this hierarchy have different numbers of children, which only RandomizedResponse answers "
                f"for; got {self.randomizer!r}"
            )
        require(self.rule in ("all", "trim", "each"), "rule", "'all', 'trim' or 'each'", self.rule)
        require(self.accounting in ("core", "uniform"), "accounting", "'core' or 'uniform'", self.accounting)
        require(is_integer(self.k) and 1 <= self.k <= MAX_K, "k", f"an integer from 1 to {MAX_K}", self.k)
        require(
            is_number(self.delta) and 1e-15 <= self.delta < 0.5,
            "delta",
            "a number from 1e-15 to below 0.5",
            self.delta,
        )
        require(
            is_integer(self.max_trims) and 0 <= self.max_trims <= 255,
            "max_trims",
            "an integer from 0 to 255",
            self.max_trims,
        )
        require(is_number(self.tau) and 0 < self.tau < 0.5, "tau", "a share above 0 and below 0.5", self.tau)
        depth = self.hierarchy.max_depth
        require(
            is_integer(self.max_rounds) and 1 <= self.max_rounds <= depth,
            "max_rounds", f"an integer from 1 to the hierarchy's max_depth {depth}", self.max_rounds,
        )  # fmt: skip
        require(is_number(self.quorum) and 0 < self.quorum <= 1, "quorum", "a share above 0 and at most 1", self.quorum)
        require(
            is_integer(self.window) and 1 <= self.window <= 10**8,
            "window",
            "an integer from 1 to 100000000, in seconds",
            self.window,
        )
        require(self.size_from in ("responders", "estimate"), "size_from", "'responders' or 'estimate'", self.size_from)
        liars = self.tolerate_liars
        require(is_integer(liars) and 0 <= liars < 2**31, "tolerate_liars", "an integer of at least 0", liars)
        if liars and not isinstance(self.randomizer, RandomizedResponse):
            raise InvalidInput(
                f"tolerate_liars is {liars}, but only in randomized response does a liar add at most one to a tally; "
                "use RandomizedResponse, or leave it at 0"
            )
        require(
            isinstance(self.server_key, bytes) and len(self.server_key) in (0, KEY_BYTES),
            "server_key", f"an Ed25519 public key of {KEY_BYTES} bytes, or empty", self.server_key,
        )  # fmt: skip
        require(
            isinstance(self.label, str) and len(self.label) <= _MAX_LABEL and self.label.isprintable(),
            "label", f"a text of at most {_MAX_LABEL} printable characters", self.label,
        )  # fmt: skip
        require(
            is_number(self.max_visitors) and 0 < self.max_visitors <= 1,
            "max_visitors", "a share above 0 and at most 1", self.max_visitors,
        )  # fmt: skip
        self._check_min_side()
        for name in ("delta", "tau", "quorum", "max_visitors"):  # 1 and 1.0 must have the same bytes
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))
        if self.rule != "trim" and self.max_trims:
            raise InvalidInput(f"max_trims is {self.max_trims}, but rule {self.rule!r} never trims; leave it at 0")
        if self.rule != "trim" and self.max_visitors != 1:
            raise InvalidInput(
                f"max_visitors is {self.max_visitors}, but rule {self.rule!r} moves nobody; leave it at 1.0"
            )
        paper_margin = isinstance(self.randomizer, PaperLaplace) and self.randomizer.margin == "paper"
        if self.size_from == "estimate" and not (self.rule == "each" and paper_margin):
            raise InvalidInput(
                "size_from='estimate' is what the published code does; it needs rule='each' and "
                "PaperLaplace(margin='paper')"
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
        if least and self.rule == "each":
            raise InvalidInput(
                f"min_side is {length_words}, but with rule 'each' every failing child is a region at once, however "
                "small; leave min_side empty"
            )
        lengths = self.hierarchy.sides(self.hierarchy.children([ROOT]))
        if not at_least(lengths, least).all():
            found = lengths_words(lengths.min(axis=0))
            raise InvalidInput(
                f"min_side is {length_words}, but the parts of {box} measure {found} {side_unit(box)}".rstrip()
                + ", so it could never be split; take a smaller resolution, or a larger box"
            )

    # -- constructors --------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        box: Box | None = None,
        *,
        epsilon: float,
        delta: float,
        k: int,
        hierarchy: AnyTree | None = None,
        rule: Rule = "trim",
        accounting: Accounting = "core",
        max_trims: int | None = None,
        tau: float = 0.2,
        max_visitors: float | None = None,
        tree: Literal["binary", "quad"] | None = None,
        randomizer: Literal["randomized-response", "discrete-laplace"] = "randomized-response",
        max_depth: int | None = None,
        max_rounds: int | None = None,
        quorum: float = 1.0,
        window: int = 3600,
        tolerate_liars: int = 0,
        server_key: bytes = b"",
        resolution: float | Sequence[float] | None = None,
        label: str = "",
    ) -> Task:
        """A task with our defaults: binary splits, randomized response, rule "trim", accounting "core".

        Parameters
        ----------
        box : Box
            The public domain; it is halved into a binary tree, or a quadtree with ``tree="quad"``.
        hierarchy : Hierarchy, optional
            The public tree, instead of ``box``, ``tree`` and ``max_depth``.
        epsilon : float
            Loss of the partition alone: between two positions inside a region (accounting "core"), or of a moved
            position against any position inside (accounting "uniform": one report costs epsilon / (1 + max_trims)).
        delta : float
            Chance per participant of a crowd below k; use well below 1/N in a deployment.
        k : int
            The smallest crowd.
        rule, accounting, max_trims, tau, max_rounds, quorum, window, tolerate_liars, server_key
            The attributes of the task. Without them, the rounds end with the tree, and there are at most 16 TRIMs on a
            path, or 3 with accounting "uniform".
        max_visitors : float, optional
            The largest share of a region's crowd that may be people who were moved there, by what is public and with
            its errors allowed for. Without it, 0.5 with rule "trim": no region is refined for visitors. 1.0 for no
            limit.
        resolution : float or sequence of float, optional
            ``min_side``: no region gets a side shorter than this, in units of the axes, or in kilometres where they are
            longitude and latitude; one number, or one per axis. 0 for no limit. Without it, 0.01 km for longitude and
            latitude (no phone knows its position better), else no limit.
        label : str
            Makes another task of the same parameters, to repeat a collection.

        Examples
        --------
        >>> task = Task.build(Box((0, 0), (1, 1)), epsilon=1.0, delta=1e-6, k=50)
        >>> task.epsilon, task.epsilon_worst
        (1.0, 17.0)
        """
        epsilon, delta, tau, max_visitors = plain(epsilon), plain(delta), plain(tau), plain(max_visitors)
        k, max_trims, max_depth, max_rounds = plain(k), plain(max_trims), plain(max_depth), plain(max_rounds)
        quorum, window, tolerate_liars = plain(quorum), plain(window), plain(tolerate_liars)
        if hierarchy is None:
            require(isinstance(box, Box), "box", "a semilocal.Box", box)
            assert box is not None
            hierarchy = _tree_for(box, "binary" if tree is None else tree, max_depth)
        else:
            check_alone(hierarchy, box=box, tree=tree, max_depth=max_depth)
        if max_trims is None:
            max_trims = MAX_TRIMS.get(accounting, 0) if rule == "trim" else 0
        if max_visitors is None:
            max_visitors = MAX_VISITORS if rule == "trim" else 1.0
        require(randomizer in ("randomized-response", "discrete-laplace"), "randomizer",
               "'randomized-response' or 'discrete-laplace'", randomizer)  # fmt: skip
        require(is_number(epsilon) and math.isfinite(epsilon), "epsilon", "a number", epsilon)
        require(is_integer(max_trims) and max_trims >= 0, "max_trims", "an integer of at least 0", max_trims)
        reports = 1 + max_trims if accounting == "uniform" else 1
        check_epsilon(float(epsilon), reports=reports)
        round_epsilon = float(epsilon) / reports
        noise = (
            RandomizedResponse(round_epsilon, hierarchy.fanout)
            if randomizer == "randomized-response"
            else DiscreteLaplace(round_epsilon, hierarchy.fanout)
        )
        return cls(
            hierarchy=hierarchy, randomizer=noise, rule=rule, k=k, delta=delta,
            max_trims=max_trims, tau=tau, accounting=accounting, quorum=quorum, window=window,
            max_rounds=hierarchy.max_depth if max_rounds is None else max_rounds, tolerate_liars=tolerate_liars,
            server_key=server_key, min_side=_min_side(hierarchy.box, rule, resolution), label=label,
            max_visitors=max_visitors,
        )  # fmt: skip

    @classmethod
    def paper(cls, box: Box, *, epsilon: float, delta: float, k: int, max_depth: int | None = None) -> Task:
        """The paper's Algorithms 1 and 2 to the letter: quadtree, Lap(1/epsilon), rule "all", printed margin.

        ``epsilon`` is the paper's; the true loss of a report, and so ``task.epsilon``, is twice that.
        """
        return cls._papers(box, epsilon, delta, k, max_depth, rule="all", size_from="responders")

    @classmethod
    def published(cls, box: Box, *, epsilon: float, delta: float, k: int, max_depth: int | None = None) -> Task:
        """What the authors' published code does: as :meth:`paper`, but rule "each" and estimated sizes in the margin.

        It keeps no crowd: a region may hold fewer than k participants, even one.
        """
        return cls._papers(box, epsilon, delta, k, max_depth, rule="each", size_from="estimate")

    @classmethod
    def _papers(
        cls, box: Box, epsilon: float, delta: float, k: int, max_depth: int | None, *, rule: Rule,
        size_from: Literal["responders", "estimate"],
    ) -> Task:  # fmt: skip
        require(isinstance(box, Box), "box", "a semilocal.Box", box)
        require(is_number(epsilon) and 0 < epsilon < math.inf, "epsilon", "a positive number", epsilon)
        depth = min(_TICK_BITS, MAX_BITS // box.dimensions) if max_depth is None else max_depth
        tree = Quadtree(box, depth)
        noise = PaperLaplace(1.0 / epsilon, tree.fanout, "paper")
        return cls(
            hierarchy=tree, randomizer=noise, rule=rule, k=k, delta=delta, max_trims=0, tau=0.2, accounting="core",
            max_rounds=depth, size_from=size_from,
        )  # fmt: skip

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def box(self) -> Box:
        """The domain."""
        return self.hierarchy.box

    # -- what it promises ----------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """Loss between any two positions inside a region: one report's (delta 0)."""
        return self.randomizer.epsilon

    @property
    def epsilon_worst(self) -> float:
        """Bound on the loss of a moved position against any inside its region: (1 + max_trims) reports (delta 0)."""
        return (1 + self.max_trims) * self.randomizer.epsilon

    @property
    def delta_test(self) -> float:
        """Chance that one crowd test lets a child with fewer than k responders pass.

        Small enough that all tests on a path together err with probability at most ``delta``: at most
        1 + ``max_trims`` rounds of a path can hold a mistake, and with more than two children a TRIM can keep any of
        them by mistake.
        """
        children = self.hierarchy.fanout if self.max_trims and self.hierarchy.fanout > 2 else 1
        return self.delta / ((1 + self.max_trims) * children)

    @property
    def keeps_crowd(self) -> bool:
        """Whether a crowd of k is promised at all, with probability 1 - delta."""
        margin_holds = not (isinstance(self.randomizer, PaperLaplace) and self.randomizer.margin == "paper")
        return self.rule != "each" and margin_holds

    @property
    def tells_crowds(self) -> bool:
        """Whether the rounds of the partition tell how many people are in every region.

        With rule "each" they do not: nobody answers for a part that is left behind. Where a cell leaves several of them
        behind, only the sum follows, whatever the number of its children.
        """
        return self.rule != "each"

    def statement(self) -> str:
        """The promise in plain words: what is protected, against whom, with which numbers, what is revealed."""
        return promise(self).text()


def check_alone(hierarchy: Any, **given: Any) -> None:
    """Refuse what is not a hierarchy, and options that say the same as a hierarchy."""
    require(isinstance(hierarchy, Hierarchy), "hierarchy", "a tree such as BinaryTree or SphereTree", hierarchy)
    wrong = [name for name, value in given.items() if value is not None and value != hierarchy.box]
    if wrong:
        raise InvalidInput(f"{', '.join(wrong)}: the hierarchy says it already; leave it out")


def _tree_for(box: Box, tree: str, max_depth: int | None) -> BinaryTree | Quadtree:
    require(tree in ("binary", "quad"), "tree", "'binary' or 'quad'", tree)
    per_level = 1 if tree == "binary" else box.dimensions
    if max_depth is None:
        max_depth = min(_TICK_BITS * box.dimensions, MAX_BITS) // per_level
    return BinaryTree(box, max_depth) if tree == "binary" else Quadtree(box, max_depth)


def _min_side(box: Box, rule: Rule, resolution: float | Sequence[float] | None) -> tuple[float, ...]:
    """The shortest sides of regions that a resolution stands for."""
    if resolution is None:
        return (_KILOMETRES,) if is_geographic(box) and rule != "each" else ()
    if isinstance(resolution, Sequence):
        return tuple(resolution)
    require(is_number(resolution) and 0 <= resolution < math.inf, "resolution", "a length of at least 0", resolution)
    return (float(resolution),) if resolution else ()
