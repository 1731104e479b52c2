"""Figures: one look per method, readable in grey, the same bytes each time."""

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
from semilocal.lab.experiments.summary import Study

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
