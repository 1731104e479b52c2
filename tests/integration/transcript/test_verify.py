"""Verification: honest transcripts pass, and every planted fault is found and called by its name.

A fault is planted either by the server, who can seal whatever it likes, or by a forger, who has to keep the seals.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semilocal import Box, Task, simulate
from semilocal.device.vault import Contents, read_vault
from semilocal.device.vault import pack as pack_vault
from semilocal.protocol.messages import Closed, Query, Report, ValueClosed, ValueReport, decode, encode
from semilocal.transcript.file import write_transcript
from semilocal.transcript.mark import Simulation
from semilocal.transcript.verify import Verification, compare_histories, verify_file, verify_stream
from tests.helpers.transcript_cases import KEY, Played, campaign, pack, repack, tag

PLAYED = campaign()
VALUES = 1 + sum(tag(event) == "closed" for event in PLAYED.events)  # the round of values
FILE = pack(PLAYED.events, PLAYED.task)
SEAL_TOKENS = {
    "wrong-seal", "wrong-size", "wrong-root", "wrong-chain", "not-signed", "bad-signature", "unsealed-events",
}  # fmt: skip


def judge(data: bytes, vault: Contents | None = None) -> Verification:
    return verify_stream(io.BytesIO(data), own=None if vault is None else vault.own())


def tokens(found: Verification) -> set[str]:
    return {item.token for item in found.differences}


def places(played: Played, kind: str, *, round_: int | None = None) -> list[int]:
    return [
        i for i, event in enumerate(played.events)
        if tag(event) == kind and (round_ is None or msgspec.msgpack.decode(event)[2] == round_)
    ]  # fmt: skip


# -- honest ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {}, {"rule": "all"}, {"rule": "each"}, {"randomizer": "discrete-laplace"}, {"max_rounds": 2}, {"values": False},
        {"seed": 9, "n": 200},
    ],
)  # fmt: skip
def test_honest_transcripts_pass_with_and_without_every_vault(options: dict[str, object]) -> None:
    played = campaign(**options)  # type: ignore[arg-type]
    data = pack(played.events, played.task)
    found = judge(data)
    assert found.sound, found.lines()
    assert found.signatures == len(found.seals) == found.rounds
    assert found.events == len(played.events)
    for index in range(0, len(played.devices), 7):
        assert judge(data, played.vault(index)).sound


def test_simulated_transcripts_pass(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    task = Task.build(Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=20)
    run = simulate(rng.random((3000, 2)), task, rng=rng, detail="reports", dropout=0.01)
    write_transcript(tmp_path / "t.slt", run.events)
    found = verify_file(tmp_path / "t.slt")
    assert found.sound, found.lines()
    assert found.lines()[0].startswith("This is a simulation, not a collection: ")
    assert "pins no key" in found.notes[-1] or "pins no key" in found.notes[0]


def test_a_transcript_without_the_mark_of_another_one_is_another_history() -> None:
    played = campaign(12, k=2, max_depth=4, signed=False)
    files = [
        pack(played.events, played.task, key=None, simulation=mark) for mark in (None, Simulation(), Simulation(7))
    ]
    plain, marked, seeded = map(judge, files)
    assert compare_histories(marked, marked) == []
    for one, other in ((plain, marked), (marked, plain), (marked, seeded)):
        assert [item.token for item in compare_histories(one, other)] == ["other-history"]


def test_regions_below_k_are_noted() -> None:
    played = campaign(4, k=5, values=False)
    found = judge(pack(played.events, played.task))
    assert found.sound
    assert any("fewer than k = 5" in note for note in found.notes)


# -- faults planted by the server, who seals them -----------------------------------------------------------------


def edited(event: bytes, **changes: object) -> bytes:
    kinds: dict[str, Any] = {"query": Query, "report": Report, "closed": Closed}
    values: dict[str, Any] = {"value-report": ValueReport, "value-closed": ValueClosed}
    name = tag(event)
    if name in values:
        return encode(msgspec.structs.replace(decode(event, values[name]), **changes))
    return encode(msgspec.structs.replace(decode(event, kinds[name]), **changes))


def drop_report(events: list[bytes], played: Played) -> None:
    del events[places(played, "report", round_=2)[3]]


def add_report(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    report = decode(events[at], Report)
    name = (int.from_bytes(report.pseudonym, "big") + 1).to_bytes(16, "big")
    events.insert(at + 1, edited(events[at], pseudonym=name))


def repeat_report(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    events.insert(at, events[at])


def change_answer(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    events[at] = edited(events[at], answer=1 - decode(events[at], Report).answer)  # type: ignore[operator]


def impossible_answer(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    events[at] = edited(events[at], answer=7)


def change_verdict(events: list[bytes], played: Played) -> None:
    at = places(played, "closed", round_=1)[0]
    events[at] = edited(events[at], kept=((),))


def change_query(events: list[bytes], played: Played) -> None:
    at = places(played, "query", round_=3)[0]
    events[at] = edited(events[at], cells=decode(events[at], Query).cells[1:])


def swap_reports(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    events[at], events[at + 1] = events[at + 1], events[at]


def change_path(events: list[bytes], played: Played) -> None:
    """One participant changes to another cell of the frontier; the closing is made to fit."""
    at = places(played, "report", round_=3)[0]
    report = decode(events[at], Report)
    asked = decode(events[places(played, "query", round_=3)[0]], Query)
    other = next(cell for cell in asked.cells if cell // 2 != report.cell // 2)
    events[at] = edited(events[at], cell=other)


def other_values(events: list[bytes], played: Played) -> None:
    at = places(played, "value-closed")[0]
    closed = decode(events[at], ValueClosed)
    row = closed.counts[0]
    (first, count), (second, more) = row[0], row[1]
    changed = (((first, count + 1), (second, more - 1)) if more > 1 else ((first, count + more),)) + row[2:]
    events[at] = edited(events[at], counts=(changed, *closed.counts[1:]))


def drop_value(events: list[bytes], played: Played) -> None:
    del events[places(played, "value-report")[3]]


def foreign_region(events: list[bytes], played: Played) -> None:
    at = places(played, "value-report")[3]
    report = decode(events[at], ValueReport)
    other = next(device.region for device in played.devices if device.region not in (None, report.cell))
    events[at] = edited(events[at], cell=other)


FAULTS: list[tuple[Callable[[list[bytes], Played], None], str, int]] = [
    (drop_report, "missing-report", 2), (add_report, "extra-report", 2), (repeat_report, "reported-twice", 2),
    (change_answer, "wrong-tally", 2), (impossible_answer, "bad-answer", 2), (change_verdict, "wrong-verdict", 1),
    (change_query, "wrong-query", 3), (swap_reports, "wrong-order", 2), (change_path, "wrong-path", 3),
    (other_values, "wrong-values", VALUES), (drop_value, "missing-report", VALUES),
    (foreign_region, "wrong-region", VALUES),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "token", "round_"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_what_the_server_did_wrong_is_named_although_it_seals_it(
    fault: Callable[[list[bytes], Played], None], token: str, round_: int
) -> None:
    events = list(PLAYED.events)
    fault(events, PLAYED)
    found = judge(pack(events, PLAYED.task))
    assert (token, round_) in {(item.token, item.round) for item in found.differences}, found.lines()
    assert not tokens(found) & SEAL_TOKENS, "the server sealed it: the seals are fine"


def test_a_fault_is_named_once_and_not_in_every_later_round() -> None:
    events = list(PLAYED.events)
    drop_report(events, PLAYED)
    found = judge(pack(events, PLAYED.task))
    # The dropped participant goes on reporting, which the path check sees in the next round.
    assert tokens(found) == {"missing-report", "joined-late"}
    events = list(PLAYED.events)
    change_answer(events, PLAYED)
    assert [item.token for item in judge(pack(events, PLAYED.task)).differences] == ["wrong-tally"]


# -- faults planted by a forger, who has to keep the seals ---------------------------------------------------------


@pytest.mark.parametrize(("fault", "token", "round_"), FAULTS[3:6], ids=[fault[0].__name__ for fault in FAULTS[3:6]])
def test_what_a_forger_changed_breaks_the_root_too(
    fault: Callable[[list[bytes], Played], None], token: str, round_: int
) -> None:
    events = list(PLAYED.events)
    fault(events, PLAYED)
    found = judge(repack(events, FILE))
    assert {token, "wrong-root"} <= tokens(found)
    assert min(item.round for item in found.differences if item.round) == round_


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_one_bit_in_any_event_is_found_and_the_round_is_right(data: st.DataObject) -> None:
    """The file's checksums are made right again, so that only the content can tell."""
    place = data.draw(st.integers(0, len(PLAYED.events) - 1))
    event = bytearray(PLAYED.events[place])
    bit = data.draw(st.integers(0, 8 * len(event) - 1))
    event[bit // 8] ^= 1 << bit % 8
    events = list(PLAYED.events)
    events[place] = bytes(event)
    found = judge(repack(events, FILE))
    assert not found.sound
    round_ = sum(tag(e) in ("closed", "value-closed") for e in PLAYED.events[:place]) + 1
    if place:
        seals = {(item.token, item.round) for item in found.differences}
        assert ("wrong-root", round_) in seals, found.lines()
        earlier = [item for item in found.differences if item.round is not None and item.round < round_]
        assert not earlier, "nothing is claimed about rounds before the fault"


def test_one_bit_in_each_query_closing_and_plan_is_found_in_its_round() -> None:
    """The few events that are no reports, a dozen bits each, spread over their length."""
    for place, original in enumerate(PLAYED.events):
        if tag(original) in ("report", "value-report") or not place:
            continue
        round_ = sum(tag(e) in ("closed", "value-closed") for e in PLAYED.events[:place]) + 1
        for bit in range(0, 8 * len(original), max(1, 8 * len(original) // 12 - 1)):
            event = bytearray(original)
            event[bit // 8] ^= 1 << bit % 8
            events = list(PLAYED.events)
            events[place] = bytes(event)
            found = judge(repack(events, FILE))
            assert ("wrong-root", round_) in {(item.token, item.round) for item in found.differences}, found.lines()
            assert all(item.round is None or item.round >= round_ for item in found.differences)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_one_bit_in_any_seal_is_found_and_called_a_fault_of_the_seal(data: st.DataObject) -> None:
    from semilocal.transcript.file import SEAL, read_frames, write_frame

    frames = list(read_frames(io.BytesIO(FILE)))
    seals = [i for i, frame in enumerate(frames) if frame.kind == SEAL]
    chosen = data.draw(st.sampled_from(seals))
    bit = data.draw(st.integers(0, 8 * len(frames[chosen].data) - 1))
    stream = io.BytesIO()
    stream.write(FILE[:23])
    for i, frame in enumerate(frames):
        payload = list(frame.events())
        if i == chosen:
            changed = bytearray(payload[0])
            changed[bit // 8] ^= 1 << bit % 8
            payload = [bytes(changed)]
        write_frame(stream, frame.kind, payload)
    found = judge(stream.getvalue())
    assert not found.sound
    assert tokens(found) <= SEAL_TOKENS


def test_a_forger_without_the_key_cannot_seal() -> None:
    events = list(PLAYED.events)
    change_answer(events, PLAYED)
    assert {"bad-signature", "wrong-tally"} == tokens(judge(pack(events, PLAYED.task, key=bytes(32))))
    assert {"not-signed", "wrong-tally"} == tokens(judge(pack(events, PLAYED.task, key=None)))


# -- two histories, and one's own reports --------------------------------------------------------------------------


def other_history() -> Played:
    """The same task, in which one device answered otherwise from the start: everything follows, and it is sealed."""
    return campaign(seed=4)


def test_two_histories_are_found_by_comparing_them() -> None:
    other = other_history()
    assert other.task == PLAYED.task
    found, second = judge(FILE), judge(pack(other.events, other.task))
    assert found.sound
    assert second.sound, "each of them is consistent by itself"
    (difference,) = compare_histories(found, second)
    assert (difference.token, difference.round) == ("other-history", 1)
    assert "Both are signed" in difference.what
    assert not compare_histories(found, judge(FILE))


def test_an_earlier_download_is_no_other_history() -> None:
    end = places(PLAYED, "closed", round_=2)[0] + 1
    early = judge(pack(PLAYED.events[:end], PLAYED.task))
    assert early.sound
    assert any("not finished" in note for note in early.notes)
    assert not compare_histories(early, judge(FILE))


def test_a_device_that_was_shown_another_history_sees_it() -> None:
    other = other_history()
    found = judge(pack(other.events, other.task), PLAYED.vault(3))
    assert "other-history" in tokens(found)


def test_a_device_that_had_its_region_early_may_leave_out_closings_of_others_but_not_see_other_ones() -> None:
    vault = PLAYED.vault(3)
    (membership,) = vault.memberships
    every = [hashlib.sha256(event).digest() for event in PLAYED.events if "closed" in tag(event)]
    assert len(every) >= 4
    early = (*every[:2], every[-1])  # followed two rounds, then the value round
    wrong = (*every[:2], bytes(32))
    for closings, fine in ((early, True), (wrong, False), (tuple(reversed(early)), False)):
        contents = Contents(secret=vault.secret, memberships=(msgspec.structs.replace(membership, closings=closings),))
        assert ("other-history" not in tokens(judge(FILE, contents))) == fine


def test_a_transcript_that_ends_before_what_the_device_saw_is_another_history() -> None:
    end = places(PLAYED, "closed", round_=1)[0] + 1
    assert "other-history" in tokens(judge(pack(PLAYED.events[:end], PLAYED.task), PLAYED.vault(3)))


def test_a_report_that_the_server_left_out_changed_or_invented_is_found_by_its_owner() -> None:
    name = PLAYED.devices[3].pseudonym
    at = next(i for i in places(PLAYED, "report", round_=2) if decode(PLAYED.events[i], Report).pseudonym == name)
    events = list(PLAYED.events)
    del events[at]
    assert "own-report-missing" in tokens(judge(pack(events, PLAYED.task), PLAYED.vault(3)))
    events = list(PLAYED.events)
    events[at] = edited(events[at], answer=1 - decode(events[at], Report).answer)  # type: ignore[operator]
    assert "own-report-changed" in tokens(judge(pack(events, PLAYED.task), PLAYED.vault(3)))
    vault = PLAYED.vault(3)
    (membership,) = vault.memberships
    quiet = msgspec.structs.replace(membership, state=msgspec.structs.replace(membership.state, answered=1))
    found = judge(FILE, Contents(secret=vault.secret, memberships=(quiet,)))
    assert "foreign-report" in tokens(found)


def test_a_value_under_ones_name_is_checked_too() -> None:
    name = PLAYED.devices[3].pseudonym
    at = next(i for i in places(PLAYED, "value-report") if decode(PLAYED.events[i], ValueReport).pseudonym == name)
    events = list(PLAYED.events)
    other = decode(events[at], ValueReport).answer
    events[at] = edited(events[at], answer=0 if other else 1)
    assert "own-report-changed" in tokens(judge(pack(events, PLAYED.task), PLAYED.vault(3)))


def test_a_vault_of_somebody_else_is_said_to_be_no_member() -> None:
    assert "not-a-member" in tokens(judge(FILE, Contents(secret=hashlib.sha256(b"x").digest())))


def test_a_vault_is_read_without_being_changed(tmp_path: Path) -> None:
    path = tmp_path / "vault"
    path.write_bytes(pack_vault(PLAYED.vault(3)))
    before = path.read_bytes()
    assert judge(FILE, read_vault(path)).sound
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_unsigned_transcripts_say_so() -> None:
    played = campaign(signed=False)
    assert any("pins no key" in note for note in judge(pack(played.events, played.task, key=None)).notes)
    assert tokens(judge(pack(played.events, played.task, key=KEY))) == {"bad-signature"}
