"""What is promised, as a value and in words: computed once from a task, worded once, shown everywhere.

Statements, ledgers, device summaries, releases, baselines, legends and pages take numbers *and* words from here: who is
trusted, which places are compared, what is public, and whether a result is simulated. The theorems behind the words are
in PROOF.md. Knows numbers and words. Knows no positions and no state of a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec
import numpy as np

from ..errors import InvalidInput
from ..geometry.units import lengths_words, side_unit
from ..words import number_of

if TYPE_CHECKING:
    from .plan import Plan
    from .task import Task

Trust = Literal["nobody", "two-servers", "curator"]
Adjacency = Literal["inside", "bucket", "anywhere", "presence", "nothing"]

INSIDE = "any two places of one's region"
INSIDE_ALL = "any two places inside all of one's regions"
PROTECTED = "of a position, only the place inside a region is protected"
_BUCKET, _BUCKETS = "inside the public bucket that they named", "inside all public buckets that they named"
BETWEEN: dict[Adjacency, str] = {
    "inside": INSIDE,
    "bucket": f"any two positions of one person {_BUCKET}",
    "anywhere": "any two positions of one person anywhere in the domain",
    "presence": "a person taking part or not",
    "nothing": "nothing: this is no differential privacy",
}
_GUESS = "nobody who sees what is published can tell with more than {odds} certainty"
IN_WORDS: dict[Adjacency, str] = {
    "inside": "Everybody may learn which region a person is in. Which of two places in it is theirs, if both seemed "
    f"equally likely, {_GUESS}.",
    "bucket": "Everybody learns which public bucket a person named. Which of two places in it is theirs, if both "
    f"seemed equally likely, {_GUESS}.",
    "anywhere": f"Which of two places is a person's, if both seemed equally likely, {_GUESS}.",
    "presence": f"Whether a person took part, if both seemed equally likely, {_GUESS}.",
    "nothing": "Nothing is promised: what is published may show where a person is.",
}
TRUSTED: dict[Trust, str] = {
    "nobody": "nobody: each device randomizes its own answers",
    "two-servers": "cryptography, and two operators not to collude: together they could read every position",
    "curator": "a curator who holds all positions",
}
EITHER = "and, as long as the cryptography holds (computationally), against either operator alone"
MODELS: dict[Trust, str] = {
    "nobody": "local DP",
    "two-servers": "computational DP by two servers",
    "curator": "central DP",
}
CHANGES: dict[Adjacency, str] = {  # what one person may do, in a few words
    "inside": "any move inside their region",
    "bucket": "any move inside their public bucket",
    "anywhere": "any move",
    "presence": "taking part or not",
}
SIMULATED = (
    "SIMULATION: one program holds all positions, so the person who runs it is a curator. The promise is what "
    "participants would get if each answered from a device of their own."
)
SEEDED = (
    "SIMULATION: the noise comes from a seeded generator, and who knows the seed can remove it. The promise is that of "
    "the same task with noise from the operating system."
)

# The promise to one participant. Which parts are said, and in which order, is in ``promise.participant_parts``.
PARTICIPANT: dict[str, str] = {
    "region": "Everybody learns, under your pseudonym, which region you are in.",
    "crowd": "When it was drawn, at least {k} participants, you included, were in it (the chance that this failed for "
    "you is at most {delta})",
    "crowd-late": "When it was drawn, at least {k} participants were in it, you not counted (the chance that this "
    "failed for you is at most {delta})",
    "no-crowd": "No crowd is kept: it may have been drawn around you alone",
    "now": "; now there are {members}.",
    "none": "You answered no question.",
    "outside": "You answered {answered}, about lines outside of your region: they tell nothing more.",
    "mixed": "You answered {answered}. All but {inside} of them are about lines outside of your region and tell "
    "nothing more.",
    "inside": "You answered {answered}.",
    "few": "You answer a few questions. All but at most {answers} of them are about lines outside of your region and "
    "tell nothing more.",
    "lines": "Noisy answers about the lines drawn here do not help anybody to choose between two places on the same "
    "side of every line, and between two places on different sides they move the odds by at most a factor e^{epsilon}: "
    "from even to at most {odds}.",
    "values": "Values that you give are noisy, too, and differ between any two places: with them it is at most a "
    "factor e^{total}, from even to at most {total_odds}.",
    "rest": "What people know about you anyway, and what the others' answers say about the region as a whole, is not "
    "limited by this.",
}
# What the promise does not say. "fixed" is for rule "cut", "paper" for rule "all"; "map" and "others" are about crowds.
LIMITS: dict[str, str] = {
    "fixed": "These numbers are for what was published, once the region is known (ex post). A split may separate two "
    "places that are fixed beforehand, and between different regions the loss is infinite.",
    "paper": "As the paper defines it: (epsilon, delta)-SLDP, epsilon = {epsilon}, delta = {delta}, for two places of "
    "the cell that is reached by splitting while every child has {k}. Between different regions the loss is infinite.",
    "map": "The chance {delta} is for each participant, not for the map: of N participants up to {delta} N are "
    "expected to miss the crowd in the worst case.",
    "others": "Against somebody who knows where all others are the crowd is worth nothing; only the factor holds.",
    "lies": "Fake members, or a server that forges, can make up a crowd and lead a device to the smallest region that "
    "its owner allows. Inside it the factor holds.",
    "several": "Losses of several tasks add up; crowds do not compose.",
}


def loss_words(epsilon: float, delta: float = 0.0) -> str:
    """A loss with its delta."""
    return f"epsilon = {epsilon:g} (delta = {delta:g})"


def losses_words(epsilon: float, *, own: str = "", between: str = INSIDE) -> str:
    """A loss with its adjacency and delta; ``own`` as in a :class:`Guarantee`."""
    return f"{loss_words(epsilon)} between {between}{values_words(own)}"


def several_words(partitions: int, buckets: int) -> str:
    """Between what the sum of losses holds that are inside regions of partitions, and inside public buckets."""
    where = _BUCKET if buckets == 1 else _BUCKETS
    if not partitions:
        return BETWEEN["bucket"].replace(_BUCKET, where)
    return (INSIDE if partitions == 1 else INSIDE_ALL) + (f" and {where}" if buckets else "")


def values_words(own: str) -> str:
    """What else may differ between the two places."""
    return f", with any two values of {own}" if own else ""


def crowd_words(k: int, delta: float, rows: int = 1) -> str:
    """A crowd of k participants; of as many rows, where one person may have several."""
    people = f" rows in it, of at least {number_of(-(-k // rows), 'person', 'people')}," if rows > 1 else " in it"
    return f"at least {k}{people} except with probability {delta:g}"


def odds_words(epsilon: float) -> str:
    """To how many percent a factor of e^epsilon moves even odds: "73 %" for 1, "98 %" for 4."""
    rest = 1.0 / (1.0 + math.exp(min(epsilon, 700.0)))
    if rest < 1e-8:
        return "almost 100 %"
    digits = max(0, math.ceil(-math.log10(rest)) - 2)
    return f"{100 * (1 - rest):.{digits}f} %"


# -- the mark of a result that no devices made, or whose noise can be repeated; every way out says it -----------------


MARK_NAME = "simulation"  # under which files and frames carry a mark


@dataclass(frozen=True)
class Mark:
    """One program played all participants or both servers, or the noise came from a seeded generator."""

    seeded: bool  # whether the noise came from a generator that somebody can seed again
    seed: int | None = None  # of that generator, where it is known: a generator does not tell its own

    def __post_init__(self) -> None:
        if self.seed is not None and not self.seeded:
            raise InvalidInput(f"noise with seed {self.seed} is seeded; say so, or leave the seed out")

    @property
    def words(self) -> str:
        """For people: above a map, in a picture, in a file."""
        if self.seed is not None:
            return f"SIMULATION: the noise has seed {self.seed} and protects nobody"
        if self.seeded:
            return "SIMULATION: the noise comes from a seeded generator and protects nobody"
        return "SIMULATION: one program held all positions, and the person who ran it is a curator"


def seeded_by(rng: Any, mark: Mark | None = None) -> Mark | None:
    """The mark after more noise, from a given generator or, if it is None, from the operating system."""
    return mark if rng is None or (mark is not None and mark.seeded) else Mark(seeded=True)


# -- the promise ------------------------------------------------------------------------------------------------------


_RULES = {
    "cut": "a region is cut where both sides show k people",
    "all": "a cell is split if every child shows k people",
}


class Guarantee(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One promise: who is trusted, which places are hard to tell apart, and by how much.

    A loss bounds the log of how much likelier anything published is at one place than at the other. Use
    :func:`promise` for a task, :meth:`plain` for differential privacy without regions.

    Attributes
    ----------
    trust : {"nobody", "two-servers", "curator"}
    adjacency : {"inside", "bucket", "anywhere", "presence", "nothing"}
        Between what ``epsilon`` holds: two places of one's region, two positions inside a coarse cell that the person
        named in the open, two positions anywhere, a person taking part or not; "nothing" if no loss is bounded.
    epsilon : float or None
        The loss for that adjacency, both ways, releases included; None for "nothing".
    anywhere : float or None
        The loss for any change of one person's position: the number to compare methods by. None: unbounded, as it is
        wherever regions are public.
    delta : float
        With a crowd: the chance, for every participant, that a split put it with fewer than k. Without: the
        probability that may be missing from the ratio.
    k : int
        The crowd that is promised, the participant included; 0 if none is.
    answers : int
        The most answers of a participant about lines inside its region; 0 where there are no regions.
    smallest : int or None
        Members of the smallest region now, where a run is known.
    rule : str
        Of the task; empty where there is none.
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
    answers: int = 0
    smallest: int | None = None
    rule: str = ""
    releases: tuple[tuple[str, float], ...] = ()
    ladder: tuple[tuple[str, float], ...] = ()
    rows: int = 1
    simulated: bool = False
    seeded: bool = False
    own: str = ""
    about: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.adjacency == "nothing"):
            raise InvalidInput(f"a loss needs an adjacency; got epsilon {self.epsilon} and {self.adjacency!r}")
        losses = [self.epsilon or 0.0, self.anywhere or 0.0, *(loss for _, loss in self.ladder)]
        if not all(0 <= loss < math.inf for loss in losses) or not 0 <= self.delta <= 1:
            raise InvalidInput(
                f"losses must be finite and not negative, delta a probability; got {losses}, {self.delta}"
            )
        if self.seeded and not self.simulated:
            raise InvalidInput("seeded noise is for simulation; say simulated, too")

    # -- ways to make one --------------------------------------------------------------------------------------

    @classmethod
    def plain(cls, trust: Trust, epsilon: float | None, *, presence: float | None = None, **others: Any) -> Guarantee:
        """Differential privacy without regions: ``epsilon`` for any change of one person's position, None if nothing
        is.

        ``presence`` is the loss if a person takes part or not, where that is how the method states it; ``others`` are
        further attributes.
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
            answers=rows * self.answers,
            releases=tuple((words, rows * loss) for words, loss in self.releases),
            ladder=tuple((words, rows * loss) for words, loss in self.ladder),
        )

    # -- words -------------------------------------------------------------------------------------------------

    @property
    def between(self) -> str:
        """Between what ``epsilon`` holds, in words."""
        return BETWEEN[self.adjacency] + self._with_values

    @property
    def crowd(self) -> str:
        """The crowd, in words; empty where there are no regions."""
        if self.adjacency != "inside":
            return ""
        if not self.k:
            return "no crowd is promised: a region may hold one person"
        return crowd_words(self.k, self.delta, self.rows)

    def in_words(self) -> str:
        """What the loss means to a person, before any formula.

        Examples
        --------
        >>> print(Guarantee.plain("curator", 1.0).in_words())
        Which of two places is a person's, if both seemed equally likely, nobody who sees what is published can tell with more than 73 % certainty.
        """  # noqa: E501
        return _fill(IN_WORDS[self.adjacency], {"odds": odds_words(self.epsilon or 0.0)})

    def sentence(self) -> str:
        """The promise in one line: every loss with its adjacency and delta."""
        if self.epsilon is None:
            parts = ["no loss is bounded: this is no differential privacy"]
        else:
            parts = [f"{loss_words(self.epsilon, self._delta)} between {self.between}"]
        if self.adjacency == "presence" and self.anywhere is not None:
            parts.append(f"{loss_words(self.anywhere, self._delta)} between {BETWEEN['anywhere']}")
        if self.crowd:
            parts.append(self.crowd)
        if self.adjacency != "inside":
            parts.append(f"trusts {TRUSTED[self.trust]}")
        return "; ".join([*parts, *self._simulation]) + "."

    @property
    def _simulation(self) -> list[str]:
        """One entry, in words, if it is one."""
        seeded, played = " with seeded noise" if self.seeded else "", ", run by a curator" if self._played else ""
        return [f"a simulation{seeded}{played}"] if self.simulated else []

    def __str__(self) -> str:
        """The promise in a few words; :meth:`explain` has the whole statement."""
        if self.epsilon is None:
            return "no loss is bounded: this is no differential privacy"
        whom = "one person" if self.rows == 1 else f"one person with up to {self.rows} rows"
        loss, model = loss_words(self.epsilon, self._delta), MODELS[self.trust]
        parts = [f"{loss}, {model}, {whom}, {CHANGES[self.adjacency]}{self._with_values}"]
        parts += [self.crowd] if self.crowd else []
        return "; ".join([*parts, *self._simulation])

    __repr__ = __str__

    def lines(self) -> list[str]:
        """The whole statement, one paragraph per line."""
        out = [SIMULATED] if self._played else []
        out += [SEEDED] if self.seeded else []
        out += [self.about] if self.about else []
        out += self._regions() if self.adjacency == "inside" else self._plain()
        if self.rows > 1:
            out.append(
                f"One person may have {self.rows} rows: the losses above are for all rows of one person together."
                + (" Crowds count rows, not people." if self.k else "")
            )
        return [*out, *self.notes]

    def explain(self) -> str:
        """The whole statement in plain words."""
        return "\n".join(self.lines())

    def cost(self, unit: str = "") -> str:
        """The losses in a few words, for legends; with a unit such as "ε" the numbers are multiples of it: "2 ε
        anywhere".
        """
        if self.epsilon is None:
            return "unbounded"

        def times(loss: float) -> str:
            return f"{loss:g}" if not unit else unit if loss == 1 else f"{loss:g} {unit}"

        if self.adjacency == "presence":
            part = f"{times(self.epsilon)} for taking part or not"
            return part if self.anywhere is None else f"{times(self.anywhere)} anywhere, {part}"
        return times(self.epsilon) + {"inside": " inside", "bucket": " inside a bucket"}.get(
            self.adjacency, " anywhere"
        )

    @property
    def delta_words(self) -> str:
        """Of what ``delta`` is a probability, for a cell of a table."""
        if self.adjacency != "inside":
            return f"{self.delta:g}"
        return f"0 for losses; {self.delta:g} for the crowd, per participant" if self.k else "0 for losses; no crowd"

    def to_json(self) -> dict[str, Any]:
        """Numbers and words, ready for JSON; :meth:`from_json` gives the same promise back."""
        words = {
            "between": self.between, "plain": self.in_words(), "sentence": self.sentence(), "text": self.explain(),
        }  # fmt: skip
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
        return values_words(self.own)

    def _regions(self) -> list[str]:
        assert self.epsilon is not None
        values = sum(loss for _, loss in self.releases)
        parts = _filled(self.k, self.delta, self.epsilon - values, values, answers=max(self.answers, 1))
        now = "." if self.smallest is None else f"; now the smallest region has {number_of(self.smallest, 'member')}."
        chosen = [parts["region"], parts["crowd"] + now, parts["few"], parts["lines"]]
        chosen += [parts["values"]] if values else []
        out = [" ".join([*chosen, parts["rest"]]), *self._parts(", after the partition")]
        # The paper's theorem for fixed positions rests on the crowd tests of its rule.
        paper = self.rule == "all" and self.k > 0
        limits = ["paper" if paper else "fixed", *(["map", "others"] if self.k else []), "lies", "several"]
        fields = {"epsilon": f"{self.epsilon:g}", "delta": f"{self.delta:g}", "k": f"{self.k}"}
        return [*out, "Limits: " + " ".join(_fill(LIMITS[name], fields) for name in limits)]

    def _plain(self) -> list[str]:
        if self.epsilon is None:
            return [f"No loss is bounded: this is no differential privacy. It trusts {TRUSTED[self.trust]}."]
        out = [f"Trusted: {TRUSTED[self.trust]}."]
        loss = self.anywhere if self.anywhere is not None else self.epsilon
        whom = f" {EITHER}" if self.trust == "two-servers" else ""
        inside = " inside the bucket; the bucket itself is public" if self.adjacency == "bucket" else ""
        value = ", and their own value" if self.own else ""
        between = BETWEEN["bucket" if self.adjacency == "bucket" else "anywhere"] + self._with_values
        out.append(
            f"Protected: where a person is{inside}{value}. epsilon = {loss:g}, delta = {self.delta:g} between "
            f"{between}, against everyone who sees what is published{whom}: it changes the odds between "
            f"the two by at most a factor e^{loss:g} = {math.exp(min(loss, 700.0)):.3g}."
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


def _fill(text: str, fields: dict[str, str]) -> str:
    """The text with some of its fields; the others stay."""
    for name, value in fields.items():
        text = text.replace("{" + name + "}", value)
    return text


def _filled(k: int, delta: float, epsilon: float, values: float, *, answers: int) -> dict[str, str]:
    fields = {
        "k": f"{k}", "delta": f"{delta:g}", "epsilon": f"{epsilon:g}", "odds": odds_words(epsilon),
        "total": f"{epsilon + values:g}", "total_odds": odds_words(epsilon + values), "answers": f"{answers}",
    }  # fmt: skip
    parts = {name: _fill(text, fields) for name, text in PARTICIPANT.items()}
    return parts if k else parts | {"crowd": parts["no-crowd"], "crowd-late": parts["no-crowd"]}


def participant_parts(task: Task, values: float = 0.0) -> dict[str, str]:
    """The parts of the participant's sentence with the task's numbers: data for a page that plays a device.

    They have the names of :data:`PARTICIPANT`; the fields {members}, {answered} and {inside} are open, and
    ``values`` is the loss of the values that the participant gives. Said are, in this order: region; crowd
    (crowd-late) and now, without a space between them; none if nothing was answered, outside if no answer is inside,
    inside if all are, else mixed; lines if any is inside; values if any was given; rest.
    """
    k = task.k if task.keeps_crowd else 0
    return _filled(k, task.delta, task.epsilon, values, answers=task.answers)


def device_words(task: Task, plan: Plan) -> dict[str, str]:
    """All that a page which plays a device says of the promise: it words nothing itself.

    The :func:`participant_parts`; besides, ``before`` (lines: what is promised, and what is known to whom),
    ``position`` and ``value`` (where each goes), ``spent``, with the field {epsilon}, and ``releases``, one line for
    each of the plan.
    """
    promised = promise(task, plan)
    kept = (
        "Your exact position and your own value never leave" if plan.own_words else "Your exact position never leaves"
    )
    before = [
        promised.in_words(),
        f"What it costs you: {promised.sentence()}",
        f"{kept} this device.",
        "Known to this server alone: that a device at your network address takes part. It is not stored.",
        f"If this server lies about the others, it can lead you to a region of little more than a cell of about "
        f"{_smallest(task)}; the loss inside it is still at most epsilon = {promised.epsilon:g} (delta = 0).",
        *promised.lines(),
    ]
    return participant_parts(task, plan.epsilon) | {
        "before": "\n".join(before),
        "position": "It stays on this device.",
        "value": "It leaves through noise only.",
        "spent": "What you spent: epsilon = {epsilon} (delta = 0) between "
        f"{promised.between}, also if the server lies.",
        "releases": "\n".join(str(release) for release in plan.releases),
    }


def _smallest(task: Task) -> str:
    """The smallest cell that a region may consist of, in words."""
    tree = task.hierarchy
    found = np.maximum(tree.smallest_sides, task.min_side or (0.0,))
    unit = ("label" if found[0] == 1 else "labels") if tree.leaves else side_unit(tree.box)
    return f"{lengths_words(found)} {unit}".rstrip()


def participant_sentence(
    task: Task, *, members: int, answered: int, inside: int, late: bool = False, values: float = 0.0
) -> str:
    """What is promised to one participant, and what it told: the paragraph that devices, page and command line show.

    Parameters
    ----------
    task : Task
    members : int
        n, participants of the roster in its region now.
    answered, inside : int
        q, questions that it answered; a, those of them about lines inside its region.
    late : bool
        Whether it enrolled after the first round, and is counted nowhere.
    values : float
        Loss of the values that it gave.
    """
    if not 0 <= inside <= answered:
        raise InvalidInput(f"inside must be from 0 to the number of answers, {answered}; got {inside}")
    parts = participant_parts(task, values)
    which = "none" if not answered else "outside" if not inside else "inside" if inside == answered else "mixed"
    chosen = ["region", "", which, *(["lines"] if inside else []), *(["values"] if values else []), "rest"]
    fields = {"members": f"{members:,}", "answered": number_of(answered, "question"), "inside": f"{inside:,}"}
    parts[""] = parts["crowd-late" if late else "crowd"] + parts["now"]
    return _fill(" ".join(parts[name] for name in chosen), fields)


def promise(
    task: Task,
    releases: Plan | Iterable[tuple[str, float]] = (),
    *,
    participants: int | None = None,
    smallest: int | None = None,
    mark: Mark | None = None,
) -> Guarantee:
    """What a task promises, with what is released after its partition.

    Parameters
    ----------
    task : Task
    releases : Plan, or (words, loss) of each release
    participants : int, optional
        How many are on the roster, where it is known: fewer than k are a smaller crowd, and the promise says so.
    smallest : int, optional
        Members of the smallest region of a run.
    mark : Mark, optional
        Of a simulation.
    """
    planned = getattr(releases, "releases", None)
    added = tuple(releases) if planned is None else tuple((one.what, one.epsilon) for one in planned)  # type: ignore[arg-type]
    return Guarantee(
        trust="nobody",
        adjacency="inside",
        epsilon=task.epsilon + sum(loss for _, loss in added),
        delta=task.delta if task.keeps_crowd else 1.0,
        k=0 if not task.keeps_crowd else task.k if participants is None else min(task.k, participants),
        answers=task.answers,
        smallest=smallest,
        rule=task.rule,
        releases=added,
        **marked(mark),
        own="" if planned is None else releases.own_words,  # type: ignore[union-attr]
        about=f'Domain: {task.box}. Rule "{task.rule}" ({_RULES[task.rule]}), k = {task.k}, at most {task.max_rounds} '
        "rounds.",
        notes=_notes(task),
    )


def _notes(task: Task) -> tuple[str, ...]:
    notes = []
    if task.tolerate_liars:
        notes.append(f"Up to {task.tolerate_liars} lying devices are not counted in a crowd.")
    if not task.keeps_crowd:
        notes.append(f"A region may hold fewer than {task.k} participants: the printed margin fails for small delta.")
    if task.randomizer.simulation_only:
        notes.append("For simulation only: its noise is in floats, which leak through rounding; devices refuse it.")
    return tuple(notes)
