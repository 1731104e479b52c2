"""The report: every loss with adjacency and delta, every fact that a reader needs next to a picture."""

from __future__ import annotations

from pathlib import Path

from semilocal.lab.experiments.report import Claim, FigureReport, write_report
from semilocal.lab.experiments.summary import FigureOptions, Gathered, Study
from semilocal.lab.experiments.trials import mean_trial


def test_the_page_says_what_a_reader_must_know(tmp_path: Path) -> None:
    study = Study(
        "mean", mean_trial, ("ours", "published", "ldp"), {"n": (2_000, 64_000)}, ("error",), label="mse_results_a",
        title="Error of the mean", purpose="values", participants="One draw stands for one participant.",
        parameters={"box": "2 | 2"},
    )  # fmt: skip
    below = {"ours": (0.0, 0.0012), "published": (0.21, 0.034), "ldp": (None, None)}
    summary = tuple(
        {"method": method, "regions_below": regions, "participants_below": people}
        for method, (regions, people) in below.items()
    )
    options = FigureOptions(out=tmp_path)
    figures = [
        FigureReport(
            study, options, Gathered((), summary, {"porto": "porto is not there"}), tmp_path / "mse.png",
            "Mean of ‖x‖².", ("gowalla.csv.gz: a filtered subset",),
        ),
        FigureReport(study, options, missing="geolife is not in the data folder"),
    ]  # fmt: skip
    claims = [Claim("One report costs ε", False, "2 ε by enumeration", "semilocal reproduce claims")]
    path = write_report(tmp_path, figures, version="0.1.0+abc", claims=claims)
    assert [one.name for one in tmp_path.iterdir()] == ["report.md"]
    text = path.read_text(encoding="utf-8")
    for part in (
        "0.1.0+abc",
        "not protected",
        "any two places of one's region",
        "0.05",
        "![Error of the mean](mse.png)",
        "Mean of ‖x‖². One draw stands for one participant.",
        "| published code's rule | 1.5 ε inside |",
        "| not kept | 21 % | 3.4 % |",
        "| kept | 0 % | 0.12 % |",
        "| no regions | – | – |",
        "| N | 2,000, 64,000 |",
        "| box | 2 \\| 2 |",
        "left out: porto is not there",
        "a filtered subset",
        "60 runs, seed 1; all numbers in mean.csv",
        "Not made: geolife is not in the data folder",
        "| One report costs ε | does not hold | 2 ε by enumeration | semilocal reproduce claims |",
    ):
        assert part in text, part
