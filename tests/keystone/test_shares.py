"""Two servers on shares publish what a simulation with the same noise publishes, number by number."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pytest
from sharing_forgeries import second_node

from semilocal import Box, SphereTree
from semilocal.errors import InvalidInput
from semilocal.hierarchy import Cells
from semilocal.hierarchy.tables import from_cuts
from semilocal.pooled import PooledTask, play, replay
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import Party, accepted_digest, derived_noise
from semilocal.sharing.report import Shape, SharedReport, make_report
from tests.helpers.pairs import SimulatedPair, crowd, operator, publish

TASK = PooledTask.build(Box((0, 0), (1, 1)), epsilon=40.0, trust="two-servers", max_depth=9)
SECRETS = (b"0" * 32, b"1" * 32)
Integers = npt.NDArray[np.int64]


def ids(n: int) -> list[bytes]:
    return sorted(hashlib.sha256(str(who).encode()).digest()[:16] for who in range(n))


def path_of(code: int, levels: int) -> list[int]:
    return [code >> shift & 1 for shift in reversed(range(levels))]


def reports(task: PooledTask, codes: Cells) -> list[SharedReport]:
    rng = np.random.default_rng(1)
    shape = Shape(task.hierarchy.max_depth)
    return [make_report(task.id, shape, path_of(int(code), shape.levels), rng.bytes(32)) for code in codes]


def parties(task: PooledTask, made: list[SharedReport]) -> list[Party]:
    public = [report.public for report in made]
    return [
        Party.of(task, server, SECRETS[server], ids(len(made)), public, [report.private[server] for report in made])
        for server in (0, 1)
    ]


@pytest.mark.parametrize("n", [0, 3, 400])
def test_shares_give_the_numbers_of_the_simulation(n: int) -> None:
    codes = TASK.hierarchy.codes(crowd(n))
    first, second = publish(parties(TASK, reports(TASK, codes)))
    assert first.to_bytes() == second.to_bytes()
    simulated = play(TASK, SimulatedPair(TASK, codes, accepted_digest(ids(n)), SECRETS))
    assert first.to_bytes() == simulated.to_bytes()
    assert replay(first).people == n
    if n == 400:
        assert len(first.cells) > 5


def test_shares_count_on_the_sphere_as_the_simulation_does() -> None:
    task = PooledTask.build(hierarchy=SphereTree(11), epsilon=40.0, trust="two-servers")
    codes = task.hierarchy.codes(crowd(200) * [60, 60] + [150, -30] - [360, 0] * (crowd(200)[:, :1] > 0.5))
    first, second = publish(parties(task, reports(task, codes)))
    simulated = play(task, SimulatedPair(task, codes, accepted_digest(ids(200)), SECRETS))
    assert first.to_bytes() == second.to_bytes() == simulated.to_bytes()
    assert len(first.cells) > 5


def test_a_pair_refuses_tables_and_buckets_on_the_sphere() -> None:
    sphere = PooledTask.build(hierarchy=SphereTree(11), epsilon=1.0, trust="two-servers")
    assert PairTask(sphere, operator(0), operator(1)).shape.levels == 11
    with pytest.raises(InvalidInput, match="bucket_depth must be 0"):
        PairTask(sphere, operator(0), operator(1), 2)
    table = PooledTask.build(hierarchy=from_cuts("x", [[0, 1, 2, 3]]), epsilon=1.0, trust="two-servers")
    with pytest.raises(InvalidInput, match="paths of bits"):
        PairTask(table, operator(0), operator(1))


def test_a_report_that_is_rejected_on_the_way_counts_from_then_on_for_nobody() -> None:
    codes = TASK.hierarchy.codes(crowd(300))
    made = reports(TASK, codes)
    levels = TASK.hierarchy.max_depth
    crowded = path_of(int(np.sort(codes)[150]), levels)
    forged = second_node(Shape(levels), crowded, bytes(range(32)), level=1, how="both", proof="kept", task=TASK.id)
    first, second = publish(parties(TASK, [*made, forged]))
    assert first.to_bytes() == second.to_bytes()
    tree = replay(first)
    exact = SimulatedPair(TASK, codes, b"", SECRETS).exact(tree.cells)
    assert np.abs(tree.counts - exact).max() < 12  # the noise of two servers at this epsilon; a forgery adds 2^60


def test_a_level_is_fixed_once_and_nothing_leaves_before() -> None:
    pair = parties(TASK, reports(TASK, TASK.hierarchy.codes(crowd(300))))
    with pytest.raises(InvalidInput, match="checking"):
        pair[0].share()
    nobody = np.zeros(300, dtype=bool)
    pair[0].fix(nobody)
    with pytest.raises(InvalidInput, match="sharing"):
        pair[0].fix(~nobody)
    assert pair[0].share().tobytes() == pair[0].share().tobytes()


def test_another_accepted_set_gets_other_noise() -> None:
    cells, units = np.arange(1, 60, dtype=np.uint64), np.full(59, 40)
    first, again, other = (
        derived_noise(SECRETS[0], TASK, "difference", 2, accepted_digest(ids(n)), cells, units) for n in (9, 9, 10)
    )
    assert np.array_equal(first, again)
    assert np.count_nonzero(first != other) > 20
