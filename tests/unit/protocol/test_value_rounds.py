"""Messages and pure functions of value rounds: pinned plans, derived noise, honest epsilon, unbiased means."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal.errors import InvalidInput, ServerViolation
from semilocal.protocol.keys import value_entropy
from semilocal.protocol.messages import ValueClosed, ValueQuery, ValueReport, decode, encode
from semilocal.protocol.participant import Participant, Released, State
from semilocal.protocol.partition import Partition, Trims
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.promise import promise
from semilocal.release import collected_mean, region_values
from semilocal.testing import ALLOW_ALL, secrets_of
from tests.helpers.service import sample_task

TASK = sample_task()
MEAN = Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0])
PLAN = Plan(
    TASK.id, (MEAN, Release("counts"), Release.ask("values", "linear", epsilon=0.5, parameters=[0.0, 1.0, 2.0]))
)
REGION = 0b100  # the lower left quarter
SECRET = b"s" * 32


def ended(
    point: list[float],
    *,
    plan: Plan = PLAN,
    secret: bytes = SECRET,
    region: int = REGION,
    code: int = 1,
    moves: int = 0,
) -> Participant:
    """A participant whose path ended in the region in round 8."""
    state = State(phase="finished", round=8, cell=region, code=code, moves=moves, answered=8)
    return Participant(TASK, point, secret, ALLOW_ALL, plan=plan, state=state)


def respond(
    point: list[float], *, plan: Plan = PLAN, index: int = 0, secret: bytes = SECRET, **state: int
) -> ValueReport:
    query = ValueQuery(TASK.id, 9 + plan.asked.index(index), plan.digest, index)
    report = ended(point, plan=plan, secret=secret, **state).receive(query)
    assert isinstance(report, ValueReport)
    return report


def test_the_total_epsilon_is_the_worst_case_of_the_partition_and_all_releases() -> None:
    assert PLAN.epsilon == 1.5
    assert PLAN.total_epsilon(TASK) == TASK.epsilon_worst + 1.5
    assert PLAN.asked == (0, 2)


def test_equal_plans_with_other_bytes_have_other_digests() -> None:
    """0.0 and -0.0 are equal numbers and different bytes: the digest is that of the bytes."""
    plans = [Plan(TASK.id, (Release("mean", MEAN.mechanism, "linear", (zero, 1.0, 2.0)),)) for zero in (0.0, -0.0)]
    assert plans[0] == plans[1]
    assert len({plan.digest for plan in plans}) == len({encode(plan) for plan in plans}) == 2


def test_the_same_question_gets_the_same_bytes_and_every_label_changes_them() -> None:
    assert encode(respond([0.1, 0.1])) == encode(respond([0.1, 0.1]))
    entropy = value_entropy(SECRET, PLAN.task, PLAN.digest, 0, REGION, 4)
    other_plan = Plan(TASK.id, PLAN.releases[:1])
    others = [
        value_entropy(b"t" * 32, PLAN.task, PLAN.digest, 0, REGION, 4),
        value_entropy(SECRET, other_plan.task, other_plan.digest, 0, REGION, 4),
        value_entropy(SECRET, PLAN.task, PLAN.digest, 2, REGION, 4),
        value_entropy(SECRET, PLAN.task, PLAN.digest, 0, REGION + 1, 4),
    ]
    assert len({entropy, *others}) == 5


@pytest.mark.parametrize(
    ("query", "token"),
    [
        (ValueQuery(bytes(32), 9, PLAN.digest, 0), "other-task"),
        (ValueQuery(TASK.id, 9, bytes(32), 0), "other-plan"),
        (ValueQuery(TASK.id, 9, PLAN.digest, 1), "unknown-release"),
        (ValueQuery(TASK.id, 9, PLAN.digest, 5), "unknown-release"),
        (ValueQuery(TASK.id, 10, PLAN.digest, 0), "skipped-round"),
        (ValueQuery(TASK.id, 9, PLAN.digest, 2), "repeated-round"),
    ],
)
def test_a_query_outside_the_pinned_plan_is_refused(query: ValueQuery, token: str) -> None:
    participant = ended([0.1, 0.1])
    participant.receive(ValueQuery(TASK.id, 9, PLAN.digest, 0))
    with pytest.raises(ServerViolation) as refused:
        participant.receive(query)
    assert refused.value.token == token
    assert participant.released.indices == (0,)


def test_a_retry_and_a_restart_give_the_same_bytes_and_cost_nothing_more() -> None:
    participant = ended([0.1, 0.1])
    queries = [ValueQuery(TASK.id, 9, PLAN.digest, 0), ValueQuery(TASK.id, 10, PLAN.digest, 2)]
    first = [participant.receive(query) for query in queries]
    assert participant.spent == TASK.epsilon + PLAN.epsilon
    assert participant.exposure == 8 * TASK.epsilon + PLAN.epsilon
    for released in (participant.released, Released(), Released(9, participant.released.answered[:1])):
        restarted = Participant(
            TASK, [0.1, 0.1], SECRET, ALLOW_ALL, plan=PLAN, state=participant.state, released=released
        )
        assert [restarted.receive(query) for query in [*queries, *queries]] == first * 2
        assert restarted.released == participant.released
        assert restarted.spent == participant.spent


def test_who_missed_the_first_value_still_gives_the_second_and_no_other_round_then_fits() -> None:
    participant = ended([0.1, 0.1])
    assert participant.receive(ValueQuery(TASK.id, 10, PLAN.digest, 2)) is not None
    assert participant.released.first_round == 9
    with pytest.raises(ServerViolation, match="repeated-round"):
        participant.receive(ValueQuery(TASK.id, 8, PLAN.digest, 0))
    with pytest.raises(ServerViolation, match="skipped-round"):
        participant.receive(ValueQuery(TASK.id, 10, PLAN.digest, 0))


def test_closings_of_values_that_were_not_given_are_for_others() -> None:
    participant = ended([0.1, 0.1])
    assert participant.receive(ValueClosed(TASK.id, 9, PLAN.digest, 0, (), ())) is None
    assert participant.released == Released()
    lost = Participant(
        TASK, [0.1, 0.1], SECRET, ALLOW_ALL, plan=PLAN, state=msgspec.structs.replace(participant.state, phase="lost")
    )
    assert lost.receive(ValueQuery(TASK.id, 9, PLAN.digest, 0)) is None


def test_no_two_positions_in_the_region_differ_by_more_than_epsilon() -> None:
    """By enumeration of the mechanism's exact weights at positions all over the region; with a planted fault.

    The planted fault scales by half of the range, as if the region were smaller than it is: its inputs leave [0, 1].
    """
    mechanism = MEAN.mechanism
    assert mechanism is not None
    low, high = MEAN.build().range_over(TASK.hierarchy.boxes(np.array([REGION], dtype=np.uint64)))[0]
    units = [(x - low) / (high - low) for x in np.linspace(low, high, 41)]
    weights = np.array([mechanism.probabilities(unit) for unit in units], dtype=object)
    worst = max(max(column) / min(column) for column in weights.T)
    assert math.log(worst) <= 1.0 + 1e-12
    with pytest.raises(InvalidInput):
        mechanism.probabilities((high - low) / ((high - low) / 2))


def test_a_moved_participant_answers_from_the_place_it_was_moved_to() -> None:
    """From outside the answer is that of the middle of its code, for every secret. Planted bug: another place."""
    codes = TASK.hierarchy.codes([[0.2, 0.1], [0.4, 0.3]])
    inside, other = TASK.hierarchy.middles(codes).tolist()
    code = int(codes[0])
    answers = [
        (respond([0.99, 0.1], secret=secret, code=code, moves=1).answer, respond(inside, secret=secret).answer,
         respond(other, secret=secret).answer)
        for secret in secrets_of(60)
    ]  # fmt: skip
    assert [got for got, _, _ in answers] == [wanted for _, wanted, _ in answers]
    assert [got for got, _, _ in answers] != [wrong for _, _, wrong in answers]


def one_region(crowd: int) -> Partition:
    nothing, cells = np.full((1, 2), np.nan), np.array([REGION], dtype=np.uint64)
    return Partition(TASK, cells, np.array([crowd]), nothing, np.zeros(1, dtype=np.int64), Trims.join([], 2))


def test_the_mean_of_decoded_reports_is_unbiased() -> None:
    """500 participants; six standard errors, a false alarm below 2e-9. Without decoding to the range it fails."""
    secrets = secrets_of(500)
    rng = np.random.default_rng(3)
    points = rng.random((500, 2)) * TASK.hierarchy.boxes(np.array([REGION], dtype=np.uint64))[0, 1]
    counts: dict[int, int] = {}
    for point, secret in zip(points, secrets, strict=True):
        answer = respond(point.tolist(), secret=secret).answer
        counts[answer] = counts.get(answer, 0) + 1
    closed = ValueClosed(TASK.id, 9, PLAN.digest, 0, (REGION,), (tuple(sorted(counts.items())),))
    overall = collected_mean(one_region(500), closed, MEAN)
    assert overall.participants == overall.regions.responders[0] == 500
    assert overall.value == pytest.approx(overall.regions.value[0])
    assert overall.stderr == pytest.approx(overall.regions.stderr[0])
    truth = points[:, 0].mean()
    assert abs(overall.value - truth) < 6 * overall.stderr
    ((values, numbers),) = region_values(one_region(500), closed, MEAN)
    assert np.average(values, weights=numbers) == pytest.approx(overall.value)
    raw = sum(output * count for output, count in counts.items()) / 500
    assert abs(raw - truth) > 6 * overall.stderr


def test_a_mean_of_nobody_and_of_other_regions_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nobody"):
        collected_mean(one_region(0), ValueClosed(TASK.id, 9, PLAN.digest, 0, (), ()), MEAN)
    with pytest.raises(InvalidInput, match="not regions of this partition"):
        collected_mean(one_region(1), ValueClosed(TASK.id, 9, PLAN.digest, 0, (REGION + 1,), (((0, 1),),)), MEAN)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Release("mean"),
        lambda: Release("counts", MEAN.mechanism),
        lambda: Release.ask("mean", "sum", epsilon=1.0),
        lambda: Release.ask("mean", "coordinate", epsilon=1.0),
        lambda: Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0.5]),
        lambda: Release.ask("mean", "coordinate", epsilon=1.0, parameters=[-1]),
        lambda: Release.ask("mean", "coordinate", epsilon=1.0, parameters=[math.nan]),
        lambda: Release.ask("mean", "gaussian_bump", epsilon=1.0),
        lambda: Release.ask("mean", "gaussian_bump", epsilon=1.0, parameters=[-1.0]),
        lambda: Release.ask("mean", "indicator", epsilon=1.0, parameters=[1, 1, 0, 0]),
        lambda: Release.ask("mean", "linear", epsilon=1.0, parameters=[1.0]),
        lambda: Release.ask("mean", "linear", epsilon=0.0, parameters=[1.0, 1.0]),
        lambda: Plan(TASK.id, (MEAN,) * 65),
        lambda: Plan(b"", (MEAN,)),
        lambda: Plan(bytes(32), (MEAN,)).check(TASK),
        lambda: Plan(TASK.id, (Release.ask("mean", "coordinate", epsilon=1.0, parameters=[2]),)).check(TASK),
        lambda: ValueQuery(TASK.id, 0, PLAN.digest, 0),
        lambda: ValueQuery(TASK.id, 1, b"", 0),
        lambda: ValueClosed(TASK.id, 1, PLAN.digest, 0, (2,), ((),)),
        lambda: ValueClosed(TASK.id, 1, PLAN.digest, 0, (2,), (((1, 1), (0, 1)),)),
        lambda: ValueClosed(TASK.id, 1, PLAN.digest, 0, (2,), (((1, 0),),)),
        lambda: decode(encode(PLAN) + b"\x00", Plan),
    ],
)
def test_what_is_wrong_is_refused(make: Any) -> None:
    with pytest.raises(InvalidInput):
        make()


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        ("coordinate", [1]),
        ("squared_norm", []),
        ("squared_norm", [0.5, 0.5]),
        ("gaussian_bump", [0.3]),
        ("gaussian_bump", [0.3, 0.5, 0.5]),
        ("linear", [1.0, 2.0, -1.0]),
        ("indicator", [0.0, 0.0, 0.5, 0.5]),
    ],
)
def test_every_function_travels_in_a_plan(function: str, parameters: list[float]) -> None:
    plan = Plan(TASK.id, (Release.ask("mean", function, epsilon=2.0, parameters=parameters),))
    plan.check(TASK)
    assert decode(encode(plan), Plan) == plan
    assert respond([0.1, 0.1], plan=plan) == respond([0.1, 0.1], plan=plan)


# -- people's own values -------------------------------------------------------------------------------------------


FARES = Plan(TASK.id, (Release.ask("mean", "own:fare", epsilon=1.0, parameters=[0, 100]),))


def own_report(point: list[float], value: float | None, **options: Any) -> ValueReport:
    state = State(phase="finished", round=8, cell=REGION, code=1, answered=8)
    person = Participant(TASK, point, SECRET, ALLOW_ALL, plan=FARES, value=value, state=state, **options)
    report = person.receive(ValueQuery(TASK.id, 9, FARES.digest, 0))
    assert isinstance(report, ValueReport)
    return report


def test_an_own_value_is_answered_wherever_its_owner_is_in_the_region() -> None:
    reports = {encode(own_report(point, 42.0)) for point in ([0.1, 0.1], [0.49, 0.2], [0.0, 0.0])}
    assert len(reports) == 1
    assert len({own_report([0.1, 0.1], value).answer for value in np.linspace(0, 100, 30).tolist()}) > 1


def test_the_output_of_an_own_value_is_that_of_its_mechanism() -> None:
    mechanism = FARES.releases[0].mechanism
    assert mechanism is not None
    entropy = value_entropy(SECRET, TASK.id, FARES.digest, 0, REGION, mechanism.words)
    for value in (0.0, 12.5, 100.0):
        assert own_report([0.1, 0.1], value).answer == mechanism.release_one(value / 100, entropy)


@pytest.mark.parametrize("value", [None, -0.1, 100.1, math.nan, math.inf, True, "7"])
def test_an_own_value_outside_its_range_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="fare from 0 to 100"):
        own_report([0.1, 0.1], value)


def test_a_value_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(InvalidInput, match="asks for no value of your own"):
        Participant(TASK, [0.1, 0.1], SECRET, ALLOW_ALL, plan=PLAN, value=3.0)


def test_the_promise_of_a_plan_names_the_own_value() -> None:
    found = promise(TASK, FARES)
    assert found.own == "fare from 0 to 100"
    assert found.epsilon == TASK.epsilon + 1.0
    assert "region, with any two values of fare from 0 to 100" in found.sentence()
    assert promise(TASK, PLAN).own == ""


@pytest.mark.parametrize(
    ("function", "parameters", "why"),
    [
        ("own:", (0, 1), "1 to 100 characters"),
        ("own:" + "x" * 101, (0, 1), "1 to 100 characters"),
        ("own:a\u202eb", (0, 1), "no control characters"),
        ("own:fare", (), "range must be two numbers"),
        ("own:fare", (1, 0), "smallest first"),
        ("own:fare", (-1.7e308, 1.7e308), "smallest first"),
    ],
)
def test_an_own_value_needs_a_name_and_a_range(function: str, parameters: tuple[float, ...], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Release.ask("mean", function, epsilon=1.0, parameters=parameters)


def test_a_plan_asks_for_one_own_value() -> None:
    with pytest.raises(InvalidInput, match="one value of people's own"):
        Plan(TASK.id, FARES.releases * 2)
