"""Small campaigns played with real participants, for the tests of transcripts and verification."""

from __future__ import annotations

import io
from dataclasses import dataclass

import msgspec
import numpy as np

from semilocal import Participant, Task
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import encode
from semilocal.protocol.plan import Plan, Release
from semilocal.testing import ALLOW_ALL, play, unit_box
from semilocal.transcript.checkpoints import public_key
from semilocal.transcript.file import Simulation, TranscriptWriter

KEY = bytes(range(32))


@dataclass(frozen=True)
class Played:
    """Events in order, and what each device knows."""

    task: Task
    plan: Plan
    events: list[bytes]
    devices: list[Participant]
    secrets: list[bytes]
    points: np.ndarray


def tag(event: bytes) -> str:
    """What an event is."""
    first = msgspec.msgpack.decode(event)
    return "task" if isinstance(first, dict) else str(first[0])


def campaign(
    n: int = 60, *, seed: int = 9, rule: str = "cut", signed: bool = True, values: bool = True, max_depth: int = 12,
    max_rounds: int | None = None, k: int = 5, epsilon: float = 3.0, chained: bool = True,
) -> Played:  # fmt: skip
    """A campaign of n devices with one release of values."""
    rng = np.random.default_rng(seed)
    chain = HashChain(bytes(32), 1000 if max_rounds is None else max_rounds)
    task = Task.build(
        unit_box(), epsilon=epsilon, delta=0.05, k=k, rule=rule, max_depth=max_depth,  # type: ignore[arg-type]
        max_rounds=max_rounds, server_key=public_key(KEY) if signed else b"", chain=chain.end if chained else b"",
    )  # fmt: skip
    points = np.clip(rng.normal(0.4, 0.2, (n, 2)), 0.0, 1.0)
    secrets = [rng.bytes(32) for _ in range(n)]
    releases = (Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0]), Release("counts"))
    plan = Plan(task.id, releases if values else ())
    devices = [
        Participant(task, point, secret, ALLOW_ALL, plan=plan) for point, secret in zip(points, secrets, strict=True)
    ]
    played = play(task, devices, plan=plan, chain=chain if chained else None)
    return Played(task, plan, [encode(event) for event in played.events], devices, secrets, points)


def pack(events: list[bytes], task: Task, *, key: bytes | None = KEY, simulation: Simulation | None = None) -> bytes:
    """A file of these events, sealed after every closing by the holder of the key."""
    stream = io.BytesIO()
    rounds = 0
    with TranscriptWriter(stream, task, key=key, simulation=simulation) as writer:
        for event in events[1:]:
            writer.add([event])
            if tag(event) in ("closed", "value-closed"):
                rounds += 1
                writer.close_round(rounds)
    return stream.getvalue()


def repack(events: list[bytes], original: bytes) -> bytes:
    """A file of these events with the seals of another file in the same places: what a forger without a key can do."""
    from semilocal.transcript.file import END, SEAL, Frame, read_frames, write_frame

    frames: list[Frame] = list(read_frames(io.BytesIO(original)))
    stream = io.BytesIO()
    stream.write(original[:23])
    position = 0
    for frame in frames:
        if frame.kind == SEAL:
            write_frame(stream, SEAL, frame.events)
        elif frame.kind == END:
            write_frame(stream, END, [])
        else:
            count = len(frame.events)
            write_frame(stream, frame.kind, events[position : position + count])
            position += count
    return stream.getvalue()
