"""The whole job in one call: the budget is divided by public numbers alone, and the errors reach their targets."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import BudgetExceeded, InvalidInput, OutsideDomain
from semilocal.lab import baselines
from semilocal.release.job import plan_split
from semilocal.simulation import synthetic
from semilocal.testing import unit_box

BOX = sl.Box((-10, -10), (10, 10))
NORM = sl.functions.squared_norm()


def gaussian(size: int, rng: np.random.Generator) -> Any:
    return synthetic.truncated_gaussian(size, rng, box=BOX, scale=1.5)


def test_the_split_is_told_public_numbers_only() -> None:
    assert list(inspect.signature(plan_split).parameters) == ["participants", "epsilon", "delta", "k"]


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.0, 2.3, 8.0, 12.0, 30.0])
@pytest.mark.parametrize("participants", [1, 100, 2_000, 64_000, 10**7])
def test_a_split_spends_all_and_no_more(participants: int, epsilon: float) -> None:
    split = plan_split(participants, epsilon=epsilon)
    assert split.tree >= 0
    assert split.value > 0
    assert split.tree + split.value == pytest.approx(epsilon, rel=1e-12)
    assert split.tree in (0.0, epsilon / 2)


def test_more_people_or_a_larger_budget_never_lose_the_partition() -> None:
    helped = [
        [plan_split(size, epsilon=epsilon).tree > 0 for epsilon in (0.1, 0.5, 1, 2, 4, 8)]
        for size in (100, 1_000, 10_000, 100_000)
    ]
    table = np.array(helped)
    assert (np.diff(table.astype(int), axis=0) >= 0).all()
    assert (np.diff(table.astype(int), axis=1) >= 0).all()
    assert table.any()
    assert not table.all()


@pytest.mark.parametrize("job", ["mean", "values"])
def test_the_ledger_adds_up_to_the_budget(job: str) -> None:
    rng = np.random.default_rng(2)
    whom = {"trust": "nobody"} if job == "mean" else {}
    found = getattr(sl, job)(gaussian(20_000, rng), NORM, BOX, epsilon=1.0, delta=0.05, k=20, rng=rng, **whom)
    assert found.spent.epsilon == 1
    assert [entry.epsilon for entry in found.spent.entries] == [Fraction(1, 2), Fraction(1, 2)]
    assert float(found.spent.delta) == pytest.approx(found.partition.task.delta)


def test_where_no_partition_can_help_everything_goes_to_the_values() -> None:
    rng = np.random.default_rng(3)
    points = gaussian(100, rng)
    # The cap counts what is spent, and not a partition that was never made.
    result = sl.mean(points, NORM, BOX, epsilon=0.5, trust="nobody", delta=0.05, k=20, rng=rng, cap=0.5)
    assert len(result.partition) == 1
    assert [entry.what for entry in result.spent.entries] == ["mean of squared_norm()"]
    assert result.spent.epsilon == Fraction(1, 2)
    assert result.spent.delta == 0
    local = baselines.local_mean(points, NORM, BOX, epsilon=0.5, rng=rng)
    assert result.stderr <= 1.1 * local.stderr


@pytest.mark.parametrize("cap", [1, 1.0, "1", Decimal(1), Fraction(1), np.float32(1), np.int64(1)])
@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_a_cap_is_any_number_that_a_ledger_takes(cap: Any, trust: Any) -> None:
    rng = np.random.default_rng(7)
    given: dict[str, Any] = {"trust": trust, "rng": rng, "cap": cap}
    assert sl.counts(gaussian(500, rng), BOX, epsilon=1.0, **given).spent.cap == 1
    with pytest.raises(BudgetExceeded, match="cap is 1"):
        sl.counts(gaussian(500, rng), BOX, epsilon=1.01, **given)


@pytest.mark.parametrize("trust", ["nobody", "curator"])
@pytest.mark.parametrize("wrong", [2, "2", np.zeros((3, 2)), [sl.Ledger()]])
def test_what_is_no_ledger_is_refused_in_words(trust: Any, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"ledger must be a semilocal.Ledger, such as the spent of a result"):
        sl.counts(gaussian(100, np.random.default_rng(1)), BOX, epsilon=1.0, trust=trust, ledger=wrong)


def test_values_have_no_trust() -> None:
    named: Any = {"trust": "nobody"}
    with pytest.raises(InvalidInput, match="values has no trust"):
        sl.values(gaussian(100, np.random.default_rng(1)), NORM, BOX, epsilon=1.0, **named)


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), True, "1", None])
def test_a_budget_that_is_no_positive_number_is_refused(wrong: Any) -> None:
    rng = np.random.default_rng(8)
    with pytest.raises(InvalidInput, match="epsilon"):
        sl.mean(gaussian(100, rng), NORM, BOX, epsilon=wrong, trust="nobody", delta=0.05, k=20, rng=rng)


def test_other_wrong_input_is_refused() -> None:
    rng = np.random.default_rng(9)
    points = gaussian(500, rng)
    given: dict[str, Any] = {"trust": "nobody", "epsilon": 4.0, "delta": 0.05, "k": 20, "rng": rng}
    with pytest.raises(InvalidInput, match="never guessed from the data"):
        sl.mean(points, np.linalg.norm, BOX, **given)
    with pytest.raises(OutsideDomain):
        sl.mean(points + 100, NORM, BOX, **given)
    with pytest.raises(InvalidInput, match="delta"):
        sl.counts(points, BOX, **given | {"delta": 2.0})


@pytest.mark.parametrize(
    ("epsilon", "options", "words"),
    [
        (1000, {}, "from 0.01 to 56 (at most 16 for one value and 40 for the partition); got 1000"),
        (57, {}, "to 56 "),
        (0.001, {}, "from 0.01 to 56 (at most 16 for one value and 40 for the partition); got 0.001"),
        (17, {"value": np.zeros(200), "range": (0, 1)}, "from 0.01 to 16 (at most 16 for one value); got 17"),
    ],
)
def test_an_epsilon_is_refused_by_what_was_given_not_by_a_part_of_it(
    epsilon: float, options: dict[str, Any], words: str
) -> None:
    mean: Any = sl.mean
    what = [] if "value" in options else [sl.functions.coordinate(0)]
    with pytest.raises(InvalidInput, match=re.escape(words)):
        mean(np.full((200, 2), 0.5), *what, unit_box(2), epsilon=epsilon, trust="nobody", **options)


@pytest.mark.parametrize(("epsilon", "options"), [(0.01, {}), (56, {})])
def test_what_the_refusal_allows_is_taken(epsilon: float, options: dict[str, Any]) -> None:
    f, points = sl.functions.coordinate(0), np.full((200, 2), 0.5)
    assert sl.mean(points, f, unit_box(2), epsilon=epsilon, trust="nobody", **options).total == 200


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "target"), [(1.0, 0.02), (2.0, 1.5e-3), (4.0, 8e-4)])
def test_means_of_the_first_experiment_reach_their_targets(epsilon: float, target: float) -> None:
    """Mean squared error over 20 runs with a fixed seed, N = 64,000, k = 20, delta = 0.05.

    The expected ones are 0.012, 6e-4 and 1e-4. Errors are nearly normal, so that 20 squares scatter as chi-square.
    """
    rng = np.random.default_rng(10)
    squares = []
    for _ in range(20):
        points = gaussian(64_000, rng)
        result = sl.mean(points, NORM, BOX, epsilon=epsilon, trust="nobody", delta=0.05, k=20, rng=rng)
        squares.append((result.value - float(NORM(points).mean())) ** 2)
    assert np.mean(squares) <= target


@pytest.mark.slow
@pytest.mark.parametrize("size", [2_000, 16_000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_no_mean_is_worse_than_a_local_one(size: int, epsilon: float) -> None:
    """Squared errors of ten runs each, against what a local mean says about itself."""
    rng = np.random.default_rng(11)
    ours, local = [], []
    for _ in range(10):
        points = gaussian(size, rng)
        result = sl.mean(points, NORM, BOX, epsilon=epsilon, trust="nobody", delta=0.05, k=20, rng=rng)
        ours.append((result.value - float(NORM(points).mean())) ** 2)
        local.append(baselines.local_mean(points, NORM, BOX, epsilon=epsilon, rng=rng).stderr ** 2)
    assert np.mean(ours) <= 1.1 * np.mean(local)


ROOT = str(Path(sl.__file__).parent)
POINTS = np.random.default_rng(1).beta(2, 5, (5_000, 2))
BOXES = np.sort(np.random.default_rng(2).random((50, 2, 2)), axis=1)


def visited(call: Callable[[], Any]) -> set[tuple[str, str]]:
    """Modules of the package and functions in them, without comprehensions, on all threads."""
    found = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            found.add((code.co_filename, f"{code.co_name}:{code.co_firstlineno}"))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return found


@pytest.mark.parametrize("trust", ["nobody", "curator", "two-servers"])
def test_a_question_and_its_interval_visit_few_modules(trust: Any) -> None:
    """What answers a question on a finished run, from the tree on; and a whole call, with the protocol it plays."""

    def counted() -> sl.release.Counts:
        return sl.counts(POINTS, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust=trust, rng=np.random.default_rng(1))

    result = counted()
    question = visited(lambda: result.query(BOXES).interval())
    whole = visited(lambda: counted().query(BOXES).interval())
    assert len({module for module, _ in question}) <= 17
    assert len(question) <= 120
    assert len({module for module, _ in whole}) <= (27 if trust == "nobody" else 21)
    assert len(whole) <= (240 if trust == "nobody" else 190)
