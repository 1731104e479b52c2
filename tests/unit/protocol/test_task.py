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
from semilocal.protocol.messages import decode, encode

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
        ("tau", 0.0, "tau must be a share above 0 and below 0.5"),
        ("tau", 0.5, "tau must be a share"),
        ("max_trims", -1, "max_trims must be an integer from 0 to 255"),
        ("max_trims", 256, "max_trims must be an integer"),
        ("max_trims", 1.0, "max_trims must be an integer"),
        ("max_visitors", 0, "max_visitors must be a share above 0 and at most 1"),
        ("max_visitors", 1.5, "max_visitors must be a share"),
        ("max_visitors", math.nan, "max_visitors must be a share"),
        ("rule", "some", "rule must be 'all', 'trim' or 'each'; got 'some'"),
        ("accounting", "none", "accounting must be 'core' or 'uniform'; got 'none'"),
        ("max_rounds", 0, "max_rounds must be an integer from 1 to the hierarchy's max_depth 40"),
        ("max_rounds", 41, "max_rounds must be an integer from 1 to the hierarchy's max_depth 40; got 41"),
        ("quorum", 0, "quorum must be a share above 0 and at most 1"),
        ("quorum", 1.5, "quorum must be a share"),
        ("window", 0, "window must be an integer from 1 to 100000000, in seconds"),
        ("size_from", "guess", "size_from must be 'responders' or 'estimate'"),
        ("size_from", "estimate", "it needs rule='each' and PaperLaplace"),
        ("hierarchy", "tree", "hierarchy must be a tree such as BinaryTree"),
        ("randomizer", None, "randomizer must be a RandomizedResponse"),
        ("randomizer", RandomizedResponse(1.0, 4), "use a randomizer with fanout=2"),
        ("tolerate_liars", -1, "tolerate_liars must be an integer of at least 0"),
        ("server_key", b"short", "server_key must be an Ed25519 public key"),
    ],
)
def test_an_impossible_field_is_refused_with_what_is_allowed(field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Task(**{**fields_of(build()), field: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "all", "max_trims": 3}, "rule 'all' never trims; leave it at 0"),
        ({"rule": "each", "max_trims": 1}, "rule 'each' never trims"),
        ({"rule": "all", "max_visitors": 0.5}, "rule 'all' moves nobody; leave it at 1.0"),
        ({"rule": "each", "max_visitors": 0.9}, "rule 'each' moves nobody"),
        ({"tree": "kd"}, "tree must be 'binary' or 'quad'; got 'kd'"),
        ({"randomizer": "gaussian"}, "randomizer must be 'randomized-response' or 'discrete-laplace'"),
        ({"epsilon": "1"}, "epsilon must be a number"),
        ({"epsilon": math.nan}, "epsilon must be a number"),
        ({"epsilon": 0}, "epsilon must be a number from 0.001 to 40"),
        ({"epsilon": 0.1, "accounting": "uniform", "max_trims": 200}, "epsilon must be a number from 0.201 to 8040 "),
        ({"max_depth": 61}, "max_depth must be at most 60"),
        ({"tree": "quad", "max_depth": 31}, "max_depth must be at most 30"),
        ({"tolerate_liars": 3, "randomizer": "discrete-laplace"}, "only in randomized response"),
        ({"accounting": "half"}, "accounting must be 'core' or 'uniform'"),
    ],
)
def test_an_impossible_combination_is_an_error_that_says_what_to_change(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build(**options)


def test_all_constructors_want_a_box() -> None:
    for make in (Task.build, Task.paper, Task.published):
        with pytest.raises(InvalidInput, match=r"box must be a semilocal\.Box"):
            make(((0, 0), (1, 1)), epsilon=1.0, delta=0.05, k=20)  # type: ignore[arg-type]
    for make in (Task.paper, Task.published):
        with pytest.raises(InvalidInput, match="epsilon must be a positive number"):
            make(SQUARE, epsilon=0.0, delta=0.05, k=20)


# -- constructors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", range(1, 9))
def test_build_has_our_defaults_in_all_dimensions(d: int) -> None:
    task = Task.build(Box((0,) * d, (1,) * d), epsilon=1.0, delta=1e-6, k=50)
    assert task.hierarchy == BinaryTree(task.box, min(20 * d, 60))
    assert task.randomizer == RandomizedResponse(1.0, 2)
    assert (task.rule, task.accounting, task.size_from) == ("trim", "core", "responders")
    assert task.max_rounds == task.hierarchy.max_depth
    quad = Task.build(Box((0,) * d, (1,) * d), epsilon=1.0, delta=1e-6, k=50, tree="quad")
    assert quad.hierarchy == Quadtree(quad.box, min(20 * d, 60) // d)
    assert quad.randomizer.fanout == 2**d


def test_paper_and_published_are_the_paper_s_and_the_authors_algorithms() -> None:
    paper = Task.paper(SQUARE, epsilon=0.5, delta=0.05, k=20)
    assert paper.hierarchy == Quadtree(SQUARE, 20)
    assert paper.randomizer == PaperLaplace(2.0, 4, "paper")
    assert (paper.rule, paper.size_from, paper.max_trims) == ("all", "responders", 0)
    assert paper.epsilon == 1.0  # twice what the paper says
    published = Task.published(SQUARE, epsilon=0.5, delta=0.05, k=20, max_depth=7)
    assert published.hierarchy == Quadtree(SQUARE, 7)
    assert published.randomizer == paper.randomizer
    assert (published.rule, published.size_from) == ("each", "estimate")


def test_options_of_build_arrive() -> None:
    chosen = {"max_depth": 9, "max_rounds": 4, "tau": 0.1, "quorum": 0.5, "window": 60, "max_trims": 5}
    task = build(tree="quad", randomizer="discrete-laplace", **chosen)
    assert task.hierarchy == Quadtree(SQUARE, 9)
    assert task.randomizer == DiscreteLaplace(1.0, 4)
    assert (task.max_rounds, task.tau, task.quorum, task.window, task.max_trims) == (4, 0.1, 0.5, 60, 5)


# -- accounting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trims", [0, 1, 3, 8])
def test_core_accounting_gives_epsilon_to_pairs_inside(trims: int) -> None:
    task = build(epsilon=0.8, max_trims=trims)
    assert task.epsilon == task.randomizer.epsilon == 0.8
    assert task.epsilon_worst == pytest.approx((1 + trims) * 0.8)
    assert task.delta_test * (1 + trims) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("tree", "dimensions", "fanout"), [("binary", 4, 1), ("quad", 2, 4), ("quad", 3, 8), ("quad", 4, 16)]
)
@pytest.mark.parametrize("accounting", ["core", "uniform"])
def test_the_tests_of_a_path_together_err_with_delta_however_many_children_there_are(
    accounting: str, tree: str, dimensions: int, fanout: int
) -> None:
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "k": 20, "accounting": accounting, "tree": tree}
    task = Task.build(Box((0,) * dimensions, (1,) * dimensions), **options, max_trims=6)
    assert task.delta_test * 7 * fanout == pytest.approx(1e-3)
    for rule in ("all", "each"):
        assert Task.build(Box((0,) * dimensions, (1,) * dimensions), **options, rule=rule).delta_test == 1e-3


