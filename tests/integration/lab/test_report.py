"""The report: everything inside one file, every loss with adjacency and delta, everything escaped."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from semilocal.lab.experiments import drawing as style
from semilocal.lab.experiments.methods import look, promise_of
from semilocal.lab.experiments.report import Claim, FigureReport, Line, write_report

pytest.importorskip("matplotlib")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WHO = "One draw stands for one participant."


class Page(HTMLParser):
    """Collects tags, attributes that load something, and text; refuses tags that are not closed."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "data", "poster", "srcset", "action"):
                self.loads.append(value or "")
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> style.Saved:
    """A picture of lines and many points."""
    rng = np.random.default_rng(2)
    with style.figure_style() as Figure:
        figure = Figure(figsize=(7, 3))
        left, right = figure.subplots(1, 2)
        for place, method in enumerate(("central", "ldp", "published", "ours", "paper")):
            values = 10.0 ** (2 - place) / np.array([0.5, 1, 2, 4]) ** 2
            left.loglog([0.5, 1, 2, 4], values, **style.line(method), label=look(method).name)
        left.set(ylabel="mean squared error", title="N = 64 000")
        style.epsilon_axis(left, [0.5, 1, 2, 4])
        style.shared_legend(figure, columns=3)
        right.scatter(*rng.normal(size=(2, 4000)), s=1, rasterized=True)
        right.set(xlabel="x", ylabel="y", title="points")
        return style.save(figure, tmp_path_factory.mktemp("picture"), name="mse")


def small_report(folder: Path, saved: style.Saved) -> Path:
    lines = (
        Line("ours", promise_of("ours", "values"), 0.0, 0.0012),
        Line("published", promise_of("published", "values"), 0.21, 0.034),
        Line("ldp", promise_of("ldp", "values")),
    )
    figures = [
        FigureReport(
            "fig:mse_results_a",
            "Error of the mean <b>&</b> more",
            caption="Mean of ‖x‖².",
            pictures=(saved.svg,),
            parameters={"N": "2 000 to 64 000", "k": 20, "rule": "<script>alert(1)</script>"},
            lines=lines,
            runs=60,
            seed=1,
            seconds=125.0,
            csv="mse_results_a.csv",
            notes=("gowalla.csv.gz: a filtered subset",),
            participants=WHO,
        ),
        FigureReport("fig:geolife", "GeoLife", missing="geolife is not in the data folder"),
        FigureReport("fig:png", "As PNG", pictures=(saved.png,), runs=3, participants=WHO),
    ]
    claims = [
        Claim("One report costs ε", False, "2 ε by enumeration", "semilocal reproduce fig:mse_results_a"),
        Claim("The cost does not grow with the depth", True, "the last round only"),
    ]
    return write_report(folder, figures, version="0.1.0+abc", claims=claims)


def test_the_page_is_self_contained(tmp_path: Path, saved: style.Saved) -> None:
    path = small_report(tmp_path, saved)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.loads) == 2
    assert all(load.startswith("data:image/") for load in page.loads)
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    outside = re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
    assert not re.search(r"https?:|url\(|@import|//[a-z]", outside)
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".part"] == []


def test_the_page_says_what_a_reader_must_know(tmp_path: Path, saved: style.Saved) -> None:
    text = Page(small_report(tmp_path, saved).read_text(encoding="utf-8")).text
    for part in (
        "0.1.0+abc",
        "not protected",
        "any two places of one's region",
        "0.05",
        "1.5 ε inside",
        "ε inside",
        "✗ not kept",
        "✓ kept",
        "21 %",
        "0.12 %",
        "Not made: geolife is not in the data folder",
        "60 runs · seed 1 · 2 min 05 s",
        "mse_results_a.csv",
        "a filtered subset",
        "✗ does not hold",
        "<script>alert(1)</script>",  # as text
    ):
        assert part in text, part


def test_a_large_svg_gives_way_to_its_png(tmp_path: Path, saved: style.Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    from semilocal.lab.experiments import report

    monkeypatch.setattr(report, "LARGEST_SVG", 10)
    assert "data:image/svg" not in small_report(tmp_path, saved).read_text(encoding="utf-8")
