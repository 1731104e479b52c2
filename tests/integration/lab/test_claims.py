"""The claims against the paper's text, and the command."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from scipy.stats import norm

from semilocal.cli.main import main
from semilocal.lab.experiments import claims


def test_one_report_of_the_paper_costs_twice_its_epsilon() -> None:
    for epsilon in (0.5, 1.0, 2.0):
        loss, event = claims.ratio_of_one_report(epsilon)
        assert loss == pytest.approx(2 * epsilon, abs=1e-9)
        assert event == pytest.approx(math.exp(2 * epsilon), rel=1e-12)


@pytest.mark.parametrize(("responders", "delta"), [(10_000, 0.05), (1_000_000, 1e-6)])
def test_the_margin_fails_as_often_as_the_normal_limit_says(responders: int, delta: float) -> None:
    budget = math.log(1 / delta)
    margin = math.sqrt(2 * responders * budget) + 6 * budget
    limit = float(norm.sf(margin / math.sqrt(2 * responders)))
    assert claims.margin_failure(responders, delta) == pytest.approx(limit, rel=0.02)


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
