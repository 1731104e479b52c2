"""The transcript file: what is written is read back, and no damage goes unnoticed."""

from __future__ import annotations

import contextlib
import io
import zlib

import pytest

from semilocal.errors import DamagedFile, InvalidInput
from semilocal.protocol.messages import Query, Seal, decode
from semilocal.transcript.checkpoints import merkle_root
from semilocal.transcript.file import END, EVENTS, MAGIC, MARK, SEAL, Simulation, read_frames, write_events, write_frame
from semilocal.transcript.verify import verify_stream
from tests.helpers.transcript_cases import KEY, campaign, pack

SMALL = campaign(12, k=2, max_depth=4)
FILE = pack(SMALL.events, SMALL.task)


def test_events_come_back_in_order_and_each_seal_holds_their_root() -> None:
    events: list[bytes] = []
    kinds = []
    for frame in read_frames(io.BytesIO(FILE)):
        kinds.append(frame.kind)
        if frame.kind == EVENTS:
            events += frame.events
        elif frame.kind == SEAL:
            point = decode(frame.events[0], Seal).checkpoint
            assert (point.size, point.root) == (len(events), merkle_root(events))
    assert events == SMALL.events
    assert kinds[-1] == END


def test_every_single_bit_of_the_file_matters() -> None:
    """All bits, not a sample: the checksum finds any one of them, and the reader says that the file is damaged."""
    for place in range(len(FILE)):
        for bit in range(8):
            damaged = bytearray(FILE)
            damaged[place] ^= 1 << bit
            with pytest.raises(DamagedFile):
                list(read_frames(io.BytesIO(bytes(damaged))))


def test_every_cut_is_found() -> None:
    for length in range(len(FILE)):
        with pytest.raises(DamagedFile):
            list(read_frames(io.BytesIO(FILE[:length])))
    with pytest.raises(DamagedFile, match="after the end"):
        list(read_frames(io.BytesIO(FILE + b"\x00")))


def test_without_checksums_some_bits_would_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: zlib's own check alone does not see every bit, which is why frames have a checksum."""
    monkeypatch.setattr(zlib, "crc32", lambda data, start=0: 0)
    file = pack(SMALL.events, SMALL.task)
    missed = 0
    for place in range(len(file)):
        for bit in range(8):
            damaged = bytearray(file)
            damaged[place] ^= 1 << bit
            with contextlib.suppress(DamagedFile):
                missed += bool(list(read_frames(io.BytesIO(bytes(damaged)))))
    assert missed > 0


def test_a_frame_that_unpacks_to_more_than_it_says_is_not_unpacked() -> None:
    """A small file must not fill the memory."""
    import struct

    bomb = zlib.compress(bytes(10_000_000))
    header = struct.pack(">cIII", b"E", 0, 100, len(bomb))
    data = FILE[:23] + header + struct.pack(">I", zlib.crc32(bomb, zlib.crc32(header))) + bomb
    with pytest.raises(DamagedFile, match="does not unpack"):
        list(read_frames(io.BytesIO(data)))


def test_reading_needs_memory_for_one_frame_only() -> None:
    """The stream is never asked for more than a frame at a time, and never rewound."""

    class Once(io.RawIOBase):
        def __init__(self) -> None:
            self.left = io.BytesIO(FILE)
            self.most = 0

        def read(self, size: int = -1) -> bytes:
            assert size >= 0
            self.most = max(self.most, size)
            return self.left.read(size)

    stream = Once()
    for _ in read_frames(stream):  # type: ignore[arg-type]
        pass
    assert stream.most < len(FILE)


def test_the_first_event_is_the_task() -> None:
    with pytest.raises(InvalidInput, match="first event must be the task"):
        write_events(io.BytesIO(), [Query(bytes(32), 1, ())], key=KEY)


def test_a_file_of_a_simulation_says_so_and_its_events_and_root_are_the_same() -> None:
    played = campaign(12, k=2, max_depth=4, signed=False)
    plain, marked = (pack(played.events, played.task, key=None, simulation=mark) for mark in (None, Simulation(7)))
    (first, *frames), others = (list(read_frames(io.BytesIO(data))) for data in (marked, plain))
    assert first == (MARK, [Simulation(7).to_bytes()])
    assert frames == others
    found, before = verify_stream(io.BytesIO(marked)), verify_stream(io.BytesIO(plain))
    assert (found.simulation, before.simulation) == (Simulation(7), None)
    assert found.seals == before.seals


def test_a_campaign_has_no_mark() -> None:
    assert {frame.kind for frame in read_frames(io.BytesIO(FILE))} == {EVENTS, SEAL, END}
    assert verify_stream(io.BytesIO(FILE)).simulation is None


def test_a_task_that_pins_a_server_key_takes_no_mark() -> None:
    with pytest.raises(InvalidInput, match="pins a server's key"):
        pack(SMALL.events, SMALL.task, simulation=Simulation())
    with pytest.raises(InvalidInput, match="pins a server's key"):
        write_events(io.BytesIO(), [SMALL.task])


def test_a_mark_that_was_put_into_a_campaign_is_a_difference() -> None:
    found = verify_stream(io.BytesIO(_put(FILE, MARK, [Simulation(7).to_bytes()])))
    assert [item.token for item in found.differences] == ["simulated"]


@pytest.mark.parametrize("events", [[], [Simulation(7).to_bytes()] * 2])
def test_a_mark_is_one(events: list[bytes]) -> None:
    with pytest.raises(DamagedFile, match="unknown kind b'M'"):
        list(read_frames(io.BytesIO(_put(FILE, MARK, events))))


def test_a_mark_comes_first() -> None:
    once = _put(FILE, MARK, [Simulation(7).to_bytes()])
    with pytest.raises(DamagedFile, match="frame 2: the mark of a simulation comes first"):
        list(read_frames(io.BytesIO(_put(once, MARK, [Simulation(7).to_bytes()]))))


@pytest.mark.parametrize("data", [b"", b"\x92\xaasimulation\xff", Simulation(7).to_bytes() + b"\x00"])
def test_a_mark_that_cannot_be_read_is_a_difference(data: bytes) -> None:
    played = campaign(12, k=2, max_depth=4, signed=False)
    found = verify_stream(io.BytesIO(_put(pack(played.events, played.task, key=None), MARK, [data])))
    assert [item.token for item in found.differences] == ["unreadable-event"]


def _put(file: bytes, kind: bytes, events: list[bytes]) -> bytes:
    """The file with one more frame at its beginning."""
    stream = io.BytesIO()
    write_frame(stream, kind, events)
    start = len(MAGIC) + 2
    return file[:start] + stream.getvalue() + file[start:]
