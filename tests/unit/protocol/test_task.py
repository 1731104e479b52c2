"""What a task promises: it is frozen, its id stands for every field, and its statement says all numbers."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal import BinaryTree, Box, DiscreteLaplace, PaperLaplace, Quadtree, RandomizedResponse, Task
from semilocal.errors import InvalidInput
from semilocal.protocol.messages import encode

SQUARE = Box((0, 0), (1, 1), names=("x", "y"))


def build(**options: Any) -> Task:
    return Task.build(SQUARE, **{"epsilon": 1.0, "delta": 1e-3, "k": 20, **options})


def fields_of(task: Task) -> dict[str, Any]:
    return {name: getattr(task, name) for name in task.__struct_fields__}


# -- validation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("k", 0, "k must be an integer from 1"),
        ("k", -5, "k must be an integer from 1"),
        ("k", 2.0, "k must be an integer from 1"),
        ("k", True, "k must be an integer from 1"),
        ("k", 2**31, "k must be an integer from 1"),
        ("delta", 0.0, "delta must be a number from 1e-15 to below 0.5"),
        ("delta", 0.5, "delta must be a number"),
        ("delta", -0.1, "delta must be a number"),
        ("delta", math.nan, "delta must be a number"),
        ("delta", "0.05", "delta must be a number"),
        ("rule", "some", "rule must be 'cut' or 'all'; got 'some'"),
        ("answers", 0, "answers must be an integer from 1 to 64"),
        ("answers", 65, "answers must be an integer from 1 to 64"),
        ("chain", b"short", "chain must be the end of a hash chain of 32 bytes"),
        ("max_rounds", 0, "max_rounds must be an integer from 1 to 1000"),
        ("max_rounds", 1001, "max_rounds must be an integer from 1 to 1000; got 1001"),
        ("quorum", 0, "quorum must be a share above 0 and at most 1"),
        ("quorum", 1.5, "quorum must be a share"),
        ("window", 0, "window must be an integer from 1 to 100000000, in seconds"),
        ("hierarchy", "tree", "hierarchy must be a tree such as BinaryTree"),
        ("randomizer", None, "randomizer must be a RandomizedResponse"),
        ("randomizer", RandomizedResponse(1.0, 4), "RandomizedResponse with fanout=2"),
        ("tolerate_liars", -1, "tolerate_liars must be an integer from 0"),
        ("server_key", b"short", "server_key must be an Ed25519 public key"),
    ],
)
def test_an_impossible_field_is_refused_with_what_is_allowed(field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Task(**{**fields_of(build()), field: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tree": "kd"}, "tree must be 'binary' or 'quad'; got 'kd'"),
        ({"epsilon": "1"}, "epsilon must be a number"),
        ({"epsilon": math.nan}, "epsilon must be a number"),
        ({"epsilon": 0}, "epsilon must be a number from 0.001 to 128"),
        ({"epsilon": 0, "rule": "all"}, "epsilon must be a number from 0.001 to 40"),
        ({"epsilon": 128.5}, "epsilon must be a number from 0.001 to 128"),
        ({"max_depth": 61}, "max_depth must be at most 60"),
        ({"tree": "quad", "max_depth": 31}, "max_depth must be at most 30"),
        ({"rule": "median"}, "rule must be 'cut' or 'all'; got 'median'"),
    ],
)
def test_an_impossible_combination_is_an_error_that_says_what_to_change(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build(**options)


# -- constructors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", range(1, 9))
def test_build_has_our_defaults_in_all_dimensions(d: int) -> None:
    task = Task.build(Box((0,) * d, (1,) * d), epsilon=1.0, delta=1e-6, k=50)
    assert task.hierarchy == BinaryTree(task.box, min(20, 60 // d) * d)
    assert task.randomizer == RandomizedResponse(1.0, 2)
    assert (task.rule, task.answers) == ("cut", 1)
    quad = Task.build(Box((0,) * d, (1,) * d), epsilon=1.0, delta=1e-6, k=50, tree="quad", rule="all")
    assert quad.hierarchy == Quadtree(quad.box, min(20 * d, 60) // d)
    assert quad.randomizer.fanout == 2**d


def test_paper_is_the_paper_s_algorithm() -> None:
    paper = Task.paper(SQUARE, epsilon=0.5, delta=0.05, k=20)
    assert paper.hierarchy == Quadtree(SQUARE, 20)
    assert paper.randomizer == PaperLaplace(2.0, 4, "paper")
    assert (paper.rule, paper.answers) == ("all", 1)
    assert paper.epsilon == 1.0  # twice what the paper says


# -- what it promises ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "answers"), [(0.1, 1), (1.0, 1), (2.0, 1), (2.9, 1), (3.0, 2), (4.0, 2), (8.0, 4)])
def test_the_answers_inside_a_region_share_epsilon(epsilon: float, answers: int) -> None:
    task = build(epsilon=epsilon)
    assert task.answers == answers
    assert task.epsilon == pytest.approx(epsilon)
    assert task.randomizer.epsilon * answers == pytest.approx(epsilon)
    every = build(epsilon=epsilon, rule="all")
    assert (every.answers, every.epsilon) == (1, epsilon)


def test_only_honest_margins_keep_a_crowd() -> None:
    assert build().keeps_crowd
    assert build(rule="all").keeps_crowd
    assert not Task.paper(SQUARE, epsilon=1.0, delta=0.05, k=20).keeps_crowd


# -- identity ------------------------------------------------------------------------------------------------------

TASKS = {
    "build": build(),
    "all": build(rule="all"),
    "chain": build(chain=bytes(32)),
    "quad": build(tree="quad", rule="all"),
    "laplace": msgspec.structs.replace(build(rule="all"), randomizer=DiscreteLaplace(1.0, 2)),
    "paper": Task.paper(SQUARE, epsilon=1.0, delta=0.05, k=20),
}
every = pytest.mark.parametrize("name", TASKS)


@every
def test_the_id_is_the_hash_of_the_bytes_and_the_bytes_are_those_of_the_fields(name: str) -> None:
    task = TASKS[name]
    assert task.id == hashlib.sha256(task.to_bytes()).digest()
    assert task.to_bytes() == encode(task)
    plain = {"type": "task", **msgspec.to_builtins(fields_of(task), builtin_types=(bytes,))}
    assert msgspec.msgpack.encode(plain) == task.to_bytes()


def test_build_takes_numbers_of_numpy_as_its_own() -> None:
    """A search over np.arange gives them; an integer of NumPy was refused with "must be an integer"."""
    whole: dict[str, Any] = {"k": 30, "max_depth": 20, "max_rounds": 9, "tolerate_liars": 1}
    real: dict[str, Any] = {"epsilon": 1.0, "delta": 2.0**-20, "quorum": 0.5}
    box = Box((0, 0), (1, 1))
    given: dict[str, Any] = {name: np.int64(value) for name, value in whole.items()}
    given |= {name: np.float32(value) for name, value in real.items()}
    task = Task.build(box, **given)
    assert encode(task) == encode(Task.build(box, **whole, **real))
    assert type(task.k) is int
    with pytest.raises(InvalidInput, match="k must be an integer"):
        Task.build(box, epsilon=1.0, delta=1e-6, k=np.True_)  # type: ignore[arg-type]
