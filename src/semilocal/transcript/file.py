"""The transcript as a file (``.slt``): every event in order, in compressed frames that can be read as a stream.

    file     magic "semilocal transcript\\n", version (2 bytes), frames
    frame    kind (1 byte), events (4), raw bytes (4), packed bytes (4), CRC-32 of all that but itself (4), payload
    payload  zlib of: lengths of the events (4 bytes each), the events' bytes one after the other
    kinds    "M" the mark of a simulation, first or not at all; "E" events of the transcript; "S" the seal of the
             round just closed; "Z" the end, empty

All numbers are big-endian. The checksum finds damage of the file; it proves nothing against its writer: that is
what the seals, and :mod:`semilocal.transcript.verify`, are for.

Knows frames. Judges no events.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import BinaryIO, NamedTuple

import msgspec

from ..errors import DamagedFile, InvalidInput
from ..protocol.messages import Checkpoint, Closed, Event, Seal, ValueClosed, encode
from ..protocol.task import Task, read_canonical
from .checkpoints import MerkleLog, seal_round

MAGIC = b"semilocal transcript\n"
VERSION = 3
MARK, EVENTS, SEAL, END = b"M", b"E", b"S", b"Z"
MAX_RAW = 1 << 26  # bytes of one frame before packing: what a reader must be ready to hold
_PER_FRAME = 1 << 15
_HEADER = struct.Struct(">cIII")
_CHECK = struct.Struct(">I")


class Simulation(msgspec.Struct, frozen=True, array_like=True, tag="simulation", forbid_unknown_fields=True):
    """One program played all participants, so the person who ran it is a curator.

    The mark stands beside the events, not among them: the same events have the same root with and without it. It tells
    an honest reader what the file is. It proves nothing against its writer, who could leave it out.
    """

    seed: int | None = None  # of the noise; None if it came from the operating system

    def __post_init__(self) -> None:
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise InvalidInput(f"seed must be a whole number from 0 to 2^63 - 1; got {self.seed}")

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Simulation:
        """Read what :meth:`to_bytes` wrote; refuses everything else."""
        return read_canonical(data, _decoder, cls.__name__)

    @property
    def words(self) -> str:
        """For a person.

        Examples
        --------
        >>> Simulation(7).words.partition(":")[0]
        'This is a simulation with seed 7, not a collection'
        """
        if self.seed is None:
            return (
                "This is a simulation, not a collection: one program held all positions, so the person who ran it is a "
                "curator."
            )
        return (
            f"This is a simulation with seed {self.seed}, not a collection: one program held all positions, and its "
            "noise can be repeated, so it protects nobody."
        )


_decoder = msgspec.msgpack.Decoder(Simulation)


class Frame(NamedTuple):
    """One frame."""

    kind: bytes  # `b"M"`, `b"E"`, `b"S"` or `b"Z"`
    events: list[bytes]


class TranscriptWriter:
    """Writes events and seals as they come; use it in a ``with`` block, which writes the end.

    The stream is written from its present position and never read back. The task is the first event; ``close_round``
    signs with the key (Ed25519). A mark of a simulation is refused if the task pins a server's key: such events are a
    campaign's.
    """

    def __init__(
        self, stream: BinaryIO, task: Task, *, key: bytes | None = None, simulation: Simulation | None = None
    ) -> None:
        if simulation is not None and task.server_key:
            raise InvalidInput(
                "the task pins a server's key, so its transcript is a campaign's and takes no mark of a simulation; "
                "give the key that signs it, or simulate a task without one"
            )
        self._stream, self._task, self._key = stream, task, key
        self._waiting: list[bytes] = []
        self._bytes = 0
        self.log = MerkleLog()
        self.head = task.id
        stream.write(MAGIC + VERSION.to_bytes(2, "big"))
        if simulation is not None:
            write_frame(stream, MARK, [simulation.to_bytes()])
        self.add([encode(task)])

    def add(self, events: Iterable[bytes]) -> None:
        """Add events, given their canonical bytes."""
        for data in events:
            if self._bytes + len(data) + 4 > MAX_RAW or len(self._waiting) == _PER_FRAME:
                self._flush()
            if len(data) + 4 > MAX_RAW:
                raise InvalidInput(f"an event has {len(data)} bytes; a frame holds at most {MAX_RAW - 4}")
            self._waiting.append(data)
            self._bytes += len(data) + 4

    def close_round(self, round_: int) -> Seal:
        """Seal everything written so far, with your own key or none."""
        self._flush()
        seal = seal_round(self.head, Checkpoint(self._task.id, round_, self.log.size, self.log.root()), key=self._key)
        self.put_seal(seal)
        return seal

    def put_seal(self, seal: Seal) -> None:
        """Write a seal as it was received."""
        self._flush()
        write_frame(self._stream, SEAL, [seal.to_bytes()])
        self.head = seal.head

    def finish(self) -> None:
        """Write the end; a file without it was cut off."""
        self._flush()
        write_frame(self._stream, END, [])

    def _flush(self) -> None:
        if self._waiting:
            self.log.add(self._waiting)
            write_frame(self._stream, EVENTS, self._waiting)
        self._waiting, self._bytes = [], 0

    def __enter__(self) -> TranscriptWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.finish()


def write_events(
    stream: BinaryIO, events: Iterable[Event], *, key: bytes | None = None, seed: int | None = None
) -> bytes:
    """Write a whole transcript, with a seal after every closing; returns the chain's head.

    The task comes first, as in ``Run.events``. Without a key (Ed25519; the task pins its public half) seals are not
    signed, and the file is marked as a simulation, with the seed of its noise if there is one.
    """
    if key is not None and seed is not None:
        raise InvalidInput(
            "a transcript of seeded noise is a simulation's, and no server signs it; leave key or seed out"
        )
    iterator = iter(events)
    task = next(iterator, None)
    if not isinstance(task, Task):
        raise InvalidInput(f"the first event must be the task; got {type(task).__name__}")
    simulation = Simulation(seed) if key is None else None
    with TranscriptWriter(stream, task, key=key, simulation=simulation) as writer:
        for event in iterator:
            writer.add([encode(event)])
            if isinstance(event, Closed | ValueClosed):
                writer.close_round(event.round)
        return writer.head


def write_frame(stream: BinaryIO, kind: bytes, events: Sequence[bytes]) -> None:
    """Write one frame, whatever it holds; :class:`TranscriptWriter` writes files that verify."""
    raw = struct.pack(f">{len(events)}I", *map(len, events)) + b"".join(events)
    packed = zlib.compress(raw, 6)
    header = _HEADER.pack(kind, len(events), len(raw), len(packed))
    stream.write(header + _CHECK.pack(zlib.crc32(packed, zlib.crc32(header))) + packed)


def read_frames(stream: BinaryIO) -> Iterator[Frame]:
    """The frames of a file one by one, the end included; memory is that of one frame. Refuses the first that cannot be
    read.
    """
    start = stream.read(len(MAGIC) + 2)
    if start[: len(MAGIC)] != MAGIC:
        raise DamagedFile("this is not a transcript: it does not begin like one")
    if start[len(MAGIC) :] != VERSION.to_bytes(2, "big"):
        version = int.from_bytes(start[len(MAGIC) :], "big")
        raise DamagedFile(f"the file's version is {version}; this program reads version {VERSION}")
    number = 0
    while True:
        number += 1
        frame = _read_frame(stream, number)
        yield frame
        if frame.kind == END:
            if stream.read(1):
                raise DamagedFile(f"there are bytes after the end (frame {number})")
            return


def _read_frame(stream: BinaryIO, number: int) -> Frame:
    head = stream.read(_HEADER.size + _CHECK.size)
    if len(head) < _HEADER.size + _CHECK.size:
        raise DamagedFile(f"the file is cut off: frame {number} is missing or has no full header")
    header = head[: _HEADER.size]
    kind, count, raw_size, packed_size = _HEADER.unpack(header)
    if raw_size > MAX_RAW or packed_size > MAX_RAW + (MAX_RAW >> 8) or count * 4 > raw_size:
        raise DamagedFile(f"frame {number} is damaged: its header has impossible sizes")
    packed = stream.read(packed_size)
    if len(packed) < packed_size:
        raise DamagedFile(f"the file is cut off in frame {number}")
    if zlib.crc32(packed, zlib.crc32(header)) != _CHECK.unpack(head[_HEADER.size :])[0]:
        raise DamagedFile(f"frame {number} is damaged: its checksum does not match")
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, raw_size + 1)
    except zlib.error as error:
        raise DamagedFile(f"frame {number} cannot be unpacked: {error}") from None
    if len(raw) != raw_size or not unpacker.eof or unpacker.unused_data:
        raise DamagedFile(f"frame {number} does not unpack to the {raw_size} bytes that it says")
    bounds = list(accumulate(struct.unpack_from(f">{count}I", raw), initial=4 * count))
    if bounds[-1] != raw_size:
        raise DamagedFile(f"frame {number}: the lengths of its events do not add up")
    if kind not in (MARK, EVENTS, SEAL, END) or (kind in (MARK, SEAL) and count != 1) or (kind == END and count):
        raise DamagedFile(f"frame {number}: unknown kind {kind!r} with {count} events")
    if kind == MARK and number > 1:
        raise DamagedFile(f"frame {number}: the mark of a simulation comes first, or not at all")
    return Frame(kind, [raw[first:last] for first, last in pairwise(bounds)])