@pytest.mark.parametrize("trims", [0, 1, 3, 8])
def test_uniform_accounting_shares_epsilon_and_delta_among_the_worst_case(trims: int) -> None:
    task = build(epsilon=0.8, accounting="uniform", max_trims=trims)
    assert task.randomizer.epsilon == pytest.approx(0.8 / (1 + trims))
    assert task.epsilon_worst == pytest.approx(0.8)
    assert task.delta_test * (1 + trims) == pytest.approx(1e-3)
    assert task.delta == 1e-3


@pytest.mark.parametrize("rule", ["all", "each"])
@pytest.mark.parametrize("accounting", ["core", "uniform"])
def test_without_trims_both_accountings_agree(rule: str, accounting: str) -> None:
    task = build(rule=rule, accounting=accounting)
    assert task.max_trims == 0
    assert task.epsilon == task.epsilon_worst == 1.0
    assert task.delta_test == task.delta


def test_only_honest_rules_and_margins_keep_a_crowd() -> None:
    assert build().keeps_crowd
    assert build(rule="all").keeps_crowd
    assert build(randomizer="discrete-laplace").keeps_crowd
    assert not build(rule="each").keeps_crowd
    assert not Task.paper(SQUARE, epsilon=1.0, delta=0.05, k=20).keeps_crowd
    assert not Task.published(SQUARE, epsilon=1.0, delta=0.05, k=20).keeps_crowd


# -- identity ------------------------------------------------------------------------------------------------------

TASKS = {
    "build": build(),
    "all": build(rule="all"),
    "each": build(rule="each"),
    "uniform": build(accounting="uniform"),
    "quad": build(tree="quad", randomizer="discrete-laplace"),
    "paper": Task.paper(SQUARE, epsilon=1.0, delta=0.05, k=20),
    "published": Task.published(SQUARE, epsilon=1.0, delta=0.05, k=20),
}
every = pytest.mark.parametrize("name", TASKS)


@every
def test_a_task_is_frozen_and_hashable(name: str) -> None:
    task = TASKS[name]
    with pytest.raises(AttributeError):
        task.k = 1  # type: ignore[misc]
    assert {task: 1}[msgspec.structs.replace(task)] == 1


