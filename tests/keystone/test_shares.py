"""Two servers on shares publish what a simulation with the same noise publishes, number by number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from semilocal import Box, SphereTree
from semilocal.errors import InvalidInput
from semilocal.hierarchy import Cells
from semilocal.hierarchy.tables import from_cuts
from semilocal.pooled import PooledTask, Published, play, replay
from semilocal.sharing.pair import PairTask
from semilocal.sharing.party import Party, accepted_digest, derived_noise
from tests.helpers.machines import Report, half_of, machines, people, run
from tests.helpers.pairs import SimulatedPair, crowd, operator, report_id, shared_report

TASK = PooledTask.build(Box((0, 0), (1, 1)), epsilon=40.0, trust="two-servers", max_depth=9)
SECRETS = (b"0" * 32, b"1" * 32)
Integers = npt.NDArray[np.int64]


def transcripts(task: PooledTask, codes: Cells) -> tuple[Published, Published, bytes]:
    """What both machines publish about people in these deepest cells, and the digest of their reports."""
    pair = PairTask(task, operator(0), operator(1))
    made = sorted((report_id(number), shared_report(pair, code, number)) for number, code in enumerate(codes.tolist()))
    halves = [
        half_of(pair, [Report(name, bucket, one.public, one.private[server]) for name, (bucket, one) in made], server)
        for server in (0, 1)
    ]
    both = machines(pair, [(name, bucket) for name, (bucket, _) in made], (halves[0], halves[1]), SECRETS)
    run(*both)
    first, second = (machine.signed_tree().published()[0] for machine in both)
    return first, second, accepted_digest([name for name, _ in made])


@pytest.mark.parametrize("n", [0, 3, 400])
def test_shares_give_the_numbers_of_the_simulation(n: int) -> None:
    codes = TASK.hierarchy.codes(crowd(n))
    first, second, digest = transcripts(TASK, codes)
    assert first.to_bytes() == second.to_bytes()
    simulated = play(TASK, SimulatedPair(TASK, codes, digest, SECRETS))
    assert first.to_bytes() == simulated.to_bytes()
    assert replay(first).people == n
    if n == 400:
        assert len(first.cells) > 5


def test_shares_count_on_the_sphere_as_the_simulation_does() -> None:
    task = PooledTask.build(hierarchy=SphereTree(11), epsilon=40.0, trust="two-servers")
    codes = task.hierarchy.codes(crowd(200) * [60, 60] + [150, -30] - [360, 0] * (crowd(200)[:, :1] > 0.5))
    first, second, digest = transcripts(task, codes)
    simulated = play(task, SimulatedPair(task, codes, digest, SECRETS))
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


def test_a_level_is_fixed_once_and_nothing_leaves_before() -> None:
    pair = PairTask(TASK, operator(0), operator(1))
    mine = people(pair, 300)
    ids = [one.id for one in mine]
    party = Party(TASK, 0, SECRETS[0], ids, lambda: half_of(pair, mine, 0)(1, ids))
    with pytest.raises(InvalidInput, match="nothing leaves"):
        party.aggregate()
    nobody = np.zeros(300, dtype=bool)
    party.verify_next(nobody)
    with pytest.raises(InvalidInput, match="is fixed"):
        party.verify_next(~nobody)
    assert party.aggregate().tobytes() == party.aggregate().tobytes()


def test_another_accepted_set_gets_other_noise() -> None:
    cells, units = np.arange(1, 60, dtype=np.uint64), np.full(59, 40)
    first, again, other = (
        derived_noise(SECRETS[0], TASK, "difference", 2, accepted_digest([report_id(n)]), cells, units)
        for n in (9, 9, 10)
    )
    assert np.array_equal(first, again)
    assert np.count_nonzero(first != other) > 20
