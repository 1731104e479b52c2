"""A campaign from the few numbers that a person types, with its promise in words before anything is created.

Knows the forms of a campaign. Knows no HTTP and no store.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..geometry.places import parse_bounds
from ..protocol.promise import promise
from ..protocol.task import Task
from ..service.campaign import CAMPAIGN_TRIMS, CampaignForm, ReleaseForm

__all__ = ["Draft", "draft"]


class Draft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the page asks an administrator.

    Attributes
    ----------
    bounds : str
        The name of a place, or "x0,y0,x1,y1".
    """

    name: str
    bounds: str
    epsilon: float
    k: int
    delta: float
    enrolment: Literal["tokens", "open"] = "tokens"
    capacity: int | None = None
    enrolment_seconds: int | None = None
    window: int = 3600
    quorum: float = 1.0


def draft(asked: Draft, *, server_key: bytes) -> dict[str, Any]:
    """The form that creates the campaign, and what it promises.

    Raises
    ------
    InvalidInput
        If there can be no such campaign, with what to change.
    """
    task = Task.build(
        parse_bounds(asked.bounds), epsilon=asked.epsilon, delta=asked.delta, k=asked.k, max_trims=CAMPAIGN_TRIMS,
        window=asked.window, quorum=asked.quorum, server_key=server_key,
    )  # fmt: skip
    form = CampaignForm(
        asked.name, task, (ReleaseForm("counts"),), asked.enrolment, asked.capacity, asked.enrolment_seconds
    )
    campaign = form.build()
    return {"form": msgspec.to_builtins(form), "promise": promise(task, campaign.plan).to_json()}