@every
def test_the_id_is_the_hash_of_the_bytes_and_the_bytes_are_those_of_the_fields(name: str) -> None:
    task = TASKS[name]
    assert task.id == hashlib.sha256(task.to_bytes()).digest()
    assert task.to_bytes() == encode(task)
    plain = {"type": "task", **msgspec.to_builtins(fields_of(task), builtin_types=(bytes,))}
    assert msgspec.msgpack.encode(plain) == task.to_bytes()


@every
def test_a_task_survives_its_bytes(name: str) -> None:
    task = TASKS[name]
    again = decode(task.to_bytes(), Task)
    assert again == task
    assert again.id == task.id
    assert again.to_bytes() == task.to_bytes()


def test_numbers_of_other_types_give_the_same_bytes_or_are_refused() -> None:
    task = build(epsilon=np.float64(1.0), delta=np.float64(1e-3), quorum=1)
    assert task.id == build().id
    assert decode(task.to_bytes(), Task) == task
    assert build(epsilon=1).id == build(epsilon=1.0).id


def test_build_takes_numbers_of_numpy_as_its_own() -> None:
    """A search over np.arange gives them; an integer of NumPy was refused with "must be an integer"."""
    whole: dict[str, Any] = {"k": 30, "max_trims": 3, "max_depth": 20, "max_rounds": 9, "tolerate_liars": 1}
    real: dict[str, Any] = {"epsilon": 1.0, "delta": 2.0**-20, "tau": 0.25, "quorum": 0.5}
    box = Box((0, 0), (1, 1))
    given: dict[str, Any] = {name: np.int64(value) for name, value in whole.items()}
    given |= {name: np.float32(value) for name, value in real.items()}
    task = Task.build(box, **given)
    assert encode(task) == encode(Task.build(box, **whole, **real))
    assert type(task.k) is int
    with pytest.raises(InvalidInput, match="k must be an integer"):
        Task.build(box, epsilon=1.0, delta=1e-6, k=np.True_)  # type: ignore[arg-type]


def test_the_id_changes_with_every_field() -> None:
    task = build()
    other: dict[str, Any] = {
        "hierarchy": BinaryTree(SQUARE, 41),
        "randomizer": RandomizedResponse(1.5, 2),
        "rule": "all",
        "k": 21,
        "delta": 2e-3,
        "max_trims": 2,
        "tau": 0.21,
        "accounting": "uniform",
        "max_rounds": 39,
        "quorum": 0.9,
        "window": 3601,
        "size_from": "estimate",
        "tolerate_liars": 1,
        "server_key": bytes(32),
        "min_side": (0.1,),
        "label": "again",
        "max_visitors": 0.4,
    }
    assert set(other) == set(task.__struct_fields__)
    companions: dict[str, dict[str, Any]] = {"rule": {"max_trims": 0, "max_visitors": 1.0}}
    ids = {task.id}
    for name, value in other.items():
        if name == "size_from":  # only the published code has it
            published = Task.published(SQUARE, epsilon=1.0, delta=0.05, k=20)
            assert msgspec.structs.replace(published, size_from="responders").id != published.id
            continue
        changed = msgspec.structs.replace(task, **{name: value}, **companions.get(name, {}))
        assert changed != task
        ids.add(changed.id)
    assert len(ids) == len(other)
    boxes = [Box((0, 0), (1, 2), ("x", "y")), Box((0, 0), (1, 1), ("a", "b")), Box((0, -1), (1, 1), ("x", "y"))]
    ids |= {msgspec.structs.replace(task, hierarchy=BinaryTree(box, 40)).id for box in boxes}
    assert len(ids) == len(other) + len(boxes)


@pytest.mark.parametrize("kind", [RandomizedResponse, DiscreteLaplace])
def test_bytes_that_are_not_canonical_or_not_valid_are_refused(kind: Any) -> None:
    task = msgspec.structs.replace(build(), randomizer=kind(1.0, 2))
    plain = msgspec.msgpack.decode(task.to_bytes())
    assert decode(msgspec.msgpack.encode(plain), Task) == task
    for change in (
        {"k": 0},
        {"extra": 1},
        {"delta": 0.9},
        {"k": 20.0},
        {"quorum": 1},  # equal, but other bytes
        {"randomizer": {**plain["randomizer"], "fanout": 3}},
        {"randomizer": {**plain["randomizer"], "epsilon": 1}},
        {"randomizer": {**plain["randomizer"], "kind": "gaussian"}},
    ):
        with pytest.raises(InvalidInput, match="Task"):
            decode(msgspec.msgpack.encode({**plain, **change}), Task)
    backwards = dict(reversed(plain.items()))
    with pytest.raises(InvalidInput, match="canonical"):
        decode(msgspec.msgpack.encode(backwards), Task)
    for data in (b"", b"\xc0", task.to_bytes()[:-1], task.to_bytes() + b"\0"):
        with pytest.raises(InvalidInput, match="Task"):
            decode(data, Task)
