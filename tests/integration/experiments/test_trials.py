"""The trials: the paper's rules as the authors' code runs them, our lines as the one-call functions run them."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.experiments import trials
from semilocal.experiments.harness.trial import Trial
from semilocal.experiments.methods import way_of
from semilocal.experiments.ways import DEPTHS, At
from semilocal.release.boxes import mean_relative_error
from semilocal.simulation import synthetic


def trial(method: str, run: int = 0, **parameters: float | str) -> Trial:
    return Trial.of("test", method, seed=3, run=run, **parameters)


@pytest.mark.parametrize("method", ["ours-core", "ours-uniform", "ours-core-100"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_our_mean_is_the_one_call_function(method: str, epsilon: float) -> None:
    one = trial(method, n=6_000, epsilon=epsilon, k=20)
    [row] = trials.mean_trial(one)
    points = synthetic.truncated_gaussian(6_000, one.shared_rng("n"), box=trials.PLANE, scale=1.5)
    accounting = "uniform" if method == "ours-uniform" else "core"
    f = sl.functions.squared_norm()
    result = sl.mean(
        points, f, trials.PLANE, epsilon=epsilon, trust="nobody", delta=0.05, k=20, rng=one.rng(), accounting=accounting
    )
    assert row["error"] == result.value - float(np.mean(f(points)))
    assert row["expected_mse"] == result.stderr**2


def test_our_counts_are_the_one_call_function() -> None:
    one = trial("ours-core", source="clusters", n=3_000, epsilon=1.0, k=20)
    [row] = trials.counts_trial(one)
    points, boxes, truth, floor = trials.draw_people("clusters", 3_000, one.shared_rng("n", "source"))
    answers = sl.counts(
        points, synthetic.UNIT_SQUARE, epsilon=1.0, trust="nobody", delta=0.05, k=20, rng=one.rng()
    ).query(boxes)
    assert row["mre"] == mean_relative_error(answers.value, truth, floor=floor)


def slow_published(
    points: np.ndarray[tuple[int, ...], np.dtype[np.float64]], epsilon: float, k: int, depth: int, seed: int
) -> list[tuple[float, float, float, float, int]]:
    """The published rule with plain loops: leaves as (x0, y0, x1, y1, people)."""
    rng = np.random.default_rng(seed)
    budget = np.log(1 / 0.05)
    open_cells = [(-10.0, -10.0, 10.0, 10.0, points, float(len(points)))]
    leaves = []
    for _ in range(depth):
        following = []
        for x0, y0, x1, y1, people, size in open_cells:
            xm, ym = (x0 + x1) / 2, (y0 + y1) / 2
            margin = (np.sqrt(2 * max(size, 0.0) * budget) + 6 * budget) / epsilon
            for a0, b0, a1, b1 in ((x0, y0, xm, ym), (xm, y0, x1, ym), (x0, ym, xm, y1), (xm, ym, x1, y1)):
                inside = people[((people >= (a0, b0)) & (people < (a1, b1))).all(axis=1)]
                estimate = len(inside) + rng.laplace(scale=1 / epsilon, size=len(people)).sum()
                if estimate >= k + margin:
                    following.append((a0, b0, a1, b1, inside, estimate))
                else:
                    leaves.append((a0, b0, a1, b1, len(inside)))
        open_cells = following
    return leaves + [(x0, y0, x1, y1, len(people)) for x0, y0, x1, y1, people, _ in open_cells]


def implied_error(leaves: list[tuple[float, float, float, float, int]], epsilon: float, n: int) -> float:
    total = 0.0
    for x0, y0, x1, y1, people in leaves:
        high = max(x0**2, x1**2) + max(y0**2, y1**2)
        low = sum(0.0 if a <= 0 <= b else min(a**2, b**2) for a, b in ((x0, x1), (y0, y1)))
        total += people * 2 * ((high - low) / epsilon) ** 2
    return total / n**2


def test_the_published_rule_has_the_error_of_an_independent_loop() -> None:
    """40 runs each of two implementations; their mean log errors agree within six standard errors (false alarm rate
    below 1e-8 for nearly normal means). The planted bug, k in place of k plus the margin, is far outside."""
    n, epsilon, runs = 4_000, 4.0, 40
    points = synthetic.truncated_gaussian(n, np.random.default_rng(1), box=trials.PLANE, scale=1.5)
    f = sl.functions.squared_norm()

    def ours(seed: int) -> float:
        at = At(trials.PLANE, epsilon, 100, np.random.default_rng([seed, 1]), DEPTHS["mean"])
        variance: float = way_of("published", "values").mean(points, f, at).variance
        return variance

    theirs = [implied_error(slow_published(points, epsilon / 2, 100, 30, seed), epsilon / 2, n) for seed in range(runs)]
    mine = np.log([ours(seed) for seed in range(runs)])
    other = np.log(theirs)
    wrong = np.log(
        [implied_error(slow_published(points, epsilon / 2, 1, 8, seed), epsilon / 2, n) for seed in range(5)]
    )
    error = np.sqrt((mine.var(ddof=1) + other.var(ddof=1)) / runs)
    assert abs(mine.mean() - other.mean()) < 6 * error
    assert abs(mine.mean() - wrong.mean()) > 6 * error


def test_facts_count_regions_and_people_below_k() -> None:
    rng = np.random.default_rng(2)
    run = sl.simulate(
        synthetic.clusters(5_000, rng),
        sl.Task.published(synthetic.UNIT_SQUARE, epsilon=1.5, delta=0.05, k=20, max_depth=8),
        rng=rng,
    )
    facts = trials.facts_of(run)
    crowds = run.partition.crowds.tolist()
    held = [crowd for crowd in crowds if crowd]
    assert facts["regions"] == len(crowds)
    assert facts["regions_below"] == sum(crowd < 20 for crowd in held) / len(held)
    assert facts["participants_below"] == sum(crowd for crowd in held if crowd < 20) / 5_000
    assert facts["trims"] == facts["most_trims"] == 0


def test_all_methods_of_a_run_meet_the_same_people() -> None:
    rows = [trials.mean_trial(trial(method, n=500, epsilon=1e3, k=20))[0] for method in ("central", "ldp")]
    # with next to no noise the errors are next to nothing only if the people are the same as the truth's
    assert all(abs(row["error"]) < 0.2 for row in rows)
    one, two = (trial(method, n=500, epsilon=1.0, k=20).shared_rng("n").random() for method in ("central", "ldp"))
    assert one == two


def test_scores_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(3)
    truth, said = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    ours = trials.scores(truth, said)
    assert ours["f1"] == pytest.approx(metrics.f1_score(truth, said))
    assert ours["precision"] == pytest.approx(metrics.precision_score(truth, said))
    assert ours["recall"] == pytest.approx(metrics.recall_score(truth, said))
    assert trials.scores(truth, np.zeros_like(truth)) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not used for counts"):
        trials.counts_trial(trial("magic", source="clusters", n=500, epsilon=1.0, k=20))
    pytest.importorskip("sklearn")
    with pytest.raises(InvalidInput, match="no classifier"):
        trials.classifier("oracle", 1)
