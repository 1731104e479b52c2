"""What a malicious server might try on a device, one named test per attempt.

A device may refuse (``ServerViolation``, or ``InvalidInput`` for bytes that are no message), with its state unchanged.
It must never crash in another way, hang, answer what its owner forbids, or answer one question in two ways.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal import (
    BinaryTree,
    Box,
    Closed,
    PaperLaplace,
    Participant,
    Policy,
    Query,
    RandomizedResponse,
    Report,
    Task,
)
from semilocal.errors import InvalidInput, ServerViolation
from semilocal.geometry.places import named_box
from semilocal.geometry.sides import sides
from semilocal.protocol.messages import AnyReport, decode, encode
from semilocal.protocol.plan import Plan
from semilocal.protocol.policy import refusals, stops_early
from semilocal.protocol.rule import decide, frontier_at
from semilocal.testing import ALLOW_ALL, cluster, participants_at, play, secret, unit_box

STRICT = Policy(max_epsilon=100.0, min_k=2, max_delta=0.1)


def device(task: Task, policy: Policy = ALLOW_ALL) -> Participant:
    return Participant(task, [0.3] * task.box.dimensions, secret(0), policy)


def lie(participant: Participant, responders: int, tally: tuple[int, ...]) -> Closed:
    """A closing that follows from an invented tally, as a server with fake participants can make it."""
    state, task = participant.state, participant.task
    expected = np.array([np.nan if state.expected is None else state.expected])
    frontier = frontier_at(
        [state.cell], trims=state.trims, expected=expected, visitors=state.visitors, doubt=state.doubt
    )
    kept = tuple(np.flatnonzero(decide(task, frontier, [responders], [tally]).kept[0]).tolist())
    return Closed(task.id, state.round, (state.cell,), (responders,), (tally,), (kept,))


def ask(participant: Participant) -> AnyReport | None:
    return participant.receive(Query(participant.task.id, participant.state.round, (participant.state.cell,)))


# -- numbers -----------------------------------------------------------------------------------------------------


def test_a_tally_that_wraps_around_64_bits_is_no_message() -> None:
    """Eight counts of 2^61 and a bit add up to 100 modulo 2^64: an overflowing sum would take them for 100 reports."""
    counts = (2**61 + 100, *(2**61,) * 7)
    assert np.array(counts).sum() == 100
    with pytest.raises(InvalidInput, match="2\\^53"):
        Closed(bytes(32), 1, (1,), (100,), (counts,), ((0, 1, 2, 3, 4, 5, 6, 7),))


@pytest.mark.parametrize("big", [2**53, 2**62, 2**63, 2**64 - 1, 2**64, 2**200, -(2**53), -(2**63), -(2**200)])
def test_huge_numbers_are_no_message(big: int) -> None:
    for responders, tally, kept in (
        ((abs(big),), ((1, 1),), ((0, 1),)), ((2,), ((big, 2 - big),), ((0, 1),)), ((2,), ((1, 1),), ((0, abs(big)),)),
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            Closed(bytes(32), 1, (1,), responders, tally, kept)


EXTREMES = [
    *(
        Task.build(unit_box(1), epsilon=epsilon, delta=delta, k=k, max_depth=3)
        for epsilon, delta, k in product((0.001, 1.0, 40.0), (1e-15, 0.49), (1, 1000))
    ),
    pytest.param(Task.build(unit_box(1), epsilon=0.001, delta=1e-15, k=2**20, max_depth=3), marks=pytest.mark.slow),
    *(
        Task.build(unit_box(1), epsilon=epsilon, delta=delta, k=1000, randomizer="discrete-laplace", max_depth=3)
        for epsilon, delta in product((0.1, 1.0, 40.0), (1e-15, 0.49))
    ),
]


@pytest.mark.parametrize("task", EXTREMES, ids=lambda t: f"{t.randomizer.epsilon}-{t.delta}-{t.k}-{t.randomizer.words}")
def test_the_largest_crowds_are_decided_without_a_warning(task: Task) -> None:
    """Up to 2^32 responders are a legal claim; a device must answer to it, whatever the task's numbers are."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (1, task.k, 2 * task.k, 10**6 + 1, 2**32):
            participant = device(task)
            ask(participant)
            participant.receive(lie(participant, size, (size - size // 2, size // 2)))
            assert participant.state.phase in ("waiting", "finished")


def test_a_task_whose_crowd_test_cannot_be_computed_is_no_task() -> None:
    with pytest.raises(InvalidInput, match="k must be"):
        Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=2**20 + 1)


def test_children_that_do_not_exist_lead_nowhere() -> None:
    for kept in ((2,), (0, 1, 2), (255,)):
        participant = device(Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, max_depth=3))
        ask(participant)
        before = participant.state
        closed = msgspec.structs.replace(lie(participant, 100, (50, 50)), kept=(kept,))
        with pytest.raises(ServerViolation, match="wrong-verdict"):
            participant.receive(closed)
        assert participant.state == before


@pytest.mark.parametrize("place", [("13.377713", 0.5), ("13.377713 E", 0.5), (13.377713, 0.5), (math.inf, 13.377713)])
def test_a_position_that_is_refused_is_not_repeated(place: Any) -> None:
    task = Task.build(unit_box(2), epsilon=1.0, delta=0.05, k=5, max_depth=3)
    with pytest.raises(InvalidInput) as refusal:
        Participant(task, place, secret(1), ALLOW_ALL)
    assert "377713" not in str(refusal.value)


# -- the owner's limits ------------------------------------------------------------------------------------------


def test_a_limit_that_is_not_a_number_is_none() -> None:
    for name, nan in (
        ("max_epsilon", math.nan),
        ("max_delta", math.nan),
        ("max_exposure", math.nan),
        ("min_side", (math.nan,)),
    ):
        with pytest.raises(InvalidInput, match=name):
            msgspec.structs.replace(ALLOW_ALL, **{name: nan})


def test_a_task_without_a_proven_crowd_is_refused_even_where_simulation_is_allowed() -> None:
    """Rule "all" with the printed margin keeps no crowd, though its rule's name does not say so."""
    task = Task(
        hierarchy=BinaryTree(unit_box(1), 3), randomizer=PaperLaplace(1.0, 2, "paper"), rule="all", k=20, delta=1e-9,
        max_trims=0, tau=0.2, accounting="core", max_rounds=3,
    )  # fmt: skip
    with pytest.raises(ServerViolation) as caught:
        device(task, Policy(max_epsilon=100.0, allow_simulation=True))
    assert caught.value.token == "no-crowd"


def test_a_large_k_with_a_worthless_delta_can_be_refused() -> None:
    """k = 1000 says nothing when the test that protects it may fail half the time."""
    task = Task.build(unit_box(1), epsilon=1.0, delta=0.49, k=1000, max_depth=3, rule="all")
    with pytest.raises(ServerViolation) as caught:
        device(task, Policy(max_epsilon=100.0, min_k=100, max_delta=0.01))
    assert caught.value.token == "weak-crowd"


def test_the_owner_s_delta_is_compared_with_the_one_that_holds_for_everybody() -> None:
    for accounting, worst in (("core", 0.01), ("uniform", 0.01)):
        task = Task.build(unit_box(1), epsilon=1.0, delta=0.01, k=20, max_trims=3, accounting=accounting, max_depth=4)  # type: ignore[arg-type]
        device(task, Policy(max_epsilon=100.0, max_delta=worst))
        with pytest.raises(ServerViolation, match="weak-crowd"):
            device(task, Policy(max_epsilon=100.0, max_delta=worst * 0.99))


@pytest.mark.parametrize("cap", [None, 0.0, 0.5, 1.0, 2.5, 3.0, 100.0])
def test_a_server_that_always_splits_gets_no_more_than_the_exposure_says(cap: float | None) -> None:
    """It invents a dense crowd in every cell. The device answers ``max_rounds`` questions, or what its cap allows."""
    task = Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, max_depth=6, max_rounds=4)
    participant = device(task, msgspec.structs.replace(ALLOW_ALL, max_exposure=cap))
    allowed = 4 if cap is None else min(4, int(cap))
    answers = []
    for number in range(1, 8):
        try:
            report = ask(participant)
        except ServerViolation as error:
            assert error.token == "over-exposure"  # noqa: PT017
            assert number == allowed + 1
            break
        if report is None:
            break
        answers.append(report)
        if number <= task.max_rounds:
            participant.receive(lie(participant, 1000, (500, 500)))
        else:
            participant.receive(Closed(task.id, number, (participant.state.cell,), (1000,), ((),), ((),)))
    questions = [report for report in answers if report.answer is not None]
    assert len(questions) == allowed
    assert participant.exposure == allowed * task.epsilon
    roll_call = [report for report in answers if report.answer is None]
    assert len(roll_call) == (allowed == 4)  # free of charge, so the cap does not stop it
    assert all(report.cell.bit_length() <= task.max_rounds + 1 for report in answers)


