"""The task: everything public about one collection, frozen, hashed, and what it promises.

A device pins the task's id (the SHA-256 of its canonical bytes) when it joins, so no parameter can change later.
Knows parameters and promises. Knows no state of a run.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, Literal

import msgspec

from ..errors import InvalidInput
from ..geometry.box import Box
from ..hierarchy.dyadic import MAX_BITS, BinaryTree, Quadtree
from ..randomizer.response import DiscreteLaplace, PaperLaplace, RandomizedResponse

__all__ = ["Accounting", "Rule", "Task"]

Rule = Literal["all", "trim", "each"]
Accounting = Literal["core", "uniform"]

MAX_K = 2**20  # a device must be able to compute the crowd test of any task
KEY_BYTES = 32
_TICK_BITS = 20  # default resolution: 2**20 slices per axis
_MAX_TRIMS = {"core": 16, "uniform": 3}


class Task(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="task", forbid_unknown_fields=True):
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
        The smallest crowd.
    delta : float
        The chance, per participant, that the promise of a crowd fails (for a participant who is never moved, with
        accounting "core").
    max_trims : int
        The most TRIM verdicts on any path; 0 unless the rule is "trim".
    tau : float
        A group of children may be trimmed when it holds at most this share of the responders.
    accounting : {"core", "uniform"}
        Whether ``epsilon`` and ``delta`` were given for participants who are never moved, or as bounds for everybody.
    max_rounds : int
        The most rounds that ask for children; a roll call may follow.
    quorum : float
        Share of the enrolled participants whose reports close a round before its deadline.
    window : int
        Seconds that a round stays open.
    size_from : {"responders", "estimate"}
        What the margin of the crowd test takes as the cell's size; "estimate" only for the published code's rule.
    tolerate_liars : int
        Crowds keep k honest participants even if so many devices lie; randomized response only.
    server_key : bytes
        Ed25519 public key (32 bytes) that signs the transcript's checkpoints; empty: they are not signed.
    """

    hierarchy: BinaryTree | Quadtree
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

    def __post_init__(self) -> None:
        _check(
            isinstance(self.hierarchy, BinaryTree | Quadtree), "hierarchy", "a BinaryTree or Quadtree", self.hierarchy
        )
        _check(
            isinstance(self.randomizer, RandomizedResponse | DiscreteLaplace | PaperLaplace),
            "randomizer", "a RandomizedResponse, DiscreteLaplace or PaperLaplace", self.randomizer,
        )  # fmt: skip
        if self.hierarchy.fanout != self.randomizer.fanout:
            raise InvalidInput(
                f"the randomizer answers for {self.randomizer.fanout} children, but cells of the hierarchy have "
                f"{self.hierarchy.fanout}; use a randomizer with fanout={self.hierarchy.fanout}"
            )
        _check(self.rule in ("all", "trim", "each"), "rule", "'all', 'trim' or 'each'", self.rule)
        _check(self.accounting in ("core", "uniform"), "accounting", "'core' or 'uniform'", self.accounting)
        _check(_is_int(self.k) and 1 <= self.k <= MAX_K, "k", f"an integer from 1 to {MAX_K}", self.k)
        _check(
            _is_number(self.delta) and 1e-15 <= self.delta < 0.5,
            "delta",
            "a number from 1e-15 to below 0.5",
            self.delta,
        )
        _check(
            _is_int(self.max_trims) and 0 <= self.max_trims <= 255,
            "max_trims",
            "an integer from 0 to 255",
            self.max_trims,
        )
        _check(_is_number(self.tau) and 0 < self.tau < 0.5, "tau", "a share above 0 and below 0.5", self.tau)
        depth = self.hierarchy.max_depth
        _check(
            _is_int(self.max_rounds) and 1 <= self.max_rounds <= depth,
            "max_rounds", f"an integer from 1 to the hierarchy's max_depth {depth}", self.max_rounds,
        )  # fmt: skip
        _check(_is_number(self.quorum) and 0 < self.quorum <= 1, "quorum", "a share above 0 and at most 1", self.quorum)
        _check(
            _is_int(self.window) and 1 <= self.window <= 10**8, "window", "a positive number of seconds", self.window
        )
        _check(self.size_from in ("responders", "estimate"), "size_from", "'responders' or 'estimate'", self.size_from)
        liars = self.tolerate_liars
        _check(_is_int(liars) and 0 <= liars < 2**31, "tolerate_liars", "an integer of at least 0", liars)
        if liars and not isinstance(self.randomizer, RandomizedResponse):
            raise InvalidInput(
                f"tolerate_liars is {liars}, but only in randomized response does a liar add at most one to a tally; "
                "use RandomizedResponse, or leave it at 0"
            )
        _check(
            isinstance(self.server_key, bytes) and len(self.server_key) in (0, KEY_BYTES),
            "server_key", f"an Ed25519 public key of {KEY_BYTES} bytes, or empty", self.server_key,
        )  # fmt: skip
        for name in ("delta", "tau", "quorum"):  # 1 and 1.0 must have the same bytes
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))
        if self.rule != "trim" and self.max_trims:
            raise InvalidInput(f"max_trims is {self.max_trims}, but rule {self.rule!r} never trims; leave it at 0")
        paper_margin = isinstance(self.randomizer, PaperLaplace) and self.randomizer.margin == "paper"
        if self.size_from == "estimate" and not (self.rule == "each" and paper_margin):
            raise InvalidInput(
                "size_from='estimate' is what the published code does; it needs rule='each' and "
                "PaperLaplace(margin='paper')"
            )

    # -- constructors --------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        box: Box,
        *,
        epsilon: float,
        delta: float,
        k: int,
        rule: Rule = "trim",
        accounting: Accounting = "core",
        max_trims: int | None = None,
        tau: float = 0.2,
        tree: Literal["binary", "quad"] = "binary",
        randomizer: Literal["randomized-response", "discrete-laplace"] = "randomized-response",
        max_depth: int | None = None,
        max_rounds: int | None = None,
        quorum: float = 1.0,
        window: int = 3600,
        tolerate_liars: int = 0,
        server_key: bytes = b"",
    ) -> Task:
        """A task with our defaults: binary splits, randomized response, rule "trim", accounting "core".

        Parameters
        ----------
        box : Box
            The public domain.
        epsilon : float
            Loss inside the region, for the partition alone: of a participant who is never moved (accounting "core") or
            of everybody (accounting "uniform", where one report costs epsilon / (1 + max_trims)).
        delta : float
            Chance per participant of a crowd below k; use well below 1/N in a deployment.
        k : int
            The smallest crowd.

        Examples
        --------
        >>> task = Task.build(Box((0, 0), (1, 1)), epsilon=1.0, delta=1e-6, k=50)
        >>> task.epsilon, task.epsilon_worst
        (1.0, 17.0)
        """
        _check(isinstance(box, Box), "box", "a semilocal.Box", box)
        if max_trims is None:
            max_trims = _MAX_TRIMS.get(accounting, 0) if rule == "trim" else 0
        _check(tree in ("binary", "quad"), "tree", "'binary' or 'quad'", tree)
        _check(randomizer in ("randomized-response", "discrete-laplace"), "randomizer",
               "'randomized-response' or 'discrete-laplace'", randomizer)  # fmt: skip
        _check(_is_number(epsilon), "epsilon", "a number", epsilon)
        _check(_is_int(max_trims) and max_trims >= 0, "max_trims", "an integer of at least 0", max_trims)
        per_level = 1 if tree == "binary" else box.dimensions
        if max_depth is None:
            max_depth = min(_TICK_BITS * box.dimensions, MAX_BITS) // per_level
        hierarchy = BinaryTree(box, max_depth) if tree == "binary" else Quadtree(box, max_depth)
        round_epsilon = float(epsilon) / (1 + max_trims) if accounting == "uniform" else float(epsilon)
        noise = (
            RandomizedResponse(round_epsilon, hierarchy.fanout)
            if randomizer == "randomized-response"
            else DiscreteLaplace(round_epsilon, hierarchy.fanout)
        )
        return cls(
            hierarchy=hierarchy, randomizer=noise, rule=rule, k=k, delta=delta,
            max_trims=max_trims, tau=tau, accounting=accounting, quorum=quorum, window=window,
            max_rounds=max_depth if max_rounds is None else max_rounds, tolerate_liars=tolerate_liars,
            server_key=server_key,
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
        _check(isinstance(box, Box), "box", "a semilocal.Box", box)
        _check(_is_number(epsilon) and epsilon > 0, "epsilon", "a positive number", epsilon)
        depth = min(_TICK_BITS, MAX_BITS // box.dimensions) if max_depth is None else max_depth
        tree = Quadtree(box, depth)
        noise = PaperLaplace(1.0 / epsilon, tree.fanout, "paper")
        return cls(
            hierarchy=tree, randomizer=noise, rule=rule, k=k, delta=delta, max_trims=0, tau=0.2, accounting="core",
            max_rounds=depth, size_from=size_from,
        )  # fmt: skip

    # -- what it is ----------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return msgspec.msgpack.encode(self)

    @property
    def id(self) -> bytes:
        """SHA-256 of the canonical bytes (32 bytes)."""
        return hashlib.sha256(self.to_bytes()).digest()  # no cache: equal tasks may differ in bytes, as 0.0 and -0.0 do

    @property
    def box(self) -> Box:
        """The domain."""
        return self.hierarchy.box

    # -- what it promises ----------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """Loss inside the region of a participant who is never moved: one report's."""
        return self.randomizer.epsilon

    @property
    def epsilon_worst(self) -> float:
        """Bound on the loss inside the region for everybody: (1 + max_trims) reports."""
        return (1 + self.max_trims) * self.randomizer.epsilon

    @property
    def delta_test(self) -> float:
        """Chance that one crowd test lets a child with fewer than k responders pass."""
        return self.delta / (1 + self.max_trims) if self.accounting == "uniform" else self.delta

    @property
    def keeps_crowd(self) -> bool:
        """Whether a crowd of k is promised at all, with probability 1 - delta."""
        margin_holds = not (isinstance(self.randomizer, PaperLaplace) and self.randomizer.margin == "paper")
        return self.rule != "each" and margin_holds

    def statement(self) -> str:
        """The promise in plain words: what is protected, against whom, with which numbers, what is revealed."""
        return "\n".join(_statement(self))


def _statement(task: Task) -> list[str]:
    name = {"all": "blocked by sparse siblings", "trim": "the sparse move along", "each": "the sparse are exposed"}
    factor = f"{math.exp(min(task.epsilon, 700.0)):.3g}"
    lines = [
        f'Domain: {task.box}. Rule "{task.rule}" ({name[task.rule]}), k = {task.k}, at most {task.max_rounds} rounds.',
        "Protected: where inside its region a participant is. Any two positions in the region that it is published to "
        f"be in are at most a factor e^{task.epsilon:g} = {factor} apart in the probability of everything it sends: "
        f"epsilon = {task.epsilon:g} inside your region, however many rounds are played.",
    ]
    if task.max_trims:
        lines.append(
            f"Moved participants pay more: whoever is moved s times loses (1 + s) x {task.epsilon:g}, at most "
            f"{task.epsilon_worst:g} (max_trims = {task.max_trims}), inside the region it was moved into. Accounting "
            f'"{task.accounting}": the epsilon asked for is '
            + ("that of a participant who is never moved." if task.accounting == "core" else "the bound for everybody.")
        )
    if task.keeps_crowd:
        whom = "for a participant who is never moved; delta x (1 + mean moves) for the share of all participants"
        whom = whom if task.max_trims and task.accounting == "core" else "for every participant"
        lines.append(
            f"Crowd: a region is shared by at least k = {task.k} participants, except with probability delta = "
            f"{task.delta:g} {whom}."
            + (f" Up to {task.tolerate_liars} lying devices are not counted among them." if task.tolerate_liars else "")
        )
        if task.max_trims and task.randomizer.fanout > 2:
            lines.append(
                f"With {task.randomizer.fanout} children per cell that is proven for participants who are never moved; "
                f"for the others each move counts {task.randomizer.fanout} times."
            )
    else:
        why = "a failing child is left behind" if task.rule == "each" else "the printed margin fails for small delta"
        lines.append(f"Crowd: NOT kept. A region may hold fewer than {task.k} participants, even one: {why}.")
    lines += [
        "Against: anyone who sees all messages, the server included, that follows the protocol; a server that lies "
        f"can make up a crowd, and cost a device at most {task.epsilon:g} per round it answers, in a smaller cell.",
        "Revealed by design: every participant's region, the crowds, the tallies, and who answered when.",
    ]
    if task.randomizer.simulation_only:
        lines.append("For simulation only: its noise is in floats, which leak through rounding; devices refuse it.")
    return lines


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check(fine: bool, name: str, allowed: str, got: Any) -> None:
    if not fine:
        raise InvalidInput(f"{name} must be {allowed}; got {got!r}")
