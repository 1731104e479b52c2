"""The pair task: canonical bytes, different operators, buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semilocal.errors import InvalidInput
from semilocal.pooled import PooledTask
from semilocal.pooled.asked import AskedValue
from semilocal.sharing import is_pair_task
from semilocal.sharing.pair import COLLUSION, EXPERIMENTAL, PairTask, check_origin
from tests.helpers.pairs import crowd, operator, pair_task, pooled_task


def test_bytes_come_back_and_give_the_id() -> None:
    pair = pair_task()
    assert PairTask.from_bytes(pair.to_bytes()) == pair
    assert PairTask.from_bytes(pair.to_bytes()).id == pair.id
    assert pair.id != pair_task(label="another run").id


@pytest.mark.parametrize("field", ["name", "origin", "signing_key", "sealing_key"])
def test_operators_who_share_anything_are_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match="two operators"):
        PairTask(pooled_task(), operator(0), operator(1, **{field: getattr(operator(0), field)}))


def test_names_that_differ_in_case_only_are_the_same() -> None:
    with pytest.raises(InvalidInput, match="same name"):
        PairTask(pooled_task(), operator(0), operator(1, name="CITY OF AY"))


def test_a_curators_task_is_no_pair() -> None:
    task = PooledTask.build(pooled_task().box, epsilon=1.0, trust="curator", max_depth=5)
    with pytest.raises(InvalidInput, match="two-servers"):
        PairTask(task, operator(0), operator(1))


def test_a_task_deeper_than_40_levels_or_than_floats_can_tell_is_refused_by_who_reads_it() -> None:
    data = pair_task().to_bytes()
    changed = data.replace(b"\xa9max_depth\x09", b"\xa9max_depth\x29")
    assert changed != data
    with pytest.raises(InvalidInput, match="40"):
        PairTask.from_bytes(changed)
    with pytest.raises(InvalidInput, match="floats"):
        PooledTask.build(
            type(pooled_task().box)((1e6, 1e6), (1e6 + 1e-6, 1e6 + 1e-6)),
            epsilon=1.0,
            trust="two-servers",
            max_depth=40,
        )


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x93\x01\x02\x03", b"\x81\xa2\xcb\x20\x00", pair_task().to_bytes() + b"\x00"]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        PairTask.from_bytes(data)


def test_a_task_of_another_version_is_refused_in_one_sentence() -> None:
    assert is_pair_task(pair_task().to_bytes())
    with pytest.raises(InvalidInput, match=r"^not a pair task: Invalid value 'pair-task-3'"):
        PairTask.from_bytes(pair_task().to_bytes().replace(b"pair-task-2", b"pair-task-3"))


@pytest.mark.parametrize("origin", ["https://a.example", "http://127.0.0.1:8000", "http://[::1]:81", "https://x"])
def test_origins(origin: str) -> None:
    check_origin(origin)


@pytest.mark.parametrize(
    "origin",
    ["a.example", "https://a.example/", "https://A.example", "https://a:443", "http://a:80", "ftp://a", "http://a:0",
     "http://a:99999", "https://u@a", "https://a?x", "https://", "http://-a"],
)  # fmt: skip
def test_other_spellings_of_an_origin_are_refused(origin: str) -> None:
    with pytest.raises(InvalidInput, match="origin"):
        check_origin(origin)


def test_the_statement_begins_with_what_both_operators_together_can_do() -> None:
    text = pair_task().statement()
    assert text.startswith(COLLUSION)
    assert EXPERIMENTAL in text
    assert "City of Ay" in text
    assert "Bee University" in text
    assert "epsilon = 40" in text
    assert "delta = 0" in text
    assert "between buckets" not in text
    assert "nothing is promised between buckets" in pair_task(bucket_depth=2).statement()
    assert pair_task(bucket_depth=2).loss_words.endswith("that they named (nothing is promised between buckets)")


def test_bucket_and_path_join_to_the_cell() -> None:
    pair = pair_task(bucket_depth=4)
    for code in pair.pooled.hierarchy.codes(crowd(20)).tolist():
        bucket, path = pair.place(code)
        pair.check_bucket(bucket)
        assert len(path) == pair.shape.levels == 5
        joined = bucket
        for step in path:
            joined = 2 * joined + step
        assert joined == code


def test_a_buckets_tree_has_the_cells_of_the_whole_tree() -> None:
    pair = pair_task(bucket_depth=4)
    points = crowd(200)
    codes = pair.pooled.hierarchy.codes(points)
    for bucket in set((codes >> np.uint64(5)).tolist()):
        inside = points[(codes >> np.uint64(5)) == bucket]
        tree = pair.tree_task(bucket).hierarchy
        found = [pair.place(code)[1] for code in pair.pooled.hierarchy.codes(inside).tolist()]
        expected = [tuple(int(step) for step in f"{code:b}"[1:]) for code in tree.codes(inside).tolist()]
        assert found == expected


@pytest.mark.parametrize("depth", [-1, 1, 3, 10, 18])
def test_bucket_depths_that_do_not_fit_are_refused(depth: int) -> None:
    with pytest.raises(InvalidInput, match="bucket_depth"):
        pair_task(bucket_depth=depth)


def test_a_bucket_of_another_depth_is_refused() -> None:
    with pytest.raises(InvalidInput, match="bucket"):
        pair_task().check_bucket(2)
    with pytest.raises(InvalidInput, match="bucket"):
        pair_task(bucket_depth=2).check_bucket(1)


# -- values ------------------------------------------------------------------------------------------------------------

FARE = AskedValue(name="fare", low=0, high=50)


def test_a_task_without_a_value_keeps_its_bytes_and_one_with_a_value_comes_back() -> None:
    assert b"value" not in pair_task().to_bytes()
    pair = pair_task(value=FARE)
    assert PairTask.from_bytes(pair.to_bytes()) == pair
    assert pair.id != pair_task().id


def test_a_mean_over_all_sends_no_place_and_costs_epsilon_once() -> None:
    pair = pair_task(value=FARE)
    assert pair.shape == (1, 10)
    assert {pair.place(code) for code in pair.pooled.hierarchy.codes(crowd(20)).tolist()} == {(1, (0,))}
    assert pair.epsilon == pair.pooled.epsilon
    assert pair.tree_task(1).hierarchy.max_depth == 1
    text = pair.statement()
    assert "No place is sent" in text
    assert "everybody's value (fare, to its grid)" in text
    assert COLLUSION not in text
    assert "with any two values of fare from 0 to 50" in pair.loss_words


def test_the_mean_of_a_function_sends_what_the_function_tells_of_a_place_and_says_so() -> None:
    pair = pair_task(value=AskedValue.of_function(pair_task().pooled.box, "coordinate", (1,)))
    text = pair.statement()
    assert "Of a place only coordinate(1) is sent, in shares; no map is made." in text
    assert "No place is sent" not in text
    assert text in pair.device_words()["before"]


def test_means_per_cell_cost_the_map_and_the_sums() -> None:
    pair = pair_task(value=AskedValue(name="fare", low=0, high=50, mean="cells"))
    assert pair.epsilon == 2 * pair.pooled.epsilon == pair.promise().epsilon
    assert pair.shape == (9, 10)
    assert "every position, to the resolution of the upload, and everybody's value" in pair.statement()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": 5, "high": 5}, "smallest first"),
        ({"high": float("nan")}, "finite"),
        ({"bits": 11}, "from 1 to 10"),
        ({"bits": 0}, "from 1 to 10"),
        ({"name": ""}, "1 to 100 printable"),
        ({"mean": "some"}, "'all' or 'cells'"),
        ({"function": "gaussian_bump", "parameters": (1.0,)}, "takes one of the functions"),
        ({"parameters": (1.0,)}, "belong to a function"),
        ({"function": "coordinate", "parameters": ()}, "one whole number"),
    ],
)
def test_a_value_that_no_pair_can_ask_for_is_refused(changes: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"name": "fare", "low": 0, "high": 50}
    with pytest.raises(InvalidInput, match=message):
        AskedValue(**(fields | changes))


def test_a_function_that_leaves_its_range_and_a_value_with_buckets_are_refused() -> None:
    with pytest.raises(InvalidInput, match="leaves the stated range"):
        pair_task(value=AskedValue(name="x", low=0, high=0.5, function="coordinate", parameters=(0.0,)))
    with pytest.raises(InvalidInput, match="no public buckets"):
        pair_task(value=FARE, bucket_depth=2)


def test_a_value_outside_the_range_is_refused() -> None:
    for value in (-0.1, 50.1, float("nan"), "5"):
        with pytest.raises(InvalidInput, match="fare must be a number from 0 to 50"):
            FARE.encode(value, 0)  # type: ignore[arg-type]


def test_rounding_keeps_the_expectation() -> None:
    """10,000 draws, five standard errors: 6e-7."""
    draws = np.random.default_rng(3).integers(0, 2**64, 10_000, dtype=np.uint64).tolist()
    found = np.array([FARE.encode(12.34, draw) for draw in draws]) * 50 / 1023
    assert abs(found.mean() - 12.34) < 5 * 0.5 * 50 / 1023 / 100