@pytest.mark.parametrize(
    ("box", "least", "depth"),
    [
        (unit_box(1), (0.1,), 3),  # 1/8 is the smallest side of at least 0.1
        (unit_box(2), (0.1,), 6),
        (unit_box(2), (0.3, 0.01), 3),  # after three halvings x is 1/4 wide: two of them at x, then refused
        (named_box("world"), (100.0,), 16),  # kilometres
    ],
)
def test_a_server_that_walks_a_device_to_a_small_cell_stops_at_the_owner_s(
    box: Box, least: tuple[float, ...], depth: int
) -> None:
    """It invents a dense crowd in every cell. No cell with a shorter side is ever named, whatever the task allows."""
    task = Task.build(box, epsilon=1.0, delta=0.05, k=5)
    participant = device(task, msgspec.structs.replace(ALLOW_ALL, min_side=least))
    named = []

    def walk() -> None:
        for _ in range(task.max_rounds):
            report = ask(participant)
            assert report is not None
            named.append(report.cell)
            participant.receive(lie(participant, 1000, (500, 500)))

    with pytest.raises(ServerViolation, match="small-cell"):
        walk()
    measured = sides(task.hierarchy.boxes(np.array(named, dtype=np.uint64)), box)
    assert (measured >= np.array(least) * (1 - 1e-9)).all()
    smaller = sides(task.hierarchy.boxes(np.array([participant.state.cell], dtype=np.uint64)), box)
    assert (smaller < np.array(least)).any()
    assert participant.state.phase == "waiting"
    assert len(named) == participant.state.answered <= depth + 1


