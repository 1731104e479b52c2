"""Figures and their page: a look per method, readable in grey, the same bytes; every loss with adjacency and delta."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from semilocal.errors import InvalidInput, MissingExtra
from semilocal.lab.experiments import figures
from semilocal.lab.experiments import report as style
from semilocal.lab.experiments.methods import METHODS, look, promise_of
from semilocal.lab.experiments.report import Claim, FigureReport, write_report
from semilocal.lab.experiments.summary import FigureOptions, Gathered, Study
from semilocal.lab.experiments.trials import mean_trial

pytest.importorskip("matplotlib")

TOGETHER = [tuple(study.methods) for study in vars(figures).values() if isinstance(study, Study)]


def lightness(colour: str) -> float:
    """CIE L* of a colour, 0 to 100: what is left of it in grey."""
    linear = [(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in rgb(colour)]
    y = float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


def rgb(colour: str) -> list[float]:
    return [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]


def test_no_two_methods_look_the_same_even_without_colour() -> None:
    looks = [method.look for method in METHODS.values()]
    assert len({one.colour for one in looks}) == len(looks)
    assert len({one.name for one in looks}) == len(looks)
    assert len({(one.marker, one.dashes, one.filled) for one in looks}) == len(looks)


@pytest.mark.parametrize("group", TOGETHER)
def test_lines_of_one_figure_differ_in_grey(group: tuple[str, ...]) -> None:
    for one, other in itertools.combinations(map(look, group), 2):
        apart = abs(lightness(one.colour) - lightness(other.colour))
        assert apart > 12 or one.marker != other.marker
        assert one.dashes != other.dashes or one.marker != other.marker


def test_every_line_stands_out_from_the_page() -> None:
    for method in METHODS.values():
        assert lightness(method.look.colour) < 72


def draw(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    with style.figure_style() as Figure:
        figure = Figure(figsize=(5, 2.5))
        left, right = figure.subplots(1, 2)
        left.plot([1, 2, 4], [3, 2, 1], **style.line("ours"), label="ε")
        left.fill_between([1, 2, 4], [2, 1, 0], [4, 3, 2], alpha=0.2)
        left.legend()
        right.scatter(*rng.random((2, 3000)), s=1, rasterized=True)
        return style.save(figure, folder, name="picture")


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = draw(tmp_path / "a"), draw(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    text = first.with_suffix(".svg").read_text()
    assert text == second.with_suffix(".svg").read_text()
    assert "<dc:date>" not in text
    assert len(text) < 400_000  # 3,000 points are one picture, not 3,000 shapes


def test_the_style_leaves_no_trace(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw(tmp_path)
    assert dict(matplotlib.rcParams) == before


def test_legends_state_the_true_loss_and_the_crowd() -> None:
    for purpose in ("counts", "values", "points"):
        ours = style.legend_label("ours", promise_of("ours", purpose))
        assert ours == "semilocal, nobody trusted: true loss ε inside, crowd of k kept"
    published = style.legend_label("published", promise_of("published", "values"))
    assert published == "published code's rule: true loss 1.5 ε inside, no crowd promised"
    assert style.legend_label("ldp", promise_of("ldp", "values")) == "local DP: true loss ε anywhere"
    trusted = style.legend_label("privtree", promise_of("privtree", "counts"))
    assert trusted == "PrivTree (trusted curator): true loss 2 ε anywhere, ε for taking part or not"
    with pytest.raises(InvalidInput, match="there are ours"):
        look("magic")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"semilocal\[plots\]"), style.figure_style():
        pass


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
