"""The claims against the paper's text, the reference tables and the command."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from semilocal.cli.main import main
from semilocal.lab.experiments import claims, reference


def test_one_report_of_the_paper_costs_twice_its_epsilon() -> None:
    for epsilon in (0.5, 1.0, 2.0):
        loss, event = claims.ratio_of_one_report(epsilon)
        assert loss == pytest.approx(2 * epsilon, abs=1e-9)
        assert event == pytest.approx(math.exp(2 * epsilon), rel=1e-12)


def test_the_event_of_the_claim_is_that_likely_in_a_simulation() -> None:
    """10⁶ draws; the ratio of the two counts is within 6 of its standard errors (false alarm rate below 1e-8). The
    planted bug, a cost of ε instead of 2 ε, is outside."""
    rng = np.random.default_rng(5)
    noise = rng.laplace(size=(2, 1_000_000, 2))
    here = ((noise[0] + (1, 0))[:, 0] >= 1) & ((noise[0] + (1, 0))[:, 1] <= 0)
    there = ((noise[1] + (0, 1))[:, 0] >= 1) & ((noise[1] + (0, 1))[:, 1] <= 0)
    a, b = int(here.sum()), int(there.sum())
    error = 6 * math.sqrt(1 / a + 1 / b)
    assert abs(math.log(a / b) - math.log(claims.ratio_of_one_report(1.0)[1])) < error
    assert abs(math.log(a / b) - 1.0) > error


@pytest.mark.parametrize(("responders", "delta"), [(10_000, 0.05), (1_000_000, 1e-6)])
def test_the_margin_fails_as_often_as_the_normal_limit_says(responders: int, delta: float) -> None:
    budget = math.log(1 / delta)
    margin = math.sqrt(2 * responders * budget) + 6 * budget
    limit = float(norm.sf(margin / math.sqrt(2 * responders)))
    assert claims.margin_failure(responders, delta) == pytest.approx(limit, rel=0.02)


def test_the_margin_of_one_responder_is_exact() -> None:
    budget = math.log(1 / 0.05)
    margin = math.sqrt(2 * budget) + 6 * budget
    # Gamma(1) has its peak at the border, where the integral is coarsest
    assert claims.margin_failure(1, 0.05) == pytest.approx(math.exp(-margin) / 2, rel=0.02)


def test_neighbours_by_hand() -> None:
    # k = 2, three people: never split, so all 8 × 3 moves are neighbours, and all of them both ways
    assert claims.one_way_neighbours(3, 2) == (24, 0)
    assert claims.splits_undone(8, 3, needed=3) > 0
    assert claims.splits_undone(8, 3, needed=4) == 0


def test_all_claims_come_out_as_the_text_says() -> None:
    found = claims.all_claims(1, sizes=(2_000, 16_000))
    verdicts = {claim.text.split(" (")[0][:40]: claim.holds for claim in found}
    assert sum(holds is True for holds in verdicts.values()) == 2
    assert sum(holds is False for holds in verdicts.values()) == 7


def test_the_reference_tables_are_complete() -> None:
    means, ranges = reference.reference_rows("mean_mse"), reference.reference_rows("range_mre")
    assert len(means) == 24
    assert len(ranges) == 15
    assert {row["n"] for row in means} == {2_000, 16_000, 32_000, 64_000}


def summaries(factor: float) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Summaries that are the reference times a factor."""
    means: list[dict[str, object]] = []
    for row in reference.reference_rows("mean_mse"):
        columns = {"published": "authors_sldp_expected_mse", "central": "central_dp_mse", "ldp": "ldp_mse"}
        for method, column in columns.items():
            value = factor * row[column]
            means.append(
                {
                    "method": method,
                    "n": int(row["n"]),
                    "epsilon": row["epsilon"],
                    "expected_mse_mean": value,
                    "squared_error_mean": value,
                }
            )
    ranges: list[dict[str, object]] = [
        {
            "method": "published",
            "n": int(row["n"]),
            "epsilon": row["epsilon"],
            "mre_mean": factor * row["authors_sldp_mre"],
        }
        for row in reference.reference_rows("range_mre")
    ]
    return means, ranges


def test_comparisons_agree_with_themselves_and_notice_a_wrong_factor() -> None:
    same = reference.compare(*summaries(1.0))
    assert len(same) == 3 * 24 + 15
    assert all(one.agrees and one.ratio == pytest.approx(1.0) for one in same)
    assert not any(one.agrees for one in reference.compare(*summaries(4.0)))


def test_intervals_hold_the_average_of_sixty_squares_nineteen_times_in_twenty() -> None:
    """4,000 averages each; the share inside is 0.95 within 6 standard errors (false alarm rate below 1e-8)."""
    found = reference.compare(*summaries(1.0))
    rng = np.random.default_rng(11)
    for what, drawn in (
        ("central DP, MSE", rng.laplace(size=(4_000, 60)) / math.sqrt(2)),
        ("local DP, MSE", rng.normal(size=(4_000, 60))),
    ):
        one = next(one for one in found if one.what == what)
        ratios = 1 / np.mean(drawn**2, axis=1)
        share = float(np.mean((one.low <= ratios) & (ratios <= one.high)))
        assert abs(share - 0.95) < 6 * math.sqrt(0.95 * 0.05 / 4_000)


def test_the_command_makes_pictures_table_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "results"
    assert main(["reproduce", "housing_map", "claims", "--quick", "--out", str(out), "--workers", "0"]) == 0
    said = capsys.readouterr()
    assert "does not hold" in said.out
    assert "[1 of 2] housing_map" in said.err
    page = (out / "report.md").read_text(encoding="utf-8")
    assert "fig:housing_data" in page
    assert "One report with noise" in page
    assert "semilocal reproduce claims" in page
    with (out / "claims.csv").open(encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) == 9


def test_the_command_refuses_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "nothing", "--out", str(tmp_path)]) == 2
    assert "no figure is called 'nothing'" in capsys.readouterr().err
    assert main(["reproduce", "mean", "--runs", "0", "--out", str(tmp_path)]) == 2
    assert "--runs: must be a whole number from 1" in capsys.readouterr().err
    assert main(["reproduce", "--list"]) == 0
    assert "tradeoff" in capsys.readouterr().out
