"""The trials: the paper's rules as the authors' code runs them, our lines as the one-call functions run them."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.lab.baselines.boxes import mean_relative_error
from semilocal.lab.experiments import trials
from semilocal.lab.experiments.methods import DEPTHS, At, paper_regions, published_regions
from semilocal.lab.experiments.runner import Trial
from semilocal.lab.index import count_points
from semilocal.simulation import synthetic


def trial(method: str, run: int = 0, **parameters: float | str) -> Trial:
    return Trial.of("test", method, seed=3, run=run, **parameters)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_our_mean_is_the_one_call_function(epsilon: float) -> None:
    one = trial("ours", n=6_000, epsilon=epsilon, k=20)
    [row] = trials.mean_trial(one)
    points = synthetic.truncated_gaussian(6_000, one.shared_rng("n"), box=trials.PLANE, scale=1.5)
    f = sl.functions.squared_norm()
    result = sl.mean(points, f, trials.PLANE, epsilon=epsilon, trust="nobody", delta=0.05, k=20, rng=one.rng())
    assert row["error"] == result.value - float(np.mean(f(points)))
    assert row["expected_mse"] == result.stderr**2


@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_our_counts_are_the_one_call_function(delta: float) -> None:
    one = trial("ours", source="clusters", n=3_000, epsilon=1.0, k=20, delta=delta)
    [row] = trials.counts_trial(one)
    points, boxes, truth, floor = trials.draw_people("clusters", 3_000, one.shared_rng("n", "source"))
    counted = sl.counts(points, synthetic.UNIT_SQUARE, epsilon=1.0, trust="nobody", delta=delta, k=20, rng=one.rng())
    assert row["mre"] == mean_relative_error(counted.query(boxes).value, truth, floor=floor)
    assert row["regions"] == len(counted.partition.crowds)


def test_the_paper_s_rule_splits_only_where_every_child_passes() -> None:
    """Regions of the paper's rule hold k but with probability delta each; the published code's do not."""
    rng = np.random.default_rng(8)
    points = synthetic.clusters(20_000, rng)
    at = At(synthetic.UNIT_SQUARE, 2.0, 20, rng, DEPTHS["clusters"])
    paper, published = paper_regions(points, at, 1.0), published_regions(points, at, 1.0)
    for regions in (paper, published):
        assert np.array_equal(regions.crowds, count_points(points, regions.boxes))
        assert np.array_equal(regions.crowds, np.bincount(regions.regions, minlength=len(regions)))
        assert regions.guarantee.epsilon == 4.0
    assert paper.crowds.min() >= 20
    assert published.crowds.min() < 20


def test_zero_is_the_error_of_saying_nothing() -> None:
    [row] = trials.counts_trial(trial("zero", source="ring", n=3_000, epsilon=1.0, k=20))
    assert row["mre"] == 1.0  # every true count is above the floor
    [row] = trials.mean_trial(trial("zero", n=500, epsilon=1.0, k=0))
    assert row["error"] < 0


def test_facts_count_regions_and_people_below_k() -> None:
    rng = np.random.default_rng(2)
    at = At(synthetic.UNIT_SQUARE, 1.5, 20, rng, 8)
    regions = published_regions(synthetic.clusters(5_000, rng), at, 1.0)
    facts = trials.facts_of(regions, 20)
    held = [crowd for crowd in regions.crowds.tolist() if crowd]
    assert facts["regions"] == len(regions)
    assert facts["regions_below"] == sum(crowd < 20 for crowd in held) / len(held)
    assert facts["participants_below"] == sum(crowd for crowd in held if crowd < 20) / 5_000
    assert trials.facts_of(None, 20) == dict.fromkeys(trials.FACTS)


def test_all_methods_of_a_run_meet_the_same_people() -> None:
    rows = [trials.mean_trial(trial(method, n=500, epsilon=1e3, k=20))[0] for method in ("central", "ldp")]
    # with next to no noise the errors are next to nothing only if the people are the same as the truth's
    assert all(abs(row["error"]) < 0.2 for row in rows)
    one, two = (trial(method, n=500, epsilon=1.0, k=20).shared_rng("n").random() for method in ("central", "ldp"))
    assert one == two


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not used for counts"):
        trials.counts_trial(trial("magic", source="clusters", n=500, epsilon=1.0, k=20))
    pytest.importorskip("sklearn")
    with pytest.raises(InvalidInput, match="no classifier"):
        trials.classifier("oracle", 1)