def test_a_device_that_was_told_nothing_protects_its_owner() -> None:
    """The defaults: crowds of 20, delta of a thousandth, a limit on what a server that lies can get."""
    good = Task.build(unit_box(2), epsilon=1.0, delta=1e-3, k=20, max_trims=8)
    policy = Policy(max_epsilon=10.0)
    assert refusals(good, Plan(good.id), policy) == []
    device(good, policy)
    wrong: dict[str, dict[str, Any]] = {
        "small-crowd": {"k": 19},
        "weak-crowd": {"delta": 1.1e-3},
        "over-budget": {"max_trims": 10},
        "no-crowd": {"rule": "each", "max_trims": 0},
    }
    for token, changes in wrong.items():
        given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "k": 20, "max_trims": 8} | changes
        task = Task.build(unit_box(2), **given)
        [found] = refusals(task, Plan(task.id), policy)
        assert found.token == token
        assert found.change
        with pytest.raises(ServerViolation, match=token):
            device(task, policy)
    [early] = stops_early(Task.build(unit_box(2), epsilon=2.0, delta=1e-3, k=20), Plan(good.id), policy)
    assert "allows 25 of 40 answers" in early.reason
    assert stops_early(good, Plan(good.id), policy) == []
    hasty = msgspec.structs.replace(good, quorum=0.25)
    [found] = stops_early(hasty, Plan(hasty.id), policy)
    assert found.token == "quorum"
    assert "fewer than 20" in found.reason
    alone = Task.build(unit_box(2), epsilon=1.0, delta=1e-3, k=20, rule="each", max_trims=0, quorum=0.25)
    [found] = stops_early(alone, Plan(alone.id), policy)
    assert "fewer than" not in found.reason  # no crowd is promised anyway


def test_a_server_that_always_trims_moves_a_device_at_most_max_trims_times() -> None:
    task = Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, max_depth=12, max_trims=3, tau=0.4)
    participant = device(task)
    for _ in range(12):
        ask(participant)
        if participant.state.phase == "finished":
            break
        code = np.array([participant.state.code], dtype=np.uint64)
        child = int(task.hierarchy.child_of(code, participant.state.round - 1)[0])
        participant.receive(lie(participant, 1000, (290, 710) if child == 0 else (710, 290)))
    assert participant.region is not None
    assert participant.moves == 3
    assert participant.spent == task.epsilon_worst


def test_a_refused_question_is_not_spent() -> None:
    task = Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, max_depth=3)
    participant = device(task, STRICT)
    cases = (task.id, 2, (2, 3)), (task.id, 1, ()), (bytes(32), 1, (1,)), (task.id, 1, (1, 2))
    for query in (Query(*case) for case in cases):
        with pytest.raises(ServerViolation):
            participant.receive(query)
    assert (participant.spent, participant.exposure, participant.state.answered) == (0.0, 0.0, 0)


# -- states and messages -----------------------------------------------------------------------------------------


def test_messages_that_are_not_for_devices_change_nothing() -> None:
    """A report or a task, handed to a device as if it were a closing, must not make it lose its round."""
    task = Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, max_depth=3)
    participant = device(task)
    before = participant.state
    for message in (Report(task.id, 1, bytes(16), 1, 0), Report(task.id, 1, bytes(16), 1, None)):
        with pytest.raises(InvalidInput):
            participant.receive(message)  # type: ignore[arg-type]
    assert participant.state == before
    assert ask(participant) is not None


