"""The words of a promise: who is trusted, which places are compared, what is public. Each is written once, here.

:data:`PARTICIPANT` is the promise of the local protocol as one paragraph for one reader, in parts with fields. Device
summary, command line and page fill in the same parts. Knows words, and no task.
"""

from __future__ import annotations

import math
from typing import Literal

from ..words import number_of

__all__ = [
    "BETWEEN", "CHANGES", "EITHER", "INSIDE", "IN_WORDS", "LIMITS", "MODELS", "PARTICIPANT", "PROTECTED",
    "SEEDED", "SIMULATED", "TRUSTED", "Adjacency", "Trust", "crowd_words", "loss_words", "losses_words", "odds_words",
    "several_words", "values_words",
]  # fmt: skip

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
    """A crowd of k participants; of as many rows, where one person may have several.

    Examples
    --------
    >>> crowd_words(50, 1e-6)
    'at least 50 in it except with probability 1e-06'
    >>> crowd_words(50, 1e-6, rows=3)
    'at least 50 rows in it, of at least 17 people, except with probability 1e-06'
    """
    people = f" rows in it, of at least {number_of(-(-k // rows), 'person', 'people')}," if rows > 1 else " in it"
    return f"at least {k}{people} except with probability {delta:g}"


def odds_words(epsilon: float) -> str:
    """To how many percent a factor of e^epsilon moves even odds: "73 %" for 1, "98 %" for 4."""
    rest = 1.0 / (1.0 + math.exp(min(epsilon, 700.0)))
    if rest < 1e-8:
        return "almost 100 %"
    digits = max(0, math.ceil(-math.log10(rest)) - 2)
    return f"{100 * (1 - rest):.{digits}f} %"
