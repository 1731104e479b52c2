"""What an owner allows has a meaning: limits that have none are refused when they are set, not when a task comes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from semilocal.errors import InvalidInput, ServerViolation
from semilocal.geometry.box import Box
from semilocal.protocol.keys import HashChain
from semilocal.protocol.plan import Plan
from semilocal.protocol.policy import Policy, check_region, check_task, foreseen, refusals
from semilocal.protocol.task import MAX_K, Task

NUMBER = "must be a number of at least 0"
WRONG: list[tuple[str, Any, str]] = [
    *(("max_epsilon", value, NUMBER) for value in (-1e-9, math.nan, -math.inf, 10**400, "3", True, None)),
    *(("max_depth", value, "must be an integer of at least 0") for value in (-1, 2.5, "3", True)),
    *(("max_splits", value, "must be an integer of at least 0") for value in (-1, 2.5, "3", False)),
    *(("max_delta", value, "must be a chance from 0 to 1") for value in (1.5, -0.1, math.nan, math.inf, "1", True)),
    *(("min_k", value, f"must be an integer from 1 to {MAX_K}") for value in (0, -3, MAX_K + 1, 10**30, 2.5, True)),
    *(("allow_no_crowd", value, "must be True or False") for value in ("no", 0, None)),
    *(("allow_simulation", value, "must be True or False") for value in ("no", 1)),
    *(("min_side", value, "must be lengths of at least 0") for value in
      (0.5, "1", ("1",), (-1.0,), (math.nan,), (1.0, math.inf), (True,), (10**400,))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "words"), WRONG, ids=lambda value: str(value)[:12])
def test_a_limit_without_a_meaning_is_refused(name: str, value: Any, words: str) -> None:
    limits = {"max_epsilon": 1.0, name: value}
    with pytest.raises(InvalidInput, match=f"^{name} {words}.*; got "):
        Policy(**limits)


# -- what a task must have, and what a region ------------------------------------------------------------------------

CHAIN = HashChain(bytes(32), 50)
TASK = Task.build(Box((0, 0), (8, 8)), epsilon=2.0, k=10, delta=1e-4, max_depth=12, max_rounds=50, chain=CHAIN.end)


def token(task: Task, policy: Policy) -> list[str]:
    return [one.token for one in refusals(task, Plan(task.id), policy)]


def test_every_limit_of_a_task_refuses_by_name() -> None:
    fair = Policy(max_epsilon=2.0, min_k=10, max_delta=1e-4)
    assert token(TASK, fair) == []
    check_task(TASK, Plan(TASK.id), fair)
    assert token(TASK, Policy(max_epsilon=1.9, min_k=10)) == ["over-budget"]
    assert token(TASK, Policy(max_epsilon=2.0, min_k=11)) == ["small-crowd"]
    assert token(TASK, Policy(max_epsilon=2.0, min_k=10, max_delta=1e-5)) == ["weak-crowd"]
    bare = Task.build(Box((0, 0), (8, 8)), epsilon=2.0, k=10)
    assert token(bare, fair) == ["no-chain"]
    assert token(bare, Policy(max_epsilon=2.0, min_k=10, allow_simulation=True)) == []
    paper = Task.paper(Box((0, 0), (8, 8)), epsilon=1.0, delta=1e-4, k=10)
    assert token(paper, fair) == ["simulation-only", "no-crowd"]
    with pytest.raises(ServerViolation, match="over-budget"):
        check_task(TASK, Plan(TASK.id), Policy(max_epsilon=1.0, min_k=10))


def test_an_operator_is_told_what_default_devices_refuse_and_not_that_the_server_adds_a_chain() -> None:
    dear = Task.build(Box((0, 0), (8, 8)), epsilon=12.0, quorum=0.5)
    assert [one.token for one in foreseen(dear, Plan(dear.id))] == ["over-budget", "quorum"]


def test_a_region_must_hold_a_whole_cell_of_the_owners_size() -> None:
    lower, upper = TASK.hierarchy.ends
    half = (lower + upper) // 2
    for limits, inside, outside in (
        ({"min_side": (4.0,)}, (lower, half), (lower, lower + (half - lower) // 2 - 1)),
        ({"max_depth": 1}, (lower, half), (lower, half - 1)),
    ):
        policy = Policy(max_epsilon=2.0, **limits)
        check_region(TASK, *inside, policy)
        with pytest.raises(ServerViolation, match=r"small-region|deep-region"):
            check_region(TASK, *outside, policy)
    policy = Policy(max_epsilon=2.0, max_splits=2)
    check_region(TASK, lower, half, policy, splits=2)
    with pytest.raises(ServerViolation, match="many-splits"):
        check_region(TASK, lower, half, policy, splits=3)
