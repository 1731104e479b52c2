"""Verification: replays a transcript and names everything that does not follow.

    what is checked        tokens of differences
    the file               damaged-file, unreadable-event, unexpected-event, unsealed-events
    queries, verdicts      wrong-query, wrong-verdict
    tallies                missing-report, extra-report, wrong-tally (as many reports, other sums)
    reports                bad-report, reported-twice, wrong-order, unknown-cell, joined-late, wrong-path, bad-answer
    values                 wrong-plan, wrong-value-query, wrong-values, wrong-region
    checkpoints            missing-seal, wrong-seal, wrong-size, wrong-root, wrong-chain, not-signed, bad-signature
    one's own vault        not-a-member, own-report-missing, own-report-changed, foreign-report, device-refuses,
                           other-history
    another transcript     other-history

Regions below k are noted, not counted as differences: the promise allows them with probability delta.
The replay itself is :mod:`semilocal.transcript.replay`. Knows the public events, and a vault if it is given one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from ..device.vault import Contents, Membership, unpack
from ..errors import DamagedFile, ServerViolation
from ..protocol.messages import Closed, Query, ValueQuery, decode, encode
from ..protocol.participant import Participant, Policy
from ..protocol.plan import Plan
from ..protocol.task import Task
from ..protocol.values import respond_value
from .file import read_frames
from .findings import Difference, Verification
from .replay import Replay

__all__ = ["Difference", "Verification", "compare_histories", "read_vault", "verify_file", "verify_stream"]

_EVERYTHING = Policy(max_epsilon=float("inf"), min_k=1, allow_no_crowd=True, allow_simulation=True)


def verify_file(path: str | os.PathLike[str], *, vault: Contents | None = None) -> Verification:
    """Verify a transcript file.

    Parameters
    ----------
    path : path
    vault : Contents, optional
        Also check that the transcript holds exactly what the owner of this vault sent: every report is derived again
        from the secret and the position and compared byte for byte; closings and the last checkpoint are compared
        with those that the device pinned.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from semilocal import Box, Task, simulate
    >>> from semilocal.transcript.file import write_transcript
    >>> rng = np.random.default_rng(5)
    >>> task = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.01, k=10)
    >>> run = simulate(rng.random((500, 1)), task, rng=rng, detail="reports")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_transcript(f"{folder}/t.slt", run.events)
    ...     verify_file(f"{folder}/t.slt").sound
    True
    """
    with Path(path).open("rb") as stream:
        return verify_stream(stream, vault=vault)


def verify_stream(stream: BinaryIO, *, vault: Contents | None = None) -> Verification:
    """As :func:`verify_file`, from an open binary stream."""
    replay = Replay(None if vault is None else vault.secret)
    found = replay.found
    try:
        for frame in read_frames(stream):
            replay.frame(frame)
    except DamagedFile as error:
        found.add("damaged-file", None, str(error))
    replay.finish()
    if vault is not None and found.task is not None:
        membership = vault.membership(found.task.id)
        if membership is None:
            found.add("not-a-member", None, "the vault holds no membership in this task")
        else:
            _compare_pins(found, membership)
            _compare_reports(found, found.task, membership, vault.secret)
    return found


def compare_histories(one: Verification, other: Verification) -> list[Difference]:
    """Where two transcripts of the same task part: a server that shows two histories.

    One may be longer than the other; up to the last round that both have, they must have the same chain of checkpoints.
    """
    if one.task is None or other.task is None or one.task.id != other.task.id:
        return [Difference("other-history", None, "the two transcripts are about different tasks")]
    for here, there in zip(one.seals, other.seals, strict=False):
        if here.head != there.head:
            both = " Both are signed: that proves it." if here.signature and there.signature else ""
            what = f"two histories: the checkpoints of the two transcripts are different from here on.{both}"
            return [Difference("other-history", here.checkpoint.round, what)]
    return []


# -- one's own reports -------------------------------------------------------------------------------------------


def read_vault(path: str | os.PathLike[str]) -> Contents:
    """The contents of a vault, without taking its lock or writing anything."""
    place = Path(path)
    return unpack(place.read_bytes(), place)


def _compare_pins(found: Verification, membership: Membership) -> None:
    """The history that the device saw, against the transcript's.

    A device that has its region does not follow the rounds of others, so its closings may leave some out; they must be
    in the transcript all the same, in that order. (A closing names its round.)
    """
    followed = 0
    for mine in membership.closings:
        if followed >= len(found.closings):
            found.add(
                "other-history", followed + 1,
                f"the device followed {len(membership.closings)} closings, the transcript has {len(found.closings)}",
            )  # fmt: skip
            return
        if mine not in found.closings[followed:]:
            found.add("other-history", followed + 1, "the device was shown another closing than the transcript has")
            return
        followed = found.closings.index(mine, followed) + 1
    if membership.checkpoint and membership.checkpoint not in {seal.checkpoint.root for seal in found.seals}:
        found.add("other-history", None, "the checkpoint that the device pinned is not in the transcript")


def _compare_reports(found: Verification, task: Task, membership: Membership, secret: bytes) -> None:
    """What the device must have sent, against what the transcript holds under its name."""
    assert found.own is not None
    expected = _expected(found, task, membership, secret)
    for round_, mine in expected.items():
        theirs = found.own.reports.get(round_, [])
        if not theirs:
            found.add("own-report-missing", round_, "your report is not in the transcript")
        elif mine not in theirs:
            found.add("own-report-changed", round_, "the transcript has another report under your name")
        elif len(theirs) > 1:
            found.add("foreign-report", round_, f"{len(theirs) - 1} more reports under your name", len(theirs) - 1)
    for round_ in sorted(set(found.own.reports) - set(expected)):
        found.add("foreign-report", round_, "a report under your name that your device never sent")
    found.notes.append(f"under your name: {len(found.own.reports)} reports; sent by your device: {len(expected)}")


def _expected(found: Verification, task: Task, membership: Membership, secret: bytes) -> dict[int, bytes]:
    """The reports of the device by round, derived again."""
    assert found.own is not None
    device = Participant(task, membership.position, secret, _EVERYTHING)
    answered = membership.state.answered
    reports: dict[int, bytes] = {}
    indices = {index for index, _ in membership.released}
    for round_, data in found.own.messages:
        try:
            if data[1:7] == b"\xa5query":
                if len(reports) < answered:
                    report = device.receive(decode(data, Query))
                    if report is not None:
                        reports[round_] = encode(report)
            elif data[1:8] == b"\xa6closed":
                device.receive(decode(data, Closed))
            elif data[1:13] == b"\xabvalue-query":
                value = decode(data, ValueQuery)
                if value.index in indices and found.plan is not None and device.region is not None:
                    reports[round_] = _value_report(value, found.plan, task, membership, secret, device)
        except ServerViolation as error:
            found.add("device-refuses", round_, f"your device would refuse this: {error.reason}")
            break
    return reports


def _value_report(
    query: ValueQuery, plan: Plan, task: Task, membership: Membership, secret: bytes, device: Participant
) -> bytes:
    assert device.region is not None
    report = respond_value(
        query, plan, task=task, secret=secret, pseudonym=device.pseudonym, region=device.region,
        point=membership.position, first_round=query.round - plan.asked.index(query.index),
    )  # fmt: skip
    return encode(report)
