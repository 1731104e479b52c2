"""The error of a pair of servers has the distribution of the simulation's error.

The pair is the machine that the services run (:mod:`semilocal.sharing.machine`), message by message, on
shares. Two samples of independent runs are compared by Kolmogorov and Smirnov's test. False alarms: at most 1e-6 in
all, 5e-7 for each of two statistics (ties make the test more careful, not less). Planted faults must be found at the
same level.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from semilocal.hierarchy import Cells
from semilocal.pooled import Published, replay
from semilocal.release.counts import pooled_counts, run_pooled
from semilocal.sharing import party
from semilocal.sharing.pair import PairTask
from semilocal.sharing.report import SharedReport
from semilocal.sharing.verify import Half
from tests.helpers.machines import machines, run
from tests.helpers.pairs import crowd, pair_task, report_id, shared_report

RUNS, PEOPLE = 150, 120
PLANTED = 60  # runs with a fault: p-values are below 1e-15 then, in other runs too
ALARM = 5e-7
PAIR = pair_task(epsilon=8.0, max_depth=6)
POINTS = crowd(PEOPLE)
CODES = PAIR.pooled.hierarchy.codes(POINTS)
GRID = PAIR.pooled.box.grid((4, 4))
TRUTH = np.array([np.all((box[0] <= POINTS) & (box[1] > POINTS), axis=1).sum() for box in GRID])
pytestmark = pytest.mark.slow
Floats = npt.NDArray[np.float64]
Secrets = Callable[[np.random.Generator], tuple[bytes, bytes]]


def own_secrets(rng: np.random.Generator) -> tuple[bytes, bytes]:
    return rng.bytes(32), rng.bytes(32)


def one_secret(rng: np.random.Generator) -> tuple[bytes, bytes]:
    """A planted fault: both servers derive the same noise, which cancels."""
    secret = rng.bytes(32)
    return secret, secret


def reports(pair: PairTask) -> tuple[list[bytes], list[SharedReport]]:
    found = sorted((report_id(n), shared_report(pair, int(code), n)[1]) for n, code in enumerate(CODES.tolist()))
    return [name for name, _ in found], [report for _, report in found]


IDS, REPORTS = reports(PAIR)


def half(server: int) -> Half:
    public = [report.public for report in REPORTS]
    return Half(PAIR.id, PAIR.shape, server, IDS, public, [report.private[server] for report in REPORTS])


def pair_run(secrets: tuple[bytes, bytes]) -> Published:
    halves = (lambda bucket, ids: half(0), lambda bucket, ids: half(1))
    leader, helper = machines(PAIR, [(name, 1) for name in IDS], halves, secrets)
    run(leader, helper)
    (published,) = leader.signed_tree().published()
    return published


def errors(published: Published) -> tuple[float, float]:
    """Mean noise of all published numbers, each as a multiple of its scale; and the error of all range counts."""
    task, codes, tree = published.task, np.sort(CODES), replay(published)

    def exact(cells: Cells) -> npt.NDArray[np.int64]:
        first, last = task.hierarchy.span(cells)
        return np.searchsorted(codes, last, side="right") - np.searchsorted(codes, first)

    noise = [(tree.counts - exact(tree.cells)) * tree.units]
    for level, found in zip(tree.levels, tree.differences, strict=False):
        children = task.hierarchy.children(level.cells[level.opened]).reshape(-1, 2)
        noise.append((found - exact(children[:, 0]) + exact(children[:, 1])) * level.price[level.opened])
    values = pooled_counts(published).query(GRID, rounding=0).value
    return float(task.unit) * float(np.abs(np.concatenate(noise)).mean()), float(np.abs(values - TRUTH).sum())


def sample(secrets: Secrets, seed: int, *, runs: int = RUNS) -> Floats:
    rng = np.random.default_rng(seed)
    return np.array([errors(pair_run(secrets(rng))) for _ in range(runs)])


@pytest.fixture(scope="module")
def simulated() -> Floats:
    rng = np.random.default_rng(1)
    return np.array([errors(run_pooled(PAIR.pooled, POINTS, rng=rng)) for _ in range(RUNS)])


def p_values(one: Floats, other: Floats) -> list[float]:
    return [float(stats.ks_2samp(one[:, which], other[:, which]).pvalue) for which in (0, 1)]


def test_the_pairs_error_is_the_simulations(simulated: Floats) -> None:
    assert min(p_values(sample(own_secrets, 2), simulated)) > ALARM


def test_two_servers_with_one_secret_are_found(simulated: Floats) -> None:
    assert min(p_values(sample(one_secret, 3, runs=PLANTED), simulated)) < ALARM


def test_a_helper_without_noise_is_found(simulated: Floats, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = party.Party._noisy

    def quiet(self: party.Party, what: str, exact: npt.NDArray[np.uint64], *others: object) -> npt.NDArray[np.int64]:
        return exact.astype(np.int64) if self.server == 1 else whole(self, what, exact, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(party.Party, "_noisy", quiet)
    assert min(p_values(sample(own_secrets, 4, runs=PLANTED), simulated)) < ALARM