def test_a_device_that_is_finished_or_lost_never_answers_again() -> None:
    task = Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, max_depth=3)
    stopped, lost = device(task), device(task)
    ask(stopped)
    stopped.receive(lie(stopped, 1, (1, 0)))
    lost.receive(Closed(task.id, 1, (1,), (5,), ((5, 0),), ((),)))
    assert (stopped.state.phase, lost.state.phase) == ("finished", "lost")
    for participant in (stopped, lost):
        before = participant.state
        for number in range(1, 6):
            for cell in (1, 2, 3, participant.state.cell):
                assert participant.receive(Query(task.id, number, (cell,))) is None
                assert participant.receive(Closed(task.id, number, (cell,), (9,), ((5, 4),), ((0, 1),))) is None
        assert participant.state == before
        with pytest.raises(ServerViolation, match="other-task"):
            participant.receive(Query(bytes(32), 1, (1,)))


def test_a_device_led_down_two_paths_answers_each_question_once() -> None:
    """A server that makes a device go back to an old state, and then lies otherwise, gets the same bytes for the same
    question, and another question's answer for another cell: nothing can be averaged."""
    task = Task.build(unit_box(2), epsilon=1.0, delta=0.05, k=5, tree="quad", max_depth=4, tau=0.45)
    big = 800
    answers: dict[tuple[int, int], AnyReport] = {}
    for first in range(4):
        for second in range(4):
            participant = Participant(task, [0.3, 0.6], secret(4), ALLOW_ALL)
            for favourite in (first, second, 0, 1):
                report = ask(participant)
                assert report is not None
                assert answers.setdefault((report.round, report.cell), report) == report
                tally = tuple(big if child == favourite else 40 for child in range(4))
                participant.receive(lie(participant, 920, tally))
                if participant.state.phase != "waiting":
                    break
    assert len(answers) > 8


def test_the_id_is_of_the_bytes_even_for_tasks_that_compare_equal() -> None:
    """0.0 and -0.0 are equal numbers with different bytes: an id remembered by value would be the wrong task's."""
    zero, minus = (Task.build(Box((low,), (1.0,)), epsilon=1.0, delta=0.05, k=5) for low in (0.0, -0.0))
    for task in (zero, minus, zero):
        assert task.id == hashlib.sha256(encode(task)).digest()


@pytest.mark.parametrize("number", [1, 1.0, np.float64(1.0)])
def test_a_task_has_the_same_bytes_however_its_numbers_were_written(number: Any) -> None:
    task = Task.build(unit_box(1), epsilon=number, delta=np.float64(0.05), k=5, quorum=number)
    assert task.to_bytes() == Task.build(unit_box(1), epsilon=1.0, delta=0.05, k=5, quorum=1.0).to_bytes()
    assert decode(encode(task), Task) == task
    direct = msgspec.structs.replace(task, randomizer=RandomizedResponse(number, 2))
    assert direct.id == task.id


# -- anything at all ---------------------------------------------------------------------------------------------


def read(raw: bytes, like: Query | Closed) -> Query | Closed:
    return decode(raw, Query) if isinstance(like, Query) else decode(raw, Closed)


@pytest.mark.parametrize("noise", ["randomized-response", "discrete-laplace"])
def test_mangled_messages_are_refused_and_change_nothing(noise: Any) -> None:
    """2,000 mangled queries and closings of a real play against devices in every state of it.

    Whatever still decodes is refused, or is a legal message. The seed is fixed: there is no false alarm.
    """
    task = Task.build(unit_box(1), epsilon=8.0, delta=0.05, k=3, max_depth=3, tau=0.4, randomizer=noise)
    points = cluster(30, 1)
    history = play(task, participants_at(task, points)).events
    public = [event for event in history if isinstance(event, Query | Closed)]
    states = []
    participant = Participant(task, points[9], secret(9), ALLOW_ALL)
    for message in public:
        states.append(participant.state)
        participant.receive(message)
    states.append(participant.state)
    rng, refused, taken = np.random.default_rng(23), 0, 0
    for number in range(2000):
        message = public[int(rng.integers(0, len(public)))]
        raw = bytearray(encode(message))
        for _ in range(int(rng.integers(1, 3))):
            raw[int(rng.integers(42, len(raw)))] = int(rng.integers(0, 256))
        try:
            mangled = read(bytes(raw), message)
        except InvalidInput:
            continue
        state = states[number % len(states)]
        target = Participant(task, points[9], secret(9), ALLOW_ALL, state=state)
        try:
            report = target.receive(mangled)
        except ServerViolation:
            refused += 1
            assert target.state == state
            continue
        taken += 1
        if report is not None:
            assert mangled.round == state.round
            assert report.cell == state.cell in mangled.cells
    assert refused > 100
    assert taken > 0
