"""Verification: honest transcripts pass, and every planted fault is found and called by its name.

A fault is planted either by the server, who can seal whatever it likes, or by a forger, who has to keep the seals.
"""

from __future__ import annotations

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
from semilocal.protocol.messages import (
    Closed,
    Query,
    Report,
    ValueClosed,
    ValueQuery,
    ValueReport,
    Verdict,
    decode,
    encode,
)
from semilocal.testing import secrets_of
from semilocal.transcript.file import SEAL, Simulation, read_frames, write_events, write_frame
from semilocal.transcript.verify import Verification, compare_histories, verify_file, verify_stream
from tests.helpers.transcript_cases import KEY, Played, campaign, pack, repack, tag

PLAYED = campaign()
VALUES = 1 + sum(tag(event) == "closed" for event in PLAYED.events)  # the round of values
FILE = pack(PLAYED.events, PLAYED.task)
SEAL_TOKENS = {
    "wrong-seal", "wrong-size", "wrong-root", "wrong-chain", "not-signed", "bad-signature", "unsealed-events",
}  # fmt: skip


def judge(data: bytes) -> Verification:
    return verify_stream(io.BytesIO(data))


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
        {}, {"rule": "all"}, {"chained": False}, {"epsilon": 4.0}, {"max_rounds": 4}, {"values": False},
        {"seed": 9, "n": 200},
    ],
)  # fmt: skip
def test_honest_transcripts_pass(options: dict[str, object]) -> None:
    played = campaign(**options)  # type: ignore[arg-type]
    data = pack(played.events, played.task)
    found = judge(data)
    assert found.sound, found.lines()
    assert found.signatures == len(found.seals) == found.rounds
    assert found.events == len(played.events)


