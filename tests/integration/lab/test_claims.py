"""The claims against the paper's text, and the command."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from semilocal.cli.main import main
from semilocal.lab.experiments import claims


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


def test_the_command_makes_pictures_table_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "results"
    assert main(["reproduce", "density", "claims", "--runs", "1", "--out", str(out), "--workers", "0"]) == 0
    said = capsys.readouterr()
    assert "does not hold" in said.out
    assert "[1 of 2] density" in said.err
    page = (out / "report.md").read_text(encoding="utf-8")
    assert "fig:density_reconstruction" in page
    assert "One report with noise" in page
    assert "semilocal reproduce claims" in page
    with (out / "claims.csv").open(encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) == 9


def test_the_command_refuses_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "nothing", "--out", str(tmp_path)]) == 2
    assert "no figure is called 'nothing'" in capsys.readouterr().err
    assert main(["reproduce", "mean", "--runs", "0", "--out", str(tmp_path)]) == 2
    assert 'Invalid value "0" for --runs. Must be >= 1' in capsys.readouterr().err
    assert main(["reproduce", "--list"]) == 0
    assert "tradeoff" in capsys.readouterr().out
