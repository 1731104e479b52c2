"""A campaign from the few numbers that a person types, with its promise in words before anything is created.

Knows the forms of campaigns and of pairs of two servers. Knows no HTTP and no store.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ..errors import InvalidInput
from ..geometry.places import as_box
from ..pooled.asked import AskedValue
from ..pooled.task import PooledTask
from ..protocol.column import as_range
from ..protocol.plan import OWN
from ..protocol.policy import foreseen
from ..protocol.promise import Guarantee, promise
from ..protocol.task import ID_BYTES, Task
from ..service.campaign import CampaignForm, ReleaseForm
from ..service.pair.form import PairForm
from ..sharing.pair import Operator, PairTask

# A promise does not depend on who the operators are; the leader fills them in.
_OPERATORS = (
    Operator("leader", "https://leader.invalid", bytes(32), bytes([1]) * 32),
    Operator("helper", "https://helper.invalid", bytes([2]) * 32, bytes([3]) * 32),
)
_ALIASES = {"min_side": "resolution", "upload_seconds": "enrolment_seconds", "axis": "bounds", "answers": "epsilon"}
_PHRASES = {r"\bepsilon of one value\b": "own_epsilon", r"\ba value's name\b": "own", r"\b(box|bounds)\b": "bounds"}


class Draft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the page asks an administrator.

    Attributes
    ----------
    bounds : str
        The name of a place, or "x0,y0,x1,y1".
    k, delta : optional
        The crowd; with trust "nobody".
    resolution : float, optional
        No region gets narrower: kilometres on a map, else units of the axes. The default if left out.
    peer_key : str
        With trust "two-servers": see ``PairForm``.
    own : str
        A number of people's own whose mean is asked for, such as "fare"; empty for none. ``own_low`` and ``own_high``
        are its public range. ``own_epsilon`` is what it costs with trust "nobody"; two servers take half of epsilon.
    """

    name: str
    bounds: str
    epsilon: float
    k: int | None = None
    delta: float | None = None
    trust: Literal["nobody", "two-servers"] = "nobody"
    enrolment: Literal["tokens", "open"] = "tokens"
    capacity: int | None = None
    enrolment_seconds: int | None = None
    window: int = 3600
    quorum: float = 1.0
    resolution: float | None = None
    peer_key: str = ""
    own: str = ""
    own_low: float | None = None
    own_high: float | None = None
    own_epsilon: float | None = None

    @property
    def own_range(self) -> tuple[float, float] | None:
        """The public range of people's own value; None if none is asked for."""
        ends = [number for number in (self.own_low, self.own_high) if number is not None]
        if not self.own:
            if ends or self.own_epsilon is not None:
                raise InvalidInput("own is missing: the name of people's own value; or leave its range and epsilon out")
            return None
        try:
            return as_range(tuple(ends), self.own)
        except InvalidInput as error:
            raise InvalidInput(f"own_low and own_high: {error}") from None


def draft(asked: Draft, *, server_key: bytes) -> dict[str, Any]:
    """The form that creates the campaign, where to send it, what it promises, and what devices would object to.

    Raises
    ------
    InvalidInput
        If there can be no such campaign, with what to change.
    """
    return _pair(asked) if asked.trust == "two-servers" else _campaign(asked, server_key)


def field_of(words: str) -> str:
    """The field of a draft that a refusal is about; empty if it is about none.

    Examples
    --------
    >>> field_of("k must be an integer from 1 to 1048576; got 0"), field_of("no box is named 'atlantis'")
    ('k', 'bounds')
    """
    for word in re.finditer(r"^\w+|(?<=`\$\.)\w+|\w+_\w+", words):  # the first word, or surely the name of a field
        name = _ALIASES.get(word[0], word[0])
        if name in Draft.__struct_fields__:
            return name
    return next((name for phrase, name in _PHRASES.items() if re.search(phrase, words)), "")


def _campaign(asked: Draft, server_key: bytes) -> dict[str, Any]:
    if asked.k is None:
        raise InvalidInput("k is missing: without a trusted operator the crowd of a region protects people")
    if asked.delta is None:
        raise InvalidInput("delta is missing: it says how likely a crowd may be smaller than k")
    task = Task.build(
        as_box(asked.bounds), epsilon=asked.epsilon, delta=asked.delta, k=asked.k, window=asked.window,
        quorum=asked.quorum, server_key=server_key, resolution=asked.resolution,
    )  # fmt: skip
    releases = [ReleaseForm("counts")]
    if (limits := asked.own_range) is not None:
        if asked.own_epsilon is None:
            raise InvalidInput("own_epsilon is missing: what the mean of people's own value may cost")
        releases.append(ReleaseForm("mean", f"{OWN}{asked.own}", limits, asked.own_epsilon))
    form = CampaignForm(asked.name, task, tuple(releases), asked.enrolment, asked.capacity, asked.enrolment_seconds)
    plan = form.build().plan
    final = msgspec.structs.replace(task, chain=bytes(ID_BYTES))  # the server adds its hash chain
    warned = [f"{_sentence(reason)} {_sentence(change)}" for _, reason, change in foreseen(final, plan)]
    return {**_answer("/tasks", form, promise(task, plan)), "warnings": warned}


def _pair(asked: Draft) -> dict[str, Any]:
    value = None
    if (limits := asked.own_range) is not None:
        value = AskedValue(name=asked.own, low=limits[0], high=limits[1], mean="cells")
    pooled = PooledTask.build(
        as_box(asked.bounds), epsilon=asked.epsilon if value is None else asked.epsilon / 2, trust="two-servers",
        resolution=asked.resolution,
    )  # fmt: skip
    pair = PairTask(pooled, *_OPERATORS, 0, value or msgspec.UNSET)
    form = PairForm(
        asked.name, pooled, asked.peer_key, 0, asked.enrolment, asked.capacity, asked.enrolment_seconds, value,
    )  # fmt: skip
    return {**_answer("/pairs", form, pair.promise()), "warnings": []}


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _answer(path: str, form: CampaignForm | PairForm, found: Guarantee) -> dict[str, Any]:
    return {"path": path, "form": msgspec.to_builtins(form), "promise": found.to_json()}
