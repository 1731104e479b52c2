"""Verification: replays a transcript and names everything that does not follow.

    what is checked        tokens of differences
    the file               damaged-file, unreadable-event, unexpected-event, unsealed-events
    queries                wrong-query, wrong-draw, weak-threshold
    reports                reported-twice, wrong-order, other-task, other-round, unknown-region, other-region,
                           not-drawn, bad-answer
    slices and sums        missing-report, extra-report, wrong-slice (as many reports, others), wrong-tally
    verdicts               wrong-verdict, broken-chain (the server's part of the draws)
    where and when         other-choice: the rule would have chosen otherwise; no promise depends on it
    values                 wrong-plan, wrong-value-query, wrong-values
    the mark               simulated
    checkpoints            missing-seal, wrong-seal, wrong-size, wrong-root, wrong-chain, not-signed, bad-signature
    another transcript     other-history

Regions below k are noted, not counted as differences: the promise allows them with probability delta.
The replay itself is :mod:`semilocal.transcript.replay`. Knows the public events alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from ..errors import DamagedFile
from .file import read_frames
from .findings import Difference, Verification
from .replay import Replay

__all__ = ["Difference", "Verification", "compare_histories", "verify_file", "verify_stream"]


def verify_file(path: str | os.PathLike[str]) -> Verification:
    """Verify a transcript file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from semilocal import Box, Task, simulate
    >>> from semilocal.transcript.file import write_transcript
    >>> rng = np.random.default_rng(5)
    >>> task = Task.build(Box((0,), (1,)), epsilon=1.0, delta=0.01, k=10)
    >>> run = simulate(rng.random((100, 1)), task, secrets=[rng.bytes(32) for _ in range(100)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_transcript(f"{folder}/t.slt", run.events)  # seed= if there is one
    ...     found = verify_file(f"{folder}/t.slt")
    >>> found.sound, found.simulation
    (True, Simulation(seed=None))
    """
    with Path(path).open("rb") as stream:
        return verify_stream(stream)


def verify_stream(stream: BinaryIO) -> Verification:
    """As :func:`verify_file`, from an open binary stream."""
    replay = Replay()
    found = replay.found
    try:
        for frame in read_frames(stream):
            replay.frame(frame)
            if replay.over:
                break
    except DamagedFile as error:
        found.add("damaged-file", None, str(error))
    replay.finish()
    return found


def compare_histories(one: Verification, other: Verification) -> list[Difference]:
    """Where two transcripts of the same task part: a server that shows two histories.

    One may be longer than the other; up to the last round that both have, they must have the same chain of checkpoints.
    """
    if one.task is None or other.task is None or one.task.id != other.task.id:
        return [Difference("other-history", None, ["the two transcripts are about different tasks"])]
    for here, there in zip(one.seals, other.seals, strict=False):
        if here.head != there.head:
            both = " Both are signed: that proves it." if here.signature and there.signature else ""
            what = f"two histories: the checkpoints of the two transcripts are different from here on.{both}"
            return [Difference("other-history", here.checkpoint.round, [what])]
    if one.simulation != other.simulation:
        return [Difference("other-history", None, ["the two transcripts do not have the same mark of a simulation"])]
    return []
