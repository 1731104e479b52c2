"""What is promised, as a value: computed once from a task, worded once, shown everywhere.

Statements, ledgers, device summaries, releases, baselines, legends and pages take numbers *and* words from here. The
theorems behind the words are in docs/explanation/proofs.md. Knows numbers and words. Knows no positions and no state of
a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from ..arrays import short_repr
from ..errors import InvalidInput
from . import promise_words as wording
from .promise_words import INSIDE, PUBLIC, Adjacency, Trust

if TYPE_CHECKING:
    from .mark import Mark
    from .plan import Plan
    from .task import Task

__all__ = ["INSIDE", "PUBLIC", "Adjacency", "Guarantee", "Trust", "marked", "promise"]

Counted = Literal["limit", "run", "region"]  # what T counts: the task's limit, the run's largest, one region's
_RULES = {
    "all": "a sparse part keeps its cell from being split",
    "trim": "participants in sparse parts are moved",
    "each": "participants in sparse parts are exposed",
}


class Guarantee(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One promise: who is trusted, which positions are hard to tell apart, and by how much.

    A loss bounds the log of how much likelier anything published is at one position than at the other. Use
    :func:`promise` for a task, :meth:`plain` for differential privacy without regions.

    Attributes
    ----------
    trust : {"nobody", "two-servers", "curator"}
    adjacency : {"inside", "bucket", "anywhere", "presence", "nothing"}
        Between what ``epsilon`` holds: two positions inside one published region, two positions inside a coarse cell
        that the person named in the open, two positions anywhere, a person taking part or not; "nothing" if no loss
        is bounded.
    epsilon : float or None
        The loss for that adjacency, releases included; None for "nothing".
    anywhere : float or None
        The loss for any change of one person's position: the number to compare methods by. None: unbounded, as it is
        wherever regions are public.
    delta : float
        With a crowd: the chance, for every participant, that fewer than k are published in their region. Without:
        the probability that may be missing from the ratio.
    k : int
        The crowd that is promised, the participant included; 0 if none is.
    report : float
        Loss of one report; what a TRIM on the path adds for a moved position.
    trims : int
        T, the TRIMs that are counted; 0 if nobody is moved.
    counted : {"limit", "run", "region"}
        Whether T is the most that the task allows, the largest of a run, or that of one region's path.
    rule, accounting : str
        Of the task; empty where there is none.
    rounds : int
        The most rounds that ask for children.
    quorum : float
        Share of those expected whose answers may close a round; below 1 the others are out, and no crowd is sure.
    releases : tuple of (str, float)
        What is released after the partition, and its part of ``epsilon``.
    ladder : tuple of (str, float)
        The loss by how far two positions are apart, nearest first; empty if it does not depend on that.
    rows : int
        Rows that one person may have; the losses here are already for all of them.
    simulated, seeded : bool
        Whether one program played all participants, or the noise was seeded; and whether it was.
    own : str
        The value of their own that people gave, and its range, in words; empty if everything follows from positions.
    about : str
        Domain and rule, in words.
    notes : tuple of str
        What else a reader must know.

    Examples
    --------
    >>> print(Guarantee.plain("curator", 0.5, presence=0.25).sentence())
    epsilon = 0.25 (delta = 0) between a person taking part or not; epsilon = 0.5 (delta = 0) between any two positions of one person anywhere in the domain; trusts a curator who holds all positions.
    """  # noqa: E501

    trust: Trust
    adjacency: Adjacency
    epsilon: float | None
    anywhere: float | None = None
    delta: float = 0.0
    k: int = 0
    report: float = 0.0
    trims: int = 0
    counted: Counted = "limit"
    rule: str = ""
    accounting: str = ""
    rounds: int = 0
    quorum: float = 1.0
    releases: tuple[tuple[str, float], ...] = ()
    ladder: tuple[tuple[str, float], ...] = ()
    rows: int = 1
    simulated: bool = False
    seeded: bool = False
    own: str = ""
    about: str = ""
    notes: tuple[str, ...] = ()

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.adjacency == "nothing"):
            raise InvalidInput(f"a loss needs an adjacency; got epsilon {self.epsilon} and {self.adjacency!r}")
        losses = [self.epsilon or 0.0, self.anywhere or 0.0, self.report, *(loss for _, loss in self.ladder)]
        if not all(0 <= loss < math.inf for loss in losses) or not 0 <= self.delta <= 1:
            raise InvalidInput(
                f"losses must be finite and not negative, delta a probability; got {losses}, {self.delta}"
            )
        if self.seeded and not self.simulated:
            raise InvalidInput("seeded noise is for simulation; say simulated, too")
        if self.trims and self.adjacency != "inside":
            raise InvalidInput("only positions in public regions can be moved by a TRIM")

    # -- ways to make one --------------------------------------------------------------------------------------

    @classmethod
    def plain(cls, trust: Trust, epsilon: float | None, *, presence: float | None = None, **others: Any) -> Guarantee:
        """Differential privacy without regions: ``epsilon`` for any change of one person's position.

        Parameters
        ----------
        trust : Trust
        epsilon : float or None
            None if nothing is promised.
        presence : float, optional
            The loss if a person takes part or not, where that is how the method states it.
        **others
            Further attributes: ladder, delta, notes, about, rows, simulated, seeded.
        """
        adjacency: Adjacency = "presence" if presence is not None else "anywhere"
        stated = epsilon if presence is None else presence
        return cls(
            trust=trust,
            adjacency="nothing" if epsilon is None else adjacency,
            epsilon=stated,
            anywhere=epsilon,
            **others,
        )

    @classmethod
    def from_json(cls, data: bytes | dict[str, Any]) -> Guarantee:
        """Read what :meth:`to_json` wrote; words are made again from the numbers."""
        fields = msgspec.json.decode(data) if isinstance(data, bytes) else data
        known = {name: value for name, value in fields.items() if name in cls.__struct_fields__}
        try:
            return msgspec.convert(known, cls)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"not a promise: {error}") from None

    def times(self, rows: int) -> Guarantee:
        """The promise for a person who plays up to ``rows`` participants: losses add up, crowds count rows."""
        if self.rows != 1 or rows < 1:
            raise InvalidInput(f"rows must be at least 1, and are set once; got {rows} after {self.rows}")
        return msgspec.structs.replace(
            self,
            rows=rows,
            epsilon=None if self.epsilon is None else rows * self.epsilon,
            anywhere=None if self.anywhere is None else rows * self.anywhere,
            delta=min(1.0, rows * self.delta),
            report=rows * self.report,
            releases=tuple((words, rows * loss) for words, loss in self.releases),
            ladder=tuple((words, rows * loss) for words, loss in self.ladder),
        )

    # -- numbers -----------------------------------------------------------------------------------------------

    @property
    def moved(self) -> float | None:
        """Loss between a moved position and any inside: (1 + T) reports and the releases; None if nobody is moved."""
        return None if not self.trims or self.epsilon is None else self.epsilon + self.trims * self.report

    @property
    def worst(self) -> float | None:
        """The larger of the losses that are promised; None if none is."""
        return self.epsilon if self.moved is None else self.moved

    @property
    def exposure(self) -> float:
        """Loss against a server that lies: every report and every release counts."""
        return self.rounds * self.report + sum(loss for _, loss in self.releases)

    # -- words -------------------------------------------------------------------------------------------------

    @property
    def between(self) -> str:
        """Between what ``epsilon`` holds, in words."""
        return wording.BETWEEN[self.adjacency] + self._with_values

    @property
    def crowd(self) -> str:
        """The crowd, in words; empty where there are no regions."""
        if self.adjacency != "inside":
            return ""
        if not self.k:
            return "no crowd is promised: a region may hold one person"
        before = self.counted == "limit" and not self.simulated  # afterwards the crowds are known
        given = wording.GIVEN if before else ""
        early = ", if no round closes early" if self.quorum < 1 else ""
        return f"{wording.published(self.k, self.rows)}{given}{early}, except with probability delta = {self.delta:g}"

    def sentence(self) -> str:
        """The promise in one sentence: every loss with its adjacency and delta."""
        if self.epsilon is None:
            parts = ["no loss is bounded: this is no differential privacy"]
        else:
            parts = [f"{wording.loss_words(self.epsilon, self._delta)} between {self.between}"]
        if self.moved is not None:
            parts.append(f"{wording.loss_words(self.moved)} for {wording.MOVED}{self._with_values}: {self._price}")
        if self.adjacency == "presence" and self.anywhere is not None:
            parts.append(f"{wording.loss_words(self.anywhere, self._delta)} between {wording.BETWEEN['anywhere']}")
        if self.crowd:
            parts.append(self.crowd)
        if self.adjacency != "inside":
            parts.append(f"trusts {wording.TRUSTED[self.trust]}")
        if self.simulated:
            seeded, played = " with seeded noise" if self.seeded else "", ", run by a curator" if self._played else ""
            parts.append(f"a simulation{seeded}{played}")
        return "; ".join(parts) + "."

    def __str__(self) -> str:
        return " ".join([self.sentence(), *self.notes])

    def lines(self) -> list[str]:
        """The whole statement, one paragraph per line."""
        out = [wording.SIMULATED] if self._played else []
        out += [wording.SEEDED] if self.seeded else []
        out += [self.about] if self.about else []
        out += self._regions() if self.adjacency == "inside" else self._plain()
        if self.rows > 1:
            out.append(
                f"One person may have {self.rows} rows: the losses above are for all rows of one person together."
                + (" Crowds count rows, not people." if self.k else "")
            )
        return [*out, *self.notes]

    def text(self) -> str:
        """The whole statement in plain words."""
        return "\n".join(self.lines())

    def cost(self, unit: str = "") -> str:
        """The losses in a few words, for legends; with a unit such as "ε" the numbers are multiples of it.

        Examples
        --------
        >>> Guarantee(trust="nobody", adjacency="inside", epsilon=1.0, report=0.45, trims=16, k=50).cost("ε")
        'ε inside, moved (1 + 0.45 T) ε, T ≤ 16'
        >>> Guarantee.plain("curator", 2.0, presence=1.0).cost("ε")
        '2 ε anywhere, ε for taking part or not'
        """
        if self.epsilon is None:
            return "unbounded"
        inside = wording.times_words(self.epsilon, unit)
        if self.adjacency == "presence":
            part = f"{inside} for taking part or not"
            return part if self.anywhere is None else f"{wording.times_words(self.anywhere, unit)} anywhere, {part}"
        if self.adjacency != "inside":
            return f"{inside} inside a bucket" if self.adjacency == "bucket" else f"{inside} anywhere"
        if not self.trims:
            return f"{inside} inside"
        each = wording.times_words(self.report, "T") if unit else f"{self.report:g} T"
        moved = f"({self.epsilon:g} + {each}) {unit}".strip()
        return f"{inside} inside, moved {moved}, T {'=' if self.counted == 'region' else '≤'} {self.trims}"

    def row(self) -> dict[str, str]:
        """Cells of a table: trust, epsilon, between, moved, crowd, delta."""
        return {
            "trust": self.trust,
            "epsilon": "unbounded" if self.epsilon is None else f"{self.epsilon:g}",
            "between": self.between if self.moved is None else f"{self.between}; moved: {wording.MOVED}",
            "moved": "" if self.moved is None else f"{self.moved:g}",
            "crowd": "none" if not self.k else f"{self.k}",
            "delta": self._delta_cell(),
        }

    def _delta_cell(self) -> str:
        if self.adjacency != "inside":
            return f"{self.delta:g}"
        return f"0 for losses; {self.delta:g} for the crowd, per participant" if self.k else "0 for losses; no crowd"

    def to_json(self) -> dict[str, Any]:
        """Numbers and words, ready for JSON; :meth:`from_json` gives the same promise back."""
        words = {"between": self.between, "moved": self.moved, "sentence": self.sentence(), "text": self.text()}
        return {**msgspec.to_builtins(self), **words}

    @property
    def _delta(self) -> float:
        """Of the loss: what is inside a region has none."""
        return 0.0 if self.adjacency == "inside" else self.delta

    @property
    def _played(self) -> bool:
        """Whether one program played devices or servers; a curator is one program anyway."""
        return self.simulated and self.trust != "curator"

    @property
    def _with_values(self) -> str:
        return wording.values_words(self.own)

    @property
    def _price(self) -> str:
        """How the loss of a moved position comes about."""
        most = {"limit": f"at most {self.trims} in this task", "run": f"at most {self.trims} in this run"}
        count = most.get(self.counted, f"here {self.trims}")
        more = " and the releases" if self.releases else ""
        each = " of each row" if self.rows > 1 else ""
        return f"(1 + T) reports{each}{more}, T the TRIMs on the region's path (public, {count})"

    def _regions(self) -> list[str]:
        assert self.epsilon is not None
        out = [
            "Protected: where a participant is inside the region that is published for them"
            + (", and their own value." if self.own else "."),
            f"Two positions inside that region{self._with_values}: epsilon = {self.epsilon:g}, delta = 0. Everything a "
            "participant sends changes the odds between the two by at most a factor "
            f"e^{self.epsilon:g} = {wording.factor_words(self.epsilon)}, however many rounds are played.",
        ]
        if self.moved is not None:
            out.append(
                f"{wording.MOVED.capitalize()}{self._with_values}: epsilon = {self.moved:g}, delta = 0, which is "
                f"{self._price}. Nothing published makes the moved position likelier than those inside by more than "
                "that. The other way round, and between two moved positions, nothing is promised."
            )
            if self.accounting and self.counted == "limit":
                core = self.accounting == "core"
                which, asked = ("first", self.report) if core else ("second", (1 + self.trims) * self.report)
                without = ", without the releases" if self.releases else ""
                own = f"the task's own epsilon, {asked:g}, is the {which} number{without}"
                out.append(f'Accounting "{self.accounting}": {own}.')
        elif self.rule == "trim":
            out.append("No TRIM is on the path: nobody was moved.")
        out += self._parts(", after the partition")
        if self.k:
            given = "" if self.simulated else wording.GIVEN
            out.append(
                f"Crowd: at least {wording.published(self.k, self.rows)}{given}, except "
                f"with probability at most delta = {self.delta:g} for every participant."
                + (" Some of them may have been moved there and live elsewhere." if self.trims else "")
            )
        else:
            out.append("Crowd: NOT kept. A region may hold one person.")
        if self.rule != "all" or not self.k:  # the theorem of rule "all" rests on its crowd tests
            out.append(
                "What the numbers are: a bound for what was published, once the region is known. Two positions fixed "
                "beforehand may also be told apart by ending in different regions; how likely that is, is not bounded."
            )
        out.append(f"Not protected: {PUBLIC} Between positions in different regions the loss is infinite.")
        out.append(
            "Against: everyone who sees all messages, the server too, if it follows the protocol. A server that lies "
            f"can make up the crowd and lead a device to a small cell; that costs {self.report:g} per "
            f"{'answer' if self.rows == 1 else 'round'}, and the cell itself."
        )
        return out

    def _plain(self) -> list[str]:
        if self.epsilon is None:
            return [f"No loss is bounded: this is no differential privacy. It trusts {wording.TRUSTED[self.trust]}."]
        out = [f"Trusted: {wording.TRUSTED[self.trust]}."]
        loss = self.anywhere if self.anywhere is not None else self.epsilon
        whom = " and against either operator alone" if self.trust == "two-servers" else ""
        inside = " inside the bucket; the bucket itself is public" if self.adjacency == "bucket" else ""
        value = ", and their own value" if self.own else ""
        between = wording.BETWEEN["bucket" if self.adjacency == "bucket" else "anywhere"] + self._with_values
        out.append(
            f"Protected: where a person is{inside}{value}. epsilon = {loss:g}, delta = {self.delta:g} between "
            f"{between}, against everyone who sees what is published{whom}: it changes the odds between "
            f"the two by at most a factor e^{loss:g} = {wording.factor_words(loss)}."
        )
        if self.adjacency == "presence":
            out.append(f"Taking part or not: epsilon = {self.epsilon:g}, delta = {self.delta:g}.")
        if self.ladder:
            steps = "; ".join(f"{words}: {loss:g}" for words, loss in self.ladder)
            out.append(f"Near positions are usually harder to tell apart than far ones. Loss by distance: {steps}.")
        return [*out, *self._parts("")]

    def _parts(self, when: str) -> list[str]:
        if not self.releases:
            return []
        parts = "; ".join(f"{what}: {loss:g}" for what, loss in self.releases)
        return [f"Included in these numbers{when}: {parts}."]


