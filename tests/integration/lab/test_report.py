"""The report: every loss with adjacency and delta, every fact that a reader needs next to a picture."""

from __future__ import annotations

from pathlib import Path

from semilocal.lab.experiments.methods import promise_of
from semilocal.lab.experiments.report import Claim, FigureReport, Line, write_report


def test_the_page_says_what_a_reader_must_know(tmp_path: Path) -> None:
    lines = (
        Line("ours", promise_of("ours", "values"), 0.0, 0.0012),
        Line("published", promise_of("published", "values"), 0.21, 0.034),
        Line("ldp", promise_of("ldp", "values")),
    )
    figures = [
        FigureReport(
            "fig:mse_results_a",
            "Error of the mean",
            caption="Mean of ‖x‖².",
            picture=tmp_path / "mse.png",
            parameters={"N": "2 000 | 64 000", "k": 20},
            lines=lines,
            runs=60,
            seed=1,
            csv="mse_results_a.csv",
            notes=("gowalla.csv.gz: a filtered subset",),
            participants="One draw stands for one participant.",
        ),
        FigureReport("fig:geolife", "GeoLife", missing="geolife is not in the data folder"),
    ]
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
        "| N | 2 000 \\| 64 000 |",
        "a filtered subset",
        "60 runs, seed 1; all numbers in mse_results_a.csv",
        "Not made: geolife is not in the data folder",
        "| One report costs ε | does not hold | 2 ε by enumeration | semilocal reproduce claims |",
    ):
        assert part in text, part
