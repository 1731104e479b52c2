"""A whole crowd of devices that upload to two servers, in one process, for tests, demonstrations and measurements.

Every device has its own vault and secret and seals its own upload; they share connections and one copy of the task. It
holds everybody's position: never use it with positions that are not yours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec
import numpy.typing as npt

from ...arrays import short_repr
from ...protocol.policy import Policy
from ...sharing.pair import EXPERIMENTAL
from ..channel import Channels
from ..transport import LeanWire
from ..upload import Uploader
from ..upload_summary import UploadSummary
from .many import AT_ONCE, own_values, run_many, story

__all__ = ["UploadsResult", "run_uploads"]


class UploadsResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a crowd of uploads ended.

    Attributes
    ----------
    summaries : tuple of UploadSummary
        Of the devices that did not fail, in the order of the points.
    failures : tuple of str
        Devices that ended with an error, in words.
    seconds : float
    """

    summaries: tuple[UploadSummary, ...]
    failures: tuple[str, ...]
    seconds: float

    __repr__ = short_repr

    @property
    def uploaded(self) -> int:
        """Devices that hold a signed receipt."""
        return sum(summary.outcome == "uploaded" for summary in self.summaries)

    def text(self) -> str:
        """Outcomes and losses, in plain words."""
        lines = story(self.summaries, self.failures, self.uploaded, self.seconds)
        pairs = [summary.task for summary in self.summaries if summary.outcome == "uploaded"]
        if pairs and pairs[0] is not None:
            lines.append(f"Loss of every device: {pairs[0].loss_words}, also against either operator alone.")
            lines += [pairs[0].collusion, EXPERIMENTAL]
        return "\n".join(lines)


async def run_uploads(
    url: str, points: npt.ArrayLike, *, policy: Policy, tokens: Sequence[str] = (), connect: Channels | None = None,
    folder: str | os.PathLike[str] | None = None, entropy: Callable[[int], bytes] = os.urandom, show: bool = True,
    new_server: bool = False, values: npt.ArrayLike | None = None, allow_bucket: bool = False,
) -> UploadsResult:  # fmt: skip
    """Run one device per point until all of them have uploaded.

    Parameters
    ----------
    url : str
        ``https://server/tasks/{id}`` of either operator.
    points : array_like, shape (n, d)
        In the order of the task's axes.
    policy : Policy
        The same for all.
    tokens : sequence of str
        One per point, or none where enrolment is open.
    connect : Channels, optional
        Made and closed here if left out.
    folder : path, optional
        Where the vaults lie; in memory if left out.
    entropy : callable
        Gives n secret random bytes.
    show : bool
        Whether to show progress on stderr.
    new_server : bool
        As for :class:`Uploader`.
    values : array_like, shape (n,), optional
        The devices' own values, if the task asks for one.
    allow_bucket : bool
        As for :class:`Uploader`.
    """
    each = iter(own_values(values, points))
    channels = Channels(LeanWire, at_once=AT_ONCE, kept=folder is not None) if connect is None else connect
    try:
        ends = await run_many(
            lambda vault, position, token: Uploader(
                url, vault, connect=channels, position=position, policy=policy, token=token,
                value=next(each), new_server=new_server, allow_bucket=allow_bucket,
            ),
            points, tokens, delivered=lambda: channels.delivered, folder=folder, entropy=entropy, show=show,
        )  # fmt: skip
    finally:
        if connect is None:
            await channels.aclose()
    return UploadsResult(summaries=tuple(ends.summaries), failures=tuple(ends.failures), seconds=ends.seconds)