class Marked(TypedDict):
    """The attributes of a promise that the mark of a result decides."""

    simulated: bool
    seeded: bool


def marked(mark: Mark | None) -> Marked:
    """What a promise takes from the mark of a result."""
    return {"simulated": mark is not None, "seeded": mark is not None and mark.seeded}


def promise(
    task: Task,
    releases: Plan | Iterable[tuple[str, float]] = (),
    *,
    trims: int | None = None,
    counted: Counted = "limit",
    participants: int | None = None,
    mark: Mark | None = None,
) -> Guarantee:
    """What a task promises, with what is released after its partition.

    Parameters
    ----------
    task : Task
    releases : Plan, or (words, loss) of each release
    trims : int, optional
        T where it is known: the largest of a run's ``Partition.path_trims`` (``counted="run"``), or that of one
        region (``counted="region"``). The task's limit if left out.
    counted : {"limit", "run", "region"}
    participants : int, optional
        How many took part, or the smallest crowd of a run, where it is known: fewer than k are a smaller crowd, and the
        promise says so.
    mark : Mark, optional
        Of a simulation.

    Examples
    --------
    >>> from semilocal import Box, Task
    >>> task = Task.build(Box((0,), (1,)), epsilon=1.0, delta=1e-6, k=50, max_trims=4)
    >>> found = promise(task)
    >>> found.epsilon, found.moved
    (1.0, 5.0)
    """
    if trims is not None and not 0 <= trims <= task.max_trims:
        raise InvalidInput(f"trims must be from 0 to the task's max_trims {task.max_trims}; got {trims}")
    if (trims is None) != (counted == "limit"):
        raise InvalidInput(f"trims and counted go together; got trims {trims} and counted {counted!r}")
    planned = getattr(releases, "releases", None)
    added = tuple(releases) if planned is None else tuple((one.what, one.epsilon) for one in planned)  # type: ignore[arg-type]
    return Guarantee(
        trust="nobody",
        adjacency="inside",
        epsilon=task.epsilon + sum(loss for _, loss in added),
        delta=task.delta if task.keeps_crowd else 1.0,
        k=0 if not task.keeps_crowd else task.k if participants is None else min(task.k, participants),
        report=task.epsilon,
        trims=task.max_trims if trims is None else trims,
        counted=counted,
        rule=task.rule,
        accounting=task.accounting,
        rounds=task.max_rounds,
        quorum=task.quorum,
        releases=added,
        **marked(mark),
        own="" if planned is None else releases.own_words,  # type: ignore[union-attr]
        about=f'Domain: {task.box}. Rule "{task.rule}" ({_RULES[task.rule]}), k = {task.k}, at most {task.max_rounds} '
        "rounds.",
        notes=_notes(task),
    )


def _notes(task: Task) -> tuple[str, ...]:
    notes = []
    if task.quorum < 1 and task.keeps_crowd:
        notes.append(
            f"A round may close when {100 * task.quorum:g} % of those expected have answered. The others are then out, "
            f"so a region may hold fewer than {task.k} participants, by the task's own rule."
        )
    if task.tolerate_liars:
        notes.append(f"Up to {task.tolerate_liars} lying devices are not counted in a crowd.")
    if not task.keeps_crowd:
        why = "a failing child is left behind" if task.rule == "each" else "the printed margin fails for small delta"
        notes.append(f"A region may hold fewer than {task.k} participants: {why}.")
    if task.randomizer.simulation_only:
        notes.append("For simulation only: its noise is in floats, which leak through rounding; devices refuse it.")
    return tuple(notes)
