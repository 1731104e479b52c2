"""The experiments that print tables: claims of the paper's text, and range counts by the protocol of DPBench."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from semilocal.cli.main import main
from semilocal.errors import InvalidInput
from semilocal.lab.baselines.boxes import count_points
from semilocal.lab.experiments import claims, dpbench, trials
from semilocal.lab.experiments.runner import Trial
from semilocal.lab.experiments.summary import FigureOptions, select

pytest.importorskip("joblib")


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


@pytest.fixture
def options(tmp_path: Path) -> FigureOptions:
    """Two tables: a spike on a thin floor, and a slope."""
    spike = np.ones((256, 256), dtype=np.uint32)
    spike[10:14, 200:202] = 60_000
    (tmp_path / "dpbench").mkdir()
    np.savez_compressed(tmp_path / "dpbench" / "tables2d.npz", spike=spike, slope=np.add.outer(*2 * [np.arange(256)]))
    return FigureOptions(2, 5, tmp_path / "out", tmp_path, workers=0, show=False)


def test_people_follow_the_table_and_ranges_are_counted_exactly(options: FigureOptions) -> None:
    points, boxes, truth, _ = trials.draw_people("dpbench/spike", 4_000, np.random.default_rng(1), data=options.data)
    assert np.array_equal(truth, count_points(points, boxes))
    assert len(points) == 4_000
    spike = count_points(points, [[[5 / 128, 100 / 128], [7 / 128, 101 / 128]]])[0]
    assert spike > 3_000  # 480,000 of 545,000
    sides = 128 * (boxes[:, 1] - boxes[:, 0])
    assert len(boxes) == 2_000
    assert (sides.min(), sides.max()) == (1, 128)
    assert boxes.min() == 0
    assert boxes.max() == 1


def test_answers_are_measured_in_people_and_by_what_has_to_be_moved(options: FigureOptions) -> None:
    found = dpbench.ranges(options, ("zero", "even", "identity", "dawa"), (1_000,))
    assert len(found.rows) == 2 * 2 * 4
    [nothing] = select(found.rows, method="zero", source="dpbench/spike", run=0)
    drawn = Trial.of("dpbench", "", seed=5, run=0, n=1_000, source="dpbench/spike").shared_rng("n", "source")
    truth = trials.draw_people("dpbench/spike", 1_000, drawn, data=options.data)[2]
    assert nothing["mae"] == truth.mean()
    for source in ("dpbench/spike", "dpbench/slope"):
        even, dawa = (select(found.summary, method=method, source=source)[0] for method in ("even", "dawa"))
        none = select(found.summary, method="zero", source=source)[0]
        assert even["moved_mean"] == none["moved_mean"]  # an empty map is taken to be even
        assert dawa["mae_mean"] < select(found.summary, method="identity", source=source)[0]["mae_mean"]
    assert dawa["regions"] is None


def test_a_geometric_mean_has_the_error_of_its_parts() -> None:
    rows = [{"x_mean": 2.0, "x_std": 0.4, "runs": 4}, {"x_mean": 8.0, "x_std": 0.0, "runs": 4}]
    assert list(dpbench.geometric_mean(rows, "x")) == pytest.approx([4.0, 4.0 * 0.1 / 2])


def test_the_command_writes_its_tables_and_says_what_is_left_out(
    options: FigureOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dpbench.ranges, "__defaults__", (("zero", "even", "pooled-curator"), (1_000, 2_000)))
    made = dpbench.make(options)
    assert (options.out / "dpbench.md").read_text(encoding="utf-8") == made.text + "\n"
    assert "| method | 1,000 people | 2,000 people | at worst, times the best | maps |" in made.text
    assert made.text.count("| semilocal, curator |") == 1
    assert "Left out: gowalla is not in" in made.text


def test_without_the_tables_one_sentence_says_where_to_get_them(tmp_path: Path) -> None:
    made = dpbench.make(FigureOptions(1, 1, tmp_path / "out", tmp_path, workers=0, show=False))
    assert made.text.startswith(f"Left out: the tables of DPBench are not in {tmp_path}: no dpbench/tables2d.npz; make")
    assert "github.com/dpcomp-org/dpcomp_core" in made.text
    (tmp_path / "dpbench").mkdir()
    np.savez_compressed(tmp_path / "dpbench" / "tables2d.npz", slope=np.ones((2, 2)), spike=np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="no table 'other'; there are slope, spike"):
        trials.draw_people("dpbench/other", 10, np.random.default_rng(0), data=tmp_path)
    with pytest.raises(InvalidInput, match=r"slope must hold 256 x 256 counts; got \(2, 2\)"):
        trials.draw_people("dpbench/slope", 10, np.random.default_rng(0), data=tmp_path)