def test_simulated_transcripts_pass(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    task = Task.build(Box((0, 0), (1, 1)), epsilon=2.0, delta=0.01, k=10)
    run = simulate(rng.random((300, 2)), task, rng=rng, secrets=secrets_of(300), dropout=0.01)
    with (tmp_path / "t.slt").open("wb") as stream:
        write_events(stream, run.events)
    found = verify_file(tmp_path / "t.slt")
    assert found.sound, found.lines()
    assert found.lines()[0].startswith("This is a simulation, not a collection: ")
    assert any("pins no key" in note for note in found.notes)
    assert any("no hash chain" in note for note in found.notes)


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
    kinds: dict[str, Any] = {
        "query": Query, "report": Report, "closed": Closed, "value-query": ValueQuery, "value-report": ValueReport,
        "value-closed": ValueClosed,
    }  # fmt: skip
    return encode(msgspec.structs.replace(decode(event, kinds[tag(event)]), **changes))


def question(events: list[bytes], played: Played, round_: int, **changes: object) -> None:
    """Change the first question of a round."""
    at = places(played, "query", round_=round_)[0]
    first, *others = decode(events[at], Query).questions
    events[at] = edited(events[at], questions=(msgspec.structs.replace(first, **changes), *others))


def verdict(events: list[bytes], played: Played, round_: int, **changes: object) -> None:
    """Change the first verdict of a round."""
    at = places(played, "closed", round_=round_)[0]
    first, *others = decode(events[at], Closed).verdicts
    events[at] = edited(events[at], verdicts=(msgspec.structs.replace(first, **changes), *others))


def outcome_of(played: Played, round_: int) -> Verdict:
    return decode(played.events[places(played, "closed", round_=round_)[0]], Closed).verdicts[0]


def drop_report(events: list[bytes], played: Played) -> None:
    del events[places(played, "report", round_=2)[3]]


def add_report(events: list[bytes], played: Played) -> None:
    """Somebody new announces the region: the closing does not know of it."""
    at = places(played, "report", round_=2)[3]
    report = decode(events[at], Report)
    name = (int.from_bytes(report.pseudonym, "big") + 1).to_bytes(16, "big")
    events.insert(at + 1, edited(events[at], pseudonym=name, answer=None))


def repeat_report(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    events.insert(at, events[at])


def change_answer(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    events[at] = edited(events[at], answer=1 - decode(events[at], Report).answer)  # type: ignore[operator]


def impossible_answer(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    events[at] = edited(events[at], answer=7)


def not_drawn(events: list[bytes], played: Played) -> None:
    """A member who was not drawn answers under its own name."""
    here = places(played, "report", round_=2)
    drawn = {decode(events[at], Report).pseudonym for at in here}
    stranger = next(device for device in played.devices if device.pseudonym not in drawn)
    at = next((at for at in here if decode(events[at], Report).pseudonym > stranger.pseudonym), here[-1] + 1)
    events.insert(at, edited(events[here[0]], pseudonym=stranger.pseudonym))


def other_tally(events: list[bytes], played: Played) -> None:
    low, high = outcome_of(played, 2).tally
    verdict(events, played, 2, tally=(low + 1, high - 1))


def split_too_early(events: list[bytes], played: Played) -> None:
    verdict(events, played, 2, outcome="split")


def given_up(events: list[bytes], played: Played) -> None:
    verdict(events, played, 2, outcome="wall" if outcome_of(played, 2).outcome == "more" else "more")


def weak_threshold(events: list[bytes], played: Played) -> None:
    question(events, played, 2, threshold=1)


def other_cut(events: list[bytes], played: Played) -> None:
    (cut,) = decode(events[places(played, "query", round_=2)[0]], Query).questions[0].cuts
    question(events, played, 2, cuts=(cut + 1,))


def too_many_asked(events: list[bytes], played: Played) -> None:
    question(events, played, 2, asked=1000)


def no_such_region(events: list[bytes], played: Played) -> None:
    (cut,) = decode(events[places(played, "query", round_=2)[0]], Query).questions[0].cuts
    question(events, played, 2, upper=cut + 1)


def chosen_preimage(events: list[bytes], played: Played) -> None:
    at = places(played, "closed", round_=1)[0]
    events[at] = edited(events[at], preimage=bytes(32))


def other_slice(events: list[bytes], played: Played) -> None:
    at = places(played, "closed", round_=1)[0]
    (head,) = decode(events[at], Closed).heads
    events[at] = edited(events[at], heads=(msgspec.structs.replace(head, digest=bytes(32)),))


def swap_reports(events: list[bytes], played: Played) -> None:
    at = places(played, "report", round_=2)[3]
    events[at], events[at + 1] = events[at + 1], events[at]


def _moved(played: Played) -> tuple[int, Report, tuple[int, int]]:
    """A report of a region that another region is beside, its place, and the other one."""
    found = [(at, decode(played.events[at], Report)) for at in places(played, "report")]
    found = [(at, report) for at, report in found if report.answer is None and report.round > 1]
    at, report = found[0]
    beside = next(r.region for _, r in found if r.round == report.round and r.region != report.region)
    return at, report, beside


def unknown_region(events: list[bytes], played: Played) -> None:
    at, report, _ = _moved(played)
    events[at] = edited(events[at], upper=report.upper - 1)


def other_region(events: list[bytes], played: Played) -> None:
    """Someone who is in one region answers for another one later."""
    _, report, (lower, upper) = _moved(played)
    later = [at for at in places(played, "report") if decode(events[at], Report).round > report.round]
    at = next(at for at in later if decode(events[at], Report).region == report.region)
    events[at] = edited(events[at], lower=lower, upper=upper, answer=None)


def other_values(events: list[bytes], played: Played) -> None:
    at = places(played, "value-closed")[0]
    closed = decode(events[at], ValueClosed)
    row = closed.counts[0]
    (first, count), (second, more) = row[0], row[1]
    changed = (((first, count + 1), (second, more - 1)) if more > 1 else ((first, count + more),)) + row[2:]
    events[at] = edited(events[at], counts=(changed, *closed.counts[1:]))


def drop_value(events: list[bytes], played: Played) -> None:
    del events[places(played, "value-report")[3]]


def other_clip(events: list[bytes], played: Played) -> None:
    at = places(played, "value-query")[0]
    first, *others = decode(events[at], ValueQuery).clips
    wide = msgspec.structs.replace(first, high=first.high + 1)
    events[at] = edited(events[at], clips=(wide, *others))


def foreign_region(events: list[bytes], played: Played) -> None:
    at = places(played, "value-report")[3]
    report = decode(events[at], ValueReport)
    lower, upper = next(d.region for d in played.devices if d.region not in (None, report.region))
    events[at] = edited(events[at], lower=lower, upper=upper)


def repeat_value(events: list[bytes], played: Played) -> None:
    """Not beside the first one."""
    at = places(played, "value-report")
    events.insert(at[9], events[at[3]])


def other_portion(events: list[bytes], played: Played) -> None:
    """A second portion of fewer members than the first one had."""
    question(events, played, SECOND, asked=1, start=0, stop=1)


MOVED = _moved(PLAYED)[1].round
SECOND = next(
    query.round for query in (decode(PLAYED.events[at], Query) for at in places(PLAYED, "query"))
    if query.questions and query.questions[0].drawn != query.round
)  # fmt: skip
FAULTS: list[tuple[Callable[[list[bytes], Played], None], str, int | None]] = [
    (drop_report, "missing-report", 2), (add_report, "extra-report", 2), (repeat_report, "reported-twice", 2),
    (change_answer, "wrong-slice", 2), (impossible_answer, "bad-answer", 2), (other_tally, "wrong-tally", 2),
    (not_drawn, "not-drawn", 2), (split_too_early, "wrong-verdict", 2), (given_up, "other-choice", 2),
    (weak_threshold, "weak-threshold", 2), (other_cut, "other-choice", 2), (too_many_asked, "wrong-draw", 2),
    (no_such_region, "wrong-query", 2), (chosen_preimage, "broken-chain", 1),
    (other_slice, "wrong-slice", 1), (swap_reports, "wrong-order", 2), (unknown_region, "unknown-region", MOVED),
    (other_region, "other-region", None), (other_values, "wrong-values", VALUES),
    (drop_value, "missing-report", VALUES), (foreign_region, "other-region", VALUES),
    (other_clip, "wrong-value-query", VALUES), (repeat_value, "reported-twice", VALUES),
    (other_portion, "wrong-draw", SECOND),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "token", "round_"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_what_the_server_did_wrong_is_named_although_it_seals_it(
    fault: Callable[[list[bytes], Played], None], token: str, round_: int | None
) -> None:
    events = list(PLAYED.events)
    fault(events, PLAYED)
    found = judge(pack(events, PLAYED.task))
    named = {(item.token, item.round if round_ else None) for item in found.differences}
    assert (token, round_) in named, found.lines()
    assert not [item for item in found.differences if item.round is not None and item.round < (round_ or 0)]
    assert not tokens(found) & SEAL_TOKENS, "the server sealed it: the seals are fine"
    if token != "other-choice":  # a round that does not follow is the last one that is looked at
        (last,) = {item.round for item in found.differences}
        assert found.notes[0] == f"what follows round {last} was not looked at"
    if fault in (drop_value, other_clip, other_tally, chosen_preimage, weak_threshold):
        assert tokens(found) == {token}


def rewritten(change: Callable[[list[tuple[bytes, list[bytes]]]], None]) -> bytes:
    """The file with its frames, kinds and payloads, changed."""
    frames = [(frame.kind, frame.events) for frame in read_frames(io.BytesIO(FILE))]
    change(frames)
    stream = io.BytesIO()
    stream.write(FILE[:23])
    for kind, payload in frames:
        write_frame(stream, kind, payload)
    return stream.getvalue()


def without_seal(frames: list[tuple[bytes, list[bytes]]]) -> None:
    del frames[next(i for i, frame in enumerate(frames) if frame[0] == SEAL)]


def doubled_seal(frames: list[tuple[bytes, list[bytes]]]) -> None:
    at = next(i for i, frame in enumerate(frames) if frame[0] == SEAL)
    frames.insert(at, frames[at])


def without_closing(frames: list[tuple[bytes, list[bytes]]]) -> None:
    frames[0][1].pop()


def without_task(frames: list[tuple[bytes, list[bytes]]]) -> None:
    del frames[0][1][0]


@pytest.mark.parametrize(
    ("change", "token", "round_"),
    [(without_seal, "missing-seal", 1), (doubled_seal, "wrong-seal", 2), (without_closing, "wrong-verdict", 1),
     (without_task, "unexpected-event", None)],
)  # fmt: skip
def test_what_is_missing_or_comes_twice_is_named(
    change: Callable[[list[tuple[bytes, list[bytes]]]], None], token: str, round_: int | None
) -> None:
    found = judge(rewritten(change))
    assert (token, round_) in {(item.token, item.round) for item in found.differences}, found.lines()


def test_a_partition_that_ends_early_is_another_choice() -> None:
    at = places(PLAYED, "closed", round_=2)[0]
    events = [*PLAYED.events[:at], edited(PLAYED.events[at], finished=True)]
    assert tokens(judge(pack(events, PLAYED.task))) == {"other-choice"}


def test_another_choice_than_the_rules_is_told_apart_from_what_breaks_the_promise() -> None:
    """Where a cut lies is the server's choice. A verifier that could not tell would call every such server a liar."""
    for fault in (other_cut, given_up):
        events = list(PLAYED.events)
        fault(events, PLAYED)
        at_once = [item for item in judge(pack(events, PLAYED.task)).differences if item.round == 2]
        assert "other-choice" in {item.token for item in at_once}
        assert not {"weak-threshold", "wrong-draw", "wrong-query"} & {item.token for item in at_once}
        assert any("touches no promise" in item.what for item in at_once)


# -- faults planted by a forger, who has to keep the seals ---------------------------------------------------------


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
    seals = [i for i, frame in enumerate(read_frames(io.BytesIO(FILE))) if frame.kind == SEAL]
    chosen = data.draw(st.sampled_from(seals))

    def change(frames: list[tuple[bytes, list[bytes]]]) -> None:
        changed = bytearray(frames[chosen][1][0])
        bit = data.draw(st.integers(0, 8 * len(changed) - 1))
        changed[bit // 8] ^= 1 << bit % 8
        frames[chosen][1][0] = bytes(changed)

    found = judge(rewritten(change))
    assert not found.sound
    assert tokens(found) <= SEAL_TOKENS


def test_a_forger_without_the_key_cannot_seal() -> None:
    events = list(PLAYED.events)
    change_answer(events, PLAYED)
    assert {"bad-signature", "wrong-slice"} <= tokens(judge(pack(events, PLAYED.task, key=bytes(32))))
    assert {"not-signed", "wrong-slice"} <= tokens(judge(pack(events, PLAYED.task, key=None)))


# -- two histories ------------------------------------------------------------------------------------------------


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


def test_unsigned_transcripts_say_so() -> None:
    played = campaign(signed=False)
    assert any("pins no key" in note for note in judge(pack(played.events, played.task, key=None)).notes)
    assert tokens(judge(pack(played.events, played.task, key=KEY))) == {"bad-signature"}
